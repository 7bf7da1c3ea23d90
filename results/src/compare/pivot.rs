//! Rows of any runs in tables whose lines and columns are fields of the reader's choice, as in benchstat.
//!
//! The first column is the base of each table. What is neither in lines nor in columns and differs is in the
//! table's heading: nothing is pooled, since rows of different configurations are no samples of one thing.

use std::collections::BTreeMap;

use itertools::Itertools;
use serde::Serialize;

use super::settings::{differences, kind, row_key, void};
use super::{Against, against};
use crate::record::figure::{COMPARED, Figure};
use crate::record::run::{BenchRow, Comparison, Difference, Estimate, Ratio, Run, SCHEMA};
use crate::record::verdict::State;
use crate::wording::spelling::nearest;
use crate::wording::units;

/// Something that rows can be grouped by.
#[derive(Debug)]
pub struct Field {
    /// Its name, for `--rows` and `--cols`.
    pub name: &'static str,
    of: fn(&Run, &BenchRow) -> String,
}

/// All fields, in the order in which they name a table.
pub static FIELDS: [Field; 16] = [
    field("run", |run, _| run.run.clone()),
    field("host", |run, _| run.meta.environment.host.clone()),
    field("version", |run, _| run.meta.version.clone()),
    field("commit", |run, _| run.meta.commit.clone()),
    field("subject", |_, row| row.subject.clone()),
    field("kind", |_, row| kind(row)),
    field("topology", |_, row| row.topology.clone()),
    field("workload", |_, row| row.workload.clone()),
    field("tasks", |_, row| row.tasks.to_string()),
    field("locks", |_, row| row.locks.to_string()),
    field("clients", |_, row| row.measures.load.clients.to_string()),
    field("durability", |_, row| row.measures.load.durability.clone()),
    field("lease", |_, row| row.measures.load.lease_ns.map_or("renewed".to_owned(), units::duration)),
    field("hold", |_, row| units::duration(row.measures.load.hold_ns)),
    field("rate", |_, row| {
        let rate = row.measures.load.rate_per_s;
        rate.map_or("closed".to_owned(), |rate| format!("{rate}/s"))
    }),
    field("rtt", |_, row| row.measures.load.added_rtt_ns.map_or("direct".to_owned(), units::duration)),
];

const fn field(name: &'static str, of: fn(&Run, &BenchRow) -> String) -> Field {
    Field { name, of }
}

/// What a run is, not what was asked of it: these do not split tables, since `run` does.
const OF_THE_RUN: [&str; 3] = ["host", "version", "commit"];

impl Field {
    /// Its value at a row.
    pub fn value(&self, run: &Run, row: &BenchRow) -> String {
        (self.of)(run, row)
    }
}

/// How rows are grouped.
#[derive(Debug, Clone, Default)]
pub struct Grouping {
    rows: Vec<&'static Field>,
    cols: Vec<&'static Field>,
}

/// Why rows cannot be grouped so.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no such field.
    #[error(
        "there is no field `{name}` to group by{}; there are {}",
        nearest(name, FIELDS.iter().map(|field| field.name)),
        FIELDS.iter().map(|field| field.name).join(", ")
    )]
    NoSuchField {
        /// The word.
        name: String,
    },
    /// A field cannot be in both.
    #[error("`{name}` is given for rows and for columns")]
    InBoth {
        /// The field.
        name: &'static str,
    },
    /// No row was measured in any of the runs.
    #[error("there is no benchmark row in {0}: only rows can be grouped")]
    NoRows(String),
}

impl Grouping {
    /// From `--rows` and `--cols`. Columns are by default the runs or else the subjects; lines all the rest.
    pub fn new<S: AsRef<str>>(rows: &[S], cols: &[S]) -> Result<Self, GroupError> {
        let find = |word: &S| {
            let name = word.as_ref().trim();
            let found = FIELDS.iter().find(|field| field.name == name);
            let name = name.to_owned();
            found.ok_or(GroupError::NoSuchField { name })
        };
        let rows: Vec<&Field> = rows.iter().map(find).try_collect()?;
        let mut cols: Vec<&Field> = cols.iter().map(find).try_collect()?;
        let has = |fields: &[&Field], name| fields.iter().any(|field| field.name == name);
        if let Some(both) = rows.iter().find(|row| has(&cols, row.name)) {
            return Err(GroupError::InBoth { name: both.name });
        }
        if cols.is_empty() {
            let usual = if has(&rows, "run") { "subject" } else { "run" };
            cols.extend(FIELDS.iter().filter(|field| field.name == usual));
        }
        Ok(Self { rows, cols })
    }
}

/// Rows in tables, a table per figure and per configuration that is neither in lines nor in columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pivot {
    /// The form's version.
    pub schema: u32,
    /// The first run.
    pub base: String,
    /// What `a` and `b` of the comparisons are values of.
    pub columns: Vec<&'static str>,
    /// Every cell against that of the first column in its line.
    pub comparisons: Vec<Against>,
    /// Configuration that differs between the runs.
    pub differences: Vec<Difference>,
    /// Fields that are in neither lines nor columns and differ with them: a ratio shows their effect too.
    pub also_differs: Vec<&'static str>,
    /// Rows that were left out, and why.
    pub left_out: Vec<String>,
    /// The tables.
    pub tables: Vec<PivotTable>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PivotTable {
    /// Its name.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What all cells have in common and other tables have not; empty if there is but one configuration.
    pub common: String,
    /// The columns' heads; the first is the base.
    pub columns: Vec<String>,
    /// The lines.
    pub lines: Vec<PivotLine>,
    /// The geometric mean of each column's ratios; `null` for the base, and where no line has a ratio.
    pub geomean: Vec<Option<f64>>,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PivotLine {
    /// Its head.
    pub name: String,
    /// A cell per column; `null` where nothing was measured.
    pub cells: Vec<Option<PivotCell>>,
}

/// A figure in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PivotCell {
    /// The figure, in the table's unit.
    pub figure: Estimate,
    /// Over the first column; `null` there.
    pub ratio: Option<Ratio>,
    /// What that shows; empty in the first column.
    pub verdict: &'static str,
}

struct PlacedRow<'a> {
    run: &'a Run,
    row: &'a BenchRow,
}

impl PlacedRow<'_> {
    fn value(&self, field: &Field) -> String {
        field.value(self.run, self.row)
    }

    fn words(&self, fields: &[&Field]) -> String {
        fields.iter().map(|field| self.value(field)).join("/")
    }
}

/// Fields that are neither in lines nor in columns, and in which rows differ.
fn free(placed: &[PlacedRow<'_>], grouping: &Grouping) -> Vec<&'static Field> {
    let named =
        |field: &Field| grouping.rows.iter().chain(&grouping.cols).any(|other| other.name == field.name);
    let differs = |field: &Field| !placed.iter().map(|place| place.value(field)).all_equal();
    let mut free: Vec<&Field> = FIELDS.iter().filter(|field| !named(field)).collect();
    free.retain(|field| !OF_THE_RUN.contains(&field.name) && differs(field));
    free
}

/// Sets the rows of `runs` into tables.
pub fn pivot(runs: &[Run], grouping: &Grouping) -> Result<Pivot, GroupError> {
    let mut left_out = Vec::new();
    let mut placed = Vec::new();
    for run in runs {
        for row in &run.rows {
            if row.safety.state == State::Violated {
                left_out.push(void(run, row));
            } else {
                placed.push(PlacedRow { run, row });
            }
        }
    }
    if placed.is_empty() {
        return Err(GroupError::NoRows(runs.iter().map(|run| &run.run).join(", ")));
    }
    let free = free(&placed, grouping);
    // What follows from line and column, as a workload's hold does, splits nothing, and is said instead.
    let in_cell = [&grouping.rows[..], &grouping.cols].concat();
    let follows = |field: &&'static Field| {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        placed.iter().all(|place| {
            let value = place.value(field);
            let first = known.entry(place.words(&in_cell));
            *first.or_insert_with(|| value.clone()) == value
        })
    };
    let (lines_by, (following, tables_by)) = match grouping.rows.is_empty() {
        true => (free, (Vec::new(), Vec::new())),
        false => (grouping.rows.clone(), free.into_iter().partition::<Vec<_>, _>(follows)),
    };
    let mut commons = Vec::new();
    let mut groups: Vec<Cells<'_>> = Vec::new();
    for place in &placed {
        let mut common = tables_by.iter().map(|field| format!("{} {}", field.name, place.value(field)));
        let at = position(&mut commons, common.join(", "));
        groups.resize_with(commons.len(), Cells::default);
        let cells = &mut groups[at];
        let column = position(&mut cells.columns, place.words(&grouping.cols));
        let line = position(&mut cells.lines, place.words(&lines_by));
        if !std::ptr::eq(*cells.at.entry((line, column)).or_insert(place), place) {
            let (run, row) = (&place.run.run, row_key(place.row));
            left_out.push(format!("{run}: {row}: a further row of the same cell"));
        }
    }
    let mut comparisons = Vec::new();
    let mut tables = Vec::new();
    for (mut cells, common) in groups.into_iter().zip(commons) {
        cells.common = common;
        let of_figures = COMPARED.iter();
        tables.extend(of_figures.filter_map(|figure| cells.table(figure, &mut comparisons)));
    }
    let (base, others) = (&runs[0], &runs[1..]);
    let differences = others.iter().flat_map(|other| differences(base, other, &[], &[]));
    let names = |fields: &[&Field]| fields.iter().map(|field| field.name).collect();
    Ok(Pivot {
        schema: SCHEMA,
        base: base.run.clone(),
        columns: names(&grouping.cols),
        comparisons,
        differences: differences.collect(),
        also_differs: names(&following),
        left_out,
        tables,
    })
}

#[derive(Default)]
struct Cells<'a> {
    common: String,
    columns: Vec<String>,
    lines: Vec<String>,
    at: BTreeMap<(usize, usize), &'a PlacedRow<'a>>,
}

impl Cells<'_> {
    fn table(&self, figure: &Figure<BenchRow>, comparisons: &mut Vec<Against>) -> Option<PivotTable> {
        let columns = 0..self.columns.len();
        let lines = self.lines.iter().enumerate().map(|(line, name)| {
            let cells = columns.clone().map(|column| self.cell(figure, line, column, comparisons));
            PivotLine { name: name.clone(), cells: cells.collect() }
        });
        let mut lines: Vec<PivotLine> = lines.collect();
        lines.retain(|line| line.cells.iter().any(Option::is_some));
        (!lines.is_empty()).then(|| PivotTable {
            metric: figure.name,
            unit: figure.unit.symbol(),
            common: self.common.clone(),
            columns: self.columns.clone(),
            geomean: columns.map(|column| geomean(&lines, column)).collect(),
            lines,
        })
    }

    /// A figure in its place, compared with the first column of its line.
    fn cell(
        &self,
        figure: &Figure<BenchRow>,
        line: usize,
        column: usize,
        comparisons: &mut Vec<Against>,
    ) -> Option<PivotCell> {
        let place = self.at.get(&(line, column))?;
        let base = self.at.get(&(line, 0)).filter(|_| column > 0);
        let against = base.and_then(|base| against(figure, base.row, place.row));
        let cell = PivotCell {
            figure: (figure.of)(place.row)?,
            ratio: against.map(|(ratio, _)| ratio),
            verdict: against.map_or("", |(_, verdict)| verdict),
        };
        comparisons.extend(against.map(|(ratio, verdict)| Against {
            run: place.run.run.clone(),
            comparison: Comparison {
                a: self.columns[0].clone(),
                b: self.columns[column].clone(),
                metric: figure.name.to_owned(),
                r#where: place_name(&self.lines[line], &self.common),
                ratio,
                verdict: verdict.to_owned(),
                ..Comparison::default()
            },
        }));
        Some(cell)
    }
}

/// Where a name stands in a list, at its end if it is new.
fn position(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

fn place_name(line: &str, common: &str) -> String {
    [line, common].into_iter().filter(|part| !part.is_empty()).join(", ")
}

fn geomean(lines: &[PivotLine], column: usize) -> Option<f64> {
    let ratios = lines.iter().map(|line| line.cells[column].as_ref()?.ratio);
    let logs: Vec<f64> = ratios.flatten().map(|ratio| ratio.point.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}
