//! Redis servers by URL, as lock-core reads it: for code that knows servers but no lock.

pub use lock_core::diagnostics::TlsHandshake;
pub use lock_core::{Endpoint, Target, TopologyKind};

use crate::subject::SubjectError;

/// A target by its URL; an error names the URL where it can have no password.
pub fn parse_target(url: &str) -> Result<Target, SubjectError> {
    url.parse().map_err(|error: lock_core::TargetError| {
        let named = if error.may_hold_password { "the target's URL" } else { url };
        SubjectError::Usage(format!("{named}: {error}"))
    })
}
