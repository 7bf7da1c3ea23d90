//! Watches servers while they work: MONITOR on each, its cost measured, successors followed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use chaos::watch::{WatchOptions, WatchedTraffic, Watcher};
use cluster_config::{External, MonitorLine, Role, TopologyKind};
use redis::Value;
use results::watch::WatchCost;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::Options;
use crate::command::run::Keeper;
use crate::exit;

/// What waits for this connection at a server before the watch ends: it must not fill the memory of a server.
const BUFFER_MAX: u64 = 32 << 20;
/// How often cost, buffers and the servers themselves are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row that show too high a cost end the watch.
const DEAR_LOOKS: u32 = 3;
/// Fewer commands than this say nothing of what one costs.
const COMMANDS_MIN: u64 = 200;
/// Lines of one piece that goes from a connection to the watcher.
const PIECE: usize = 64 << 10;

const OFFER: &str = "watch a replica with --light, look once with --once, or give --file what `redis-cli monitor` prints elsewhere";

/// Lines of one server, or the end of its connection.
struct Piece {
    source: usize,
    lines: Option<Vec<u8>>,
}

/// A server that is listened to.
struct Source {
    address: SocketAddr,
    task: Option<JoinHandle<()>>,
    usage: Option<(f64, u64)>,
}

/// Processor time in seconds and commands, by INFO.
async fn usage(servers: &External, address: SocketAddr) -> Option<(f64, u64)> {
    let Ok(Value::BulkString(info)) = servers.ask_server(address, &["INFO", "everything"]).await
    else {
        return None;
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let field = |name: &str| -> Option<f64> {
        let mut lines = info
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.next()?.trim().parse().ok()
    };
    let cpu_s = field("used_cpu_user")? + field("used_cpu_sys")?;
    Some((cpu_s, field("total_commands_processed")? as u64))
}

/// Cost per command between two looks, in microseconds, and commands.
fn between(before: (f64, u64), after: (f64, u64)) -> (Option<f64>, u64) {
    let commands = after.1.saturating_sub(before.1);
    let us = (after.0 - before.0) * 1e6 / commands.max(1) as f64;
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
        let Ok(Value::Array(time)) = servers.ask_server(*address, &["TIME"]).await else {
            continue;
        };
        let answered = began.elapsed().as_micros() as i64;
        let number = |value: Option<&Value>| -> Option<i64> {
            let Some(Value::BulkString(text)) = value else {
                return None;
            };
            std::str::from_utf8(text).ok()?.parse().ok()
        };
        if let (Some(seconds), Some(micros)) = (number(time.first()), number(time.get(1))) {
            let here = i64::midpoint(asked, answered);
            offsets.push((seconds * 1_000_000 + micros - here, (answered - asked) / 2));
        }
    }
    let low = offsets.iter().map(|(offset, doubt)| offset - doubt).min();
    let high = offsets.iter().map(|(offset, doubt)| offset + doubt).max();
    let apart = low.zip(high).map_or(0, |(low, high)| high - low);
    u64::try_from(apart).unwrap_or(0)
}

/// The replica of each master that is watched in its place.
async fn replicas(servers: &External) -> Vec<SocketAddr> {
    let mut of_masters = BTreeMap::new();
    for (address, _) in servers.data_servers() {
        if let Ok(Value::Array(role)) = servers.ask_server(address, &["ROLE"]).await
            && let [Value::BulkString(word), master, port, ..] = role.as_slice()
            && word == b"slave"
        {
            of_masters
                .entry(format!("{master:?}:{port:?}"))
                .or_insert(address);
        }
    }
    of_masters.into_values().collect()
}

struct LiveWatch<'a> {
    servers: External,
    light: bool,
    sources: Vec<Source>,
    send: mpsc::Sender<Piece>,
    keeper: &'a mut Keeper,
}

impl LiveWatch<'_> {
    /// Listens to a server from now on.
    async fn listen(&mut self, watcher: &mut Watcher, address: SocketAddr) -> Result<(), String> {
        let mut stream = self.servers.monitor(address).await?;
        let known = self
            .sources
            .iter()
            .position(|source| source.address == address);
        let source = known.unwrap_or(self.sources.len());
        if self.servers.topology().kind == TopologyKind::Masters {
            watcher.set_group(source, source);
        }
        let send = self.send.clone();
        let task = tokio::spawn(async move {
            let (mut line, mut lines) = (Vec::new(), Vec::with_capacity(PIECE));
            while stream.next(&mut line).await.unwrap_or(false) {
                lines.extend_from_slice(&line);
                if !stream.has_more() || lines.len() >= PIECE {
                    let lines = Some(std::mem::take(&mut lines));
                    if send.send(Piece { source, lines }).await.is_err() {
                        return;
                    }
                }
            }
            let _ = send
                .send(Piece {
                    source,
                    lines: None,
                })
                .await;
        });
        let listening = Source {
            address,
            task: Some(task),
            usage: None,
        };
        match known {
            Some(known) => self.sources[known] = listening,
            None => self.sources.push(listening),
        }
        Ok(())
    }

    /// The servers as lines of MONITOR call them.
    fn server_names(&self) -> Vec<String> {
        let all = self.servers.data_servers().into_iter();
        all.map(|(address, _)| address.to_string()).collect()
    }

    fn stop(&mut self) {
        for source in &mut self.sources {
            if let Some(task) = source.task.take() {
                task.abort();
            }
        }
    }

    /// Looks which servers there are now, and listens to new ones. A replica is listened to as well: once it is a master, nothing of it is missed.
    async fn follow(&mut self, watcher: &mut Watcher) {
        if self.light || self.servers.find_again().await.is_err() {
            return;
        }
        for (address, _) in self.servers.data_servers() {
            let listens = self
                .sources
                .iter()
                .any(|source| source.address == address && source.task.is_some());
            if !listens && self.listen(watcher, address).await.is_ok() {
                self.keeper
                    .terminal
                    .detail(&format!("{address} is watched from now on"));
            }
        }
    }

    /// What waits for these connections at the servers.
    async fn waits_at_servers(&self) -> u64 {
        let mut most = 0;
        for source in self.sources.iter().filter(|source| source.task.is_some()) {
            let listed = self
                .servers
                .ask_server(source.address, &["CLIENT", "LIST", "TYPE", "NORMAL"])
                .await;
            if let Ok(Value::BulkString(list)) = listed {
                let list = String::from_utf8_lossy(&list).into_owned();
                let ours = list
                    .lines()
                    .filter(|line| line.contains(" name=locklab-watch "));
                let waiting = ours.filter_map(|line| {
                    line.split(" omem=")
                        .nth(1)?
                        .split(' ')
                        .next()?
                        .parse::<u64>()
                        .ok()
                });
                most = most.max(waiting.max().unwrap_or(0));
            }
        }
        most
    }
}

/// Watches until the time is over, the user ends it, or it costs too much.
pub(super) async fn watch(
    servers: External,
    options: &Options,
    watching: WatchOptions,
    keeper: &mut Keeper,
) -> anyhow::Result<WatchedTraffic> {
    let cancel = keeper.cancel.clone();
    let of_role = |role: Role| -> Vec<SocketAddr> {
        let all = servers.data_servers().into_iter();
        all.filter(|one| one.1 == role).map(|one| one.0).collect()
    };
    let watched = match options.light {
        false => of_role(Role::Master),
        true => replicas(&servers).await,
    };
    if watched.is_empty() {
        return Err(exit::missing(
            "--light needs a replica, and none was found: the URL of a single replica will do; or watch the master without --light",
        ));
    }
    let standby = if options.light {
        Vec::new()
    } else {
        of_role(Role::Replica)
    };
    let price = match options.light {
        true => "a replica pays for it, no master",
        false => "a busy server spends about a quarter more on each command",
    };
    keeper.terminal.note(&format!(
        "MONITOR on {} for {:?} at most: {price}; ends beyond {} of a core (--max-cost)",
        watched
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        options.length,
        options.max_cost
    ));
    let mut before = BTreeMap::new();
    for address in &watched {
        before.insert(*address, usage(&servers, *address).await);
    }
    tokio::select! {
        () = sleep(LOOK) => {}
        () = cancel.wanted() => {}
    }
    let mut us_before: Option<f64> = None;
    for address in &watched {
        if let (Some(Some(first)), Some(second)) =
            (before.get(address), usage(&servers, *address).await)
        {
            let (us, _) = between(*first, second);
            us_before = greater(us_before, us);
        }
    }
    let mut watcher = Watcher::new(watching);
    let (send, mut pieces) = mpsc::channel(256);
    let mut live = LiveWatch {
        servers,
        light: options.light,
        sources: Vec::new(),
        send,
        keeper,
    };
    if watched.len() + standby.len() > 1 {
        let all: Vec<_> = watched.iter().chain(&standby).copied().collect();
        watcher.set_clock_doubt(clock_doubt_us(&live.servers, &all).await);
    }
    let mut cost = WatchCost {
        cpu_us_per_command_before: us_before,
        ..WatchCost::default()
    };
    let end = Instant::now() + options.length;
    let mut dear = 0;
    // The servers' own lines, as a replica hears them: a master's writes, which its own stream has shown.
    let mut from_servers = live.server_names();
    while cost.ended_by.is_empty() && !cancel.is_wanted() && Instant::now() < end {
        for address in watched.iter().chain(&standby) {
            if let Err(why) = live.listen(&mut watcher, *address).await
                && watched.contains(address)
            {
                live.stop();
                return Err(exit::missing(format!(
                    "MONITOR at {address}: {why}; {OFFER}"
                )));
            }
        }
        let slice_end = options
            .sample
            .map_or(end, |(on, _)| end.min(Instant::now() + on));
        let mut look = Instant::now() + LOOK;
        while cost.ended_by.is_empty() && Instant::now() < slice_end {
            let piece = tokio::select! {
                piece = timeout_at(look.min(slice_end), pieces.recv()) => piece,
                () = cancel.wanted() => break,
            };
            match piece {
                Ok(Some(Piece {
                    source,
                    lines: Some(lines),
                })) => {
                    for line in lines.split(|byte| *byte == b'\n') {
                        if let Some(line) = MonitorLine::parse(line)
                            && (options.light
                                || !from_servers
                                    .iter()
                                    .any(|server| server.as_bytes() == line.client))
                        {
                            watcher.line(source, &line);
                        }
                    }
                }
                Ok(Some(Piece {
                    source,
                    lines: None,
                })) => {
                    live.sources[source].task = None;
                    let address = live.sources[source].address;
                    live.keeper
                        .terminal
                        .detail(&format!("{address} has closed the connection"));
                }
                Ok(None) => break,
                Err(_) => {}
            }
            if Instant::now() < look {
                continue;
            }
            look = Instant::now() + LOOK;
            live.follow(&mut watcher).await;
            from_servers = live.server_names();
            let mut cores = 0.0_f64;
            for at in 0..live.sources.len() {
                let address = live.sources[at].address;
                let now = usage(&live.servers, address).await;
                if let (Some(last), Some(now)) = (live.sources[at].usage, now) {
                    let (us, commands) = between(last, now);
                    cost.cpu_us_per_command = greater(cost.cpu_us_per_command, us);
                    if let (Some(us), Some(before)) = (us, us_before) {
                        cores =
                            cores.max((us - before) * commands as f64 / LOOK.as_secs_f64() / 1e6);
                    }
                }
                live.sources[at].usage = now;
            }
            cost.cores = cost.cores.max(cores);
            dear = if cores > options.max_cost {
                dear + 1
            } else {
                0
            };
            if dear >= DEAR_LOOKS {
                cost.ended_by = format!(
                    "it took {cores:.2} of a core; more than {} is not allowed (--max-cost)",
                    options.max_cost
                );
            }
            let waiting = live.waits_at_servers().await;
            if waiting > BUFFER_MAX {
                cost.ended_by = format!("{} MB of lines were waiting at a server", waiting >> 20);
            }
        }
        if let Some((on, of)) = options.sample
            && Instant::now() < end
        {
            live.stop();
            while pieces.try_recv().is_ok() {}
            for source in 0..live.sources.len() {
                watcher.gap(source);
            }
            tokio::select! {
                () = sleep((of - on).min(end - Instant::now())) => {}
                () = cancel.wanted() => {}
            }
        }
    }
    live.stop();
    let names = live
        .sources
        .iter()
        .map(|source| source.address.to_string())
        .collect();
    let mut seen = watcher.finish();
    seen.report.servers = names;
    seen.report.source = if options.light { "light" } else { "monitor" }.to_owned();
    if !cost.ended_by.is_empty() {
        live.keeper
            .run
            .warnings
            .push(format!("the watch ended early: {}", cost.ended_by));
    }
    seen.report.cost = Some(cost);
    Ok(seen)
}
