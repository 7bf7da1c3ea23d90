//! For tools: what is said on the wire ([`Tracer`]), and what is dangerous about servers' settings
//! ([`ServerReport`], [`Concern`]).
//!
//! ```
//! use lock_core::{Client, ClientOptions, Kind, diagnostics::Tracer};
//! # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
//! # let server = example::Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
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
//! client.close().await;
//! # Ok(()) });
//! ```

pub(crate) mod concern;
#[cfg(feature = "handshake")]
mod handshake;
pub(crate) mod trace;

use futures_util::future::join_all;

pub use self::concern::{Concern, ConcernKind, ServerReport, Severity};
#[cfg(feature = "handshake")]
pub use self::handshake::TlsHandshake;
pub use self::trace::{Traced, Tracer};

use crate::KeyTracking;
use crate::client::Client;
use crate::clock::Instant;
use crate::topology::survey;

impl Client {
    /// Asks every master that is known now about itself, and those that do not answer within the connect
    /// timeout stand in the result too, as silent.
    pub async fn survey(&self) -> Vec<ServerReport> {
        let options = &self.shared().options;
        let deadline = Instant::now() + options.connect_timeout + options.response_timeout;
        let routes = self.shared().routes.iter();
        let masters =
            routes.flat_map(|route| route.masters().into_iter().map(|node| (node, route.down_after_ms())));
        let reports = masters.map(|(node, down_after_ms)| async move {
            let mut report = survey::ask_any(&node, &options.name_prefix, deadline).await;
            let said = down_after_ms.map(|ms| (ServerReport::DOWN_AFTER.to_owned(), ms.to_string()));
            report.settings.extend(said);
            if options.key_tracking == KeyTracking::Off {
                report.refused_tracking = None;
            }
            report
        });
        join_all(reports).await
    }
}
