//! Rates and processor time of two ways to take and give back locks: this library's and the bare commands.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Lock, Wait};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

use crate::{
    Failure,
    goals::{self, Bound, Ratio},
    median,
    support::Server,
    usage,
};

pub(crate) const ROUND: Duration = Duration::from_millis(600);
pub(crate) const ROUNDS: usize = 7;
pub(crate) const TASKS: [usize; 4] = [1, 16, 64, 256];

/// What a round came to.
pub(crate) struct Round {
    #[cfg(feature = "peer")]
    pub(crate) cycles: f64,
    pub(crate) cycles_per_s: f64,
    client_us: f64,
    server_us: f64,
}

/// Rounds of two sides that took turns.
#[derive(Default)]
pub(crate) struct Pairs {
    pub(crate) ours: Vec<Round>,
    pub(crate) theirs: Vec<Round>,
}

impl Pairs {
    fn ratio(&self, of: fn(&Round) -> f64) -> Ratio {
        let pairs = self.ours.iter().zip(&self.theirs);
        Ratio::of(pairs.map(|(ours, theirs)| of(ours) / of(theirs)).collect())
    }

    pub(crate) fn rate(&self) -> Ratio {
        self.ratio(|round| round.cycles_per_s)
    }

    pub(crate) fn client(&self) -> Ratio {
        self.ratio(|round| round.client_us)
    }

    pub(crate) fn server(&self) -> Ratio {
        self.ratio(|round| round.server_us)
    }

    /// What the rate could be at most if this client cost nothing and every processor were busy with the
    /// servers alone.
    #[cfg(feature = "peer")]
    pub(crate) fn ceiling(&self, servers: usize) -> Ratio {
        let servers = servers as f64;
        let pairs = self.ours.iter().zip(&self.theirs);
        let each = pairs.map(|(ours, theirs)| {
            (theirs.client_us + servers * theirs.server_us) / (servers * ours.server_us)
        });
        Ratio::of(each.collect())
    }

    /// A line of the table that `heading` begins.
    pub(crate) fn print(&self, tasks: usize, note: &str) {
        let each = |rounds: &[Round], of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
        let both = |of: fn(&Round) -> f64| (each(&self.ours, of), each(&self.theirs, of));
        let (rate, their_rate) = both(|round| round.cycles_per_s);
        let (client, their_client) = both(|round| round.client_us);
        let (server, their_server) = both(|round| round.server_us);
        println!(
            "{tasks:>5} {rate:>10.0} {their_rate:>10.0} {:>6.3} {client:>11.2} {their_client:>6.2} {:>6.3} \
             {server:>11.2} {their_server:>6.2} {:>6.3}   {note}",
            self.rate().median,
            self.client().median,
            self.server().median,
        );
    }
}

/// Begins a table of rates and processor time per cycle.
pub(crate) fn heading(theirs: &str) {
    println!(
        "tasks   cycles/s {theirs:>10}  ratio   client us {theirs:>6}  ratio   server us {theirs:>6}  ratio"
    );
}

pub(crate) async fn run() -> Result<(), Failure> {
    let server = Server::start(&[]);
    let client = connect(&server).await?;
    let bare = redis::Client::open(server.url())?;
    let bare = bare.get_multiplexed_async_connection().await?;
    println!(
        "an uncontended cycle: this library ({}), and the same two commands through redis-rs alone",
        match (cfg!(feature = "tracing"), cfg!(feature = "metrics")) {
            (false, false) => "without telemetry",
            (true, false) => "with `tracing`, without a subscriber",
            (false, true) => "with `metrics`, without an exporter",
            (true, true) => "with `tracing` and `metrics`, which nobody takes",
        }
    );
    heading("bare");
    let mut all = Vec::new();
    for lease in [Lease::Renewed, Lease::Fixed(Duration::from_secs(30))] {
        for tasks in TASKS {
            let mut pairs = Pairs::default();
            for _ in 0..ROUNDS {
                let ours = library(&client, &server, tasks, Kind::Reentrant, lease);
                pairs.ours.push(ours.await?);
                pairs.theirs.push(scripts(&bare, &server, tasks).await?);
            }
            pairs.print(tasks, &format!("{lease:?}"));
            all.push((tasks, lease, pairs));
        }
    }
    for (tasks, lease, pairs) in all {
        let name = |what: &str| format!("{what} against a bare loop, {tasks} tasks, {lease:?}");
        goals::ratio(&name("cycles"), pairs.rate(), Bound::AtLeast(1.0));
        let client = name("client's processor time per cycle");
        goals::ratio(&client, pairs.client(), Bound::AtMost(1.15));
        let server = name("server's processor time per cycle");
        goals::ratio(&server, pairs.server(), Bound::AtMost(1.15));
    }
    client.close().await;
    Ok(())
}

pub(crate) async fn connect(server: &Server) -> Result<Client, Failure> {
    Ok(Client::connect(&server.url().parse()?, ClientOptions::default()).await?)
}

/// One round of this library: each task has a lock of its own.
pub(crate) async fn library(
    client: &Client,
    server: &Server,
    tasks: usize,
    kind: Kind,
    lease: Lease,
) -> Result<Round, Failure> {
    let cycle = |task: usize, count: Arc<Count>| {
        let lock = client.lock(kind, &format!("cycle:{task}"));
        let how = Acquire::default().wait(Wait::Try).lease(lease);
        async move { cycles(lock?, how, &count).await }
    };
    round(server, tasks, cycle).await
}

pub(crate) async fn cycles(lock: Lock, how: Acquire, count: &Count) -> Result<(), Failure> {
    loop {
        lock.acquire_with(how.clone()).await?.release().await?;
        if !count.go_on() {
            return Ok(());
        }
    }
}

async fn scripts(bare: &MultiplexedConnection, server: &Server, tasks: usize) -> Result<Round, Failure> {
    let cycle = |task: usize, count: Arc<Count>| {
        let bare = bare.clone();
        async move { bare_cycles(bare, format!("cycle:{task}"), &count).await }
    };
    round(server, tasks, cycle).await
}

/// The leanest loop that the client library allows: by digest, nothing checked but that it worked.
async fn bare_cycles(
    mut connection: MultiplexedConnection,
    name: String,
    count: &Count,
) -> Result<(), Failure> {
    let acquire = redis::Script::new(include_str!("../../scripts/acquire.lua"));
    let release = redis::Script::new(include_str!("../../scripts/release.lua"));
    for script in [&acquire, &release] {
        script.prepare_invoke().load_async(&mut connection).await?;
    }
    let owner = format!("00000000-0000-4000-8000-000000000000:{name}");
    let channel = format!("redisson_lock__channel:{{{name}}}");
    loop {
        let mut call = redis::cmd("EVALSHA");
        call.arg(acquire.get_hash()).arg(1).arg(&name);
        call.arg(30_000).arg(&owner);
        let taken: Option<i64> = call.query_async(&mut connection).await?;
        let mut call = redis::cmd("EVALSHA");
        call.arg(release.get_hash()).arg(2).arg(&name);
        call.arg(&channel).arg(&owner).arg("PUBLISH");
        let freed: Option<i64> = call.query_async(&mut connection).await?;
        if taken.is_some() || freed != Some(1) {
            return Err("another holds the lock".into());
        }
        if !count.go_on() {
            return Ok(());
        }
    }
}

/// Cycles done so far by all tasks, and the sign to stop.
pub(crate) struct Count {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Count {
    /// Counts a cycle; false when it was the last.
    pub(crate) fn go_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the tasks of one side for a while.
pub(crate) async fn round<F, C>(server: &Server, tasks: usize, cycle: C) -> Result<Round, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
    C: Fn(usize, Arc<Count>) -> F,
{
    round_on(&Handle::current(), server, tasks, cycle).await
}

/// The same, the tasks on a runtime.
pub(crate) async fn round_on<F, C>(
    runtime: &Handle,
    server: &Server,
    tasks: usize,
    cycle: C,
) -> Result<Round, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
    C: Fn(usize, Arc<Count>) -> F,
{
    let count = Arc::new(Count { done: AtomicU64::new(0), stop: AtomicBool::new(false) });
    let (client, server) = (std::process::id(), usage::pid(server)?);
    let before = (usage::cpu(client)?, usage::cpu(server)?);
    let began = Instant::now();
    let running: Vec<_> = (0..tasks).map(|task| runtime.spawn(cycle(task, Arc::clone(&count)))).collect();
    tokio::time::sleep(ROUND).await;
    count.stop.store(true, Ordering::Relaxed);
    for task in running {
        task.await??;
    }
    let took = began.elapsed();
    let after = (usage::cpu(client)?, usage::cpu(server)?);
    let cycles = count.done.load(Ordering::Relaxed) as f64;
    let us = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1e6 / cycles;
    Ok(Round {
        #[cfg(feature = "peer")]
        cycles,
        cycles_per_s: cycles / took.as_secs_f64(),
        client_us: us(before.0, after.0),
        server_us: us(before.1, after.1),
    })
}
