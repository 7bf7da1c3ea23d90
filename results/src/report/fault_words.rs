//! What was done to servers, links and clients, in words: `master killed, replication late`.

use itertools::Itertools;

use crate::record::run::{FaultSpan, ScenarioResult};

/// All faults of a scenario, those of servers and clients before those of links, each said once.
pub(super) fn fault_words(result: &ScenarioResult) -> String {
    // After the first loss of a server another one may be master.
    let mut masters_known = true;
    let words = result.faults.iter().map(|fault| {
        let said = words(fault, &result.topology, masters_known);
        masters_known &= is_on_link(fault);
        (is_on_link(fault), said)
    });
    let words = words.collect_vec().into_iter().sorted_by_key(|said| said.0);
    match words.map(|(_, said)| said).unique().join(", ") {
        none if none.is_empty() => "no fault".to_owned(),
        said => said,
    }
}

fn is_on_link(fault: &FaultSpan) -> bool {
    fault.targets.iter().any(|target: &String| target.contains("->") || target.contains('|'))
}

fn words(fault: &FaultSpan, topology: &str, masters_known: bool) -> String {
    let link = |what: &str| {
        let ends = |target: &String| target.split("->").all(|end| is_node(end.trim()));
        let is_replication = matches!(topology, "sentinel" | "cluster") && fault.targets.iter().all(ends);
        let of = if is_replication { "replication" } else { "network" };
        format!("{of} {what}")
    };
    let victim = victim(fault, topology, masters_known);
    match fault.fault.as_str() {
        "kill" => format!("{victim} killed"),
        "restart" => format!("{victim} restarted"),
        "pause" => format!("{victim} frozen"),
        "power-cut" => format!("{victim} without power"),
        "clock" => format!("clock of {victim} wrong"),
        "disk" => format!("disk of {victim} slow"),
        "upgrade" => format!("{victim} upgraded"),
        "client-kill" => "connections dropped".to_owned(),
        "delay" => link("late"),
        "cut" | "partition" => link("cut"),
        "loss" => link("lossy"),
        "refuse" | "reset" => link("refused"),
        "failover" | "promote" | "takeover" => "failover ordered".to_owned(),
        "flushall" => "all keys deleted".to_owned(),
        other => other.replace('-', " "),
    }
}

fn is_node(name: &str) -> bool {
    let digits = name.strip_prefix('n').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn victim(fault: &FaultSpan, topology: &str, masters_known: bool) -> String {
    let (first, count) = match fault.targets.as_slice() {
        [] => return "server".to_owned(),
        all => (all[0].as_str(), all.len()),
    };
    let noun = match first.as_bytes()[..] {
        [b'c', ..] => "client",
        [b's', ..] => "sentinel",
        _ if topology == "masters" => "master",
        _ if first == "n1" && masters_known && matches!(topology, "sentinel" | "cluster") => "master",
        _ => "server",
    };
    match (count, topology) {
        (1, "masters") if noun == "master" => "one master".to_owned(),
        (1, _) => noun.to_owned(),
        _ => format!("{count} {noun}s"),
    }
}
