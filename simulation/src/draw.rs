//! Draws a scenario from a seed: a lock, a load, servers and faults, and what must stay clean with them.
//!
//! The scenario is one of `locklab chaos`, in the form of its files: real servers can be given the same.

use std::fmt::Write as _;

use bench::{recorded::Owners, subjects};
use chaos::audit::drawn_scenario;
use chaos::plan::Plan;
use chaos::scenario::{Scenario, scenario_text};
use cluster_config::TopologyKind;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// The kinds that are drawn, with the topologies that each is for; what stands there twice is drawn twice as
/// often.
pub const KINDS: &[(&str, &[&str])] = &[
    ("plain", ONE_SET),
    ("reentrant", ONE_SET),
    ("non-reentrant", ONE_SET),
    ("spin", ONE_SET),
    ("fenced", ONE_SET),
    ("queued", ONE_SET),
    ("fair", ONE_SET),
    ("write", ONE_SET),
    ("multi", ONE_SET),
    ("permits", ONE_SET),
    ("redlock", &["masters"]),
];

const ONE_SET: &[&str] = &["single", "single", "sentinel", "cluster"];

/// The topologies that are drawn.
pub const TOPOLOGIES: &[&str] = &["single", "sentinel", "cluster", "masters"];

/// What is fixed beforehand; the seed decides the rest.
#[derive(Debug, Clone, Default)]
pub struct FixedChoices {
    /// A kind of [`KINDS`].
    pub kind: Option<String>,
    /// One of [`TOPOLOGIES`].
    pub topology: Option<String>,
    /// Another lock than the library's, with its own first kind, such as `broken:steal`.
    pub subject: Option<String>,
    /// Faults on messages alone: the table from which an audit draws, a point for each seed in turn.
    pub messages: bool,
    /// This scenario, in the form of its file; nothing is drawn.
    pub scenario: Option<String>,
}

impl FixedChoices {
    /// Whether there is something to draw from.
    pub fn fits(&self) -> bool {
        !self.kinds().is_empty()
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        let all = KINDS.iter().flat_map(|(kind, topologies)| {
            let topologies = topologies.iter();
            topologies.map(move |topology| (*kind, *topology))
        });
        let fits = |wanted: &Option<String>, word: &str| wanted.as_deref().is_none_or(|w| w == word);
        // A lock is for one set of servers or for several masters, and its kind says which.
        let own = self.subject.as_deref().map(first_kind);
        let is_for = |topology: &str| {
            let own = own.as_deref();
            own.is_none_or(|own| (own == "redlock") == (topology == "masters"))
        };
        let has_points = |(kind, on): &(&str, &str)| {
            !["multi", "permits"].contains(kind) && ["single", "masters"].contains(on)
        };
        all.filter(|(kind, topology)| fits(&self.kind, kind) && fits(&self.topology, topology))
            .filter(|drawn| !self.messages || has_points(drawn))
            .filter(|(_, topology)| is_for(topology))
            .collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Usual,
    /// Holds are longer than a lease, and extended.
    Extends,
    /// Holds are longer than a lease, nobody extends them, and replies are slow.
    Overruns,
    /// Holds are extended, and the first holder sleeps for so long that others come, and die.
    Lapses,
    /// Callers wait for long, and the first holder dies.
    Patient,
    /// What is held is renewed for long, and renewals come late or not at all.
    Starves,
    /// Callers leave while their first question is on its way, and their client stops before its answer.
    Unread,
}

struct PlanDraft {
    random: StdRng,
    style: Style,
    /// For what was added to the draw later, so that the rest of a seed stays what it was.
    later: StdRng,
    nodes: Vec<String>,
    clients: u32,
    kind: String,
    /// Replicas may take over from masters.
    has_replicas: bool,
    faults: String,
    /// Servers are out of reach of each other or of their clocks' time for a while.
    servers_suffer: bool,
    /// Keys move from a master to another.
    moves: bool,
    /// Servers may forget what they were told, or end a lease before its time.
    servers_lose: bool,
    /// A client may act on what it knew long ago.
    clients_sleep: bool,
    /// What a client writes may arrive when its hold is over.
    writes_late: bool,
    /// Servers whose clocks run too fast or too slow to the end.
    drifting: Vec<String>,
    owners: Owners,
}

/// The scenario of a seed, as the text of a file.
///
/// # Panics
/// Nothing [fits](FixedChoices::fits) what is wanted.
pub fn scenario(seed: u64, wanted: &FixedChoices) -> String {
    if wanted.messages {
        return scenario_on_messages(seed, wanted);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let kinds = wanted.kinds();
    let (kind, topology) = *kinds.choose(&mut random).expect("something fits");
    let (subject, kind) = match &wanted.subject {
        Some(subject) => (subject.clone(), first_kind(subject)),
        // An election is a queued lock, taken by other calls.
        None if kind == "queued" && apart(seed, 0x656c_6563_7400).random_bool(0.3) => {
            ("lock-core:election".to_owned(), kind.to_owned())
        }
        None => (format!("lock-core:{kind}"), kind.to_owned()),
    };
    let masters = match topology {
        // With half of an even number two can have it.
        "masters" => *[3, 3, 4, 5].choose(&mut random).expect("four"),
        _ => 1,
    };
    let fsync = *["always", "always", "everysec", "none"].choose(&mut random).expect("four");
    let names: Vec<u32> = match topology {
        "sentinel" => vec![1, 2, 3],
        // The locks are on the first master; the fourth node is its replica.
        "cluster" => vec![1, 1, 1, 4, 4, 2, 3, 5, 6],
        _ => (1..=masters).collect(),
    };
    let mut later = apart(seed, 0x7374_796c_6500);
    let style = match later.random_range(0..8) {
        1 => Style::Extends,
        2 => Style::Overruns,
        3 => Style::Lapses,
        4 => Style::Patient,
        5 => Style::Starves,
        _ => Style::Usual,
    };
    let mut drawn = PlanDraft {
        clients: random.random_range(2..=4),
        random,
        style,
        later,
        nodes: names.iter().map(|number| format!("n{number}")).collect(),
        kind,
        has_replicas: ["sentinel", "cluster"].contains(&topology),
        faults: String::new(),
        servers_suffer: false,
        moves: false,
        servers_lose: false,
        clients_sleep: false,
        writes_late: false,
        drifting: Vec::new(),
        owners: if subject.starts_with("lock-core") { owners(seed) } else { Owners::Tasks },
    };
    if drawn.kind == "queued" && apart(seed, 0x756e_7265_6164).random_bool(0.15) {
        drawn.style = Style::Unread;
        drawn.clients = 2;
    }
    for _ in 0..drawn.random.random_range(0..=6) {
        drawn.fault(topology, fsync);
    }
    let mut text = format!("name = \"simulated-{seed}\"\n\n[topology]\nkind = \"{topology}\"\n");
    if topology == "masters" {
        let _ = writeln!(text, "masters = {masters}");
    }
    let config = match fsync {
        "none" => "appendonly = \"no\"".to_owned(),
        policy => format!("appendonly = \"yes\", appendfsync = \"{policy}\""),
    };
    let waits_for_all = subject.starts_with("lock-core") && drawn.has_replicas && drawn.chance(0.5);
    let config =
        match waits_for_all && topology == "sentinel" && apart(seed, 0x666f_7267_6f74).random_bool(0.25) {
            true => {
                drawn.master_forgets_replicas();
                format!("{config}, repl-timeout = 2, repl-ping-replica-period = 1")
            }
            false => config,
        };
    let _ = writeln!(text, "config = {{ {config} }}");
    // A move waits for no replica.
    drawn.servers_lose |= drawn.fails_over() && (!waits_for_all || drawn.moves);
    drawn.load(&mut text, &subject, waits_for_all);
    text.push_str(&drawn.faults);
    drawn.expect(&mut text);
    text
}

/// A point of the table of faults on messages.
fn scenario_on_messages(seed: u64, wanted: &FixedChoices) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let kinds = wanted.kinds();
    let (kind, topology) = *kinds.choose(&mut random).expect("something fits");
    let shape = if topology == "masters" { TopologyKind::Masters } else { TopologyKind::Single };
    let (subject, kind) = match &wanted.subject {
        Some(subject) => (subject.clone(), first_kind(subject)),
        None => (format!("lock-core:{kind}"), kind.to_owned()),
    };
    // Of writers there may be readers, too.
    let kinds = if subject == "lock-core:write" { vec!["read".to_owned(), kind] } else { vec![kind] };
    let mut scenario = drawn_scenario(seed, shape, &kinds, &mut random);
    scenario.lock.subject = subject;
    // What a pause may cost is not asked for in each seed.
    scenario.expect.retain(|_, word| word == "clean");
    scenario_text(&Plan::new(&scenario, seed))
}

/// As whom tasks ask.
fn owners(seed: u64) -> Owners {
    match apart(seed, 0x6f77_6e65_7273).random_range(0..24) {
        0 => Owners::Reserved,
        1..9 => Owners::Fresh,
        _ => Owners::Tasks,
    }
}

/// What is decided apart leaves other seeds what they were.
fn apart(seed: u64, what: u64) -> StdRng {
    StdRng::seed_from_u64(seed ^ what)
}

fn first_kind(subject: &str) -> String {
    let kinds = subjects::find(subject).ok().map(|subject| subject.kinds()).unwrap_or_default();
    kinds.into_iter().next().unwrap_or_else(|| "plain".to_owned())
}

/// The plan of a seed.
///
/// # Panics
/// As [`scenario`].
pub fn plan(seed: u64, wanted: &FixedChoices) -> Plan {
    let text = (wanted.scenario.clone()).unwrap_or_else(|| scenario(seed, wanted));
    match Scenario::parse("simulated", &text) {
        Ok(scenario) => Plan::new(&scenario, seed),
        Err(errors) => panic!("what is drawn is a scenario: {errors}\n{text}"),
    }
}

impl PlanDraft {
    /// Whether its holds have fencing tokens.
    fn has_tokens(&self) -> bool {
        matches!(self.kind.as_str(), "fenced" | "queued")
    }

    fn between(&mut self, low: u32, high: u32) -> u32 {
        self.random.random_range(low..=high)
    }

    fn chance(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    fn load(&mut self, text: &mut String, subject: &str, waits_for_all: bool) {
        let mut lease_ms = self.between(200, 2_500);
        let is_renewed = self.chance(0.35);
        let style = match self.style {
            Style::Extends | Style::Overruns | Style::Lapses if is_renewed => Style::Usual,
            Style::Starves if !is_renewed => Style::Usual,
            style => style,
        };
        match style {
            // So that much has room beside it.
            Style::Lapses => lease_ms = 150 + lease_ms / 8,
            // A call lasts no longer than 2 s.
            Style::Unread => lease_ms = 2_500,
            _ => {}
        }
        let lease = match is_renewed {
            // The watchdog's own lease.
            true => format!("lease = \"renewed\"\nwatchdog = \"{}ms\"", lease_ms.max(600)),
            false => format!("lease = \"{lease_ms}ms\""),
        };
        let mut wait_ms = self.between(50, 2_000);
        match style {
            Style::Usual | Style::Extends => {}
            Style::Overruns => {
                let with = format!("with = {{ latency = \"{}ms\" }}\n", lease_ms / 3);
                self.fault_line(100, "", "delay", "n1 -> client 1", &with);
            }
            Style::Lapses => {
                let others = self.client_1_is_first();
                let at = lease_ms * self.later.random_range(1..5);
                self.fault_line(at, &format!("for = \"{}ms\"\n", lease_ms * 6), "pause", "client 1", "");
                let dies = at + lease_ms * 3;
                self.fault_line(dies, "for = \"4s\"\n", "kill", &others, "");
                self.clients_sleep = true;
            }
            Style::Patient => {
                self.client_1_is_first();
                wait_ms += 6_000;
                self.fault_line(lease_ms / 2, "for = \"5s\"\n", "kill", "client 1", "");
            }
            Style::Starves if self.later.random_bool(0.5) => {
                let with = "with = { during = \"renewal\", count = 1000 }\n";
                self.fault_line(1_000, "for = \"3s\"\n", "hold", "clients -> n1", with);
            }
            Style::Starves => {
                self.fault_line(0, "", "clock", "clients", "with = { drift = \"-90%\" }\n");
            }
            Style::Unread => {
                wait_ms = 200;
                let at = self.later.random_range(20..150);
                let lasts = self.later.random_range(2_050..3_500);
                self.fault_line(at, &format!("for = \"{lasts}ms\"\n"), "pause", "client 1", "");
                self.clients_sleep = true;
            }
        }
        let _ = writeln!(text, "\n[lock]\nsubject = \"{subject}\"\n{lease}\nwait = \"{wait_ms}ms\"");
        if waits_for_all {
            text.push_str("durability = \"wait:all\"\n");
        }
        if ["permits", "semaphore"].contains(&&*self.kind) {
            let _ = writeln!(text, "permits = {}", self.between(1, 3));
        }
        let longest = lease_ms * self.between(2, 12) / 10;
        let (shortest, longest) = match style {
            Style::Extends | Style::Overruns => (lease_ms, lease_ms * 5),
            Style::Lapses => (lease_ms * 12, lease_ms * 16),
            Style::Patient => (lease_ms * 6 / 10, lease_ms),
            Style::Starves => (lease_ms * 2, lease_ms * 3),
            Style::Unread => (1, 50),
            _ => (1, longest),
        };
        let (tasks, locks) = (self.between(1, 3), self.between(1, 2));
        let think = self.between(1, 200);
        let (tasks, locks) = match style {
            // All wait for the one that sleeps or dies.
            Style::Lapses | Style::Patient => (1, 1),
            Style::Unread => (3, 1),
            _ => (tasks, locks),
        };
        let locks = if self.kind == "multi" { 3 } else { locks };
        let tasks = match self.owners {
            // Every second one asks as somebody that it must not be.
            Owners::Reserved => tasks.max(2),
            Owners::Tasks | Owners::Fresh => tasks,
        };
        let _ = write!(
            text,
            "\n[load]\nclients = {}\ntasks = {tasks}\nlocks = {locks}\nhold = \"{shortest}ms..{longest}ms\"\nthink = \"1ms..{think}ms\"\nduration = \"10s\"\n",
            self.clients,
        );
        if [Style::Extends, Style::Lapses].contains(&style) {
            let _ = writeln!(text, "extend = \"{}ms\"", lease_ms / 4);
        }
        if self.kind == "write" && subject.starts_with("lock-core") {
            let _ = writeln!(text, "mix = {{ read = {}, write = 1 }}", self.between(1, 4));
        }
        let reenters = ["reentrant", "fair", "write"].contains(&&*self.kind) && self.chance(0.4)
            || self.kind == "non-reentrant" && self.later.random_bool(0.4);
        let moves = self.later.random_bool(0.1);
        match self.owners {
            Owners::Tasks => {
                let lines = [(reenters, "reenter"), (moves, "owner_moves")];
                for (_, line) in lines.iter().filter(|(drawn, _)| *drawn) {
                    let _ = writeln!(text, "{line} = 0.3");
                }
            }
            Owners::Fresh => text.push_str("owners = \"fresh\"\n"),
            Owners::Reserved => text.push_str("owners = \"reserved\"\n"),
        }
        if self.has_tokens() {
            text.push_str("protects = \"register\"\n");
        }
        if style == Style::Unread {
            text.push_str("cancel = 0.9\n");
        } else if self.chance(0.4) {
            let _ = writeln!(text, "cancel = 0.{}", self.between(1, 5));
        }
    }

    /// Writes a fault; `lasts` and `with` are whole lines, or nothing.
    fn fault_line(&mut self, at: u32, lasts: &str, fault: &str, on: &str, with: &str) {
        let _ = write!(
            self.faults,
            "\n[[faults]]\nat = \"{at}ms\"\n{lasts}fault = \"{fault}\"\non = \"{on}\"\n{with}"
        );
    }

    /// The replicas are cut off until master and sentinels count them no more; then the master with one
    /// client, when one of the others is promoted. Who asks for the acknowledgements of those that are there
    /// gets a grant on both sides.
    fn master_forgets_replicas(&mut self) {
        let cut = "n2, n3 | n1, sentinels, clients";
        self.fault_line(1_000, "for = \"4s\"\n", "partition", cut, "");
        let others = (2..=self.clients).map(|number| format!(", client {number}"));
        let cut = format!("n1, client 1 | n2, n3, sentinels{}", others.collect::<String>());
        // Before the first is over: the replicas hear nothing of their master in between.
        self.fault_line(4_800, "for = \"5s\"\n", "partition", &cut, "");
        self.servers_suffer = true;
    }

    /// Requests of the others come later: their names.
    fn client_1_is_first(&mut self) -> String {
        let others: Vec<String> = (2..=self.clients).map(|number| format!("client {number}")).collect();
        let others = others.join(", ");
        let with = "with = { latency = \"200ms\" }\n";
        let way = format!("{others} -> n1");
        self.fault_line(0, "for = \"100ms\"\n", "delay", &way, with);
        others
    }

    /// A replica may have taken over.
    fn fails_over(&self) -> bool {
        self.has_replicas && self.servers_suffer
    }

    /// One of the messages of an operation, held or lost.
    fn message(&mut self) -> String {
        let roles = ["acquire", "release", "extend", "renewal", "wait"];
        let role = roles.choose(&mut self.random).expect("five");
        let (nth, count) = (self.between(1, 4), self.between(1, 3));
        format!("during = \"{role}\", nth = {nth}, count = {count}")
    }

    fn fault(&mut self, topology: &str, fsync: &str) {
        let (at, lasts) = (self.between(100, 8_000), self.between(20, 2_500));
        let client = self.between(1, self.clients);
        let node = self.nodes.choose(&mut self.random).expect("one").clone();
        let other = self.nodes.choose(&mut self.random).expect("one").clone();
        let among = other != node && self.chance(0.5);
        let way = match self.between(0, 2) {
            _ if among => format!("{node} -> {other}"),
            0 => format!("client {client} -> {node}"),
            1 => format!("{node} -> client {client}"),
            _ => format!("client {client} <-> {node}"),
        };
        let mut suffers = among;
        let last = if self.has_replicas { 21 } else { 19 };
        let (fault, on, with) = match self.between(0, last) {
            0 => {
                self.clients_sleep = true;
                ("pause", format!("client {client}"), String::new())
            }
            1 => ("kill", format!("client {client}"), String::new()),
            2 => {
                self.writes_late = true;
                let with = format!("latency = \"{}ms\"", self.between(5, 800));
                ("late-writes", format!("client {client}"), with)
            }
            3 => {
                suffers = true;
                ("pause", node, String::new())
            }
            4 => {
                suffers = true;
                // The system keeps what was written when a process ends.
                self.servers_lose |= fsync == "none";
                ("kill", node, String::new())
            }
            5 => {
                suffers = true;
                self.servers_lose |= fsync != "always";
                ("power-cut", node, String::new())
            }
            6 => {
                let ms = self.between(50, 3_000);
                let forwards = self.chance(0.5);
                // Set back, the clock lets leases last longer while that lasts; set right again, it jumps
                // forwards to where it was. But what was granted meanwhile ends early then, too.
                self.servers_lose = true;
                suffers = true;
                let sign = if forwards { "" } else { "-" };
                ("clock", node, format!("jump = \"{sign}{ms}ms\""))
            }
            // Less than what the judge leaves to clocks.
            7 => {
                let percent = self.between(1, 8);
                let sign = if self.chance(0.5) { "" } else { "-" };
                // A second drift begins with the right time: that sets the clock.
                self.servers_lose |= self.drifting.contains(&node);
                self.drifting.push(node.clone());
                ("clock", node, format!("drift = \"{sign}0.{percent}%\""))
            }
            8 => {
                let (latency, jitter) = (self.between(5, 600), self.between(0, 300));
                let with = format!("latency = \"{latency}ms\", jitter = \"{jitter}ms\"");
                ("delay", way, with)
            }
            9 => ("cut", way, String::new()),
            10 => {
                let way = format!("client {client} <-> {node}");
                (if self.chance(0.5) { "reset" } else { "refuse" }, way, String::new())
            }
            // Of the wall clock, which no lease is counted on.
            11 => {
                let (ms, sign) = (self.between(50, 90_000), if self.chance(0.5) { "" } else { "-" });
                let with = match self.chance(0.5) {
                    true => format!("jump = \"{sign}{ms}ms\""),
                    false => format!("drift = \"{sign}{}%\"", self.between(1, 50)),
                };
                ("clock", format!("client {client}"), with)
            }
            12 | 13 => {
                let fault = if self.chance(0.5) { "hold" } else { "drop" };
                let way = match self.chance(0.5) {
                    true => format!("client {client} -> {node}"),
                    false => format!("{node} -> client {client}"),
                };
                (fault, way, self.message())
            }
            14 => {
                let with = "limit = \"100000\", policy = \"noeviction\"".to_owned();
                ("maxmemory", node, with)
            }
            15 => ("script-flush", node, String::new()),
            16 => ("client-kill", node, String::new()),
            17 => {
                // Sentinels are clients, too: what does not answer them for a second is down to them.
                suffers |= topology == "sentinel";
                ("client-pause", node, String::new())
            }
            20 => {
                suffers = true;
                ("failover", "n1".to_owned(), String::new())
            }
            21 if topology == "cluster" => {
                self.moves = true;
                let (from, to) =
                    *[("n1", "n2"), ("n2", "n3"), ("n3", "n1")].choose(&mut self.random).expect("three");
                let with = format!("to = \"{to}\", slots = 4, pause = \"{}ms\"", self.between(1, 400));
                ("migrate-slot", from.to_owned(), with)
            }
            _ => ("partition", format!("client {client} | {node}"), String::new()),
        };
        self.servers_suffer |= suffers;
        let is_once = chaos::faults::find(fault).is_some_and(|kind| kind.one_shot);
        let lasts = match is_once || with.starts_with("drift") {
            true => String::new(),
            false => format!("for = \"{lasts}ms\"\n"),
        };
        let with = if with.is_empty() { with } else { format!("with = {{ {with} }}\n") };
        self.fault_line(at, &lasts, fault, &on, &with);
    }

    /// What no fault of this scenario excuses.
    fn expect(&self, text: &mut String) {
        text.push_str("\n[expect]\n");
        if self.servers_lose {
            return;
        }
        text.push_str("contract = \"clean\"\n");
        // While servers take over from each other a lock may be out of reach, and what a server confirmed be
        // forgotten with it. Who is refused by the library itself does not get what is free.
        if self.fails_over() || self.owners == Owners::Reserved {
            return;
        }
        text.push_str("confirmed = \"clean\"\n");
        if !self.clients_sleep {
            text.push_str("belief = \"clean\"\n");
        }
        if self.has_tokens() || !self.clients_sleep && !self.writes_late {
            text.push_str("effect = \"clean\"\n");
        }
        text.push_str("liveness = \"clean\"\n");
    }
}
