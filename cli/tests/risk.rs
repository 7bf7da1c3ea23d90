//! `risk` answers with a figure for each configuration, and says what it lacks.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster_config::{
    LinkFault, Links, Party, Process, Provisioner as _, Role, Topology, TopologyKind, UpOptions,
};
use serde_json::Value;
use support::{Server, code, run, stderr, stdout, until};

const SERVICE: [&str; 10] =
    ["--outage", "2.2s", "--lag", "20ms", "--grants", "50/s", "--hold", "5s", "--lease", "30s"];

fn said(args: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &[&["risk"], args].concat());
    (code(&output), stdout(&output), stderr(&output))
}

fn doubles(json: &str, name: &str) -> (f64, f64, f64) {
    let json: Value = serde_json::from_str(json).unwrap();
    let all = json["configurations"].as_array().unwrap();
    let found = all.iter().find(|one| one["name"] == name);
    let found = &found.unwrap_or_else(|| panic!("{json:#}"))["double_grants_per_year"];
    let figure = |field: &str| found[field].as_f64().unwrap();
    (figure("low"), figure("estimate"), figure("high"))
}

#[test]
fn each_configuration_has_its_figures_and_a_range_gives_an_interval() {
    let (ended, json, why) = said(&[&["--json", "--failovers", "4/year"], &SERVICE[..]].concat());
    assert_eq!(ended, 0, "{why}");
    let (low, estimate, high) = doubles(&json, "sentinel, asynchronous");
    assert!((2.5..2.7).contains(&estimate) && low == high, "{json}");
    assert_eq!(doubles(&json, "sentinel, wait:all").1, 0.0);
    let ranged = [&["--json", "--failovers", "2/year..8/year"], &SERVICE[..]].concat();
    let (_, json, _) = said(&ranged);
    let (low, estimate, high) = doubles(&json, "sentinel, asynchronous");
    assert!(low < estimate && estimate < high, "{json}");
    let (ended, text, _) = said(&[&["--failovers", "4/year"], &SERVICE[..]].concat());
    assert_eq!(ended, 0);
    assert!(text.contains("sentinel, asynchronous") && text.contains("2.6"), "{text}");
    assert!(!text.contains("overtaken"), "{text}");
    let more = ["--failovers", "4/year", "--masters", "7", "--acknowledgers", "2", "--pauses", "12/year"];
    let (_, text, _) = said(&[&more[..], &SERVICE].concat());
    for words in ["masters (7), delayed restart", "sentinel, wait:2", "holders a year be overtaken"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_run_says_how_long_its_failovers_took() {
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../results/published/");
    let answer = |run: &str| {
        let from = format!("{published}{run}");
        let rest = [&SERVICE[2..], &["--json", "--failovers", "4/year", "--from", &from]].concat();
        let (ended, json, why) = said(&rest);
        (ended, serde_json::from_str::<Value>(&json).unwrap_or_default(), why)
    };
    let (ended, json, why) = answer("2026-11-28-vm-2-cores-quickstart");
    assert_eq!(ended, 0, "{why}");
    // Runs of earlier builds measured no lag.
    assert_eq!(json["measured"], serde_json::json!(["outage"]));
    let from = format!("{published}2026-11-28-vm-2-cores-quickstart");
    let (ended, _, why) = said(&[&SERVICE[4..], &["--failovers", "4/year", "--from", &from]].concat());
    assert_eq!(ended, 64, "{why}");
    assert!(why.contains("--lag 20ms; that run measured no lag"), "{why}");
    // Four masters of sentinels and clusters were killed in it: 2.2 s at the soonest, 4.5 s at the latest.
    let outage = &json["inputs"]["outage_s"];
    assert!((2.1..2.2).contains(&outage["low"].as_f64().unwrap()), "{outage}");
    assert!((4.5..4.6).contains(&outage["high"].as_f64().unwrap()), "{outage}");
    // Baselines were measured there, and no master was killed.
    let (ended, _, why) = answer("2026-11-23-baselines");
    assert_ne!(ended, 0);
    assert!(why.contains("no master of a sentinel group or a cluster was killed"), "{why}");
}

/// What `chaos` kept of the scenario in this text, and where its run is.
fn chaos_run(dir: &Path, text: &str) -> (Value, String) {
    std::fs::write(dir.join("own.toml"), text).unwrap();
    let output = run(dir, &["chaos", "own.toml", "--out", "run", "--expect-file"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let kept = std::fs::read(dir.join("run/run.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    (kept["scenarios"][0].clone(), dir.join("run").display().to_string())
}

/// The replication of its second part is late by a second.
#[test]
fn a_run_says_how_far_its_replicas_were_behind_before_its_first_fault() {
    let dir = tempfile::tempdir().unwrap();
    let text = "name = \"late\"\n[topology]\nkind = \"sentinel\"\n[load]\nduration = \"6s\"\n[[faults]]\nat = \"2s\"\n\
        fault = \"delay\"\non = \"master -> replicas\"\nwith = { latency = \"1s\" }\n[expect]\ncontract = \"clean\"\n";
    let (scenario, run) = chaos_run(dir.path(), text);
    let lag = |part: &str, figure: &str| {
        let found = scenario[part][figure].as_u64();
        found.unwrap_or_else(|| panic!("{part} {figure}: {scenario:#}"))
    };
    assert!(lag("lag_before_faults", "samples") > 1 && lag("lag_from_first_fault", "samples") > 1);
    let before_ns = lag("lag_before_faults", "p50_ns");
    assert!(before_ns > 0, "no lag is shorter than the way of a message");
    // It takes a second to grow, and four are measured; between two rounds of questions it is guessed.
    assert!(lag("lag_from_first_fault", "p99_ns") > 800_000_000, "{scenario:#}");
    assert!(lag("lag_from_first_fault", "p50_ns") > 4 * before_ns, "{scenario:#}");

    let rest = [&SERVICE[..2], &SERVICE[4..], &["--json", "--failovers", "4/year", "--from", &run]].concat();
    let (ended, json, why) = said(&rest);
    assert_eq!(ended, 0, "{why}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["measured"], serde_json::json!(["lag"]));
    let p99_ns = lag("lag_before_faults", "p99_ns");
    let spans = [("low", before_ns), ("high", p99_ns)];
    for (end, ns) in spans {
        assert_eq!(json["inputs"]["lag_s"][end], ns as f64 / 1e9, "{json:#}");
    }
}

#[test]
fn a_run_without_replicas_says_nothing_of_a_lag() {
    let dir = tempfile::tempdir().unwrap();
    let text = "name = \"one\"\n[topology]\nkind = \"single\"\n[load]\nduration = \"1s\"\n[[faults]]\nat = \"500ms\"\n\
        fault = \"pause\"\nfor = \"100ms\"\non = \"master\"\n[expect]\ncontract = \"clean\"\n";
    let (scenario, run) = chaos_run(dir.path(), text);
    assert!(scenario["lag_before_faults"].is_null() && scenario["lag_from_first_fault"].is_null());
    let (ended, _, why) = said(&[&SERVICE[4..], &["--failovers", "4/year", "--from", &run]].concat());
    assert_eq!(ended, 65, "{why}");
    assert!(why.contains("--outage and --lag"), "{why}");
    assert_eq!(why.trim().lines().count(), 1, "{why}");
}

/// What others read, field by field.
#[test]
fn the_answer_in_json_has_the_shape_that_the_book_says() {
    let (_, json, _) = said(&[&["--json", "--failovers", "2/year..8/year"], &SERVICE[..]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["configurations", "inputs", "measured", "overtaken_holders_per_year", "schema"]);
    for input in ["failovers_per_year", "outage_s", "lag_s", "grants_per_s", "hold_s", "lease_s"] {
        assert_eq!(keys(&json["inputs"][input]), ["high", "low"], "{input}");
    }
    assert_eq!(json["inputs"]["failovers_per_year"]["high"], 8.0);
    let configurations = json["configurations"].as_array().unwrap();
    for one in configurations {
        let fields = ["commands_per_grant", "double_grants_per_year", "grant_p50_ms", "matters_most", "name"];
        let figures = ["blocked_locks_per_year", "unavailable_minutes_per_year"];
        assert_eq!(keys(one), [&figures[..1], &fields, &figures[1..]].concat());
        for figure in [&figures[..], &["double_grants_per_year"]].concat() {
            let [low, estimate, high] =
                ["low", "estimate", "high"].map(|of| one[figure][of].as_f64().unwrap());
            assert!(low <= estimate && estimate <= high, "{one}");
        }
        assert!(one["commands_per_grant"].is_number() && one["grant_p50_ms"].is_number(), "{one}");
    }
    let names: Vec<&str> = configurations.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let page = include_str!("../../docs/src/risk.md");
    assert!(names.len() == 10 && names.iter().all(|name| page.contains(&format!("| {name} |"))), "{names:?}");
}

#[test]
fn what_is_missing_contradictory_or_out_of_range_is_one_message() {
    let (ended, _, why) = said(&["--lag", "20ms"]);
    assert_eq!(ended, 64);
    assert!(why.contains("--failovers 4/year --outage 2.2s --grants 50/s"), "{why}");
    let short = [
        "--failovers",
        "4/year",
        "--outage",
        "1s",
        "--lag",
        "1ms",
        "--grants",
        "1/s",
        "--hold",
        "30s",
        "--lease",
        "10s",
    ];
    let (ended, _, why) = said(&short);
    assert_eq!(ended, 64);
    assert!(why.contains("--renewed"), "{why}");
    assert_eq!(said(&[&short[..], &["--renewed"]].concat()).0, 0);
    for (wrong, usual) in [
        ("--failovers 4", "4/year"),
        ("--failovers 4/year --machine-share 110%", "100%"),
        ("--failovers 4/year --lag 5s..1s", "20ms"),
        ("--failovers 4/year --hold 0s", "5s"),
        ("--failovers 4/year --grants 0/s", "50/s"),
        ("--failovers 100000/year --outage 2h", "4/year of 2.2s"),
    ] {
        // A flag that is wrong stands in the place of the good one.
        let wrong: Vec<&str> = wrong.split(' ').collect();
        let good = SERVICE.chunks(2).filter(|pair| !wrong.contains(&pair[0]));
        let (ended, _, why) = said(&[&wrong[..], &good.flatten().copied().collect::<Vec<_>>()].concat());
        assert_eq!(ended, 64, "{wrong:?}: {why}");
        assert_eq!(why.matches("(usual: ").count(), 1, "{wrong:?}: {why}");
        assert!(why.contains(usual), "{wrong:?}: {why}");
    }
}

#[test]
fn the_page_of_the_book_has_the_figures_of_its_command() {
    let (_, text, _) = said(&[&["--failovers", "4/year"], &SERVICE[..]].concat());
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/risk.md"));
    let page = page.unwrap();
    let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
    for row in rows {
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let row = format!("| {} |", cells[..5].join(" | "));
        assert!(page.contains(&row), "{row}");
    }
}

/// A lock that is taken and given back until the value is dropped.
struct Service {
    ends: Arc<AtomicBool>,
    work: Option<JoinHandle<()>>,
}

impl Service {
    /// At the server of this URL.
    fn start(url: String) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let work = thread::spawn(move || {
            let client = redis::Client::open(url).expect("a good URL");
            let mut connection = client.get_connection().expect("it answers");
            for n in 0.. {
                if ended.load(Relaxed) {
                    break;
                }
                let key = format!("order:{}", n % 3);
                let _: redis::Value = redis::cmd("SET")
                    .arg(&[&key, "me", "NX", "PX", "30000"])
                    .query(&mut connection)
                    .expect("it is set");
                thread::sleep(Duration::from_millis(20));
                let _: redis::Value =
                    redis::cmd("DEL").arg(&key).query(&mut connection).expect("it is deleted");
            }
        });
        Self { ends, work: Some(work) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(work) = self.work.take() {
            let _ = work.join();
        }
    }
}

#[test]
fn what_servers_show_is_measured_there_and_the_rest_is_asked_for() {
    let master = Server::start();
    let port = master.port.to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || replica.cli(&["INFO", "replication"]).contains("link_status:up"));
    let _service = Service::start(master.url());
    let url = master.url();
    let target = ["--target", &url, "--watch", "2s"];
    // At once, and not after the watch.
    let (ended, _, why) = said(&[&["--failovers", "4/year", "--watch", "1h"], &target[..2]].concat());
    assert_eq!(ended, 64, "{why}");
    assert!(why.contains("--outage 2.2s") && !why.contains("--lag"), "{why}");

    let rest = ["--json", "--failovers", "4/year", "--outage", "2.2s"];
    let (ended, json, why) = said(&[&rest[..], &target].concat());
    assert_eq!(ended, 0, "{why}");
    let json: Value = serde_json::from_str(&json).unwrap();
    let measured = json["measured"].as_array().unwrap();
    for name in ["lag", "grants", "hold", "lease", "rtt"] {
        assert!(measured.iter().any(|known| known == name), "{name}: {json:#}");
    }
    let inputs = &json["inputs"];
    assert_eq!(inputs["lease_s"]["high"], 30.0, "{json:#}");
    assert_eq!(inputs["replicas"], 1, "{json:#}");
    // Of holds of 20 ms, the one after the other, at most 50 a second; on a busy machine fewer, and then
    // longer ones.
    let (grants, hold_s) = (&inputs["grants_per_s"], &inputs["hold_s"]);
    assert!(grants["high"].as_f64().unwrap() < 100.0, "{json:#}");
    assert!(hold_s["high"].as_f64().unwrap() > 0.004, "{json:#}");
}

/// The lag at the servers of `url`: the median and the 99th percentile, in seconds.
fn measured_lag(url: &str) -> [f64; 2] {
    let rest = ["--json", "--failovers", "4/year", "--outage", "2.2s", "--watch", "4s"];
    let (ended, json, why) = said(&[&rest[..], &["--target", url]].concat());
    assert_eq!(ended, 0, "{why}");
    let json: Value = serde_json::from_str(&json).unwrap();
    ["low", "high"].map(|end| json["inputs"]["lag_s"][end].as_f64().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lag_that_is_measured_is_that_of_the_link() {
    let dir = support::scratch();
    let options = UpOptions { links: Links::Proxied, ..UpOptions::new(dir.path()) };
    let topology = Topology::of(TopologyKind::Sentinel);
    let servers = Process.up(&topology, &options).await.unwrap();
    let master = servers.nodes()[0].clone();
    let _service = Service::start(format!("redis://{}", master.address));
    let ask = async || {
        let url = servers.url();
        tokio::task::spawn_blocking(move || measured_lag(&url)).await.unwrap()
    };
    let [usual_s, _] = ask().await;
    let replicas = servers.nodes().iter().filter(|node| node.role == Role::Replica);
    let links = replicas.map(|node| [&master.name, &node.name].map(|name| Party::Node(name.clone())));
    let delay = LinkFault::Delay { latency: Duration::from_secs(1), jitter: Duration::ZERO };
    let late = servers.apply(&links.map(Into::into).collect::<Vec<_>>(), &delay).unwrap();
    let [median_s, p99_s] = ask().await;
    drop(late);
    // Where a master was between two questions, of which ten are asked in a second, is guessed.
    assert!(p99_s > 0.8, "{median_s} to {p99_s}");
    // It takes a second to grow, and four are measured.
    assert!(median_s > 0.5 && median_s > 2.0 * usual_s, "{usual_s}, then {median_s} to {p99_s}");
    servers.down().await.unwrap();
}
