//! `locklab watch` beside locks that work on a real server: what it sees is what the recorder wrote down.
#![allow(missing_docs)]

mod support;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Server, code, locklab, run, signal, stderr, stdout, until};

const SCENARIO: &str = r#"
name = "watched"
about = "Clients take a lock in turns."
[topology]
kind = "single"
[lock]
subject = "lock-core:plain"
lease = "LEASE"
wait = "2s"
[load]
clients = 3
tasks = 1
locks = 2
hold = "HOLD"
think = "2ms"
duration = "2s"
"#;

fn json(output: &Output) -> Value {
    let text = stdout(output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{}", stderr(output)))
}

/// Begins to watch a server, and waits until it sees everything.
fn begin(dir: &Path, server: &Server, more: &[&str]) -> Child {
    let mut command = locklab(dir);
    command.args(["watch", &server.url(), "--for", "120s", "--max-cost", "64", "--json"]).args(more);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("locklab runs");
    until("MONITOR runs", || server.cli(&["CLIENT", "LIST"]).contains("cmd=monitor"));
    child
}

fn end(child: Child) -> Output {
    signal(&child, Signal::SIGINT);
    child.wait_with_output().expect("it ends")
}

/// A load beside a watch: what the recorder says, what the watch says, how it ended, and both compared hold
/// by hold.
struct Watched {
    recorded: Value,
    seen: Value,
    code: i32,
    compared: Compared,
}

/// Starts servers, watches them, and runs a load on a lock there. `subject`: with a kind where there are
/// several, as `peer:redsync, redlock`.
fn watched(servers: &[&str], subject: &str, lease: &str, hold: &str) -> Watched {
    let (subject, kind) = subject.split_once(", ").unwrap_or((subject, ""));
    let of_file = match kind {
        "" => subject.to_owned(),
        kind => format!("lock-core:{kind}"),
    };
    let scenario = SCENARIO.replace("lock-core:plain", &of_file);
    let scenario = scenario.replace("LEASE", lease).replace("HOLD", hold);
    watched_load(servers, subject, &scenario.replace("single", servers[0]))
}

fn watched_load(servers: &[&str], subject: &str, scenario: &str) -> Watched {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), servers);
    let url = url.as_str();
    let mut command = locklab(dir.path());
    command.args(["watch", url, "--max-cost", "64", "--json", "--out", "watch"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = command.spawn().expect("it runs");
    // Servers with certificates are asked by nobody else here: the watch says when it begins.
    let mut said = BufReader::new(watch.stderr.take().unwrap());
    let mut line = String::new();
    until("it is watched", || {
        line.clear();
        said.read_line(&mut line).unwrap();
        line.contains("watched from now on")
    });
    std::fs::write(dir.path().join("watched.toml"), scenario).unwrap();
    let args = ["chaos", "watched.toml", "--subject", subject, "--target", url, "--out", "run", "--json"];
    let recorded = run(dir.path(), &args);
    let seen = end(watch);
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
    Watched {
        recorded: json(&recorded)["scenarios"][0].clone(),
        code: code(&seen),
        seen: json(&seen),
        compared: compare(dir.path()),
    }
}

/// A hold as a history has it, in nanoseconds: between which times it was granted and given back.
struct Hold {
    lock: String,
    client: String,
    granted: (i64, i64),
    released: Option<(i64, i64)>,
}

fn holds(history: &Path) -> Vec<Hold> {
    let (mut calls, mut of_grant) = (HashMap::new(), HashMap::<String, Vec<usize>>::new());
    let mut holds: Vec<Hold> = Vec::new();
    for line in std::fs::read_to_string(history).unwrap_or_default().lines() {
        let line: Value = serde_json::from_str(line).expect("a line of a history");
        let (id, at) = (line["id"].as_u64(), line["t_ns"].as_i64().expect("a time"));
        if line["op"].is_string() {
            calls.insert(id, (at, line));
            continue;
        }
        let Some((called, call)) = calls.remove(&id).filter(|_| line["end"] == "ok") else {
            continue;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if call["op"] == "acquire" {
            let several = call["locks"].as_array().cloned().unwrap_or_default();
            for lock in several.iter().chain([&call["lock"]]).filter(|one| one.is_string()) {
                of_grant.entry(text(&line["grant"])).or_default().push(holds.len());
                holds.push(Hold {
                    lock: text(lock),
                    client: text(&call["client"]),
                    granted: (called, at),
                    released: None,
                });
            }
        } else if call["op"] == "release" {
            for place in of_grant.get(&text(&call["grant"])).into_iter().flatten() {
                holds[*place].released.get_or_insert((called, at));
            }
        }
    }
    holds
}

/// What a watch has made out of what the recorder wrote down.
#[derive(Debug, Default)]
struct Compared {
    grants: usize,
    grants_found: usize,
    releases: usize,
    releases_found: usize,
    /// Holds that nobody recorded.
    invented: usize,
}

impl Compared {
    fn share(found: usize, of: usize) -> f64 {
        found as f64 / of.max(1) as f64
    }

    fn is_good(&self, may_see_more: bool) -> bool {
        let releases = Self::share(self.releases_found, self.releases);
        let least = Self::share(self.grants_found, self.grants).min(releases);
        self.grants > 0 && least >= 0.999 && (may_see_more || self.invented == 0)
    }
}

/// Clocks of the two records may drift apart by this, where a machine has more to do than it has processors.
const APART_NS: i64 = 10_000_000;

/// Compares two records of one load. The owner is right where the connection that the watch names is always
/// the same recorded client's.
fn compare(dir: &Path) -> Compared {
    let recorded = holds(&dir.join("run/history.jsonl"));
    let mut seen = holds(&dir.join("watch/history.jsonl"));
    let names: HashSet<&str> = recorded.iter().map(|hold| &*hold.lock).collect();
    seen.retain_mut(|hold| {
        // A library may put a word before the name.
        let name = names.iter().find(|name| hold.lock.ends_with(**name));
        name.map(|name| hold.lock = (*name).to_owned()).is_some()
    });
    // How far the one clock is ahead of the other: as most pairs of holds allow.
    let mut bounds = Vec::new();
    for hold in &recorded {
        for other in seen.iter().filter(|other| other.lock == hold.lock) {
            let (mut low, mut high) = (hold.granted.0 - other.granted.1, hold.granted.1 - other.granted.1);
            if let (Some(own), Some(others)) = (hold.released, other.released) {
                (low, high) = (low.max(own.0 - others.1), high.min(own.1 - others.1));
            }
            if low <= high {
                bounds.extend([(low, 1), (high, -1)]);
            }
        }
    }
    bounds.sort_by_key(|(at, change)| (*at, -change));
    let (mut count, mut most, mut ahead) = (0, 0, 0);
    for (place, (at, change)) in bounds.iter().enumerate() {
        count += change;
        if count > most {
            (most, ahead) = (count, i64::midpoint(*at, bounds[place + 1].0));
        }
    }
    // How far a time of the watch lies outside of a recorded call.
    let outside = |at: i64, call: (i64, i64)| (call.0 - at - ahead).max(at + ahead - call.1).max(0);
    let mut compared = Compared::default();
    let (mut left, mut pairs) = (seen.iter().collect::<Vec<_>>(), Vec::new());
    for hold in &recorded {
        compared.grants += 1;
        compared.releases += usize::from(hold.released.is_some());
        let granted = |other: &Hold| outside(other.granted.1, hold.granted);
        let released = |other: &Hold| match (hold.released, other.released) {
            (Some(own), Some(others)) => outside(others.1, own),
            (own, others) => i64::from(own.is_some() != others.is_some()) * (APART_NS + 1),
        };
        let likeness = |other: &Hold| {
            let late_ns = (other.granted.1 + ahead).abs_diff(hold.granted.1);
            (granted(other) + released(other), late_ns)
        };
        let places = left.iter().enumerate();
        let places = places.filter(|(_, other)| other.lock == hold.lock && granted(other) <= APART_NS);
        let best = places.min_by_key(|(_, other)| likeness(other));
        if let Some((place, other)) = best {
            pairs.push((hold, other.client.as_str(), released(other) <= APART_NS));
            left.remove(place);
        }
    }
    compared.invented = left.len();
    let mut owners = HashMap::<&str, BTreeMap<&str, usize>>::new();
    for (hold, client, _) in &pairs {
        *owners.entry(client).or_default().entry(&hold.client).or_default() += 1;
    }
    for (hold, client, ends_alike) in pairs {
        let most = owners[client].iter().max_by_key(|(_, count)| **count);
        if most.is_some_and(|(owner, _)| *owner == hold.client) {
            compared.grants_found += 1;
            compared.releases_found += usize::from(hold.released.is_some() && ends_alike);
        }
    }
    compared
}

/// The lock of the load, among the keys that the harness itself writes.
fn lock(seen: &Value) -> &Value {
    let locks = seen["locks"].as_array().expect("locks");
    let busiest = locks.iter().max_by_key(|lock| lock["grants"].as_u64());
    busiest.unwrap_or_else(|| panic!("no lock in {seen}"))
}

fn sum(seen: &Value, field: &str) -> u64 {
    let locks = seen["locks"].as_array().expect("locks").iter();
    locks.map(|lock| lock[field].as_u64().expect("a count")).sum()
}

fn kinds(seen: &Value, certainty: &[&str]) -> Vec<String> {
    let findings = seen["findings"].as_array().expect("findings").iter();
    let wanted = findings.filter(|one| certainty.contains(&one["certainty"].as_str().unwrap_or_default()));
    wanted.map(|one| one["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Sound locks by their servers: each kind of this library, the usual recipes, and other libraries where they
/// are built.
const SOUND: [(&str, &[&str]); 2] = [
    (
        "single",
        &[
            "lock-core:plain",
            "lock-core:reentrant",
            "lock-core:non-reentrant",
            "lock-core:fenced",
            "lock-core:spin",
            "lock-core:fair",
            "lock-core:queued",
            "lock-core:read",
            "lock-core:write",
            "lock-core:multi",
            "lock-core:semaphore",
            "lock-core:permits",
            "baseline:set-nx-px",
            "baseline:watch-multi",
            "baseline:raw-scripts",
            "peer:redisson, reentrant",
            "peer:redsync, plain",
            "peer:bsm-redislock, plain",
            "peer:redis-py, plain",
            "peer:node-redlock, plain",
            "peer:redis-semaphore, plain",
            "peer:rslock, plain",
        ],
    ),
    (
        "masters",
        &[
            "lock-core:redlock",
            "broken:no-validity",
            "peer:redsync, redlock",
            "peer:node-redlock, redlock",
            "peer:redis-semaphore, redlock",
            "peer:rslock, redlock",
        ],
    ),
];

/// How often a thorough run tries each lock under faults: then other libraries are tried too, where they are
/// built, and rows of the book's tables are printed.
fn thorough_runs() -> Option<usize> {
    std::env::var("WATCH_RUNS").ok()?.parse().ok()
}

/// Works on some at a time.
fn three_at_a_time<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    for some in all.chunks(3) {
        std::thread::scope(|scope| {
            for one in some {
                scope.spawn(|| work(one));
            }
        });
    }
}

/// Prints a row of a table of the book, past what tests print the usual way.
fn print_row(cells: &[String]) {
    let _ = writeln!(std::io::stderr(), "| {} |", cells.join(" | "));
}

#[test]
fn sound_locks_are_counted_as_recorded_and_have_no_sure_finding() {
    let dir = tempfile::tempdir().unwrap();
    let listed = json(&run(dir.path(), &["list", "subjects", "--json"]));
    let items = listed["items"].as_array().expect("items").iter();
    let missing = items.filter(|item| item["missing"].is_string());
    let missing: Vec<&str> = missing.filter_map(|item| item["name"].as_str()).collect();
    let is_tried = |subject: &str| {
        let name = subject.split(", ").next().unwrap_or_default();
        !missing.contains(&name) && (thorough_runs().is_some() || !name.starts_with("peer:"))
    };
    for (servers, subjects) in SOUND {
        let tried: Vec<&str> = subjects.iter().copied().filter(|one| is_tried(one)).collect();
        three_at_a_time(&tried, |subject| sound_lock_is_counted(servers, subject));
    }
}

fn sound_lock_is_counted(servers: &str, subject: &str) {
    let watched = watched(&[servers], subject, "3s", "2ms..8ms");
    let Watched { recorded, seen, code, compared } = &watched;
    let granted = recorded["operations"]["acquire"]["ok"].as_u64();
    let released = recorded["operations"]["release"]["ok"].as_u64();
    assert!(granted > Some(20), "{subject}: {recorded}");
    // The harness takes a lock of its own now and then to see whether the servers can be written to.
    let lock = lock(seen);
    let is_shared = ["read", "write", "semaphore", "permits"];
    let is_shared = is_shared.iter().any(|kind| subject == format!("lock-core:{kind}"));
    let counted = (lock["grants"].as_u64(), lock["released"].as_u64());
    if is_shared {
        // Of several holders at once the counts alone are compared.
        assert_eq!(counted, (granted, released), "{subject}: {seen}");
    } else {
        // Of several locks one may be granted and given back, since another was not, and node-redlock gives
        // back what it got after its caller's wait: that is recorded nowhere.
        let may_see_more = ["lock-core:multi", "peer:node-redlock, redlock"].contains(&subject);
        let is_good = compared.is_good(may_see_more);
        assert!(is_good, "{subject}: {compared:?} {seen}");
    }
    let sure = kinds(seen, &["sure", "violated"]);
    assert_eq!(sure, Vec::<String>::new(), "{subject}: {seen}");
    assert_eq!(*code, 0, "{subject}");
    match subject {
        // Redisson's have the same commands.
        "lock-core:semaphore" | "lock-core:permits" => {
            assert_eq!(lock["recipe"], "permits of a number", "{subject}: {seen}");
        }
        _ if subject.starts_with("lock-core") => {
            assert_eq!(lock["library"], "lock-core", "{subject}: {seen}");
        }
        _ => {
            let library = lock["library"].as_str().unwrap_or_default().to_lowercase().replace('/', "-");
            let peer = subject.strip_prefix("peer:").and_then(|peer| peer.split(',').next());
            assert!(peer.is_none_or(|peer| peer == library), "{subject}: {seen}");
        }
    }
    let of = |found: usize, all: usize, count: Option<u64>| match is_shared {
        true => format!("{0} of {0}", count.unwrap_or(0)),
        false => format!("{found} of {all}"),
    };
    print_row(&[
        format!("`{subject}`"),
        servers.to_owned(),
        of(compared.grants_found, compared.grants, counted.0),
        of(compared.releases_found, compared.releases, counted.1),
        compared.invented.to_string(),
        lock["library"].as_str().unwrap_or_default().to_owned(),
    ]);
}

const FAULTS: &str = r#"
name = "faults"
about = "A server that stops, dies and answers late, and a holder that stops for longer than its lease."
[topology]
kind = "single"
config = { appendonly = "yes", appendfsync = "always" }
[lock]
subject = "SUBJECT"
lease = "1s"
wait = "2s"
[load]
clients = 3
tasks = 1
locks = 2
hold = "5ms..60ms"
think = "2ms"
duration = "10s"
[[faults]]
at = "5s"
for = "300ms"
fault = "kill"
on = "master"
[[faults]]
at = "6500ms"
for = "400ms"
fault = "pause"
on = "master"
[[faults]]
at = "7500ms"
for = "500ms"
fault = "delay"
on = "clients <-> master"
with = { latency = "20ms", jitter = "10ms" }
[[faults]]
at = "8s"
for = "1500ms"
fault = "pause"
on = "client 1"
"#;

/// `WATCH_RUNS=20` tries each kind of lock so often; without it a few are tried once.
#[test]
fn sound_locks_have_no_sure_finding_under_faults() {
    let few = ["reentrant", "fair", "permits"];
    let all = [
        "plain",
        "reentrant",
        "non-reentrant",
        "fenced",
        "spin",
        "fair",
        "queued",
        "read",
        "write",
        "multi",
        "semaphore",
        "permits",
        "redlock",
    ];
    let runs = thorough_runs();
    let kinds_tried = if runs.is_some() { &all[..] } else { &few };
    three_at_a_time(kinds_tried, |kind| {
        sound_lock_under_faults(kind, runs.unwrap_or(1));
    });
}

fn sound_lock_under_faults(kind: &str, runs: usize) {
    let mut grants = 0;
    let servers = if kind == "redlock" { "masters" } else { "single" };
    for run in 0..runs {
        let subject = format!("lock-core:{kind}");
        let scenario = FAULTS.replace("SUBJECT", &subject);
        let scenario = scenario.replace("\"single\"", &format!("\"{servers}\""));
        let (recorded, seen) = watched_scenario(&scenario, &[]);
        let sure = kinds(&seen, &["sure", "violated"]);
        assert_eq!(sure, Vec::<String>::new(), "{kind}, run {run}: {recorded} {seen}");
        assert!(lock(&seen)["grants"].as_u64() > Some(20), "{kind}: {recorded} {seen}");
        grants += sum(&seen, "grants");
    }
    print_row(&[kind.to_owned(), runs.to_string(), grants.to_string()]);
}

/// Broken locks, each with a scenario that convicts it, or the load of the others with this lease and hold,
/// and the finding by which traffic shows the defect.
const BROKEN: [(&str, &str, &str); 12] = [
    ("broken:steal", "3s, 2ms..8ms", "overlap"),
    ("broken:setnx-expire", "3s, 2ms..8ms", "expiry-set-later"),
    ("broken:release-without-owner-check", "3s, 2ms..8ms", "release-without-owner-check"),
    // Holds outlive their lease, and a late DEL frees the next holder's key.
    ("broken:release-without-owner-check", "100ms, 20ms..200ms", "overlap"),
    ("broken:release-without-owner-check", "late-requests", "overlap"),
    ("broken:get-compare-del", "3s, 2ms..8ms", "release-without-owner-check"),
    ("broken:get-compare-del", "release-over-a-slow-line", "overlap"),
    ("broken:renew-without-owner-check", "extend-past-a-pause", "extended-by-another"),
    ("broken:renews-on", "renewed-key-lost", "overlap"),
    ("broken:believes-on", "watchdog-client-cut-off", "outlived-its-lease"),
    ("broken:lease-too-short", "never-released", "outlived-its-lease"),
    ("broken:value-per-client", "late-releases", "outlived-its-lease"),
];

#[test]
fn the_defect_of_each_broken_lock_is_found_by_its_kind() {
    three_at_a_time(&BROKEN, |(subject, load, kind)| {
        // Whether a late request meets the next hold is a matter of milliseconds, so a load has five chances.
        let all = (0..5).find_map(|_| {
            let watched = match load.split_once(", ") {
                Some((lease, hold)) => watched(&["single"], subject, lease, hold),
                None => {
                    let file = format!("../chaos/scenarios/{load}.toml");
                    let scenario = std::fs::read_to_string(file).expect("a scenario");
                    watched_load(&["single"], subject, &scenario)
                }
            };
            let Watched { seen, code, .. } = watched;
            let found = kinds(&seen, &["sure", "violated"]);
            assert_eq!(code, i32::from(!found.is_empty()), "{subject}");
            let all = kinds(&seen, &["sure", "violated", "likely"]);
            all.iter().any(|one| one == kind).then_some(all)
        });
        let all = all.unwrap_or_else(|| panic!("{subject} under {load}: no {kind}"));
        print_row(&[format!("`{subject}`"), (*load).to_owned(), all.join(", ")]);
    });
}

/// The master's last grants reach no replica before it dies: the promoted server grants them again.
const FAILOVER: &str = r#"
name = "lost"
about = "A master dies before its last write reached a replica."
[topology]
kind = "KIND"
[lock]
subject = "lock-core:reentrant"
lease = "30s"
wait = "8s"
durability = "none"
[load]
clients = 3
tasks = 4
locks = 6
hold = "6s"
duration = "13s"
[[faults]]
at = "0s"
fault = "delay"
on = "master -> replicas"
with = { latency = "30s" }
[[faults]]
at = "6500ms"
fault = "kill"
on = "master"
"#;

/// Watches the servers of a scenario while it runs: its result, and what the watch says. `more`: arguments of
/// the run.
fn watched_scenario(text: &str, more: &[&str]) -> (Value, Value) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("watched.toml"), text).unwrap();
    let mut command = locklab(dir.path());
    command.args(["chaos", "watched.toml", "--out", "run", "--json"]);
    command.args(more);
    let chaos = command.stdout(Stdio::piped()).spawn().expect("it runs");
    until("its load runs", || {
        let history = std::fs::metadata(dir.path().join("run/history.jsonl"));
        history.is_ok_and(|history| history.len() > 0)
    });
    let running = json(&run(dir.path(), &["ps", "--json"]));
    let mut running = running["running"].as_array().expect("servers").iter();
    let ours = running.find(|one| one["owner"]["pid"] == chaos.id());
    let url = ours.expect("its servers")["url"].as_str().unwrap();
    let args = ["watch", url, "--max-cost", "64", "--json"];
    let mut command = locklab(dir.path());
    command.args(args).stdout(Stdio::piped());
    let watch = command.spawn().expect("it runs");
    let recorded = chaos.wait_with_output().expect("it ends");
    (json(&recorded)["scenarios"][0].clone(), json(&end(watch)))
}

#[test]
fn a_failover_that_loses_grants_is_an_overlap() {
    std::thread::scope(|scope| {
        for kind in ["sentinel", "cluster"] {
            scope.spawn(move || {
                let (recorded, seen) = watched_scenario(&FAILOVER.replace("KIND", kind), &[]);
                let proven = &recorded["verdicts"]["contract"]["anomalies"];
                let proven = proven.as_array().map_or(0, Vec::len) as u64;
                assert!(proven > 0, "{kind}: {recorded}");
                let findings = seen["findings"].as_array().expect("findings");
                let mut overlaps = findings.iter().filter(|one| one["kind"] == "overlap");
                let overlap = overlaps.next().unwrap_or_else(|| panic!("{kind}: {seen}"));
                assert_eq!(overlap["certainty"], "violated");
                assert!(overlap["count"].as_u64() >= Some(proven), "{kind}: {recorded} {seen}");
            });
        }
    });
}

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

fn value(number: u32) -> String {
    format!("11111111-aaaa-4bbb-8ccc-00000000000{number}")
}

fn ask_for(server: &Server, number: u32) -> String {
    let value = value(number);
    server.cli(&["SET", "lock:orders", &value, "NX", "PX", "60000"])
}

fn take(server: &Server, number: u32) {
    assert_eq!(ask_for(server, number), "OK");
}

fn give_back(server: &Server, number: u32) {
    let given = server.cli(&["EVAL", RELEASE, "1", "lock:orders", &value(number)]);
    assert_eq!(given, "1");
}

/// What a watch says of a lock that was taken before it began, and of what was done then.
fn held_before(work: impl FnOnce(&Server)) -> Value {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    take(&server, 1);
    let child = begin(dir.path(), &server, &[]);
    assert_eq!(ask_for(&server, 2), "");
    let is_read = || server.cli(&["INFO", "commandstats"]).contains("cmdstat_echo:calls=1,");
    until("the key is read", is_read);
    work(&server);
    assert!(is_read(), "it is read once");
    let seen = json(&end(child));
    // What was granted before is no grant of this time.
    let counted = (sum(&seen, "grants"), sum(&seen, "released"));
    assert_eq!(counted, (1, 1), "{seen}");
    seen
}

#[test]
fn a_holder_from_before_the_watch_is_known_by_one_read_of_its_key() {
    let nothing = Vec::<String>::new();
    let given_back = held_before(|server| {
        assert_eq!(ask_for(server, 2), "");
        give_back(server, 1);
        take(server, 2);
        give_back(server, 2);
    });
    assert_eq!(kinds(&given_back, &["sure", "violated"]), nothing);
    assert_eq!(sum(&given_back, "refusals"), 2, "{given_back}");
    let flushed = held_before(|server| {
        server.cli(&["FLUSHALL"]);
        take(server, 2);
        give_back(server, 2);
    });
    assert_eq!(kinds(&flushed, &["violated"]), ["overlap"], "{flushed}");
    assert_eq!(kinds(&flushed, &["sure"]), ["lost-by-server"], "{flushed}");
    let lines = flushed["findings"][0]["first"].to_string();
    assert!(lines.contains("since before the watch"), "{lines}");
    // Nobody saw its end: the lease that is left tells that it was too soon.
    let evicted = held_before(|server| {
        server.cli(&["EVAL", "redis.call('rename', 'lock:orders', 'away')", "0"]);
        take(server, 2);
        give_back(server, 2);
    });
    assert_eq!(kinds(&evicted, &["violated"]), ["overlap"], "{evicted}");
    let ended = held_before(|server| {
        server.cli(&["PEXPIRE", "lock:orders", "30"]);
        until("its lease is over", || ask_for(server, 2) == "OK");
        give_back(server, 2);
    });
    assert_eq!(kinds(&ended, &["sure", "violated"]), nothing, "{ended}");
}

#[test]
fn what_happened_while_nobody_listened_is_held_against_nobody() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let child = begin(dir.path(), &server, &["--out", "watch"]);
    take(&server, 1);
    give_back(&server, 1);
    take(&server, 2);
    // One step: nobody listens to the release.
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    connection.write_all(b"CLIENT KILL TYPE normal SKIPME yes\r\nDEL lock:orders\r\nQUIT\r\n").unwrap();
    let mut answers = String::new();
    connection.read_to_string(&mut answers).unwrap();
    until("it is listened to again", || server.cli(&["CLIENT", "LIST"]).contains("cmd=monitor"));
    for number in 3..6 {
        take(&server, number);
        give_back(&server, number);
    }
    let seen = end(child);
    let (seen, code) = (json(&seen), code(&seen));
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (5, 4), "{seen}");
    assert_eq!(kinds(&seen, &["sure", "violated"]), Vec::<String>::new(), "{seen}");
    assert_eq!(code, 0);
    let checked = run(dir.path(), &["check", "watch/history.jsonl", "--no-floors", "--json"]);
    assert_eq!(json(&checked)["verdicts"]["contract"]["state"], "clean");
}

#[test]
fn a_watch_in_slices_does_not_listen_in_between_and_accuses_nobody_of_that_time() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let child = begin(dir.path(), &server, &["--sample", "1s/1500ms", "--out", "watch"]);
    let listens = || server.cli(&["CLIENT", "LIST"]).contains("cmd=monitor");
    until("a pause", || !listens());
    until("a slice", listens);
    take(&server, 1);
    give_back(&server, 1);
    take(&server, 2);
    until("a pause", || !listens());
    server.cli(&["DEL", "lock:orders"]);
    until("a slice", listens);
    take(&server, 3);
    give_back(&server, 3);
    let seen = end(child);
    assert_eq!(code(&seen), 0, "{}", stdout(&seen));
    let seen = json(&seen);
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (3, 2), "{seen}");
    let checked = run(dir.path(), &["check", "watch/history.jsonl", "--no-floors", "--json"]);
    assert_eq!(json(&checked)["verdicts"]["contract"]["state"], "clean");
}

#[test]
fn a_watch_that_costs_too_much_ends() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let address = ("127.0.0.1", server.port);
    let (ended, load) = (AtomicBool::new(false), b"SET cache:1 a EX 9\r\n".repeat(200));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = TcpStream::connect(address).unwrap();
            let mut answers = vec![0; b"+OK\r\n".len() * 200];
            while !ended.load(Ordering::Relaxed) {
                connection.write_all(&load).unwrap();
                connection.read_exact(&mut answers).unwrap();
                // A flood would end the watch by the lines that wait for it, on a busy machine.
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let url = server.url();
        let watch =
            |max_cost| run(dir.path(), &["watch", &url, "--for", "25s", "--max-cost", max_cost, "--json"]);
        let output = watch("0.001");
        ended.store(true, Ordering::Relaxed);
        let seen = json(&output);
        let why = seen["watch"]["cost"]["ended_by"].as_str().unwrap_or_default();
        assert!(why.contains("--max-cost"), "{seen}{}", stderr(&output));
        assert!(seen["watch"]["seconds"].as_f64() < Some(20.0), "{seen}");
        assert!(seen["warnings"][0].as_str().is_some_and(|one| one.contains(why)), "{seen}");
    });
}

/// Starts servers: who has them, and their URL.
fn start_up(dir: &Path, servers: &[&str]) -> (Child, String) {
    let mut command = locklab(dir);
    let up = command.arg("up").args(servers).stdout(Stdio::piped());
    let mut up = up.spawn().expect("it runs");
    let mut url = String::new();
    let mut lines = BufReader::new(up.stdout.take().unwrap());
    lines.read_line(&mut url).unwrap();
    (up, url.trim().to_owned())
}

#[test]
fn servers_with_certificates_are_watched_alike() {
    let servers = ["single", "--tls", "--acl"];
    let watched = watched(&servers, "lock-core:plain", "3s", "2ms..8ms");
    assert!(watched.compared.is_good(false), "{:?}", watched.compared);
}

#[test]
fn a_server_that_is_started_anew_without_its_keys_has_lost_what_was_held() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let child = begin(dir.path(), &server, &[]);
    take(&server, 1);
    give_back(&server, 1);
    take(&server, 2);
    // A grant that was the server's last command may never have been answered.
    let granted = Instant::now();
    until("it has run commands since", || {
        server.cli(&["PING"]);
        granted.elapsed() > Duration::from_millis(50)
    });
    let port = server.port;
    drop(server);
    let server = Server::start_at(port, &[]);
    until("it is listened to again", || server.cli(&["CLIENT", "LIST"]).contains("cmd=monitor"));
    // Neither comes back: that the key was lost is known from the server alone.
    take(&server, 3);
    let seen = json(&end(child));
    assert_eq!(kinds(&seen, &["violated"]), ["overlap"], "{seen}");
    assert_eq!(kinds(&seen, &["sure"]), ["lost-by-server"], "{seen}");
}

/// Asks a server by its address.
fn ask(address: &str, words: &[&str]) -> String {
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new("redis-cli");
    let asked = command.args(["-h", host, "-p", port]).args(words).output();
    stdout(&asked.expect("redis-cli runs")).trim().to_owned()
}

fn pid(address: &str) -> i32 {
    let info = ask(address, &["INFO", "server"]);
    let mut lines = info.lines().filter_map(|line| line.strip_prefix("process_id:"));
    lines.next().expect("a process").trim().parse().unwrap()
}

fn kill(address: &str) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid(address)), Signal::SIGKILL).unwrap();
}

fn is_watched(address: &str) -> bool {
    ask(address, &["CLIENT", "LIST"]).contains("cmd=monitor")
}

/// The addresses in a URL of several servers.
fn addresses(url: &str) -> Vec<&str> {
    let (_, servers) = url.split_once("://").expect("a URL");
    servers.split(['/', '?']).next().unwrap_or_default().split(',').collect()
}

/// The master of a group, as its first sentinel says.
fn master_of(url: &str) -> String {
    let name = url.rsplit('/').next().unwrap();
    ask(addresses(url)[0], &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).replace('\n', ":")
}

/// Watches servers by their URL until it is ended.
fn watch_of(dir: &Path, url: &str, more: &[&str]) -> Child {
    let mut command = locklab(dir);
    command.args(["watch", url, "--max-cost", "64", "--json"]).args(more);
    let watch = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    watch.spawn().expect("it runs")
}

#[test]
fn the_masters_of_a_set_that_answer_are_watched_without_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["masters"]);
    let members = addresses(&url);
    let (dead, alive) = members.split_first().unwrap();
    kill(dead);
    let watch = watch_of(dir.path(), &url, &[]);
    until("the others are watched", || alive.iter().all(|one| is_watched(one)));
    let lock = |members: &[&str], number: u32| {
        for member in members {
            let taken = ask(member, &["SET", "lock:orders", &value(number), "NX", "PX", "60000"]);
            assert_eq!(taken, "OK");
        }
        for member in members {
            ask(member, &["EVAL", RELEASE, "1", "lock:orders", &value(number)]);
        }
    };
    // Five have three for a majority.
    for (members, number) in [(&alive[..3], 1), (&alive[..2], 2), (alive, 3)] {
        lock(members, number);
    }
    let seen = end(watch);
    let said = stderr(&seen);
    assert!(said.contains(&format!("{dead} does not answer")), "{said}");
    let seen = json(&seen);
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (2, 2), "{seen}");
    let once = run(dir.path(), &["watch", &url, "--once"]);
    assert_eq!(code(&once), 0, "{}", stderr(&once));
    assert!(stderr(&once).contains(&format!("{dead} is left out")), "{}", stderr(&once));
    alive.iter().for_each(|one| kill(one));
    assert_eq!(code(&run(dir.path(), &["watch", &url])), 69);
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn the_clock_of_a_server_that_answers_later_is_asked_too() {
    let (server, port, dir) = (Server::start(), support::free_port(), tempfile::tempdir().unwrap());
    let url = format!("redlock://127.0.0.1:{},127.0.0.1:{port},127.0.0.1:1", server.port);
    let watch = watch_of(dir.path(), &url, &[]);
    until("the one is watched", || is_watched(&format!("127.0.0.1:{}", server.port)));
    let late = Server::start_at(port, &[]);
    until("the other is watched", || is_watched(&format!("127.0.0.1:{port}")));
    until("its clock is asked", || late.cli(&["INFO", "commandstats"]).contains("cmdstat_time:"));
    end(watch);
}

#[test]
fn slots_that_move_and_new_shards_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["cluster"]);
    let watch = watch_of(dir.path(), &url, &[]);
    let first = addresses(&url)[0];
    // The masters, by their ids and addresses.
    let masters = || -> Vec<(String, String)> {
        let nodes = ask(first, &["CLUSTER", "NODES"]);
        let masters = nodes.lines().filter(|line| line.contains("master"));
        let words = masters.map(|line| line.split(' ').collect::<Vec<_>>());
        let named = words.map(|words| {
            let address = words[1].split('@').next().unwrap_or_default();
            (words[0].to_owned(), address.to_owned())
        });
        named.collect()
    };
    let slot = ask(first, &["CLUSTER", "KEYSLOT", "lock:orders"]);
    let take = |at: &str, number| ask(at, &["SET", "lock:orders", &value(number), "NX", "PX", "60000"]);
    let give_back = |at: &str, number| ask(at, &["EVAL", RELEASE, "1", "lock:orders", &value(number)]);
    let move_slot = |from: &(String, String), to: &(String, String)| {
        assert_eq!(ask(&to.1, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.0]), "OK");
        assert_eq!(ask(&from.1, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.0]), "OK");
        let (host, port) = to.1.rsplit_once(':').unwrap();
        assert_eq!(ask(&from.1, &["MIGRATE", host, port, "lock:orders", "0", "5000"]), "OK");
        for one in [to, from] {
            assert_eq!(ask(&one.1, &["CLUSTER", "SETSLOT", &slot, "NODE", &to.0]), "OK");
        }
    };
    let known = masters();
    until("all are watched", || known.iter().all(|one| is_watched(&one.1)));
    let old = known.iter().find(|one| take(&one.1, 1) == "OK").expect("the slot's master");
    let other = known.iter().find(|one| *one != old).expect("another shard");
    // Held while its slot moves, and given back at the new place.
    move_slot(old, other);
    assert_eq!(give_back(&other.1, 1), "1");
    assert_eq!(take(&other.1, 2), "OK");
    // Nobody listens at the new shard yet, so what is given back there is held against nobody.
    signal(&watch, Signal::SIGSTOP);
    let bus = support::free_port().to_string();
    let server = Server::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    let (host, port) = first.rsplit_once(':').unwrap();
    let first_bus = ask(first, &["CLUSTER", "NODES"]);
    let first_bus = first_bus.lines().find(|line| line.contains("myself")).expect("itself");
    let first_bus = first_bus.split(['@', ' ', ',']).nth(2).unwrap();
    assert_eq!(server.cli(&["CLUSTER", "MEET", host, port, first_bus]), "OK");
    let at = format!("127.0.0.1:{}", server.port);
    until("the new shard is known", || {
        let all = masters();
        all.iter().any(|one| one.1 == at)
            && all.iter().all(|one| ask(&one.1, &["CLUSTER", "NODES"]).contains(&at))
    });
    until("it serves", || ask(&at, &["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    let all = masters();
    let new = all.iter().find(|one| one.1 == at).unwrap();
    move_slot(other, new);
    assert_eq!(give_back(&at, 2), "1");
    signal(&watch, Signal::SIGCONT);
    until("the new shard is watched", || is_watched(&at));
    until("its clock is asked", || ask(&at, &["INFO", "commandstats"]).contains("cmdstat_time:"));
    assert_eq!(take(&at, 3), "OK");
    assert_eq!(give_back(&at, 3), "1");
    let seen = json(&end(watch));
    let counted = (sum(&seen, "grants"), sum(&seen, "released"));
    assert_eq!(counted, (3, 2), "{seen}");
    assert_eq!(kinds(&seen, &["sure", "violated"]), Vec::<String>::new(), "{seen}");
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn a_watch_for_which_too_much_waits_at_a_server_ends() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let mut child = begin(dir.path(), &server, &[]);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000\r\n{}\r\n", "x".repeat(500_000));
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    // It may have read what waits before it looks at the server, and has five chances.
    for _ in 0..5 {
        signal(&child, Signal::SIGSTOP);
        let begun = Instant::now();
        // What the sockets take, and thrice the bound.
        for _ in 0..240 {
            connection.write_all(set.as_bytes()).unwrap();
            let mut answer = [0; 5];
            connection.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"+OK\r\n");
        }
        until("a look at the server is due", || begun.elapsed() > Duration::from_secs(2));
        signal(&child, Signal::SIGCONT);
        let begun = Instant::now();
        let mut is_over = || child.try_wait().unwrap().is_some();
        until("it ends, or has read it all", || is_over() || begun.elapsed() > Duration::from_secs(4));
        if is_over() {
            break;
        }
    }
    let output = child.wait_with_output().expect("it ends by itself");
    let seen = json(&output);
    let why = seen["watch"]["cost"]["ended_by"].as_str().unwrap_or_default();
    assert!(why.contains("MB of lines were waiting at a server"), "{seen}");
    assert!(seen["watch"]["seconds"].as_f64() < Some(100.0), "{seen}");
}

#[test]
fn a_watch_that_begins_while_the_master_is_down_follows_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["sentinel"]);
    let (sentinel, name) = (addresses(&url)[0], url.rsplit('/').next().unwrap());
    let master = || master_of(&url);
    let first = master();
    kill(&first);
    let watch = watch_of(dir.path(), &url, &[]);
    until("a successor", || master() != first);
    let second = master();
    until("it is watched", || ask(&second, &["ROLE"]).starts_with("master") && is_watched(&second));
    let taken = ask(&second, &["SET", "lock:orders", &value(1), "NX", "PX", "60000"]);
    assert_eq!(taken, "OK");
    ask(&second, &["EVAL", RELEASE, "1", "lock:orders", &value(1)]);
    let seen = end(watch);
    let waits = |output: &Output| stderr(output).matches("is waited for").count();
    assert_eq!((code(&seen), waits(&seen)), (0, 1), "{}", stderr(&seen));
    let seen = json(&seen);
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (1, 1), "{seen}");
    // Nobody succeeds it.
    let replicas = ask(sentinel, &["SENTINEL", "REPLICAS", name]);
    let mut words = replicas.lines();
    while words.any(|word| word == "name") {
        let address = words.next().unwrap();
        if address != first && address != second {
            kill(address);
        }
    }
    kill(&second);
    let seen = run(dir.path(), &["watch", &url, "--for", "2s"]);
    assert_eq!((code(&seen), waits(&seen)), (2, 1), "{}", stderr(&seen));
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn a_file_is_watched_and_kept_like_any_other_run() {
    let dir = tempfile::tempdir().unwrap();
    let line = |ms: u32, client: &str, words: &str| format!("1700000000.{ms:03}000 [0 {client}] {words}\n");
    let set = "\"SET\" \"job:7\" \"11111111-aaaa-4bbb-8ccc-00000000000";
    let (a, b) = ("127.0.0.1:5001", "127.0.0.1:5002");
    let mut text = String::new();
    for round in 0..6 {
        text += &line(round * 10, a, &format!("{set}1\" \"NX\" \"PX\" \"5\""));
        text += &line(round * 10 + 2, a, "\"DEL\" \"job:7\"");
    }
    text += &line(100, a, &format!("{set}1\" \"NX\" \"PX\" \"50\""));
    text += &line(200, b, &format!("{set}2\" \"NX\" \"PX\" \"600\""));
    text += &line(210, a, "\"DEL\" \"job:7\"");
    text += &line(220, a, &format!("{set}3\" \"NX\" \"PX\" \"600\""));
    text += &line(230, b, "\"DEL\" \"job:7\"");
    std::fs::write(dir.path().join("monitor.txt"), text).unwrap();
    let output = run(dir.path(), &["watch", "--file", "monitor.txt", "--out", "run"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines.len() <= 45
            && lines.iter().all(|line| line.chars().count() <= 120 || line.starts_with("page: ")),
        "{said}"
    );
    assert!(lines[0].starts_with("Two had a lock at once") && lines.last() == lines.first(), "{said}");
    let kept = std::fs::read_to_string(dir.path().join("run/run.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["watch"]["findings"][0]["kind"], "overlap");
    let page = std::fs::read_to_string(dir.path().join("run/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("overlap of job:*"), "{page}");
    // The names of lanes are whole, and the holds are drawn over all of the time.
    assert!(page.contains(">127.0.0.1:5002</text>"), "{page}");
    assert!(page.contains("Over the time of the watch"), "{page}");
    assert!(!page.contains("no expectation"), "{page}");
    // What was seen is a workload.
    let server = Server::start();
    let benched = run(
        dir.path(),
        &[
            "bench",
            "--from",
            "run",
            "--target",
            &server.url(),
            "--subject",
            "lock-core:plain",
            "--rounds",
            "1",
            "--json",
        ],
    );
    let row = &json(&benched)["rows"][0];
    let load = &row["measures"]["load"];
    // Nine grants in 230 ms.
    let rate = load["rate_per_s"].as_f64().expect("a rate");
    assert!((39.0..40.0).contains(&rate) && row["workload"] == "uniform", "{row}");
    let idle = "1700000000.000001 [0 127.0.0.1:5000] \"GET\" \"x\"\n";
    std::fs::write(dir.path().join("idle.txt"), idle).unwrap();
    run(dir.path(), &["watch", "--file", "idle.txt", "--out", "idle"]);
    let none = run(dir.path(), &["bench", "--from", "idle", "--target", &server.url()]);
    assert_eq!(code(&none), 65, "{}", stderr(&none));
    assert!(stderr(&none).contains("has not seen a lock"), "{}", stderr(&none));
    // The page's text again, and the checkers on the history.
    assert_eq!(code(&run(dir.path(), &["report", "run"])), 0);
    let checked = run(dir.path(), &["check", "run/history.jsonl", "--no-floors", "--json"]);
    assert_eq!(code(&checked), 1, "{}{}", stdout(&checked), stderr(&checked));
    assert_eq!(json(&checked)["verdicts"]["contract"]["state"], "violated");
    // Values are hashes unless they are asked for.
    assert!(!said.contains("4bbb") && !kept.to_string().contains("4bbb"));
    let shown = run(dir.path(), &["watch", "--file", "monitor.txt", "--out", "shown", "--show-values"]);
    assert!(stdout(&shown).contains("11111111-aaaa-4bbb-8ccc-000000000002"), "{}", stdout(&shown));
}

#[test]
fn what_is_no_traffic_is_refused_with_its_line_and_nothing_seen_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("noise.txt"), "hello\n").unwrap();
    let output = run(dir.path(), &["watch", "--file", "noise.txt"]);
    assert_eq!(code(&output), 65);
    assert!(stderr(&output).contains("noise.txt:1:"), "{}", stderr(&output));
    assert!(!dir.path().join("runs").exists());
    let idle = "1700000000.000001 [0 127.0.0.1:5000] \"GET\" \"x\"\n";
    std::fs::write(dir.path().join("idle.txt"), idle).unwrap();
    assert_eq!(code(&run(dir.path(), &["watch", "--file", "idle.txt"])), 2);
    assert_eq!(code(&run(dir.path(), &["watch"])), 64);
    assert_eq!(code(&run(dir.path(), &["watch", "redis://10.9.8.7:6379"])), 64);
}

#[test]
fn a_look_says_who_holds_what_and_which_keys_have_no_end() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let value = "11111111-aaaa-4bbb-8ccc-000000000001";
    server.cli(&["SET", "lock:orders", value, "NX", "PX", "60000"]);
    server.cli(&["SET", "lock:stuck", value, "NX"]);
    server.cli(&["HSET", "{user:1}", &format!("{value}:41"), "1"]);
    server.cli(&["PEXPIRE", "{user:1}", "30000"]);
    server.cli(&["SET", "cache:1", "a page of text", "EX", "60"]);
    server.cli(&["HSET", "session:1", "user", "7"]);
    let seen = json(&run(dir.path(), &["watch", &server.url(), "--once", "--json"]));
    let holders = seen["holders"].as_array().expect("holders").iter();
    let holders: Vec<_> =
        holders.map(|one| (one["lock"].as_str().unwrap(), one["left_ms"].is_null())).collect();
    assert_eq!(holders, [("lock:stuck", true), ("lock:orders", false), ("{user:1}", false)]);
    assert_eq!(kinds(&seen, &["likely"]), ["no-expiry"]);
}

#[test]
fn where_monitor_is_forbidden_the_other_ways_are_offered() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    server.cli(&["ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-monitor"]);
    let url = format!("redis://reader:secret@127.0.0.1:{}", server.port);
    let output = run(dir.path(), &["watch", &url, "--for", "1s"]);
    assert_eq!(code(&output), 69);
    for words in ["NOPERM", "--light", "--once", "--file"] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert!(!stderr(&output).contains("secret"));
}

#[test]
fn a_replica_shows_grants_and_ends() {
    let (master, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    until("the replica follows", || replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    let child = begin(dir.path(), &replica, &["--light"]);
    for number in 1..=5 {
        let value = format!("11111111-aaaa-4bbb-8ccc-00000000000{number}");
        master.cli(&["SET", "lock:orders", &value, "NX", "PX", "60000"]);
        master.cli(&["DEL", "lock:orders"]);
    }
    until("the replica has it all", || {
        replica.cli(&["INFO", "commandstats"]).contains("cmdstat_del:calls=5")
    });
    let seen = json(&end(child));
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (5, 5), "{seen}");
    assert_eq!(seen["watch"]["source"], "light");
}

#[test]
fn a_light_watch_of_a_master_finds_its_replica_or_says_that_there_is_none() {
    let (master, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let output = run(dir.path(), &["watch", &master.url(), "--light", "--for", "1s"]);
    assert_eq!(code(&output), 69);
    assert!(stderr(&output).contains("REPLICAOF"), "{}", stderr(&output));
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    until("the replica follows", || master.cli(&["INFO", "replication"]).contains("state=online"));
    let child = watch_of(dir.path(), &master.url(), &["--light"]);
    until("it is watched", || replica.cli(&["CLIENT", "LIST"]).contains("cmd=monitor"));
    assert!(!master.cli(&["CLIENT", "LIST"]).contains("cmd=monitor"));
    for number in 1..=5 {
        take(&master, number);
        give_back(&master, number);
    }
    until("the replica has it all", || {
        replica.cli(&["INFO", "commandstats"]).contains("cmdstat_del:calls=5")
    });
    let seen = json(&end(child));
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (5, 5), "{seen}");
}

/// A connection that is kept, as an application has it.
struct Client(BufReader<TcpStream>);

impl Client {
    fn of(server: &Server) -> Self {
        Client(BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).unwrap()))
    }

    /// A command as one line; its answer of one line.
    fn ask(&mut self, words: &str) -> String {
        self.0.get_mut().write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

/// Works beside a client that sets keys of a cache, some 200 each 5 ms.
fn beside_a_load<T>(server: &Server, work: impl FnOnce() -> T) -> T {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (is_over, port) = (AtomicBool::new(false), server.port);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let load = b"SET cache:1 a EX 9\r\n".repeat(200);
            let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let mut answers = vec![0; b"+OK\r\n".len() * 200];
            while !is_over.load(Ordering::Relaxed) {
                connection.write_all(&load).unwrap();
                connection.read_exact(&mut answers).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let _end = End(&is_over);
        work()
    })
}

#[test]
fn a_watch_that_begins_at_an_idle_server_ends_too_when_it_costs_too_much() {
    let server = Server::start_with(&["--slowlog-log-slower-than", "0", "--slowlog-max-len", "1000"]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = locklab(dir.path());
    command.args(["watch", &server.url(), "--for", "25s", "--max-cost", "0.001", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    until("MONITOR runs", || server.cli(&["CLIENT", "LIST"]).contains("cmd=monitor"));
    // It asks for its own connection, not for all clients, once it knows which that is.
    let is_asked = || server.cli(&["SLOWLOG", "GET", "-1"]).contains("CLIENT\nLIST\nID\n");
    until("it looks at its own connection", is_asked);
    let output = beside_a_load(&server, || child.wait_with_output().expect("it ends by itself"));
    let seen = json(&output);
    let why = seen["watch"]["cost"]["ended_by"].as_str().unwrap_or_default();
    assert!(why.contains("--max-cost"), "{seen}{}", stderr(&output));
    assert!(seen["watch"]["cost"]["cpu_us_per_command_before"].is_null(), "{seen}");
}

#[test]
fn a_user_who_may_not_ask_what_a_watch_costs_is_told_so_once() {
    for rights in ["-info", "-client|list"] {
        let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
        server.cli(&["ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", rights]);
        let url = format!("redis://reader:secret@127.0.0.1:{}", server.port);
        let begun = Instant::now();
        let output = run(dir.path(), &["watch", &url, "--for", "4s", "--json", "--out", "watch"]);
        assert!(begun.elapsed() >= Duration::from_secs(4), "{rights}: it ended too soon");
        let said = stderr(&output);
        assert_eq!(said.matches("does not say what the watch costs").count(), 1, "{rights}: {said}");
        for file in std::fs::read_dir(dir.path().join("watch")).unwrap() {
            let kept = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&kept).contains("secret"), "{rights}");
        }
        let seen = json(&output);
        // Without --for it would be a minute.
        assert!(seen["watch"]["seconds"].as_f64() < Some(30.0), "{rights}: {seen}");
        let warnings = seen["warnings"].to_string();
        assert!(warnings.contains("--max-cost") && warnings.contains("NoPerm"), "{rights}: {seen}");
        let shown = stdout(&run(dir.path(), &["report", "watch"]));
        assert!(shown.contains("does not say what the watch costs"), "{rights}: {shown}");
    }
}

#[test]
fn masters_that_do_not_answer_keep_the_lines_of_no_other_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["masters"]);
    let members = addresses(&url);
    let (alive, silent) = members.split_last().unwrap();
    let watch = watch_of(dir.path(), &url, &[]);
    until("all are watched", || members.iter().all(|one| is_watched(one)));
    let pids: Vec<i32> = silent.iter().map(|one| pid(one)).collect();
    let signal_all = |signal| {
        for pid in &pids {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), signal).unwrap();
        }
    };
    signal_all(Signal::SIGSTOP);
    // Each new key is read once what shows it was taken: an echo is of that read.
    let echoes = || {
        let stats = ask(alive, &["INFO", "commandstats"]);
        let calls = stats.split("cmdstat_echo:calls=").nth(1);
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    let (stopped, mut taken) = (Instant::now(), 0_u32);
    until("looks at the servers are due", || {
        taken += 1;
        let before = echoes();
        ask(alive, &["SET", &format!("lock:{taken}"), &value(1), "NX", "PX", "60000"]);
        until("the key is read", || echoes() > before);
        stopped.elapsed() > Duration::from_secs(4)
    });
    signal_all(Signal::SIGCONT);
    let seen = json(&end(watch));
    assert!(seen["watch"]["commands"].as_u64() > Some(u64::from(taken)), "{seen}");
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn what_is_announced_names_each_server_that_is_listened_to() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["sentinel"]);
    let seen = run(dir.path(), &["watch", &url, "--for", "1s", "--json"]);
    let said = stderr(&seen);
    let announced = said.lines().find(|line| line.contains("MONITOR on")).expect("it is announced");
    let seen = json(&seen);
    let servers = seen["watch"]["servers"].as_array().expect("servers");
    assert!(servers.len() > 1, "{seen}");
    for server in servers {
        assert!(announced.contains(server.as_str().unwrap()), "{announced}");
    }
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn a_look_sees_each_database_and_leaves_alone_what_is_no_lock() {
    // Each use of a key is counted, from five on.
    let counted = ["--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0"];
    let (server, dir) = (Server::start_with(&counted), tempfile::tempdir().unwrap());
    for key in ["cache:1", "cache:2"] {
        server.cli(&["SET", key, "a page of text"]);
    }
    server.cli(&["SET", "cache:3", "a page of text", "EX", "600"]);
    server.cli(&["-n", "3", "SET", "lock:orders", &value(1), "NX", "PX", "60000"]);
    let output = run(dir.path(), &["watch", &server.url(), "--once", "--json"]);
    let seen = json(&output);
    let holder = &seen["holders"][0];
    assert_eq!((holder["lock"].as_str(), holder["database"].as_u64()), (Some("lock:orders"), Some(3)));
    let knows = server.cli(&["CLIENT", "NO-TOUCH", "ON"]) == "OK";
    let uses = |key| server.cli(&["OBJECT", "FREQ", key]);
    assert_eq!((uses("cache:1"), uses("cache:2")), ("5".to_owned(), "5".to_owned()));
    assert_eq!(uses("cache:3") == "5", knows);
    assert_eq!(stderr(&output).contains("does not know CLIENT NO-TOUCH"), !knows, "{}", stderr(&output));
    let shown = stdout(&run(dir.path(), &["watch", &server.url(), "--once"]));
    assert!(shown.contains("lock:orders (database 3)"), "{shown}");
    server.cli(&["ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-info"]);
    let url = format!("redis://reader:secret@127.0.0.1:{}/3", server.port);
    let seen = json(&run(dir.path(), &["watch", &url, "--once", "--json"]));
    assert_eq!(seen["holders"][0]["lock"], "lock:orders");
    assert!(seen["warnings"].to_string().contains("that of the URL alone"), "{seen}");
}

/// What a server writes down of two locks that are given back and one that is held.
fn written_locks(server: &Server) {
    for number in 1..=5 {
        take(server, number);
        give_back(server, number);
    }
    take(server, 6);
    server.cli(&["DEL", "cache:1"]);
}

#[test]
fn a_file_without_times_shows_no_leases_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
    let watched = |path: &Path| {
        let seen = run(dir.path(), &["watch", "--file", path.to_str().unwrap(), "--json"]);
        assert_eq!(code(&seen), 0, "{}{}", stdout(&seen), stderr(&seen));
        let seen = json(&seen);
        assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (6, 5), "{seen}");
        seen
    };
    let is_without_times = |seen: &Value| {
        let lock = lock(seen);
        let lengths = [&lock["lease_ms"], &lock["hold_ms"]["max"], &lock["lease_used_p99"]];
        assert!(lengths.iter().all(|length| length.is_null()), "{seen}");
        assert!(seen["warnings"][0].as_str().is_some_and(|one| one.contains("no times")), "{seen}");
    };
    let file_of = |server: &Server| {
        let folder = server.cli(&["CONFIG", "GET", "dir"]);
        let folder = Path::new(folder.lines().nth(1).unwrap()).join("appendonlydir");
        let mut files = std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().path());
        files.find(|one| one.to_string_lossy().ends_with(".incr.aof")).expect("its file")
    };
    // A stream as redis-cli prints it.
    let server = Server::start_with(&keeps);
    let stream = dir.path().join("stream.txt");
    let mut command = Command::new("redis-cli");
    command.args(["-p", &server.port.to_string(), "--replica"]);
    command.stdout(std::fs::File::create(&stream).unwrap()).stderr(Stdio::null());
    let mut replica = command.spawn().expect("redis-cli runs");
    until("it follows", || server.cli(&["INFO", "replication"]).contains("state=online"));
    written_locks(&server);
    server.cli(&["SET", "the", "end"]);
    let holds = || std::fs::read_to_string(&stream).unwrap_or_default().contains("\"end\"");
    until("the stream is written", holds);
    // Who started the tests in the background may have told them to ignore SIGINT.
    signal(&replica, Signal::SIGTERM);
    replica.wait().unwrap();
    is_without_times(&watched(&stream));
    is_without_times(&watched(&file_of(&server)));
    // Times from the beginning, and times that began later.
    let timed = Server::start_with(&[&keeps[..], &["--aof-timestamp-enabled", "yes"]].concat());
    written_locks(&timed);
    let seen = watched(&file_of(&timed));
    // Times are whole seconds.
    let lease_ms = lock(&seen)["lease_ms"].as_f64().expect("a lease");
    assert!(
        (59_000.0..=61_000.0).contains(&lease_ms) && seen["warnings"] == Value::Array(Vec::new()),
        "{seen}"
    );
    server.cli(&["CONFIG", "SET", "aof-timestamp-enabled", "yes"]);
    server.cli(&["DEL", "lock:orders"]);
    written_locks(&server);
    let seen = watched(&file_of(&server));
    assert!(seen["warnings"][0].as_str().is_some_and(|one| one.contains("before the first #TS")), "{seen}");
}

#[test]
fn an_overlap_in_a_file_without_times_is_shown_by_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for number in [1, 2, 3, 4, 5, 6, 7, 8, 9] {
        text += &format!("\"SET\",\"lock:a\",\"{}\",\"PXAT\",\"1700000060000\"\n", value(number));
        text += "\"DEL\",\"lock:a\"\n";
    }
    for number in [1, 2] {
        text += &format!("\"SET\",\"lock:a\",\"{}\",\"PXAT\",\"1700000060000\"\n", value(number));
    }
    std::fs::write(dir.path().join("stream.txt"), text).unwrap();
    let seen = json(&run(dir.path(), &["watch", "--file", "stream.txt", "--json"]));
    for finding in seen["findings"].as_array().expect("findings") {
        let lines = finding["first"].to_string();
        assert!(
            finding["worst_ms"].is_null() && !lines.contains(" ms") && lines.contains("line "),
            "{finding}"
        );
    }
}

#[test]
fn a_line_beyond_every_bound_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let line = |ms: u32, words: &str| format!("1700000000.{ms:03}000 [0 127.0.0.1:5001] {words}\n");
    let mut text = line(1, &format!("\"SET\" \"job:7\" \"{}\" \"NX\" \"PX\" \"600\"", value(1)));
    text += &line(2, &format!("\"SET\" \"page:7\" \"{}\"", "x".repeat(17 << 20)));
    text += &line(3, "\"DEL\" \"job:7\"");
    std::fs::write(dir.path().join("monitor.txt"), text).unwrap();
    let seen = json(&run(dir.path(), &["watch", "--file", "monitor.txt", "--json"]));
    assert_eq!((sum(&seen, "grants"), sum(&seen, "released")), (1, 1), "{seen}");
    let warning = seen["warnings"][0].as_str().expect("a warning");
    assert_eq!(warning, "1 lines of more than 16 MB were passed over");
    let noise = "x".repeat(17 << 20);
    std::fs::write(dir.path().join("noise.txt"), noise).unwrap();
    let refused = run(dir.path(), &["watch", "--file", "noise.txt"]);
    assert_eq!(code(&refused), 65, "{}", stderr(&refused));
}

/// Takes a lock at a master and gives it back.
fn take_in_turn(master: &str, number: u32) {
    assert_eq!(ask(master, &["SET", "lock:orders", &value(number), "NX", "PX", "60000"]), "OK");
    assert_eq!(ask(master, &["EVAL", RELEASE, "1", "lock:orders", &value(number)]), "1");
}

#[test]
fn a_replica_that_is_promoted_shows_no_attempts_and_another_is_watched_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["cluster"]);
    let first = addresses(&url)[0];
    let nodes = ask(first, &["CLUSTER", "NODES"]);
    let nodes: Vec<Vec<&str>> = nodes.lines().map(|line| line.split(' ').collect()).collect();
    let address = |words: &[&str]| words[1].split('@').next().unwrap().to_owned();
    let masters = nodes.iter().filter(|words| words[2].contains("master"));
    let is_of_slot = |words: &&Vec<&str>| ask(&address(words), &["GET", "lock:orders"]).is_empty();
    let old = masters.clone().find(is_of_slot).expect("the slot's master");
    let new = nodes.iter().find(|words| words[3] == old[0]).expect("its replica");
    let (old, new) = (address(old), address(new));
    let watch = watch_of(dir.path(), &url, &["--light"]);
    until("each replica is watched, and no master", || {
        nodes.iter().all(|words| is_watched(&address(words)) == words[2].contains("slave"))
    });
    take_in_turn(&old, 1);
    let gave_back = |at: &str| ask(at, &["INFO", "commandstats"]).contains("cmdstat_del:");
    until("the replica has it", || gave_back(&new));
    assert_eq!(ask(&new, &["CLUSTER", "FAILOVER"]), "OK");
    until("it is promoted", || ask(&new, &["ROLE"]).starts_with("master"));
    assert_eq!(ask(&new, &["SET", "lock:orders", &value(2), "NX", "PX", "60000"]), "OK");
    // Replicas see no refusals; a master does.
    assert_eq!(ask(&new, &["SETNX", "lock:orders", &value(3)]), "0");
    until("the other one is watched", || is_watched(&old) && !is_watched(&new));
    assert_eq!(ask(&new, &["EVAL", RELEASE, "1", "lock:orders", &value(2)]), "1");
    for number in 4..7 {
        take_in_turn(&new, number);
    }
    ask(&new, &["DEL", "lock:orders"]);
    let has_all = || ask(&new, &["WAIT", "1", "1000"]) == "1";
    until("the replica has it", has_all);
    let output = end(watch);
    let seen = json(&output);
    // What was taken at the new master before it had a replica that is watched is seen or not; nothing else.
    let grants = sum(&seen, "grants");
    assert!((4..=5).contains(&grants), "{seen}{}", stderr(&output));
    assert_eq!(kinds(&seen, &["sure", "violated"]), Vec::<String>::new(), "{seen}");
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn a_light_watch_of_a_group_has_one_replica_and_waits_for_the_next_when_it_is_promoted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut up, url) = start_up(dir.path(), &["sentinel"]);
    let (sentinels, name) = (addresses(&url), url.rsplit('/').next().unwrap());
    // The replicas as a sentinel knows them, each with its priority.
    let replicas = |sentinel: &str| -> Vec<(String, String)> {
        let said = ask(sentinel, &["SENTINEL", "REPLICAS", name]);
        let words: Vec<&str> = said.lines().collect();
        let of = |field| words.chunks(2).filter(move |pair| pair[0] == field).map(|pair| pair[1].to_owned());
        of("name").zip(of("slave-priority")).collect()
    };
    let first = master_of(&url);
    let known: Vec<String> = replicas(sentinels[0]).into_iter().map(|one| one.0).collect();
    let servers: Vec<&String> = known.iter().chain([&first]).collect();
    let watch = watch_of(dir.path(), &url, &["--light"]);
    let watched = || -> Vec<&String> { servers.iter().copied().filter(|one| is_watched(one)).collect() };
    until("a replica is watched", || !watched().is_empty());
    assert_eq!((known.len(), watched().len()), (2, 1), "one of two");
    let replica = watched()[0];
    let other = known.iter().find(|one| *one != replica).expect("it is no master");
    let take = |master: &str, replica: &str, number: u32| {
        take_in_turn(master, number);
        ask(master, &["SET", "mark", &value(number)]);
        until("the replica has it", || ask(replica, &["GET", "mark"]) == value(number));
    };
    take(&first, replica, 1);
    // The other one is promoted: that which is watched follows it.
    assert_eq!(ask(other, &["CONFIG", "SET", "replica-priority", "1"]), "OK");
    let is_preferred = |sentinel: &&str| replicas(sentinel).contains(&(other.clone(), "1".to_owned()));
    until("all sentinels prefer it", || sentinels.iter().all(is_preferred));
    // Sentinels end the connections of servers to which they say whom to follow, until they are done.
    let is_known = |master: &str| {
        let knows = |sentinel: &&str| {
            let said = ask(sentinel, &["SENTINEL", "MASTER", name]).replace('\n', ":");
            let ip = format!(":ip:{}:", master.replace(':', ":port:"));
            said.contains(&ip) && said.contains(":flags:master:")
        };
        sentinels.iter().all(knows)
    };
    let follows = |one: &str, master: &str| {
        let role = ask(one, &["ROLE"]).replace('\n', ":");
        role.starts_with(&format!("slave:{master}:connected"))
    };
    kill(&first);
    until("the other one is promoted", || is_known(other));
    until("it is followed", || follows(replica, other));
    until("that which follows it is watched again", || watched() == [replica]);
    take(other, replica, 2);
    // Now that which is watched, the last one: the next replica comes later.
    kill(other);
    until("it is promoted", || is_known(replica));
    until("it is left alone", || !is_watched(replica));
    let (host, port) = replica.rsplit_once(':').unwrap();
    let server = Server::start_with(&["--replicaof", host, port]);
    let next = format!("127.0.0.1:{}", server.port);
    until("the next one is watched", || is_watched(&next));
    take(replica, &next, 3);
    let output = end(watch);
    let seen = json(&output);
    let counted = (sum(&seen, "grants"), sum(&seen, "released"));
    assert_eq!(counted, (3, 3), "{seen}{}", stderr(&output));
    assert_eq!(kinds(&seen, &["sure", "violated"]), Vec::<String>::new(), "{seen}");
    signal(&up, Signal::SIGINT);
    up.wait().unwrap();
}

#[test]
fn a_light_watch_ends_when_no_replica_is_left() {
    let (master, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    until("the replica follows", || replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    let child = begin(dir.path(), &replica, &["--light"]);
    take(&master, 1);
    until("the replica has it", || replica.cli(&["GET", "lock:orders"]) == value(1));
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(replica.cli(&["SETNX", "lock:orders", &value(2)]), "0");
    let output = child.wait_with_output().expect("it ends by itself");
    let seen = json(&output);
    let why = seen["watch"]["cost"]["ended_by"].as_str().unwrap_or_default();
    assert!(why.contains("no replica is left"), "{seen}{}", stderr(&output));
    assert!(sum(&seen, "grants") <= 1, "{seen}");
    assert_eq!(kinds(&seen, &["sure", "violated"]), Vec::<String>::new(), "{seen}");
}

#[test]
fn the_document_of_a_watch_counts_what_is_known_to_have_happened() {
    const RENEW: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],60000) else return 0 end";
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let output = beside_a_load(&server, || {
        let child = begin(dir.path(), &server, &[]);
        let mut clients = [Client::of(&server), Client::of(&server)];
        let take = |client: &mut Client, name: &str, number, lease_ms| {
            client.ask(&format!("SET {name} {} NX PX {lease_ms}", value(number)))
        };
        // Six holds, each with an attempt that is refused, a renewal and a release.
        for number in 1..=6 {
            let [holder, other] = &mut clients;
            assert_eq!(take(holder, "job:1", number, 60_000), "+OK");
            assert_eq!(take(other, "job:1", number + 1, 60_000), "$-1");
            for script in [RENEW, RELEASE] {
                assert_eq!(holder.ask(&format!("EVAL \"{script}\" 1 job:1 {}", value(number))), ":1");
            }
            clients.swap(0, 1);
        }
        // One that uses a tenth of its lease or more, one that ends by its lease, one that the other deletes,
        // and one that goes on.
        let [holder, other] = &mut clients;
        assert_eq!(take(holder, "job:3", 1, 10_000), "+OK");
        until("a tenth of it is over", || {
            other.ask("PTTL job:3").trim_start_matches(':').parse::<u32>().unwrap() < 9_000
        });
        assert_eq!(holder.ask(&format!("EVAL \"{RELEASE}\" 1 job:3 {}", value(1))), ":1");
        // Its key is read while it is there.
        assert_eq!(take(holder, "job:2", 7, 1_000), "+OK");
        until("its lease is over", || other.ask("EXISTS job:2") == ":0");
        assert_eq!(take(holder, "job:3", 8, 60_000), "+OK");
        assert_eq!(other.ask("DEL job:3"), ":1");
        assert_eq!(take(holder, "job:1", 9, 60_000), "+OK");
        // Its cost while it goes on is that between two looks.
        let looks = || {
            let stats = server.cli(&["INFO", "commandstats"]);
            stats
                .split("cmdstat_client|list:calls=")
                .nth(1)
                .map(|calls| calls.split(',').next().unwrap().to_owned())
        };
        let before = looks();
        until("it has looked", || looks() != before);
        let once = looks();
        until("it has looked again", || looks() != once);
        end(child)
    });
    let seen = json(&output);
    assert_eq!(code(&output), 1, "{seen}");
    let (watch, lock) = (&seen["watch"], &seen["locks"][0]);
    assert_eq!(watch["servers"], serde_json::json!([format!("127.0.0.1:{}", server.port)]));
    let seconds = watch["seconds"].as_f64().expect("seconds");
    assert!(seconds > 0.0 && watch["commands"].as_u64() > Some(28) && watch["source"] == "monitor", "{seen}");
    let cost = &watch["cost"];
    for field in ["cpu_us_per_command_before", "cpu_us_per_command"] {
        assert!(cost[field].as_f64() > Some(0.0), "{field}: {seen}");
    }
    assert!(cost["cores"].as_f64() >= Some(0.0) && cost["ended_by"] == "", "{seen}");
    let counts = serde_json::json!({
        "pattern": "job:*", "names": 3, "recipe": "SET NX", "grants": 10, "refusals": 6, "renewals": 6,
        "released": 7, "expired": 1, "deleted_by_another": 1, "still_held": 1, "lease_ms": 60_000.0,
        "clients": 2,
    });
    for (field, expected) in counts.as_object().unwrap() {
        assert_eq!(&lock[field], expected, "{field}: {seen}");
    }
    let number = |of: &Value, field: &str| of[field].as_f64().unwrap_or_else(|| panic!("{field}: {seen}"));
    let is_near = |found: f64, expected: f64| (found - expected).abs() < 1e-3;
    assert!(is_near(number(lock, "commands_per_grant"), 30.0 / 10.0), "{seen}");
    assert!(is_near(number(lock, "polls_per_s"), 6.0 / seconds), "{seen}");
    assert!((0.1..1.0).contains(&number(lock, "lease_used_p99")), "{seen}");
    let hold = &lock["hold_ms"];
    let (p50, p99, max) = (number(hold, "p50"), number(hold, "p99"), number(hold, "max"));
    assert!(p50 <= p99 && p99 <= max && max >= 45.0 && lock["library"].is_string(), "{seen}");
    let findings = seen["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|one| one["kind"] == "released-by-another").expect("a DEL by another");
    let expected = serde_json::json!({
        "certainty": "sure", "pattern": "job:*", "lock": "job:3", "count": 1,
    });
    for (field, expected) in expected.as_object().unwrap() {
        assert_eq!(&finding[field], expected, "{field}: {seen}");
    }
    assert!(!finding["first"].as_array().expect("lines").is_empty(), "{seen}");
    for field in ["why", "remedy"] {
        assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {seen}");
    }
}
