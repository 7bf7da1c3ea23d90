//! What the drivers of this shelf share: the SDK, and the URL of each server as the libraries take it.

#[path = "../../../sdk/rust/src/locklab.rs"]
pub mod locklab;

use locklab::{Ending, Hello};

/// A URL per server; the drivers are built without TLS.
///
/// # Errors
/// The target wants TLS.
pub fn urls(hello: &Hello) -> Result<Vec<String>, Ending> {
    if hello.tls {
        return Err(Ending::Failed("this driver is built without TLS".into()));
    }
    let login = if hello.login.is_empty() { String::new() } else { hello.login.clone() + "@" };
    Ok(hello.hosts.iter().map(|host| format!("redis://{login}{host}/{}", hello.path)).collect())
}

/// A release that this library cannot repeat, since its first call consumed the guard.
#[must_use]
pub fn consumed() -> Ending {
    Ending::Unknown("an earlier release consumed the guard".into())
}
