//! What of a scenario file cannot be simulated: it is refused, since a fault that does nothing would look
//! like a lock that survives it.

use chaos::faults::settings;
use chaos::scenario::Scenario;
use cluster_config::{Persistence, Topology};
use results::verdict::CLASSES;

use crate::{draw::TOPOLOGIES, nemesis::FAULTS};

/// Lines of redis.conf that simulated servers follow.
const CONFIG: [&str; 4] = ["appendfsync", "appendonly", "repl-ping-replica-period", "repl-timeout"];

/// What a scenario expects besides verdicts: bounds on what is measured, which mean nothing in simulated
/// time.
pub fn unjudged(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.expect.keys().map(String::as_str).filter(|class| !CLASSES.contains(class))
}

/// What of a scenario cannot be simulated, in words; `None`: everything can be.
pub fn misfit(scenario: &Scenario) -> Option<String> {
    let asked = &scenario.topology;
    if !TOPOLOGIES.contains(&asked.kind.name()) {
        let these = TOPOLOGIES.join(", ");
        return Some(format!("{} is not simulated; these are: {these}", asked.kind.name()));
    }
    let follows = |line: &&String| !CONFIG.contains(&line.as_str());
    if let Some(line) = asked.config.keys().find(follows) {
        let these = CONFIG.join(", ");
        return Some(format!("`{line}` in `config` is not simulated; these are: {these}"));
    }
    let simulated = Topology {
        replicas: asked.replicas,
        masters: asked.masters,
        shards: asked.shards,
        sentinels: asked.sentinels,
        config: asked.config.clone(),
        persistence: asked.persistence,
        ..Topology::of(asked.kind)
    };
    if *asked != simulated || asked.persistence == Some(Persistence::Rdb) {
        return Some(
            "of [topology], `kind`, numbers of servers, `persistence` without `rdb`, and `config` are simulated"
                .to_owned(),
        );
    }
    if scenario.lock.subject.starts_with("exec:") {
        return Some(format!("{} is a program", scenario.lock.subject));
    }
    if !scenario.expect.is_empty() && unjudged(scenario).count() == scenario.expect.len() {
        let these = CLASSES.join(", ");
        return Some(format!("nothing is expected that is judged; these are: {these}"));
    }
    if scenario.load.rate.is_some() {
        return Some("an open loop (`rate`) is not simulated: its clock is a thread".to_owned());
    }
    if scenario.random.is_some() {
        return Some("[random] is not simulated; seeds without a file draw faults".to_owned());
    }
    if !scenario.hooks.is_empty() {
        return Some("commands in place of faults are not simulated".to_owned());
    }
    scenario.faults.iter().find_map(|fault| {
        if !FAULTS.split(", ").any(|name| name == fault.fault) {
            return Some(format!("the fault `{}` is not simulated; these are: {FAULTS}", fault.fault));
        }
        if settings::text(&fault.with, "data") == Some("lose") {
            return Some("a server that loses its directory is not simulated".to_owned());
        }
        None
    })
}
