//! The closed loop that a driver runs by itself.

use serde_json::json;

use super::{A, LONG_MS, MaybeFound, Trial, not_asked, shown};
use crate::{inside::LoadReport, protocol::error_text};

impl Trial<'_> {
    pub(super) async fn load(&mut self) -> MaybeFound {
        self.both().await?;
        let request = json!({
            "op": "load", "workload": "cycles", "kind": self.kind, "tasks": 2, "locks": 2, "warmup_ms": 50, "measure_ms": 300,
            "lease_ms": LONG_MS, "hold_us": 0, "think_us": 0,
        });
        let within = self.patience() + std::time::Duration::from_secs(5);
        let reply = self.raw(A).ask(request, within).await?;
        if reply.ending == "failed" {
            return not_asked(&format!("not offered: {}", error_text(&reply.body)));
        }
        let report = LoadReport::of_body(&reply.body, 2)
            .map_err(|wrong| format!("{wrong}: {}", shown(&reply)))?;
        if report.cycles > 0 && (report.acquire.is_empty() || report.release.is_empty()) {
            let empty = "cycles were counted, and a histogram of their times is empty";
            return Err(format!("{empty}: {}", shown(&reply)).into());
        }
        Ok(report.to_string())
    }
}
