//! A conviction as steps between callers and servers, from the shortest history that convicts.
//!
//! Which node a command went to is not recorded, so callers talk to one column for all servers.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;

use crate::history::{Call, End, Entry, Event, Line};
use crate::record::run::ScenarioResult;
use crate::record::verdict::{Anomaly, State};
use crate::wording::units;

/// Faults beyond these are left out, the latest stay.
const FAULTS_MAX: usize = 8;
/// Steps beyond these are left out at the end, and counted.
const STEPS_MAX: usize = 40;

/// A conviction, step by step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sequence {
    /// What it shows, in one line.
    pub title: String,
    /// Callers, then all servers together, then nodes that faults name.
    pub columns: Vec<String>,
    /// In order of time.
    pub steps: Vec<Step>,
    /// Steps that were left out at the end.
    pub omitted: usize,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When, nanoseconds since the run began.
    pub t_ns: u64,
    /// Between which columns: the same twice for what happens in one place.
    pub between: (usize, usize),
    /// What kind of step it is.
    pub kind: StepKind,
    /// In words.
    pub words: String,
}

/// How a step is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A command, from the first column to the second.
    Command,
    /// An answer, from the first column to the second.
    Answer,
    /// Harm that begins or ends, or something else that happened there.
    Note,
    /// More are inside than may be.
    Violation,
}

impl Sequence {
    /// The conviction of the gravest verdict; `None` where nothing was convicted or the proof has no lines.
    pub fn of(result: &ScenarioResult) -> Option<Self> {
        let (verdict, proof) = ["contract", "confirmed", "belief", "effect", "liveness"]
            .into_iter()
            .filter_map(|class| result.verdicts.get(class))
            .filter(|verdict| verdict.state == State::Violated)
            .find_map(|verdict| Some((verdict, verdict.proof.as_ref()?)))
            .filter(|(_, proof)| !proof.slice.is_empty())?;
        let lines: Vec<Line> = (proof.slice.iter()).filter_map(|line| Line::parse(line).ok()).collect();
        let last_ns = lines.last()?.t_ns;
        let anomaly = verdict.anomalies.iter().max_by_key(|anomaly| {
            let length_ns = anomaly.to_ns.saturating_sub(anomaly.from_ns);
            (anomaly.what == "overlap", length_ns, std::cmp::Reverse(anomaly.from_ns))
        })?;
        let mut drawn =
            DiagramDraft { servers: format!("servers ({})", result.topology), ..DiagramDraft::default() };
        for line in &lines {
            drawn.line(line);
        }
        let begun = result.faults.iter().filter(|f| f.injected_ns <= last_ns);
        let skipped = begun.clone().count().saturating_sub(FAULTS_MAX);
        for fault in begun.skip(skipped) {
            let label = fault.label();
            let evidence = units::enclosed(": ", &fault.proof, "");
            drawn.note(fault.injected_ns, &fault.targets, format!("{label} begins{evidence}"));
            if let Some(healed_ns) = fault.healed_ns.filter(|ns| *ns <= last_ns) {
                drawn.note(healed_ns, &fault.targets, format!("{label} is healed"));
            }
        }
        drawn.violation(anomaly);
        Some(drawn.finish(anomaly))
    }

    /// The same as a `sequenceDiagram` for Mermaid, a line per step, with a newline at its end.
    pub fn mermaid(&self) -> String {
        let mut out = "sequenceDiagram\n".to_owned();
        for (index, column) in self.columns.iter().enumerate() {
            out.push_str(&format!("    participant p{index} as {}\n", plain(column)));
        }
        for step in &self.steps {
            let (from, to) = step.between;
            let words = plain(&format!("{} {}", units::instant(step.t_ns), step.words));
            let line = match step.kind {
                StepKind::Command => format!("p{from}->>p{to}: {words}"),
                StepKind::Answer => format!("p{from}-->>p{to}: {words}"),
                _ if from == to => format!("Note over p{from}: {words}"),
                _ => format!("Note over p{},p{}: {words}", from.min(to), from.max(to)),
            };
            out.push_str(&format!("    {line}\n"));
        }
        out
    }
}

/// Text that Mermaid takes as text: what it could read as markup is written by its number.
fn plain(text: &str) -> String {
    let safe = |c: char| match c {
        c if c.is_alphanumeric() || " .,:/()+->=_'×".contains(c) => c.to_string(),
        c if c.is_control() => " ".to_owned(),
        c => format!("#{};", u32::from(c)),
    };
    text.chars().map(safe).collect()
}

/// Where a step happens, before columns have their places.
#[derive(Debug, Clone, PartialEq)]
enum Participant {
    Caller(String),
    Servers,
    Node(String),
}

/// When, where, how and what.
type Draft = (u64, Vec<Participant>, StepKind, String);

#[derive(Default)]
struct DiagramDraft {
    servers: String,
    steps: Vec<Draft>,
    /// Caller, lease and what was asked for, by the id of the call.
    asked: BTreeMap<u64, (String, Option<u64>)>,
    callers: BTreeMap<String, String>,
}

impl DiagramDraft {
    fn line(&mut self, line: &Line) {
        let t_ns = line.t_ns;
        match &line.entry {
            Entry::Call { id, call } => {
                let lease = |ms: u64| units::duration(ms.saturating_mul(1_000_000));
                let (caller, lease_ms, words) = match call {
                    Call::Acquire(ask) => {
                        let (names, kind) = (ask.names().join(", "), &ask.kind);
                        let lease = ask.lease_ms.map_or("renewed".to_owned(), lease);
                        let words = format!("acquire {names} ({kind}, lease {lease})");
                        (format!("{}/{}", ask.client, ask.owner), ask.lease_ms, words)
                    }
                    Call::Extend { grant, lease_ms, .. } => {
                        let words = format!("extend {grant} by {}", lease(*lease_ms));
                        (self.caller(grant), Some(*lease_ms), words)
                    }
                    Call::Release { grant } => (self.caller(grant), None, format!("release {grant}")),
                };
                self.asked.insert(*id, (caller.clone(), lease_ms));
                let way = vec![Participant::Caller(caller), Participant::Servers];
                self.steps.push((t_ns, way, StepKind::Command, words));
            }
            Entry::End { id, end } => {
                let Some((caller, lease_ms)) = self.asked.remove(id) else {
                    return;
                };
                let mut words = end.words();
                if let End::Ok { grant, sent_ns, lease_ms: granted_ms, .. } = end {
                    if let Some(grant) = grant {
                        self.callers.insert(grant.clone(), caller.clone());
                        words = format!("granted: {grant}");
                    }
                    if let Some(ms) = granted_ms.or(lease_ms) {
                        let to_ns = sent_ns.unwrap_or(t_ns).saturating_add(ms.saturating_mul(1_000_000));
                        words.push_str(&format!(", lease to {}", units::instant(to_ns)));
                    }
                }
                let way = vec![Participant::Servers, Participant::Caller(caller)];
                self.steps.push((t_ns, way, StepKind::Answer, words));
            }
            Entry::Event(event) => {
                let (place, words) = match event {
                    Event::Lost { grant, .. } => {
                        (Participant::Caller(self.caller(grant)), format!("is notified that {grant} is lost"))
                    }
                    Event::Write { grant, accepted, .. } => {
                        let ending = if *accepted { "accepted" } else { "refused" };
                        let words = format!("writes to the resource under {grant}: {ending}");
                        (Participant::Caller(self.caller(grant)), words)
                    }
                    Event::Crash { client } => (Participant::Node(client.clone()), format!("{client} dies")),
                    Event::Probe { lock, ok } => {
                        let verb = if *ok { "take" } else { "refuse" };
                        (Participant::Servers, format!("the servers {verb} a write to {lock}"))
                    }
                    // Faults are drawn with their evidence, from the result.
                    _ => return,
                };
                self.steps.push((t_ns, vec![place], StepKind::Note, words));
            }
        }
    }

    /// Who has a grant; where its acquire is not among the lines, the client that its name begins with.
    fn caller(&self, grant: &str) -> String {
        let known = self.callers.get(grant).cloned();
        known.unwrap_or_else(|| grant.split('/').next().unwrap_or(grant).to_owned())
    }

    fn note(&mut self, t_ns: u64, targets: &[String], words: String) {
        let ends = targets.iter().flat_map(|target| target.split(" -> "));
        let places = ends.map(|name| Participant::Node(name.to_owned())).collect();
        self.steps.push((t_ns, places, StepKind::Note, words));
    }

    fn violation(&mut self, anomaly: &Anomaly) {
        let length_ns = anomaly.to_ns.saturating_sub(anomaly.from_ns);
        let inside: Vec<String> = anomaly.grants.iter().map(|grant| self.caller(grant)).unique().collect();
        let long = units::enclosed(" for ", &units::known_duration(length_ns), "");
        let words = match (anomaly.what.as_str(), inside.as_slice()) {
            ("overlap", [first, second]) => {
                format!("{first} and {second} both hold {}{long}", anomaly.lock)
            }
            (what, _) => format!("{what} on {}{long}", anomaly.lock),
        };
        let places = match inside.is_empty() {
            true => vec![Participant::Servers],
            false => inside.into_iter().map(Participant::Caller).collect(),
        };
        self.steps.push((anomaly.from_ns, places, StepKind::Violation, words));
    }

    fn finish(mut self, anomaly: &Anomaly) -> Sequence {
        // What is said of an instant stands below what led to it.
        self.steps.sort_by_key(|(t_ns, _, kind, _)| (*t_ns, *kind == StepKind::Violation));
        let omitted = self.steps.len().saturating_sub(STEPS_MAX);
        self.steps.truncate(STEPS_MAX);
        let places = || self.steps.iter().flat_map(|(_, places, _, _)| places);
        let callers = places().filter_map(|place| match place {
            Participant::Caller(name) => Some(name.clone()),
            _ => None,
        });
        let mut columns: Vec<String> = callers.unique().collect();
        // A fault names a client, which may have several callers here, or a node.
        let of_client =
            |name: &str, column: &String| column == name || column.split('/').next() == Some(name);
        let nodes = places().filter_map(|place| match place {
            Participant::Node(name) => Some(name.clone()),
            _ => None,
        });
        let mut nodes: BTreeSet<String> = nodes.collect();
        nodes.retain(|name| !columns.iter().any(|column| of_client(name, column)));
        let servers = columns.len();
        columns.push(self.servers.clone());
        columns.extend(nodes);
        let spread = |place: &Participant| -> Vec<usize> {
            let is = |at: usize, column: &String| match place {
                Participant::Servers => at == servers,
                Participant::Caller(name) => column == name,
                Participant::Node(name) => at != servers && of_client(name, column),
            };
            columns.iter().enumerate().filter(|(at, column)| is(*at, column)).map(|(at, _)| at).collect()
        };
        let steps = self.steps.iter().map(|(t_ns, places, kind, words)| {
            let mut at: Vec<usize> = places.iter().flat_map(spread).collect();
            if !matches!(kind, StepKind::Command | StepKind::Answer) {
                at.sort_unstable();
            }
            let end = |at: Option<&usize>| at.copied().unwrap_or(servers);
            Step {
                t_ns: *t_ns,
                between: (end(at.first()), end(at.last())),
                kind: *kind,
                words: words.clone(),
            }
        });
        Sequence {
            title: format!("How it came about: {} on {}", anomaly.what, anomaly.lock),
            steps: steps.collect(),
            columns,
            omitted,
        }
    }
}
