//! A run on one screen: the answer first and last, two lines for each loss, one for each kept lock.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use itertools::Itertools;

use super::text_layout::{GREY, columns, finish, paint, tone_color, warning, wrap};
use super::{TextOptions, headline, summary};
use crate::answer::{self, Tone};
use crate::audit::{AuditOutcome, AuditedScenario};
use crate::record::figure::{ACQUIRE_P50, ACQUIRE_P99, CYCLES, Figure, HANDOFF_P50};
use crate::record::measures::bare;
use crate::record::run::{BenchRow, NotApplicable, Run, ScenarioResult, with_origin};
use crate::record::verdict::{State, Verdict};
use crate::report::cells::{self, printable};
use crate::report::sections;
use crate::wording::command_line::shell_line;
use crate::wording::units::{self, enclosed};

/// So many lines are printed where nobody asked for more.
const LINES_MAX: usize = 43;

/// From so many columns on there are tables; a narrower terminal gets lists.
const TABLE_WIDTH: u16 = 90;

/// So many losses are listed, with two lines each; of the others the number is said.
const LOSSES_MAX: usize = 8;
/// So many rows, lines of doubt, warnings and reasons.
const ROWS_MAX: usize = 12;
const DOUBTS_MAX: usize = 4;
const REASONS_MAX: usize = 3;

const COMMAND: &str = "        locklab ";

/// What a screen has beside the run.
#[derive(Debug, Clone, Default)]
pub struct ScreenOptions {
    /// Say why each scenario does not apply, not only how many for which reason.
    pub all_reasons: bool,
    /// What changed against the last run of the same command.
    pub changes: Vec<String>,
    /// Where the page is, as a link; empty where there is none.
    pub page: String,
}

struct Entry {
    tone: Tone,
    mark: &'static str,
    name: String,
    place: String,
    said: String,
    shown_by: Option<String>,
    /// The run that has its records.
    keeper: String,
    weight_ns: u64,
}

/// The run on one screen.
pub fn screen(run: &Run, options: TextOptions, more: &ScreenOptions) -> String {
    if let Some(watch) = &run.watch {
        return super::watch::screen(run, watch, options, &more.page);
    }
    let width = usize::from(options.width.max(40));
    let mut above = Vec::new();
    above.extend(headline(run, false).lines().map(str::to_owned));
    let warnings = run.warnings.iter().take(REASONS_MAX);
    above.extend(warnings.map(|text| warning(text).trim_end().to_owned()));
    let further = run.warnings.len().saturating_sub(REASONS_MAX);
    above.extend((further > 0).then(|| warning(&format!("{further} more warnings (--verbose)"))));
    above.extend(run.partial.then(|| warning("the run was cut short: this was measured until then")));
    let mut entries = by_reason(entries(run));
    let place = |entry: &Entry| (entry.name.clone(), entry.place.clone());
    entries.sort_by_cached_key(|entry| (order(entry.tone), Reverse(entry.weight_ns), place(entry)));
    let table = options.width >= TABLE_WIDTH;
    let of = |tone: Tone| -> Vec<&Entry> { entries.iter().filter(|entry| entry.tone == tone).collect() };
    let lost = of(Tone::Lost);
    let mut below = inherent(run);
    below.extend(not_applicable(run, more.all_reasons));
    let mut last: Vec<String> = match run.sweeps.as_slice() {
        [] => rows(run, table, width),
        sweeps => {
            let sections = sweeps.iter().enumerate().map(sections::sweep).collect();
            summary::blocks(sections, options.width).lines().map(str::to_owned).collect()
        }
    };
    last.extend(compared(run));
    let mut end: Vec<String> = more.changes.iter().map(|line| printable(line)).collect();
    end.extend(repeated(run, &lost));
    end.extend(lost.first().map(|entry| {
        let again = ["replay", &entry.keeper, "--shrink"].map(str::to_owned);
        format!(
            "next: `locklab {}` finds the smallest scenario that still loses it; `locklab init` keeps it judged in CI",
            shell_line(&again)
        )
    }));
    end.extend((!more.page.is_empty()).then(|| format!("page: {}", more.page)));
    let long =
        |lines: &[String]| -> usize { lines.iter().map(|line| wrap(line, width, 8).lines().count()).sum() };
    let fixed = [&above, &below, &last, &end];
    let fixed: usize = fixed.iter().map(|lines| long(lines) + usize::from(!lines.is_empty())).sum();
    let list = |kept: usize| -> Vec<String> {
        let groups = [
            (lost.clone(), LOSSES_MAX, "lost"),
            (of(Tone::Doubt), DOUBTS_MAX, "unknown"),
            (of(Tone::Kept), kept, "kept"),
            (of(Tone::Plain), REASONS_MAX, "controls"),
        ];
        listed(&groups, width)
    };
    // What was kept gives way first.
    let rest = long(&list(1));
    let mut middle = list(LINES_MAX.saturating_sub(fixed + rest).max(2));
    middle.extend(below);
    let mut out = String::new();
    for lines in [above, middle, last, end] {
        out.extend((!lines.is_empty() && !out.is_empty()).then_some('\n'));
        for line in lines {
            // A link opens as it stands, and a command is copied.
            out += &match line.starts_with("page: ") || line.starts_with(COMMAND) {
                true => line,
                false => wrap(&line, width, 8),
            };
            out.push('\n');
        }
    }
    finish(&out, options.color)
}

/// What is unknown for one and the same reason is one entry, as where a driver does not start.
fn by_reason(entries: Vec<Entry>) -> Vec<Entry> {
    let (unknown, mut others): (Vec<Entry>, Vec<Entry>) =
        (entries.into_iter()).partition(|entry| entry.tone == Tone::Doubt && entry.mark == "?");
    for mut group in unknown.into_iter().into_group_map_by(|entry| entry.said.clone()).into_values() {
        if group.len() >= REASONS_MAX {
            let names = group.iter().take(REASONS_MAX - 1).map(|entry| &entry.name);
            let place = format!("{} and others", names.unique().join(", "));
            let name = format!("{} scenarios", group.len());
            let first = group.swap_remove(0);
            group = vec![Entry { name, place, ..first }];
        }
        others.extend(group);
    }
    others
}

/// Losses first, then what is not known, what was kept, and controls.
fn order(tone: Tone) -> u8 {
    match tone {
        Tone::Lost => 0,
        Tone::Doubt => 1,
        Tone::Kept => 2,
        Tone::Detail | Tone::Plain => 3,
    }
}

fn entries(run: &Run) -> Vec<Entry> {
    let Some(audit) = &run.audit else {
        let groups = run.scenarios.iter().into_group_map_by(|result| {
            (&result.name, result.place(), &result.durability, &result.server_config)
        });
        return groups.into_values().map(|group| of_results(run, &group)).collect();
    };
    let several = audit.subjects.len() > 1;
    let of_subject = audit.subjects.iter().flat_map(|subject| {
        let name = if several { subject.name.as_str() } else { "" };
        subject.scenarios.iter().filter_map(move |scenario| of_audited(run, name, scenario))
    });
    of_subject.collect()
}

/// A scenario of an audit; those that are inherent or do not apply are counted elsewhere.
fn of_audited(run: &Run, subject: &str, scenario: &AuditedScenario) -> Option<Entry> {
    let result = run.decisive(scenario);
    let (tone, mark) = match scenario.outcome {
        AuditOutcome::Broken if scenario.is_lost() => (Tone::Lost, "LOST"),
        AuditOutcome::Broken => (Tone::Lost, "broken"),
        AuditOutcome::Unknown => (Tone::Doubt, "?"),
        AuditOutcome::Kept => (Tone::Kept, "kept"),
        AuditOutcome::Inherent | AuditOutcome::NotApplicable => return None,
    };
    let worst = result.and_then(ScenarioResult::gravest);
    let said = match tone {
        Tone::Lost => {
            let defect = match scenario.defect.as_str() {
                "" => scenario.why.as_str(),
                defect => defect,
            };
            let long = worst.map(|verdict| enclosed(", ", &long(verdict), ""));
            let at = result.and_then(ScenarioResult::granted_at);
            let at = enclosed(" (", &at.unwrap_or_default(), ")");
            format!("{defect}{}{at}", long.unwrap_or_default())
        }
        Tone::Kept => without(scenario.without_grant_ns),
        _ => scenario.why.clone(),
    };
    let keeper = run.keeper(scenario.decisive().map_or("", |decided| &decided.dir)).to_owned();
    let known = run.scenarios.iter().any(|one| one.name == scenario.name);
    let shown_by = match known {
        true => Some(show(&keeper, &scenario.name)),
        false => scenario.commands(&run.run).first().map(|line| line.replacen("locklab ", "", 1)),
    };
    Some(Entry {
        tone,
        mark,
        name: scenario.name.clone(),
        place: match subject {
            "" => scenario.topology.clone(),
            subject => format!("{}, {subject}", scenario.topology),
        },
        said,
        shown_by: shown_by.filter(|_| tone == Tone::Lost),
        keeper,
        weight_ns: weight(tone, worst, scenario.without_grant_ns),
    })
}

/// The repeats of a scenario: the worst decides.
fn of_results(run: &Run, group: &[&ScenarioResult]) -> Entry {
    let rank =
        |one: &&&ScenarioResult| (one.is_lost(), one.exit_code == 2, one.gravest().map(|v| v.worst_ns));
    let worst = group.iter().max_by_key(rank).copied().unwrap_or(group[0]);
    let lost = group.iter().filter(|one| one.is_lost()).count();
    let of = match group.len() {
        1 => String::new(),
        all => format!(" (in {lost} of {all} runs)"),
    };
    let (tone, mark) = match worst.answer_tone() {
        _ if worst.is_control() && lost > 0 => (Tone::Plain, "seen"),
        _ if worst.is_control() => (Tone::Doubt, "missed"),
        Tone::Lost => (Tone::Lost, "LOST"),
        Tone::Kept => (Tone::Kept, "kept"),
        _ => (Tone::Doubt, "?"),
    };
    let said = match (tone, worst.gravest()) {
        (Tone::Lost, Some(verdict)) => {
            let at = enclosed(" (", &worst.granted_at().unwrap_or_default(), ")");
            format!("two owners {}{of}{at}", long(verdict))
        }
        (Tone::Plain, Some(verdict)) => {
            format!("convicted {}", long(verdict))
        }
        (Tone::Kept, _) => without(worst.without_grant_ns) + &of,
        _ => worst.said() + &of,
    };
    let durability = enclosed(", ", bare(&worst.durability), "");
    // Which server it was matters where there are several.
    let servers = run.scenarios.iter().map(|one| &one.server).all_equal();
    let server = if servers { "" } else { &worst.server };
    let server = with_origin(enclosed(", ", server, ""), &worst.origin);
    let keeper = run.keeper(&worst.dir);
    Entry {
        tone,
        mark,
        name: worst.name.clone(),
        place: format!("{}, {}{durability}{server}", worst.topology, worst.subject),
        said,
        shown_by: (tone == Tone::Lost).then(|| show(keeper, &worst.name)),
        keeper: keeper.to_owned(),
        weight_ns: weight(tone, worst.gravest(), worst.without_grant_ns),
    }
}

fn show(run: &str, scenario: &str) -> String {
    let words = ["report", run, "--scenario", scenario];
    shell_line(&words.map(str::to_owned))
}

/// `3 times, 504 ms at worst`.
fn long(verdict: &Verdict) -> String {
    let times = units::times(verdict.count.max(1));
    match verdict.worst_ns {
        0 => times,
        ns if verdict.count <= 1 => format!("for {}", time(ns)),
        ns => format!("{times}, for {} at worst", time(ns)),
    }
}

/// A duration whose unit stays beside it.
fn time(ns: u64) -> String {
    units::duration(ns).replace(' ', "\u{a0}")
}

fn without(ns: Option<u64>) -> String {
    ns.map_or(String::new(), |ns| format!("{} without a grant", time(ns)))
}

fn weight(tone: Tone, verdict: Option<&Verdict>, without_grant_ns: Option<u64>) -> u64 {
    match tone {
        Tone::Kept => without_grant_ns.unwrap_or(0),
        _ => verdict.map_or(0, |verdict| verdict.worst_ns),
    }
}

fn entry_line(words: &[String]) -> String {
    let [mark, name, place, said] = words else {
        return words.join("  ");
    };
    format!("{mark}  {name}, {place}{}", enclosed(": ", said, ""))
}

/// A group of entries, how many of them are shown, and the word for the others.
type Group<'a> = (Vec<&'a Entry>, usize, &'static str);

fn listed(groups: &[Group<'_>], width: usize) -> Vec<String> {
    let shown = |(entries, most, _): &Group<'_>| match entries.len() > *most {
        true => most.saturating_sub(1),
        false => entries.len(),
    };
    let words = groups.iter().flat_map(|group| &group.0[..shown(group)]).map(|entry| {
        let mark = paint(tone_color(entry.tone), entry.mark);
        let texts = [&entry.name, &entry.place, &entry.said].map(|text| printable(text));
        [mark].into_iter().chain(texts).collect::<Vec<_>>()
    });
    let words: Vec<Vec<String>> = words.collect();
    let lines = columns(&words, 0..0);
    // A table that does not fit would be no table.
    let fits = |line: &String| line.chars().count() <= width + 2;
    let mut lines = match width >= usize::from(TABLE_WIDTH) && lines.iter().all(fits) {
        true => lines,
        false => words.iter().map(|words| entry_line(words)).collect(),
    }
    .into_iter();
    let mut out = Vec::new();
    for group @ (entries, _, word) in groups {
        for (entry, line) in entries[..shown(group)].iter().zip(lines.by_ref()) {
            out.push(line);
            out.extend(entry.shown_by.as_ref().map(|line| format!("{COMMAND}{}", printable(line))));
        }
        let further = entries.len() - shown(group);
        out.extend((further > 0).then(|| format!("{further} more {word} (--verbose)")));
    }
    out
}

/// What no lock keeps, by what stands behind it.
fn inherent(run: &Run) -> Vec<String> {
    let subjects = run.audit.iter().flat_map(|audit| &audit.subjects);
    let scenarios = subjects.flat_map(|subject| subject.of(AuditOutcome::Inherent));
    let mut causes: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for scenario in scenarios {
        let cause = scenario.inherent.as_ref().map(|inherent| inherent.cause);
        causes.entry(cause.unwrap_or_default()).or_default().push(&scenario.name);
    }
    let line = |(cause, names): (crate::audit::InherentCause, Vec<&str>)| {
        let named = names.iter().unique().take(REASONS_MAX).join(", ");
        let more = names.iter().unique().count().saturating_sub(REASONS_MAX);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        printable(&format!("inherent in {}, {}: {named}{more}", names.len(), cause.words()))
    };
    causes.into_iter().map(line).collect()
}

fn not_applicable(run: &Run, all_reasons: bool) -> Vec<String> {
    let audited = run.audit.iter().flat_map(|audit| &audit.subjects).flat_map(|subject| {
        let scenarios = subject.of(AuditOutcome::NotApplicable);
        scenarios.map(|one| (reason(&one.why, &subject.name, &subject.library), one.name.as_str()))
    });
    let skipped = run.not_applicable.iter();
    let skipped =
        skipped.map(|NotApplicable { why, subject, name, .. }| (reason(why, subject, ""), name.as_str()));
    let reasons = audited.chain(skipped).into_group_map();
    let total: usize = reasons.values().map(Vec::len).sum();
    if total == 0 {
        return Vec::new();
    }
    let reasons: Vec<_> =
        reasons.into_iter().sorted_by_key(|(why, names)| (Reverse(names.len()), why.clone())).collect();
    if all_reasons {
        let each = reasons.iter().map(|(why, names)| {
            let names = names.iter().unique().join(", ");
            printable(&format!("not applicable: {why}: {names}"))
        });
        return each.collect();
    }
    let named = reasons.iter().take(REASONS_MAX);
    let named = named.map(|(why, names)| format!("{} {why}", names.len())).join("; ");
    let others: usize = reasons.iter().skip(REASONS_MAX).map(|(_, names)| names.len()).sum();
    let others = match others {
        0 => String::new(),
        others => format!("; {others} for other reasons"),
    };
    vec![paint(GREY, &printable(&format!("not applicable: {total}: {named}{others} (--all-reasons)")))]
}

/// A reason without the name of the lock, which the screen has already.
fn reason(why: &str, subject: &str, library: &str) -> String {
    let names = [subject, library].into_iter().filter(|name| !name.is_empty());
    let bare = names.fold(why, |why, name| why.strip_prefix(name).map_or(why, str::trim_start));
    bare.trim_end_matches('.').to_owned()
}

/// The heads of the table of rows: its figures are bare numbers, times in milliseconds.
const ROW_HEADS: [&str; 11] =
    ["LOCK", "on", "workload", "tasks", "cycles/s", "from", "to", "p50 ms", "p99 ms", "hand-off ms", "safe"];

fn rows(run: &Run, table: bool, width: usize) -> Vec<String> {
    let mut shown: Vec<&BenchRow> = run.rows.iter().collect();
    let further = shown.len().saturating_sub(ROWS_MAX);
    shown.truncate(ROWS_MAX);
    let cells = shown.iter().map(|row| {
        let ms = |figure: &Figure<BenchRow>| match (figure.of)(row) {
            Some(found) => units::figure(found.median / 1e6),
            None => "-".to_owned(),
        };
        let void = row.is_void();
        let figures = match void {
            true => ["void", "-", "-", "-", "-", "-"].map(str::to_owned),
            false => [
                CYCLES.words(row),
                row.cycles_per_s.low.map_or("-".to_owned(), units::figure),
                row.cycles_per_s.high.map_or("-".to_owned(), units::figure),
                ms(&ACQUIRE_P50),
                ms(&ACQUIRE_P99),
                ms(&HANDOFF_P50),
            ],
        };
        let safe = match row.safety.state {
            State::Violated => paint(tone_color(Tone::Lost), "LOST"),
            _ if !row.valid => paint(tone_color(Tone::Doubt), "invalid"),
            State::Clean => paint(tone_color(Tone::Kept), "kept"),
            State::Unknown => "not judged".to_owned(),
        };
        let mut words =
            vec![printable(&row.lock()), printable(&row.site()), row.workload.clone(), row.tasks.to_string()];
        words.extend(figures);
        words.push(safe);
        words
    });
    let mut cells: Vec<Vec<String>> = cells.collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let heads: Vec<String> = ROW_HEADS.map(str::to_owned).into();
    cells.insert(0, heads);
    let lines = columns(&cells, 3..ROW_HEADS.len() - 1);
    let fits = lines.iter().all(|line| line.chars().count() <= width + 2);
    let mut lines = match table && fits {
        true => lines,
        false => cells.iter().skip(1).map(|row| as_list(row)).collect(),
    };
    let invalid = run.rows.iter().filter_map(|row| Some((row, cells::why_invalid(row)?)));
    let invalid = invalid.into_group_map_by(|(_, why)| why.clone());
    for (why, rows) in invalid.into_iter().sorted_by_key(|(_, rows)| Reverse(rows.len())).take(REASONS_MAX) {
        let line = printable(&format!("{} of {} rows: {why}", rows.len(), run.rows.len()));
        lines.push(paint(tone_color(Tone::Doubt), &line));
    }
    lines.extend((further > 0).then(|| format!("{further} more rows (--verbose)")));
    lines
}

/// A row as an item of a list, without what was not measured.
fn as_list(row: &[String]) -> String {
    let place = format!("{} on {}, {}, {} tasks", row[0], row[1], row[2], row[3]);
    let figures = ROW_HEADS.iter().zip(row).skip(4).filter(|(head, word)| *word != "-" && **head != "safe");
    let figures = figures.map(|(head, word)| match head.strip_suffix(" ms") {
        Some(name) => format!("{name} {word} ms"),
        None if *head == "cycles/s" => format!("{word} cycles/s"),
        None => format!("{head} {word}"),
    });
    format!("{place}: {}", figures.chain(row.last().cloned()).join(", "))
}

fn compared(run: &Run) -> Vec<String> {
    let is_shown = |verdict: &str| ["better", "worse"].contains(&verdict);
    let (shown, not): (Vec<_>, Vec<_>) = run.comparisons.iter().partition(|one| is_shown(&one.verdict));
    let mut lines: Vec<String> = shown
        .iter()
        .filter(|one| one.metric == CYCLES.name)
        .take(DOUBTS_MAX)
        .map(|one| {
            let ratio = cells::ratio(&one.ratio);
            printable(&format!(
                "{} against {}: {ratio} times the cycles/s, {} ({})",
                one.b, one.a, one.verdict, one.r#where
            ))
        })
        .collect();
    let further = shown.len() - lines.len();
    if further + not.len() > 0 {
        let words = format!("differences beside these: {further} shown, {} not (--verbose)", not.len());
        lines.push(paint(GREY, &words));
    }
    lines
}

/// What became of the lock once more, for who reads the end alone.
fn repeated(run: &Run, lost: &[&Entry]) -> Vec<String> {
    if lost.is_empty() {
        let parts = answer::parts(run);
        let first = parts.first().map(|(tone, words)| paint(tone_color(*tone), &printable(words)));
        return first.into_iter().collect();
    }
    let named = lost.iter().take(LOSSES_MAX).map(|entry| match entry.weight_ns {
        0 => entry.name.clone(),
        ns => format!("{} {}", entry.name, time(ns)),
    });
    let further = lost.len().saturating_sub(LOSSES_MAX);
    let words = format!("LOST: {}", named.chain((further > 0).then(|| format!("{further} more"))).join(", "));
    vec![paint(tone_color(Tone::Lost), &printable(&words))]
}
