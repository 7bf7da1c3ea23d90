//! Somebody's own servers of another system than Redis: a lock says how many there are, and whether they
//! serve.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench::subject::{AcquireEnd, AcquireRequest, ConnectTo, Connected, ReleaseEnd, SubjectError};
use bench::subjects::system_of;
use cluster_config::{ExternalTarget, Topology, TopologyKind, Writer, resolve_host};

/// The shape of a system's servers by the number of addresses in their URL.
pub fn kind_of_system(system: &str, url: &str) -> Result<TopologyKind, String> {
    let named = bench::subjects::addresses(url).len();
    let of_system = |kind: &TopologyKind| kind.system_name() == Some(system);
    let kinds = TopologyKind::ALL.into_iter().filter(of_system);
    let counts: Vec<_> = kinds.map(|kind| (kind, Topology::of(kind).data_nodes() as usize)).collect();
    counts.iter().find(|(_, count)| *count == named).map(|(kind, _)| *kind).ok_or_else(|| {
        let counts = counts.iter().map(|(_, count)| count.to_string());
        format!(
            "{}: the URL names {named} servers; scenarios on {system} take {}",
            results::secrets::redact(url),
            counts.collect::<Vec<_>>().join(" or ")
        )
    })
}

/// Writes by a lock, which is what the servers are asked for anyway, and which the run's end takes away.
struct ByLock(Connected);

impl fmt::Debug for ByLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByLock").finish_non_exhaustive()
    }
}

#[async_trait]
impl Writer for ByLock {
    async fn writes(&self, name: &str, timeout: Duration) -> bool {
        let one_try = AcquireRequest {
            lock: name,
            others: &[],
            kind: "",
            owner: "harness",
            reenters: false,
            wait: Some(Duration::ZERO),
            lease: Some(timeout),
            permits: None,
            cancel: None,
        };
        let client = &self.0.client;
        let written = async {
            match client.acquire(one_try).await {
                AcquireEnd::Ok { grant, .. } => client.release(&grant).await == ReleaseEnd::Ok,
                // What an earlier try left behind: to see it the servers were asked as well.
                end => end == AcquireEnd::Busy,
            }
        };
        tokio::time::timeout(timeout, written).await.unwrap_or(false)
    }
}

/// How servers of another system than Redis are reached. One lock on its servers is taken and given back to
/// see whether they serve.
pub async fn described_by_lock(url: &str, kind: TopologyKind) -> Result<ExternalTarget, SubjectError> {
    let usual = system_of(url).map(bench::subjects::of_system);
    let subject = bench::subjects::find(usual.and_then(|locks| locks.first().copied()).unwrap_or_default())?;
    let connected = subject.connect(&ConnectTo::new(url, "harness", 0, "none")).await?;
    let mut addresses = Vec::new();
    for address in bench::subjects::addresses(url) {
        let found = resolve_host(&address).await;
        addresses.push(found.map_err(|why| SubjectError::Unreachable(why.to_string()))?);
    }
    Ok(ExternalTarget {
        kind,
        addresses,
        socket: None,
        master_name: String::new(),
        tls: None,
        user: None,
        password: None,
        sentinel_user: None,
        sentinel_password: None,
        database: 0,
        writer: Some(Arc::new(ByLock(connected))),
    })
}
