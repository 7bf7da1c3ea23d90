//! The steps of a trial, in their order, and what they share: two drivers, locks of their own, what was found.

mod grants;
mod hello;
mod leases;
mod load;
mod requests;
mod rules;

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    ConformOptions, Conformity, Outcome, Step,
    raw::{Raw, Reply},
};
use crate::protocol::{self, error_text};
use rules::*;

pub use rules::STEPS;

/// The lease of locks that are meant to lapse.
const SHORT_MS: u64 = 800;
/// The lease of locks that are not.
const LONG_MS: u64 = 20_000;
/// The watchdog's lease that is wished for; a driver may have its own.
const WATCHDOG_MS: u64 = 1_500;
/// A library that renews more rarely is not waited for.
const WATCHDOG_MAX_MS: u64 = 6_000;
/// Clocks and schedulers may be so far off.
const SLACK: Duration = Duration::from_millis(150);

/// What a step found: kept, with a remark; or what is wrong.
type Found = Result<String, String>;

/// A step that is not asked, and why.
struct NotAsked(String);

pub(super) struct Trial<'a> {
    options: &'a ConformOptions,
    a: Option<Raw>,
    b: Option<Raw>,
    kind: String,
    kinds: Vec<String>,
    features: Vec<String>,
    watchdog_ms: Option<u64>,
    locks: u32,
    wrong: Vec<String>,
    result: Conformity,
}

impl<'a> Trial<'a> {
    pub(super) fn new(options: &'a ConformOptions) -> Self {
        Trial {
            options,
            a: None,
            b: None,
            kind: options.kind.clone().unwrap_or_default(),
            kinds: Vec::new(),
            features: Vec::new(),
            watchdog_ms: None,
            locks: 0,
            wrong: Vec::new(),
            result: Conformity::default(),
        }
    }

    pub(super) async fn run(mut self, mut told: impl FnMut(&Step)) -> Conformity {
        macro_rules! step {
            ($rule:expr, $try:expr) => {{
                let found = $try;
                self.note($rule, found, &mut told);
            }};
        }
        step!(HELLO, self.hello().await.map_err(Err));
        if !self.result.conforms() {
            // Whoever cannot say hello cannot be asked for anything.
            self.end().await;
            return self.result;
        }
        step!(VERSION, self.version().await.map_err(Err));
        step!(ACQUIRE, self.acquire().await.map_err(Err));
        if self
            .result
            .steps
            .last()
            .is_some_and(|step| step.outcome == Outcome::Broken)
        {
            // Every further step begins with a grant.
            return self.lines(told).await;
        }
        step!(HELD, self.held().await.map_err(Err));
        step!(BUSY, self.busy().await.map_err(Err));
        step!(WAIT, self.wait().await.map_err(Err));
        step!(
            EXTEND,
            if self.has("extend") {
                self.extend().await.map_err(Err)
            } else {
                no_extend()
            }
        );
        step!(RELEASE, self.release().await.map_err(Err));
        step!(UNKNOWN_GRANT, self.unknown_grant().await.map_err(Err));
        step!(UNKNOWN_KIND, self.unknown_kind().await.map_err(Err));
        step!(OWNERS, self.owners().await);
        step!(CONCURRENCY, self.concurrency().await.map_err(Err));
        step!(MANY, self.many().await.map_err(Err));
        step!(EXPIRY, self.expiry().await.map_err(Err));
        step!(
            LATE_EXTEND,
            if self.has("extend") {
                self.late_extend().await.map_err(Err)
            } else {
                no_extend()
            }
        );
        step!(LATE_RELEASE, self.late_release().await.map_err(Err));
        step!(LOSS, self.loss().await);
        step!(KILL, self.kill().await.map_err(Err));
        step!(LOAD, self.load().await);
        step!(MALFORMED, self.malformed().await.map_err(Err));
        step!(BYE, self.bye().await.map_err(Err));
        step!(END_OF_INPUT, self.end_of_input().await.map_err(Err));
        self.lines(told).await
    }

    /// The last step: what was wrong in any of the others.
    async fn lines(mut self, mut told: impl FnMut(&Step)) -> Conformity {
        self.end().await;
        let found = if self.wrong.is_empty() {
            Ok(String::new())
        } else {
            Err(Err(first_few(&self.wrong)))
        };
        self.note(LINES, found, &mut told);
        self.result
    }

    fn note(
        &mut self,
        (name, rule, remedy): Rule,
        found: Result<String, Result<NotAsked, String>>,
        told: &mut impl FnMut(&Step),
    ) {
        let (outcome, found, remedy) = match found {
            Ok(remark) => (Outcome::Kept, remark, ""),
            Err(Ok(NotAsked(why))) => (Outcome::Skipped, why, ""),
            Err(Err(wrong)) => (Outcome::Broken, wrong, remedy),
        };
        let step = Step {
            name,
            rule,
            outcome,
            found,
            remedy,
        };
        told(&step);
        self.result.steps.push(step);
    }

    fn has(&self, feature: &str) -> bool {
        // Those that do not list what they can are asked all the same.
        self.features.is_empty() || self.features.iter().any(|has| has == feature)
    }

    fn lock(&mut self) -> String {
        self.locks += 1;
        format!("{}conform-{}", self.options.prefix, self.locks)
    }

    fn patience(&self) -> Duration {
        self.options.patience
    }

    /// For the answer to hello: runtimes of some languages need seconds to start.
    fn start_within(&self) -> Duration {
        self.patience() * 4
    }

    /// A driver of its own that has said hello.
    async fn fresh(&mut self, client: &str) -> Result<Raw, String> {
        let to = self.options.connect_to(client);
        let mut raw = Raw::start(&self.options.command, &to).map_err(|e| e.to_string())?;
        let within = self.start_within();
        let reply = raw
            .ask(self.hello_request(client, protocol::VERSION), within)
            .await;
        match reply {
            Ok(reply) if reply.ending == "ok" => Ok(raw),
            Ok(reply) => {
                raw.kill().await;
                Err(format!(
                    "hello was answered `{}`: {}",
                    reply.ending,
                    error_text(&reply.body)
                ))
            }
            Err(why) => {
                raw.kill().await;
                let wrong = raw.wrong.join("; ");
                let said = raw.wrong.last().is_none_or(|last| why.contains(last));
                Err(match said {
                    true => why,
                    false => format!("{wrong}; then {why}"),
                })
            }
        }
    }

    fn hello_request(&self, client: &str, version: u64) -> Value {
        json!({
            "op": "hello", "protocol": version, "target": self.options.target, "client": client, "seed": 7,
            "options": {"watchdog_ms": WATCHDOG_MS}, "a_field_of_later_versions": [1, {"x": null}],
        })
    }

    /// The two drivers, started anew where one has ended or broken the protocol.
    async fn both(&mut self) -> Result<(), String> {
        for (slot, client) in [(0, "c1"), (1, "c2")] {
            let there = if slot == 0 { &mut self.a } else { &mut self.b };
            if there.as_ref().is_some_and(Raw::is_well) {
                continue;
            }
            if let Some(mut old) = there.take() {
                old.kill().await;
                self.wrong.append(&mut old.wrong);
            }
            let new = self.fresh(client).await?;
            *(if slot == 0 { &mut self.a } else { &mut self.b }) = Some(new);
        }
        Ok(())
    }

    fn a(&mut self) -> &mut Raw {
        self.a.as_mut().expect("started by `both`")
    }

    fn b(&mut self) -> &mut Raw {
        self.b.as_mut().expect("started by `both`")
    }

    fn asking(&self, lock: &str, owner: &str, wait_ms: u64, lease_ms: Option<u64>) -> Value {
        let mut request = json!({
            "op": "acquire", "lock": lock, "kind": self.kind, "owner": owner, "wait_ms": wait_ms, "lease_ms": lease_ms,
            "a_field_of_later_versions": true,
        });
        match self.kind.as_str() {
            "multi" => {
                request["locks"] = json!([lock]);
                request.as_object_mut().expect("an object").remove("lock");
            }
            "semaphore" | "permits" => request["permits"] = json!(1),
            _ => {}
        }
        request
    }

    /// `a` gets a lock that nobody has; its grant.
    async fn granted(&mut self, lock: &str, lease_ms: u64) -> Result<String, String> {
        let (request, within) = (
            self.asking(lock, "t0", 2_000, Some(lease_ms)),
            self.patience() + Duration::from_secs(2),
        );
        let reply = self.a().ask(request, within).await?;
        grant_of(&reply).ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))
    }

    fn is_busy(&self, reply: &Reply) -> bool {
        reply.ending == "busy"
            || (reply.ending == "unknown" && self.features.iter().any(|has| has == "open_busy"))
    }

    async fn end(&mut self) {
        for raw in [&mut self.a, &mut self.b].into_iter().flatten() {
            raw.listen(Duration::from_millis(100), |_| false).await;
            raw.kill().await;
            self.wrong.append(&mut raw.wrong);
        }
    }
}

/// The first three, and how many there are.
fn first_few(wrong: &[String]) -> String {
    let few = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match wrong.len() {
        0..=3 => few,
        all => format!("{few}; and {} more", all - 3),
    }
}

fn no_extend() -> Result<String, Result<NotAsked, String>> {
    Err(Ok(NotAsked("the feature extend is not listed".to_owned())))
}

fn grant_of(reply: &Reply) -> Option<String> {
    let grant = (reply.ending == "ok").then(|| reply.body.get("grant")?.as_str());
    grant.flatten().map(str::to_owned)
}

fn shown(reply: &Reply) -> String {
    let body: String = reply.body.to_string().chars().take(200).collect();
    format!("`{}` {body}", reply.ending)
}
