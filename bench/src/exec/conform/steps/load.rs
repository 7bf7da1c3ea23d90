//! The closed loop that a driver runs by itself.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LONG_MS, NotAsked, Trial, shown};

use crate::protocol::error_text;

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
        let figure = |field: &str| reply.body.get(field).and_then(Value::as_u64);
        let fields = ["cycles", "failed", "unknown", "elapsed_ns"];
        if let Some(missing) = fields.into_iter().find(|field| figure(field).is_none()) {
            return Err(Err(format!(
                "`{missing}` is missing, or no whole number: {}",
                shown(&reply)
            )));
        }
        let per_task = reply.body.get("per_task").and_then(Value::as_array);
        if per_task.is_none_or(|list| list.len() != 2) {
            return Err(Err(format!(
                "`per_task` is no list of one figure per task: {}",
                shown(&reply)
            )));
        }
        for field in ["acquire_hist", "release_hist"] {
            if reply
                .body
                .get(field)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                return Err(Err(format!("`{field}` is missing, or no string")));
            }
        }
        Ok(format!(
            "{} cycles in {:.1} ms",
            figure("cycles").unwrap_or(0),
            figure("elapsed_ns").unwrap_or(0) as f64 / 1e6
        ))
    }
}
