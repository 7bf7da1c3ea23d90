//! What rows, scenarios and runs are matched by, what else was set, and what must not differ.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use itertools::Itertools;

use crate::record::run::{BenchRow, Difference, Run, ScenarioResult};
use crate::wording::units;

/// What a row is matched by, in words. A kind is not: rows of other kinds are refused, not passed over.
pub(crate) fn row_key(row: &BenchRow) -> String {
    row_words(&row.subject, row)
}

pub(crate) fn row_words(lock: &str, row: &BenchRow) -> String {
    let load = &row.measures.load;
    let rate = load.rate_per_s.map(|rate| format!(" at {rate}/s"));
    let rtt = row.added_rtt_ns().map(units::duration);
    let rtt = rtt.map(|added| format!(" with {added} more of round trip"));
    let (topology, workload) = (&row.topology, &row.workload);
    let extra = rate.into_iter().chain(rtt).format("");
    format!("{lock} on {topology}/{workload}/{}{extra}", row.tasks)
}

/// Why a row of a run is left out, since its lock was not safe.
pub(crate) fn void(run: &Run, row: &BenchRow) -> String {
    format!("{}: {}: void, the lock was not safe", run.run, row_key(row))
}

pub(crate) fn scenario_key(result: &ScenarioResult) -> String {
    let (name, topology, subject) = (&result.name, &result.topology, &result.subject);
    format!("{name} on {topology} with {subject}")
}

/// The n-th of a key in `a` with the n-th of that key in `b`, in the order of `a`.
pub(crate) fn pairs<'a, T>(a: &'a [T], b: &'a [T], key: impl Fn(&T) -> String) -> Vec<(&'a T, &'a T)> {
    let mut waiting: BTreeMap<String, VecDeque<&T>> = BTreeMap::new();
    for item in b {
        waiting.entry(key(item)).or_default().push_back(item);
    }
    a.iter().filter_map(|item| Some((item, waiting.get_mut(&key(item))?.pop_front()?))).collect()
}

/// How a row was loaded. Rows with other loads answer other questions, and are not compared unasked.
pub(crate) fn load(row: &BenchRow) -> Vec<(&'static str, String)> {
    let load = &row.measures.load;
    let mut settings = vec![("locks", row.locks.to_string())];
    // A run of before loads were recorded says nothing of them, and differs in nothing known.
    if load.mode.is_empty() {
        return settings;
    }
    settings.extend([
        ("mode", load.mode.clone()),
        ("kind", kind(row)),
        ("arrivals", load.arrivals.clone().unwrap_or_default()),
        ("hold", units::duration(load.hold_ns)),
        ("think", units::duration(load.think_ns)),
        ("asks", load.asks.clone().unwrap_or_default()),
        ("lease", load.lease_ns.map_or("renewed".to_owned(), units::duration)),
        ("durability", load.durability.clone()),
        ("clients", load.clients.to_string()),
        ("client_processes", load.client_processes.to_string()),
        ("own_loop", load.own_loop.to_string()),
        ("generators", load.generators.unwrap_or(1).to_string()),
    ]);
    settings
}

pub(super) fn kind(row: &BenchRow) -> String {
    row.measures.load.kind.clone().unwrap_or("its own".to_owned())
}

pub(super) fn asked(result: &ScenarioResult) -> Vec<(&'static str, String)> {
    vec![("kind", result.kind.clone()), ("durability", result.durability.clone())]
}

/// Why a pair cannot be compared, setting by setting; empty if it can.
pub(super) fn unlike<T>(
    (a, b): &(&T, &T),
    key: fn(&T) -> String,
    settings: fn(&T) -> Vec<(&'static str, String)>,
) -> Vec<String> {
    let known: BTreeMap<_, _> = settings(a).into_iter().collect();
    let reasons = settings(b).into_iter().filter_map(|(name, value)| {
        let before = known.get(name).filter(|before| **before != value)?;
        let key = key(b);
        Some(format!("{key}: {name} is {before} in the base and {value} here"))
    });
    reasons.collect()
}

/// Everything that was set otherwise in `other`: of the run, and of what it has in common with the base.
pub(crate) fn differences(
    base: &Run,
    other: &Run,
    rows: &[(&BenchRow, &BenchRow)],
    scenarios: &[(&ScenarioResult, &ScenarioResult)],
) -> Vec<Difference> {
    let mut a = settings(base);
    let mut b = settings(other);
    let of_row = |row: &BenchRow| {
        let key = row_key(row);
        let rounds = ("rounds", row.rounds.to_string());
        load(row).into_iter().chain([rounds]).map(move |(name, value)| (format!("{key}: {name}"), value))
    };
    let of_scenario = |result: &ScenarioResult| {
        let key = scenario_key(result);
        // Loads end when their last operation does, so only whole seconds are a setting.
        let load_s = format!("{:.0}", result.load_ns as f64 / 1e9);
        let faults = result.faults.iter();
        let mut faults = faults.map(|fault| format!("{} {}", fault.fault, fault.targets.join("+")));
        let more = [("seed", result.seed.to_string()), ("load_s", load_s), ("faults", faults.join(", "))];
        asked(result).into_iter().chain(more).map(move |(name, value)| (format!("{key}: {name}"), value))
    };
    for (one, two) in rows {
        a.extend(of_row(one));
        b.extend(of_row(two));
    }
    for (one, two) in scenarios {
        a.extend(of_scenario(one));
        b.extend(of_scenario(two));
    }
    let mut fields: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    fields.retain(|field| a.get(*field) != b.get(*field));
    let value = |of: &BTreeMap<_, _>, field| of.get(field).cloned().unwrap_or_default();
    let differing = fields.into_iter().map(|field| Difference {
        run: other.run.clone(),
        field: field.clone(),
        a: value(&a, field),
        b: value(&b, field),
    });
    differing.collect()
}

fn settings(run: &Run) -> BTreeMap<String, String> {
    let environment = &run.meta.environment;
    let mut settings: BTreeMap<String, String> = [
        ("command", run.command.clone()),
        ("command_line", run.meta.command_line.join(" ")),
        ("seed", run.meta.seed.to_string()),
        ("version", run.meta.version.clone()),
        ("commit", run.meta.commit.clone()),
        ("partial", run.partial.to_string()),
        ("environment.host", environment.host.clone()),
        ("environment.cpu", environment.cpu.clone()),
        ("environment.cores", environment.cores.to_string()),
        ("environment.memory_bytes", environment.memory_bytes.to_string()),
        ("environment.kernel", environment.kernel.clone()),
        ("environment.rustc", environment.rustc.clone()),
    ]
    .map(|(field, value)| (field.to_owned(), value))
    .into();
    for (name, server) in &environment.servers {
        settings.insert(format!("servers.{name}.version"), server.version.clone());
        settings.insert(format!("servers.{name}.config"), server.config.join("; "));
    }
    settings
}
