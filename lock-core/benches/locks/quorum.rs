//! The pace of a quorum lock over several masters beside rslock's, and beside its own when one master is
//! slow.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Wait};

use crate::{
    Failure,
    cycle::ROUNDS,
    goals::{self, Bound, Ratio},
    lock_support::Relay,
    median,
    support::Server,
};

const LEASE: Duration = Duration::from_secs(30);
/// How much later each answer of the slow master comes.
const SLOW: Duration = Duration::from_millis(20);
const CYCLES: usize = 200;

pub(crate) async fn run() -> Result<(), Failure> {
    one_slow_master().await?;
    #[cfg(feature = "peer")]
    for masters in [3, 5] {
        beside_rslock(masters).await?;
        in_contention(masters).await?;
    }
    Ok(())
}

async fn connect(addresses: &[SocketAddr]) -> Result<Client, Failure> {
    let addresses: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    let target = format!("redlock://{}", addresses.join(",")).parse()?;
    Ok(Client::connect(&target, ClientOptions::default()).await?)
}

async fn one_slow_master() -> Result<(), Failure> {
    let servers: Vec<_> = (0..5).map(|_| Server::start(&[])).collect();
    let mut addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let direct = connect(&addresses).await?;
    let relay = Relay::start(addresses[4]).await;
    relay.delay(SLOW);
    addresses[4] = relay.address;
    let slow = connect(&addresses).await?;
    println!("\na redlock over 5 masters, and over the same with one whose answers come {SLOW:?} later");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let (usual, with_slow) = (median_cycle_us(&direct).await?, median_cycle_us(&slow).await?);
        println!("median cycle {usual:>8.0} µs, with the slow one {with_slow:>8.0} µs");
        ratios.push(with_slow / usual);
    }
    goals::ratio(
        "median cycle of a redlock with one slow master of five against none",
        Ratio::of(ratios),
        Bound::AtMost(1.1),
    );
    direct.close().await;
    slow.close().await;
    Ok(())
}

async fn median_cycle_us(client: &Client) -> Result<f64, Failure> {
    let how = Acquire::default().wait(Wait::Try).lease(Lease::Fixed(LEASE));
    let mut cycles_us = Vec::new();
    for cycle in 0..CYCLES {
        // A name of its own: the slow master may have the last one still when the others are free.
        let lock = client.lock(Kind::Redlock, &format!("slow:{cycle}"))?;
        let began = Instant::now();
        lock.acquire_with(how.clone()).await?.release().await?;
        cycles_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(cycles_us))
}

#[cfg(feature = "peer")]
async fn beside_rslock(masters: usize) -> Result<(), Failure> {
    use std::sync::Arc;

    use crate::{
        bare,
        cycle::{self, Count, Pairs},
        peer,
    };

    let servers: Vec<_> = (0..masters).map(|_| Server::start(&[])).collect();
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let client = connect(&addresses).await?;
    let urls = servers.iter().map(Server::url).collect();
    let mut manager = rslock::LockManager::new(urls);
    manager.set_retry(1, Duration::ZERO);
    println!(
        "\na redlock over {masters} masters: this library's, and rslock's; of the servers one is counted"
    );
    cycle::heading("rslock");
    let mut all = Vec::new();
    let mut bare_per_s = Vec::new();
    for tasks in [1, 16, 64] {
        let mut pairs = Pairs::default();
        for _ in 0..ROUNDS {
            let lease = Lease::Fixed(LEASE);
            let ours = cycle::library(&client, &servers[0], tasks, Kind::Redlock, lease);
            pairs.ours.push(ours.await?);
            let theirs = |task: usize, count: Arc<Count>| {
                let manager = manager.clone();
                async move { peer::cycles(&manager, format!("peer:{task}"), &count).await }
            };
            pairs.theirs.push(cycle::round(&servers[0], tasks, theirs).await?);
            if tasks == 1 {
                let bare = || bare::cycles_per_s(&servers);
                bare_per_s.push(tokio::task::block_in_place(bare)?);
            }
        }
        pairs.print(tasks, "");
        all.push((tasks, pairs));
    }
    for (tasks, pairs) in all {
        let name = format!("cycles of a redlock over {masters} masters against rslock, {tasks} tasks");
        goals::ratio(&name, pairs.rate(), Bound::AtLeast(2.0));
        println!(
            "      by processor time alone, with a client that cost nothing: {:.3} at most",
            pairs.ceiling(masters).median
        );
        if tasks == 1 {
            let theirs = pairs.theirs.iter().map(|theirs| theirs.cycles_per_s);
            let ratios = bare_per_s.iter().zip(theirs);
            let ratio = Ratio::of(ratios.map(|(bare, theirs)| bare / theirs).collect());
            println!("      by bare sockets, SET NX PX and a script, no lock around them: {ratio}");
        }
    }
    client.close().await;
    Ok(())
}

/// All tasks want one lock. Each library waits as it does by itself: rslock looks again after a random pause
/// of up to 200 ms.
#[cfg(feature = "peer")]
async fn in_contention(masters: usize) -> Result<(), Failure> {
    use std::sync::Arc;

    use crate::{
        cycle::{self, Count, Pairs},
        peer,
    };

    const TASKS: usize = 8;
    let servers: Vec<_> = (0..masters).map(|_| Server::start(&[])).collect();
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let client = connect(&addresses).await?;
    let lock = client.lock(Kind::Redlock, "one")?;
    let manager = rslock::LockManager::new(servers.iter().map(Server::url).collect());
    println!("\none redlock over {masters} masters that {TASKS} tasks want");
    cycle::heading("rslock");
    let mut pairs = Pairs::default();
    let mut commands = 0;
    for _ in 0..ROUNDS {
        let before = client.stats().commands;
        let ours = |_: usize, count: Arc<Count>| {
            let how = Acquire::default().lease(Lease::Fixed(LEASE));
            let lock = lock.clone();
            async move { cycle::cycles(lock, how, &count).await }
        };
        pairs.ours.push(cycle::round(&servers[0], TASKS, ours).await?);
        commands += client.stats().commands - before;
        let theirs = |_: usize, count: Arc<Count>| {
            let manager = manager.clone();
            async move { peer::cycles(&manager, "peer".to_owned(), &count).await }
        };
        pairs.theirs.push(cycle::round(&servers[0], TASKS, theirs).await?);
    }
    let cycles: f64 = pairs.ours.iter().map(|ours| ours.cycles).sum();
    let each = format!("{:.1} commands for each hand-off", commands as f64 / cycles);
    pairs.print(TASKS, &each);
    let name =
        format!("cycles of one redlock over {masters} masters that {TASKS} tasks want, against rslock");
    goals::ratio(&name, pairs.rate(), Bound::AtLeast(2.0));
    client.close().await;
    Ok(())
}
