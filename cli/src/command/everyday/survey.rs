//! `locklab doctor TARGET`: what each server reports about itself, and what of it is dangerous for locks.

use chaos::target_servers::{parse_target, survey};
use lock_core::Durability;
use lock_core::diagnostics::{Concern, ServerReport, Severity};
use serde_json::{Value, json};

use crate::exit;
use crate::terminal::Terminal;

/// Asks every master; 0 if nothing dangerous was found, 1 if something was, 69 if no server answered.
pub(crate) async fn run(target: &str, mine: bool, terminal: &Terminal) -> anyhow::Result<u8> {
    let target = parse_target(target)?;
    let reports = survey(&target, mine).await?;
    if reports.iter().all(|report| report.silence.is_some()) {
        let silence = reports.first().and_then(|report| report.silence.as_deref());
        let why = silence.unwrap_or("no master is known");
        return Err(exit::missing(format!("{target}: {why}")));
    }
    let judged: Vec<_> = reports.iter().map(|report| (report, report.concerns(Durability::None))).collect();
    let worst = judged.iter().flat_map(|(_, concerns)| concerns).map(|concern| concern.severity).max();
    let well = worst < Some(Severity::Danger);
    let nodes = judged.iter();
    let nodes: Vec<_> = nodes.map(|(report, concerns)| node_json(report, concerns)).collect();
    let document = json!({"schema": 1, "ok": well, "target": target.to_string(), "nodes": nodes});
    terminal.answer(&document, || {
        let nodes = judged.iter();
        let texts: Vec<_> = nodes.map(|(report, concerns)| node_text(report, concerns)).collect();
        texts.join("\n")
    })?;
    Ok(exit::of(well))
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

fn node_json(report: &ServerReport, concerns: &[Concern]) -> Value {
    let listed: Vec<_> = concerns
        .iter()
        .map(|concern| {
            json!({
                "kind": concern.kind.name(),
                "severity": word(concern.severity),
                "found": concern.found,
                "why": concern.why,
                "remedy": concern.remedy,
            })
        })
        .collect();
    json!({
        "node": report.node,
        "verdict": verdict(concerns),
        "version": report.version,
        "role": report.role,
        "replicas": report.replicas,
        "clustered": report.clustered,
        "settings": report.settings,
        "silence": report.silence,
        "concerns": listed,
    })
}

fn node_text(report: &ServerReport, concerns: &[Concern]) -> String {
    let mut text = format!("{:<9}  {}", verdict(concerns), report.node);
    if report.silence.is_none() {
        let unknown = || "unknown".to_owned();
        text.push_str(&format!(
            ": {}, {}, replicas {}",
            report.version.clone().unwrap_or_else(unknown),
            report.role.clone().unwrap_or_else(unknown),
            report.replicas.map_or_else(unknown, |count| count.to_string()),
        ));
        for name in ServerReport::SETTINGS {
            if name.starts_with("cluster-") && !report.clustered {
                continue;
            }
            let value = match report.settings.get(*name) {
                Some(value) if value.is_empty() => "\"\"",
                Some(value) => value,
                None => "unknown",
            };
            text.push_str(&format!("\n             {name} {value}"));
        }
        if let Some(value) = report.settings.get(ServerReport::DOWN_AFTER) {
            let name = ServerReport::DOWN_AFTER;
            text.push_str(&format!("\n             {name} {value}"));
        }
    }
    for concern in concerns {
        text.push_str(&format!(
            "\n  {:<7}  {}\n             {}\n             remedy: {}",
            word(concern.severity),
            concern.found,
            concern.why,
            concern.remedy
        ));
    }
    text
}
