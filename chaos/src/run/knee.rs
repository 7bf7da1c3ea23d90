//! A rate that is given as a share of the knee: what the clients complete in a closed loop is measured before
//! the load, on its servers.

use std::sync::Arc;
use std::time::Duration;

use cluster_config::Deployment;
use tokio::sync::watch;

use super::recorded::record;
use super::{RunError, RunOptions};
use crate::planning::plan::Plan;
use crate::scenario::{Length, Range, share_of_knee};

const TRIAL: Duration = Duration::from_secs(2);

pub(super) struct RatedPlan {
    pub(super) plan: Plan,
    /// Where the number comes from; `None` where the plan had one.
    pub(super) note: Option<String>,
    /// Why there is no knee; the rate is then once a second.
    pub(super) failed: Option<String>,
}

/// Measures the knee where the plan's rate is a share of it: the same clients with the same load, but in a
/// closed loop, on locks of their own and without a fault.
pub(super) async fn settled(
    plan: &Plan,
    options: &RunOptions,
    deployment: &Arc<Deployment>,
    cancel: &mut watch::Receiver<bool>,
) -> Result<RatedPlan, RunError> {
    let mut settled = RatedPlan { plan: plan.clone(), note: None, failed: None };
    let rate = plan.load.does.rate.as_deref().unwrap_or_default();
    let Some(share) = share_of_knee(rate) else { return Ok(settled) };
    let mut trial = plan.clone();
    trial.faults.clear();
    trial.load.does.rate = None;
    trial.load.does.enough = None;
    trial.load.does.think = Range::constant(Duration::ZERO);
    trial.load.does.duration = Length(TRIAL);
    for lock in &mut trial.load.locks {
        lock.push_str(":knee");
    }
    let mut quiet = options.clone();
    quiet.dir = options.dir.join("knee");
    std::fs::create_dir_all(&quiet.dir).map_err(|error| RunError::io("make", &quiet.dir, &error))?;
    let tried = record(&trial, &quiet, deployment, None, cancel).await?;
    let knee_per_s = tried.grants as f64 / tried.load.as_secs_f64().max(1e-3);
    let rate_per_s = (share * knee_per_s).max(1.0);
    settled.plan.load.does.rate = Some(format!("{rate_per_s:.1}/s"));
    if tried.grants == 0 {
        settled.failed = Some("nothing was granted in the closed loop before the load".to_owned());
    } else {
        settled.note = Some(format!(
            "{rate}: {rate_per_s:.1}/s of {knee_per_s:.1}/s, which the same clients completed in a closed loop of {TRIAL:?} before"
        ));
    }
    Ok(settled)
}
