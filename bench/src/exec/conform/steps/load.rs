//! The closed loop that a driver runs by itself.

use std::time::Duration;

use serde_json::json;

use super::{LONG_MS, NotAsked, Trial, shown};

use crate::{inside::LoadReport, protocol::error_text};

impl Trial<'_> {
    pub(super) async fn load(&mut self) -> Result<String, Result<NotAsked, String>> {
        let tried = async {
            self.both().await?;
            let request = json!({
                "op": "load", "workload": "cycles", "kind": self.kind, "tasks": 2, "locks": 2, "warmup_ms": 50, "measure_ms": 300,
                "lease_ms": LONG_MS, "hold_us": 0, "think_us": 0,
            });
            let within = self.patience() + Duration::from_secs(5);
            self.a().ask(request, within).await
        };
        let reply = tried.await.map_err(Err)?;
        if reply.ending == "failed" {
            return Err(Ok(NotAsked(format!(
                "not offered: {}",
                error_text(&reply.body)
            ))));
        }
        let report = LoadReport::of_body(&reply.body, 2)
            .map_err(|wrong| Err(format!("{wrong}: {}", shown(&reply))))?;
        if report.cycles > 0 && (report.acquire.is_empty() || report.release.is_empty()) {
            let empty = "cycles were counted, and a histogram of their times is empty";
            return Err(Err(format!("{empty}: {}", shown(&reply))));
        }
        Ok(report.to_string())
    }
}
