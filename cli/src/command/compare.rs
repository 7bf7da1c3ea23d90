//! Turns several kept runs into differences: figures with their verdicts, verdicts that changed, configuration first.

use clap::Args;
use results::compare::{RunComparison, compare};

use super::run::store;
use crate::args::Common;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `compare`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directories, their names under runs/, or `latest`; the first is the base
    #[arg(required = true, num_args = 2..)]
    runs: Vec<String>,
}

pub(crate) fn run(options: Options, common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut runs = Vec::new();
    for name in &options.runs {
        runs.push(store().load(name).map_err(exit::input)?);
    }
    let compared = compare(&runs).map_err(exit::input)?;
    if common.json {
        terminal.result(&serde_json::to_string(&compared)?);
    } else {
        terminal.result(&text(&compared));
    }
    Ok(exit::AS_EXPECTED)
}

/// Configuration differences come first: a reader must know what else differed before believing a ratio.
fn text(compared: &RunComparison) -> String {
    let mut out = format!("base: {}\n", compared.base);
    for difference in &compared.differences {
        out.push_str(&format!(
            "differs  {}: {} -> {} ({})\n",
            difference.field, difference.a, difference.b, difference.run
        ));
    }
    for change in &compared.scenarios {
        out.push_str(&format!(
            "verdict  {} on {} ({}): {} {} -> {} ({})\n",
            change.scenario,
            change.topology,
            change.subject,
            change.class,
            change.a,
            change.b,
            change.run
        ));
    }
    if compared.scenarios.is_empty() && compared.scenarios_in_common > 0 {
        out.push_str(&format!(
            "verdict  {} scenarios in common, none changed\n",
            compared.scenarios_in_common
        ));
    }
    for against in &compared.comparisons {
        let ratio = against.comparison.ratio;
        let interval = match (ratio.low, ratio.high) {
            (Some(low), Some(high)) => format!(" [{low:.2}–{high:.2}]"),
            _ => " (no interval)".to_owned(),
        };
        out.push_str(&format!(
            "{:<11} {:<28} {:<24} × {:.2}{interval} {}\n",
            against.comparison.verdict,
            against.comparison.r#where,
            against.comparison.metric,
            ratio.point,
            against.comparison.b
        ));
    }
    for left in &compared.left_out {
        out.push_str(&format!("left out  {left}\n"));
    }
    out
}
