//! The scenario files that come with the program.

use crate::scenario::Scenario;

/// A scenario file inside the program.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// The name by which it is found, the same as in the file.
    pub name: &'static str,
    /// Its path in the repository, for messages.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
    /// It puts a lock to the test that is known to be broken, and must be convicted.
    pub control: bool,
}

macro_rules! builtin {
    ($($name:literal)* ; $($control:literal)*) => {
        [
            $(Builtin {
                name: $name,
                path: concat!("chaos/scenarios/", $name, ".toml"),
                text: include_str!(concat!("../scenarios/", $name, ".toml")),
                control: false,
            },)*
            $(Builtin {
                name: $control,
                path: concat!("chaos/scenarios/controls/", $control, ".toml"),
                text: include_str!(concat!("../scenarios/controls/", $control, ".toml")),
                control: true,
            },)*
        ]
    };
}

/// Every scenario of the suite, controls last.
pub static BUILTINS: &[Builtin] = &builtin![
    "failover-async"
    "failover-wait-all"
    "failover-async-cluster"
    "failover-wait-all-cluster"
    "open-loop-failover-async"
    "open-loop-failover-async-knee"
    "open-loop-failover-wait-majority"
    "open-loop-failover-wait-all"
    "open-loop-failover-async-cluster"
    "open-loop-failover-wait-all-cluster"
    "open-loop-minority-masters"
    "open-loop-restart-single-aof"
    "failover-min-replicas"
    "wait-one-other-promoted"
    "forgotten-replica-wait-all"
    "split-brain"
    "split-brain-min-replicas"
    "crash-single-aof"
    "crash-single-no-persistence"
    "masters-minority"
    "masters-restart-empty"
    "masters-restart-aof"
    "masters-restart-delayed"
    "client-pause"
    "short-lease"
    "short-lease-fenced"
    "late-writes"
    "late-writes-fenced"
    "watchdog-keeps"
    "watchdog-client-killed"
    "watchdog-client-paused"
    "watchdog-client-cut-off"
    "script-flush"
    "flushall"
    "client-connections-dropped"
    "lost-reply-acquire"
    "lost-reply-release"
    "lost-wake-ups"
    "power-cut-everysec"
    "power-cut-always"
    "crash-single-everysec"
    "masters-power-cut-everysec"
    "masters-power-cut-always"
    "slow-disk"
    "clock-forward"
    "clock-back"
    "masters-clock-minority"
    "masters-clock-majority"
    "clock-drift"
    "clock-of-a-client"
    "failover-to-a-wrong-clock"
    "restart-before-failover"
    "persistence-switched-off"
    "masters-majority-down"
    "masters-minority-cut"
    "masters-lasting-cuts"
    "masters-healthy-core"
    "masters-bridge"
    "masters-delays"
    "masters-late-answers"
    "masters-client-pause"
    "masters-start-together"
    "masters-failover"
    "masters-failover-delayed"
    "masters-rolling-restart-empty"
    "masters-rolling-restart-aof"
    "rolling-restart"
    "rolling-upgrade"
    "rolling-upgrade-valkey"
    "rolling-upgrade-sentinels"
    "upgrade-in-place"
    "upgrade-master-first"
    "rolling-restart-cluster"
    "failover-manual-cluster"
    "takeover-cluster"
    "slot-migration"
    "slot-migration-atomic"
    "slot-migration-atomic-failover"
    "evicted"
    "out-of-memory"
    "never-released"
    "late-requests"
    "fencing-token-after-failover"
    "thousand-contenders"
    "read-write"
    "read-write-failover"
    "read-write-failover-wait-all"
    "read-write-downgrade"
    "read-write-downgrade-failover"
    "read-write-downgrade-failover-wait-all"
    "multi-two-orders"
    "semaphore-counts"
    "permits-of-the-dead"
    "fair-holder-killed"
    "queued-holder-killed"
    "renewal-starved"
    "after-outage"
    "fair-line-of-the-dead"
    "commands-refused-scripts"
    "commands-refused-publish"
    "commands-refused-wait"
    "commands-refused-to-clients"
    "command-unknown-publish"
    "durability-out-of-reach"
    "fsync-out-of-reach"
    "credentials-rotated"
    "cancelled"
    "owner-moves"
    "wins-after-failover"
    "ten-thousand-held"
    "ten-thousand-by-a-hundred"
    "unlock-before-commit"
    "unlock-before-commit-fenced"
    ;
    "release-without-owner-check"
    "get-compare-del"
    "setnx-expire"
    "setnx-expire-baseline"
    "steal"
    "renew-without-owner-check"
    "lease-from-reply"
    "ignores-expiry"
    "quorum-half"
    "no-validity"
    "quorum-hoards"
    "quorum-hoards-lasting-cuts"
    "release-says-ok"
    "extend-says-ok"
    "extend-takes-again"
    "lease-too-short"
    "wait-ignored"
    "renews-by-wall-clock"
    "reentrant-releases-at-once"
    "reentrant-per-client"
    "non-reentrant-enters-again"
    "spin-remembers-busy"
    "waits-for-word-only"
    "queued-without-order"
    "fair-without-order"
    "token-in-batches"
    "token-from-wall-clock"
    "token-per-client"
    "silence-is-busy"
    "readers-unseen"
    "multi-first-is-enough"
    "semaphore-looks-then-counts"
    "permits-look-then-count"
    "cancelled-goes-on"
    "bound-to-its-thread"
    "wins-not-shared"
    "believes-on"
    "renewer-ends-at-an-error"
    "line-keeps-the-dead"
    "error-is-granted"
];

macro_rules! folder {
    ($folder:literal $prefix:literal $($name:literal)*) => {
        [$(Builtin {
            name: concat!($prefix, $name),
            path: concat!("chaos/scenarios/", $folder, "/", $name, ".toml"),
            text: include_str!(concat!("../scenarios/", $folder, "/", $name, ".toml")),
            control: false,
        },)*]
    };
}

/// Safe configurations under random faults, one per topology. They are no part of the suite: each seed is another run.
pub static SOAK: &[Builtin] = &folder!["soak" "soak-" "single" "sentinel" "cluster" "masters"];

/// Scenarios of locks of other systems, on their servers. They are a part of the suite where such locks are built in ([`suite`]).
pub static BASELINES: &[Builtin] = &folder![
    "baselines" ""
    "etcd-all-restarted"
    "etcd-clock-of-a-client"
    "etcd-holder-cut-off"
    "etcd-holder-paused"
    "etcd-leader-cut-off"
    "etcd-leader-killed"
    "etcd-restart-longer"
    "etcd-restart-shorter"
    "mysql-crash"
    "postgres-crash"
    "zookeeper-all-restarted"
    "zookeeper-clock-forward"
    "zookeeper-holder-cut-off"
    "zookeeper-holder-paused"
    "zookeeper-leader-cut-off"
    "zookeeper-leader-killed"
    "zookeeper-restart-longer"
    "zookeeper-restart-shorter"
    "zookeeper-slow-disk"
];

/// The suite of this build: what is for Redis, and of other systems those whose lock is built in.
pub fn suite() -> Vec<&'static Builtin> {
    let built_in = |builtin: &&Builtin| {
        let scenario = Scenario::parse(builtin.path, builtin.text).ok();
        let subject = scenario.and_then(|one| bench::subjects::find(&one.lock.subject).ok());
        subject.is_some_and(|subject| subject.missing().is_none())
    };
    let others = BASELINES.iter().filter(built_in);
    BUILTINS.iter().chain(others).collect()
}

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    let all = BUILTINS.iter().chain(SOAK).chain(BASELINES);
    let mut named = all.filter(|builtin| builtin.name == name);
    named.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::verdict::CLASSES;

    #[test]
    fn every_file_is_a_scenario_of_its_own_name_with_an_expectation() {
        for builtin in BUILTINS.iter().chain(SOAK).chain(BASELINES) {
            let scenario = Scenario::parse(builtin.path, builtin.text)
                .unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(scenario.name, builtin.name);
            assert!(
                !scenario.about.is_empty(),
                "{} says what it shows",
                builtin.name
            );
            assert!(
                !scenario.expect.is_empty(),
                "{} expects something",
                builtin.name
            );
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
            let harm =
                expected.any(|(class, word)| CLASSES.contains(&class.as_str()) && word != "clean");
            let twin = !audit.twin.is_empty() && audit.twin != scenario.lock.subject;
            assert_eq!(harm, !audit.inherent.is_empty() || twin, "{}", builtin.name);
        }
    }

    #[test]
    fn every_file_in_the_folder_is_in_the_list() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        for (folder, prefix, control) in [
            (folder.clone(), "", false),
            (folder.join("controls"), "", true),
            (folder.join("soak"), "soak-", false),
            (folder.join("baselines"), "", false),
        ] {
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("it is readable").path();
                if path.extension().is_some_and(|end| end == "toml") {
                    let name = path
                        .file_stem()
                        .and_then(|name| name.to_str())
                        .expect("a name");
                    let name = &format!("{prefix}{name}");
                    let builtin = find(name).unwrap_or_else(|| panic!("{name} is not listed"));
                    assert_eq!(builtin.control, control, "{name}");
                }
            }
        }
    }
}
