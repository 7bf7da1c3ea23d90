//! What a run answers, never mixed: what became of the lock, and whether scenarios did as their files expect.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;

use crate::audit::{Audit, AuditedSubject};
use crate::compare::{rounds_suffice, row_load};
use crate::record::measures::bare;
use crate::record::run::{BenchRow, Outcome, Run, ScenarioResult};
use crate::record::verdict::{State, Verdict};
use crate::record::watch::{Certainty, WatchReport};
use crate::wording::units;

const NAMED: usize = 3;

/// What became of mutual exclusion in a scenario, or under all faults of a configuration; the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ExclusionOutcome {
    /// Never more holders than may be, in anyone's view.
    Kept,
    /// The lock kept its contract, yet callers acted at once or wrote late.
    Outlived,
    Unknown,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Lost,
    Kept,
    /// Too little is known, or callers outlived their leases.
    Doubt,
    /// A detail of the part before it, which a line for each scenario says too.
    Detail,
    Plain,
}

pub(crate) type Part = (Tone, String);

impl ScenarioResult {
    /// Whether its lock is one that is known to be broken, which shows that the checkers see.
    pub(crate) fn is_control(&self) -> bool {
        self.subject.starts_with("broken:")
    }

    /// Whether two had the lock at once, whatever the scenario expects: its contract was broken, the servers
    /// lost state, or a lock that tells its holder nothing let two act at once, which its file forbids.
    pub fn is_lost(&self) -> bool {
        let verdicts = &self.verdicts;
        let violated = |verdict: &Verdict| verdict.state == State::Violated;
        let untold = self.tells_holder == Some(false)
            && self.expected.get("belief").is_some_and(|word| word == "clean");
        violated(&verdicts.contract)
            || violated(&verdicts.confirmed)
            || (untold && violated(&verdicts.belief))
    }

    /// What became of the lock, in a word or two, and behind it whether that is what its file expects.
    pub fn said(&self) -> String {
        let of = |state: State| {
            let classes = self.verdicts.iter().filter(|(_, verdict)| verdict.state == state);
            classes.map(|(class, _)| class).join(", ")
        };
        let (violated, unknown) = (of(State::Violated), of(State::Unknown));
        let what = match self.standing() {
            ExclusionOutcome::Lost => format!("LOST ({violated})"),
            _ if !unknown.is_empty() => format!("unknown ({unknown})"),
            ExclusionOutcome::Unknown => "unknown".to_owned(),
            _ if !violated.is_empty() => format!("kept, but {violated} violated"),
            _ => "kept".to_owned(),
        };
        if self.as_expected { format!("{what}, as its file expects") } else { what }
    }

    pub(crate) fn answer_tone(&self) -> Tone {
        match self.standing() {
            ExclusionOutcome::Lost => Tone::Lost,
            ExclusionOutcome::Kept => Tone::Kept,
            ExclusionOutcome::Outlived | ExclusionOutcome::Unknown => Tone::Doubt,
        }
    }

    pub(crate) fn standing(&self) -> ExclusionOutcome {
        let verdicts = &self.verdicts;
        let known = [verdicts.contract.state, verdicts.confirmed.state];
        let [belief, effect] = [verdicts.belief.state, verdicts.effect.state];
        let without_effect = self.faults.iter().any(|fault| !fault.bit);
        if self.is_lost() {
            ExclusionOutcome::Lost
        } else if known.contains(&State::Unknown)
            || belief == State::Unknown
            || !self.incomplete.is_empty()
            || without_effect
        {
            ExclusionOutcome::Unknown
        } else if [belief, effect].contains(&State::Violated) {
            ExclusionOutcome::Outlived
        } else {
            ExclusionOutcome::Kept
        }
    }

    /// The gravest verdict by which two had the lock at once, also where their own clocks alone say so.
    pub(crate) fn gravest(&self) -> Option<&Verdict> {
        let verdicts = &self.verdicts;
        let all = [&verdicts.contract, &verdicts.confirmed, &verdicts.belief];
        all.into_iter().find(|verdict| verdict.state == State::Violated)
    }

    pub(crate) fn losing(&self) -> Option<&Verdict> {
        self.gravest().filter(|_| self.is_lost())
    }

    /// Where in the subject's own source the grant was given that lost the lock: `lock.py:41`.
    pub(crate) fn granted_at(&self) -> Option<String> {
        self.losing()?.proof.as_ref()?.source_places().into_iter().next()
    }

    /// What a configuration is: topology, subject, durability, and what the servers were configured with.
    pub(crate) fn configuration(&self) -> (&str, &str, &str, &BTreeMap<String, String>) {
        let (topology, subject) = (&self.topology, &self.subject);
        (topology, subject, bare(&self.durability), &self.server_config)
    }
}

impl BenchRow {
    /// Whether this row measured the configuration of that scenario. `fsync` is said by rows, and set on
    /// servers of scenarios; a server with another setting was not measured.
    pub(crate) fn measures_configuration_of(&self, result: &ScenarioResult) -> bool {
        let settings = result.server_config.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let none = [("appendonly", "no"), ("save", "\"\"")];
        let synced = [("appendfsync", "always"), ("appendonly", "yes")];
        let waits_for = match bare(&result.durability) {
            "" if settings.clone().eq(synced) => "fsync",
            durability if settings.clone().all(|one| none.contains(&one)) => durability,
            _ => return false,
        };
        (&result.subject, &result.topology) == (&self.subject, &self.topology)
            && waits_for == bare(&self.measures.load.durability)
    }
}

/// The first line of every report: it answers, and every word of it is derived from the run.
pub fn answer(run: &Run) -> String {
    let parts = parts(run);
    format!("{}.", parts.iter().map(|(_, words)| words).join("; "))
}

/// Configurations of a run, or scenarios of an audit, that lost the lock; controls are left out.
pub fn lost(run: &Run) -> usize {
    match &run.audit {
        Some(audit) => audit.subjects.iter().map(AuditedSubject::lost).sum(),
        None => {
            let (_, count) = tally(&tried(run));
            count(ExclusionOutcome::Lost)
        }
    }
}

pub(crate) fn parts(run: &Run) -> Vec<Part> {
    if let Some(watch) = &run.watch {
        return of_watch(watch);
    }
    if let Some(audit) = &run.audit {
        return of_audit(audit);
    }
    let mut parts = Vec::new();
    let tried = tried(run);
    if !tried.is_empty() {
        parts.extend(lost_part(&tried));
        parts.extend(losses(&tried).into_iter().map(|words| (Tone::Detail, words)));
        parts.extend(beside_losses(run));
    } else {
        if !run.rows.is_empty() {
            parts.extend(figures(run).into_iter().map(|words| (Tone::Plain, words)));
        }
        if !run.scenarios.is_empty() {
            let only = if parts.is_empty() { "Only" } else { "only" };
            parts.push((Tone::Plain, format!("{only} controls ran: {}", controls(run))));
        }
    }
    parts.extend(parts.is_empty().then(|| (Tone::Plain, "Nothing was measured".to_owned())));
    parts
}

fn tried(run: &Run) -> Vec<&ScenarioResult> {
    run.scenarios.iter().filter(|s| !s.is_control()).collect()
}

/// The answer as a headline, `Redis lost the lock in 3 of 7 set-ups`; of an audit its first part.
pub(crate) fn headline(run: &Run) -> Part {
    let tried = tried(run);
    if let Some(audit) = &run.audit {
        return of_audit(audit).swap_remove(0);
    }
    if let Some(watch) = &run.watch {
        return of_watch(watch).swap_remove(0);
    }
    if tried.is_empty() {
        return (Tone::Plain, answer(run));
    }
    let mut subjects = tried.iter().map(|result| result.subject.as_str()).unique();
    let who = match (subjects.next(), subjects.next()) {
        _ if tried.iter().all(|result| result.subject.starts_with("lock-core:")) => "Redis",
        (Some(subject), None) => subject,
        _ => "Locks",
    };
    let (total, count) = tally(&tried);
    let (lost, unknown) = (count(ExclusionOutcome::Lost), count(ExclusionOutcome::Unknown));
    let set_ups = units::plural(total, "set-up");
    match (lost, total) {
        (0, _) if unknown > 0 => (
            Tone::Doubt,
            format!(
                "{who} was not seen to lose the lock, but too little is known of {unknown} of {total} {set_ups}"
            ),
        ),
        (0, 1) => (Tone::Kept, format!("{who} kept the lock")),
        (0, _) => (Tone::Kept, format!("{who} kept the lock in all {total} {set_ups}")),
        (_, 1) => (Tone::Lost, format!("{who} lost the lock")),
        _ => (Tone::Lost, format!("{who} lost the lock in {lost} of {total} {set_ups}")),
    }
}

/// What stands beside the headline: other outcomes of scenarios, and the fastest safe row.
pub(crate) fn beside_losses(run: &Run) -> Vec<Part> {
    if let Some(audit) = &run.audit {
        return of_audit(audit).split_off(1);
    }
    if let Some(watch) = &run.watch {
        return of_watch(watch).split_off(1);
    }
    let tried = tried(run);
    let mut parts = if tried.is_empty() { Vec::new() } else { exclusion(&tried) };
    parts.extend(fastest_safe(run, &tried).map(|words| (Tone::Plain, words)));
    parts
}

/// What was seen of locks in traffic.
fn of_watch(watch: &WatchReport) -> Vec<Part> {
    let locks = units::several(watch.locks.len(), "kind of lock").replace("kind of locks", "kinds of locks");
    let count = |certainty| watch.findings.iter().filter(|one| one.certainty == certainty).count();
    let [violated, sure, likely] = [Certainty::Violated, Certainty::Sure, Certainty::Likely].map(count);
    let held = watch.holders.len();
    let endless = watch.holders.iter().filter(|one| one.left_ms.is_none()).count();
    let held_words = format!("{} held now, {endless} of them without an end", units::several(held, "lock"));
    let too_little =
        format!("Too little was seen: no lock was taken and given back in {} commands", watch.commands);
    let at_once = format!("Two had a lock at once ({} of {locks})", units::several(violated, "finding"));
    let dangers = format!("{} for certain", units::several(sure, "danger"));
    let safe = format!("Nothing dangerous in {locks}, {} grants", watch.grants());
    let parts = [
        (held > 0, if endless > 0 { Tone::Doubt } else { Tone::Plain }, held_words),
        (watch.is_empty(), Tone::Doubt, too_little),
        (!watch.is_empty() && violated > 0, Tone::Lost, at_once),
        (sure > 0, Tone::Lost, dangers),
        (sure + violated == 0 && !watch.locks.is_empty(), Tone::Kept, safe),
        (likely > 0, Tone::Doubt, format!("{likely} likely, to be looked at")),
    ];
    parts.into_iter().filter(|part| part.0).map(|(_, tone, words)| (tone, words)).collect()
}

/// What each lock of an audit lost and broke; of many only how many did.
fn of_audit(audit: &Audit) -> Vec<Part> {
    let subjects = &audit.subjects;
    match subjects.len() {
        0 => vec![(Tone::Plain, "Nothing was tried".to_owned())],
        1..=NAMED => subjects.iter().flat_map(of_subject).collect(),
        all => {
            let count = |wanted: fn(&&AuditedSubject) -> bool| subjects.iter().filter(wanted).count();
            let lost = count(|subject| subject.lost() > 0);
            let broke =
                count(|subject| subject.score.broken > 0 || subject.broken_promises().next().is_some());
            let rest = all - broke;
            let mut parts = Vec::new();
            parts.extend((lost > 0).then(|| (Tone::Lost, format!("LOST by {lost} of {all} locks"))));
            if broke > lost {
                parts.push((Tone::Lost, format!("{} more broke another promise", broke - lost)));
            }
            if rest > 0 {
                parts.push((Tone::Kept, format!("kept by {rest} wherever a sound lock keeps it")));
            }
            parts
        }
    }
}

fn of_subject(subject: &AuditedSubject) -> Vec<Part> {
    let (name, score, lost) = (&subject.name, &subject.score, subject.lost());
    let could = (score.kept + score.broken) as usize;
    let scenarios = units::plural(could, "scenario");
    let mut parts = Vec::new();
    if lost > 0 {
        let words = format!("LOST by {name} in {lost} of {could} {scenarios} that a lock can keep");
        parts.push((Tone::Lost, words));
    }
    let promises = subject.broken_promises().count();
    if promises > 0 {
        let steps = subject.broken_promises().map(|finding| format!("`{}`", finding.name)).format(", ");
        let words = format!("BROKEN by {name} in {} of conform: {steps}", units::several(promises, "step"));
        parts.push((Tone::Lost, words));
    } else if subject.conform.as_ref().is_some_and(|conform| !conform.conforms) {
        let words =
            format!("the driver of {name} does not conform: what its scenarios show may be its doing");
        parts.push((Tone::Doubt, words));
    }
    let further = score.broken as usize - lost.min(score.broken as usize);
    if further > 0 {
        let words = match lost {
            0 => {
                format!("BROKEN by {name} in {further} of {could} {scenarios} that a lock can keep")
            }
            _ => format!("another promise broken in {further}"),
        };
        parts.push((Tone::Lost, words));
    }
    match score.kept {
        0 if could == 0 => parts.push((Tone::Doubt, format!("{name} was tried on nothing"))),
        0 => {}
        kept if score.broken == 0 => {
            let words = format!("kept by {name} in all of {kept} {scenarios} that a lock can keep");
            parts.push((Tone::Kept, words));
        }
        kept => parts.push((Tone::Kept, format!("kept in {kept}"))),
    }
    if score.unknown > 0 {
        parts.push((Tone::Doubt, format!("of {} more too little is known", score.unknown)));
    }
    if score.inherent > 0 {
        let causes = subject.inherent_causes.iter();
        let causes = causes.map(|(cause, count)| format!("{count} {}", cause.words()));
        let causes = units::enclosed(": ", &causes.format(", ").to_string(), "");
        parts.push((Tone::Plain, format!("inherent in {}{causes}", score.inherent)));
    }
    parts
}

/// What is small print: what the run expected, for CI, and whether the controls were convicted.
pub fn small_print(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    // What the scenarios of an audit expect is of other locks.
    let total = match &run.audit {
        Some(audit) => {
            lines.push(audit.score().words());
            lines.extend(audit.subjects.iter().filter_map(AuditedSubject::drawn_words));
            0
        }
        None => run.scenarios.len(),
    };
    let counts = run.scenarios.iter().counts_by(ScenarioResult::outcome);
    if total > 0 {
        let expected = counts.get(&Outcome::AsExpected).unwrap_or(&0);
        let scenarios = units::plural(total, "scenario");
        let mut words = match total {
            1 if *expected == 1 => "the scenario came out as its file expects".to_owned(),
            _ => format!("{expected} of {total} {scenarios} came out as their files expect"),
        };
        for (outcome, text) in [
            (Outcome::NotAsExpected, "otherwise"),
            (Outcome::Unknown, "unknown"),
            (Outcome::None, "without expectation"),
        ] {
            words.extend(counts.get(&outcome).map(|n| format!(", {n} {text}")));
        }
        lines.push(words);
        let mut is_control = run.scenarios.iter().map(ScenarioResult::is_control);
        lines.extend((!is_control.all_equal()).then(|| format!("controls: {}", controls(run))));
    }
    let (total, rows) = (run.rows.len(), units::plural(run.rows.len(), "row"));
    if total > 0 {
        let quotable = run.rows.iter().filter(|row| may_be_quoted(row)).count();
        lines.push(format!("{quotable} of {total} benchmark {rows} may be quoted"));
    }
    lines
}

fn controls(run: &Run) -> String {
    let all: Vec<_> = run.scenarios.iter().filter(|s| s.is_control()).collect();
    let seen = all
        .iter()
        .filter(|result| result.verdicts.iter().any(|(_, verdict)| verdict.state == State::Violated));
    let locks = match all.len() {
        1 => "lock known to be broken was",
        _ => "locks known to be broken were",
    };
    format!("{} of {} {locks} convicted", seen.count(), all.len())
}

/// How many configurations there are, and how many of them came out so; each by the worst of its scenarios.
fn tally(tried: &[&ScenarioResult]) -> (usize, impl Fn(ExclusionOutcome) -> usize + use<>) {
    let mut worst = BTreeMap::new();
    for result in tried {
        let standing = worst.entry(result.configuration()).or_insert(ExclusionOutcome::Kept);
        *standing = (*standing).max(result.standing());
    }
    let counts = worst.into_values().counts();
    (counts.values().sum(), move |standing| counts.get(&standing).copied().unwrap_or(0))
}

fn lost_part(tried: &[&ScenarioResult]) -> Option<Part> {
    let (total, count) = tally(tried);
    let lost = count(ExclusionOutcome::Lost);
    let words = match (lost, total) {
        (0, _) => return None,
        (1, 1) => "LOST by the one configuration tried".to_owned(),
        _ => format!("LOST by {lost} of {total} {}", units::plural(total, "configuration")),
    };
    Some((Tone::Lost, words))
}

fn exclusion(tried: &[&ScenarioResult]) -> Vec<Part> {
    let (total, count) = tally(tried);
    let (lost, kept) = (count(ExclusionOutcome::Lost), count(ExclusionOutcome::Kept));
    let under = match tried.iter().filter(|result| result.faults.is_empty()).count() {
        0 => "under every fault tried",
        none if none == tried.len() => "while no fault was tried",
        _ => "under every fault tried and without one",
    };
    let configurations = units::plural(total, "configuration");
    let mut parts = Vec::new();
    let who = match kept {
        0 => None,
        1 if total == 1 => Some("the one configuration tried".to_owned()),
        kept if kept == total => Some(format!("all {total} configurations")),
        kept if lost == 0 => Some(format!("{kept} of {total} {configurations}")),
        kept => Some(kept.to_string()),
    };
    parts.extend(who.map(|who| (Tone::Kept, format!("kept by {who} {under}"))));
    let of = |standing| names(tried, |result| result.standing() == standing);
    let outlived = count(ExclusionOutcome::Outlived);
    if outlived > 0 {
        let verb = if outlived == 1 { "keeps" } else { "keep" };
        let names = of(ExclusionOutcome::Outlived);
        let words = format!(
            "{outlived} {verb} the lock's contract, yet callers acted at once or wrote late there ({names})"
        );
        parts.push((Tone::Doubt, words));
    }
    let unknown = count(ExclusionOutcome::Unknown);
    if unknown > 0 {
        let names = of(ExclusionOutcome::Unknown);
        parts.push((Tone::Doubt, format!("of {unknown} too little is known ({names})")));
    }
    let stuck = names(tried, |result| result.verdicts.liveness.state == State::Violated);
    if !stuck.is_empty() {
        parts.push((Tone::Doubt, format!("a free lock was not granted in {stuck}")));
    }
    parts
}

/// `failover-async lost it 3 times, worst 3.5 s`, the worst first; repeats of a scenario are one.
fn losses(tried: &[&ScenarioResult]) -> Vec<String> {
    let mut lost: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for (result, verdict) in tried.iter().filter_map(|result| Some((result, result.losing()?))) {
        let (times, worst_ns) = lost.entry((result.name.as_str(), result.configuration())).or_default();
        *times += verdict.count.max(1);
        *worst_ns = (*worst_ns).max(verdict.worst_ns);
    }
    let places = lost.keys().counts_by(|(name, _)| *name);
    let lost = lost.into_iter().sorted_by_key(|(_, (times, worst_ns))| Reverse((*worst_ns, *times)));
    let further = lost.len().saturating_sub(NAMED);
    let worst = lost.take(NAMED);
    let worst = worst.map(|((name, (topology, subject, ..)), (times, worst_ns))| {
        let place = match places[name] {
            1 => String::new(),
            _ => format!(" on {topology} with {subject}"),
        };
        let times = units::times(times);
        let worst = units::enclosed(", worst ", &units::known_duration(worst_ns), "");
        format!("{name}{place} lost it {times}{worst}")
    });
    worst.chain((further > 0).then(|| format!("{further} further lost it too"))).collect()
}

fn names(tried: &[&ScenarioResult], wanted: impl Fn(&ScenarioResult) -> bool) -> String {
    let wanted = tried.iter().filter(|result| wanted(result));
    let names: BTreeSet<&str> = wanted.map(|result| result.name.as_str()).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    names.iter().take(NAMED).map(|name| (*name).to_owned()).chain(more).join(", ")
}

pub(crate) fn may_be_quoted(row: &BenchRow) -> bool {
    stands(row, State::Clean)
}

fn stands(row: &BenchRow, safety: State) -> bool {
    row.valid && row.safety.state == safety && row.cycles_per_s.median.is_finite()
}

/// The fastest row whose configuration kept mutual exclusion in every scenario of this run.
fn fastest_safe(run: &Run, tried: &[&ScenarioResult]) -> Option<String> {
    let safe = |row: &BenchRow| {
        let of_row = tried.iter().filter(|result| row.measures_configuration_of(result));
        of_row.map(|result| result.standing()).max() == Some(ExclusionOutcome::Kept)
    };
    fastest(run, safe).map(|words| format!("fastest safe: {words}"))
}

fn figures(run: &Run) -> Vec<String> {
    let mut parts: Vec<String> = match fastest(run, |_| true) {
        Some(words) => vec![format!("Fastest: {words}")],
        // As of a lock that runs a loop of its own.
        None if run.rows.iter().any(|row| stands(row, State::Unknown)) => {
            vec!["Nobody judged whether the locks were safe while they were measured".to_owned()]
        }
        None => vec!["No benchmark row may be quoted".to_owned()],
    };
    let void = run.rows.iter().filter(|row| row.is_void()).count();
    if void > 0 {
        let why = "since the lock was not safe while it was measured";
        parts.push(format!("{void} void, {why}"));
    }
    parts
}

/// The fastest of the largest group of rows under one load; whom it is not shown to beat is named too.
fn fastest(run: &Run, safe: impl Fn(&BenchRow) -> bool) -> Option<String> {
    let mut groups: Vec<(_, Vec<&BenchRow>)> = Vec::new();
    let rows = run.rows.iter();
    for row in rows.filter(|row| may_be_quoted(row) && safe(row)) {
        let mut load = row_load(row);
        load.retain(|(name, _)| !["durability", "kind"].contains(name));
        let key = (&row.workload, row.tasks, load);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    let most = groups.iter().map(|(_, rows)| rows.len()).max()?;
    let (_, mut rows) = groups.into_iter().find(|(_, rows)| rows.len() == most)?;
    rows.sort_by(|a, b| b.cycles_per_s.median.total_cmp(&a.cycles_per_s.median));
    let [best, others @ ..] = rows.as_slice() else {
        return None;
    };
    let low = best.cycles_per_s.low.unwrap_or(f64::NEG_INFINITY);
    let near = |row: &&&BenchRow| {
        let high = row.cycles_per_s.high.filter(|_| rounds_suffice(best, row));
        high.is_none_or(|high| high >= low)
    };
    let place = |row: &BenchRow| format!("{} on {}", row.lock(), row.site());
    let close = others.iter().filter(near).take(NAMED).map(|row| place(row)).join(", ");
    Some(format!(
        "{}, {} cycles/s{} ({}, {}{})",
        place(best),
        units::figure(best.cycles_per_s.median),
        best.cycles_per_s.behind(),
        best.workload,
        units::several(best.tasks as usize, "task"),
        units::enclosed(", not shown to be faster than ", &close, "")
    ))
}
