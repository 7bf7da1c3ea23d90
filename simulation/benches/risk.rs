//! Whether failovers grant locks twice as often as [`chaos::risk`] says: the library itself in simulated
//! time, 100,000 failovers.
//!
//! `cargo bench -p simulation --bench risk` makes the failovers of `chaos/benches/risk`, with a fifteenth of
//! its callers, and prints the same table. What a replica that is not to be promoted is told there, it is
//! killed for here.
//!
//! What the environment may say: `RISK_FAILOVERS` (of each cell, an even number, 4168), `RISK_JOBS`
//! (failovers at a time, 2).

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../../chaos/benches/risk/service.rs"]
mod service;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bench::subject::{ConnectTo, LockClient};
use service::{Configuration, FailingServers, Failover, Failure, Setting, Table, cells, fail_over};
use simulation::{servers::SimulatedServers, swarm};

struct InSimulatedTime(SimulatedServers);

impl FailingServers for InSimulatedTime {
    const ATTEMPTS_PER_S: f64 = 30.0;
    const GRANTS_DOUBT: f64 = 0.0;
    const DOUBT_S: f64 = 0.001;
    const KILL_LASTS_AT_MOST: Duration = Duration::ZERO;
    const PATIENCE_AFTER: Duration = Duration::from_millis(3);

    async fn connect(&self, to: &ConnectTo) -> Result<Arc<dyn LockClient>, Failure> {
        Ok(self.0.connect("lock-core:plain", to).await?.client.into())
    }

    async fn be_late(&self, lag: Duration, _barred: Option<&str>) -> Result<(), Failure> {
        self.0.be_late("n1", "n2", lag);
        Ok(())
    }

    async fn crash(&self, barred: Option<&str>) -> Result<(), Failure> {
        (["n2", "n3"].iter()).for_each(|replica| self.0.cut("n1", replica));
        barred.into_iter().chain(["n1"]).for_each(|node| self.0.kill(node));
        Ok(())
    }

    async fn start_again(&self) -> Result<(), Failure> {
        self.0.start("n1");
        Ok(())
    }
}

fn simulated(of: Configuration, setting: &'static Setting, seed: u64) -> Result<Failover, String> {
    let work = async |servers| fail_over(of, setting, seed, &InSimulatedTime(servers)).await;
    let outcome = simulation::servers::run(&of.topology(setting), seed, work);
    outcome.map_err(|failure| failure.to_string())
}

fn main() -> Result<ExitCode, Failure> {
    let (failovers, jobs) = (service::failovers(4_168)?, service::number("RISK_JOBS", 2)?);
    let mut table = Table::default();
    for (cell, (of, setting)) in cells().enumerate() {
        let seed = (cell as u64) << 16;
        let work = |seed| serde_json::to_vec(&simulated(of, setting, seed)).expect("plain JSON");
        let mut found: Vec<Failover> = Vec::new();
        swarm::run_apart(seed..seed + failovers, jobs as usize, work, |seed, said| {
            let said = said.map(|said| serde_json::from_slice(&said).expect("plain JSON"));
            match said.and_then(|outcome| outcome) {
                Ok(outcome) => found.push(outcome),
                Err(why) => eprintln!("{} | {} | {seed}: {why}", of.name(), setting.name),
            }
        })?;
        table.add(of, setting, &found);
    }
    Ok(table.finish())
}
