//! Benchmark rows: their figures, what more is known of each, sweeps, comparisons and settings.

use itertools::Itertools;

use super::{Block, PAGE};
use crate::record::figure::{BENCH, Figure, GROUPS, Group, OF_SWEEPS, Unit};
use crate::record::measures::Sweep;
use crate::record::run::{BenchRow, Comparison, Run};
use crate::report::cells;
use crate::report::charts;
use crate::report::csv::number;
use crate::report::document::{self, Cell, Fold, Form, Head, Phrase, Row, Table};
use crate::report::measures;
use crate::wording::units;

pub(super) fn section(run: &Run) -> Block {
    let note = match run.audit {
        Some(_) => {
            "A short bench without faults, in cycles (an acquire and its release) per second and in units of time: the order of magnitude, no \
             comparison. `locklab bench` measures with intervals."
        }
        None => {
            "Without faults. cycles/s: median and range over rounds; commands: sent by clients per cycle; server µs: CPU of all servers per cycle. \
             Figures of a lock that was not safe while it was measured are void. The book of locklab says more: “Reading a benchmark” \
             (docs/src/reading-a-benchmark.md in its sources)."
        }
    };
    if run.rows.is_empty() {
        return Block::only(&[], Vec::new());
    }
    let mut body = vec![Block::note(note), Block::Table(rows(run))];
    if run.audit.is_none() {
        body.push(Block::only(PAGE, GROUPS.iter().map(|of| group(run, of)).collect()));
        body.push(Block::only(PAGE, vec![pictures(run)]));
        // A sweep has many rows of one kind: its curve says what matters.
        let forms = if run.sweeps.is_empty() { document::ALL } else { PAGE };
        body.push(Block::only(forms, vec![Block::part("more", run.rows.iter().map(in_full).collect())]));
    }
    Block::section("bench-h", "Benchmarks", body)
}

fn in_full(row: &BenchRow) -> Block {
    Block::Fold(Fold {
        summary: vec![row.title().into()],
        open: &[Form::Text],
        body: vec![Block::list(measures::lines(row))],
    })
}

fn pictures(run: &Run) -> Block {
    let of = |name: &str, part: &str, charts: Vec<crate::svg::Chart>| {
        let charts = charts.into_iter().enumerate();
        let charts = charts.map(|(at, chart)| Block::chart(chart, format!("{name}{at}")));
        charts.map(|chart| Block::part(part, vec![chart])).collect_vec()
    };
    let all = [
        of("throughput", "benchmarks", charts::throughput(run)),
        of("latency", "benchmarks", vec![charts::latency(run)]),
        of("percentiles", "curves", charts::percentiles(run)),
    ];
    Block::fold("Charts of throughput, latency and percentiles", all.concat())
}

fn head(first: &str) -> Head {
    Head::new(first, "The lock under test, and where it was measured", false)
}

fn heads<T>(first: Head, figures: &[Figure<T>]) -> Vec<Head> {
    std::iter::once(first).chain(figures.iter().map(Head::from)).collect()
}

pub(super) fn figure<T>(figure: &Figure<T>, of: &T) -> Cell {
    let estimate = (figure.of)(of);
    // How much is done shows how sure it is; latencies have their intervals in the row's details.
    let shown = estimate.filter(|_| figure.unit != Unit::Time);
    Cell {
        key: number(estimate.map(|estimate| estimate.median)),
        ..Cell::from(figure.words(of)).with_small(shown.as_ref().map(|estimate| estimate.interval()))
    }
}

/// All rows. Figures of a lock that was not safe are void, and not among them.
fn rows(run: &Run) -> Table {
    let rows = run.rows.iter().map(|row| {
        let is_void = row.is_void();
        let figures = BENCH.iter().map(|of| match is_void {
            true => Cell::from("void"),
            false => figure(of, row),
        });
        // Why stands among the warnings on top: a cell has no room for it.
        let invalid = if row.valid || is_void { "" } else { "✗ invalid" };
        let safety = Cell::from(Phrase::new(document::tone(row.safety.state), cells::safety(row)));
        let safety = safety.with_small([invalid.to_owned()]);
        let first = Cell::from(row.lock()).with_small([row.place()]);
        Row {
            dim: !row.valid || is_void,
            part: "measured".to_owned(),
            ..std::iter::once(first).chain(figures).chain([safety]).collect()
        }
    });
    let mut heads = heads(head("subject"), &BENCH);
    let about = "Whether the lock was safe while it was measured, and whether the figures may be quoted";
    heads.push(Head::new("safety", about, false));
    Table { title: "Benchmark rows".to_owned(), class: "bench", heads, rows: rows.collect() }
}

/// The rows that have what a group of figures is about, without columns in which nothing stands.
fn group(run: &Run, group: &Group) -> Block {
    let rows = run.rows.iter().filter(|row| !row.is_void() && (group.applies)(row)).map(|row| {
        let first = Cell::from(row.lock()).with_small([row.place()]);
        let figures = group.figures.iter().map(|of| figure(of, row));
        Row { dim: !row.valid, ..std::iter::once(first).chain(figures).collect() }
    });
    let table = Table {
        title: group.title.to_owned(),
        class: "",
        heads: heads(head("subject"), group.figures),
        rows: rows.collect(),
    };
    if table.rows.is_empty() {
        return Block::only(&[], Vec::new());
    }
    let body =
        vec![Block::Heading(group.title.to_owned()), Block::note(group.note), Block::Table(table.trimmed())];
    Block::part("table", body)
}

pub(in crate::report) fn sweep((index, sweep): (usize, &Sweep)) -> Block {
    let rows = sweep.points.iter().map(|point| {
        let first = Cell::from(units::figure(point.level));
        let invalid = if point.valid { "" } else { "✗ not to be quoted" };
        let first = first.with_small([invalid.to_owned()]);
        let figures = OF_SWEEPS.iter().map(|of| figure(of, point));
        Row { dim: !point.valid, ..std::iter::once(first).chain(figures).collect() }
    });
    let table = Table {
        title: sweep.title(),
        class: "",
        heads: heads(Head { figures: true, ..head(&sweep.over) }, OF_SWEEPS),
        rows: rows.collect(),
    };
    let chart = charts::sweep(sweep).map(|chart| Block::chart(chart, format!("sweep{index}")));
    let body = vec![
        Block::part("benchmarks", chart.into_iter().collect()),
        Block::list(measures::conclusions(sweep)),
        Block::part("table", vec![Block::Table(table.trimmed())]),
    ];
    Block::section(&format!("sweep{index}-h"), &sweep.title(), body)
}

pub(super) fn comparisons(run: &Run) -> Block {
    let rows = run.comparisons.iter().map(|one: &Comparison| {
        let again = one.same_again.as_ref().map_or("–".to_owned(), cells::ratio);
        let least = one.detectable.map(|ratio| format!("×{}", units::figure(ratio)));
        [
            Cell::from(one.b.as_str()).with_small([format!("against {}", one.a)]),
            one.r#where.as_str().into(),
            one.metric.as_str().into(),
            cells::ratio(&one.ratio).into(),
            again.into(),
            least.unwrap_or("–".to_owned()).into(),
            Phrase::comparison(&one.verdict).into(),
        ]
        .into_iter()
        .collect()
    });
    let heads = ["B against A", "where", "metric", "ratio", "A again", "shown from", "verdict"];
    let table = Table::new("Comparisons", heads, usize::MAX, rows);
    let note = "ratio: B over A with its 95 % interval; A again: A over itself, measured beside it; shown from: the smallest ratio that four of five \
                such runs would show. Better and worse are said only where the interval of the ratio leaves out 1; all else is not shown to differ.";
    let body = if table.rows.is_empty() { Vec::new() } else { vec![Block::note(note), Block::Table(table)] };
    Block::section("comparisons-h", "Comparisons", body)
}

/// In which settings joined runs differ; how a row was measured is said of each row.
pub(super) fn differences(run: &Run) -> Block {
    let rows = run
        .differences
        .iter()
        .map(|one| [&one.field, &one.a, &one.b, &one.run].map(String::as_str).into_iter().collect());
    let heads = ["setting", "in the first", "in the other", "run"];
    let title = "Settings in which the runs differ";
    Block::section("config-h", title, vec![Block::Table(Table::new(title, heads, usize::MAX, rows))])
}
