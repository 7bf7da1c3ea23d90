//! Turns history lines and looks at counters into what the screen shows; knows no terminal and no clock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bench::live::Look;
use results::history::{Call, End, Entry, Event, Line, Phase};

/// So many ticks are drawn.
const TICKS: usize = 240;
/// So many faults that are over are remembered.
const FAULTS: usize = 100;

/// Everything that is on the screen.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) title: String,
    pub(super) elapsed_s: u64,
    /// Parts done, of how many, and what is done now; empty where nobody says.
    pub(super) progress: Option<(usize, usize, String)>,
    /// Cycles or grants per second, a value per tick.
    pub(super) per_s: VecDeque<u64>,
    /// Time to a grant in microseconds, a value per tick; 0 where nobody was granted anything.
    pub(super) wait_us: VecDeque<u64>,
    /// The longest of the present tick, microseconds.
    pub(super) longest_us: Option<u64>,
    /// Who holds what, or how many do.
    pub(super) holders: Vec<String>,
    /// Faults, the newest last; those that last first say so.
    pub(super) faults: VecDeque<String>,
    /// What else was said.
    pub(super) notes: Vec<String>,
}

impl Model {
    /// A tick of a benchmark: what was counted since the last one, `seconds` ago. Calls under way over cycles per second are, by Little's law,
    /// the time that a call takes.
    pub(super) fn look(&mut self, before: Look, now: Look, seconds: f64) {
        // Another round has begun: its counters start again.
        let cycles = now.cycles.checked_sub(before.cycles).unwrap_or(now.cycles);
        let per_s = cycles as f64 / seconds.max(1e-9);
        let calling = f64::from(before.calling + now.calling) / 2.0;
        let wait_us = if per_s > 0.0 {
            calling / per_s * 1e6
        } else {
            0.0
        };
        self.tick(per_s as u64, wait_us as u64);
        self.longest_us = None;
        self.holders = vec![
            format!("{} of {} tasks hold a lock", now.holding, now.tasks),
            format!("{} are in a call", now.calling),
        ];
    }

    /// A tick of scenarios.
    pub(super) fn scenes(&mut self, scenes: &mut [Scene], seconds: f64) {
        let mut waits_us: Vec<u64> = Vec::new();
        self.holders.clear();
        let several = scenes.len() > 1;
        for scene in scenes {
            waits_us.append(&mut scene.waits_us);
            let from = if several {
                format!("{}: ", scene.name)
            } else {
                String::new()
            };
            self.holders.extend(
                scene
                    .held
                    .values()
                    .map(|(lock, who)| format!("{from}{lock} — {who}")),
            );
            for fault in scene.faults.drain(..) {
                self.faults.push_back(format!("{from}{fault}"));
            }
        }
        while self.faults.len() > FAULTS {
            self.faults.pop_front();
        }
        waits_us.sort_unstable();
        let per_s = waits_us.len() as f64 / seconds.max(1e-9);
        let median = waits_us.get(waits_us.len() / 2).copied().unwrap_or(0);
        self.longest_us = waits_us.last().copied();
        self.tick(per_s as u64, median);
    }

    fn tick(&mut self, per_s: u64, wait_us: u64) {
        for (all, value) in [(&mut self.per_s, per_s), (&mut self.wait_us, wait_us)] {
            all.push_back(value);
            if all.len() > TICKS {
                all.pop_front();
            }
        }
    }
}

/// One scenario as far as it has come.
#[derive(Debug)]
pub(super) struct Scene {
    name: String,
    /// Acquires under way, by id: since when, for which locks, who.
    asked: HashMap<u64, (u64, String, String)>,
    releasing: HashMap<u64, String>,
    /// By grant: which locks, who.
    held: BTreeMap<String, (String, String)>,
    /// Since the last tick.
    waits_us: Vec<u64>,
    faults: Vec<String>,
}

impl Scene {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            asked: HashMap::new(),
            releasing: HashMap::new(),
            held: BTreeMap::new(),
            waits_us: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Takes the next line. A holder counts as one from its answer until its release is answered, as it would say itself.
    pub(super) fn take(&mut self, line: &Line) {
        match &line.entry {
            Entry::Call {
                id,
                call: Call::Acquire(acquire),
            } => {
                let who = format!("{}/{}", acquire.client, acquire.owner);
                let asked = (line.t_ns, acquire.locks.join(", "), who);
                self.asked.insert(*id, asked);
            }
            Entry::Call {
                id,
                call: Call::Release { grant },
            } => {
                self.releasing.insert(*id, grant.clone());
            }
            Entry::End { id, end } => self.end(*id, end, line.t_ns),
            Entry::Event(Event::Lost { grant, .. }) => {
                self.held.remove(grant);
            }
            Entry::Event(Event::Crash { client }) => {
                let of_client = format!("{client}/");
                self.held.retain(|_, (_, who)| !who.starts_with(&of_client));
                self.fault(line.t_ns, &format!("{client} died"));
            }
            Entry::Event(Event::Fault {
                fault,
                targets,
                phase,
                ..
            }) => {
                let what = match phase {
                    Phase::Inject => "",
                    Phase::Heal => " healed",
                };
                self.fault(line.t_ns, &format!("{fault} {}{what}", targets.join(" + ")));
            }
            _ => {}
        }
    }

    fn end(&mut self, id: u64, end: &End, t_ns: u64) {
        if let Some((called_ns, locks, who)) = self.asked.remove(&id) {
            if let End::Ok {
                grant: Some(grant), ..
            } = end
            {
                self.waits_us.push(t_ns.saturating_sub(called_ns) / 1_000);
                self.held.insert(grant.clone(), (locks, who));
            }
        } else if let Some(grant) = self.releasing.remove(&id)
            && matches!(end, End::Ok { .. } | End::NotHeld)
        {
            self.held.remove(&grant);
        }
    }

    fn fault(&mut self, t_ns: u64, what: &str) {
        let at_s = t_ns as f64 / 1e9;
        self.faults.push(format!("{at_s:>6.1} s  {what}"));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const LINES: &[&str] = &[
        r#"{"t_ns":1000000,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"orders","kind":"plain","lease_ms":9,"wait_ms":9}"#,
        r#"{"t_ns":3000000,"id":1,"end":"ok","grant":"g1"}"#,
        r#"{"t_ns":4000000,"event":"fault","fault":"kill","targets":["n1"],"span":3,"phase":"inject"}"#,
        r#"{"t_ns":5000000,"id":2,"client":"c2","owner":"t0","op":"acquire","lock":"stock","kind":"plain","lease_ms":9,"wait_ms":9}"#,
        r#"{"t_ns":9000000,"id":2,"end":"ok","grant":"g2"}"#,
    ];

    pub(in crate::live) fn scene() -> Scene {
        let mut scene = Scene::new("failover");
        for line in LINES {
            scene.take(&Line::parse(line).unwrap());
        }
        scene
    }

    #[test]
    fn lines_become_holders_waits_and_faults() {
        let (mut model, mut scenes) = (Model::default(), [scene()]);
        model.scenes(&mut scenes, 0.5);
        assert_eq!(model.holders, ["orders — c1/t0", "stock — c2/t0"]);
        assert_eq!(model.faults, ["   0.0 s  kill n1"]);
        assert_eq!(model.per_s, [4]);
        assert_eq!((model.wait_us[0], model.longest_us), (4_000, Some(4_000)));
        for line in [
            r#"{"t_ns":10000000,"id":3,"op":"release","grant":"g1"}"#,
            r#"{"t_ns":11000000,"id":3,"end":"failed"}"#,
            r#"{"t_ns":12000000,"event":"crash","client":"c2"}"#,
        ] {
            scenes[0].take(&Line::parse(line).unwrap());
        }
        model.scenes(&mut scenes, 0.5);
        // A release that failed took nothing back.
        assert_eq!(model.holders, ["orders — c1/t0"]);
        assert_eq!(model.per_s, [4, 0]);
        assert_eq!(model.faults.len(), 2);
    }

    #[test]
    fn counters_become_a_rate_and_a_time() {
        let look = |cycles, calling| Look {
            cycles,
            calling,
            holding: 2,
            tasks: 16,
        };
        let mut model = Model::default();
        model.look(look(1_000, 8), look(2_000, 8), 0.5);
        assert_eq!((model.per_s[0], model.wait_us[0]), (2_000, 4_000));
        // The next round counts from nought.
        model.look(look(2_000, 8), look(500, 8), 0.5);
        assert_eq!(model.per_s[1], 1_000);
        for _ in 0..2 * TICKS {
            model.look(look(0, 0), look(0, 0), 0.5);
        }
        assert_eq!(model.per_s.len(), TICKS);
    }
}
