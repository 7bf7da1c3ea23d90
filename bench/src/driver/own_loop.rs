//! Rounds that drivers run by themselves, beyond their pipes. Each driver is one process through the run and
//! is warmed up once: a Java program that began anew in each round would never be fast.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use super::arm::{Arm, RoundEnd, WholeRound, connect_client};
use super::{BenchPlan, Group, inside};
use crate::driver_loop::LoadRequest;
use crate::live;
use crate::round::{Machine, ResourceUse, Round};
use crate::servers::server_stats::ServerWatch;
use crate::subject::{LockClient, SubjectError};

/// What a round lets pass before its window.
const LEAD_IN: Duration = Duration::from_millis(200);

/// The drivers of a run, in the order of a group's arms.
pub(super) struct OwnLoops(Vec<Box<dyn LockClient>>);

impl OwnLoops {
    /// Connects all, and lets each go through every workload, for the time of the warm-up altogether.
    pub(super) async fn start(
        plan: &BenchPlan,
        groups: &mut [Group],
        now: impl Fn(String),
    ) -> Result<Self, SubjectError> {
        let share = plan.warmup / u32::try_from(groups.len()).unwrap_or(u32::MAX);
        // All at once, so that those who never answer have one time together.
        let first = groups[0].arms.iter().chain(&groups[0].again);
        let connecting = first.map(|arm| connect_client(plan, arm, 0, 1));
        let connected = try_join_all(connecting.collect::<Vec<_>>()).await?;
        let mut drivers = Vec::new();
        for (at, connected) in connected.into_iter().enumerate() {
            let (subject, client) = (groups[0].arm(at).subject.clone(), connected.client);
            for group in &mut *groups {
                let arm = group.arm(at);
                now(format!("warm-up of {}", arm.title()));
                let asked = LoadRequest {
                    warmup: Duration::ZERO,
                    measure: share.max(Duration::from_millis(1)),
                    prefix: format!("{}warm-up:{at}:", plan.key_prefix),
                    ..inside(plan, arm)
                };
                if client.load(&asked).await.is_none() {
                    bail!("{} has no loop of its own (load)", subject.name());
                }
            }
            drivers.push(client);
        }
        Ok(OwnLoops(drivers))
    }

    pub(super) async fn round(
        &self,
        plan: &BenchPlan,
        arm: &Arm,
        at: usize,
        round: usize,
        servers: Option<&ServerWatch>,
    ) -> RoundEnd {
        let (workload, tasks) = (arm.workload.name, arm.tasks);
        let asked = LoadRequest {
            warmup: LEAD_IN,
            prefix: format!("{}{workload}:{tasks}:{at}:{round}:", plan.key_prefix),
            ..inside(plan, arm)
        };
        let counts = async || match servers {
            Some(servers) => servers.counts().await,
            None => None,
        };
        // A round lasts as long for all; what the servers count before and after it is not of its window.
        let watched = async {
            tokio::time::sleep(asked.warmup).await;
            let (machine, before, began) = (Machine::read(), counts().await, Instant::now());
            tokio::time::sleep(asked.measure).await;
            let (after, seconds) = (counts().await, began.elapsed().as_secs_f64());
            (machine.until(&Machine::read(), seconds), before, after, seconds)
        };
        let (said, (disturbance, before, after, seconds)) = tokio::join!(self.0[at].load(&asked), watched);
        let report = match said {
            Some(Ok(report)) => report,
            Some(Err(why)) => return RoundEnd::CutShort(why),
            None => return RoundEnd::CutShort("its own loop was refused".to_owned()),
        };
        live::round_over(&report, plan.duration);
        let spent = ResourceUse {
            cycles: report.cycles,
            cycles_at_servers: (report.cycles_per_s() * seconds) as u64,
            client_cpu_us: report.client_cpu_ns.map(|ns| ns as f64 / 1e3),
            ..ResourceUse::of_servers(before.as_ref(), after.as_ref())
        };
        RoundEnd::Whole(Box::new(WholeRound {
            round: Round::reported(&report, spent, disturbance),
            overlap: report.overlap,
        }))
    }

    pub(super) async fn close(self) {
        for client in self.0 {
            client.close().await;
        }
    }
}
