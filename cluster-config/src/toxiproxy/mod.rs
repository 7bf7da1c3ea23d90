//! Serves Toxiproxy's HTTP API over the fault proxy, so that any client of Toxiproxy can drive it.
//!
//! The same endpoints, statuses, JSON and error texts as Toxiproxy 2.12. What differs, on purpose: it listens on loopback
//! only, the API and its proxies; `/metrics` is always there; `reset_peer` resets existing connections too, where
//! the original closes them in order.
//!
//! Reading order: `api` (requests and answers), `proxy` (one proxy), `toxic` (one toxic), `syntax` and `fields` (bodies, as Go
//! reads them), `serve` (HTTP).

mod address;
mod api;
mod fields;
mod metrics;
mod proxy;
mod serve;
mod syntax;
mod toxic;

use syntax::encode;

pub use serve::Toxiproxy;

/// The version of Toxiproxy whose API this is.
const VERSION: &str = "2.12.0";

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ApiError {
    status: u16,
    message: String,
}

impl ApiError {
    fn new(status: u16, message: &str) -> ApiError {
        ApiError {
            status,
            message: message.to_owned(),
        }
    }

    fn bad_body(problem: &str) -> ApiError {
        ApiError::new(400, &format!("bad request body: {problem}"))
    }

    /// As the members of a JSON object.
    fn members(&self) -> String {
        format!(
            "\"error\":{},\"status\":{}",
            encode(&self.message),
            self.status
        )
    }
}
