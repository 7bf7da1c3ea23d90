//! The rates of a service as they were measured: by a run with failovers, by watching traffic, by asking
//! replicas how far they are behind.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::External;
use results::run::{ReplicaLag, Run};
use results::watch::WatchReport;
use tokio::sync::watch;

use crate::risk::failover_outages;
use crate::run::RunError;
use crate::servers::replica_lag::{ReplicaLagSampler, spread};
use crate::watch::{LiveWatch, WatchOptions, watch_live};

/// Inputs of a risk that the traffic of servers shows, and questions to them.
pub const MEASURED_AT_SERVERS: [&str; 5] = ["lag", "grants", "hold", "lease", "rtt"];

/// What was measured, and what no range can say.
#[derive(Debug, Default)]
pub struct MeasuredRates {
    /// The least and the greatest value of each input, by its name in [`crate::risk::RATE_FIELDS`].
    pub spans: BTreeMap<&'static str, (f64, f64)>,
    /// Leases are renewed.
    pub renewed: bool,
    /// Replicas of each master.
    pub replicas: Option<u32>,
    /// Why something is not among them.
    pub reasons: Vec<String>,
}

impl MeasuredRates {
    fn add(&mut self, name: &'static str, values: impl IntoIterator<Item = f64>) {
        let values = Vec::from_iter(values.into_iter().filter(|value| *value > 0.0));
        let end = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of);
        if let (Some(low), Some(high)) = (end(f64::min), end(f64::max)) {
            self.spans.insert(name, (low, high));
        }
    }

    /// What a run measured: how long failovers took until the first grant, how far replicas were behind; or
    /// what it watched.
    ///
    /// # Errors
    /// A run that measured none of it.
    pub fn add_run(&mut self, run: &Run) -> Result<(), String> {
        if let Some(watch) = &run.watch {
            self.add_watch(watch);
            return Ok(());
        }
        self.add("outage", failover_outages(run));
        let lags = run.scenarios.iter().filter_map(|one| one.lag_before_faults.as_ref());
        self.add_lags(lags, "that run measured no lag of a replica before its first fault");
        match self.spans.is_empty() {
            true => Err(format!(
                "{}: no master of a sentinel group or a cluster was killed in it, no lag of a replica was measured, and nothing was watched; \
                 try a run of `locklab quickstart`, or --outage and --lag",
                run.run
            )),
            false => Ok(()),
        }
    }

    /// What the traffic of servers shows. Holds are taken to be exponential, with the mean that their median
    /// says, and their 99th percentile: where these differ, or locks do, so does the input.
    fn add_watch(&mut self, watch: &WatchReport) {
        let grants = watch.grants() as f64;
        if grants == 0.0 || watch.seconds <= 0.0 {
            self.reasons.push("no lock was granted while it was watched".to_owned());
            return;
        }
        let doubt = 2.0 * grants.sqrt();
        let rates = [grants - doubt, grants, grants + doubt].map(|grants| grants / watch.seconds);
        self.add("grants", rates);
        // A lock that is hardly asked for says little of the service.
        let locks = watch.locks.iter().filter(|lock| lock.grants as f64 >= 0.05 * grants);
        let locks: Vec<_> = locks.collect();
        self.renewed = locks.iter().any(|lock| lock.renewals > 0);
        self.add("lease", locks.iter().filter_map(|lock| Some(lock.lease_ms? / 1e3)));
        let lease_s = self.spans.get("lease").map_or(f64::MAX, |lease| lease.0);
        let most_s = if self.renewed { f64::MAX } else { lease_s };
        let means = locks.iter().flat_map(|lock| {
            let of = |ms: Option<f64>, rest: f64| Some((ms? / 1e3 / -rest.ln()).min(most_s));
            [of(lock.hold_ms.p50, 0.5), of(lock.hold_ms.p99, 0.01)]
        });
        self.add("hold", means.flatten());
        let hold_s = self.spans.get("hold").map_or(0.0, |hold| hold.1);
        let between = locks.iter().map(|lock| lock.names as f64 / lock.grants.max(1) as f64);
        self.add("free-for", between.map(|names| names * watch.seconds - hold_s));
    }

    fn add_lags<'a>(&mut self, lags: impl IntoIterator<Item = &'a ReplicaLag>, why_none: &str) {
        let ends = lags.into_iter().flat_map(|lag| [lag.p50_ns, lag.p99_ns]);
        self.add("lag", ends.map(|ns| ns as f64 / 1e9));
        if !self.spans.contains_key("lag") {
            self.reasons.push(why_none.to_owned());
        }
    }

    /// Watches servers for so long, and asks their replicas how far behind they are. Says why it ended early.
    pub async fn add_servers(
        &mut self,
        found: External,
        length: Duration,
        cancel: watch::Receiver<bool>,
        note: &(dyn Fn(&str) + Sync),
    ) -> Result<Option<String>, RunError> {
        let live = LiveWatch { length, sample: None, max_cost: 0.2, cancel };
        let mut lag = ReplicaLagSampler::of_external(&found);
        let seen = tokio::select! {
            seen = watch_live(found, &live, WatchOptions::default(), note) => seen,
            never = lag.sample() => never,
        };
        let report = seen?.report;
        self.add_watch(&report);
        self.add("rtt", lag.rtt_s);
        self.replicas = u32::try_from(lag.replicas).ok().filter(|some| *some > 0);
        let lags_s = spread(lag.lags.iter().map(|(_, lag_s)| *lag_s));
        self.add_lags(&lags_s, "no replica was found there, whose lag could be measured");
        let ended_by = report.cost.map(|cost| cost.ended_by);
        Ok(ended_by.filter(|why| !why.is_empty()))
    }
}
