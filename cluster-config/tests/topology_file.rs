//! What a topology file may say, how everything that is wrong with one is reported, and the layouts of what
//! is right.

use std::path::Path;

use cluster_config::TopologyKind::{self, Cluster, Masters, Sentinel, Single};
use cluster_config::input::{Problems, read_table};
use cluster_config::layout::{Layout, slot_range};
use cluster_config::{Access, Links, Persistence, ProvisionerKind, Role, Topology, json_schema};
use serde::Deserialize;
use toml::de::DeTable;

const WHOLE: &str = r#"
name = "far replica"
[topology]
kind = "sentinel"
replicas = 2
sentinels = 3
server = "redis"
config = { maxmemory = "64mb", lazyfree-lazy-user-del = true, hz = 50 }
persistence = "aof-everysec"
min-replicas-to-write = 1
tls = true
acl = true
"#;

#[test]
fn a_whole_file_is_read() {
    let topology = Topology::parse("far.toml", WHOLE).unwrap();
    assert_eq!(topology.kind, TopologyKind::Sentinel);
    assert_eq!(topology.config["lazyfree-lazy-user-del"], "yes");
    assert_eq!(topology.config["hz"], "50");
    assert_eq!(topology.persistence, Some(Persistence::AofEverysec));
    assert_eq!(topology.min_replicas_to_write, 1);
    assert!(topology.tls && topology.acl);
}

#[test]
fn everything_wrong_is_reported_together_by_line_and_column_with_the_nearest_word() {
    let text = r#"
[topology]
kind = "sentinel"
replcas = 2
persistence = "aof-allways"
tls = "yes"
min-replicas-to-write = 4
config = { port = 7000, maxmemory = [1] }
"#;
    let errors = Topology::parse("x.toml", text).unwrap_err();
    let said = errors.to_string();
    for part in [
        "x.toml:4:1: unknown key `replcas` in [topology]",
        "did you mean `replicas`?",
        "x.toml:5:15: `persistence` is \"aof-allways\"",
        "did you mean `aof-always`?",
        "x.toml:6:7: `tls` is \"yes\"; allowed is `true` or `false`, without quotes",
        "x.toml:7:25: min-replicas-to-write = 4 with 2 replicas per master",
        "x.toml:8:19: config: port is chosen by the harness",
        "x.toml:8:37: `maxmemory` is a list",
    ] {
        assert!(said.contains(part), "{part}\nis not in\n{said}");
    }
    assert_eq!(errors.problems.len(), 6, "{said}");
    assert!(errors.problems.is_sorted_by_key(|problem| problem.line));
}

#[test]
fn a_table_among_those_of_another_file_is_read_and_a_file_without_it_is_refused() {
    let scenario =
        "name = \"x\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\n[expect]\ncontract = \"clean\"\n";
    assert_eq!(
        Topology::parse_among("x.toml", scenario, &["load", "expect"]).unwrap(),
        Topology::of(TopologyKind::Single)
    );
    assert!(Topology::parse("x.toml", scenario).is_err());
    let said = Topology::parse("x.toml", "[toplogy]\nkind = \"single\"\n").unwrap_err().to_string();
    assert!(said.contains("did you mean `topology`?") && said.contains("is missing"), "{said}");
    assert!(Topology::parse("x.toml", "[topology\n").is_err());
}

#[test]
fn the_schema_in_the_repository_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/topology.schema.json");
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        std::fs::write(path, json_schema()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        kept,
        json_schema(),
        "write it again with `LOCKLAB_BLESS=1 cargo test -p cluster-config --test topology_file`"
    );
}

#[test]
fn a_count_is_told_the_bounds_of_its_kind() {
    for (kind, key, found, allowed) in [
        ("masters", "masters", "1000", "1 to 9"),
        ("masters", "masters", "0", "1 to 9"),
        ("cluster", "shards", "101", "1 to 100"),
        ("cluster", "replicas", "-1", "0 to 5"),
        ("sentinel", "replicas", "5000000000", "0 to 5"),
        ("sentinel", "min-replicas-to-write", "-1", "from 0 to the number of replicas"),
    ] {
        let text = format!("[topology]\nkind = \"{kind}\"\n{key} = {found}\n");
        let said = Topology::parse("x.toml", &text).unwrap_err().to_string();
        let place = format!("x.toml:3:{}: {key} = {found}", key.len() + 4);
        assert!(said.starts_with(&place) && said.contains(allowed), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

fn plan(kind: TopologyKind, links: Links) -> Layout {
    planned(kind, links, "/tmp/lab", |_| {})
}

fn special(kind: TopologyKind, change: impl FnOnce(&mut Topology)) -> Layout {
    planned(kind, Links::Direct, "/tmp/lab", change)
}

fn planned(kind: TopologyKind, links: Links, dir: &str, change: impl FnOnce(&mut Topology)) -> Layout {
    let mut topology = Topology::of(kind);
    change(&mut topology);
    topology.validate().unwrap();
    let (dir, access) = (Path::new(dir), Access::of(&topology));
    Layout::plan(&topology, links, 17000, dir, &dir.join("nodes"), &access)
}

/// A proxied node announces the same octet in the next network, a direct one where it listens.
#[test]
fn each_shape_has_its_url_its_addresses_and_its_lines() {
    let masters = special(Masters, |topology| {
        (topology.masters, topology.replicas) = (3, 1);
    });
    let masters_of: Vec<_> = masters.nodes.iter().map(|node| node.master).collect();
    assert_eq!(masters_of, [None, None, None, Some(0), Some(1), Some(2)]);
    let cases: [(Layout, usize, &str, usize, &[&str]); 4] = [
        (plan(Single, Links::Direct), 1, "redis://127.0.0.11:17000/0", 0, &[]),
        (
            masters,
            6,
            "redlock://127.0.0.11:17000,127.0.0.12:17000,127.0.0.13:17000",
            4,
            &["replicaof 127.0.0.12 17000"],
        ),
        (
            plan(Sentinel, Links::Proxied),
            12,
            "redis-sentinel://127.0.1.101:17000,127.0.1.102:17000,127.0.1.103:17000/locklab",
            1,
            &["replicaof 127.0.1.11 17000", "bind-source-addr 127.0.0.12"],
        ),
        // Bus ports on real and announced addresses.
        (
            plan(Cluster, Links::Proxied),
            24,
            "redis-cluster://127.0.1.11:17000,127.0.1.12:17000,127.0.1.13:17000,127.0.1.14:17000,127.0.1.15:17000,127.0.1.16:17000",
            4,
            &["cluster-port 17001", "cluster-announce-ip 127.0.1.15"],
        ),
    ];
    for (layout, listens, url, node, lines) in cases {
        let count = layout.listen_addresses().len();
        assert_eq!((&*layout.url, count), (url, listens));
        for line in lines {
            assert!(layout.nodes[node].conf.contains(line), "{url}: {line}");
        }
    }
}

#[test]
fn own_lines_come_last_and_stay_away_from_sentinels() {
    let layout = special(TopologyKind::Sentinel, |topology| {
        topology.config.insert("appendonly".into(), "yes".into());
    });
    let data = &layout.nodes[0].conf;
    assert!(data.rfind("appendonly yes") > data.rfind("appendonly no"), "{data}");
    assert!(!layout.nodes[5].conf.contains("appendonly"));
}

#[test]
fn no_word_stays_unfilled_and_with_tls_nothing_listens_in_the_clear() {
    for (kind, tls) in TopologyKind::REDIS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let layout = planned(kind, Links::Proxied, "/tmp/lab", |topology| topology.tls = tls);
        let names_authority = layout.url.contains("?tls-ca=/tmp/lab/nodes/tls/ca.crt");
        assert_eq!(names_authority, tls, "{}", layout.url);
        for node in &layout.nodes {
            assert!(!node.conf.contains("{{"), "{}", node.conf);
            let port = node.conf.lines().rfind(|line| line.starts_with("port "));
            assert_eq!(port == Some("port 0"), tls, "{}", node.conf);
        }
    }
}

#[test]
fn slots_are_shared_out_without_gap_or_overlap() {
    for masters in 1..=100 {
        let mut next = 0;
        for index in 0..masters {
            let (first, last) = slot_range(index, masters);
            assert_eq!(first, next);
            next = last + 1;
        }
        assert_eq!(next, 16384);
    }
}

#[test]
fn a_directory_with_blanks_is_quoted() {
    let dir = "/tmp/my \"lab\"";
    let layout = planned(TopologyKind::Single, Links::Direct, dir, |_| {});
    assert!(layout.nodes[0].conf.contains(r#"dir "/tmp/my \"lab\"/nodes/n1""#));
}

fn message(topology: &Topology) -> String {
    topology.validate().unwrap_err().to_string()
}

#[test]
fn the_usual_topologies_are_valid() {
    for kind in TopologyKind::ALL {
        Topology::of(kind).validate().unwrap();
    }
    // Counts that a kind does not use are ignored.
    let mut single = Topology::of(TopologyKind::Single);
    single.shards = 500;
    single.validate().unwrap();
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    type Change = fn(&mut Topology);
    let cases: [(TopologyKind, Change, &[&str]); 7] = [
        (
            Sentinel,
            |topology| {
                let lines = [("down-after", "30000"), ("parallel-syncs", "none")];
                let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
                topology.sentinel_config = lines.into();
            },
            &["down-after: allowed are", "down-after-milliseconds", "\"none\" is no whole number"],
        ),
        (
            Cluster,
            |topology| (topology.shards, topology.replicas) = (100, 2),
            &["shards = 100", "300 nodes", "at most 200"],
        ),
        (
            Sentinel,
            |topology| (topology.replicas, topology.sentinels) = (6, 0),
            &["replicas = 6", "0 to 5", "sentinels = 0", "1 to 7"],
        ),
        (
            Single,
            |topology| {
                topology.config.insert("port".into(), "7000".into());
                let own = ("Requirepass".into(), "secret".into());
                topology.config.extend([own]);
            },
            &["port is chosen by the harness", "Requirepass"],
        ),
        (
            Single,
            |topology| {
                let two = "1mb\nport 1".to_owned();
                topology.config.insert("maxmemory".into(), two);
            },
            &["spans several lines"],
        ),
        (Sentinel, |topology| topology.min_replicas_to_write = 3, &["no write would ever be taken"]),
        (
            Single,
            |topology| {
                topology.persistence = Some(Persistence::AofAlways);
                topology.config.insert("appendfsync".into(), "no".into());
            },
            &["leave out one of the two"],
        ),
    ];
    for (kind, change, said) in cases {
        let mut topology = Topology::of(kind);
        change(&mut topology);
        let message = message(&topology);
        for part in said {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(!message.contains("secret"), "{message}");
    }
    let mut enough = Topology::of(Sentinel);
    enough.min_replicas_to_write = 2;
    enough.validate().unwrap();
}

#[test]
fn what_is_usual_is_left_out_of_a_kept_plan() {
    let json = serde_json::to_string(&Topology::of(TopologyKind::Single)).unwrap();
    assert!(!json.contains("tls") && !json.contains("acl"), "{json}");
    let back: Topology = serde_json::from_str(&json).unwrap();
    assert_eq!(back, Topology::of(TopologyKind::Single));
}

#[test]
fn small_clusters_and_few_sentinels_are_remarked_upon() {
    let mut topology = Topology::of(TopologyKind::Cluster);
    assert_eq!(topology.remark(), None);
    topology.shards = 2;
    topology.validate().unwrap();
    assert!(topology.remark().is_some());
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    name: String,
    load: Load,
    faults: Vec<Fault>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Load {
    clients: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fault {
    on: String,
}

#[test]
fn everything_that_is_refused_is_reported_and_the_rest_is_read() {
    let text = "nam = 1\nname = \"x\"\n[load]\nclients = \"2\"\nlocks = 1\n[[faults]]\non = 3\n[[faults]]\non = \"n1\"\n";
    let problems = Problems::new(text);
    let (document, _) = DeTable::parse_recoverable(text);
    let read = read_table::<File>(document.get_ref(), "a file", &problems);
    let file = read.value.expect("the rest is in order");
    assert_eq!((file.name.as_str(), file.load.clients), ("x", 0));
    assert_eq!(file.faults[1].on, "n1");
    assert_eq!(read.refused, [vec!["faults", "0", "on"], vec!["load", "clients"]]);
    let said = problems.into_errors("f").to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "f:1:1: unknown key `nam` in a file; allowed are `name`, `load` or `faults`; did you mean `name`?",
            "f:4:11: `clients` is \"2\"; allowed is a whole number",
            "f:5:1: unknown key `locks` in [load]; allowed are `clients`",
            "f:7:6: `on` is 3; allowed is a string in quotes",
        ]
    );
}

#[test]
fn a_word_fills_its_column() {
    assert_eq!(format!("{:<8}|{:>10}|", Role::Master, ProvisionerKind::Process), "master  |   process|");
}

#[test]
fn columns_count_characters_not_bytes() {
    let places = |text, starts: &[usize]| {
        let problems = Problems::new(text);
        for start in starts {
            problems.add(*start..*start, "wrong");
        }
        let found = problems.into_errors("x.toml").problems;
        found.iter().map(|problem| (problem.line, problem.column)).collect::<Vec<_>>()
    };
    assert_eq!(places("a\n— x", &[1, 6]), [(1, 2), (2, 3)]);
    assert_eq!(places("", &[9]), [(1, 1)]);
}
