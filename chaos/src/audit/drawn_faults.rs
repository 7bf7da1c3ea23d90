//! Faults that are drawn on the messages of a lock's protocol: a table of role × moment × fault, and a
//! scenario for each of its points.
//!
//! Which messages there are depends on the lock: the proxy says what its client was doing for a lock that the
//! message names ([`crate::roles`]). A point that no message of a lock meets is not one of its protocol.

use std::collections::BTreeMap;

use cluster_config::TopologyKind;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::checkers::record::kinds::is_alone;
use crate::roles::ROLES;
use crate::scenario::Scenario;

/// What becomes of a message, and what is then expected of a lock.
struct MessageFault {
    name: &'static str,
    /// What happens, after `a reply to an acquire`.
    about: &'static str,
    /// How long leases, holds and the load are, and how many locks there are.
    load: [&'static str; 4],
    expect: &'static str,
}

/// A lease outlives what its client waits for an answer where it is to be missed, and ends before the message
/// arrives where that is to be late.
const MESSAGE_FAULTS: [MessageFault; 5] = [
    harm("lost", "is lost on its way", ["5s", "20ms..60ms", "5s", "4"]),
    harm("late", "arrives when the lease is over", ["1s", "300ms..500ms", "4500ms", "2"]),
    harm("cut", "is the last on its connection", ["5s", "20ms..60ms", "3500ms", "4"]),
    harm(
        "restart",
        "is the last before its server is killed and started again with all that it acknowledged",
        ["5s", "20ms..60ms", "3500ms", "4"],
    ),
    MessageFault {
        expect: "belief = \"violated\"\ncontract = \"clean\"\nliveness = \"clean\"\n[audit]\ncause = \"needs-fencing\"\n\
                 inherent = \"A paused holder cannot be notified, and its lease ends meanwhile: only the resource can refuse what it does afterwards.\"\n",
        ..harm(
            "pause",
            "passes, and its client stands still until the lease is over",
            ["1s", "300ms..500ms", "4s", "2"],
        )
    },
];

/// One that costs nobody the lock.
const fn harm(name: &'static str, about: &'static str, load: [&'static str; 4]) -> MessageFault {
    const KEPT: &str = "belief = \"clean\"\ncontract = \"clean\"\neffect = \"clean\"\nliveness = \"clean\"\n";
    MessageFault { name, about, load, expect: KEPT }
}

/// A point of the table: which message, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    role: usize,
    is_reply: bool,
    fault: usize,
}

impl Point {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of = |role| [false, true].map(|is_reply| (role, is_reply));
        let messages = (0..ROLES.len()).flat_map(of);
        messages.flat_map(|(role, is_reply)| {
            (0..MESSAGE_FAULTS.len()).map(move |fault| Self { role, is_reply, fault })
        })
    }

    /// Such as `release-reply-lost`.
    pub(super) fn name(self) -> String {
        let reply = if self.is_reply { "-reply" } else { "" };
        format!("{}{reply}-{}", ROLES[self.role], MESSAGE_FAULTS[self.fault].name)
    }

    /// A scenario in which that happens, on servers of this shape, to a lock of one of these kinds; drawn.
    pub(super) fn scenario(self, shape: TopologyKind, kinds: &[String], rng: &mut ChaCha8Rng) -> Scenario {
        let (role, fault) = (ROLES[self.role], &MESSAGE_FAULTS[self.fault]);
        let masters = shape == TopologyKind::Masters;
        let [mut lease, mut hold, mut lasts, mut locks] = fault.load;
        let mut more = "";
        match role {
            "extend" => (hold, more) = ("400ms..600ms", "extend = \"200ms\"\n"),
            // What a library that follows no wish renews is longer, and all else with it.
            "renewal" => (lease, hold, lasts, locks) = ("renewed", "1200ms", "4s", "3"),
            // Beyond the lease too, where nobody is asked whether a holder was told in time.
            _ if fault.name == "pause" && rng.random_bool(0.5) => hold = "700ms..1400ms",
            _ => {}
        }
        let client = rng.random_range(1..=3);
        let servers = match (masters, rng.random_range(0..3)) {
            (false, _) => "master",
            (true, 0) => "any",
            (true, 1) => "majority",
            (true, _) => "masters",
        };
        let (link, way) = match self.is_reply {
            true => (format!("{servers} -> client {client}"), "reply to"),
            false => (format!("client {client} -> {servers}"), "from"),
        };
        let passes = |nth: u32, client: u32| format!("when = \"{nth}th {role} {way} client {client}\"\n");
        let (first, nth) = (rng.random_range(1..=2), rng.random_range(1..=4));
        let long = ["1500ms", "2500ms"][rng.random_range(0..2)];
        let chosen = format!("with = {{ during = \"{role}\", nth = {first}, count = 3 }}\n");
        let faults: Vec<String> = match fault.name {
            "lost" | "late" => {
                let (lasts, fault) = if fault.name == "lost" { ("2500ms", "drop") } else { (long, "hold") };
                vec![format!(
                    "at = \"300ms\"\nfor = \"{lasts}\"\nfault = \"{fault}\"\non = \"{link}\"\n{chosen}"
                )]
            }
            "cut" => (1..=3)
                .map(|client| {
                    let when = passes(nth, client);
                    format!(
                        "{when}for = \"50ms\"\nfault = \"reset\"\non = \"client {client} <-> {servers}\"\n"
                    )
                })
                .collect(),
            "restart" => {
                let (when, on) = (passes(nth, client), if masters { "any" } else { "master" });
                vec![format!("{when}for = \"200ms\"\nfault = \"kill\"\non = \"{on}\"\n")]
            }
            _ => vec![format!(
                "{}for = \"{long}\"\nfault = \"pause\"\non = \"client {client}\"\n",
                passes(nth, client)
            )],
        };
        let faults: String = faults.iter().map(|fault| format!("[[faults]]\n{fault}")).collect();
        let message = if self.is_reply { "the reply to" } else { "the request of" };
        let (name, about, topology) = (self.name(), fault.about, shape.name());
        let count = if masters { "masters = 3\n" } else { "" };
        let text = format!(
            "name = \"drawn-{name}\"\nabout = \"Drawn: {message} {role} {about}.\"\nclaim = \"a message that is lost, late or the last costs nobody the lock\"\n\
             [topology]\nkind = \"{topology}\"\n{count}config = {{ appendonly = \"yes\", appendfsync = \"always\" }}\n\
             [lock]\nlease = \"{lease}\"\nwait = \"1s\"\nwatchdog = \"900ms\"\n\
             [load]\ntasks = 2\nlocks = {locks}\nhold = \"{hold}\"\nthink = \"20ms\"\nduration = \"{lasts}\"\n{more}\
             {faults}[expect]\n{}",
            fault.expect
        );
        let parsed = Scenario::parse(&name, &text);
        let mut scenario = parsed.unwrap_or_else(|errors| panic!("a drawn scenario: {errors}"));
        let alone: Vec<&String> = kinds.iter().filter(|kind| is_alone(kind) && *kind != "redlock").collect();
        if !masters && !alone.is_empty() {
            let kind = alone[rng.random_range(0..alone.len())];
            if kind == "write" && kinds.iter().any(|kind| kind == "read") {
                let mix = [("read", 2), ("write", 1)];
                scenario.load.mix = mix.map(|(kind, weight)| (kind.to_owned(), weight)).into();
            }
            if ["reentrant", "fair", "spin"].contains(&kind.as_str()) {
                scenario.load.reenter = 0.5;
            }
            scenario.lock.kind.clone_from(kind);
        }
        scenario
    }
}

/// A scenario for a point of the table, counted over and over, as an audit draws it: on servers of this
/// shape, for a lock of one of these kinds.
pub fn drawn_scenario(at: u64, shape: TopologyKind, kinds: &[String], rng: &mut ChaCha8Rng) -> Scenario {
    let points: Vec<Point> = Point::all().collect();
    points[(at % points.len() as u64) as usize].scenario(shape, kinds, rng)
}

/// The same points, what was least tried first: the point, then its message and its fault; else drawn.
pub(super) fn least_tried_first(mut tries: BTreeMap<Point, u32>, rng: &mut ChaCha8Rng) -> Vec<Point> {
    let mut points: Vec<Point> = tries.keys().copied().collect();
    let mut ordered = Vec::new();
    while !points.is_empty() {
        let of = |is: &dyn Fn(&Point) -> bool| -> u32 {
            tries.iter().filter(|(point, _)| is(point)).map(|(_, count)| count).sum()
        };
        let weight = |point: &Point| {
            let own = tries.get(point).copied().unwrap_or(0);
            let message = of(&|other| (other.role, other.is_reply) == (point.role, point.is_reply));
            (own, message + of(&|other| other.fault == point.fault))
        };
        let least = points.iter().map(weight).min();
        let mut first: Vec<usize> = (0..points.len()).collect();
        first.retain(|at| Some(weight(&points[*at])) == least);
        let point = points.swap_remove(first[rng.random_range(0..first.len())]);
        *tries.entry(point).or_default() += 1;
        ordered.push(point);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn what_was_least_tried_comes_first_and_every_message_before_the_first_comes_again() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let none: BTreeMap<Point, u32> = Point::all().map(|point| (point, 0)).collect();
        let first = least_tried_first(none.clone(), &mut rng);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 50);
        let messages: BTreeSet<_> = first[..10].iter().map(|point| (point.role, point.is_reply)).collect();
        assert_eq!(messages.len(), 10, "{:?}", &first[..10]);
        let mut tries = none.clone();
        tries.extend(first[..30].iter().map(|point| (*point, 1)));
        let second = least_tried_first(tries.clone(), &mut rng);
        assert!(second[..20].iter().all(|point| tries[point] == 0));
        assert_ne!(first, least_tried_first(none, &mut rng), "it is drawn");
    }
}
