//! `locklab doctor`: what this machine, or a target, has and lacks, and how to fix it.

use std::process::Command;

use clap::Args;
use cluster_config::{MachineFinding, check_machine};

use super::survey;
use crate::args::TargetConsent;
use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Check these servers instead of this machine: settings that are dangerous for locks
    #[arg(value_parser = crate::args::target_url)]
    target: Option<String>,
    /// How the names of your locks begin, where a user of the servers may have certain names alone
    #[arg(long, requires = "target", default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    mine: TargetConsent,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if let Some(target) = &options.target {
        return survey::run(target, &options.prefix, options.mine.yes_this_is_mine, terminal).await;
    }
    let mut findings = check_machine().await;
    findings.extend([browser(), peers()]);
    let is_ok = findings.iter().all(|finding| finding.state != "missing");
    let document = serde_json::json!({"schema": 1, "ok": is_ok, "findings": findings});
    terminal.answer(&document, || findings.iter().map(line).collect())?;
    Ok(if is_ok { exit::AS_EXPECTED } else { exit::MISSING })
}

fn line(finding: &MachineFinding) -> String {
    let remedy = finding.remedy.iter();
    let remedy: String = remedy.map(|remedy| format!("           {remedy}\n")).collect();
    format!("{:<9}  {}: {}\n{remedy}", finding.state, finding.what, finding.found)
}

fn peers() -> MachineFinding {
    let (mut built, mut missing) = (Vec::new(), Vec::new());
    for subject in bench::subjects::all() {
        match (subject.program(), subject.missing()) {
            (Some(_), None) => built.push(subject.name().to_owned()),
            (Some(_), Some(_)) => missing.push(subject.name().to_owned()),
            (None, _) => {}
        }
    }
    if built.is_empty() {
        built.push("none".to_owned());
    }
    let said = format!("built: {}", built.join(", "));
    if missing.is_empty() {
        return MachineFinding::ok("peers", said);
    }
    let remedy = "`make peers` builds those whose language is here, and names what the others need";
    MachineFinding::optional("peers", format!("{said}; not built: {}", missing.join(", ")), remedy)
}

fn browser() -> MachineFinding {
    const WHAT: &str = "chromium";
    match Command::new(WHAT).arg("--version").output() {
        Ok(output) if output.status.success() => {
            MachineFinding::ok(WHAT, String::from_utf8_lossy(&output.stdout).trim())
        }
        _ => MachineFinding::optional(WHAT, "not here", "only the tests that look at reports need it"),
    }
}
