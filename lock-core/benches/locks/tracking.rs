//! What it costs to follow the keys of held locks: for a lock that is held, and for short cycles beside it.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use lock_core::{Client, ClientOptions, KeyTracking, Kind, Lease};

use crate::{
    Failure,
    cycle::{self, Pairs, ROUNDS},
    median,
    support::Server,
    usage,
};

const LOCKS: u32 = 2_000;
/// A key is followed from the first second on.
const HOLD: Duration = Duration::from_millis(1_500);

pub(crate) async fn run() -> Result<(), Failure> {
    let server = Server::start(&[]);
    let connect = async |how| {
        let options = ClientOptions::default().key_tracking(how);
        Ok::<_, Failure>(Client::connect(&server.url().parse()?, options).await?)
    };
    let off = connect(KeyTracking::Off).await?;
    let on = connect(KeyTracking::On).await?;
    let others = cycle::connect(&server).await?;
    let (mut held, mut beside) = ([Vec::new(), Vec::new()], Pairs::default());
    for _ in 0..ROUNDS {
        held[0].push(hold(&off, &server, &others, &mut beside.theirs).await?);
        held[1].push(hold(&on, &server, &others, &mut beside.ours).await?);
    }
    println!(
        "\nkeys of locks that are held for {HOLD:?} followed, and not: server us a lock, client us a lock, commands a lock"
    );
    for (name, rounds) in ["not followed", "followed"].into_iter().zip(held) {
        let each = |of: usize| median(rounds.iter().map(|round: &[f64; 3]| round[of]).collect());
        println!("{name:<13} {:>8.2} {:>8.2} {:>8.2}", each(0), each(1), each(2));
    }
    println!("\nshort cycles of 16 tasks beside {LOCKS} held locks that are followed, and not");
    cycle::heading("unfollowed");
    beside.print(16, "");
    Ok(())
}

/// Takes the locks, holds them, and gives them back; in between others have short cycles, which are measured
/// apart.
async fn hold(
    client: &Client,
    server: &Server,
    others: &Client,
    beside: &mut Vec<cycle::Round>,
) -> Result<[f64; 3], Failure> {
    let (me, it) = (std::process::id(), usage::pid(server)?);
    let now = || Ok::<_, Failure>([usage::cpu(it)?, usage::cpu(me)?]);
    let commands = client.stats().commands;
    let (began, before) = (Instant::now(), now()?);
    let locks: Vec<_> = (0..LOCKS)
        .map(|number| client.lock(Kind::Reentrant, &format!("held:{number}")))
        .collect::<Result<_, _>>()?;
    let guards = try_join_all(locks.iter().map(|lock| lock.acquire())).await?;
    tokio::time::sleep(HOLD.saturating_sub(began.elapsed())).await;
    let followed = now()?;
    let lease = Lease::Fixed(Duration::from_secs(30));
    beside.push(cycle::library(others, server, 16, Kind::Plain, lease).await?);
    let again = now()?;
    try_join_all(guards.into_iter().map(|guard| guard.release())).await?;
    let after = now()?;
    let commands = (client.stats().commands - commands) as f64 / f64::from(LOCKS);
    let us = |of: usize| {
        let spent = (followed[of] - before[of]) + (after[of] - again[of]);
        spent.as_secs_f64() * 1e6 / f64::from(LOCKS)
    };
    Ok([us(0), us(1), commands])
}
