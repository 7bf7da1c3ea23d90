//! Turns the text of a scenario file, section by section, into a `Scenario`; every section is read even if one before it is bad.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::input::{Problems, Section, float, integer, nearest, one_of, shown};
use cluster_config::{Topology, TopologyKind, parse_topology};
use results::verdict::CLASSES;
use toml::de::DeTable;

use super::values::{self, Range};
use super::{
    LoadSpec, LockSpec, Protects, Scenario, ScenarioErrors, defaults, faults, misplaced, random,
};
use crate::hooks::{HEAL, Hook, Hooks};

pub(super) const TOP_KEYS: [&str; 10] = [
    "name", "about", "claim", "topology", "lock", "load", "faults", "random", "hooks", "expect",
];
pub(super) const LOCK_KEYS: [&str; 7] = [
    "subject",
    "kind",
    "lease",
    "watchdog",
    "wait",
    "durability",
    "permits",
];
pub(super) const LOAD_KEYS: [&str; 12] = [
    "clients",
    "tasks",
    "locks",
    "hold",
    "think",
    "duration",
    "enough",
    "mix",
    "extend",
    "reenter",
    "downgrade",
    "protects",
];

/// Kinds of lock, one list for every subject.
pub(super) const KINDS: [&str; 14] = [
    "plain",
    "reentrant",
    "non-reentrant",
    "fair",
    "queued",
    "spin",
    "read",
    "write",
    "fenced",
    "multi",
    "redlock",
    "semaphore",
    "permits",
    "latch",
];

pub(super) fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioErrors> {
    let problems = Problems::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        problems.add(error.span().unwrap_or(0..0), error.message());
    }
    // After a mistake of grammar the rest of the table is a guess, and complaints about it would be noise.
    let scenario = if errors.is_empty() {
        read(document.get_ref(), &problems)
    } else {
        None
    };
    match scenario {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        _ => Err(problems.into_errors(file)),
    }
}

fn read<'a>(document: &'a DeTable<'a>, problems: &'a Problems<'a>) -> Option<Scenario> {
    let top = Section {
        name: "a scenario",
        table: Some(document),
        start: 0,
        problems,
    };
    top.allow(&TOP_KEYS);
    let name = name(top);
    let about = top.text("about").unwrap_or_default().to_owned();
    let claim = top.text("claim").unwrap_or_default().to_owned();
    if top.get("topology").is_none() {
        problems.add(0..0, "[topology] with its `kind` is missing");
    }
    let topology = parse_topology(top.table("topology", "[topology]"));
    let lock_section = top.table("lock", "[lock]");
    let kind = topology.as_ref().map(|topology| topology.kind);
    let lock = lock(lock_section, kind);
    let load_section = top.table("load", "[load]");
    let load = load(load_section);
    check_kinds(lock_section, load_section, &lock, &load);
    let faults = fault_list(top, topology.as_ref(), &load);
    let hooks = hooks(top.table("hooks", "[hooks]"));
    let random = top.get("random").map(|_| {
        let section = top.table("random", "[random]");
        random::parse(section, topology.as_ref(), load.clients, load.duration)
    });
    let expect = expect(top.table("expect", "[expect]"));
    Some(Scenario {
        name: name?,
        about,
        claim,
        topology: topology?,
        lock,
        load,
        faults: faults?,
        hooks,
        random: match random {
            Some(random) => Some(random?),
            None => None,
        },
        expect,
    })
}

fn name(top: Section<'_>) -> Option<String> {
    if top.get("name").is_none() {
        top.problems.add(0..0, "`name` is missing");
    }
    top.word("name", |name| {
        let clean = !name.trim().is_empty()
            && !name.contains('/')
            && !name.starts_with('.')
            && !name.chars().any(char::is_control);
        if clean {
            Ok(name.to_owned())
        } else {
            Err("a name of a folder: not empty, without `/`, not beginning with `.`")
        }
    })
}

fn lock(section: Section<'_>, topology: Option<TopologyKind>) -> LockSpec {
    section.allow(&LOCK_KEYS);
    let subject = section
        .word("subject", |word| match bench::subjects::find(word) {
            Ok(_) => Ok(word.to_owned()),
            Err(error) => Err(format!("a subject of this build: {error}")),
        })
        .unwrap_or_else(|| defaults::subject(topology).to_owned());
    let kind = section.word("kind", known_kind);
    if let Some(problem) =
        topology.and_then(|topology| misplaced(&subject, kind.as_deref(), topology))
    {
        let key = if section.get("subject").is_some() {
            "subject"
        } else {
            "kind"
        };
        section.problems.add(section.span(key), problem);
    }
    LockSpec {
        subject,
        kind,
        lease: section
            .word("lease", values::lease)
            .unwrap_or(Some(defaults::LEASE)),
        watchdog: section.word("watchdog", |word| match values::duration(word) {
            Ok(lease) if lease >= Duration::from_millis(1) => Ok(lease),
            _ => Err(format!("{}, at least 1ms", values::DURATION)),
        }),
        wait: section
            .word("wait", values::duration)
            .unwrap_or(defaults::WAIT),
        durability: section
            .word("durability", values::durability)
            .unwrap_or_else(|| "none".to_owned()),
        permits: section.count("permits", 1, 1_000_000).unwrap_or(1),
    }
}

fn known_kind(word: &str) -> Result<String, String> {
    if KINDS.contains(&word) {
        Ok(word.to_owned())
    } else {
        Err(format!("{}{}", one_of(KINDS), nearest(word, KINDS)))
    }
}

fn load(section: Section<'_>) -> LoadSpec {
    section.allow(&LOAD_KEYS);
    let positive = |word: &str| match values::duration(word) {
        Ok(length) if !length.is_zero() => Ok(length),
        _ => Err(format!("{}, more than 0", values::DURATION)),
    };
    let mix = section.table("mix", "mix = { read = 4, write = 1 }");
    let mut weights = BTreeMap::new();
    for (key, value) in mix.table.into_iter().flatten() {
        let kind: &str = key.get_ref();
        if let Err(allowed) = known_kind(kind) {
            section.problems.add(
                key.span(),
                format!("`{kind}` is no kind of lock; allowed are {allowed}"),
            );
            continue;
        }
        match integer(value.get_ref()).and_then(|weight| u32::try_from(weight).ok()) {
            Some(weight @ 1..=1_000_000) => {
                weights.insert(kind.to_owned(), weight);
            }
            _ => section.problems.add(
                value.span(),
                format!(
                    "the weight of `{kind}` is {}; allowed is a whole number from 1",
                    shown(value.get_ref())
                ),
            ),
        }
    }
    LoadSpec {
        clients: section
            .count("clients", 1, 100)
            .unwrap_or(defaults::CLIENTS),
        tasks: section.count("tasks", 1, 1000).unwrap_or(defaults::TASKS),
        locks: section.count("locks", 1, 10_000).unwrap_or(defaults::LOCKS),
        hold: section
            .word("hold", values::range)
            .unwrap_or(Range::constant(defaults::HOLD)),
        think: section
            .word("think", values::range)
            .unwrap_or(Range::constant(defaults::THINK)),
        duration: section
            .word("duration", positive)
            .unwrap_or(defaults::DURATION),
        enough: section.count("enough", 1, 1_000_000),
        mix: weights,
        extend: section.word("extend", positive),
        reenter: section
            .read("reenter", |value| {
                float(value)
                    .filter(|share| (0.0..=1.0).contains(share))
                    .ok_or("a share from 0.0 to 1.0")
            })
            .unwrap_or(0.0),
        downgrade: section.word("downgrade", positive),
        protects: section
            .word("protects", |word| {
                Protects::parse(word).ok_or_else(|| {
                    format!(
                        "{}{}",
                        one_of(Protects::WORDS),
                        nearest(word, Protects::WORDS)
                    )
                })
            })
            .unwrap_or_default(),
    }
}

/// What the lock, its kinds and the protected resource ask of each other.
fn check_kinds(
    lock_section: Section<'_>,
    load_section: Section<'_>,
    lock: &LockSpec,
    load: &LoadSpec,
) {
    let offered = bench::subjects::find(&lock.subject)
        .map(|subject| subject.kinds())
        .unwrap_or_default();
    let foreign = |kind: &str| {
        let names = || offered.iter().map(String::as_str);
        (!offered.is_empty() && !offered.iter().any(|name| name == kind)).then(|| {
            format!(
                "`{}` has no kind `{kind}`; it has {}",
                lock.subject,
                one_of(names())
            )
        })
    };
    if let Some(problem) = lock.kind.as_deref().and_then(foreign) {
        lock_section
            .problems
            .add(lock_section.span("kind"), problem);
    }
    let mix = load_section.table("mix", "mix");
    for kind in load.mix.keys() {
        if let Some(problem) = foreign(kind) {
            mix.problems.add(mix.span(kind), problem);
        }
    }
    if load.downgrade.is_some() {
        let first = lock.kind.as_ref().or(offered.first());
        let drawn = |kind: &str| match load.mix.is_empty() {
            // Of a driver nobody knows which kind is its first.
            true => first.is_none_or(|first| first == kind),
            false => load.mix.contains_key(kind),
        };
        let problem = if !drawn("write") {
            Some("no holder is one: let `[lock] kind` or `[load] mix` name `write`".to_owned())
        } else {
            foreign("read")
        };
        if let Some(problem) = problem {
            load_section.problems.add(
                load_section.span("downgrade"),
                format!("`downgrade` makes writers readers, and {problem}"),
            );
        }
    }
    if load.protects == Protects::Register {
        let first = lock.kind.as_ref().or(offered.first());
        let kinds: Vec<&String> = if load.mix.is_empty() {
            first.into_iter().collect()
        } else {
            load.mix.keys().collect()
        };
        if let Some(kind) = kinds.into_iter().find(|kind| *kind != "fenced") {
            load_section.problems.add(
                load_section.span("protects"),
                format!(
                    "`protects` is \"register\", which judges fencing tokens, and the kind `{kind}` has none; allowed are the kind \
                     `fenced`, or `none` and `counter`"
                ),
            );
        }
    }
}

fn fault_list(
    top: Section<'_>,
    topology: Option<&Topology>,
    load: &LoadSpec,
) -> Option<Vec<faults::FaultSpec>> {
    let Some(value) = top.get("faults") else {
        return Some(Vec::new());
    };
    let list = top.read("faults", |value| {
        value.as_array().ok_or("a list of tables [[faults]]")
    })?;
    let mut specs = Vec::new();
    let mut complete = true;
    for entry in list.iter() {
        let Some(table) = entry.get_ref().as_table() else {
            top.problems.add(
                value.span(),
                format!(
                    "a fault is {}; allowed is a table [[faults]]",
                    shown(entry.get_ref())
                ),
            );
            complete = false;
            continue;
        };
        let section = Section {
            name: "[[faults]]",
            table: Some(table),
            start: entry.span().start,
            problems: top.problems,
        };
        match faults::parse(section, topology, load.clients, load.duration) {
            Some(spec) => specs.push(spec),
            None => complete = false,
        }
    }
    complete.then_some(specs)
}

fn hooks(section: Section<'_>) -> Hooks {
    let names: Vec<String> = crate::faults::names()
        .into_iter()
        .flat_map(|name| [name.to_owned(), format!("{name}{HEAL}")])
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut hooks = Hooks::new();
    for (key, _) in section.table.into_iter().flatten() {
        let name: &str = key.get_ref();
        if !names.contains(&name) {
            section.problems.add(
                key.span(),
                format!(
                    "`{name}` is no fault; allowed are the names that `locklab list faults` shows, and each with `{HEAL}` for \
                     its undo{}",
                    nearest(name, names.iter().copied())
                ),
            );
        } else if let Some(hook) = section.word(name, Hook::parse) {
            hooks.insert(name.to_owned(), hook);
        }
    }
    hooks
}

fn expect(section: Section<'_>) -> BTreeMap<String, String> {
    section.allow(&CLASSES);
    let mut expected = BTreeMap::new();
    for class in CLASSES {
        if let Some(word) = section.word(class, values::expectation) {
            expected.insert(class.to_owned(), word);
        }
    }
    expected
}
