//! What a task does over and over, by the rhythm of its workload.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use super::{Connector, LoadTiming, SharedClient, Task, TaskHold};
use crate::{subject::Caller, workload::Rhythm};

/// Goes round until the end of the load, or of the task's client.
pub(crate) async fn run(task: Task) {
    match task.shared.load.workload.rhythm {
        _ if task.shared.ticks.is_some() => paced(task).await,
        Rhythm::Cycles => cycles(task).await,
        Rhythm::Chain => chain(task).await,
        Rhythm::Herd => herd(task).await,
        Rhythm::Keep => keep(task).await,
        Rhythm::Crash => crash(task).await,
        Rhythm::Churn => churn(task).await,
    }
}

async fn cycles(mut task: Task) {
    let mut caller = task.caller();
    while task.running().await {
        cycle(&mut task, &mut caller).await;
    }
}

pub(crate) async fn cycle(task: &mut Task, caller: &mut Option<Box<dyn Caller>>) {
    let asked = task.draw();
    if let Some(caller) = caller {
        task.cycle_of(&mut **caller, asked).await;
    } else if let Some(held) = task.acquire(asked, None).await {
        task.keep(held).await;
    }
    task.think().await;
}

/// The open loop. A cycle that is due while every task is busy waits and is late; none is ever left out.
async fn paced(mut task: Task) {
    let shared = task.shared.clone();
    let ticks = shared.ticks.as_ref().expect("an open loop has a schedule");
    while task.running().await {
        let Some(Ok(tick)) = task.unless_over(ticks.due.acquire()).await else { return };
        tick.forget();
        let due = ticks.next();
        let asked = task.draw();
        if let Some(held) = task.acquire(asked, due).await {
            task.keep(held).await;
        }
    }
}

async fn chain(mut task: Task) {
    let shared = task.shared.clone();
    while task.running().await {
        let asked = task.draw();
        let Some(held) = task.acquire(asked, None).await else {
            task.think().await;
            continue;
        };
        let mut grants = shared.grants.subscribe();
        let mine = *grants.borrow_and_update();
        task.keep(held).await;
        if shared.load.own_tasks() > 1 {
            task.unless_over(grants.wait_for(|grants| *grants > mine)).await;
        }
        task.think().await;
    }
}

async fn herd(mut task: Task) {
    let shared = task.shared.clone();
    let member = shared.herd.member();
    while task.running().await {
        if task.unless_over(member.gather()).await.is_none() {
            return;
        }
        let arrived = Instant::now();
        let asked = task.draw();
        if let Some(held) = task.acquire(asked, None).await {
            task.keep(held).await;
        }
        if task.unless_over(member.gather()).await == Some(true) {
            task.sink.timed(&task, LoadTiming::Wave, arrived, Instant::now());
        }
        task.think().await;
    }
}

async fn keep(mut task: Task) {
    let shared = task.shared.clone();
    let mut held = Vec::new();
    for _ in 0..shared.keys.own(task.number) {
        let asked = task.draw();
        // A lock that cannot be taken now is asked for again: all of them are to be held.
        while task.running().await {
            if let Some(hold) = task.acquire(asked.clone(), None).await {
                held.push(hold);
                break;
            }
        }
    }
    shared.preparing.fetch_sub(1, SeqCst);
    task.unless_over(std::future::pending::<()>()).await;
    let now = Instant::now();
    for hold in held {
        // Given back with its client, which closes after the load; a hold ends at the latest here.
        task.sink.abandoned(&task, &hold, now);
    }
}

async fn crash(mut task: Task) {
    while task.running().await {
        let Some(mortal) = connected(&task).await else { continue };
        let asked = task.draw();
        let Some(held) = task.acquire_by(&mortal, asked.clone(), None).await else {
            close(&task, mortal).await;
            continue;
        };
        let leased = task.shared.load.lease.unwrap_or_default();
        let lease_end = held.sent_at.unwrap_or_else(Instant::now) + leased;
        let died = Instant::now();
        task.sink.abandoned(&task, &held, died);
        // Closing gives nothing back: to the servers a client that closes is one that died.
        close(&task, mortal).await;
        let Some(next) = task.acquire(asked, None).await else { continue };
        for (what, from) in [(LoadTiming::Recovery, died), (LoadTiming::RecoveryLate, lease_end)] {
            task.sink.timed(&task, what, from, next.granted);
        }
        task.release(next).await;
    }
}

async fn churn(mut task: Task) {
    while task.running().await {
        let began = Instant::now();
        let asked = task.draw();
        let Some(client) = connected(&task).await else { continue };
        task.sink.timed(&task, LoadTiming::Connect, began, Instant::now());
        if let Some(held) = task.acquire_by(&client, asked, None).await {
            let TaskHold { asked, .. } = &held;
            task.pause(asked.keep).await;
            task.release_by(&client, held).await;
        }
        close(&task, client).await;
    }
}

fn connector(task: &Task) -> &Connector {
    task.shared.connector.as_ref().expect("a measured load")
}

async fn connected(task: &Task) -> Option<SharedClient> {
    let connector = connector(task);
    match connector.subject.connect(&connector.to).await {
        Ok(connected) => Some(Arc::new(connected.client)),
        Err(error) => {
            tokio::time::sleep(task.sink.not_connected(task, &error.to_string())).await;
            None
        }
    }
}

async fn close(task: &Task, client: SharedClient) {
    connector(task).close(client).await;
}
