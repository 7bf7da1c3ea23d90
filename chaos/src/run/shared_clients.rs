//! One scenario whose clients several harnesses run: who does which fault, what each leaves behind, and the
//! judgement of the whole.
//!
//! 1. A part runs the clients whose number, from 0, is its own modulo the number of parts, and the faults on
//!    them and on their links. All other faults are the first part's.
//! 2. The parts meet at a reference that no fault touches, before the first call and after the last heal, and
//!    ask it for the time all along.
//! 3. A part records and judges nothing: what others hold is not in its history. The whole is judged on the
//!    reference's clock.
//! 4. The clients of a part that was killed died with its last line. Where nothing is left of one, what it
//!    held is unknown, and nobody can say of the others that a free lock was refused to them.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench::parts::clock::Reference;
use bench::parts::{Barrier, GeneratorShare};
use bench::subject::Subject;
use bench::workload::Rhythm;
use cluster_config::Party;
use results::history::{Entry, Event, Line};
use results::history_file;
use results::history_parts::Parts;
use results::run::Run;
use results::secrets::hide_in;
use results::store::HISTORY_FILE;
use tokio::sync::watch;

use super::recorded::Recorded;
use super::run_judgement::judged;
use super::{RunError, RunOptions, ScenarioRun, carried_out};
use crate::batch::PlannedRun;
use crate::faults::{Target, find};
use crate::planning::kept_plan::PLAN_FILE;
use crate::planning::plan::Plan;
use crate::run::client_sizes;
use crate::run::tracker::Tracker;
use crate::scenario::{FaultParty, FaultSite, FaultTrigger};

const PART_FILE: &str = "part.json";
/// How often the reference is asked for the time.
const EVERY: Duration = Duration::from_millis(100);

/// A part, and where it meets the others.
#[derive(Clone)]
pub struct PartBarrier {
    /// Which of the clients run here.
    pub share: GeneratorShare,
    /// Where the parts begin and end together.
    pub barrier: Arc<Barrier>,
    /// The server beside whose clock all are set.
    pub reference: Arc<Reference>,
}

/// Why the clients of a plan cannot be shared by so many parts.
pub fn not_shareable(plan: &Plan, of: u32) -> Option<String> {
    let does = &plan.load.does;
    let few = plan.load.clients.len() < of as usize;
    let waits = matches!(does.workload().rhythm, Rhythm::Chain | Rhythm::Herd);
    let holder = |on: &FaultSite| matches!(on, FaultSite::Parties(who) if who.contains(&FaultParty::Holder));
    let mut faults = plan.faults.iter();
    let sees_all = faults.any(|fault| matches!(fault.when, FaultTrigger::OnMessage(_)) || holder(&fault.on));
    let measured = client_sizes::are_expected(plan);
    let found = [
        (few, "there are fewer clients than parts"),
        (does.rate.is_some(), "an open loop (`rate`) is one part's"),
        (does.enough.is_some(), "`enough` counts all grants"),
        (waits, "tasks that wait for each other are in one process"),
        (sees_all, "a fault on a message or on the holder needs one part that sees all clients"),
        (measured, "what clients take is measured where all of them are"),
    ];
    let (_, why) = found.into_iter().find(|(wrong, _)| *wrong)?;
    Some(format!("{}: {why}", plan.name))
}

/// Whether a fault of a plan may touch the servers themselves, so that parts cannot meet there. `engine`:
/// links are harmed beyond our proxies.
pub fn harms_servers(plan: &Plan, engine: bool) -> bool {
    let on_link = |fault: &str| find(fault).is_some_and(|kind| kind.hits.link());
    let mut faults = plan.faults.iter();
    faults.any(|fault| match &fault.on {
        FaultSite::Parties(who) => !who.iter().all(FaultParty::is_client),
        FaultSite::Link { .. } | FaultSite::Groups(_) => engine || !on_link(&fault.fault),
    })
}

/// Whether a part may have to do a fault: before it is known whom it hits.
pub(crate) fn has_fault(share: GeneratorShare, on: &FaultSite) -> bool {
    let here = |who: &FaultParty| match who {
        FaultParty::Client(number) => share.has(number - 1),
        who => who.is_client() || share.index == 0,
    };
    on.everybody().any(here)
}

/// Whether it is this part's to harm.
pub(crate) fn has_target(share: GeneratorShare, target: &Target) -> bool {
    match target {
        Target::Client(number)
        | Target::Link(Party::Client(number), _)
        | Target::Link(_, Party::Client(number)) => share.has(number - 1),
        Target::Node(_) | Target::Link(..) => share.index == 0,
    }
}

/// Asks the reference until `stop`; without an answer the clock is known the less for a while.
pub(super) async fn watch_clock(
    reference: Arc<Reference>,
    tracker: Arc<Tracker>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        if let Ok(asked) = reference.ask(std::time::Instant::now).await {
            tracker.history.clock(asked);
        }
        if tokio::time::timeout(EVERY, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

/// Runs the share of a plan that the options name, and records it: whether it was cancelled, and why its
/// history may be incomplete.
pub async fn record_part(plan: &Plan, options: &RunOptions) -> Result<(bool, Vec<String>), RunError> {
    let Some((_, recorded)) = carried_out(plan, options).await? else { return Ok((true, Vec::new())) };
    let path = options.dir.join(PART_FILE);
    let mut document = serde_json::to_value(&recorded).expect("plain data");
    hide_in(&mut document);
    fs::write(&path, document.to_string()).map_err(|error| RunError::io("write", &path, &error))?;
    Ok((recorded.partial, recorded.incomplete))
}

/// Judges all parts as one run, and writes its history into `dir`. `left`: where what each left lies.
fn judge_whole(
    plan: &Plan,
    of: u32,
    left: &[(u32, PathBuf)],
    subject: &dyn Subject,
    dir: &Path,
) -> Result<ScenarioRun, RunError> {
    let mut whole = Recorded { shared: true, ..Recorded::default() };
    let (mut files, mut ends) = (Vec::new(), Vec::new());
    for share in (0..of).map(|index| GeneratorShare { index, of }) {
        let words = format!("part {}", share.index);
        let own = left.iter().find(|(index, _)| *index == share.index);
        let history = own.and_then(|(_, own)| history_file::of_dir(own));
        let end = own.and_then(|(_, own)| results::limits::read(&own.join(PART_FILE)).ok());
        let end = end.and_then(|end| serde_json::from_slice::<Recorded>(&end).ok());
        let history = match (history, &end) {
            (Some(history), None) => {
                let to = dir.join(format!("part-{}.jsonl", share.index));
                with_deaths(plan, share, &history, &to)?
            }
            (history, _) => history,
        };
        match &history {
            Some(history) => files.push(history.clone()),
            None => whole.unheard.push(words.clone()),
        }
        match (history, end) {
            (Some(_), Some(end)) => ends.push((words, files.len() - 1, end)),
            _ => {
                whole.incomplete.push(format!("{words} did not end: what it recorded until then"));
                whole.partial = true;
            }
        }
    }
    let parts = Parts::open(&files, None).map_err(|error| RunError::Input(error.to_string()))?;
    let path = dir.join(HISTORY_FILE);
    let (mut file, mut failed) = (BufWriter::new(create(&path)?), None);
    let torn = parts
        .read(|line| {
            failed = failed.take().or(writeln!(file, "{}", line.to_json()).err());
        })
        .map_err(|error| RunError::Input(error.to_string()))?;
    if let Some(error) = failed.or(file.flush().err()) {
        return Err(RunError::io("write", &path, &error));
    }
    whole.incomplete.extend(torn);
    for (words, part, end) in ends {
        let said = |what: Vec<String>| {
            let of_part = |what| format!("{words}: {what}");
            what.into_iter().map(of_part).collect::<Vec<String>>()
        };
        let moment = |t_ns: u64| parts.time(part, t_ns);
        whole.faults.extend(end.faults.into_iter().map(|mut fault| {
            fault.injected_ns = moment(fault.injected_ns);
            fault.done_ns = fault.done_ns.map(moment);
            fault.healed_ns = fault.healed_ns.map(moment);
            fault
        }));
        whole.lags.extend(end.lags.into_iter().map(|(at_ns, lag_s)| (moment(at_ns), lag_s)));
        whole.load = whole.load.max(end.load);
        whole.grants += end.grants;
        whole.given_up += end.given_up;
        whole.partial |= end.partial;
        whole.server = end.server;
        whole.notes.extend(said(end.notes));
        whole.unanswered.extend(said(end.unanswered));
        whole.incomplete.extend(said(end.incomplete));
    }
    whole.faults.sort_by_key(|fault| fault.injected_ns);
    judged(plan, dir, subject, history_file::PLAIN_MAX_BYTES, whole)
}

/// Judges runs that are parts of one scenario as the whole that they make, whose history and plan are put
/// into `target`. `None`: they share no clients.
///
/// # Errors
/// Parts of different plans, or plans that cannot be read.
pub fn judge_parts(runs: &[Run], dirs: &[PathBuf], target: &Path) -> Result<Option<ScenarioRun>, RunError> {
    let (mut common, mut left, mut of) = (None, Vec::new(), 1);
    for (run, dir) in runs.iter().zip(dirs) {
        let path = dir.join(PLAN_FILE);
        let (Some(part), "chaos", true) = (&run.part, run.command.as_str(), path.is_file()) else { continue };
        let text = results::limits::read_text(path).map_err(RunError::Input)?;
        let plan = Plan::from_json(&text).map_err(|error| RunError::Input(error.to_string()))?;
        if common.replace(plan.clone()).is_some_and(|common| common != plan) {
            return Err(RunError::Input(format!("{} was made from another plan", run.run)));
        }
        left.push((part.index, dir.clone()));
        of = part.of;
    }
    let Some(plan) = common else { return Ok(None) };
    let path = target.join(PLAN_FILE);
    fs::write(&path, plan.to_json()).map_err(|error| RunError::io("write", &path, &error))?;
    let whole = PlannedRun::of_plan(plan)?;
    judge_whole(&whole.plan, of, &left, whole.subject.as_ref(), target).map(Some)
}

fn create(path: &Path) -> Result<File, RunError> {
    File::create(path).map_err(|error| RunError::io("write", path, &error))
}

/// What a killed part recorded, and then the death of its clients. `None`: nothing with a time.
fn with_deaths(
    plan: &Plan,
    share: GeneratorShare,
    history: &Path,
    to: &Path,
) -> Result<Option<PathBuf>, RunError> {
    let mut file = BufWriter::new(create(to)?);
    let (mut last_ns, mut has_clock, mut wrote) = (0, false, Ok(()));
    let mut write = |line: &Line| {
        if wrote.is_ok() {
            wrote = writeln!(file, "{}", line.to_json());
        }
    };
    let read = history_file::read_lines(history, |line| {
        last_ns = line.t_ns;
        has_clock |= matches!(line.entry, Entry::Event(Event::Clock { .. }));
        write(&line);
    });
    if read.is_err() || !has_clock {
        return Ok(None);
    }
    for (_, client) in (0..).zip(&plan.load.clients).filter(|(number, _)| share.has(*number)) {
        let client = client.name.clone();
        write(&Line { t_ns: last_ns, entry: Entry::Event(Event::Crash { client }) });
    }
    wrote.and_then(|()| file.flush()).map_err(|error| RunError::io("write", to, &error))?;
    Ok(Some(to.to_owned()))
}
