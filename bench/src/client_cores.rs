//! Which cores servers and clients of a benchmark have, and the processes that serve its subjects.

use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::driver::BenchPlan;
use crate::exec::ExecSubject;
use crate::subject::{Subject, SubjectError};
use crate::subjects::find;

/// With fewer cores clients and servers cannot both have two.
const FEWEST_CORES: u32 = 4;

/// The cores of servers and of clients: the lower and the upper half; `None` where there are too few.
fn split(cores: u32) -> Option<(Vec<u32>, Vec<u32>)> {
    (cores >= FEWEST_CORES).then(|| ((0..cores / 2).collect(), (cores / 2..cores).collect()))
}

fn list(cores: &[u32]) -> String {
    let words: Vec<String> = cores.iter().map(u32::to_string).collect();
    words.join(",")
}

/// Keeps the servers on their half of the cores and says which half is the clients'. Nothing is done, and
/// nothing said, where there is one client, too few cores, or no `taskset`. A server without a process number
/// here cannot be kept anywhere.
pub fn pin_servers(servers: impl IntoIterator<Item = Option<u32>>, clients: u32) -> Vec<u32> {
    let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let Some((own, rest)) = split(cores).filter(|_| clients > 1) else { return Vec::new() };
    let pin = |pid: u32| {
        let mut taskset = Command::new("taskset");
        taskset.args(["-a", "-cp", &list(&own), &pid.to_string()]);
        taskset.stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    let is_pinned = |pid: Option<u32>| pid.is_some_and(|pid| pin(pid).is_ok_and(|status| status.success()));
    if servers.into_iter().all(is_pinned) { rest } else { Vec::new() }
}

/// The subjects of a plan; with several clients each of ours has a process per client, `program driver NAME`.
///
/// # Errors
/// A lock that is not known, or is not built here.
pub fn subjects(plan: &BenchPlan, program: &str) -> Result<Vec<Arc<dyn Subject>>, SubjectError> {
    let started = |name: &String| {
        let subject = find(name)?;
        if let Some(why) = subject.missing() {
            return Err(SubjectError::Unreachable(why.to_owned()));
        }
        if !plan.client_processes || subject.program().is_some() {
            return Ok(subject);
        }
        let mut command = vec![program.to_owned(), "driver".to_owned(), name.clone()];
        if !plan.client_cores.is_empty() {
            command.splice(0..0, ["taskset", "-c", &list(&plan.client_cores)].map(str::to_owned));
        }
        Ok(Arc::new(ExecSubject::for_subject(subject.as_ref(), command)) as Arc<dyn Subject>)
    };
    plan.subjects.iter().map(started).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_clients_share_no_core() {
        assert_eq!(split(2), None);
        for cores in 4..20 {
            let (servers, clients) = split(cores).unwrap();
            assert!(servers.iter().all(|core| !clients.contains(core)));
            assert_eq!(servers.len() + clients.len(), cores as usize);
            assert!(servers.len() >= 2 && clients.len() >= 2);
        }
        assert_eq!(list(&[2, 3]), "2,3");
    }
}
