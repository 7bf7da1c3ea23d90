//! For tools that look at locks and their servers: what is said on the wire ([`Tracer`]), what the servers run ([`Monitor`]), what is
//! dangerous about their settings ([`ServerReport`], [`Concern`]), and a handshake for a connection beside the client's
//! ([`TlsHandshake`]).
//!
//! ```
//! use lock_core::{Client, ClientOptions, Kind, diagnostics::Tracer};
//! # #[path = "../../tests/support/mod.rs"]
//! # mod support;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = support::Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
//! # let target = server.url().parse()?;
//!
//! let (tell, said) = std::sync::mpsc::channel();
//! let tracer = Tracer::new(move |event| drop(tell.send(event.command)));
//! let client = Client::connect(&target, ClientOptions::default().tracer(tracer)).await?;
//! for concern in client.concerns() {
//!     println!("{concern}"); // 127.0.0.1:6379: maxmemory-policy allkeys-lru: a full server …
//! }
//! # assert!(!client.concerns().is_empty());
//! client.lock(Kind::Plain, "orders")?.acquire().await?.release().await?;
//! assert!(said.iter().any(|command| command == "SET"));
//! # Ok(()) }
//! ```

mod concern;
mod handshake;
mod trace;

use std::sync::Arc;

use futures_util::future::join_all;

pub use self::{
    concern::{Concern, ConcernKind, ServerReport, Severity},
    handshake::TlsHandshake,
    trace::{Monitor, Monitored, Traced, Tracer},
};

pub(crate) use self::trace::reply;
use crate::{
    client::Client,
    clock::Instant,
    topology::{monitor, survey},
};

impl Client {
    /// Asks every master that is known now about itself, and those that do not answer within the connect timeout stand in
    /// the result too, as silent.
    pub async fn survey(&self) -> Vec<ServerReport> {
        let options = &self.shared().options;
        let deadline = Instant::now() + options.connect_timeout + options.response_timeout;
        let masters: Vec<_> = (self.shared().routes.iter())
            .flat_map(|route| route.masters())
            .collect();
        join_all(masters.iter().map(|node| survey::ask_any(node, deadline))).await
    }

    /// Reports everything that the present masters run, for any client, until the answer is dropped: MONITOR, on a connection of its own to
    /// each. For looking at what scripts do; a busy server spends much of its time on it.
    pub async fn monitor(&self, tell: impl Fn(Monitored) + Send + Sync + 'static) -> Monitor {
        let tell: monitor::Tell = Arc::new(tell);
        let masters = self
            .shared()
            .routes
            .iter()
            .flat_map(|route| route.masters());
        let asked = masters.map(|node| {
            let tell = Arc::clone(&tell);
            async move { (node.label.to_string(), monitor::listen(&node, tell).await) }
        });
        let (mut tasks, mut refused) = (Vec::new(), Vec::new());
        for (node, listening) in join_all(asked).await {
            match listening {
                Ok(task) => tasks.push(task),
                Err(error) => refused.push((node, error.message)),
            }
        }
        Monitor::new(tasks, refused)
    }
}
