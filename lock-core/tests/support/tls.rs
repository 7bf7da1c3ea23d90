//! Servers that speak TLS beside the harness's plain port, with a certificate authority of their own.
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::{Server, free_port};

/// An authority, and one certificate of it for the address 127.0.0.1 and the name `redis.test`.
pub struct Authority {
    directory: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let authority = Authority { directory: TempDir::new().expect("a temporary directory") };
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Of the same name, the leaf would count as signed by itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let root = params.self_signed(&key).expect("signed");
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "redis.test".to_owned()];
        let params = CertificateParams::new(names).expect("good names");
        let leaf = params.signed_by(&key, &issuer).expect("signed");
        for (name, text) in
            [("ca.pem", root.pem()), ("cert.pem", leaf.pem()), ("key.pem", key.serialize_pem())]
        {
            std::fs::write(authority.file(name), text).expect("written");
        }
        authority
    }

    /// `ca.pem`, `cert.pem` or `key.pem`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `?tls-ca=…`
    pub fn query(&self) -> String {
        format!("?tls-ca={}", self.file("ca.pem").display())
    }

    /// What makes a server speak TLS on a port of its own, also with its fellows.
    fn arguments(&self, port: u16) -> Vec<String> {
        let file = |name: &str| self.file(name).display().to_string();
        [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", file("cert.pem")),
            ("--tls-key-file", file("key.pem")),
            ("--tls-ca-cert-file", file("ca.pem")),
            ("--tls-replication", "yes".to_owned()),
            ("--tls-cluster", "yes".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }

    /// A server with further arguments, and its TLS port. Clients need no certificate.
    pub fn server(&self, arguments: &[&str]) -> (Server, u16) {
        let port = free_port();
        let tls = self.arguments(port);
        let tls = tls.iter().map(String::as_str);
        let all: Vec<_> = tls.chain(["--tls-auth-clients", "no"]).chain(arguments.iter().copied()).collect();
        (Server::start(&all), port)
    }

    /// A sentinel that watches the master `m` at a TLS port, and its own TLS port.
    pub fn sentinel(&self, master: u16) -> (Server, u16) {
        let port = free_port();
        let text =
            |_| format!("sentinel monitor m 127.0.0.1 {master} 1\nsentinel down-after-milliseconds m 500\n");
        let tls = self.arguments(port);
        let mut all = vec!["--sentinel", "--tls-auth-clients", "no"];
        all.extend(tls.iter().map(String::as_str));
        (Server::start_with_file(text, &all), port)
    }
}
