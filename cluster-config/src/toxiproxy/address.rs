//! Turns `HOST:PORT` into the address to listen on, with Go's words for what is wrong with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The host and the port of an address, as Go splits them.
fn split(text: &str) -> Result<(&str, &str), String> {
    let wrong = |what: &str| Err(format!("address {text}: {what}"));
    let Some((host, port)) = text.rsplit_once(':') else {
        return wrong("missing port in address");
    };
    if let Some(inner) = host.strip_prefix('[') {
        return match inner.strip_suffix(']') {
            Some(inner) => Ok((inner, port)),
            None => wrong("missing ']' in address"),
        };
    }
    if host.contains(':') {
        return wrong("too many colons in address");
    }
    Ok((host, port))
}

fn port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
        return text
            .parse()
            .map_err(|_| format!("address {text}: invalid port"));
    }
    // The services that somebody might name for a proxy.
    match text {
        "http" => Ok(80),
        "https" => Ok(443),
        "redis" => Ok(6379),
        _ => Err(format!("lookup tcp/{text}: unknown port")),
    }
}

/// Resolves what a proxy is to listen on. An empty text is any free port of 127.0.0.1, where the original takes one on
/// all interfaces; addresses beyond loopback are refused, where the original takes them.
///
/// # Errors
/// What is wrong, in Go's words where Go has some.
pub(super) async fn resolve(text: &str) -> Result<SocketAddr, String> {
    if text.is_empty() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    }
    let (host, port_text) = split(text)?;
    let port = port(port_text)?;
    let beyond = || format!("address {text}: only loopback addresses are listened on");
    let address = match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port),
        Err(_) if host.is_empty() => return Err(beyond()),
        Err(_) => {
            let found = tokio::net::lookup_host((host, port)).await;
            let all: Vec<SocketAddr> = found.into_iter().flatten().collect();
            // Go prefers the old kind of address where a name has both.
            let first = all.iter().find(|found| found.is_ipv4()).or(all.first());
            *first.ok_or_else(|| format!("lookup {host}: no such host"))?
        }
    };
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(beyond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_understood_and_refused_as_go_does() {
        for (text, expected) in [
            ("127.0.0.1:80", Ok("127.0.0.1:80")),
            ("localhost:81", Ok("127.0.0.1:81")),
            ("[::1]:5", Ok("[::1]:5")),
            ("127.0.0.1:", Ok("127.0.0.1:0")),
            ("", Ok("127.0.0.1:0")),
            ("127.0.0.1:http", Ok("127.0.0.1:80")),
            ("junk", Err("address junk: missing port in address")),
            ("a:b:c", Err("address a:b:c: too many colons in address")),
            ("127.0.0.1:99999", Err("address 99999: invalid port")),
            ("127.0.0.1:-5", Err("address -5: invalid port")),
            ("127.0.0.1:zz", Err("lookup tcp/zz: unknown port")),
            (
                "0.0.0.0:1",
                Err("address 0.0.0.0:1: only loopback addresses are listened on"),
            ),
            (
                ":1",
                Err("address :1: only loopback addresses are listened on"),
            ),
        ] {
            let found = resolve(text).await.map(|address| address.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
