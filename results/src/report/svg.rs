//! Turns a run into one SVG picture with its charts below each other.

use super::{Exporter, ReportError, charts};
use crate::run::Run;
use crate::svg::{self, Chart};

/// `--format svg`.
#[derive(Debug)]
pub struct Svg;

impl Exporter for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn extension(&self) -> &'static str {
        "svg"
    }

    fn about(&self) -> &'static str {
        "the charts alone, below each other"
    }

    fn render(&self, run: &Run) -> Result<String, ReportError> {
        let mut parts: Vec<Chart> = charts::price(run).into_iter().collect();
        if !run.rows.is_empty() {
            parts.push(charts::throughput(run));
            parts.push(charts::latency(run));
            parts.extend(charts::percentiles(run));
            parts.extend(charts::cost(run));
        }
        parts.extend(run.sweeps.iter().filter_map(charts::sweep));
        parts.extend(charts::recovery(run));
        parts.extend(
            run.scenarios
                .iter()
                .filter_map(|result| result.timeline.as_ref())
                .map(svg::timeline),
        );
        if parts.is_empty() {
            return Err(ReportError {
                format: "svg",
                message: "the run holds nothing that a chart shows".to_owned(),
            });
        }
        Ok(Chart::stack(&run.run, &parts).document())
    }
}
