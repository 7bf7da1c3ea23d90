//! `locklab doctor TARGET`: what each server reports about itself, and what of it is dangerous for locks.

use bench::survey::{self, survey};
use bench::target::parse_target;
use lock_core::Durability;
use lock_core::diagnostics::Severity;
use serde_json::json;

use crate::exit;
use crate::terminal::Terminal;

/// Asks every master; 0 if nothing dangerous was found, 1 if something was, 69 if no server answered.
pub(crate) async fn run(target: &str, prefix: &str, mine: bool, terminal: &Terminal) -> anyhow::Result<u8> {
    let target = parse_target(target)?;
    let reports = survey(&target, prefix, mine).await?;
    if reports.iter().all(|report| report.silence.is_some()) {
        let silence = reports.first().and_then(|report| report.silence.as_deref());
        let why = silence.unwrap_or("no master is known");
        return Err(exit::missing(format!("{target}: {why}")));
    }
    let judged: Vec<_> = reports.iter().map(|report| (report, report.concerns(Durability::None))).collect();
    let worst = judged.iter().flat_map(|(_, concerns)| concerns).map(|concern| concern.severity).max();
    let well = worst < Some(Severity::Danger);
    let nodes = judged.iter();
    let nodes: Vec<_> = nodes.map(|(report, concerns)| survey::to_json(report, concerns)).collect();
    let document = json!({"schema": 1, "ok": well, "target": target.to_string(), "nodes": nodes});
    terminal.answer(&document, || {
        let nodes = judged.iter();
        let texts: Vec<_> = nodes.map(|(report, concerns)| survey::text(report, concerns)).collect();
        texts.join("\n")
    })?;
    Ok(exit::of(well))
}
