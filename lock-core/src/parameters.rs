//! Turns what stands after `?` in a target's URL into settings of the connection, and back.

use std::fmt;

use crate::{
    TargetError,
    options::{PubSub, TlsOptions},
    target::{bad, decode, encode},
};

/// What a URL may say about the connections beside their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Parameters {
    pub(crate) tls: TlsOptions,
    pub(crate) pub_sub: PubSub,
}

const KNOWN: &str = "tls-ca, tls-cert, tls-key, tls-server-name, tls-insecure, pubsub";

impl Parameters {
    /// Reads `name=value&…`; `tls` if the scheme asks for TLS.
    pub(crate) fn read(text: &str, tls: bool) -> Result<Self, TargetError> {
        let mut read = Parameters::default();
        let mut seen = Vec::new();
        for part in text.split('&') {
            let Some((name, value)) = part.split_once('=') else {
                return bad(format!(
                    "`{part}` after `?` is no name=value; known are {KNOWN}"
                ));
            };
            if seen.contains(&name) {
                return bad(format!("`{name}` is given twice after `?`"));
            }
            seen.push(name);
            if name.starts_with("tls-") && !tls {
                return bad(format!(
                    "`{name}` belongs to a URL with TLS, such as rediss://"
                ));
            }
            let value = decode(value, name)?;
            if value.is_empty() {
                return bad(format!("`{name}` after `?` has no value"));
            }
            match name {
                "tls-ca" => read.tls.ca_file = Some(value.into()),
                "tls-cert" => read.tls.cert_file = Some(value.into()),
                "tls-key" => read.tls.key_file = Some(value.into()),
                "tls-server-name" => read.tls.server_name = Some(value),
                "tls-insecure" => {
                    read.tls.insecure = match value.as_str() {
                        "true" => true,
                        "false" => false,
                        _ => return bad(format!("tls-insecure is true or false, not `{value}`")),
                    }
                }
                "pubsub" => {
                    read.pub_sub = value
                        .parse()
                        .or_else(|error| bad(format!("pubsub: {error}")))?;
                }
                _ => return bad(format!("`{name}` after `?` is unknown; known are {KNOWN}")),
            }
        }
        if read.tls.cert_file.is_some() != read.tls.key_file.is_some() {
            return bad("tls-cert and tls-key are given together".to_owned());
        }
        Ok(read)
    }
}

/// As it is read; nothing where nothing was set.
impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = |file: &Option<std::path::PathBuf>| {
            file.as_ref()
                .map(|file| file.to_string_lossy().into_owned())
        };
        let tls = &self.tls;
        let said = |condition: bool, word: &str| condition.then(|| word.to_owned());
        let values = [
            ("tls-ca", file(&tls.ca_file)),
            ("tls-cert", file(&tls.cert_file)),
            ("tls-key", file(&tls.key_file)),
            ("tls-server-name", tls.server_name.clone()),
            ("tls-insecure", said(tls.insecure, "true")),
            (
                "pubsub",
                said(self.pub_sub != PubSub::Auto, self.pub_sub.name()),
            ),
        ];
        let given = values
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, value)));
        for (i, (name, value)) in given.enumerate() {
            write!(f, "{}{name}=", if i == 0 { '?' } else { '&' })?;
            encode(&value, f)?;
        }
        Ok(())
    }
}
