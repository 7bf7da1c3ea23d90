//! Watches servers while they work: MONITOR on each, its cost measured, successors followed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{External, Role, TopologyKind};
use futures_util::future::join_all;
use itertools::Itertools;
use redis::Value;
use results::watch::WatchCost;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::run::{RunError, cancelled};
use crate::watch::lock::lock_state::WatchOptions;
use crate::watch::sources::listeners::{Listeners, OpenedListener, ServerInfo};
use crate::watch::watcher::{WatchedTraffic, Watcher};

/// What waits for this connection at a server before the watch ends: it must not fill the memory of a server.
const BUFFER_MAX: u64 = 32 << 20;
/// How often cost, buffers and the servers themselves are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row that show too high a cost end the watch.
const DEAR_LOOKS: u32 = 3;
/// A light watch of a group or a cluster waits so many looks for another replica: sentinels make one of an
/// old master after 8 s or more.
const REPLACING_LOOKS: u32 = 20;
/// Fewer commands than this say nothing of what one costs.
const COMMANDS_MIN: u64 = 200;
/// The share of what a busy server uses that MONITOR takes: it makes a command cost 28 % more.
const LISTENED_SHARE: f64 = 0.22;
/// A line costs less than this in microseconds, however long the command itself takes.
const LINE_MOST_US: f64 = 20.0;

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

/// Commands per second at a server, and the cores that it used.
#[derive(Debug, Clone, Copy)]
struct ServerLoad {
    commands_per_s: f64,
    cores: f64,
}

impl ServerLoad {
    /// Between two looks; `None`: too few commands to say what one costs.
    fn between(before: &ServerInfo, after: &ServerInfo) -> Option<ServerLoad> {
        let commands = after.commands.saturating_sub(before.commands);
        let seconds = (after.at - before.at).as_secs_f64();
        (commands >= COMMANDS_MIN && seconds > 0.0).then(|| ServerLoad {
            commands_per_s: commands as f64 / seconds,
            cores: (after.cpu_s - before.cpu_s) / seconds,
        })
    }

    fn us_per_command(self) -> f64 {
        self.cores / self.commands_per_s * 1e6
    }

    /// Cores that the watch takes of it. What a command cost before says that while about as many run. An
    /// idle server spends its time on few commands, so beside many more, or where none ran before, it is the
    /// usual share of what the server uses.
    fn cores_of_watch(self, before: Option<ServerLoad>) -> f64 {
        let per_command = |us: f64| us * self.commands_per_s / 1e6;
        let more = before.map(|before| per_command(self.us_per_command() - before.us_per_command()));
        match (before, more) {
            (Some(before), Some(more)) if self.commands_per_s <= 2.0 * before.commands_per_s => more,
            _ => more.unwrap_or(0.0).max((LISTENED_SHARE * self.cores).min(per_command(LINE_MOST_US))),
        }
    }
}

/// What is known of a server that is watched.
#[derive(Default)]
struct WatchedServer {
    /// Its load before the watch.
    before: Option<ServerLoad>,
    last: Option<ServerInfo>,
    /// The numbers of connections of watches there.
    ids: Vec<String>,
    /// It was asked and has not answered yet.
    is_asked: bool,
    /// Looks in a row that showed too high a cost.
    dear: u32,
}

/// What servers have answered, as the watch takes it.
type ServerAnswer = Box<dyn FnOnce(&mut RunningWatch<'_>) + Send>;

/// What a server says of itself, and what waits at it for connections of a watch; `ids`: their numbers.
async fn look_at_server(servers: External, address: SocketAddr, ids: Vec<String>) -> ServerAnswer {
    let info = ServerInfo::of(&servers, address).await;
    let waiting = waits_at(&servers, address, &ids).await;
    Box::new(move |watch| watch.see_server(address, info, waiting))
}

/// Which servers there are now, those that are to be watched from now on among them. `followed`: the servers
/// that are watched by now; `has_new`: the clocks of some are not known yet.
async fn find_servers(
    mut servers: External,
    light: bool,
    followed: Vec<SocketAddr>,
    has_new: bool,
) -> ServerAnswer {
    if servers.find_again().await.is_err() {
        return Box::new(|watch| watch.is_finding = false);
    }
    let shards = if light { shards(&servers).await } else { Vec::new() };
    let is_followed = |address: &SocketAddr| followed.contains(address);
    // A replica is listened to as well: once it is a master, nothing of it is missed.
    let mut wanted: Vec<SocketAddr> = servers.data_servers().into_iter().map(|one| one.0).collect();
    wanted.retain(|address| !is_followed(address));
    if light {
        let unseen = shards.iter().filter(|shard| !shard.replicas.iter().any(is_followed));
        wanted = unseen.map(|shard| shard.replicas[0]).collect();
    }
    let mut opened = Vec::new();
    for address in wanted {
        let listener = OpenedListener::open(&servers, address).await.ok();
        opened.extend(listener.filter(|one| one.stream.is_some()).map(|listener| (address, listener)));
    }
    let all: Vec<SocketAddr> = followed.into_iter().chain(opened.iter().map(|one| one.0)).collect();
    let is_asked = has_new || !opened.is_empty();
    let clock_doubt_us = if is_asked { clock_doubt_us(&servers, &all).await } else { 0 };
    Box::new(move |watch| {
        watch.is_finding = false;
        watch.listeners.watcher.set_clock_doubt(clock_doubt_us);
        watch.servers = servers;
        watch.see_servers(opened, &shards);
    })
}

fn greater(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// Whether a server has understood and does not do it for this user, or for nobody.
fn is_refusal(why: &str) -> bool {
    why.starts_with("NoPerm") || why.contains("nknown command")
}

/// How far the clocks of servers may be apart, in microseconds.
async fn clock_doubt_us(servers: &External, addresses: &[SocketAddr]) -> u64 {
    let (mut said, began) = (Vec::new(), Instant::now());
    for address in addresses {
        let asked = began.elapsed().as_micros() as i64;
        let time = servers.ask_server(*address, &["TIME"]).await;
        let answered = began.elapsed().as_micros() as i64;
        let time: Option<(i64, i64)> = time.ok().and_then(|time| redis::from_redis_value(time).ok());
        said.extend(time.map(|(seconds, micros)| (asked, answered, seconds * 1_000_000 + micros)));
    }
    apart_us(&said)
}

/// The same of what each has said between two moments.
fn apart_us(said: &[(i64, i64, i64)]) -> u64 {
    let low = said.iter().map(|(_, answered, time)| time - answered).min();
    let high = said.iter().map(|(asked, _, time)| time - asked).max();
    u64::try_from(low.zip(high).map_or(0, |(low, high)| high - low)).unwrap_or(0)
}

/// The replicas of one master, of which one is watched in its place.
struct Shard {
    /// Where a replica's connection to the master ends.
    port: u16,
    replicas: Vec<SocketAddr>,
}

async fn shards(servers: &External) -> Vec<Shard> {
    let mut of_masters = BTreeMap::new();
    for (address, _) in servers.data_servers() {
        if let Ok(Value::Array(role)) = servers.ask_server(address, &["ROLE"]).await
            && let [Value::BulkString(word), Value::BulkString(host), Value::Int(port), ..] = role.as_slice()
            && word == b"slave"
        {
            let port = u16::try_from(*port).unwrap_or(0);
            let shard = of_masters.entry((host.clone(), port));
            let shard = shard.or_insert_with(|| Shard { port, replicas: Vec::new() });
            shard.replicas.push(address);
        } else if servers.topology().kind == TopologyKind::Single {
            // Its URL names the master alone.
            let (replicas, host) = (servers.replicas_of(address).await, address.ip().to_string());
            if !replicas.is_empty() {
                let shard = Shard { port: address.port(), replicas };
                of_masters.insert((host.into_bytes(), address.port()), shard);
            }
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
    watched: HashMap<SocketAddr, WatchedServer>,
    /// Questions to servers, beside the listening: one that does not answer keeps no line waiting.
    looks: JoinSet<ServerAnswer>,
    is_finding: bool,
    /// Servers whose clocks were asked while they answered.
    timed: HashSet<SocketAddr>,
    /// Looks in a row at which no replica was left to a light watch.
    bare_looks: u32,
    warnings: Vec<String>,
    note: &'a (dyn Fn(&str) + Sync),
}

impl RunningWatch<'_> {
    fn is_over(&self, end: Instant) -> bool {
        !self.cost.ended_by.is_empty() || *self.options.cancel.borrow() || Instant::now() >= end
    }

    /// Takes what comes until `end`, and looks at the servers in between.
    async fn listen_until(&mut self, end: Instant) {
        let (mut look, mut cancel) = (Instant::now() + LOOK, self.options.cancel.clone());
        while !self.is_over(end) {
            let changed = tokio::select! {
                changed = self.listeners.next(look.min(end)) => changed,
                Some(Ok(take_answer)) = self.looks.join_next() => {
                    take_answer(self);
                    continue;
                }
                () = cancelled(&mut cancel) => return,
            };
            if let Some(place) = changed {
                let source = &self.listeners.sources[place];
                let how = if source.listens { "is watched again" } else { "has closed the connection" };
                (self.note)(&format!("{} {how}", source.address));
            }
            if Instant::now() >= look {
                self.look();
                look = Instant::now() + LOOK;
            }
        }
    }

    /// Asks each server that has answered the last time, and which servers there are now.
    fn look(&mut self) {
        for source in self.listeners.sources.iter().filter(|source| source.listens) {
            let server = self.watched.entry(source.address).or_default();
            if !std::mem::replace(&mut server.is_asked, true) {
                let ids = std::mem::take(&mut server.ids);
                self.looks.spawn(look_at_server(self.servers.clone(), source.address, ids));
            }
        }
        if !std::mem::replace(&mut self.is_finding, true) {
            let followed = self.listeners.followed();
            let listening = self.listeners.sources.iter().filter(|source| source.listens);
            let has_new = listening.filter(|source| self.timed.insert(source.address)).count() > 0;
            self.looks.spawn(find_servers(self.servers.clone(), self.light, followed, has_new));
        }
    }

    fn see_server(
        &mut self,
        address: SocketAddr,
        info: Result<ServerInfo, String>,
        waiting: Result<Vec<(String, u64)>, String>,
    ) {
        self.watched.entry(address).or_default().is_asked = false;
        for why in [info.as_ref().err(), waiting.as_ref().err()].into_iter().flatten() {
            self.see_refusal(address, why);
        }
        if let Ok(waiting) = waiting {
            let (ids, bytes): (_, Vec<u64>) = waiting.into_iter().unzip();
            self.watched.entry(address).or_default().ids = ids;
            if let Some(most) = bytes.into_iter().max().filter(|most| *most > BUFFER_MAX) {
                self.cost.ended_by = format!("{} MB of lines were waiting at a server", most >> 20);
            }
        }
        info.into_iter().for_each(|info| self.see_load(address, info));
    }

    /// Ends the watch where it takes too much of a server.
    fn see_load(&mut self, address: SocketAddr, now: ServerInfo) {
        let server = self.watched.entry(address).or_default();
        let load = server.last.as_ref().and_then(|last| ServerLoad::between(last, &now));
        let cores = load.map_or(0.0, |load| load.cores_of_watch(server.before));
        let us = load.map(ServerLoad::us_per_command);
        self.cost.cpu_us_per_command = greater(self.cost.cpu_us_per_command, us);
        self.cost.cores = self.cost.cores.max(cores);
        let max_cost = self.options.max_cost;
        server.dear = if cores > max_cost { server.dear + 1 } else { 0 };
        if server.dear >= DEAR_LOOKS {
            self.cost.ended_by =
                format!("it took {cores:.2} of a core; more than {max_cost} is not allowed (--max-cost)");
        }
        server.last = Some(now.clone());
        // One that was left may have been listened to anew since.
        let mut sources = self.listeners.sources.iter_mut().rev();
        if let Some(source) = sources.find(|source| source.address == address) {
            source.looked(now);
        }
    }

    /// Without INFO and CLIENT LIST nothing tells what the watch costs.
    fn see_refusal(&mut self, address: SocketAddr, why: &str) {
        if is_refusal(why) && self.warnings.is_empty() {
            let warning = format!(
                "{address} does not say what the watch costs it ({why}), so --max-cost and the bound on waiting lines are not kept; allow INFO and CLIENT LIST to this user"
            );
            (self.note)(&warning);
            self.warnings.push(warning);
        }
    }

    /// Says which clients' lines are effects of a master.
    fn tell_masters(&mut self, shards: &[Shard]) {
        let servers = self.servers.data_servers().into_iter().map(|one| one.0);
        if self.light {
            let ports = servers.map(|address| address.port()).chain(shards.iter().map(|shard| shard.port));
            self.listeners.watch_links(ports.collect());
        } else {
            self.listeners.masters = servers.map(|address| address.to_string()).collect();
        }
    }

    /// Listens to new servers.
    fn see_servers(&mut self, opened: Vec<(SocketAddr, OpenedListener)>, shards: &[Shard]) {
        self.tell_masters(shards);
        if self.light {
            let replicas: Vec<SocketAddr> = shards.iter().flat_map(|shard| shard.replicas.clone()).collect();
            // What was promoted shows attempts beside effects; what is silent could come back beside the
            // replica that is watched in its place.
            let is_replaced = !opened.is_empty();
            let gone = self.listeners.leave(|source| {
                let is_master = source.info.as_ref().is_some_and(|info| info.is_master);
                is_master || is_replaced && !replicas.contains(&source.address)
            });
            for address in gone {
                (self.note)(&format!("{address} is not watched any more: it is no replica now, or silent"));
            }
        }
        for (address, listener) in opened {
            if !self.listeners.followed().contains(&address) {
                self.listeners.add(&self.servers, address, listener);
                (self.note)(&format!("{address} is watched from now on"));
            }
        }
        let is_bare = self.light && self.listeners.followed().is_empty();
        self.bare_looks = if is_bare { self.bare_looks + 1 } else { 0 };
        let is_alone = self.servers.topology().kind == TopologyKind::Single;
        if self.bare_looks >= if is_alone { 1 } else { REPLACING_LOOKS } {
            self.cost.ended_by = "no replica is left to be watched: begin again without --light, or with the URL of another replica".to_owned();
        }
    }

    /// Does not listen for so long.
    async fn pause(&mut self, length: Duration) {
        self.listeners.stop().await;
        (0..self.listeners.sources.len()).for_each(|source| self.listeners.watcher.gap(source));
        rest(length, &self.options.cancel).await;
    }
}

/// The number of each connection of a watch at a server, and the bytes that wait for it; `known`: these
/// numbers. All clients are listed where they are not known, or a server cannot list single ones.
async fn waits_at(
    servers: &External,
    address: SocketAddr,
    known: &[String],
) -> Result<Vec<(String, u64)>, String> {
    let ask = async |words: &[&str]| -> Result<_, String> {
        let list = redis::from_redis_value::<String>(servers.ask_server(address, words).await?);
        let list = list.unwrap_or_default();
        let ours = list.lines().filter(|line| line.contains(" name=locklab-watch "));
        let waits = ours.filter_map(|line| {
            let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
            Some((field("id=")?.to_owned(), field("omem=")?.parse().ok()?))
        });
        Ok(waits.collect::<Vec<_>>())
    };
    if !known.is_empty() {
        let single = ["CLIENT", "LIST", "ID"].into_iter().chain(known.iter().map(String::as_str));
        let waits = ask(&single.collect::<Vec<_>>()).await.unwrap_or_default();
        if waits.len() == known.len() {
            return Ok(waits);
        }
    }
    ask(&["CLIENT", "LIST", "TYPE", "NORMAL"]).await
}

/// Waits for so long, or until it is cancelled.
async fn rest(length: Duration, cancel: &watch::Receiver<bool>) {
    let _ = timeout(length, cancelled(&mut cancel.clone())).await;
}

/// The load of each server before it is watched, and why one does not say it.
async fn loads_before(
    servers: &External,
    watched: &[SocketAddr],
    cancel: &watch::Receiver<bool>,
) -> Vec<Result<Option<ServerLoad>, String>> {
    let ask = || join_all(watched.iter().map(|address| ServerInfo::of(servers, *address)));
    let before = ask().await;
    rest(LOOK, cancel).await;
    let load = |(before, after): (Result<_, _>, Result<_, _>)| Ok(ServerLoad::between(&before?, &after?));
    before.into_iter().zip(ask().await).map(load).collect()
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
    let (mut shards_found, mut watched, mut standby) =
        (Vec::new(), of_role(Role::Master), of_role(Role::Replica));
    let mut price = "a busy server spends about a quarter more on each command";
    if light {
        shards_found = shards(&servers).await;
        (watched, standby) = (shards_found.iter().map(|shard| shard.replicas[0]).collect(), Vec::new());
        price = "a replica pays for it, no master";
    }
    if watched.is_empty() {
        return Err(RunError::Missing("--light needs a replica, and no master says that it has one: give it one (REPLICAOF), give the URL of a replica, or watch the master without --light".to_owned()));
    }
    let and_replicas = match standby.is_empty() {
        true => String::new(),
        false => format!(", and on the replicas {}, which may be promoted,", standby.iter().join(", ")),
    };
    let LiveWatch { length, max_cost, .. } = options;
    note(&format!(
        "MONITOR on {}{and_replicas} for {length:?} at most: {price}; ends beyond {max_cost} of a core (--max-cost)",
        watched.iter().join(", ")
    ));
    let mut all: Vec<SocketAddr> = watched.iter().chain(&standby).copied().collect();
    let before = loads_before(&servers, &all, &options.cancel).await;
    let mut listeners = Listeners::new(Watcher::new(watching), servers.topology().kind);
    if servers.topology().kind == TopologyKind::Masters {
        listeners.watcher.set_members(watched.len());
    }
    if all.len() > 1 {
        let doubt = clock_doubt_us(&servers, &all).await;
        listeners.watcher.set_clock_doubt(doubt);
    }
    if !light {
        listeners.watcher.read_keys();
    }
    let mut running = RunningWatch {
        options,
        servers,
        light,
        listeners,
        cost: WatchCost::default(),
        watched: HashMap::new(),
        looks: JoinSet::new(),
        is_finding: false,
        timed: HashSet::new(),
        bare_looks: 0,
        warnings: Vec::new(),
        note,
    };
    running.tell_masters(&shards_found);
    for (address, before) in all.iter().zip(before) {
        match before {
            Ok(before) => {
                running.timed.insert(*address);
                let us = &mut running.cost.cpu_us_per_command_before;
                *us = greater(*us, before.map(ServerLoad::us_per_command));
                running.watched.entry(*address).or_default().before = before;
            }
            Err(why) => running.see_refusal(*address, &why),
        }
    }
    let end = Instant::now() + options.length;
    let mut is_first = true;
    while !running.is_over(end) {
        for address in &all {
            let opened = OpenedListener::open(&running.servers, *address).await;
            let listening = opened.map(|opened| running.listeners.add(&running.servers, *address, opened));
            match listening {
                _ if !watched.contains(address) => {}
                Ok(false) if is_first => {
                    note(&format!("{address} does not answer: it or its successor is waited for"));
                }
                Ok(_) => {}
                Err(why) => return Err(RunError::Missing(format!("MONITOR at {address}: {why}; {OFFER}"))),
            }
        }
        if std::mem::take(&mut is_first) {
            note("watched from now on");
        }
        let slice = options.sample.map(|(on, _)| Instant::now() + on);
        running.listen_until(slice.map_or(end, |slice| end.min(slice))).await;
        if let (Some((on, of)), false) = (options.sample, running.is_over(end)) {
            all = running.listeners.followed();
            running.pause((of - on).min(end - Instant::now())).await;
        }
    }
    running.listeners.stop().await;
    let Listeners { watcher, sources, .. } = running.listeners;
    let mut seen = watcher.finish();
    seen.report.servers = sources.iter().map(|source| source.address.to_string()).unique().collect();
    seen.report.source = if light { "light" } else { "monitor" }.to_owned();
    seen.report.cost = Some(running.cost);
    seen.warnings = running.warnings;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_apart_by_what_they_say_and_by_how_long_the_answers_took() {
        assert_eq!(apart_us(&[]), 0);
        // Asked and answered, and the time that was said: the second is 300 ms behind the others.
        let said = [(0, 400, 1_000_100), (1_000, 1_200, 701_100), (2_000, 2_000, 1_002_000)];
        assert_eq!(apart_us(&said[..1]), 400);
        assert_eq!(apart_us(&said), 300_200);
        assert_eq!(apart_us(&said[1..]), 300_100);
    }

    #[test]
    fn what_a_watch_takes_is_told_by_comparable_loads_alone() {
        let load = |commands_per_s, us| ServerLoad { commands_per_s, cores: commands_per_s * us / 1e6 };
        let is_near = |cores: f64, expected: f64| (cores - expected).abs() < 1e-6;
        let busy = load(50_000.0, 12.0);
        assert!(is_near(busy.cores_of_watch(Some(load(40_000.0, 9.0))), 0.15));
        // Nothing, or little, ran before: as many cores as MONITOR usually takes of these 0.6.
        assert!(is_near(busy.cores_of_watch(None), 0.132));
        assert!(is_near(busy.cores_of_watch(Some(load(300.0, 20.0))), 0.132));
        // It does not take a share of the time of commands that are slow themselves.
        assert!(is_near(load(1_000.0, 900.0).cores_of_watch(None), 0.02));
    }
}
