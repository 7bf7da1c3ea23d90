//! The HTTP side of the API, on a loopback address.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN, USER_AGENT};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::ApiError;
use super::api::{Api, error_response};
use crate::ClusterError;
use crate::proxy::accept;

/// Far more than any list of proxies; it keeps a stranger from filling the memory.
const BODY_MOST: usize = 16 * 1024 * 1024;
/// As long as the original waits for a request.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// One request at a time, as two that change one proxy would have to wait for each other anyway.
type Shared = Arc<Mutex<Api>>;

/// A running API and its proxies. They end when it is dropped.
#[derive(Debug)]
pub struct Toxiproxy {
    address: SocketAddr,
    api: Shared,
    serving: JoinSet<()>,
}

impl Toxiproxy {
    /// Serves the API on a loopback address; port 0: any. This Tokio runtime carries the proxies' bytes too.
    pub async fn listen(address: SocketAddr) -> Result<Toxiproxy, ClusterError> {
        if !address.ip().is_loopback() {
            bail!(
                "{address} is not a loopback address: who reaches the API can harm what runs here; listen on 127.0.0.1"
            );
        }
        let failed = |error| failed!("the proxy's API cannot listen on {address}: {error}");
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let api = Shared::default();
        let served = api.clone();
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, move |stream, _| serve(stream, served.clone())));
        Ok(Toxiproxy { address, api, serving })
    }

    /// Where the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates the proxies of a file of Toxiproxy: a JSON list of `name`, `listen`, `upstream` and `enabled`.
    ///
    /// # Errors
    /// What the file lacks, or where nobody can listen; then some of the proxies may be there.
    pub async fn populate(&self, config: &[u8]) -> Result<(), ClusterError> {
        let response = self.api.lock().await.populate(config).await;
        if response.status().is_success() {
            return Ok(());
        }
        let told: serde_json::Value = serde_json::from_str(response.body()).unwrap_or_default();
        Err(ClusterError::new(told["error"].as_str().unwrap_or(response.body())))
    }

    /// Ends the API, the proxies and their connections. When it returns, their ports are free.
    pub async fn stop(mut self) {
        self.serving.shutdown().await;
        self.api.lock().await.stop().await;
    }
}

async fn serve(stream: TcpStream, api: Shared) -> io::Result<()> {
    let service = service_fn(move |request| answer(request, api.clone()));
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

/// Whether a page in a browser asks, under a name that leads here or from its own site: it could do harm.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let is_here = |authority: &str| {
        authority.parse::<Authority>().is_ok_and(|authority| {
            let host = authority.host().trim_matches(['[', ']']);
            let ip = host.parse::<IpAddr>();
            host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
        })
    };
    let is = |name: HeaderName, passes: &dyn Fn(&str) -> bool| {
        let value = headers.get(name);
        value.is_none_or(|value| value.to_str().is_ok_and(passes))
    };
    let from_here = |origin: &str| origin.split_once("://").is_some_and(|(_, host)| is_here(host));
    let by_itself = |site: &str| ["same-origin", "none"].contains(&site);
    !(is(HOST, &is_here)
        && is(ORIGIN, &from_here)
        && is(HeaderName::from_static("sec-fetch-site"), &by_itself))
}

async fn answer(
    request: hyper::Request<Incoming>,
    api: Shared,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    if is_from_elsewhere(&head.headers) {
        let refusal = ApiError::new(
            403,
            "requests of pages in a browser, and to a name that is not loopback, are refused",
        );
        return Ok(error_response(&refusal).map(Full::from));
    }
    let refusal = match tokio::time::timeout(READ_TIMEOUT, Limited::new(body, BODY_MOST).collect()).await {
        Ok(Ok(body)) => {
            let agent = head.headers.get(USER_AGENT);
            let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
            let (method, path) = (head.method.as_str(), head.uri.path());
            let answer = api.lock().await.answer(method, path, agent, &body.to_bytes()).await;
            return Ok(answer.map(Full::from));
        }
        Ok(Err(_)) => ApiError::bad_body("it is longer than 16 MiB or broken off"),
        Err(_) => ApiError::new(408, "the request did not come to its end"),
    };
    Ok(error_response(&refusal).map(Full::from))
}
