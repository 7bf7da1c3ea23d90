//! The rate that this library is held against: redis-benchmark with scripts that do what RLock's do.
//!
//! redis-benchmark measures one command at a time, so a cycle's rate is put together from its halves: 1 /
//! (1/acquires + 1/releases), both at the same number of requests in flight (`-c 4 -P 16` are 64,
//! `-c 4 -P 64` are 256). Acquires meet free keys and releases meet held ones; keys are drawn from so many
//! that few are met twice. The library's cycles take a new name each, from as many: neither side works on
//! keys that the processor has at hand. The ratio is ours / theirs, in cycles per second: above 1 the
//! library, with all that it does beside the two calls, is faster than a program that does nothing but send
//! the reference's two scripts.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Acquire, Client, Kind, Wait};

use crate::{
    Failure,
    cycle::{self, Count, ROUNDS, Round},
    goals::{self, Bound, Ratio},
    median,
    support::Server,
};

/// Keys that are drawn from, and requests: one in forty meets a key for the second time. More keys would make
/// the rounds no better, and all of them are made anew for each.
const KEYS: u64 = 400_000;
const REQUESTS: u64 = 20_000;
const OWNER: &str = "00000000-0000-4000-8000-000000000000:1";

/// What RLock's tryLock asks: is it free or mine; count; set the lease.
const ACQUIRE: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end
return redis.call('pttl', KEYS[1])";

/// What RLock's unlock asks: was this answered before; is it mine; count down; delete, say so, and keep the
/// answer.
const RELEASE: &str = "
local said = redis.call('get', KEYS[3])
if said ~= false then
    return tonumber(said)
end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    redis.call('set', KEYS[3], 0, 'px', ARGV[5])
    return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[5])
return 1";

const HOLD_ALL: &str = "
for i = ARGV[2], ARGV[3] do
    redis.call('hset', string.format('k:%012d', i), ARGV[1], 1)
end";

pub(crate) async fn run() -> Result<(), Failure> {
    if Command::new("redis-benchmark").arg("--version").output().is_err() {
        println!("\nredis-benchmark is not here: nothing to compare with");
        return Ok(());
    }
    let server = Server::start(&[]);
    let acquire = server.ok(&["SCRIPT", "LOAD", ACQUIRE]);
    let release = server.ok(&["SCRIPT", "LOAD", RELEASE]);
    let client = cycle::connect(&server).await?;
    println!("\na cycle beside redis-benchmark on RLock's two scripts, as many in flight");
    println!("tasks   cycles/s  redis-benchmark  ratio");
    let mut ratios = Vec::new();
    for (pipeline, tasks) in [("16", 64), ("64", 256)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            server.ok(&["FLUSHALL"]);
            let round = fresh_names(&client, &server, tasks).await?;
            ours.push(round.cycles_per_s);
            let call = ["1", "k:__rand_int__", "30000", OWNER];
            let acquires = benchmark(&server, pipeline, &acquire, &call)?;
            server.ok(&["FLUSHALL"]);
            hold_all(&server);
            let call = [
                "3",
                "k:__rand_int__",
                "redisson_lock__channel:{k}",
                "redisson_unlock_latch:{k}:__rand_int__",
                "0",
                "30000",
                OWNER,
                "PUBLISH",
                "13500",
            ];
            let releases = benchmark(&server, pipeline, &release, &call)?;
            theirs.push(1.0 / (1.0 / acquires + 1.0 / releases));
        }
        let pairs = ours.iter().zip(&theirs);
        let ratio = Ratio::of(pairs.map(|(ours, theirs)| ours / theirs).collect());
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{tasks:>5} {ours:>10.0} {theirs:>16.0} {:>6.3}", ratio.median);
        ratios.push((tasks, ratio));
    }
    for (tasks, ratio) in ratios {
        let name = format!("cycles against redis-benchmark on RLock's scripts, {tasks} in flight");
        goals::ratio(&name, ratio, Bound::AtLeast(0.95));
    }
    client.close().await;
    Ok(())
}

/// One round of this library in which no name is met twice within as many cycles as there are keys.
async fn fresh_names(client: &Client, server: &Server, tasks: usize) -> Result<Round, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let cycle = |_, count: Arc<Count>| {
        let (client, next) = (client.clone(), Arc::clone(&next));
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed) % KEYS;
                let lock = client.lock(Kind::Reentrant, &format!("k:{number:012}"))?;
                let how = Acquire::default().wait(Wait::Try);
                lock.acquire_with(how).await?.release().await?;
                if !count.go_on() {
                    return Ok(());
                }
            }
        }
    };
    cycle::round(server, tasks, cycle).await
}

/// Every key that a release may draw is held, in pieces that do not hold the server up for long.
fn hold_all(server: &Server) {
    const PIECE: u64 = 20_000;
    for from in (0..KEYS).step_by(PIECE as usize) {
        let (first, last) = (from.to_string(), (from + PIECE - 1).to_string());
        server.ok(&["EVAL", HOLD_ALL, "0", OWNER, &first, &last]);
    }
    // Let the server do its housekeeping before the clock runs.
    std::thread::sleep(Duration::from_millis(200));
}

/// Calls per second.
fn benchmark(server: &Server, pipeline: &str, digest: &str, call: &[&str]) -> Result<f64, Failure> {
    let port = server.address().port().to_string();
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port, "-c", "4", "-P", pipeline])
        .args(["-n", &REQUESTS.to_string(), "-r", &KEYS.to_string()])
        .args(["--csv", "EVALSHA", digest])
        .args(call)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    // "<command>","<calls per second>",…
    let rate = text.lines().last().and_then(|line| line.split("\",\"").nth(1));
    let rate = rate.and_then(|rate| rate.trim_matches('"').parse().ok());
    rate.ok_or_else(|| format!("redis-benchmark said {text}").into())
}
