//! Says which redis.conf lines a topology may hold: not those by which the harness places and protects its nodes.

/// Directives that say where a node lives and who it is: another value would break the address scheme, not the server.
const RESERVED: [&str; 40] = [
    "aclfile",
    "bind",
    "bind-source-addr",
    "cluster-announce-bus-port",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-port",
    "daemonize",
    "dir",
    "include",
    "logfile",
    "masterauth",
    "masteruser",
    "pidfile",
    "port",
    "protected-mode",
    "replica-announce-ip",
    "replica-announce-port",
    "replicaof",
    "requirepass",
    "set-proc-title",
    "slave-announce-ip",
    "slave-announce-port",
    "slaveof",
    "supervised",
    "tls-auth-clients",
    "tls-ca-cert-dir",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-client-cert-file",
    "tls-client-key-file",
    "tls-cluster",
    "tls-key-file",
    "tls-port",
    "tls-replication",
    "unixsocket",
    "user",
];

/// What is wrong with a line, in words that begin with the key it stands under; `None`: nothing.
pub(super) fn complaint(directive: &str, value: &str) -> Option<String> {
    let form = form_complaint(directive, value);
    if form.is_some() {
        return form;
    }
    if RESERVED.contains(&directive.to_ascii_lowercase().as_str()) {
        return Some(format!(
            "config: {directive} is chosen by the harness, since addresses, directories and passwords follow from it; leave it out"
        ));
    }
    None
}

/// What is wrong with the form of a setting, whatever server it is for.
pub(super) fn form_complaint(name: &str, value: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        return Some(format!(
            "config: {name:?} is no name of a setting: letters, digits, -, _ and . are allowed"
        ));
    }
    value.contains(['\n', '\r', '\0']).then(|| {
        format!("config: the value of {name} spans several lines; one directive is one line")
    })
}
