//! The address that a proxy is to listen on.

use std::net::{Ipv4Addr, SocketAddr};

/// Resolves `HOST:PORT`. An empty text is any free port of 127.0.0.1, where the original takes one on all interfaces; addresses beyond
/// loopback are refused, where the original takes them.
///
/// # Errors
/// What is wrong.
pub(super) async fn resolve(text: &str) -> Result<SocketAddr, String> {
    if text.is_empty() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    }
    let beyond = || format!("address {text}: only loopback addresses are listened on");
    if text.starts_with(':') {
        return Err(beyond());
    }
    let found = tokio::net::lookup_host(text).await;
    let found = found.map_err(|error| format!("address {text}: {error}"))?;
    let all: Vec<SocketAddr> = found.collect();
    // Go prefers the old kind of address where a name has both.
    let first = all.iter().find(|found| found.is_ipv4()).or(all.first());
    let first = first.filter(|found| found.ip().is_loopback());
    first.copied().ok_or_else(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_of_loopback_are_resolved_and_others_are_refused() {
        for (text, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("localhost:81", "127.0.0.1:81"),
            ("[::1]:5", "[::1]:5"),
            ("", "127.0.0.1:0"),
        ] {
            let found = resolve(text).await.map(|address| address.to_string());
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "junk",
            "a:b:c",
            "127.0.0.1:99999",
            "127.0.0.1:zz",
            "0.0.0.0:1",
            ":1",
        ] {
            assert!(resolve(text).await.is_err(), "{text}");
        }
    }
}
