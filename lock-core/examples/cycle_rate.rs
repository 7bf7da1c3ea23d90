//! Two rates: acquire-release cycles by this library, and the same two scripts sent bare.
//!
//! `cargo run --release --example cycle_rate -- redis://127.0.0.1:6379 [tasks]`. The two are measured in
//! turns, since a machine's pace drifts; each task has a lock of its own.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{Acquire, Client, ClientOptions, Kind, Lock, Wait};
use redis::aio::MultiplexedConnection;

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: cycle_rate URL [TASKS]")?;
    let tasks: usize = arguments.next().map_or(Ok(64), |tasks| tasks.parse())?;
    let client = Client::connect(&url.parse()?, ClientOptions::default()).await?;
    let bare = redis::Client::open(url.as_str())?;
    let bare = bare.get_multiplexed_async_connection().await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cycle = |task: usize| {
            let lock = client.lock(Kind::Reentrant, &format!("cycle-rate:{task}"));
            async move { library(lock?).await }
        };
        ours.push(rate(tasks, cycle).await?);
        let cycle = |task: usize| bare_scripts(bare.clone(), format!("cycle-rate:{task}"));
        theirs.push(rate(tasks, cycle).await?);
    }
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let (ours, theirs) = (ours[ROUNDS / 2], theirs[ROUNDS / 2]);
    let ratio = ours / theirs;
    // An example's output is what it is for.
    #[allow(clippy::print_stdout)]
    {
        println!("{tasks} tasks: library {ours:.0} cycles/s, bare {theirs:.0} cycles/s, ratio {ratio:.3}");
    }
    client.close().await;
    Ok(())
}

/// Cycles done so far by one task, and the sign to stop.
struct Count {
    done: AtomicU64,
    stop: AtomicBool,
}

tokio::task_local! {
    static COUNT: Arc<Count>;
}

async fn rate<F, C>(tasks: usize, cycle: C) -> Result<f64, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
    C: Fn(usize) -> F,
{
    let count = Arc::new(Count { done: AtomicU64::new(0), stop: AtomicBool::new(false) });
    let began = Instant::now();
    let running: Vec<_> =
        (0..tasks).map(|task| tokio::spawn(COUNT.scope(Arc::clone(&count), cycle(task)))).collect();
    tokio::time::sleep(ROUND).await;
    count.stop.store(true, Ordering::Relaxed);
    for task in running {
        task.await??;
    }
    Ok(count.done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

/// Counts a cycle; false when it was the last.
fn go_on() -> bool {
    COUNT.with(|count| {
        count.done.fetch_add(1, Ordering::Relaxed);
        !count.stop.load(Ordering::Relaxed)
    })
}

async fn library(lock: Lock) -> Result<(), Failure> {
    let how = Acquire::default().wait(Wait::Try);
    loop {
        lock.acquire_with(how.clone()).await?.release().await?;
        if !go_on() {
            return Ok(());
        }
    }
}

async fn bare_scripts(mut connection: MultiplexedConnection, name: String) -> Result<(), Failure> {
    let acquire = redis::Script::new(include_str!("../scripts/acquire.lua"));
    let release = redis::Script::new(include_str!("../scripts/release.lua"));
    let owner = format!("00000000-0000-4000-8000-000000000000:{name}");
    let channel = format!("redisson_lock__channel:{{{name}}}");
    loop {
        let mut call = acquire.key(&name);
        let taken: Option<i64> = call.arg(30_000).arg(&owner).invoke_async(&mut connection).await?;
        if taken.is_some() {
            return Err("another holds the lock".into());
        }
        let mut call = release.key(&name);
        let call = call.key(&channel).arg(&owner).arg("PUBLISH");
        let () = call.invoke_async(&mut connection).await?;
        if !go_on() {
            return Ok(());
        }
    }
}
