//! Requests to a Toxiproxy server, one connection each.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::ClusterError;

/// It is on this machine and answers within a millisecond; a busy machine may need more.
const ANSWER: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
}

impl Client {
    /// The answer to a request; null if it is empty. What is to be removed and is not there is removed.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, ClusterError> {
        let asked = format!("{method} {path}");
        let removes = method == Method::DELETE;
        let answer = tokio::time::timeout(ANSWER, self.exchange(method, path, body)).await;
        let (status, text) = answer
            .map_err(|_| self.absent(&format!("no answer within {ANSWER:?}")))?
            .map_err(|why| self.absent(&why.to_string()))?;
        let text = text.trim();
        let gone = removes && status == StatusCode::NOT_FOUND;
        if gone || (status.is_success() && text.is_empty()) {
            return Ok(Value::Null);
        }
        if !status.is_success() {
            return Err(failed!(
                "Toxiproxy at {} answers {asked} with {status}: {text}",
                self.address
            ));
        }
        serde_json::from_str(text).map_err(|error| {
            failed!(
                "what answers at {} is no Toxiproxy: {asked}: {error}",
                self.address
            )
        })
    }

    pub(super) async fn remove(&self, path: &str) -> Result<(), ClusterError> {
        self.ask(Method::DELETE, path, None).await.map(drop)
    }

    fn absent(&self, why: &str) -> ClusterError {
        missing!(
            "no Toxiproxy answers at {0}: {why}; start one: `toxiproxy-server -host {1} -port {2}`, or `locklab proxy --listen {0}`",
            self.address,
            self.address.ip(),
            self.address.port()
        )
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, String), Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the exchange; what went wrong is told there.
        let talking = tokio::spawn(connection);
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        talking.abort();
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }
}
