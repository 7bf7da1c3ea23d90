//! The specification of a run on Kubernetes: scenario, parts, servers, and where results are kept.

use chaos::scenario::Scenario;
use cluster_config::{Topology, TopologyKind};

/// The image of `locklab`, as the Dockerfile of the repository makes it.
pub const IMAGE: &str = "locklab:latest";

/// One run on Kubernetes.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The prefix of its objects' names; a [`dns_label`].
    pub name: String,
    /// The namespace that all of them are in. It is never made and never left.
    pub namespace: String,
    /// The image that has `locklab`.
    pub image: String,
    /// Parts of the plan, each a pod: 1 or more.
    pub parts: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// How many seeds, counted up from `seed`.
    pub repeat: u32,
    /// A subject that replaces the scenario's lock.
    pub subject: Option<String>,
    /// The scenario's text.
    pub text: String,
    /// The scenario, parsed from `text`.
    pub scenario: Scenario,
    /// Where its servers are.
    pub servers: Servers,
    /// Faults by command that are allowed there.
    pub allow: Vec<String>,
    /// Where the parts leave their runs.
    pub storage: Storage,
    /// Processors of each part, as Kubernetes writes them: `1`, `500m`.
    pub cpu: String,
    /// Memory of each part: `1Gi`.
    pub memory: String,
}

/// Where a scenario's servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers {
    /// A StatefulSet, of which each part has its own.
    StatefulSet,
    /// Processes beside the clients, in each part's own pod: every fault is the harness's own.
    Pod,
    /// Somebody's, by URL: all parts share them.
    Target {
        /// The URL, kept in a Secret. Their owner allows the run.
        url: String,
    },
}

/// Where the parts leave their runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// A claim of the run's own, to be mounted by many pods at once, of this class; `None`: of the cluster's
    /// default.
    Volume(Option<String>),
    /// A claim that exists, and stays.
    Claim(String),
    /// A bucket, by rclone beside each part.
    Bucket {
        /// `BUCKET` or `BUCKET/PREFIX`.
        path: String,
        /// A Secret whose keys are rclone's variables: `RCLONE_S3_PROVIDER`, `RCLONE_S3_ACCESS_KEY_ID` …
        secret: String,
    },
}

/// A name for objects, of which the names of pods are made: 1 to 45 lower-case letters, digits and hyphens.
pub fn dns_label(text: &str) -> Result<String, String> {
    let allowed = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    // A pod's name is a host's, of at most 63 letters.
    match (1..=45).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
    {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is no name for objects: allowed are 1 to 45 lower-case letters, digits and hyphens"
        )),
    }
}

impl Storage {
    /// Reads `volume`, `claim:NAME` or `s3://BUCKET/PREFIX`.
    pub fn parse(text: &str, class: Option<String>, secret: Option<&str>) -> Result<Self, String> {
        match (text.split_once(':'), secret) {
            (None, _) if text == "volume" => Ok(Self::Volume(class)),
            (Some(("claim", name)), _) if !name.is_empty() => Ok(Self::Claim(name.to_owned())),
            (Some(("s3", path)), Some(secret)) if path.len() > 2 && path.starts_with("//") => Ok(Self::Bucket {
                path: path[2..].trim_end_matches('/').to_owned(),
                secret: secret.to_owned(),
            }),
            (Some(("s3", _)), None) => Err("a bucket needs --storage-secret NAME, a Secret with rclone's variables (RCLONE_S3_ACCESS_KEY_ID …)".to_owned()),
            _ => Err(format!("`{text}` is no storage; write volume, claim:NAME or s3://BUCKET/PREFIX")),
        }
    }
}

impl Spec {
    /// What Kubernetes, or Chaos Mesh there, cannot do: the fault's index from 0, or `None`, and why.
    pub fn refused(&self) -> Vec<(Option<usize>, String)> {
        let mut wrong: Vec<(Option<usize>, String)> = Vec::new();
        if self.servers == Servers::StatefulSet {
            wrong.extend(unserved(&self.scenario.topology).map(|why| (None, why)));
        }
        if self.servers == Servers::Pod {
            return wrong;
        }
        if self.scenario.random.is_some() {
            wrong.push((None, "[random] draws faults when a part begins, and what Chaos Mesh cannot do must be refused before: take --servers pod".to_owned()));
        }
        for (index, fault) in self.scenario.faults.iter().enumerate() {
            if let Err(why) = crate::chaos_mesh::carrier(fault, self.scenario.topology.kind) {
                wrong.push((Some(index), format!("{why}; --servers pod lets every part have servers beside its clients, where the harness itself can do it")));
            }
        }
        wrong
    }

    /// Whether a fault of it is Chaos Mesh's to do.
    pub fn needs_chaos_mesh(&self) -> bool {
        let taken = |fault| {
            crate::chaos_mesh::carrier(fault, self.scenario.topology.kind)
                == Ok(crate::chaos_mesh::Carrier::ChaosMesh)
        };
        self.servers != Servers::Pod && self.scenario.faults.iter().any(taken)
    }
}

fn unserved(topology: &Topology) -> Option<String> {
    let why = match topology.kind {
        kind if !kind.is_redis() => format!("servers of `{kind}` are not rendered"),
        TopologyKind::Cluster if topology.shards < 3 => {
            "redis-cli joins clusters of three shards and more".to_owned()
        }
        _ if topology.tls || topology.acl => "servers with TLS or passwords are not rendered".to_owned(),
        _ if topology.server.contains('/') => {
            format!("`{}` is a path on your machine", topology.server)
        }
        _ => return None,
    };
    Some(format!("{why}; take --target URL, or --servers pod"))
}
