//! Decides which scenarios a lock can be tried on, and what a result says of it: kept, broken, inherent or
//! unknown.
//!
//! Pure but for `probe`, `driver_trial` and `runs`: a scenario, what a lock says of itself and results go in.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | which scenarios fit a lock, and what a result says of it |
//! | `drawn_faults` | faults on messages, at each point of a lock's protocol |
//! | [`probe`], [`driver_trial`] | what a lock has, before anything is asked of it; whether its driver keeps to the protocol |
//! | [`runs`] | each lock on each scenario that fits, a sound lock beside each suspicion |

mod drawn_faults;
pub mod driver_trial;
pub mod probe;
pub mod runs;

use std::collections::BTreeSet;
use std::time::Duration;

use bench::abilities::Abilities;
use cluster_config::TopologyKind;
use itertools::Itertools;
use results::audit::{AuditOutcome, InherentCause, JudgedRun};
use results::run::{FaultSpan, RECOVERY, ScenarioResult};
use results::units;
use results::verdict::{State, Verdict};

pub use self::drawn_faults::drawn_scenario;
use crate::checkers::record::kinds::is_alone;
use crate::planning::plan;
use crate::scenario::{FaultTrigger, Length, Load, Scenario};

/// Kinds that one holder has alone, and that promise no more.
const ANY_EXCLUSIVE: [&str; 4] = ["plain", "reentrant", "non-reentrant", "spin"];

/// The lease that is renewed where a scenario wishes for none.
const WATCHDOG: Length = Length(Duration::from_secs(30));

/// No load is longer so that a hold outlives its lease.
const SCALED_MAX: Duration = Duration::from_secs(90);

/// A client with less of an even share did not go on where the others did.
const STARVED: f64 = 0.3;

/// How a reason begins that says so of a fault.
const NO_EFFECT: &str = "no evidence that the fault took effect";

/// The scenario with `subject` in it, of a kind that it has and that the scenario is about.
///
/// # Errors
/// What the lock lacks, in a sentence: the scenario is not applicable to it.
pub fn fitted(scenario: &Scenario, subject: &str, has: &Abilities) -> Result<Scenario, String> {
    let name = if has.library.is_empty() { subject } else { &has.library };
    place(scenario.topology.kind, name, has)?;
    let kind = kind(scenario, name, has)?;
    let lock = &scenario.lock;
    if lock.lease.is_none() && !has.renews {
        return Err(format!("{name} renews no lease: its hello has no `watchdog_ms`"));
    }
    if has.leaseless.contains(&kind) && scenario.load.extend.is_some() {
        return Err(format!("{name}: permits of its kind `{kind}` have no lease"));
    }
    let waits = !matches!(lock.durability.as_str(), "" | "none");
    let needs = scenario.audit.needs.iter().map(String::as_str);
    let says = has.features.is_some();
    let extends = scenario.load.extend.is_some() && says;
    // Of other kinds the name says whether their owner may enter again, and those of ours do.
    let by_feature = matches!(kind.as_str(), "plain" | "fenced");
    let enters = scenario.load.reenter > 0.0 && by_feature && says;
    let cancels = scenario.load.cancel > 0.0 && says;
    let moves = scenario.load.owner_moves > 0.0 && says;
    let blocks = scenario.faults.iter().any(|fault| fault.fault == "block");
    let needs = needs
        .chain(cancels.then_some("cancel"))
        .chain(moves.then_some("owner_moves"))
        .chain((blocks && says).then_some("block"))
        .chain(waits.then_some("durability"))
        .chain(extends.then_some("extend"))
        .chain(enters.then_some("reentrant"));
    for feature in needs {
        if !has.has(feature) {
            return Err(format!("{name} {}", lacking(feature, &lock.durability)));
        }
    }
    scenario.load.kinds(&kind, &has.kinds).map_err(|why| {
        let workload = scenario.load.workload().name;
        format!("{name} cannot run the workload `{workload}`: {why}")
    })?;
    let mut fitting = scenario.clone();
    fitting.lock.subject = subject.to_owned();
    fitting.lock.kind = kind;
    if let (None, Some(renewed)) = (lock.lease, has.watchdog) {
        scale(&mut fitting, renewed);
    }
    // Of renewals that nobody reports nothing is known: the library promised to keep the lock or say so.
    if lock.lease.is_none()
        && !has.has("renewals")
        && let Some(belief) = scenario.expect.get("belief")
        && let Some(contract) = fitting.expect.get_mut("contract")
    {
        contract.clone_from(belief);
    }
    Ok(fitting)
}

/// Lengthens a scenario so that its holds outlive a lease that follows no wish; too long a one is left as it
/// is, and shows nothing of renewal.
fn scale(scenario: &mut Scenario, renewed: Duration) {
    let wished = scenario.lock.watchdog.unwrap_or(WATCHDOG);
    let ratio = renewed.as_secs_f64() / wished.0.as_secs_f64();
    let Load { duration, hold, .. } = &mut scenario.load;
    if ratio <= 1.0 || duration.0.mul_f64(ratio) > SCALED_MAX {
        return;
    }
    let scaled = |length: Length| Length(length.0.mul_f64(ratio));
    let times = |ns: &mut u64| *ns = (*ns as f64 * ratio) as u64;
    *duration = scaled(*duration);
    times(&mut hold.min_ns);
    times(&mut hold.max_ns);
    scenario.lock.wait = scaled(scenario.lock.wait);
    scenario.lock.watchdog = Some(Length(renewed));
    for fault in &mut scenario.faults {
        if let FaultTrigger::AtNs(at_ns) = &mut fault.when {
            times(at_ns);
        }
        fault.lasts_ns.iter_mut().for_each(times);
    }
}

fn lacking(feature: &str, durability: &str) -> String {
    match feature {
        "durability" => format!(
            "is not said to let a grant wait for replicas, as durability {durability} asks: it does not list the feature `durability`"
        ),
        _ => format!("lacks the feature `{feature}`"),
    }
}

/// Whether it works on servers of this shape.
///
/// # Errors
/// That it does not, in a sentence.
pub fn place(topology: TopologyKind, name: &str, has: &Abilities) -> Result<(), String> {
    let shape = topology.name();
    if let Some(listed) = &has.topologies {
        return match listed.iter().any(|listed| listed == shape) {
            true => Ok(()),
            false => Err(format!("{name} does not work on `{shape}`; its hello lists {}", listed.join(", "))),
        };
    }
    let subject = bench::subjects::find(name).ok();
    let own = subject.as_ref().and_then(|subject| subject.system());
    match (topology.system_name(), own) {
        // A driver of the user's works on any system.
        (Some(_), None) if name.starts_with("exec:") => {}
        (Some(system), own) if own != Some(system) => {
            return Err(format!("{name} is no lock of {system}, whose servers `{shape}` has"));
        }
        (None, Some(own)) => {
            return Err(format!("{name} is a lock of {own}, and `{shape}` is Redis"));
        }
        _ => {}
    }
    let quorum = |kind: &String| kind == "redlock";
    let masters = topology == TopologyKind::Masters;
    if masters && !has.kinds.is_empty() && !has.has("redlock") && !has.kinds.iter().any(quorum) {
        return Err(format!(
            "{name} is a lock on one deployment, and `{shape}` are several independent ones: they take lock-core:redlock or a lock like it"
        ));
    }
    if !masters && !has.kinds.is_empty() && has.kinds.iter().all(quorum) {
        return Err(format!(
            "{name} takes several independent masters (kind = \"masters\"), and `{shape}` is one deployment"
        ));
    }
    Ok(())
}

/// The kind to try: the lock's first that the scenario is about.
fn kind(scenario: &Scenario, name: &str, has: &Abilities) -> Result<String, String> {
    let masters = scenario.topology.kind == TopologyKind::Masters;
    let wanted = plan::kind(scenario);
    let lists = has.kinds.join(", ");
    let mixed = scenario.load.mix.keys();
    let downgrades = scenario.load.downgrade.map(|_| "read".to_owned());
    if let Some(lacking) =
        mixed.chain(&downgrades).find(|kind| !has.kinds.is_empty() && !has.kinds.contains(kind))
    {
        return Err(format!("{name} has no kind `{lacking}`; it has {lists}"));
    }
    if has.kinds.contains(&scenario.lock.kind) {
        return Ok(wanted);
    }
    let any = wanted.is_empty() || ANY_EXCLUSIVE.contains(&wanted.as_str()) || masters;
    // A driver that says its kinds only when it is connected: its first, but for what the scenario is about.
    if has.kinds.is_empty() {
        return Ok(if any { scenario.lock.kind.clone() } else { wanted });
    }
    let suits = |kind: &str| match any {
        true => is_alone(kind) && (masters || kind != "redlock"),
        false => kind == wanted,
    };
    let first = || has.kinds.iter().find(|kind| suits(kind));
    // Of several on independent masters the one that is about them.
    let quorum = || has.kinds.iter().find(|kind| masters && *kind == "redlock");
    // Permits with leases are counted as those without are.
    let permits = || has.kinds.iter().find(|kind| wanted == "semaphore" && *kind == "permits");
    quorum().or_else(first).or_else(permits).cloned().ok_or_else(|| match any {
        true => format!("{name} has no kind that one holder has alone; it has {lists}"),
        false => format!("{name} has no kind `{wanted}`; it has {lists}"),
    })
}

/// A checker's name, and what it says.
type OfClass<'r> = (&'static str, &'r Verdict);

/// The judged checkers that a result violates although the scenario does not say that no lock can keep them.
fn suspects<'r>(scenario: &Scenario, result: &'r ScenarioResult) -> Vec<OfClass<'r>> {
    let is_inherent = |word: &str, verdict: &Verdict| {
        !scenario.audit.inherent.is_empty()
            && word != "clean"
            && verdict.meets(word, result.load_ns) == Some(true)
            && !outlasts_renewal(scenario, result, verdict)
    };
    let violated = of_state(result, State::Violated);
    violated.filter(|(class, verdict)| !is_inherent(&result.expected[*class], verdict)).collect()
}

/// Whether two owners of a renewed lock go on when every fault has been over for one and a half leases: a
/// renewal has come in between, so the first owner could have been told.
fn outlasts_renewal(scenario: &Scenario, result: &ScenarioResult, verdict: &Verdict) -> bool {
    let ends = result.faults.iter().map(|fault| fault.healed_ns.unwrap_or(fault.injected_ns));
    let watchdog_ns = scenario.lock.watchdog.unwrap_or(WATCHDOG).ns();
    let renewed_ns = ends.max().unwrap_or(0) + watchdog_ns * 3 / 2;
    scenario.lock.lease.is_none() && verdict.anomalies.iter().any(|one| one.to_ns > renewed_ns)
}

/// Whether all that is judged is known, and after a fault nothing was granted within the scenario's bound.
fn is_late(result: &ScenarioResult) -> bool {
    let known = result.incomplete.is_empty() && of_state(result, State::Unknown).next().is_none();
    known && result.expected.get(RECOVERY).is_some_and(|bound| result.meets(RECOVERY, bound) == Some(false))
}

fn of_state(result: &ScenarioResult, state: State) -> impl Iterator<Item = OfClass<'_>> {
    judged_of(result).filter(move |(_, verdict)| verdict.state == state)
}

fn judged_of(result: &ScenarioResult) -> impl Iterator<Item = OfClass<'_>> {
    result.verdicts.iter().filter(|(class, _)| result.expected.contains_key(*class))
}

/// What is to be asked before a result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenQuestion {
    /// Nothing: it speaks for itself.
    None,
    /// Whether a sound lock keeps what it violates.
    Violated,
    /// The same, and whether it comes again: a busy machine can delay a grant, but not give a lock to two.
    LivenessAlone,
    /// Whether the faults take effect on a sound lock: on this one they met nothing.
    MetNothing,
}

/// What is to be asked before this result counts.
pub fn doubt(scenario: &Scenario, result: &ScenarioResult) -> OpenQuestion {
    match suspects(scenario, result).as_slice() {
        [("liveness", _)] => return OpenQuestion::LivenessAlone,
        [_, ..] => return OpenQuestion::Violated,
        [] if is_late(result) => return OpenQuestion::LivenessAlone,
        [] => {}
    }
    let mut why = judged_of(result).flat_map(|(_, verdict)| &verdict.why);
    let met_nothing = result.incomplete.is_empty()
        && result.faults.iter().any(|fault| !fault.bit)
        && of_state(result, State::Unknown).next().is_some()
        && why.all(|why| why.starts_with(NO_EFFECT));
    match met_nothing {
        true => OpenQuestion::MetNothing,
        false => OpenQuestion::None,
    }
}

/// What one result says by itself. `Broken` is a suspicion until a sound lock was tried: see [`beside`].
pub fn judged(scenario: &Scenario, result: &ScenarioResult) -> JudgedRun {
    let suspects = suspects(scenario, result);
    let violated: Vec<_> = of_state(result, State::Violated).collect();
    let unknown = of_state(result, State::Unknown).next().is_some();
    let mut inherent = None;
    let (outcome, why) = if !suspects.is_empty() {
        (AuditOutcome::Broken, violations(&suspects))
    } else if unknown || !result.incomplete.is_empty() || judged_of(result).next().is_none() {
        (AuditOutcome::Unknown, doubts(result))
    } else if is_late(result) {
        let bound = &result.expected[RECOVERY];
        (AuditOutcome::Broken, format!("after a fault nothing was granted in {bound}"))
    } else if !violated.is_empty() {
        inherent = scenario.audit.inherent();
        let (violations, why) = (violations(&violated), &scenario.audit.inherent);
        let cause = match scenario.audit.cause {
            InherentCause::ServerSettings => "The servers' settings let it happen",
            InherentCause::NeedsFencing => "It needs fencing",
            InherentCause::NoLock => "No lock can keep it here",
        };
        (AuditOutcome::Inherent, format!("{violations}. {cause}: {why}"))
    } else {
        let all = judged_of(result).map(|(class, _)| class).join(", ");
        let (over, odds) = (over(result), against_odds(scenario, result));
        (AuditOutcome::Kept, format!("{all} clean {over}{odds}"))
    };
    let verdicts = judged_of(result).map(|(class, verdict)| (class.to_owned(), verdict.state));
    JudgedRun {
        outcome,
        verdicts: verdicts.collect(),
        why,
        defect: defect(scenario, result, &suspects).to_owned(),
        inherent,
        without_grant_ns: result.without_grant_ns,
    }
}

/// What a lock does wrong, in a few words; the gravest of what it violates.
fn defect(scenario: &Scenario, result: &ScenarioResult, suspects: &[OfClass<'_>]) -> &'static str {
    let of = |class: &str| suspects.iter().find(|(name, _)| *name == class);
    let shows = |class: &str, what: &str| {
        let mut anomalies = of(class).into_iter().flat_map(|(_, verdict)| &verdict.anomalies);
        anomalies.any(|anomaly| anomaly.what == what)
    };
    let is_told = result.tells_holder != Some(false);
    let is_renewed = scenario.lock.lease.is_none();
    let follows = |after: &str| {
        let classes = ["contract", "belief"].into_iter().filter_map(of);
        let mut anomalies = classes.flat_map(|(_, verdict)| &verdict.anomalies);
        anomalies.any(|anomaly| anomaly.after == after)
    };
    let died = |fault: &FaultSpan| {
        let mut targets = fault.targets.iter();
        fault.fault == "kill" && targets.any(|target| target.starts_with('c'))
    };
    let outlasts = suspects.iter().any(|(_, verdict)| outlasts_renewal(scenario, result, verdict));
    if !scenario.audit.inherent.is_empty() && outlasts {
        return if is_told { "its holder is told too late" } else { "its holder is not told" };
    }
    if of("confirmed").is_some() {
        "the servers confirm two holders at once"
    } else if follows("late-release") {
        "its late release frees another's lock"
    } else if follows("late-extend") {
        "it extends another's lock"
    } else if of("belief").or(of("contract")).is_some() && is_renewed && !is_told {
        match (scenario.faults.is_empty(), scenario.load.outlives.is_empty()) {
            (true, _) => "it does not renew, and its holder is not told",
            (false, false) => "its renewal ends at an error, and its holder is not told",
            (false, true) => "its holder is not told",
        }
    } else if of("contract").is_some() {
        match shows("contract", "late-grant") && !shows("contract", "overlap") {
            true => "it grants what has run out already",
            false if is_renewed => "two owners at once",
            false => "two owners within one lease",
        }
    } else if of("belief").is_some() {
        match is_told {
            true => "its holder is told too late",
            false => "its holder is not told",
        }
    } else if of("effect").is_some() {
        match shows("effect", "token-regression") {
            true => "its fencing tokens do not rise",
            false => "an update is lost",
        }
    } else if of("liveness").is_some() {
        match shows("liveness", "no-return") {
            true => "a call never returns",
            false if shows("liveness", "stuck") && result.faults.iter().any(died) => {
                "what a dead client took is not free when its lease is over"
            }
            false if shows("liveness", "stuck") => "a free lock is refused",
            false => "its queue is not served in order",
        }
    } else if is_late(result) {
        "it does not grant again after a fault"
    } else {
        ""
    }
}

/// A result in doubt beside what a sound lock did on the same scenario, seed and servers, and beside a second
/// run of the same plan where there was one. `Err` says why nothing is known of the sound lock.
pub fn beside(
    scenario: &Scenario,
    result: &ScenarioResult,
    twin: &str,
    of_twin: Result<&ScenarioResult, &str>,
    second: Option<&ScenarioResult>,
) -> JudgedRun {
    let alone = judged(scenario, result);
    match doubt(scenario, result) {
        OpenQuestion::None => return alone,
        OpenQuestion::MetNothing => return met_nothing(result, twin, of_twin, alone),
        OpenQuestion::Violated | OpenQuestion::LivenessAlone => {}
    }
    let suspects = suspects(scenario, result);
    let late = suspects.is_empty();
    let classes =
        if late { RECOVERY.to_owned() } else { suspects.iter().map(|(class, _)| *class).join(", ") };
    let comes_again = |second: &ScenarioResult| {
        let mut states = suspects.iter().map(|(class, _)| second.verdicts.get(class));
        states.any(|verdict| verdict.is_some_and(|verdict| verdict.state == State::Violated))
            || late && is_late(second)
    };
    let again = second.is_none_or(comes_again);
    let kept = of_twin.map_err(str::to_owned).and_then(|of_twin| {
        let twin_suspects = self::suspects(scenario, of_twin);
        for (class, _) in &suspects {
            let verdict = of_twin.verdicts.get(class);
            let state = verdict.map_or(State::Unknown, |verdict| verdict.state);
            let is_suspect = twin_suspects.iter().any(|(of_twin, _)| of_twin == class);
            if state == State::Unknown || is_suspect {
                return Err(format!("came out {class} {} too", state.word()));
            }
        }
        match of_twin.incomplete.first() {
            None if late && is_late(of_twin) => Err("was as late".to_owned()),
            Some(why) => Err(format!("has a history with a hole: {why}")),
            None => Ok(over(of_twin)),
        }
    });
    let (outcome, why) = match kept {
        _ if !again => {
            (AuditOutcome::Unknown, "It did not come again when the same plan was run once more".to_owned())
        }
        Ok(over) => {
            (AuditOutcome::Broken, format!("{twin} kept {classes} on the same scenario and seed, {over}"))
        }
        Err(why) => (
            AuditOutcome::Unknown,
            format!("Whether a sound lock keeps {classes} here is not known: {twin} {why}"),
        ),
    };
    JudgedRun {
        outcome,
        why: format!("{}. {why}", alone.why),
        defect: match outcome {
            AuditOutcome::Broken => alone.defect,
            _ => String::new(),
        },
        ..alone
    }
}

/// A lock whose traffic a fault has nothing to act on, as a lost message of a lock that sends none: not
/// applicable, if the fault does take effect on another lock in the same run.
fn met_nothing(
    result: &ScenarioResult,
    twin: &str,
    of_twin: Result<&ScenarioResult, &str>,
    alone: JudgedRun,
) -> JudgedRun {
    let names = once(result.faults.iter().filter(|fault| !fault.bit).map(|fault| fault.fault.as_str()));
    let bites = of_twin.is_ok_and(|of_twin| {
        let bit = |name| of_twin.faults.iter().any(|fault| fault.fault == name && fault.bit);
        names.iter().copied().all(bit)
    });
    if !bites {
        return alone;
    }
    let (names, over) = (names.join(", "), over(result));
    JudgedRun {
        outcome: AuditOutcome::NotApplicable,
        why: format!(
            "{names} affected no command of this lock {over}, but did affect {twin} in the same run"
        ),
        ..alone
    }
}

/// What is to be known of a lock that kept what its scenario says that none can.
fn against_odds(scenario: &Scenario, result: &ScenarioResult) -> String {
    if scenario.audit.inherent.is_empty() {
        return String::new();
    }
    let last = result.faults.iter().max_by_key(|fault| fault.injected_ns);
    let before = last.and_then(|fault| Some((fault, fault.recovery?.last_grant_before_ns)));
    if let Some((fault, None)) = before {
        return format!(", none of them before {}: it granted nothing that could be lost", fault.fault);
    }
    let share = result.over_time.as_ref().and_then(|over| over.share_min);
    let share = share.filter(|share| *share < STARVED);
    let starved = |share| {
        let share = units::figure(share);
        format!(", while one of its clients got {share} of an even share of the grants")
    };
    share.map_or(String::new(), starved)
}

fn over(result: &ScenarioResult) -> String {
    let endings = result.operations.get("acquire");
    let grants = endings.and_then(|endings| endings.get("ok"));
    format!("over {} grants", units::count(grants.copied().unwrap_or(0)))
}

fn violations(all: &[(&str, &Verdict)]) -> String {
    let words = all.iter().map(|(class, verdict)| {
        let worst = match verdict.worst_ns {
            0 => String::new(),
            ns => format!(", worst {}", units::duration(ns)),
        };
        format!("{class} violated {}×{worst}", units::count(verdict.count))
    });
    let words = Vec::from_iter(words).join(", ");
    let mut anomalies = all.iter().flat_map(|(_, verdict)| &verdict.anomalies);
    match anomalies.next() {
        Some(first) => format!("{words}: {}", first.proof.trim_end_matches('.')),
        None => words,
    }
}

/// The same words in the same order, each once.
fn once<'w>(words: impl Iterator<Item = &'w str>) -> Vec<&'w str> {
    let mut seen = BTreeSet::new();
    words.filter(|word| seen.insert(*word)).collect()
}

/// Why nothing is known, each reason once.
fn doubts(result: &ScenarioResult) -> String {
    let own = judged_of(result).flat_map(|(_, verdict)| &verdict.why);
    let reasons = once(result.incomplete.iter().chain(own).map(String::as_str));
    match reasons.as_slice() {
        [] if judged_of(result).next().is_none() => {
            "the scenario expects nothing of a checker, so nothing is judged".to_owned()
        }
        [] => result.notes.join("; "),
        [first] => (*first).to_owned(),
        [first, others @ ..] => format!("{first} (and {} more reasons)", others.len()),
    }
}
