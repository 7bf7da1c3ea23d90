//! One proxy of the API: a listener, an upstream, and the toxics on the way between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ApiError;
use super::toxic::{Toxic, ToxicBody};
use crate::Party;
use crate::proxy::{Direction, LinkTable, ProxyRoute, accept};

/// The upstream's name on the links of a proxy's own table.
const UPSTREAM: &str = "upstream";

#[derive(Debug, Default)]
pub(super) struct Proxy {
    pub(super) name: String,
    pub(super) listen: String,
    pub(super) upstream: String,
    /// Its listener and its connections, while it is enabled. The port is free when its shutdown returns.
    pub(super) running: JoinSet<()>,
    table: LinkTable,
    /// In the order in which they were added.
    pub(super) toxics: Vec<Toxic>,
}

impl Proxy {
    pub(super) fn new(name: String, listen: String, upstream: String) -> Proxy {
        Proxy { name, listen, upstream, ..Proxy::default() }
    }

    pub(super) fn is_enabled(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) async fn start(&mut self) -> Result<(), ApiError> {
        if self.is_enabled() {
            return Ok(());
        }
        let failed = |problem: String| ApiError::new(500, &format!("listen tcp{problem}"));
        let address = resolve(&self.listen).await.map_err(|problem| failed(format!(": {problem}")))?;
        let listener =
            TcpListener::bind(address).await.map_err(|error| failed(format!(" {address}: bind: {error}")))?;
        let bound = listener.local_addr().map_err(|error| failed(format!(" {address}: {error}")))?;
        self.listen = bound.to_string();
        let passage =
            Arc::new(ProxyRoute { table: self.table.clone(), client: client(), upstream: upstream() });
        let upstream = self.upstream.clone();
        self.running.spawn(accept(listener, move |client, peer| {
            let (passage, upstream) = (Arc::clone(&passage), upstream.clone());
            async move { passage.carry(client, TcpStream::connect(upstream).await?, peer).await }
        }));
        Ok(())
    }

    pub(super) async fn differs(&self, listen: &str, upstream: &str) -> Result<bool, ApiError> {
        let address = resolve(listen).await.map_err(|problem| ApiError::new(500, &problem))?;
        // The original's word for "no address".
        let resolved = if listen.is_empty() { String::new() } else { address.to_string() };
        Ok(self.listen != resolved || self.upstream != upstream)
    }

    pub(super) fn add_toxic(&mut self, asked: &ToxicBody) -> Result<&Toxic, ApiError> {
        let mut toxic = Toxic::new(asked)?;
        if self.toxics.iter().any(|known| known.name == toxic.name) {
            return Err(ApiError::new(409, "toxic already exists"));
        }
        let (from, to) = match toxic.stream {
            Direction::Out => (client(), upstream()),
            Direction::Back => (upstream(), client()),
        };
        toxic.guard = Some(self.table.add_fault(Some(from), Some(to), toxic.fault()));
        self.toxics.push(toxic);
        Ok(&self.toxics[self.toxics.len() - 1])
    }

    /// Those on the way to the upstream first.
    pub(super) fn toxics_to_json(&self) -> Vec<Value> {
        let mut toxics: Vec<&Toxic> = self.toxics.iter().collect();
        toxics.sort_by_key(|toxic| toxic.stream == Direction::Back);
        toxics.into_iter().map(Toxic::to_json).collect()
    }

    /// With the logger that the original lets slip out, for clients that compare whole answers.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.is_enabled(),
            "Logger": {},
            "toxics": self.toxics_to_json(),
        })
    }
}

fn client() -> Party {
    Party::Client(0)
}

fn upstream() -> Party {
    Party::Node(UPSTREAM.to_owned())
}

/// Resolves `HOST:PORT`. An empty text is any free port of 127.0.0.1, where the original takes one on all
/// interfaces; addresses beyond loopback are refused, where the original takes them.
async fn resolve(text: &str) -> Result<SocketAddr, String> {
    if text.is_empty() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    }
    let beyond = || format!("address {text}: only loopback addresses are listened on");
    if text.starts_with(':') {
        return Err(beyond());
    }
    let found = tokio::net::lookup_host(text).await.map_err(|error| format!("address {text}: {error}"))?;
    let all: Vec<SocketAddr> = found.collect();
    // Go prefers the old kind of address where a name has both.
    let first = all.iter().find(|found| found.is_ipv4()).or(all.first());
    first.filter(|found| found.ip().is_loopback()).copied().ok_or_else(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_both_kinds_of_address_are_resolved() {
        for (text, expected) in
            [("127.0.0.1:80", "127.0.0.1:80"), ("localhost:81", "127.0.0.1:81"), ("[::1]:5", "[::1]:5")]
        {
            assert_eq!(resolve(text).await, Ok(expected.parse().unwrap()), "{text}");
        }
    }
}
