//! Checks what a scenario file says against its topology, its lock and itself; every section is checked even
//! if one before it is bad.

use std::time::Duration;

use bench::abilities::Abilities;
use bench::recorded::{Owners, Protects};
use bench::workload::CycleShape;
use cluster_config::Topology;
use cluster_config::input::{Problems, Section, one_of, read_file, read_table};
use toml::de::DeTable;

use crate::audit::place;
use crate::checkers::record::kinds::names;

use super::faults::ScenarioServers;
use super::file::{Audit, CLIENTS_MAX, ExpectTable, FaultTable, File, Load, Lock};
use super::values::{self, DURATION, Length};
use super::{FaultSpec, Scenario, ScenarioErrors, default_subject, faults, random};

pub(super) fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioErrors> {
    read_file(file, text, read)
}

fn read<'a>(document: &'a DeTable<'a>, problems: &'a Problems<'a>) -> Option<Scenario> {
    let read = read_table::<File>(document, "a scenario", problems);
    let mut file = read.value?;
    // What was refused as it stands has a default by now, of which nothing is to be said.
    let sound = |path: &[&str]| {
        let meets = |refused: &Vec<String>| refused.iter().zip(path).all(|(one, key)| one == key);
        !read.refused.iter().any(meets)
    };
    let top = Section { name: "a scenario", table: Some(document), start: 0, problems };
    if top.get("name").is_none() {
        problems.add(0..0, "`name` is missing");
    }
    if sound(&["name"]) {
        require(top, "name", is_folder(&file.name), FOLDER);
    }
    if top.get("topology").is_none() {
        problems.add(0..0, "[topology] with its `kind` is missing");
    }
    let topology = file.topology.checked(top.inside("topology"));
    let lock_section = top.inside("lock");
    let load_section = top.inside("load");
    lock(lock_section, &mut file.lock, topology.as_ref());
    if !sound(&["load", "clients"]) {
        // Of a client by number nothing can be said then.
        file.load.clients = CLIENTS_MAX;
    }
    load(load_section, &mut file.load);
    if lock_section.get("permits").is_none()
        && let CycleShape::Permit { of } = file.load.workload().asks
    {
        file.lock.permits = of;
    }
    check_kinds(lock_section, load_section, &file.lock, &file.load);
    let is_cluster =
        topology.as_ref().is_none_or(|known| known.kind == cluster_config::TopologyKind::Cluster);
    require(
        load_section,
        "spread",
        is_cluster || !file.load.spread,
        "`false` unless the topology is a `cluster`",
    );
    audit(top.inside("audit"), &file.audit, &file.expect);
    let mut specs = Vec::new();
    let list = top.get("faults").and_then(|list| list.get_ref().as_array());
    // Where an entry was no table at all, the numbers of the others are not those of the file.
    if list.is_some_and(|list| list.len() == file.faults.len()) {
        for (index, (entry, table)) in top.entries("faults").into_iter().zip(&file.faults).enumerate() {
            let section = Section { name: "[[faults]]", ..entry };
            let number = index.to_string();
            let refused = |key: &str| !sound(&["faults", &number, key]);
            let scene = ScenarioServers {
                topology: topology.as_ref(),
                as_begun: file.random.is_none() && comes_first(&file.faults, index),
            };
            specs.extend(faults::check(section, table, refused, scene, &file.load));
        }
    }
    let outlives = &file.load.outlives;
    let there = outlives.is_empty() || specs.iter().any(|fault: &FaultSpec| fault.fault == *outlives);
    require(
        load_section,
        "outlives",
        there || specs.len() != file.faults.len(),
        "one of the scenario's own [[faults]]",
    );
    let random = match &file.random {
        Some(table) if sound(&["random"]) => {
            random::check(top.inside("random"), table, topology.as_ref(), &file.load)
        }
        _ => None,
    };
    Some(Scenario {
        name: file.name,
        about: file.about,
        claim: file.claim,
        topology: topology?,
        lock: file.lock,
        load: file.load,
        faults: specs,
        hooks: file.hooks,
        random,
        expect: file.expect.by_class(),
        audit: file.audit,
    })
}

fn comes_first(faults: &[FaultTable], index: usize) -> bool {
    let at = |table: &FaultTable| {
        let at = table.at.map_or(Duration::ZERO, |at| at.0);
        (table.after.is_none() && table.when.is_none()).then_some(at)
    };
    let own = at(&faults[index]);
    let mut others = faults.iter().enumerate().filter(|(other, _)| *other != index);
    others.all(|(_, other)| own.zip(at(other)).is_some_and(|(own, other)| own < other))
}

/// Reports the value of `key`, if it is given and must not be what it is.
pub(super) fn require(section: Section<'_>, key: &str, good: bool, allowed: impl AsRef<str>) {
    section.read(key, |_| if good { Ok(()) } else { Err(allowed) });
}

pub(super) fn at_least(section: Section<'_>, key: &str, found: Option<Length>, least: Duration) {
    let good = found.is_none_or(|found| found.0 >= least);
    let bound = if least > NOT_ZERO { format!("at least {least:?}") } else { "more than 0".to_owned() };
    require(section, key, good, format!("{DURATION}, {bound}"));
}

pub(super) const NOT_ZERO: Duration = Duration::from_nanos(1);

const FOLDER: &str = "a name of a folder: not empty, without `/`, not beginning with `.`";

fn is_folder(name: &str) -> bool {
    !name.trim().is_empty()
        && !name.contains('/')
        && !name.starts_with('.')
        && !name.chars().any(char::is_control)
}

fn lock(section: Section<'_>, lock: &mut Lock, topology: Option<&Topology>) {
    let kind = topology.map(|topology| topology.kind);
    let said = |key| section.get(key)?.get_ref().as_str();
    if said("subject").is_none() {
        lock.subject = default_subject(kind).to_owned();
    } else {
        lock.subject = bench::subjects::typed(&lock.subject);
        if let Err(error) = bench::subjects::find(&lock.subject) {
            section.complain("subject", error.to_string());
        }
    }
    if said("kind").is_some_and(|kind| !names().contains(&kind)) {
        require(section, "kind", false, values::one_of_these(&lock.kind, names()));
        lock.kind.clear();
    }
    let kinds = match (lock.kind.as_str(), bench::subjects::find(&lock.subject)) {
        ("", Ok(found)) => found.kinds(),
        ("", Err(_)) => Vec::new(),
        (kind, _) => vec![kind.to_owned()],
    };
    let has = Abilities::assumed(kinds);
    if let Err(problem) = kind.map_or(Ok(()), |kind| place(kind, &lock.subject, &has)) {
        let mut keys = ["subject", "kind"].into_iter();
        section.complain(keys.find(|key| section.get(key).is_some()).unwrap_or("kind"), problem);
    }
    at_least(section, "watchdog", lock.watchdog, values::LEASE_MIN);
}

fn audit(section: Section<'_>, audit: &Audit, expect: &ExpectTable) {
    for (key, name) in [("twin", &audit.twin), ("control", &audit.control)] {
        if !name.is_empty()
            && let Err(error) = bench::subjects::find(name)
        {
            section.complain(key, format!("`{key}`: {error}"));
        }
    }
    let some = section.get("inherent").is_none() || !audit.inherent.trim().is_empty();
    require(section, "inherent", some, "a sentence, not empty");
    for key in ["cause", "remedy"] {
        let about = section.get(key).is_none() || !audit.inherent.is_empty();
        require(section, key, about, "left out without `inherent`");
    }
    let bounded = expect.expects_harm() || audit.inherent.is_empty();
    let allowed = "left out where `[expect]` expects nothing but `clean`";
    require(section, "inherent", bounded, allowed);
}

fn load(section: Section<'_>, load: &mut Load) {
    let workload = load.workload();
    let given = section.get("locks").map(|_| load.locks);
    load.locks = load.locks_for(load.clients.saturating_mul(load.tasks), given);
    if load.rate.is_some() && !workload.paced {
        let (name, paced) = (workload.name, bench::workload::names(|known| known.paced));
        let problem = format!(
            "`{name}` has a rhythm of its own and cannot be offered a rate; a rate goes with {paced}"
        );
        section.complain("rate", problem);
    }
    at_least(section, "duration", Some(load.duration), NOT_ZERO);
    at_least(section, "extend", load.extend, NOT_ZERO);
    at_least(section, "downgrade", load.downgrade, NOT_ZERO);
    let shares = [("reenter", load.reenter), ("cancel", load.cancel), ("owner_moves", load.owner_moves)];
    for (key, share) in shares.into_iter().chain([("short_leases", load.short_leases)]) {
        require(section, key, (0.0..=1.0).contains(&share), "a share from 0.0 to 1.0");
    }
    let keeps_owner = load.reenter > 0.0 || load.owner_moves > 0.0 || load.downgrade.is_some();
    if load.owners != Owners::Tasks && keeps_owner {
        let problem = "only `tasks` can enter again or pass a hold on: leave out `reenter`, `owner_moves` and `downgrade`";
        section.complain("owners", problem.to_owned());
    }
    let mix = section.inside("mix");
    for (key, _) in mix.table.into_iter().flatten() {
        let kind: &str = key.get_ref();
        if !names().contains(&kind) {
            let allowed = values::one_of_these(kind, names());
            mix.problems.add(key.span(), format!("`{kind}` is no kind of lock; allowed are {allowed}"));
        }
    }
    load.mix.retain(|kind, _| names().contains(&kind.as_str()));
}

/// What the lock, its kinds and the protected resource ask of each other.
fn check_kinds(lock_section: Section<'_>, load_section: Section<'_>, lock: &Lock, load: &Load) {
    let offered = bench::subjects::find(&lock.subject).map(|subject| subject.kinds()).unwrap_or_default();
    let foreign = |kind: &str| {
        let (subject, names) = (&lock.subject, offered.iter().map(String::as_str));
        let known = offered.is_empty() || names.clone().any(|name| name == kind);
        (!known).then(|| format!("`{subject}` has no kind `{kind}`; it has {}", one_of(names)))
    };
    let own = Some(&lock.kind).filter(|kind| !kind.is_empty());
    if let Some(problem) = own.and_then(|kind| foreign(kind)) {
        lock_section.complain("kind", problem);
    }
    let mix = load_section.inside("mix");
    for kind in load.mix.keys() {
        if let Some(problem) = foreign(kind) {
            mix.complain(kind, problem);
        }
    }
    if load.mix.is_empty()
        && let Some(workload) = &load.workload
        && let Err(why) = load.kinds(&lock.kind, &offered)
    {
        load_section.complain("workload", format!("`{workload}` cannot be run on {}: {why}", lock.subject));
    }
    if load.downgrade.is_some() {
        let first = own.or(offered.first());
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
            load_section.complain("downgrade", format!("`downgrade` makes writers readers, and {problem}"));
        }
    }
    if load.protects == Protects::Register {
        let first = own.or(offered.first()).filter(|_| load.mix.is_empty());
        let mut kinds = first.into_iter().chain(load.mix.keys());
        if let Some(kind) = kinds.find(|kind| !["fenced", "queued"].contains(&kind.as_str())) {
            let problem = format!(
                "`protects` is \"register\", which judges fencing tokens, and the kind `{kind}` has none; allowed are the kinds \
                 `fenced` and `queued`, or `none` and `counter`"
            );
            load_section.complain("protects", problem);
        }
    }
}
