//! What became of the lock: a row per topology and fault, its set-ups side by side; and the verdicts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;

use super::scenario::{came_out, id};
use super::{Block, PAGE, PLAIN, not_applicable};
use crate::answer::{ExclusionOutcome, Tone};
use crate::record::measures::bare;
use crate::record::run::{Outcome, Run, ScenarioResult};
use crate::record::verdict::{CLASSES, Verdict, meaning};
use crate::report::cells;
use crate::report::document::{Cell, Form, Phrase, Row, Table};
use crate::report::fault_words::fault_words;
use crate::report::number_among;
use crate::report::two_owners::two_owners;
use crate::wording::units;

pub(super) fn sections(run: &Run) -> Vec<Block> {
    let rows = rows(run);
    let picture = pictured(&rows).map(|two| Block::only(PAGE, vec![two]));
    let table = Table {
        class: "matrix",
        ..Table::new(
            "What became of the lock in every set-up",
            ["servers and faults", "set-ups, the worst first"],
            usize::MAX,
            rows.iter().map(OutcomeRow::described),
        )
    };
    let matrix = Block::section("matrix-h", "What became of the lock", vec![Block::Table(table)]);
    let matrix = Block::only(&[Form::Html, Form::Markdown], vec![matrix]);
    let mut blocks = picture.into_iter().chain([matrix]).collect_vec();
    blocks.push(Block::only(PAGE, vec![super::warnings(run)]));
    blocks.push(not_applicable(run));
    blocks.push(Block::section("servers-h", "Servers", vec![Block::Table(servers(run))]));
    let verdicts = Block::section("verdicts", "Verdicts", vec![Block::Table(verdicts(run))]);
    blocks.push(Block::only(PLAIN, vec![verdicts]));
    blocks
}

/// One line: what each configuration means at one failover a month, with its longest measured outage.
pub(super) fn risk(run: &Run) -> Option<Block> {
    let mut longest = BTreeMap::new();
    for risk in run.scenarios.iter().filter_map(|result| result.risk.as_ref()) {
        let of_this = longest.entry(&risk.configuration).or_insert(risk);
        if risk.outage_ns > of_this.outage_ns {
            *of_this = risk;
        }
    }
    let service = &longest.values().next()?.service;
    let each = longest.values().map(|risk| {
        format!(
            "{} double grants a year for {} ({} from the kill to the next grant)",
            units::figure(risk.double_grants_per_year),
            risk.configuration,
            units::duration(risk.outage_ns)
        )
    });
    let line = format!(
        "At one failover a month a usual service ({service}) would have {}. Yours: locklab risk --from {}",
        each.format("; "),
        run.run
    );
    Some(Block::section("risk-h", "What a failover a month means", vec![Block::note(line)]))
}

/// The set-ups that met the same faults on the same topology, each once.
struct OutcomeRow<'a> {
    place: &'a str,
    faults: String,
    set_ups: Vec<SetUp<'a>>,
}

struct SetUp<'a> {
    result: &'a ScenarioResult,
    id: String,
    label: String,
}

impl OutcomeRow<'_> {
    fn described(&self) -> Row {
        let words = self.set_ups.iter().map(SetUp::words);
        let place = Cell::from(self.place).with_small([self.faults.clone()]);
        let set_ups = Cell { words: words.collect(), ..Cell::default() };
        let came_out = self.set_ups.iter().map(|set_up| came_out(set_up.result));
        let order = ["clean", "convicted", "surprising"];
        let worst = came_out.max_by_key(|word| order.iter().position(|known| known == word));
        let behind = self.set_ups.iter().map(SetUp::verdicts).collect();
        Row {
            part: format!("row {}", worst.unwrap_or_default()),
            behind: Some(("Verdicts", behind)),
            ..[place, set_ups].into_iter().collect()
        }
    }
}

impl SetUp<'_> {
    fn words(&self) -> Phrase {
        let result = self.result;
        let [contract, belief] = [&result.verdicts.contract, &result.verdicts.belief];
        let [contract, belief] = [contract, belief].map(|verdict| verdict.state.glyph());
        let control = if result.is_control() { ", a control" } else { "" };
        Phrase {
            label: format!("{}{control}: contract {contract} belief {belief}", self.label),
            ..outcome(result).to(format!("{}-contract", self.id))
        }
    }

    fn verdicts(&self) -> Vec<Phrase> {
        let result = self.result;
        let verdicts = result.verdicts.iter().map(|(class, verdict)| {
            let words = Phrase::verdict(verdict);
            Phrase {
                text: format!("{class} {}", words.text),
                about: meaning(class).to_owned(),
                ..words.to(format!("{}-{class}", self.id))
            }
        });
        let name = Phrase::from(result.name.as_str()).to(&self.id);
        let recovery = format!("first grant after the fault: {}", cells::recovery(result));
        let beside = [recovery, cells::outcome(result.outcome())].map(Phrase::from);
        std::iter::once(name).chain(verdicts).chain(beside).collect()
    }
}

/// All rows, those of controls last.
fn rows(run: &Run) -> Vec<OutcomeRow<'_>> {
    let mut subjects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for result in &run.scenarios {
        subjects.entry(&result.topology).or_default().insert(&result.subject);
    }
    let mut times = BTreeMap::new();
    let mut rows: BTreeMap<_, Vec<SetUp<'_>>> = BTreeMap::new();
    for (index, result) in run.scenarios.iter().enumerate() {
        // A set-up that is tried again stands in the next row of its kind.
        let place = (result.is_control(), result.topology.as_str(), fault_words(result));
        let again = number_among(&mut times, (place.clone(), result.configuration()));
        rows.entry((place, again)).or_default().push(SetUp {
            result,
            id: id(index),
            label: label(result, subjects[result.topology.as_str()].len() > 1),
        });
    }
    let rows = rows.into_iter().map(|(((is_control, place, faults), _), mut set_ups)| {
        set_ups.sort_by_key(|set_up| gravity(set_up.result));
        ((is_control, gravity(set_ups[0].result)), OutcomeRow { place, faults, set_ups })
    });
    rows.sorted_by_key(|(order, _)| *order).map(|(_, row)| row).collect()
}

/// What to sort by: the worst first.
fn gravity(result: &ScenarioResult) -> impl Ord + Copy + use<> {
    Reverse((result.standing(), result.losing().map_or(0, |verdict| verdict.worst_ns)))
}

fn outcome(result: &ScenarioResult) -> Phrase {
    let silence = result.without_grant_ns.map(units::duration);
    let silence = units::enclosed(", ", &silence.unwrap_or_default(), " without a grant");
    let (tone, words) = match result.standing() {
        ExclusionOutcome::Lost => (Tone::Lost, result.losing().map_or("lost".to_owned(), lost)),
        ExclusionOutcome::Unknown => (Tone::Doubt, "unknown".to_owned()),
        ExclusionOutcome::Outlived => (Tone::Doubt, format!("kept{silence}; callers outlived it")),
        ExclusionOutcome::Kept => (Tone::Kept, format!("kept{silence}")),
    };
    Phrase::new(tone, words)
}

fn lost(verdict: &Verdict) -> String {
    let long = units::enclosed(" for ", &units::known_duration(verdict.worst_ns), "");
    match verdict.count {
        0 | 1 => format!("lost{long}"),
        count => format!("lost{long}, {}", units::times(count)),
    }
}

/// In what a set-up may differ on its topology: lock, durability, configuration of the servers.
pub(super) fn label(result: &ScenarioResult, several: bool) -> String {
    let config = result.server_config.iter().map(|(key, value)| format!("{key} {value}")).join(", ");
    let config = match config.as_str() {
        "appendonly no, save \"\"" => "no persistence".to_owned(),
        "appendfsync always, appendonly yes" => "AOF, synced always".to_owned(),
        _ => config,
    };
    let waits = match (bare(&result.durability), result.topology.as_str()) {
        ("", "masters") => "a majority grants",
        ("", "sentinel" | "cluster") => "asynchronous",
        (waits, _) => waits,
    };
    let subject = match several && !result.subject.starts_with("lock-core:") {
        true => result.subject.as_str(),
        false => "",
    };
    let words = [waits, &config, subject].into_iter().filter(|word| !word.is_empty());
    match words.format(" · ").to_string() {
        nothing if nothing.is_empty() => result.name.clone(),
        words => words,
    }
}

/// The worst loss of the run that was no control's, as a picture.
fn pictured(rows: &[OutcomeRow<'_>]) -> Option<Block> {
    let all = rows.iter().flat_map(|row| row.set_ups.iter().map(move |set_up| (row, set_up)));
    let mut lost = all.filter(|(_, set_up)| set_up.result.is_lost() && !set_up.result.is_control());
    lost.find_map(|(row, set_up)| {
        let data = set_up.result.timeline.as_ref()?;
        Some(Block::Owners(two_owners(format!("{}, {}: {}", row.place, set_up.label, row.faults), data)?))
    })
}

fn verdicts(run: &Run) -> Table {
    let rows = run.scenarios.iter().map(|result| {
        let least = result.over_time.as_ref().and_then(|over| over.share_min);
        let least = units::enclosed("least client ", &least.map_or(String::new(), units::figure), "");
        let head = Cell::from(result.name.as_str());
        let head = head.with_small([result.place(), cells::faults(&result.faults), least]);
        let verdicts = result.verdicts.iter().map(|(_, verdict)| {
            let words = Phrase::verdict(verdict);
            match words.text.split_once(", ") {
                Some((count, worst)) => {
                    let worst = worst.trim_start_matches("worst ").to_owned();
                    Cell::from(Phrase::new(words.tone, count)).with_small([worst])
                }
                None => words.into(),
            }
        });
        let expected = format!("{} {}", result.outcome().glyph(), cells::expected(result));
        let expected = Phrase::new(tone(result.outcome()), expected);
        let beside = [cells::recovery(result).into(), expected.into()];
        std::iter::once(head).chain(verdicts).chain(beside).collect()
    });
    let heads = ["scenario"].into_iter().chain(CLASSES).chain(["recovery", "expected"]);
    Table::new("Verdicts", heads, usize::MAX, rows)
}

pub(super) fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::NotAsExpected => Tone::Lost,
        Outcome::AsExpected => Tone::Kept,
        Outcome::Unknown => Tone::Doubt,
        Outcome::None => Tone::Plain,
    }
}

/// What each scenario came out as on each server; without a row where none was tried on two.
fn servers(run: &Run) -> Table {
    let all = || run.scenarios.iter();
    let servers = all().map(|one| one.server.as_str());
    let servers = servers.filter(|server| !server.is_empty()).unique().collect_vec();
    let on = |(name, subject): (&str, &str), server: &str| {
        let of = all().filter(|one| one.name == name && one.subject == subject);
        of.filter(|one| one.server == server).collect_vec()
    };
    let tried = all().map(|one| (one.name.as_str(), one.subject.as_str())).unique();
    // What names its own server says nothing of another.
    let several = |of: &(&str, &str)| servers.iter().filter(|server| !on(*of, server).is_empty()).count() > 1;
    let tried = tried.filter(several).collect_vec();
    let of_one = tried.iter().map(|of| of.1).all_equal();
    let rows = tried.iter().map(|of| {
        let title = if of_one { of.0.to_owned() } else { format!("{} by {}", of.0, of.1) };
        let cells = servers.iter().map(|server| repeated(&on(*of, server)));
        std::iter::once(title.into()).chain(cells).collect::<Row>()
    });
    let heads = std::iter::once("scenario").chain(servers.iter().copied());
    Table::new("Outcome by scenario and server", heads, usize::MAX, rows)
}

/// How the worst of the repeats came out, and how many came out as expected; empty where there was none.
fn repeated(repeats: &[&ScenarioResult]) -> Phrase {
    let Some(worst) = repeats.iter().map(|one| one.outcome()).max() else {
        return "".into();
    };
    let good = repeats.iter().filter(|one| one.outcome() <= Outcome::AsExpected);
    let words = match repeats.len() {
        1 => cells::outcome(worst),
        all => format!("{}, {} of {all} as expected", cells::outcome(worst), good.count()),
    };
    Phrase::new(tone(worst), words)
}
