//! What stands after `?` in a target's URL: settings of the connection.

use std::fmt;

use crate::client::options::{PubSub, TlsOptions};
use crate::client::target::{Credentials, Fault, bad, database, decode, encode, refuse};

/// What a URL may say about the connections beside their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Parameters {
    pub(crate) tls: TlsOptions,
    pub(crate) pub_sub: PubSub,
    pub(crate) replicas: Option<u32>,
    pub(crate) sentinel_user: Option<String>,
    pub(crate) sentinel_password: Option<String>,
    /// These are moved to the target; of a Unix socket the database is shown here.
    pub(crate) database: Option<u16>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) master_name: Option<String>,
}

const KNOWN: &str = "tls-ca, tls-cert, tls-key, tls-server-name, tls-insecure, pubsub, replicas, sentinel-user, \
    sentinel-password, db, protocol, username, password, master-name";

/// What other libraries call some of them.
const ALSO: [(&str, &str); 4] =
    [("database", "db"), ("user", "username"), ("pass", "password"), ("sentinelMasterId", "master-name")];

impl Parameters {
    /// Reads `name=value&…`; `tls` if the scheme asks for TLS.
    pub(crate) fn read(text: &str, tls: bool) -> Result<Self, Fault> {
        let mut read = Parameters::default();
        let mut seen = Vec::new();
        for part in text.split('&') {
            let known = || format!("{KNOWN}; timeouts and the rest are set in ClientOptions");
            let Some((name, value)) = part.split_once('=') else {
                return refuse(part, format!("after `?` is no name=value; known are {}", known()));
            };
            let ours = ALSO.iter().find(|(theirs, _)| *theirs == name);
            let name = ours.map_or(name, |(_, ours)| ours);
            let Some(name) = KNOWN.split(", ").find(|known| *known == name) else {
                return refuse(name, format!("after `?` is unknown; known are {}", known()));
            };
            if seen.contains(&name) {
                return bad(format!("`{name}` is given twice after `?`"));
            }
            seen.push(name);
            if name.starts_with("tls-") && !tls {
                return bad(format!("`{name}` belongs to a URL with TLS, such as rediss://"));
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
                "tls-insecure" => match value.parse() {
                    Ok(insecure) => read.tls.insecure = insecure,
                    Err(_) => return refuse(value, "is not what tls-insecure can be: true or false"),
                },
                "pubsub" => match value.parse() {
                    Ok(way) => read.pub_sub = way,
                    Err(_) => {
                        return refuse(value, "is no way to publish; pubsub is auto, plain, sharded or both");
                    }
                },
                "replicas" => match value.parse() {
                    Ok(count) if count > 0 => read.replicas = Some(count),
                    _ => return refuse(value, "is no number of replicas: 1 or more is allowed"),
                },
                "db" => read.database = Some(database(&value)?),
                "protocol" => {
                    if !["2", "3", "resp2", "resp3"].contains(&value.as_str()) {
                        return refuse(value, "is no protocol; protocol is 2, 3, resp2 or resp3");
                    }
                }
                "sentinel-user" => read.sentinel_user = Some(value),
                "sentinel-password" => read.sentinel_password = Some(value),
                "username" => read.username = Some(value),
                "password" => read.password = Some(value),
                "master-name" => read.master_name = Some(value),
                _ => unreachable!("{name} is known"),
            }
        }
        if read.tls.cert_file.is_some() != read.tls.key_file.is_some() {
            return bad("tls-cert and tls-key are given together".to_owned());
        }
        if read.sentinel_user.is_some() && read.sentinel_password.is_none() {
            return bad("sentinel-user needs sentinel-password beside it");
        }
        Ok(read)
    }

    /// Those that stand before the addresses, or else here.
    pub(crate) fn credentials(&mut self, before: Credentials) -> Result<Credentials, Fault> {
        match (before, (self.username.take(), self.password.take())) {
            (before, (None, None)) => Ok(before),
            ((None, None), (Some(_), None)) => bad("username needs password beside it"),
            ((None, None), here) => Ok(here),
            _ => bad("user or password stand before the addresses, and again after `?`"),
        }
    }
}

/// As it is read; nothing where nothing was set.
impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file =
            |file: &Option<std::path::PathBuf>| file.as_ref().map(|file| file.to_string_lossy().into_owned());
        let tls = &self.tls;
        let said = |condition: bool, word: &str| condition.then(|| word.to_owned());
        let values = [
            ("tls-ca", file(&tls.ca_file)),
            ("tls-cert", file(&tls.cert_file)),
            ("tls-key", file(&tls.key_file)),
            ("tls-server-name", tls.server_name.clone()),
            ("tls-insecure", said(tls.insecure, "true")),
            ("pubsub", said(self.pub_sub != PubSub::Auto, self.pub_sub.name())),
            ("replicas", self.replicas.map(|count| count.to_string())),
            ("db", self.database.map(|number| number.to_string())),
            ("sentinel-user", self.sentinel_user.clone()),
            ("sentinel-password", self.sentinel_password.clone()),
        ];
        let given = values.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        for (i, (name, value)) in given.enumerate() {
            let mark = if i == 0 { '?' } else { '&' };
            // A password is shown to nobody.
            match name {
                "sentinel-password" => write!(f, "{mark}{name}=***")?,
                _ => write!(f, "{mark}{name}={}", encode(&value))?,
            }
        }
        Ok(())
    }
}
