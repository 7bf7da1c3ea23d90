//! Describes a user whom the servers admit, and keeps passwords out of everything that is shown or kept.

use std::fmt;

/// A password. It is never shown, and it is left out of whatever is written for others to read.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Holds a password.
    pub fn new(password: impl Into<String>) -> Secret {
        Secret(password.into())
    }

    /// 128 random bits in hexadecimal digits.
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

/// A user besides `locklab`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The password. It is not kept with a plan: a run that is repeated from one makes up another.
    #[serde(skip)]
    pub password: Option<Secret>,
    /// What the user may do, in the words of Redis' ACLs, e.g. `~orders:* +@all -@dangerous`.
    pub rules: String,
}

impl User {
    /// What a user may do where the file is silent: everything.
    pub const EVERYTHING: &'static str = "~* &* +@all";
}

pub(crate) const OWN_USER: &str = "locklab";

/// What is wrong with a user's name; `None`: nothing.
pub(super) fn name_complaint(name: &str) -> Option<String> {
    if [OWN_USER, "default"].contains(&name) {
        return Some(format!(
            "the user {name:?} is the harness's own or the server's; take another name"
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (name.is_empty() || !name.chars().all(plain)).then(|| {
        format!("the user's name {name:?} can hold letters, digits, -, _ and . only, one at least")
    })
}

/// What is wrong with a password, which is not repeated; `None`: nothing.
pub(super) fn password_complaint(password: &Secret) -> Option<String> {
    let plain = |c: char| c.is_ascii_graphic() && !"\"'\\".contains(c);
    let text = password.reveal();
    (text.is_empty() || !text.chars().all(plain)).then(|| {
        "a password can hold visible ASCII characters without quotes and \\, one at least"
            .to_owned()
    })
}

/// What is wrong with rules; `None`: nothing. What they may say besides is the server's to judge.
pub(super) fn rules_complaint(rules: &str) -> Option<String> {
    if rules.chars().any(char::is_control) {
        return Some("rules span several lines; they are one line".to_owned());
    }
    let word = rules.split_whitespace().find(|word| {
        word.starts_with(['>', '<', '#', '!', '"', '\''])
            || ["on", "off", "nopass", "reset", "resetpass"].contains(word)
    })?;
    // A word that sets a password is not repeated.
    let shown = if word.starts_with(['>', '<', '#', '!']) {
        "a password"
    } else {
        word
    };
    Some(format!(
        "rules hold {shown}; whether a user is admitted and by which password is said by `password`, and the rest belongs \
         here, e.g. ~orders:* +@all"
    ))
}
