//! What a topology file may say, and how everything that is wrong with one is reported.

use cluster_config::{Persistence, Topology, TopologyKind, json_schema};

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
