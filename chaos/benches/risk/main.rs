//! Whether failovers grant locks twice as often as [`chaos::risk`] says: counted on real servers.
//!
//! `cargo bench -p chaos --bench risk` takes about 20 minutes on two cores and prints a table in Markdown.
//! Each failover has servers of its own: callers come to each of many locks as a Poisson process and hold it
//! for an exponential time by the library; the replication link is late by a time that is drawn per failover,
//! and closed when the master is killed; sentinels notice after `down-after-milliseconds`. The prediction
//! takes what was measured: grants a second before the crash, and the outage from the crash to the first
//! grant after it. `simulation/benches/risk.rs` makes the same failovers in simulated time.
//!
//! What the environment may say: `RISK_FAILOVERS` (of each cell, an even number, 8), `RISK_JOBS` (failovers
//! at a time, 3).

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod service;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::subject::{ConnectTo, LockClient, counted_durability};
use bench::subjects;
use cluster_config::{
    Data, Deployment, LinkFault, Links, Party, Process, Provisioner as _, Role, Topology, UpOptions,
};
use service::{Configuration, FailingServers, Failover, Failure, Setting, Table, cells, fail_over};

struct RealServers {
    servers: Deployment,
    topology: Topology,
}

impl RealServers {
    /// A fault on what replicas hear of the master, until the servers end.
    fn harm(&self, replicas: &[String], fault: &LinkFault) -> Result<(), Failure> {
        let link = |to: &String| (Party::Node("n1".into()), Party::Node(to.clone()));
        let links: Vec<_> = replicas.iter().map(link).collect();
        // The guards would heal it.
        std::mem::forget(self.servers.apply(&links, fault)?);
        Ok(())
    }
}

impl FailingServers for RealServers {
    const ATTEMPTS_PER_S: f64 = 450.0;
    const GRANTS_DOUBT: f64 = 2.0;
    const DOUBT_S: f64 = 0.01;
    const KILL_LASTS_AT_MOST: Duration = Duration::from_millis(50);
    const PATIENCE_AFTER: Duration = Duration::from_millis(20);

    async fn connect(&self, to: &ConnectTo) -> Result<Arc<dyn LockClient>, Failure> {
        let target = self.servers.url();
        let durability = counted_durability(&to.durability, &target, self.topology.replicas);
        let to = ConnectTo::new(&target, &to.client, to.seed, &durability);
        let connected = subjects::find("lock-core:plain")?.connect(&to).await?;
        Ok(connected.client.into())
    }

    async fn be_late(&self, latency: Duration, barred: Option<&str>) -> Result<(), Failure> {
        if let Some(barred) = barred {
            let bar = ["CONFIG", "SET", "replica-priority", "0"];
            self.servers.command(barred, &bar).await?;
        }
        let jitter = Duration::ZERO;
        self.harm(&["n2".to_owned()], &LinkFault::Delay { latency, jitter })
    }

    async fn crash(&self, _barred: Option<&str>) -> Result<(), Failure> {
        self.harm(&self.topology.names(Role::Replica), &LinkFault::Cut)?;
        Ok(self.servers.kill("n1").await?)
    }

    async fn start_again(&self) -> Result<(), Failure> {
        Ok(self.servers.start("n1", Data::Keep).await?)
    }
}

async fn on_real_servers(
    of: Configuration,
    setting: &'static Setting,
    seed: u64,
) -> Result<Failover, Failure> {
    let (dir, topology) = (tempfile::tempdir()?, of.topology(setting));
    let options = UpOptions { links: Links::Proxied, in_memory: true, ..UpOptions::new(dir.path()) };
    let servers = Process.up(&topology, &options).await?;
    let real = RealServers { servers, topology };
    let outcome = fail_over(of, setting, seed, &real).await;
    real.servers.down().await?;
    outcome
}

/// All failovers, so many at a time; one that could not be made is said and left out.
async fn fail_over_all(failovers: u64, jobs: u64) -> Vec<Vec<Failover>> {
    let found: Vec<Mutex<Vec<Failover>>> = cells().map(|_| Mutex::default()).collect();
    let work = (0..failovers).flat_map(|number| cells().enumerate().map(move |of| (number, of)));
    let work = Mutex::new(work);
    let worker = async || {
        while let Some((number, (cell, (of, setting)))) = { work.lock().expect("no panic").next() } {
            let outcome = on_real_servers(of, setting, (cell as u64) << 16 | number).await;
            eprintln!("{} | {} | {number}: {outcome:?}", of.name(), setting.name);
            if let Ok(outcome) = outcome {
                found[cell].lock().expect("no panic").push(outcome);
            }
        }
    };
    futures_util::future::join_all((0..jobs).map(|_| worker())).await;
    let found = found.into_iter();
    found.map(|one| one.into_inner().expect("no panic")).collect()
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let (failovers, jobs) = (service::failovers(8)?, service::number("RISK_JOBS", 3)?);
    let found = fail_over_all(failovers, jobs).await;
    let mut table = Table::default();
    for ((of, setting), found) in cells().zip(&found) {
        table.add(of, setting, found);
    }
    Ok(table.finish())
}
