//! Turns a target URL into somebody else's servers, and scenarios into what may be done to those.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use chaos::external::{Allowed, for_servers};
use chaos::scenario::Scenario;
use chaos::toxiproxy::beyond_toxiproxy;
use cluster_config::{
    External, ExternalTarget, Handshake, Secret, SecureStream, Secured, TopologyKind, resolve_host,
};
use lock_core::{Endpoint, Shape, Target, TlsHandshake};
use tokio::net::TcpStream;

use super::bench::allow;
use crate::exit;

/// Faults that need their owner's word on servers beyond this machine: what `--allow` takes.
const ALLOWABLE: [&str; 11] = [
    "flushall",
    "maxmemory",
    "config-set",
    "command",
    "script-flush",
    "client-kill",
    "client-pause",
    "failover",
    "takeover",
    "promote",
    "migrate-slot",
];

/// A fault that `--allow` may name.
pub(crate) fn allowable(text: &str) -> Result<String, String> {
    if ALLOWABLE.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is nothing that can be allowed; {} can{}",
        ALLOWABLE.join(", "),
        super::nearest(text, ALLOWABLE.into_iter())
    ))
}

/// The harness trusts servers as the locks do.
#[derive(Debug)]
struct OverTls(TlsHandshake);

#[async_trait]
impl Handshake for OverTls {
    async fn shake(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn SecureStream>> {
        Ok(Box::new(self.0.shake(host, stream).await?))
    }

    fn any_address(&self) -> bool {
        self.0.any_address()
    }
}

/// Finds the servers behind a URL. `mine`: they may be touched although they are not on this machine.
pub(crate) async fn external(url: &str, mine: bool) -> anyhow::Result<External> {
    let target: Target = url.parse().map_err(exit::usage)?;
    allow(&target, mine)?;
    let tls = TlsHandshake::of(&target).map_err(|why| exit::usage(format!("{target}: {why}")))?;
    let mut addresses = Vec::new();
    for endpoint in target.endpoints() {
        if let Endpoint::Unix(path) = endpoint {
            return Err(exit::usage(format!(
                "{}: faults need servers with addresses; `bench --target` takes sockets",
                path.display()
            )));
        }
        let address = resolve_host(&endpoint.to_string()).await;
        addresses.push(address.map_err(exit::missing)?);
    }
    let kind = match target.shape() {
        Shape::Sentinel => TopologyKind::Sentinel,
        Shape::Cluster => TopologyKind::Cluster,
        Shape::Masters => TopologyKind::Masters,
        _ => TopologyKind::Single,
    };
    let described = ExternalTarget {
        kind,
        addresses,
        master_name: target.master_name().unwrap_or_default().to_owned(),
        tls: tls.map(|tls| Secured(Arc::new(OverTls(tls)))),
        user: target.username().map(str::to_owned),
        password: target.password().map(Secret::new),
        database: target.database(),
    };
    External::find(described, (url.to_owned(), target.to_string()), mine)
        .await
        .map_err(|error| match error.missing {
            true => exit::missing(error),
            false => exit::usage(error),
        })
}

/// The scenario on these servers, or everything that cannot be done to them, with the lines of the faults.
pub(crate) fn on_target(
    (file, text): (&str, &str),
    scenario: Scenario,
    external: &External,
    allowed: &[String],
) -> Result<Scenario, String> {
    let allowed = Allowed {
        topology: external.topology(),
        loopback: external.is_loopback(),
        named_by_address: external.is_named_by_address(),
        faults: allowed,
    };
    for_servers(scenario, &allowed).map_err(|wrong| {
        let complaints: Vec<String> = wrong
            .into_iter()
            .map(|(index, why)| format!("{file}:{}:1: {why}", line_of(text, "[[faults]]", index)))
            .collect();
        complaints.join("\n")
    })
}

/// The scenario as it is, or everything in it that a Toxiproxy server cannot do, with the lines of the faults.
pub(crate) fn over_toxiproxy(
    (file, text): (&str, &str),
    scenario: Scenario,
) -> Result<Scenario, String> {
    let wrong = beyond_toxiproxy(&scenario);
    if wrong.is_empty() {
        return Ok(scenario);
    }
    let complaints: Vec<String> = wrong
        .into_iter()
        .map(|(index, why)| {
            let line = index.map_or_else(
                || line_of(text, "[random]", 0),
                |index| line_of(text, "[[faults]]", index),
            );
            format!("{file}:{line}:1: {why}")
        })
        .collect();
    Err(complaints.join("\n"))
}

/// The line, from 1, at which the table of this heading and index begins.
fn line_of(text: &str, heading: &str, index: usize) -> usize {
    let mut begins = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim_start().starts_with(heading));
    begins.nth(index).map_or(1, |(line, _)| line + 1)
}
