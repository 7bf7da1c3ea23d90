//! What is dangerous for locks about a server, why, and how to fix it, by what the server says. Pure.

use std::{collections::BTreeMap, fmt};

use crate::{ClientOptions, Durability, named_enum::named};

/// Of a server that forgets its locks when it is started again.
const RESTART_REMEDY: &str = "CONFIG SET appendonly yes, then CONFIG REWRITE to keep it; or see that a restart takes longer than the longest lease";

/// How much a [`Concern`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Locks work; something unlikely can break them, or a part of the judgement is missing.
    Caution,
    /// Locks can be lost or granted twice in the ordinary course of things, or cannot be taken at all.
    Danger,
}

named! {
    /// What a [`Concern`] is about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum ConcernKind {
        /// A full server throws lock keys away.
        Eviction = "eviction",
        /// A restart forgets every lock.
        Forgets = "forgets",
        /// A crash forgets the latest locks.
        ForgetsLatest = "forgets-latest",
        /// A failover may forget a grant that no replica had.
        UnguardedFailover = "unguarded-failover",
        /// Every write is refused for want of replicas.
        TooFewReplicas = "too-few-replicas",
        /// Grants wait for fewer replicas than there are.
        Acknowledgements = "acknowledgements",
        /// A crash is answered while leases run that the next master may not know.
        EarlyFailover = "early-failover",
        /// The address belongs to a replica.
        Replica = "replica",
        /// The loss of one shard stops the locks of all.
        FullCoverage = "full-coverage",
        /// Scripts are refused, of which locks are made.
        Scripts = "scripts",
        /// Locks of certain names are refused, since this user may not have their keys.
        Keys = "keys",
        /// Waiters are told nothing, since a subscription was refused.
        Messages = "messages",
        /// Holders are not told at once of a lost key, since the server does not say when keys change.
        Tracking = "tracking",
        /// Grants cannot wait for replicas, since WAIT is refused.
        Waits = "waits",
        /// A setting could not be read.
        Unread = "unread",
        /// The server did not answer.
        Silent = "silent",
    }
}

/// A setting of a server that is bad for locks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Concern {
    /// What it is about.
    pub kind: ConcernKind,
    /// How much it matters.
    pub severity: Severity,
    /// The server.
    pub node: String,
    /// What was found, such as `maxmemory-policy allkeys-lru`.
    pub found: String,
    /// What can happen.
    pub why: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Concern {
    /// Of a server that does not say when keys change, for which it gives a reason.
    pub(crate) fn tracking(node: &str, why: &str) -> Self {
        Concern::new(
            node,
            (Severity::Caution, ConcernKind::Tracking),
            format!("CLIENT TRACKING: {why}"),
            "a holder whose key somebody else deletes learns it at its next renewal, after a third of its lease (10 s of 30 s), and not within milliseconds",
            "allow it (ACL SETUSER USER +hello +client|tracking), connect past the proxy that refuses it, or set key_tracking to off where that is enough",
        )
    }

    /// Of a server that refuses keys to this user, as `found` says.
    pub(crate) fn keys(node: &str, found: String) -> Self {
        Concern::new(
            node,
            (Severity::Danger, ConcernKind::Keys),
            found,
            "locks of such names are refused: each call costs a round trip and ends with an error; where only a companion key is refused, a lock may be taken \
                  and not be given back before its lease ends (30 s by default)",
            "allow the names and those of their companions (ACL SETUSER USER ~NAME* ~redisson_*NAME* ~locklab_*NAME* ~{NAME*), or give the locks names \
                     that this user may have, all at once by ClientOptions::name_prefix",
        )
    }

    /// Of a server that refuses subscriptions, as `found` says.
    pub(crate) fn messages(node: &str, found: String) -> Self {
        Concern::new(
            node,
            (Severity::Caution, ConcernKind::Messages),
            found,
            "nobody is told when a lock is given back: a waiter asks by itself, after 10 ms at first and then after a quarter of the time that it has waited, \
                  with the default poll bound of 1 s in the end, so that a hand-off takes up to that instead of some 0.1 ms",
            "allow the channels (ACL SETUSER USER +subscribe +psubscribe +ssubscribe +publish +spublish &*redisson_* &*locklab_*; &* for fair locks), or connect past the proxy that refuses them",
        )
    }

    fn new(
        node: &str,
        (severity, kind): (Severity, ConcernKind),
        found: impl Into<String>,
        why: &'static str,
        remedy: &'static str,
    ) -> Self {
        Concern { kind, severity, node: node.to_owned(), found: found.into(), why, remedy }
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; {}", self.node, self.found, self.why, self.remedy)
    }
}

/// What one server says about itself. What it does not say, or not to this user, is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerReport {
    /// Its address.
    pub node: String,
    /// Its version, such as `redis 7.0.15`.
    pub version: Option<String>,
    /// `master` or `slave`, as INFO calls it.
    pub role: Option<String>,
    /// Replicas that are connected to it.
    pub replicas: Option<u32>,
    /// How many replicas it has by the client's own settings.
    pub given_replicas: Option<u32>,
    /// Whether it belongs to a cluster.
    pub clustered: bool,
    /// The [`SETTINGS`](ServerReport::SETTINGS) that it answered, by name, and
    /// [`DOWN_AFTER`](ServerReport::DOWN_AFTER) if its sentinels say it.
    pub settings: BTreeMap<String, String>,
    /// What it said to CONFIG GET, or to be asked, if it refused that.
    pub refused_settings: Option<String>,
    /// What it refuses of scripts, and what it said to that, if so.
    pub refused_scripts: Option<String>,
    /// Keys that it refused to this user, of names that begin with the client's
    /// [prefix](ClientOptions::name_prefix), and what it said, if so.
    pub refused_keys: Option<String>,
    /// The same of a client without a prefix: for other names this user may have the right.
    pub unjudged_keys: Option<String>,
    /// The subscription that it refused, and what it said, if so.
    pub refused_messages: Option<String>,
    /// What it said to HELLO and CLIENT TRACKING, if it refused them.
    pub refused_tracking: Option<String>,
    /// What it said to WAIT, if it refused that.
    pub refused_waits: Option<String>,
    /// Why it said nothing at all, if so.
    pub silence: Option<String>,
}

impl ServerReport {
    /// The settings that matter to locks.
    pub const SETTINGS: &'static [&'static str] = &[
        "appendfsync",
        "appendonly",
        "cluster-require-full-coverage",
        "maxmemory",
        "maxmemory-policy",
        "min-replicas-to-write",
        "save",
    ];

    /// What the sentinels of a master go by when it is silent.
    pub const DOWN_AFTER: &'static str = "down-after-milliseconds";

    /// What is dangerous about it for locks that ask for `durability`, the worst first.
    pub fn concerns(&self, durability: Durability) -> Vec<Concern> {
        let mut concerns = Vec::new();
        if let Some(silence) = &self.silence {
            concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Silent),
                silence.clone(),
                "locks that live there cannot be taken",
                "see that it runs and can be reached",
            ));
            return concerns;
        }
        concerns.extend(self.refused_keys.clone().map(|found| Concern::keys(&self.node, found)));
        if let Some(found) = &self.unjudged_keys {
            concerns.push(self.concern(
                (Severity::Caution, ConcernKind::Unread),
                format!("unknown: keys and channels; {found}"),
                "this user may not have every name, and may have those of its locks, of which none is known here, so they are not judged",
                "say how the names of its locks begin (locklab doctor --prefix, ClientOptions::name_prefix); the rule for those is \
                 ACL SETUSER USER ~NAME* ~redisson_*NAME* ~locklab_*NAME* ~{NAME* &redisson_*NAME* &locklab_*NAME*",
            ));
        }
        concerns.extend(self.refused_messages.clone().map(|found| Concern::messages(&self.node, found)));
        concerns.extend(self.refused_tracking.iter().map(|why| Concern::tracking(&self.node, why)));
        if let Some(why) = self.refused_waits.as_ref().filter(|_| durability != Durability::None) {
            concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Waits),
                format!("WAIT: {why}"),
                "no lock that waits for replicas can be taken: each acquire costs an undo and ends with an error",
                "allow it (ACL SETUSER USER +wait), connect past the proxy that refuses it, or take locks with durability none",
            ));
        }
        if let Some(why) = &self.refused_scripts {
            concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Scripts),
                why.clone(),
                match why.contains("SCRIPT LOAD") {
                    true => "no lock can be taken, renewed and given back unless other clients have loaded all of its scripts",
                    false => "no lock can be taken, renewed and given back",
                },
                "allow it (ACL SETUSER USER +eval +evalsha +script|load +@read +@write), or connect past the proxy that refuses it",
            ));
        }
        self.role(&mut concerns);
        self.memory(&mut concerns);
        self.persistence(&mut concerns);
        self.replication(&mut concerns, durability);
        self.acknowledgements(&mut concerns, durability);
        self.unread(&mut concerns);
        concerns.sort_by_key(|concern| std::cmp::Reverse(concern.severity));
        concerns
    }

    fn concern(
        &self,
        what: (Severity, ConcernKind),
        found: impl Into<String>,
        why: &'static str,
        remedy: &'static str,
    ) -> Concern {
        Concern::new(&self.node, what, found, why, remedy)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    fn role(&self, concerns: &mut Vec<Concern>) {
        if self.role.as_deref().is_some_and(|role| role != "master") {
            concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Replica),
                "its role is replica",
                "nothing can be locked there, and what it shows may be old",
                "connect to the master, by redis-sentinel:// or redis-cluster:// where it may change",
            ));
        }
    }

    fn memory(&self, concerns: &mut Vec<Concern>) {
        let policy = self.setting("maxmemory-policy").filter(|policy| *policy != "noeviction");
        // Without a limit nothing is ever evicted.
        if let Some(policy) = policy
            && self.number("maxmemory") != Some(0)
        {
            concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Eviction),
                format!("maxmemory-policy {policy}"),
                "a full server deletes lock keys, and with volatile-* those with an end, which all locks have, first",
                "CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE to keep it; or give the locks a server of their own",
            ));
        }
    }

    fn persistence(&self, concerns: &mut Vec<Concern>) {
        match (self.setting("appendonly"), self.setting("save")) {
            (Some("no"), Some("")) => concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Forgets),
                "appendonly no, save \"\"",
                "a restart forgets every lock, and grants again what is still held",
                RESTART_REMEDY,
            )),
            (Some("no"), Some(save)) => concerns.push(self.concern(
                (Severity::Caution, ConcernKind::ForgetsLatest),
                format!("appendonly no, save \"{save}\""),
                "a crash forgets every lock since the last snapshot, and grants again what is still held",
                RESTART_REMEDY,
            )),
            (Some("yes"), _) => {
                if let Some(sync @ ("everysec" | "no")) = self.setting("appendfsync") {
                    concerns.push(self.concern(
                    (Severity::Caution, ConcernKind::ForgetsLatest),
                    format!("appendfsync {sync}"),
                    "when its machine fails, the locks of the last moments are forgotten",
                    "CONFIG SET appendfsync always, then CONFIG REWRITE to keep it; or take the locks that matter with durability waitaof:0",
                ));
                }
            }
            _ => {}
        }
    }

    fn replication(&self, concerns: &mut Vec<Concern>, durability: Durability) {
        let wanted = self.number("min-replicas-to-write");
        match (self.replicas, wanted) {
            (Some(there), Some(wanted)) if u64::from(there) < wanted => concerns.push(self.concern(
                (Severity::Danger, ConcernKind::TooFewReplicas),
                format!("min-replicas-to-write {wanted}, connected {there}"),
                "every acquire and every renewal is refused with NOREPLICAS",
                "bring the replicas back, or lower min-replicas-to-write",
            )),
            (Some(1..), Some(0)) if durability == Durability::None => concerns.push(self.concern(
                (Severity::Caution, ConcernKind::UnguardedFailover),
                "min-replicas-to-write 0",
                "a master that is cut off goes on granting locks, and a failover forgets grants that no replica had",
                "CONFIG SET min-replicas-to-write 1, then CONFIG REWRITE to keep it; and take the locks that matter with durability wait:all, \
                 since with fewer a replica without the grant may be promoted",
            )),
            _ => {}
        }
        let down_after_ms = self.number(Self::DOWN_AFTER);
        if let Some(ms) =
            down_after_ms.filter(|ms| u128::from(*ms) < ClientOptions::default().watchdog_lease.as_millis())
            && durability == Durability::None
        {
            concerns.push(self.concern(
                (Severity::Caution, ConcernKind::EarlyFailover),
                format!("{} {ms}", Self::DOWN_AFTER),
                "after a crash another master grants while leases of the old one run (30 s by default), and what no replica had is granted a second time",
                "take the locks that matter with durability wait:all; or SENTINEL SET MASTER down-after-milliseconds to at least the lease where locks may be \
                 unavailable for so long, which helps against crashes and not against partitions",
            ));
        }
        if self.clustered && self.setting("cluster-require-full-coverage") == Some("yes") {
            concerns.push(self.concern(
                (Severity::Caution, ConcernKind::FullCoverage),
                "cluster-require-full-coverage yes",
                "while one shard is down, the locks of all shards are refused with CLUSTERDOWN",
                "CONFIG SET cluster-require-full-coverage no, then CONFIG REWRITE to keep it",
            ));
        }
    }

    /// Whether one more replica can be promoted than is asked for.
    fn acknowledgements(&self, concerns: &mut Vec<Concern>, durability: Durability) {
        if let (Some(given), Some(connected)) = (self.given_replicas, self.replicas)
            && durability.depends_on_replicas()
            && connected > given
        {
            concerns.push(self.concern(
                (Severity::Danger, ConcernKind::Acknowledgements),
                format!("{durability} of {given} replicas, and {connected} are connected"),
                "one that is not asked for may be promoted, and does not know the grant",
                "give the number of replicas: ClientOptions::replicas, or ?replicas=N in the URL",
            ));
        }
    }

    fn unread(&self, concerns: &mut Vec<Concern>) {
        let unread: Vec<_> = (Self::SETTINGS.iter())
            .filter(|name| !self.settings.contains_key(**name))
            // Servers before the cluster, and some services, have no such setting.
            .filter(|name| self.clustered || !name.starts_with("cluster-"))
            .copied()
            .collect();
        if !unread.is_empty() {
            let said = self.refused_settings.as_deref().unwrap_or("nothing is said of them");
            concerns.push(self.concern(
                (Severity::Caution, ConcernKind::Unread),
                format!("unknown: {}; CONFIG GET: {said}", unread.join(", ")),
                "this client was not told them, so they are not judged",
                "allow CONFIG GET where the user lacks the right (ACL +config|get), connect past a proxy that keeps it back, or look at them by hand",
            ));
        }
    }
}
