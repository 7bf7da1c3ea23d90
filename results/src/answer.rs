//! The sentence that answers what a run was made for: which configurations kept mutual exclusion, and what is fastest of those.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::{Audit, AuditedSubject};
use crate::compare::row_load;
use crate::report::{behind, is_void};
use crate::run::{BenchRow, Outcome, Run, ScenarioResult};
use crate::units;
use crate::verdict::State;

/// So many are named; of the others the number is said.
const NAMED: usize = 3;

/// What became of mutual exclusion in one scenario, or under all faults that a configuration met; in order, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Never more holders than may be, in anyone's view.
    Kept,
    /// The lock kept its contract, yet callers acted at once or wrote late.
    Outlived,
    /// Too little is known.
    Unknown,
    /// The contract was broken, or the servers lost state.
    Lost,
}

impl ScenarioResult {
    /// Whether its lock is one that is known to be broken, which shows that the checkers see.
    pub(crate) fn is_control(&self) -> bool {
        self.subject.starts_with("broken:")
    }

    fn standing(&self) -> Standing {
        let verdicts = &self.verdicts;
        let any = |state| {
            let of_holders = [&verdicts.contract, &verdicts.confirmed, &verdicts.belief];
            of_holders.into_iter().any(|verdict| verdict.state == state)
        };
        let lost = [&verdicts.contract, &verdicts.confirmed];
        if lost.iter().any(|verdict| verdict.state == State::Violated) {
            Standing::Lost
        } else if any(State::Unknown)
            || !self.incomplete.is_empty()
            || self.faults.iter().any(|fault| !fault.bit)
        {
            Standing::Unknown
        } else if any(State::Violated) || verdicts.effect.state == State::Violated {
            Standing::Outlived
        } else {
            Standing::Kept
        }
    }

    /// What a configuration is: topology, subject, durability, and what the servers were configured with.
    fn configuration(&self) -> (&str, &str, &str, &BTreeMap<String, String>) {
        let durability = bare(&self.durability);
        (
            &self.topology,
            &self.subject,
            durability,
            &self.server_config,
        )
    }
}

fn bare(durability: &str) -> &str {
    if durability == "none" { "" } else { durability }
}

/// The first line of every report: it answers, and every word of it is derived from the run.
pub fn answer(run: &Run) -> String {
    if let Some(audit) = &run.audit {
        return of_audit(audit);
    }
    let mut parts = Vec::new();
    let tried: Vec<&ScenarioResult> = run.scenarios.iter().filter(|s| !s.is_control()).collect();
    if !tried.is_empty() {
        parts.extend(exclusion(&tried));
        parts.extend(fastest_safe(run, &tried));
    } else {
        if !run.rows.is_empty() {
            parts.extend(figures(run));
        }
        if !run.scenarios.is_empty() {
            let only = if parts.is_empty() { "Only" } else { "only" };
            parts.push(format!("{only} controls ran: {}", controls(run)));
        }
    }
    match parts.is_empty() {
        true => "Nothing was measured.".to_owned(),
        false => format!("{}.", parts.join("; ")),
    }
}

/// What each lock of an audit broke; of many only how many broke what another one kept.
fn of_audit(audit: &Audit) -> String {
    let of_subject = |subject: &AuditedSubject| {
        let score = &subject.score;
        let could = score.kept + score.broken;
        let unknown = match score.unknown {
            0 => String::new(),
            unknown => format!("; of {unknown} more too little is known"),
        };
        match score.broken {
            0 if could == 0 => format!(
                "{} was tried on nothing that a lock can keep{unknown}",
                subject.name
            ),
            0 => format!(
                "{} kept all of {could} {} that a lock can keep{unknown}",
                subject.name,
                units::plural(could as usize, "scenario")
            ),
            broken => format!(
                "{} broke {broken} of {could} {} that a lock can keep{unknown}",
                subject.name,
                units::plural(could as usize, "scenario")
            ),
        }
    };
    let subjects = &audit.subjects;
    if subjects.len() <= NAMED {
        let all: Vec<String> = subjects.iter().map(of_subject).collect();
        return match all.is_empty() {
            true => "Nothing was tried.".to_owned(),
            false => format!("{}.", all.join("; ")),
        };
    }
    let broke = subjects.iter().filter(|subject| subject.score.broken > 0);
    format!(
        "{} of {} locks broke something that a sound lock kept in the same run.",
        broke.count(),
        subjects.len()
    )
}

/// What is small print: how the run compares with what it expects, for CI, and whether the controls were seen through.
pub fn small_print(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    // What the scenarios of an audit expect is of other locks.
    let total = match &run.audit {
        Some(audit) => {
            lines.push(audit.score().words());
            0
        }
        None => run.scenarios.len(),
    };
    let count = |outcome| {
        let all = run.scenarios.iter();
        all.filter(|result| result.outcome() == outcome).count()
    };
    if total > 0 {
        let mut words = format!(
            "{} of {total} {} as expected",
            count(Outcome::AsExpected),
            units::plural(total, "scenario")
        );
        for (outcome, text) in [
            (Outcome::NotAsExpected, "not as expected"),
            (Outcome::Unknown, "unknown"),
            (Outcome::None, "without expectation"),
        ] {
            if count(outcome) > 0 {
                words.push_str(&format!(", {} {text}", count(outcome)));
            }
        }
        lines.push(words);
        if run.scenarios.iter().any(ScenarioResult::is_control)
            && !run.scenarios.iter().all(ScenarioResult::is_control)
        {
            lines.push(format!("controls: {}", controls(run)));
        }
    }
    if !run.rows.is_empty() {
        lines.push(quotable(run));
    }
    lines
}

fn controls(run: &Run) -> String {
    let all: Vec<_> = run.scenarios.iter().filter(|s| s.is_control()).collect();
    let seen = all.iter().filter(|result| {
        let mut verdicts = result.verdicts.iter();
        verdicts.any(|(_, verdict)| verdict.state == State::Violated)
    });
    let locks = if all.len() == 1 {
        "lock known to be broken was"
    } else {
        "locks known to be broken were"
    };
    format!("{} of {} {locks} convicted", seen.count(), all.len())
}

fn quotable(run: &Run) -> String {
    let total = run.rows.len();
    format!(
        "{} of {total} benchmark {} may be quoted",
        run.rows.iter().filter(|row| may_be_quoted(row)).count(),
        units::plural(total, "row")
    )
}

fn exclusion(tried: &[&ScenarioResult]) -> Vec<String> {
    let mut worst = BTreeMap::new();
    for result in tried {
        let standing = worst
            .entry(result.configuration())
            .or_insert(Standing::Kept);
        *standing = (*standing).max(result.standing());
    }
    let count = |standing| worst.values().filter(|found| **found == standing).count();
    let (total, kept) = (worst.len(), count(Standing::Kept));
    let under = match tried
        .iter()
        .filter(|result| result.faults.is_empty())
        .count()
    {
        0 => "under every fault tried",
        none if none == tried.len() => "while no fault was tried",
        _ => "under every fault tried and without one",
    };
    let mut parts = vec![match (kept, total) {
        (1, 1) => format!("The one configuration tried kept mutual exclusion {under}"),
        (kept, total) if kept == total => {
            format!("All {total} configurations kept mutual exclusion {under}")
        }
        (0, _) => format!(
            "None of {total} {} is shown to keep mutual exclusion {under}",
            units::plural(total, "configuration")
        ),
        _ => format!("{kept} of {total} configurations kept mutual exclusion {under}"),
    }];
    parts.extend(losses(tried));
    let outlived = count(Standing::Outlived);
    if outlived > 0 {
        let verb = if outlived == 1 { "keeps" } else { "keep" };
        parts.push(format!(
            "{outlived} {verb} the lock's contract, yet callers acted at once or wrote late there ({})",
            names(tried, |result| result.standing() == Standing::Outlived)
        ));
    }
    if count(Standing::Unknown) > 0 {
        parts.push(format!(
            "of {} too little is known ({})",
            count(Standing::Unknown),
            names(tried, |result| result.standing() == Standing::Unknown)
        ));
    }
    let stuck = |result: &ScenarioResult| result.verdicts.liveness.state == State::Violated;
    if tried.iter().any(|result| stuck(result)) {
        parts.push(format!(
            "a free lock was not granted in {}",
            names(tried, stuck)
        ));
    }
    parts
}

/// `failover-async lost it 3 times, worst 3.5 s`, the worst first; repeats of a scenario are one.
fn losses(tried: &[&ScenarioResult]) -> Vec<String> {
    let mut lost: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let all = tried.iter().filter(|r| r.standing() == Standing::Lost);
    for result in all {
        let verdicts = &result.verdicts;
        let verdict = match verdicts.contract.state {
            State::Violated => &verdicts.contract,
            _ => &verdicts.confirmed,
        };
        let (times, worst_ns) = lost
            .entry((result.name.as_str(), result.configuration()))
            .or_default();
        *times += verdict.count.max(1);
        *worst_ns = (*worst_ns).max(verdict.worst_ns);
    }
    let mut lost: Vec<_> = lost.into_iter().collect();
    lost.sort_by_key(|(_, (times, worst_ns))| std::cmp::Reverse((*worst_ns, *times)));
    let mut parts: Vec<String> = lost
        .iter()
        .take(NAMED)
        .map(|((name, (topology, subject, _, _)), (times, worst_ns))| {
            let again = |(other, _): &&((&str, _), (u64, u64))| other.0 == *name;
            let place = match lost.iter().filter(again).count() {
                1 => String::new(),
                _ => format!(" on {topology} with {subject}"),
            };
            let times = match times {
                1 => "once".to_owned(),
                times => format!("{} times", units::count(*times)),
            };
            let worst = match worst_ns {
                0 => String::new(),
                ns => format!(", worst {}", units::duration(*ns)),
            };
            format!("{name}{place} lost it {times}{worst}")
        })
        .collect();
    if lost.len() > NAMED {
        parts.push(format!("{} further lost it too", lost.len() - NAMED));
    }
    parts
}

fn names(tried: &[&ScenarioResult], wanted: impl Fn(&ScenarioResult) -> bool) -> String {
    let names: BTreeSet<&str> = tried
        .iter()
        .filter(|result| wanted(result))
        .map(|result| result.name.as_str())
        .collect();
    let mut words: Vec<String> = names.iter().take(NAMED).map(|n| (*n).to_owned()).collect();
    if names.len() > NAMED {
        words.push(format!("{} more", names.len() - NAMED));
    }
    words.join(", ")
}

fn may_be_quoted(row: &BenchRow) -> bool {
    stands(row, State::Clean)
}

/// Whether its figures stand, and its safety is not known: as of a lock that runs a loop of its own.
fn is_unjudged(row: &BenchRow) -> bool {
    stands(row, State::Unknown)
}

/// Whether its figures stand, beside this word on its safety.
fn stands(row: &BenchRow, safety: State) -> bool {
    row.valid && row.safety.state == safety && row.cycles_per_s.median.is_finite()
}

/// The fastest row whose configuration kept mutual exclusion in every scenario of this run.
fn fastest_safe(run: &Run, tried: &[&ScenarioResult]) -> Option<String> {
    let safe = |row: &BenchRow| {
        let mut of_row = tried.iter().filter(|result| {
            (&result.subject, &result.topology) == (&row.subject, &row.topology)
                && bare(&result.durability) == bare(&row.measures.load.durability)
        });
        of_row.clone().next().is_some() && of_row.all(|r| r.standing() == Standing::Kept)
    };
    fastest(run, safe).map(|words| format!("fastest safe: {words}"))
}

fn figures(run: &Run) -> Vec<String> {
    let void = run.rows.iter().filter(|row| is_void(row));
    let mut parts: Vec<String> = match fastest(run, |_| true) {
        Some(words) => vec![format!("Fastest: {words}")],
        None if run.rows.iter().any(is_unjudged) => {
            vec!["Nobody judged whether the locks were safe while they were measured".to_owned()]
        }
        None => vec!["No benchmark row may be quoted".to_owned()],
    };
    match void.count() {
        0 => {}
        void => parts.push(format!(
            "{void} void, since the lock was not safe while it was measured"
        )),
    }
    parts
}

/// The fastest of the largest group of rows under one load; whom it is not shown to beat is named too.
fn fastest(run: &Run, safe: impl Fn(&BenchRow) -> bool) -> Option<String> {
    let mut groups: Vec<(_, Vec<&BenchRow>)> = Vec::new();
    for row in run
        .rows
        .iter()
        .filter(|row| may_be_quoted(row) && safe(row))
    {
        let mut load = row_load(row);
        load.retain(|(name, _)| *name != "durability");
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
    let close: Vec<String> = others
        .iter()
        .filter(|row| row.cycles_per_s.high.is_none_or(|high| high >= low))
        .map(|row| format!("{} on {}", row.subject, row.topology))
        .take(NAMED)
        .collect();
    let beside = match close.as_slice() {
        [] => String::new(),
        close => format!(", not shown to be faster than {}", close.join(", ")),
    };
    Some(format!(
        "{} on {}, {} cycles/s{} ({}, {} {}{beside})",
        best.subject,
        best.topology,
        units::figure(best.cycles_per_s.median),
        behind(&best.cycles_per_s),
        best.workload,
        best.tasks,
        units::plural(best.tasks as usize, "task"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{around, scenario};

    fn row(subject: &str, topology: &str, median: f64) -> BenchRow {
        crate::samples::row(subject, topology, around(median, 0.05))
    }

    fn run(scenarios: Vec<ScenarioResult>, rows: Vec<BenchRow>) -> Run {
        crate::samples::run("runs/x", rows, scenarios)
    }

    #[test]
    fn who_kept_and_who_lost_is_counted_by_configuration() {
        let a = scenario("failover-async", "sentinel", State::Violated);
        let b = scenario("kill", "single", State::Clean);
        let mut two = run(vec![a.clone(), b.clone()], Vec::new());
        assert_eq!(
            answer(&two),
            "1 of 2 configurations kept mutual exclusion under every fault tried; failover-async lost it 3 times, worst 3.5 s."
        );
        // The same server with and without persistence are two.
        let mut aof = b.clone();
        aof.server_config
            .insert("appendonly".to_owned(), "yes".to_owned());
        two.scenarios.push(aof);
        assert!(answer(&two).starts_with("2 of 3 "), "{}", answer(&two));
        assert_eq!(
            answer(&run(vec![a], Vec::new())),
            "None of 1 configuration is shown to keep mutual exclusion under every fault tried; failover-async lost it 3 times, worst 3.5 s."
        );
        assert_eq!(
            answer(&run(vec![b], Vec::new())),
            "The one configuration tried kept mutual exclusion under every fault tried."
        );
    }

    #[test]
    fn a_loss_under_one_fault_outweighs_all_others_and_no_fault_is_said() {
        let clean = scenario("kill", "single", State::Clean);
        let lost = scenario("flushall", "single", State::Violated);
        let words = answer(&run(vec![clean.clone(), lost], Vec::new()));
        assert!(words.starts_with("None of 1 configuration"), "{words}");
        let mut calm = clean;
        calm.faults.clear();
        let words = answer(&run(vec![calm], Vec::new()));
        assert!(words.ends_with("while no fault was tried."), "{words}");
    }

    #[test]
    fn what_is_not_known_is_never_kept() {
        let known = scenario("kill", "single", State::Clean);
        let mut without_effect = scenario("delay", "cluster", State::Clean);
        without_effect.faults[0].bit = false;
        let mut hole = scenario("pause", "sentinel", State::Clean);
        hole.incomplete.push("a client died".to_owned());
        for doubt in [
            scenario("drop", "masters", State::Unknown),
            without_effect,
            hole,
        ] {
            let name = doubt.name.clone();
            let words = answer(&run(vec![known.clone(), doubt], Vec::new()));
            assert!(words.starts_with("1 of 2 configurations kept"), "{words}");
            assert!(
                words.contains(&format!("of 1 too little is known ({name})")),
                "{words}"
            );
        }
    }

    #[test]
    fn acting_after_the_lease_and_standing_still_are_said() {
        let mut late = scenario("short-lease", "single", State::Clean);
        late.verdicts.belief.state = State::Violated;
        late.verdicts.liveness.state = State::Violated;
        let words = answer(&run(vec![late], Vec::new()));
        assert!(words.starts_with("None of 1 "), "{words}");
        assert!(
            words.contains("acted at once or wrote late there (short-lease)"),
            "{words}"
        );
        assert!(
            words.contains("a free lock was not granted in short-lease"),
            "{words}"
        );
    }

    #[test]
    fn controls_are_no_configurations() {
        let mut control = scenario("steal", "single", State::Violated);
        control.subject = "broken:steal".to_owned();
        let mut missed = control.clone();
        missed.verdicts.contract.state = State::Clean;
        let alone = run(vec![control.clone(), missed], Vec::new());
        assert_eq!(
            answer(&alone),
            "Only controls ran: 1 of 2 locks known to be broken were convicted."
        );
        let mut measured = run(Vec::new(), vec![row("lock-core:plain", "single", 400.0)]);
        measured.scenarios = alone.scenarios;
        let words = answer(&measured);
        assert!(
            words.starts_with("Fastest: lock-core:plain")
                && words.contains("; only controls ran: 1 of 2"),
            "{words}"
        );
        let beside = run(
            vec![scenario("kill", "single", State::Clean), control],
            Vec::new(),
        );
        assert!(answer(&beside).starts_with("The one configuration tried kept"));
        assert!(
            small_print(&beside)
                .contains(&"controls: 1 of 1 lock known to be broken was convicted".to_owned())
        );
    }

    #[test]
    fn the_fastest_safe_lost_nothing_and_its_rival_is_named() {
        let scenarios = vec![
            scenario("failover-async", "sentinel", State::Violated),
            scenario("kill", "single", State::Clean),
            scenario("reshard", "cluster", State::Clean),
        ];
        let rows = vec![
            row("lock-core:reentrant", "sentinel", 9_000.0),
            row("lock-core:reentrant", "single", 500.0),
            row("lock-core:reentrant", "cluster", 490.0),
            row("lock-core:plain", "single", 8_000.0),
        ];
        let words = answer(&run(scenarios.clone(), rows));
        assert!(
            words.ends_with(
                "fastest safe: lock-core:reentrant on single, 500 cycles/s (475–525) (uncontended, 16 tasks, not shown to be faster than lock-core:reentrant on cluster)."
            ),
            "{words}"
        );
        let unsafe_only = vec![row("lock-core:reentrant", "sentinel", 9_000.0)];
        let words = answer(&run(scenarios, unsafe_only));
        assert!(!words.contains("fastest"), "{words}");
    }

    #[test]
    fn benchmarks_alone_say_which_is_fastest_and_what_is_void() {
        let mut void = row("broken:fast", "single", 90_000.0);
        void.safety.state = State::Violated;
        let slow = row("lock-core:plain", "single", 400.0);
        let words = answer(&run(Vec::new(), vec![void.clone(), slow]));
        assert_eq!(
            words,
            "Fastest: lock-core:plain on single, 400 cycles/s (380–420) (uncontended, 16 tasks); 1 void, since the lock was not safe while it was measured."
        );
        let mut own_loop = row("peer:theirs", "single", 400.0);
        own_loop.safety.state = State::Unknown;
        let words = answer(&run(Vec::new(), vec![own_loop]));
        assert!(words.starts_with("Nobody judged"), "{words}");
        let none = answer(&run(Vec::new(), vec![void]));
        assert!(
            none.starts_with("No benchmark row may be quoted; 1 void"),
            "{none}"
        );
        assert_eq!(
            answer(&run(Vec::new(), Vec::new())),
            "Nothing was measured."
        );
    }
}
