//! Everything that is wrong with a topology, each with the place where it was said.

use super::{Persistence, Topology, TopologyKind};
use crate::ClusterError;
use crate::input::{nearest, one_of};

/// Data nodes that there are addresses for.
const MOST_DATA_NODES: u32 = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProblemPlace {
    Key(&'static str),
    /// A table of lines, and the directive in it.
    Config(&'static str, String),
}

impl Topology {
    /// Says whether this shape can be started at all; all complaints in one message.
    pub fn validate(&self) -> Result<(), ClusterError> {
        let wrong = self.complaints();
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong: Vec<String> = wrong.into_iter().map(|(_, message)| message).collect();
        Err(ClusterError::new(wrong.join("\n")))
    }

    pub(super) fn complaints(&self) -> Vec<(ProblemPlace, String)> {
        let mut wrong = Vec::new();
        self.counts(&mut wrong);
        if self.server.trim().is_empty() {
            let words = "server is empty: say redis, valkey, a version such as redis-7.2, or the path of a server binary";
            wrong.push((ProblemPlace::Key("server"), words.to_owned()));
        }
        self.of_redis_alone(&mut wrong);
        self.lines(&mut wrong);
        self.sentinel_lines(&mut wrong);
        wrong
    }

    /// What other systems have another form of, or nothing.
    fn of_redis_alone(&self, wrong: &mut Vec<(ProblemPlace, String)>) {
        if self.kind.is_redis() {
            return;
        }
        let given = [
            ("persistence", self.persistence.is_some()),
            ("min-replicas-to-write", self.min_replicas_to_write > 0),
            ("tls", self.tls),
            ("acl", self.acl),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            let message = format!("{key} does not apply to `{}`: it is for Redis", self.kind);
            wrong.push((ProblemPlace::Key(key), message));
        }
    }

    fn counts(&self, wrong: &mut Vec<(ProblemPlace, String)>) {
        let start = wrong.len();
        for count in self.kind.counts() {
            let complaint = count.complaint(self.kind, i64::from(self.number(count.key)));
            wrong.extend(complaint.map(|message| (ProblemPlace::Key(count.key), message)));
        }
        let nodes = self.data_nodes();
        if wrong.len() == start && nodes > MOST_DATA_NODES {
            let message = format!(
                "shards = {} with {} replicas each are {nodes} nodes: at most {MOST_DATA_NODES} have an address",
                self.shards, self.replicas
            );
            wrong.push((ProblemPlace::Key("shards"), message));
        }
        let replicas = match self.kind {
            TopologyKind::Single => 0,
            _ => self.replicas,
        };
        if self.kind.is_redis() && wrong.len() == start && self.min_replicas_to_write > replicas {
            let message = format!(
                "min-replicas-to-write = {} with {replicas} replicas per master: no write would ever be taken",
                self.min_replicas_to_write
            );
            wrong.push((ProblemPlace::Key("min-replicas-to-write"), message));
        }
    }

    fn sentinel_lines(&self, wrong: &mut Vec<(ProblemPlace, String)>) {
        for (name, value) in &self.sentinel_config {
            let problem = if self.kind != TopologyKind::Sentinel {
                format!("`{}` has no sentinels", self.kind)
            } else if !SENTINEL_DIRECTIVES.contains(&name.as_str()) {
                let near = nearest(name, SENTINEL_DIRECTIVES);
                format!("allowed are {}{near}", one_of(SENTINEL_DIRECTIVES))
            } else if value.parse::<u32>().is_ok_and(|value| value > 0) {
                continue;
            } else {
                format!("{value:?} is no whole number from 1 to {}", u32::MAX)
            };
            let at = ProblemPlace::Config("sentinel-config", name.clone());
            wrong.push((at, format!("sentinel-config: {name}: {problem}")));
        }
    }

    fn lines(&self, wrong: &mut Vec<(ProblemPlace, String)>) {
        for (name, value) in &self.config {
            let at = ProblemPlace::Config("config", name.clone());
            let complaint = match self.kind.is_redis() {
                true => line_complaint(name, value),
                false => form_complaint(name, value),
            };
            if let Some(complaint) = complaint {
                wrong.push((at.clone(), complaint));
            }
            let lower = name.to_ascii_lowercase();
            let twice = match self.persistence {
                Some(persistence) if Persistence::DECIDES.contains(&lower.as_str()) => {
                    format!("{name} is decided by persistence = \"{persistence}\"")
                }
                _ if self.min_replicas_to_write > 0 && lower == "min-replicas-to-write" => {
                    format!("{lower} is said twice")
                }
                _ => continue,
            };
            wrong.push((at, format!("config: {twice}; leave out one of the two")));
        }
    }
}

/// What a sentinel can be told of its master that changes no address, password or program.
const SENTINEL_DIRECTIVES: [&str; 3] = ["down-after-milliseconds", "failover-timeout", "parallel-syncs"];

/// Directives that say where a node lives and who it is: another value would break the address scheme.
const RESERVED: &str = "\
    aclfile bind bind-source-addr cluster-announce-bus-port cluster-announce-ip cluster-announce-port \
    cluster-announce-tls-port cluster-config-file cluster-enabled cluster-port daemonize dir include logfile \
    masterauth masteruser pidfile port protected-mode replica-announce-ip replica-announce-port replicaof \
    requirepass set-proc-title slave-announce-ip slave-announce-port slaveof supervised tls-auth-clients \
    tls-ca-cert-dir tls-ca-cert-file tls-cert-file tls-client-cert-file tls-client-key-file tls-cluster \
    tls-key-file tls-port tls-replication unixsocket user";

/// What is wrong with a line, in words that begin with the key it stands under; `None`: nothing.
fn line_complaint(directive: &str, value: &str) -> Option<String> {
    form_complaint(directive, value).or_else(|| {
        let lower = directive.to_ascii_lowercase();
        RESERVED.split(' ').any(|reserved| reserved == lower).then(|| {
            format!(
                "config: {directive} is chosen by the harness, since addresses, directories and passwords follow from it; leave it out"
            )
        })
    })
}

/// What is wrong with the form of a setting, whatever server it is for.
fn form_complaint(name: &str, value: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        return Some(format!(
            "config: {name:?} is no name of a setting: letters, digits, -, _ and . are allowed"
        ));
    }
    value
        .contains(['\n', '\r', '\0'])
        .then(|| format!("config: the value of {name} spans several lines; one directive is one line"))
}
