//! What a client costs: the time until its first lock, its connections and its memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use results::measures::ClientCost;

use crate::driver::BenchPlan;
use crate::round::machine::client_use;
use crate::servers::server_stats::ServerWatch;
use crate::stats::median;
use crate::subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient, SubjectError, counted_durability};
use crate::subjects;

/// So many clients are connected, one after the other.
const CLIENTS: usize = 5;
/// Names for each data node: by chance, hardly one is without any.
const NAMES: usize = 10;
/// Longer than a release may take to come.
const LEASE: Duration = Duration::from_secs(30);

/// Connects clients of a subject at the plan's target.
pub async fn client_cost(plan: &BenchPlan, subject: &str) -> Result<ClientCost, SubjectError> {
    let subject = subjects::find(subject)?;
    let watch = ServerWatch::find(&plan.target).await.unwrap_or_default();
    let connections = async || Some(watch.counts().await?.connections? as f64);
    // The first question connects.
    let _ = connections().await;
    let before = client_use(&[]).1;
    let (mut clients, mut first, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut first_lock_ns = Vec::new();
    for number in 0..CLIENTS {
        let durability = counted_durability(&plan.durability, &plan.target, plan.replicas);
        let seed = plan.seed.wrapping_add(number as u64);
        let to = ConnectTo::new(&plan.target, &format!("cost-{number}"), seed, &durability);
        let open = connections().await;
        let began = Instant::now();
        let client = subject.connect(&to).await?.client;
        for name in 0..=NAMES * watch.nodes() {
            let grant = granted(&*client, plan, &format!("{}cost-{number}-{name}", plan.key_prefix)).await?;
            if first_lock_ns.len() == number {
                first_lock_ns.push(began.elapsed().as_nanos() as f64);
                first.extend(since(open, connections().await));
            }
            let _ = client.release(&grant).await;
        }
        all.extend(since(open, connections().await));
        clients.push(Arc::new(client));
    }
    // Drivers have processes of their own, which were not there before.
    let before = clients[0].processes().map_or(before, |_| Some(0));
    let grown = client_use(&clients).1.zip(before).map(|(now, before)| now.saturating_sub(before) as f64);
    Ok(ClientCost {
        first_lock_ns: median(&first_lock_ns) as u64,
        first_connections: (!first.is_empty()).then(|| median(&first)),
        connections: (!all.is_empty()).then(|| median(&all)),
        memory_bytes: grown.filter(|bytes| *bytes > 0.0).map(|bytes| bytes / CLIENTS as f64),
    })
}

async fn granted(client: &dyn LockClient, plan: &BenchPlan, lock: &str) -> Result<String, SubjectError> {
    let request = AcquireRequest {
        lock,
        kind: &plan.kind,
        owner: "cost",
        wait: Some(plan.wait),
        lease: Some(LEASE),
        ..AcquireRequest::default()
    };
    match client.acquire(request).await {
        AcquireEnd::Ok { grant, .. } => Ok(grant),
        other => Err(SubjectError::unreachable(format!("no lock for a new client: {other:?}"))),
    }
}

fn since(before: Option<f64>, now: Option<f64>) -> Option<f64> {
    Some(now? - before?)
}
