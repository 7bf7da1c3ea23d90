//! Watches servers while they work: MONITOR on each, its cost measured, successors followed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{External, Role, TopologyKind};
use redis::Value;
use results::watch::WatchCost;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::run::RunError;
use crate::watch::lock::lock_state::WatchOptions;
use crate::watch::sources::listeners::{Listeners, ServerInfo};
use crate::watch::watcher::{WatchedTraffic, Watcher};

/// What waits for this connection at a server before the watch ends: it must not fill the memory of a server.
const BUFFER_MAX: u64 = 32 << 20;
/// How often cost, buffers and the servers themselves are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row that show too high a cost end the watch.
const DEAR_LOOKS: u32 = 3;
/// Fewer commands than this say nothing of what one costs.
const COMMANDS_MIN: u64 = 200;

const OFFER: &str = "watch a replica with --light, look once with --once, or give --file what `redis-cli monitor` prints elsewhere";

/// How servers are watched while they work.
#[derive(Debug, Clone)]
pub struct LiveWatch {
    /// The time at most.
    pub length: Duration,
    /// Watch for the first of each second.
    pub sample: Option<(Duration, Duration)>,
    /// Cores of a server that the watch may take.
    pub max_cost: f64,
    /// True ends it.
    pub cancel: watch::Receiver<bool>,
}

/// Cost per command between two looks, in microseconds, and commands.
fn cost_per_command(before: &ServerInfo, after: &ServerInfo) -> (Option<f64>, u64) {
    let commands = after.commands.saturating_sub(before.commands);
    let us = (after.cpu_s - before.cpu_s) * 1e6 / commands.max(1) as f64;
    ((commands >= COMMANDS_MIN).then_some(us), commands)
}

fn greater(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// How far the clocks of servers may be apart, in microseconds.
async fn clock_doubt_us(servers: &External, addresses: &[SocketAddr]) -> u64 {
    let mut offsets: Vec<(i64, i64)> = Vec::new();
    let began = Instant::now();
    for address in addresses {
        let asked = began.elapsed().as_micros() as i64;
        let time = servers.ask_server(*address, &["TIME"]).await;
        let answered = began.elapsed().as_micros() as i64;
        let time: Option<(i64, i64)> = time.ok().and_then(|time| redis::from_redis_value(time).ok());
        if let Some((seconds, micros)) = time {
            let here = i64::midpoint(asked, answered);
            offsets.push((seconds * 1_000_000 + micros - here, (answered - asked) / 2));
        }
    }
    let low = offsets.iter().map(|(offset, doubt)| offset - doubt).min();
    let high = offsets.iter().map(|(offset, doubt)| offset + doubt).max();
    u64::try_from(low.zip(high).map_or(0, |(low, high)| high - low)).unwrap_or(0)
}

/// The replica of each master that is watched in its place.
async fn replicas(servers: &External) -> Vec<SocketAddr> {
    let mut of_masters = BTreeMap::new();
    for (address, _) in servers.data_servers() {
        if let Ok(Value::Array(role)) = servers.ask_server(address, &["ROLE"]).await
            && let [Value::BulkString(word), master, port, ..] = role.as_slice()
            && word == b"slave"
        {
            let master = format!("{master:?}:{port:?}");
            of_masters.entry(master).or_insert(address);
        }
    }
    of_masters.into_values().collect()
}

struct RunningWatch<'a> {
    options: &'a LiveWatch,
    servers: External,
    light: bool,
    listeners: Listeners,
    cost: WatchCost,
    /// Looks in a row that showed too high a cost.
    dear: u32,
    note: &'a (dyn Fn(&str) + Sync),
}

impl RunningWatch<'_> {
    fn is_over(&self, end: Instant) -> bool {
        !self.cost.ended_by.is_empty() || *self.options.cancel.borrow() || Instant::now() >= end
    }

    /// Takes what comes until `end`, and looks at the servers in between.
    async fn listen_until(&mut self, end: Instant) {
        let mut look = Instant::now() + LOOK;
        while !self.is_over(end) {
            let changed = tokio::select! {
                changed = self.listeners.next(look.min(end)) => changed,
                () = cancelled(&self.options.cancel) => return,
            };
            if let Some(place) = changed {
                let source = &self.listeners.sources[place];
                let how = if source.listens { "is watched again" } else { "has closed the connection" };
                (self.note)(&format!("{} {how}", source.address));
            }
            if Instant::now() >= look {
                self.follow().await;
                self.measure_cost().await;
                look = Instant::now() + LOOK;
            }
        }
    }

    /// Looks which servers there are now, and listens to new ones. A replica is listened to as well: once it
    /// is a master, nothing of it is missed.
    async fn follow(&mut self) {
        if self.light || self.servers.find_again().await.is_err() {
            return;
        }
        let addresses = self.servers.data_servers().into_iter().map(|one| one.0);
        let addresses: Vec<SocketAddr> = addresses.collect();
        self.listeners.masters = addresses.iter().map(ToString::to_string).collect();
        for address in addresses {
            if !self.listeners.follows(address)
                && let Ok(true) = self.listeners.listen(&self.servers, address).await
            {
                (self.note)(&format!("{address} is watched from now on"));
            }
        }
    }

    /// Ends the watch where it takes too much of a server, of its processor or of its memory.
    async fn measure_cost(&mut self) {
        let (mut cores, mut waiting) = (0.0_f64, 0);
        for source in self.listeners.sources.iter_mut().filter(|source| source.listens) {
            let Some(now) = ServerInfo::of(&self.servers, source.address).await else { continue };
            if let Some(last) = &source.info {
                let (us, commands) = cost_per_command(last, &now);
                self.cost.cpu_us_per_command = greater(self.cost.cpu_us_per_command, us);
                if let (Some(us), Some(before)) = (us, self.cost.cpu_us_per_command_before) {
                    let added = (us - before) * commands as f64 / 1e6;
                    cores = cores.max(added / LOOK.as_secs_f64());
                }
            }
            source.looked(now);
            waiting = waiting.max(waits_at(&self.servers, source.address).await);
        }
        self.cost.cores = self.cost.cores.max(cores);
        let max_cost = self.options.max_cost;
        self.dear = if cores > max_cost { self.dear + 1 } else { 0 };
        if self.dear >= DEAR_LOOKS {
            self.cost.ended_by =
                format!("it took {cores:.2} of a core; more than {max_cost} is not allowed (--max-cost)");
        }
        if waiting > BUFFER_MAX {
            self.cost.ended_by = format!("{} MB of lines were waiting at a server", waiting >> 20);
        }
    }

    /// Does not listen for so long.
    async fn pause(&mut self, length: Duration) {
        self.listeners.stop().await;
        for source in 0..self.listeners.sources.len() {
            self.listeners.watcher.gap(source);
        }
        tokio::select! {
            () = sleep(length) => {}
            () = cancelled(&self.options.cancel) => {}
        }
    }
}

/// Bytes that wait for connections of a watch at a server.
async fn waits_at(servers: &External, address: SocketAddr) -> u64 {
    let list = ["CLIENT", "LIST", "TYPE", "NORMAL"];
    let Ok(Value::BulkString(list)) = servers.ask_server(address, &list).await else { return 0 };
    let list = String::from_utf8_lossy(&list);
    let ours = list.lines().filter(|line| line.contains(" name=locklab-watch "));
    let waiting = ours.filter_map(|line| {
        let (_, rest) = line.split_once(" omem=")?;
        rest.split(' ').next()?.parse().ok()
    });
    waiting.max().unwrap_or(0)
}

async fn cancelled(cancel: &watch::Receiver<bool>) {
    // Without a sender nobody can.
    if cancel.clone().wait_for(|is| *is).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a command costs each server before it is watched; the greatest.
async fn cost_before(
    servers: &External,
    watched: &[SocketAddr],
    cancel: &watch::Receiver<bool>,
) -> Option<f64> {
    let mut before = Vec::new();
    for address in watched {
        before.push(ServerInfo::of(servers, *address).await);
    }
    tokio::select! {
        () = sleep(LOOK) => {}
        () = cancelled(cancel) => {}
    }
    let mut us = None;
    for (address, before) in watched.iter().zip(before) {
        if let (Some(before), Some(after)) = (before, ServerInfo::of(servers, *address).await) {
            us = greater(us, cost_per_command(&before, &after).0);
        }
    }
    us
}

/// Watches until the time is over, it is cancelled, or it costs too much. With [`WatchOptions::effects_only`]
/// a replica of each master is watched.
///
/// # Errors
/// No replica, or a server that does not let this user listen; one that does not answer is waited for.
pub async fn watch_live(
    servers: External,
    options: &LiveWatch,
    watching: WatchOptions,
    note: &(dyn Fn(&str) + Sync),
) -> Result<WatchedTraffic, RunError> {
    let light = watching.effects_only;
    let of_role = |role: Role| -> Vec<SocketAddr> {
        servers.data_servers().into_iter().filter(|one| one.1 == role).map(|one| one.0).collect()
    };
    let (watched, standby, price) = match light {
        true => (replicas(&servers).await, Vec::new(), "a replica pays for it, no master"),
        false => (
            of_role(Role::Master),
            of_role(Role::Replica),
            "a busy server spends about a quarter more on each command",
        ),
    };
    if watched.is_empty() {
        return Err(RunError::Missing("--light needs a replica, and none was found: the URL of a single replica will do; or watch the master without --light".to_owned()));
    }
    let addresses: Vec<String> = watched.iter().map(ToString::to_string).collect();
    note(&format!(
        "MONITOR on {} for {:?} at most: {price}; ends beyond {} of a core (--max-cost)",
        addresses.join(", "),
        options.length,
        options.max_cost
    ));
    let cost = WatchCost {
        cpu_us_per_command_before: cost_before(&servers, &watched, &options.cancel).await,
        ..WatchCost::default()
    };
    let mut listeners = Listeners::new(Watcher::new(watching), servers.topology().kind);
    if servers.topology().kind == TopologyKind::Masters {
        listeners.watcher.set_members(watched.len());
    }
    let all: Vec<SocketAddr> = watched.iter().chain(&standby).copied().collect();
    if all.len() > 1 {
        let doubt = clock_doubt_us(&servers, &all).await;
        listeners.watcher.set_clock_doubt(doubt);
    }
    if !light {
        listeners.watcher.read_keys();
        let servers = servers.data_servers().into_iter();
        listeners.masters = servers.map(|(address, _)| address.to_string()).collect();
    }
    let mut running = RunningWatch { options, servers, light, listeners, cost, dear: 0, note };
    let end = Instant::now() + options.length;
    let mut is_first = true;
    while !running.is_over(end) {
        for address in &all {
            let listening = running.listeners.listen(&running.servers, *address).await;
            if !watched.contains(address) {
                continue;
            }
            let why = match listening {
                Ok(false) if is_first => {
                    note(&format!("{address} does not answer: it or its successor is waited for"));
                    continue;
                }
                Ok(_) => continue,
                Err(why) => why,
            };
            return Err(RunError::Missing(format!("MONITOR at {address}: {why}; {OFFER}")));
        }
        if std::mem::take(&mut is_first) {
            note("watched from now on");
        }
        let slice = options.sample.map(|(on, _)| Instant::now() + on);
        running.listen_until(slice.map_or(end, |slice| end.min(slice))).await;
        if let (Some((on, of)), false) = (options.sample, running.is_over(end)) {
            running.pause((of - on).min(end - Instant::now())).await;
        }
    }
    running.listeners.stop().await;
    let Listeners { watcher, sources, .. } = running.listeners;
    let mut seen = watcher.finish();
    let sources = sources.iter().map(|source| source.address.to_string());
    seen.report.servers = sources.collect();
    seen.report.source = if light { "light" } else { "monitor" }.to_owned();
    seen.report.cost = Some(running.cost);
    Ok(seen)
}
