//! What servers report about themselves, and what of it is dangerous for locks; why there is no connection.

use lock_core::diagnostics::{Concern, ServerReport, Severity};
use lock_core::machine::ELSEWHERE;
use lock_core::{Client, ClientOptions, ErrorKind, LockError, Target};
use serde_json::{Value, json};

use crate::subject::SubjectError;

/// A failed connection as an error: wrong usage if it cannot work, else something missing.
pub fn connect_failure(error: LockError) -> SubjectError {
    let text = connect_failure_text(&error);
    match error.kind() {
        ErrorKind::Invalid => SubjectError::Usage(not_dialled(&text).unwrap_or(text)),
        _ => SubjectError::Unreachable(text),
    }
}

/// Why there is no connection. An error of one node names it twice; once is enough.
pub fn connect_failure_text(error: &LockError) -> String {
    let text = error.to_string();
    match error.node() {
        Some(node) => text.replacen(&format!(": could not connect to {node}: "), ": ", 1),
        None => text,
    }
}

/// The message about a server that was not dialled because it is beyond this machine and nobody named it,
/// with the remedy.
fn not_dialled(why: &str) -> Option<String> {
    let why = why.contains(ELSEWHERE).then_some(why)?;
    Some(format!("{why}: add --yes-this-is-mine if you may test on it"))
}

/// Every master's report, for locks whose names begin with `prefix`. Beyond this machine only masters that
/// the target names are asked, unless `mine`.
pub async fn survey(target: &Target, prefix: &str, mine: bool) -> Result<Vec<ServerReport>, SubjectError> {
    let options = ClientOptions::default().only_named_addresses(!mine).name_prefix(prefix);
    let client = Client::connect(target, options).await.map_err(connect_failure)?;
    let reports = client.survey().await;
    client.close().await;
    let silences = reports.iter().filter_map(|report| report.silence.as_deref());
    match silences.into_iter().find_map(not_dialled) {
        Some(far) => Err(SubjectError::Usage(format!("{target} leads elsewhere: {far}"))),
        None => Ok(reports),
    }
}

/// `good`, `caution` or `danger`.
fn verdict(concerns: &[Concern]) -> &'static str {
    concerns.first().map_or("good", |worst| word(worst.severity))
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Danger => "danger",
        _ => "caution",
    }
}

/// A server's report and what of it is dangerous, as JSON.
pub fn to_json(report: &ServerReport, concerns: &[Concern]) -> Value {
    let listed = concerns.iter().map(|concern| {
        json!({
            "kind": concern.kind.name(),
            "severity": word(concern.severity),
            "found": concern.found,
            "why": concern.why,
            "remedy": concern.remedy,
        })
    });
    json!({
        "node": report.node,
        "verdict": verdict(concerns),
        "version": report.version,
        "role": report.role,
        "replicas": report.replicas,
        "clustered": report.clustered,
        "settings": report.settings,
        "silence": report.silence,
        "concerns": listed.collect::<Vec<_>>(),
    })
}

/// The same for people.
pub fn text(report: &ServerReport, concerns: &[Concern]) -> String {
    let mut text = format!("{:<9}  {}", verdict(concerns), report.node);
    if report.silence.is_none() {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let replicas = known(&report.replicas.map(|count| count.to_string()));
        text += &format!(": {}, {}, replicas {replicas}", known(&report.version), known(&report.role));
        let setting = |name: &str| match report.settings.get(name) {
            Some(value) if value.is_empty() => "\"\"".to_owned(),
            value => known(&value.cloned()),
        };
        let shown = |name: &&&str| report.clustered || !name.starts_with("cluster-");
        let told = report.settings.contains_key(ServerReport::DOWN_AFTER).then_some(ServerReport::DOWN_AFTER);
        for name in ServerReport::SETTINGS.iter().filter(shown).copied().chain(told) {
            text += &format!("\n             {name} {}", setting(name));
        }
    }
    for concern in concerns {
        text += &format!(
            "\n  {:<7}  {}\n             {}\n             remedy: {}",
            word(concern.severity),
            concern.found,
            concern.why,
            concern.remedy
        );
    }
    text
}
