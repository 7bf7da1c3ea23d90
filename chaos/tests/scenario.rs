//! What a scenario file may say, and what is said about one that may not.

use chaos::plan::Plan;
use chaos::scenario::{KEYS, Scenario, json_schema};

fn errors(text: &str) -> Vec<String> {
    match Scenario::parse("bad.toml", text) {
        Ok(_) => panic!("this file is good:\n{text}"),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

const HEAD: &str = "name = \"x\"\n[topology]\nkind = \"sentinel\"\n";

/// One bad file after `HEAD` (so its first line is line 4), and what its one error must say.
#[test]
fn each_mistake_is_named_with_its_place_and_what_is_allowed() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("replcas = 2", "4:1", &["unknown key `replcas`", "did you mean `replicas`?"]),
        ("replicas = 99", "4:12", &["replicas = 99", "0 to 5"]),
        ("shards = 3", "4:10", &["`shards` does not apply to a `sentinel` topology"]),
        ("replicas = \"2\"", "4:12", &["`replicas` is \"2\"", "a whole number"]),
        ("[lck]", "4:2", &["unknown key `lck`", "did you mean `lock`?"]),
        ("[7]", "4:2", &["unknown key `7`"]),
        ("[lock]\nlease = \"3 sec\"", "5:9", &["\"3 sec\"", "`renewed`"]),
        ("[lock]\nlease = 3", "5:9", &["`lease` is 3", "in quotes"]),
        ("[lock]\nsubject = \"lock-core:rentrant\"", "5:11", &["did you mean `lock-core:reentrant`?"]),
        ("[lock]\nkind = \"fiar\"", "5:8", &["did you mean `fair`?"]),
        ("[lock]\ndurability = \"wait:0\"", "5:14", &["`wait:K`"]),
        ("[load]\nhold = \"60ms..20ms\"", "5:8", &["not longer than its second"]),
        ("[load]\nclients = 0", "5:11", &["from 1 to 100"]),
        ("[load]\nreenter = 1.5", "5:11", &["from 0.0 to 1.0"]),
        ("[load]\ndowngrade = \"10ms\"", "5:13", &["`downgrade`", "no holder is one", "`write`"]),
        (
            "[lock]\nsubject = \"broken:readers-unseen\"\n[load]\nmix = { read = 4 }\ndowngrade = \"10ms\"",
            "8:13",
            &["`downgrade`", "no holder is one", "`write`"],
        ),
        ("[load]\nmix = { raed = 4 }", "5:9", &["`raed`", "did you mean `read`?"]),
        ("[load]\nprotects = \"register\"", "5:12", &["fencing tokens", "`fenced`"]),
        ("[[faults]]\nfault = \"kil\"\nat = \"1s\"", "5:9", &["did you mean `kill`?"]),
        ("[[faults]]\nfault = \"clock\"\nat = \"1s\"", "5:9", &["`clock` needs `jump`, `drift` or both"]),
        ("[[faults]]\nfault = \"clock\"\nwith = { jump = \"5\" }", "6:17", &["`-500ms`"]),
        ("[[faults]]\nfault = \"takeover\"", "5:9", &["a cluster's command"]),
        ("[[faults]]\nfault = \"migrate-slot\"", "5:9", &["needs a cluster"]),
        ("[[faults]]\nat = \"1s\"", "4:1", &["`fault` is missing"]),
        ("[[faults]]\nfault = \"kill\"\nat = \"10s\"", "6:6", &["the load ends after 10s"]),
        (
            "[[faults]]\nfault = \"kill\"\nat = \"1s\"\nafter = \"first-grant\"",
            "7:9",
            &["one of `at`, `after` and `when`"],
        ),
        ("[[faults]]\nfault = \"kill\"\nafter = \"first-grnt\"", "6:9", &["did you mean `first-grant`?"]),
        ("[[faults]]\nfault = \"kill\"\non = \"n9\"", "6:6", &["no node `n9`", "n1, n2, n3, s1, s2, s3"]),
        ("[[faults]]\nfault = \"kill\"\non = \"client 4\"", "6:6", &["clients 1 to 3"]),
        ("[[faults]]\nfault = \"kill\"\non = \"mastre\"", "6:6", &["did you mean `master`?"]),
        ("[[faults]]\nfault = \"kill\"\non = \"n1 -> n2\"", "6:6", &["acts on nodes and clients"]),
        ("[[faults]]\nfault = \"cut\"\non = \"master\"", "6:6", &["links `A -> B`"]),
        ("[[faults]]\nfault = \"delay\"\non = \"n1 -> n2\"", "5:9", &["needs the setting `latency`"]),
        (
            "[[faults]]\nfault = \"delay\"\non = \"n1 -> n2\"\nwith = { latncy = \"1s\", latency = \"1s\" }",
            "7:10",
            &["did you mean `latency`?"],
        ),
        ("[[faults]]\nfault = \"restart\"\nwith = { data = \"loose\" }", "6:17", &["did you mean `lose`?"]),
        (
            "[[faults]]\nfault = \"drop\"\non = \"n1 -> client 1\"\nwith = { during = \"acquir\" }",
            "7:19",
            &["did you mean `acquire`?", "renewal"],
        ),
        (
            "[[faults]]\nfault = \"pause\"\nwhen = \"3rd EVALSHA\"",
            "6:8",
            &["`3rd EVALSHA reply to client 1`"],
        ),
        ("[[faults]]\nfault = \"pause\"\nwhen = \"SET from client 7\"", "6:8", &["clients 1 to 3"]),
        ("[random]\nevery = \"1s\"", "4:1", &["needs `faults`"]),
        ("[random]\nfaults = [\"pause\", \"kil\"]", "5:20", &["did you mean `kill`?"]),
        ("[random]\nfaults = [\"delay\"]", "5:10", &["needs the setting `latency`"]),
        ("[random]\nfaults = [\"cut\"]", "5:10", &["`cut` acts on links", "none is among `on`"]),
        ("[random]\nfaults = [\"takeover\"]", "5:10", &["a cluster's command"]),
        ("[random]\nfaults = { pause = 0 }", "5:20", &["`pause` is 0", "a whole number from 1"]),
        ("[random]\nfaults = [\"pause\"]\nevery = \"20s\"", "6:9", &["before a first fault could be over"]),
        ("[random]\nfaults = [\"pause\"]\non = [\"any\", \"n9\"]", "6:14", &["no node `n9`"]),
        ("[random]\nfaults = [\"pause\"]\nwith = { delay = {} }", "6:10", &["not among the `faults`"]),
        ("[expect]\nbeleif = \"clean\"", "5:1", &["did you mean `belief`?"]),
        ("[expect]\nbelief = \"cleen\"", "5:10", &["`at-most N/min`"]),
        (
            "[load]\nworkload = \"contendd\"",
            "5:12",
            &["allowed is `uncontended`, ", "; did you mean `contended`?"],
        ),
        (
            "[load]\nworkload = \"churn\"",
            "5:12",
            &["allowed is `uncontended`, ", "; `churn` connects clients"],
        ),
        (
            "[load]\nworkload = \"multi\"",
            "5:12",
            &["`multi` cannot be run on lock-core:reentrant", "kind multi is needed"],
        ),
        (
            "[load]\nworkload = \"semaphore\"",
            "5:12",
            &["semaphore or permits is needed: lock-core:semaphore"],
        ),
        (
            "[lock]\nsubject = \"baseline:set-nx-px\"\n[load]\nworkload = \"read-mostly\"",
            "7:12",
            &["baseline:set-nx-px", "no kind `read`; it has plain"],
        ),
        (
            "[lock]\nsubject = \"lock-core:semaphore\"\n[load]\nworkload = \"semaphore\"\n[random]\noperations = [\"kind\"]",
            "9:14",
            &["`semaphore` asks for a kind of its own"],
        ),
        ("[load]\nclients = -1", "5:11", &["is -1", "from 1 to 100"]),
        ("[load]\nlocks = 99999999999", "5:9", &["from 1 to 10000"]),
        ("[load]\nprotects = 1", "5:12", &["`protects` is 1; allowed is `none`, `counter` or `register`"]),
        ("[[load]]\nclients = 2", "4:1", &["`load` is a list; allowed is a table [load]"]),
        ("[load]\nhold = \"9999999h\"", "5:8", &["at most a year"]),
        ("[lock]\nlease = \"9999999h\"", "5:9", &["at most a year"]),
        ("[[faults]]\nfault = \"clock\"\nwith = { jump = \"300000h\" }", "6:17", &["at most a year"]),
        (
            "[[faults]]\nfault = \"failover\"\non = \"s1\"",
            "6:6",
            &["cannot be on `s1`, a sentinel", "`n1`, `n2` or `n3`"],
        ),
        (
            "[[faults]]\nfault = \"promote\"\non = \"sentinels\"",
            "6:6",
            &["cannot be on `sentinels`, a sentinel"],
        ),
        (
            "[[faults]]\nfault = \"flushall\"\non = \"50% of replicas\"",
            "6:6",
            &["cannot be on `50% of replicas`, a replica", "allowed are `n1`"],
        ),
        ("[load]\nspread = true", "5:10", &["`false` unless the topology is a `cluster`"]),
        (
            "[[faults]]\nfault = \"config-set\"\non = \"n1, s2\"\nwith = { key = \"hz\", value = 20 }",
            "6:6",
            &["`s2`, a sentinel"],
        ),
        ("[[faults]]\nfault = \"script-flush\"\non = \"s1\"", "6:6", &["a sentinel"]),
        (
            "[[faults]]\nfault = \"maxmemory\"\non = \"sentinels\"\nwith = { limit = \"600kb\" }",
            "6:6",
            &["a sentinel"],
        ),
        (
            "[[faults]]\nfault = \"maxmemory\"\nwith = { limit = \"600 bananas\" }",
            "6:18",
            &["`600kb`", "more than 0"],
        ),
        ("[[faults]]\nfault = \"maxmemory\"\nwith = { limit = 0 }", "6:18", &["`limit` is 0", "more than 0"]),
        (
            "[[faults]]\nfault = \"flushall\"\non = \"replicas\"",
            "6:6",
            &["cannot be on `replicas`, a replica", "allowed are `n1`"],
        ),
        (
            "[[faults]]\nat = \"1s\"\nfault = \"flushall\"\non = \"n2\"\n[[faults]]\nat = \"2s\"\nfault = \"kill\"",
            "7:6",
            &["cannot be on `n2`, a replica"],
        ),
        (
            "[[faults]]\nfault = \"delay\"\non = \"n1 -> n2\"\nwith = { latency = \"0s\" }",
            "5:9",
            &["`latency` 0s delays nothing"],
        ),
        (
            "[[faults]]\nfault = \"hold\"\non = \"n1 -> client 1\"\nwith = { match = \"\" }",
            "7:18",
            &["`match` is \"\"", "not empty"],
        ),
        ("[expect]\nbelief = \"violated\"\n[audit]\ninherent = \"\"", "7:12", &["a sentence, not empty"]),
        ("[topology]\n", "4:2", &["duplicate"]),
    ];
    for (text, place, words) in cases {
        let found = errors(&format!("{HEAD}{text}\n"));
        assert_eq!(found.len(), 1, "{text}\n{found:#?}");
        let start = format!("bad.toml:{place}: ");
        assert!(found[0].starts_with(&start), "{text}\n{}\nshould begin with {start}", found[0]);
        for word in *words {
            assert!(found[0].contains(word), "{text}\n{}\nshould say {word}", found[0]);
        }
    }
}

#[test]
fn all_mistakes_of_a_file_come_together_and_in_its_order() {
    let found = errors(
        "nam = \"x\"\n[topology]\nkind = \"sentinal\"\n[lock]\nwait = \"soon\"\n[load]\nthink = 5\n[[faults]]\nfault = \"kil\"\n\
         [expect]\ncontract = \"bad\"\n",
    );
    assert_eq!(found.len(), 7, "{found:#?}");
    assert!(found.iter().any(|line| line.contains("`name` is missing")));
    assert!(found.iter().any(|line| line.contains("did you mean `sentinel`?")));
    assert!(found.last().is_some_and(|line| line.starts_with("bad.toml:11:12: ")));
}

/// What one mistake has nothing to do with is reported beside it.
#[test]
fn a_fault_says_everything_that_is_wrong_with_it() {
    let fault = |kind: &str, rest: &str| {
        errors(&format!("name = \"x\"\n[topology]\nkind = \"{kind}\"\n[[faults]]\n{rest}\n"))
    };
    for (kind, rest, all) in [
        (
            "sentinel",
            "fault = \"dealy\"\non = \"master -> replcas\"",
            &["did you mean `delay`?", "did you mean `replicas`?"][..],
        ),
        (
            "single",
            "fault = \"migrate-slot\"\non = \"n7\"\nwith = { slots = 0, to = \"n9\" }",
            &["needs a cluster", "no node `n7`", "from 1 to 16384", "`to` is \"n9\""],
        ),
        ("singel", "fault = \"kill\"\non = \"mastr\"", &["did you mean `single`?", "did you mean `master`?"]),
        (
            "singel",
            "fault = \"kill\"\non = \"n7 -> n8\"",
            &["did you mean `single`?", "acts on nodes and clients"],
        ),
        ("single", "at = \"soon\"\nfault = \"kill\"\non = \"n7\"", &["`at` is \"soon\"", "no node `n7`"]),
    ] {
        let found = fault(kind, rest);
        assert_eq!(found.len(), all.len(), "{rest}\n{found:#?}");
        for (found, said) in found.iter().zip(all) {
            assert!(found.contains(said), "{found}\nshould say {said}");
        }
    }
}

/// A replica may be a master by the time that a later fault comes.
#[test]
fn a_role_that_may_have_changed_is_not_held_against_a_fault() {
    let to = |rest: &str, faults: &str| {
        let text = format!(
            "name = \"x\"\n[topology]\nkind = \"cluster\"\n[[faults]]\nat = \"2s\"\nfault = \"migrate-slot\"\n{rest}\n{faults}"
        );
        Scenario::parse("x.toml", &text).map_err(|errors| errors.to_string())
    };
    let earlier = "[[faults]]\nat = \"1s\"\nfault = \"takeover\"\non = \"n5\"\n";
    for (rest, place) in [("with = { to = \"n5\" }", "7:15"), ("on = \"n5\"", "7:6")] {
        let why = to(rest, "").expect_err(rest);
        assert!(why.starts_with(&format!("x.toml:{place}: ")), "{why}");
        assert!(why.contains("n1"), "{why}");
        to(rest, earlier).expect(rest);
    }
}

#[test]
fn a_named_workload_has_the_locks_that_it_has_in_a_benchmark() {
    for (load, locks, permits) in [
        ("tasks = 2", 1, 1),
        ("workload = \"uncontended\"\ntasks = 2", 6, 1),
        ("workload = \"uncontended\"\nlocks = 2", 3, 1),
        ("workload = \"zipf\"", 1_000, 1),
        ("workload = \"zipf\"\nlocks = 20", 20, 1),
        ("workload = \"contended\"", 1, 1),
        ("workload = \"multi\"", 3, 1),
        ("workload = \"semaphore\"", 1, 4),
    ] {
        let subject = match load {
            load if load.contains("multi") => "lock-core:multi",
            load if load.contains("semaphore") => "lock-core:semaphore",
            _ => "lock-core:reentrant",
        };
        let text = format!(
            "name = \"x\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"{subject}\"\n[load]\n{load}\n"
        );
        let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let found = (scenario.load.locks, scenario.lock.permits);
        assert_eq!(found, (locks, permits), "{load}");
        assert_eq!(Plan::new(&scenario, 7).load.locks.len(), locks as usize);
    }
}

#[test]
fn only_name_and_kind_are_required() {
    for kind in ["single", "sentinel", "cluster", "masters"] {
        let text = format!("name = \"x\"\n[topology]\nkind = \"{kind}\"\n");
        let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let subject = match kind {
            "masters" => "lock-core:redlock",
            _ => "lock-core:reentrant",
        };
        assert_eq!(scenario.lock.subject, subject);
        assert_eq!(scenario.load.clients, 3);
        assert!(scenario.faults.is_empty());
    }
}

#[test]
fn a_lock_that_cannot_be_on_the_topology_is_refused_where_it_stands() {
    for (topology, subject, remedy) in [
        ("masters", "lock-core:reentrant", "lock-core:redlock"),
        ("masters", "baseline:set-nx-px", "lock-core:redlock"),
        ("single", "lock-core:redlock", "kind = \"masters\""),
        ("cluster", "broken:quorum-half", "kind = \"masters\""),
    ] {
        let text =
            format!("name = \"x\"\n[topology]\nkind = \"{topology}\"\n[lock]\nsubject = \"{subject}\"\n");
        let errors = Scenario::parse("x.toml", &text).expect_err("it cannot run");
        let errors = errors.to_string();
        assert!(errors.starts_with("x.toml:5:11: "), "{errors}");
        assert!(errors.contains(subject) && errors.contains(remedy), "{errors}");
    }
}

#[test]
fn the_schema_in_the_repository_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.schema.json");
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        std::fs::write(path, json_schema()).expect("the folder can be written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        kept,
        json_schema(),
        "write it again with `LOCKLAB_BLESS=1 cargo test -p chaos --test scenario`"
    );
    let schema: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
    let keys = schema["properties"].as_object().expect("a table");
    let mut keys: Vec<&String> = keys.keys().collect();
    keys.sort_unstable();
    assert_eq!(keys, KEYS);
}

#[test]
fn servers_of_other_systems_take_their_own_locks_and_faults_that_are_no_words_of_redis() {
    for (rest, said) in [
        ("[lock]\nsubject = \"lock-core:plain\"", "no lock of etcd"),
        ("[[faults]]\nfault = \"failover\"", "for Redis alone"),
        ("[[faults]]\nfault = \"power-cut\"", "cannot be put on etcd"),
        ("[[faults]]\nfault = \"kill\"\nwhen = \"3rd EVALSHA\"", "commands and replies of Redis"),
        ("[[faults]]\nfault = \"kill\"\non = \"sentinels\"", "has no sentinels"),
    ] {
        let text = format!("name = \"x\"\n[topology]\nkind = \"etcd-3\"\n{rest}\n");
        let errors = errors(&text);
        assert!(errors.len() == 1 && errors[0].contains(said), "{errors:?}");
    }
    let text = "name = \"x\"\n[topology]\nkind = \"zookeeper-3\"\n[[faults]]\nfault = \"disk\"\n\
                on = \"replicas\"\nwith = { fsync = \"80ms\" }\n";
    let scenario = Scenario::parse("good.toml", text).unwrap();
    assert_eq!(scenario.lock.subject, "zookeeper:ephemeral");
}

/// What can be asked of servers that are not ours.
mod on_servers_of_somebody_else {
    use chaos::external::{Allowed, for_servers};
    use cluster_config::{Topology, TopologyKind};

    use super::Scenario;

    fn scenario(faults: &str) -> Scenario {
        let text = format!("name = \"x\"\n[topology]\nkind = \"sentinel\"\n{faults}");
        Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn refused(faults: &str, topology: &Topology, loopback: bool, allow: &[&str]) -> Vec<String> {
        let faults_allowed: Vec<String> = allow.iter().map(|name| (*name).to_owned()).collect();
        let allowed =
            Allowed { topology, loopback, named_by_address: false, faults: &faults_allowed, engine: None };
        match for_servers(scenario(faults), &allowed) {
            Ok(scenario) => {
                assert_eq!(&scenario.topology, topology);
                Vec::new()
            }
            Err(wrong) => wrong.into_iter().map(|(_, why)| why).collect(),
        }
    }

    const KILL: &str = "[[faults]]\nat = \"1s\"\nfault = \"kill\"\non = \"master\"\n";

    #[test]
    fn only_links_of_clients_can_be_harmed_and_only_where_a_proxy_can_stand() {
        let cut = "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"cut\"\non = \"client 1 <-> master\"\n";
        assert!(refused(cut, &Topology::of(TopologyKind::Single), false, &[]).is_empty());
        let why = refused(cut, &Topology::of(TopologyKind::Cluster), true, &[]);
        assert!(why[0].contains("announce"), "{why:?}");
    }

    #[test]
    fn who_is_not_there_is_named() {
        let replicas = "[[faults]]\nat = \"1s\"\nfault = \"client-pause\"\non = \"replicas\"\nwith = { time = \"1s\" }\n";
        let why = refused(replicas, &Topology::of(TopologyKind::Single), true, &[]);
        assert!(why[0].contains("no replicas"), "{why:?}");
    }

    #[test]
    fn what_servers_of_this_shape_cannot_do_is_refused_unless_their_owner_does_it() {
        let failover = KILL.replace("kill", "failover");
        let single = Topology::of(TopologyKind::Single);
        let why = refused(&failover, &single, true, &[]);
        assert!(why[0].contains("needs a replica"), "{why:?}");
        let sentinel = Topology::of(TopologyKind::Sentinel);
        assert!(refused(&failover, &sentinel, true, &[]).is_empty());
        let hooked = format!("{failover}[hooks]\nfailover = \"true\"\n");
        assert!(refused(&hooked, &single, true, &[]).is_empty());
    }

    #[test]
    fn clients_are_ours_to_kill() {
        let kill = KILL.replace("master", "client 1");
        assert!(refused(&kill, &Topology::of(TopologyKind::Single), false, &[]).is_empty());
    }
}

/// The scenarios that come with the program.
mod built_in {
    use std::time::Duration;

    use chaos::builtin::{BASELINES, BUILTINS, Builtin, SOAK};
    use results::verdict::CLASSES;

    use super::{Plan, Scenario};

    #[test]
    fn every_file_is_a_scenario_of_its_own_name_with_an_expectation() {
        for builtin in BUILTINS.iter().chain(SOAK).chain(BASELINES) {
            let scenario =
                Scenario::parse(builtin.path, builtin.text).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(scenario.name, builtin.name);
            assert!(!scenario.about.is_empty(), "{} says what it shows", builtin.name);
            assert!(!scenario.expect.is_empty(), "{} expects something", builtin.name);
            assert!(
                !builtin.control || scenario.expect.values().any(|word| word == "violated"),
                "{} must be convicted",
                builtin.name
            );
        }
    }

    #[test]
    fn what_is_expected_to_be_violated_is_inherent_or_kept_by_a_named_lock() {
        for builtin in BUILTINS.iter().chain(BASELINES).filter(|one| !one.control) {
            let scenario = Scenario::parse(builtin.path, builtin.text).expect("a scenario");
            let audit = &scenario.audit;
            let mut expected = scenario.expect.iter();
            let harm = expected.any(|(class, word)| CLASSES.contains(&class.as_str()) && word != "clean");
            let twin = !audit.twin.is_empty() && audit.twin != scenario.lock.subject;
            assert_eq!(harm, !audit.inherent.is_empty() || twin, "{}", builtin.name);
        }
    }

    /// A new scenario takes its time from others: it is over early, or `enough` ends its load.
    #[test]
    fn all_scenarios_together_load_no_longer_than_they_used_to() {
        let load = |builtin: &Builtin| {
            let scenario = Scenario::parse(builtin.path, builtin.text).expect("a scenario");
            scenario.load.duration.0
        };
        let all: Duration = BUILTINS.iter().map(load).sum();
        assert!(all <= Duration::from_secs(1_325), "their loads are {all:?} long");
    }

    #[test]
    fn a_plan_of_every_scenario_comes_back_from_its_file() {
        for builtin in BUILTINS {
            let scenario = Scenario::parse(builtin.path, builtin.text).expect("the suite is in order");
            let plan = Plan::new(&scenario, 7);
            let text = chaos::scenario::scenario_text(&plan);
            let again = match Scenario::parse("written.toml", &text) {
                Ok(scenario) => Plan::new(&scenario, 7),
                Err(errors) => panic!("{}: {errors}\n{text}", builtin.name),
            };
            assert_eq!(again, plan, "{}\n{text}", builtin.name);
        }
    }
}

/// What a fault is on, `A`, `A -> B` or `A | B`, with three clients.
mod fault_sites {
    use super::*;

    fn read(topology: &str, on: &str) -> Result<String, Vec<String>> {
        let fault = match on {
            groups if groups.contains('|') => "partition",
            links if links.contains("->") => "cut",
            _ => "pause",
        };
        let text = format!(
            "name = \"x\"\n[topology]\nkind = \"{topology}\"\n[[faults]]\nfault = \"{fault}\"\non = \"{on}\"\n"
        );
        match Scenario::parse("x.toml", &text) {
            Ok(scenario) => Ok(scenario.faults[0].on.to_string()),
            Err(errors) => Err(errors.to_string().lines().map(str::to_owned).collect()),
        }
    }

    #[test]
    fn every_form_reads_back_as_it_was_written() {
        for text in [
            "master",
            "n1, client 2",
            "master -> replicas",
            "n1 <-> n2, n3",
            "n1, n2 | n3, client 1",
            "minority",
            "holder",
            "any client",
            "34% of nodes -> clients",
            "50% of nodes, client 1 | 50% of nodes",
        ] {
            assert_eq!(read("sentinel", text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_touches_nothing_is_refused() {
        for text in [
            "n1 | n1, client 1",
            "n1, n2 | n1, n2",
            "client 1 | client 2",
            "client 1 -> client 2",
            "clients <-> client 2",
            "n1 -> n1",
        ] {
            let problems = read("sentinel", text).expect_err(text);
            assert!(problems[0].contains(text), "{problems:?}");
        }
        // A bridge has two sides, and a role is nobody yet.
        for text in ["n1, n2 | n2, n3", "master | master, client 1", "clients -> n1"] {
            assert_eq!(read("sentinel", text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn every_unknown_party_is_reported() {
        let problems = read("sentinel", "mastr, n9, client 4").expect_err("three are wrong");
        assert_eq!(problems.len(), 3);
        assert!(problems[0].ends_with("did you mean `master`?"), "{}", problems[0]);
        assert!(problems[1].contains("there is no node `n9`"), "{}", problems[1]);
        assert!(problems[2].contains("there is no client 4"), "{}", problems[2]);
    }

    #[test]
    fn shares_of_nobody_and_roles_that_a_topology_lacks_are_refused() {
        for (topology, text, word) in [
            ("sentinel", "0% of masters", "1 to 100"),
            ("sentinel", "ten% of masters", "1 to 100"),
            ("sentinel", "10% of mastrs", "did you mean `masters`?"),
            ("sentinel", "10%", "`10% of`"),
            ("sentinel", "60% of nodes | 60% of nodes", "120% of 3"),
            ("sentinel", "80% of nodes, 10% of nodes, 10% of nodes, 0% of nodes", "1 to 100"),
            ("sentinel", "1% of masters | 1% of masters", "2% of 1"),
            ("single", "10% of replicas", "has no replicas"),
            ("single", "replicas", "has no replicas"),
            ("single", "sentinels", "has no sentinels"),
            ("single", "minority", "needs at least 3 nodes"),
        ] {
            let problems = read(topology, text).expect_err(text);
            assert!(problems[0].contains(word), "{text}: {problems:?}");
        }
    }
}

/// The message at which a fault is due: which, what, and between whom.
mod messages {
    use super::*;
    use chaos::scenario::{FaultParty, FaultTrigger, OnMessage};

    fn read(when: &str) -> Result<OnMessage, String> {
        let text = format!("{HEAD}[[faults]]\nfault = \"pause\"\non = \"n1\"\nwhen = \"{when}\"\n");
        let mut scenario = Scenario::parse("x.toml", &text).map_err(|errors| errors.to_string())?;
        match scenario.faults.remove(0).when {
            FaultTrigger::OnMessage(message) => Ok(message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn which_what_and_between_whom() {
        let message = read("3rd EVALSHA reply to client 1").expect("good");
        assert_eq!(
            message,
            OnMessage { nth: 3, words: "EVALSHA".to_owned(), from: None, to: Some(FaultParty::Client(1)) }
        );
        let message = read("SET orders PX from any client to master").expect("good");
        assert_eq!(message.to_string(), "message 1 of `SET orders PX` from any client to master");
        assert_eq!(read("2nd extend reply to client 1").expect("good").words, "extend");
        assert_eq!(read("second WAIT reply from n1 to client 2").expect("good").nth, 2);
    }

    #[test]
    fn the_name_of_a_role_alone_means_its_messages() {
        let label = |words: &str| {
            let message = OnMessage { nth: 1, words: words.to_owned(), from: None, to: None };
            message.pattern().label().map(str::to_owned)
        };
        assert_eq!(label("extend").as_deref(), Some("extend"));
        assert_eq!(label("SET orders PX"), None);
    }

    #[test]
    fn what_cannot_be_watched_is_refused_with_the_form() {
        for (text, says) in [
            ("", "such as"),
            ("EVALSHA", "such as"),
            ("3rd reply to client 1", "such as"),
            ("0th SET from client 1", "counted from 1"),
            ("SET to client 1", "say `reply to`"),
            ("SET reply from client 1", "comes from a server"),
            ("SET from client 9", "clients 1 to 3"),
            ("SET from clients", "may be several"),
            ("SET from mastr", "did you mean `master`?"),
        ] {
            let problem = read(text).expect_err(text);
            assert!(problem.contains(says), "{text}: {problem}");
        }
    }
}

/// Single words: durations, sizes, rates and what else is read from a string.
mod small_words {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use chaos::faults::settings;
    use chaos::hooks::Hook;
    use chaos::scenario::{Length, Lock, Range, Setting, Settings};
    use serde_json::from_value;

    fn check<T: PartialEq + std::fmt::Debug, E>(
        read: impl Fn(&str) -> Result<T, E>,
        good: &[(&str, T)],
        bad: &[&str],
    ) {
        for (word, value) in good {
            assert_eq!(read(word).as_ref().ok(), Some(value), "{word}");
        }
        for word in bad {
            assert!(read(word).is_err(), "{word}");
        }
    }

    /// Whether a file is good that says so after `HEAD`.
    fn accepted(text: &str) -> Result<(), String> {
        let scenario = Scenario::parse("x.toml", &format!("{HEAD}{text}\n"));
        scenario.map(drop).map_err(|errors| errors.to_string())
    }

    /// Reads a word as a setting of a fault.
    fn setting<T>(read: fn(&Settings, &str) -> Option<T>) -> impl Fn(&str) -> Result<T, ()> {
        move |word| {
            let settings = BTreeMap::from([("it".to_owned(), Setting::Text(word.to_owned()))]);
            read(&settings, "it").ok_or(())
        }
    }

    #[test]
    fn lengths_sizes_and_rates_have_a_number_and_a_unit() {
        let ms = |ms| Length(Duration::from_millis(ms));
        let good = [("250ms", ms(250)), ("1.5s", ms(1_500)), ("2m", ms(120_000)), ("0s", ms(0))];
        let bad = ["", "10", "s", "3 s", "-1s", "1e3s", "3sec", "1..2s", "9999999h"];
        check(|word| from_value(word.into()), &good, &bad);
        let memory = |word: &str| {
            accepted(&format!(
                "[[faults]]\nfault = \"maxmemory\"\nat = \"1s\"\nwith = {{ limit = \"{word}\" }}"
            ))
        };
        let good = ["600kb", "1M", "7", "2GB"].map(|word| (word, ()));
        let bad = ["", "0", "0mb", "600 bananas", "1.5mb", "-1", "10%", "99999999999999999gb"];
        check(memory, &good, &bad);
        let bad = ["64", "64kB", "0kB/s", "-1B/s", "1.5MB/s", "99999999999999999MB/s"];
        check(setting(settings::rate), &[("64kB/s", 64_000), ("3B/s", 3)], &bad);
        let range_ns = Range { min_ns: 20_000_000, max_ns: 60_000_000 };
        check(|word| from_value(word.into()), &[("20ms..60ms", range_ns)], &["60ms..20ms", "20ms.."]);
    }

    #[test]
    fn shifts_and_shares_have_a_sign_and_are_not_zero() {
        let good = [("-5s", -5_000_000_000), ("+250ms", 250_000_000)];
        check(setting(settings::shift_ns), &good, &["", "-", "0s", "--5s", "5", "- 5s"]);
        let bad = ["2", "%", "0%", "-100%", "1001%", "NaN%", "inf%"];
        check(setting(settings::percent_ppb), &[("2%", 20_000_000), ("-0.5%", -5_000_000)], &bad);
    }

    #[test]
    fn words_are_taken_or_refused_whole() {
        let lock = |key: &str, word: &str| toml::from_str::<Lock>(&format!("{key} = \"{word}\""));
        let lease = |word: &str| lock("lease", word).map(|lock| lock.lease);
        check(lease, &[("renewed", None)], &["0s"]);
        let good =
            ["none", "wait:2", "wait:majority", "wait:all", "waitaof:0"].map(|word| (word, word.to_owned()));
        let durability = |word: &str| lock("durability", word).map(|lock| lock.durability);
        check(durability, &good, &["", "wait", "wait:0", "waitaof:", "all"]);
        let expectation = |word: &str| accepted(&format!("[expect]\nbelief = \"{word}\""));
        check(expectation, &[("at-most 2/min", ())], &["at-most 2", "Clean"]);
    }

    #[test]
    fn the_line_of_a_hook_is_split_like_a_shell_line_and_nothing_else_is_expanded() {
        let hook = Hook::parse("sh -c 'echo $HOME {node}' {port}").unwrap();
        let words = ["sh", "-c", "echo $HOME {node}", "{port}"];
        assert_eq!(serde_json::to_value(hook).unwrap(), serde_json::json!(words));
    }

    #[test]
    fn what_a_hook_cannot_fill_in_is_named_with_what_can() {
        let message = Hook::parse("kubectl delete pod {nod}").unwrap_err();
        assert!(message.contains("did you mean `node`?"), "{message}");
        assert!(Hook::parse("echo 'open").is_err() && Hook::parse("  ").is_err());
        Hook::parse(r#"curl -d '{"a": 1}' {host}"#).unwrap();
    }
}
