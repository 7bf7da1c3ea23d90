//! Serves Toxiproxy's HTTP API over the fault proxy, so that any client of Toxiproxy can drive it.
//!
//! The same endpoints, statuses and JSON as Toxiproxy 2.12. What differs, on purpose: it listens on loopback
//! only, the API and its proxies; there is no `/metrics` and no request id; names in bodies are lower case; a
//! path is not tidied; `reset_peer` resets existing connections too, where the original closes them in order;
//! what is wrong with a body or an address is said in other words, and changes nothing.
//!
//! | file | what it is for |
//! |---|---|
//! | `serve.rs`, `api.rs` | HTTP, and the answer to each request |
//! | `proxy.rs`, `toxic.rs` | a proxy and its toxics |

mod api;
mod proxy;
mod serve;
mod toxic;

use serde::Serialize;

pub use serve::Toxiproxy;

const VERSION: &str = "2.12.0";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ApiError {
    #[serde(rename = "error")]
    message: String,
    status: u16,
}

impl ApiError {
    fn new(status: u16, message: &str) -> ApiError {
        ApiError { status, message: message.to_owned() }
    }

    fn bad_body(problem: &str) -> ApiError {
        ApiError::new(400, &format!("bad request body: {problem}"))
    }
}
