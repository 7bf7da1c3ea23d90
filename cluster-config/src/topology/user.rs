//! The user that servers with passwords admit, and a password that is never shown or kept.

use std::fmt;

/// A password. It is never shown, and it is left out of whatever is written for others to read.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Holds a password.
    pub fn new(password: impl Into<String>) -> Secret {
        Secret(password.into())
    }

    pub(crate) fn random() -> Secret {
        Secret(format!("{:032x}", rand::random::<u128>()))
    }

    /// The password itself, for a server's configuration or a connection.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

pub(crate) const OWN_USER: &str = "locklab";
