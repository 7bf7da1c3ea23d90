//! The steps of a trial in their order, and what they share: two drivers, their locks, what was found.
//!
//! | file | what it is for |
//! |---|---|
//! | `rules.rs` | what each step asks, and what to fix |
//! | `hello.rs` | the first line and the last |
//! | `grants.rs` | one lock: granted, refused, waited for, extended, released |
//! | `leases.rs` | leases that end |
//! | `drawn_calls.rs` | calls in any order |
//! | `faults.rs` | a key, a waiter, a master or a line that fails |
//! | `requests.rs` | unknown grants and kinds, owners, several requests at once |

mod drawn_calls;
mod faults;
mod grants;
mod hello;
mod leases;
mod requests;
mod rules;

use std::time::Duration;

use futures_util::future::BoxFuture;
use results::limits;
use serde_json::{Value, json};

use super::scripted_driver::{Reply, ScriptedDriver};
use super::{ConformOptions, Conformity, Outcome, Step};
use crate::protocol::{self, HelloReply, error_text};
use rules::{Rule, rules};

/// The lease of locks that are meant to lapse.
const SHORT_MS: u64 = 800;
/// The lease of locks that are not.
const LONG_MS: u64 = 20_000;
/// The watchdog's lease that is wished for; a driver may have its own.
const WATCHDOG_MS: u64 = 1_500;
/// A library that renews a longer lease is not waited for.
const WATCHDOG_MAX_MS: u64 = 30_000;
/// The word of a loss is not waited for where the lease is longer.
const NOTICE_MAX_MS: u64 = 6_000;
/// Clocks and schedulers may be so far off.
const SLACK: Duration = Duration::from_millis(150);

/// What a step found: `Ok` with a remark, or what broke the protocol.
type StepResult = Result<String, String>;

type SkippableResult = Result<String, StepFailure>;

enum StepFailure {
    Skipped(String),
    Violated(String),
}

impl From<String> for StepFailure {
    fn from(wrong: String) -> Self {
        StepFailure::Violated(wrong)
    }
}

/// One of the two drivers.
type DriverIndex = usize;
const A: DriverIndex = 0;
const B: DriverIndex = 1;

pub(super) struct Trial<'a> {
    options: &'a ConformOptions,
    drivers: [Option<ScriptedDriver>; 2],
    kind: String,
    hello: HelloReply,
    locks: u32,
    /// How long a lock with a lease of `SHORT_MS` was kept from another client, once that was tried.
    short_lease_ends_after: Option<Duration>,
    /// How long the slowest drawn call took that did not wait.
    slowest_call: Duration,
    violations: Vec<String>,
    /// What to fix in the step that is tried, where that is less than what its rule has.
    remedy: Option<&'static str>,
    result: Conformity,
}

impl<'a> Trial<'a> {
    pub(super) fn new(options: &'a ConformOptions) -> Self {
        Trial {
            options,
            drivers: [None, None],
            kind: options.kind.clone().unwrap_or_default(),
            hello: HelloReply::default(),
            locks: 0,
            short_lease_ends_after: None,
            slowest_call: Duration::ZERO,
            violations: Vec::new(),
            remedy: None,
            result: Conformity::default(),
        }
    }

    /// Boxed, so that it is compiled here once, and not wherever it is awaited.
    pub(super) fn run(self, report: Box<dyn FnMut(&Step) + Send + 'a>) -> BoxFuture<'a, Conformity> {
        Box::pin(self.all(report))
    }

    async fn all(mut self, mut report: Box<dyn FnMut(&Step) + Send + 'a>) -> Conformity {
        let mut rules = rules().into_iter();
        macro_rules! steps {
            ($($try:ident)*) => {
                $(let rule = rules.next().expect("a rule for each step");
                let found = match self.kind == "read" && rule.excludes {
                    true => skip("several clients may have a lock of the kind read at once"),
                    false if self.is_leaseless() && rule.is_of_leases => {
                        skip(&format!("hello says that the kind {} has no lease", self.kind))
                    }
                    false => self.$try().await.map_err(Into::into),
                };
                self.note(rule, found, &mut report);)*
            };
        }
        steps! { hello }
        if !self.result.conforms() {
            // A driver that cannot say hello cannot be asked for anything.
            self.end().await;
            return self.result;
        }
        steps! { version acquire }
        let broken = |step: &Step| step.outcome == Outcome::Broken;
        // Every further step begins with a grant.
        if !self.result.steps.last().is_some_and(broken) {
            steps! {
                held busy wait endless_wait hand_off extend release tokens unknown_grant unknown_kind owners
                many_locks read_in_write readers concurrency many names cancel owner_moves block expiry lease_after_wait
                late_extend late_release notice renewal loss kill lost_key stopped_waiter master_away
                late_entry renewed_in_turn drawn_calls load malformed bye end_of_input
            }
        }
        self.end().await;
        // The last step: what was wrong in any of the others.
        let found = match self.violations.is_empty() {
            true => Ok(String::new()),
            false => Err(first_few(&self.violations).into()),
        };
        self.note(rules.next_back().expect("a rule for the lines"), found, &mut report);
        self.result
    }

    fn note(&mut self, rule: Rule, found: SkippableResult, report: &mut dyn FnMut(&Step)) {
        let (outcome, found, remedy) = match found {
            Ok(remark) => (Outcome::Kept, remark, ""),
            Err(StepFailure::Skipped(why)) => (Outcome::Skipped, why, ""),
            Err(StepFailure::Violated(wrong)) => {
                (Outcome::Broken, wrong, self.remedy.take().unwrap_or(rule.remedy))
            }
        };
        let Rule { name, asks, paragraph, is_promise, .. } = rule;
        let step = Step { name, rule: asks, outcome, found, remedy, paragraph, is_promise };
        report(&step);
        self.result.steps.push(step);
    }

    fn has_feature(&self, feature: &str) -> bool {
        self.hello.features.iter().flatten().any(|has| has == feature)
    }

    /// Whether permits of the kind have no lease.
    fn is_leaseless(&self) -> bool {
        self.hello.leaseless.iter().flatten().any(|kind| *kind == self.kind)
    }

    fn require_feature(&self, feature: &str) -> Result<(), StepFailure> {
        match self.has_feature(feature) {
            true => Ok(()),
            false => skip(&format!("the feature {feature} is not listed")).map(drop),
        }
    }

    /// Whether the target is one server of Redis.
    fn is_single(&self) -> bool {
        protocol::shape(&self.options.target) == Some("single")
    }

    /// Keys are deleted only where nobody else has any.
    fn require_own_single(&self) -> Result<(), StepFailure> {
        if !self.options.may_flush {
            return skip("the target is not ours: nothing is deleted there").map(drop);
        }
        match self.is_single() {
            true => Ok(()),
            false => skip("keys are deleted at a single server of Redis only").map(drop),
        }
    }

    /// A driver that lists no features is asked all the same.
    fn require_extend(&self) -> Result<(), StepFailure> {
        match self.hello.features.iter().flatten().next() {
            None => Ok(()),
            Some(_) => self.require_feature("extend"),
        }
    }

    fn lock(&mut self) -> String {
        self.locks += 1;
        // A library that keeps its locks by a short hash does not mix up names that differ in a digit alone.
        let spread = (self.locks.wrapping_mul(0x9E37_79B1) >> 16) as u16;
        format!("{}conform-{}-{spread:04x}", self.options.prefix, self.locks)
    }

    fn patience(&self) -> Duration {
        self.options.patience
    }

    /// A driver of its own, and its answer to a hello of that version.
    async fn start_and_greet(
        &self,
        client: &str,
        version: u64,
    ) -> Result<(ScriptedDriver, Result<Reply, String>), String> {
        let to = self.options.connect_to(client);
        let mut driver = ScriptedDriver::start(&self.options.command, &to).map_err(|e| e.to_string())?;
        let request = self.hello_request(client, version);
        // Runtimes of some languages need seconds to start.
        let reply = driver.ask(request, self.patience() * 4).await;
        Ok((driver, reply))
    }

    async fn start_driver(&self, client: &str) -> Result<ScriptedDriver, String> {
        let (driver, reply) = self.start_and_greet(client, protocol::VERSION).await?;
        Ok(self.ok_of_hello(driver, reply).await?.0)
    }

    /// The driver and its `ok` to hello; the error says what it answered instead.
    async fn ok_of_hello(
        &self,
        mut driver: ScriptedDriver,
        reply: Result<Reply, String>,
    ) -> Result<(ScriptedDriver, Value), String> {
        let why = match reply {
            Ok(reply) if reply.ending == "ok" => return Ok((driver, reply.body)),
            Ok(reply) => {
                let why = error_text(&reply.body);
                format!("hello was answered `{}`: {why}", reply.ending)
            }
            Err(why) => match driver.violations.last() {
                Some(last) if !why.contains(last) => {
                    format!("{}; then {why}", driver.violations.join("; "))
                }
                _ => why,
            },
        };
        driver.kill().await;
        Err(why)
    }

    fn hello_request(&self, client: &str, version: u64) -> Value {
        json!({
            "op": "hello", "protocol": version, "target": self.options.target, "client": client, "seed": 7,
            "options": {"watchdog_ms": WATCHDOG_MS}, "a_field_of_later_versions": [1, {"x": null}],
        })
    }

    /// Starts the two drivers, again where one has ended or broken the protocol.
    async fn start_both(&mut self) -> Result<(), String> {
        for (which, client) in [(A, "c1"), (B, "c2")] {
            if self.drivers[which].as_ref().is_some_and(ScriptedDriver::is_well) {
                continue;
            }
            if let Some(mut old) = self.drivers[which].take() {
                old.kill().await;
                self.violations.append(&mut old.violations);
            }
            self.drivers[which] = Some(self.start_driver(client).await?);
        }
        Ok(())
    }

    fn driver(&mut self, which: DriverIndex) -> &mut ScriptedDriver {
        self.drivers[which].as_mut().expect("started by `start_both`")
    }

    async fn fresh_lock(&mut self) -> Result<String, String> {
        self.start_both().await?;
        Ok(self.lock())
    }

    /// Asks, with as much time as the request itself waits and the patience beyond.
    async fn ask(&mut self, which: DriverIndex, request: Value) -> Result<Reply, String> {
        let waits_ms = request.get("wait_ms").and_then(Value::as_u64).unwrap_or(0);
        let within = self.patience() + Duration::from_millis(waits_ms);
        self.driver(which).ask(request, within).await
    }

    async fn ask_for(
        &mut self,
        which: DriverIndex,
        lock: &str,
        owner: &str,
        wait_ms: u64,
        lease_ms: Option<u64>,
    ) -> Result<Reply, String> {
        self.ask(which, self.acquire_request(lock, owner, wait_ms, lease_ms)).await
    }

    async fn release_of(&mut self, which: DriverIndex, grant: &str) -> Result<Reply, String> {
        self.ask(which, json!({"op": "release", "grant": grant})).await
    }

    /// `A` gives its lock back: what the request of `B` is answered that waits for `wait_ms`.
    async fn answer_after_release(
        &mut self,
        held: &str,
        waiting: u64,
        wait_ms: u64,
    ) -> Result<Reply, String> {
        self.release_of(A, held).await?;
        let within = self.patience() + Duration::from_millis(wait_ms);
        self.driver(B).reply(waiting, within).await
    }

    async fn extend_of(&mut self, which: DriverIndex, grant: &str, lease_ms: u64) -> Result<Reply, String> {
        self.ask(which, json!({"op": "extend", "grant": grant, "lease_ms": lease_ms})).await
    }

    async fn listen(&mut self, which: DriverIndex, length: Duration) {
        self.driver(which).listen(length, |_| false).await;
    }

    fn acquire_request(&self, lock: &str, owner: &str, wait_ms: u64, lease_ms: Option<u64>) -> Value {
        let mut request = json!({
            "op": "acquire", "lock": lock, "kind": self.kind, "owner": owner, "wait_ms": wait_ms, "lease_ms": lease_ms.filter(|_| !self.is_leaseless()),
            "a_field_of_later_versions": true,
        });
        match self.kind.as_str() {
            "multi" => {
                request["locks"] = json!([lock, second_name(lock)]);
                request.as_object_mut().expect("an object").remove("lock");
            }
            "semaphore" | "permits" => request["permits"] = json!(1),
            _ => {}
        }
        request
    }

    /// `A` gets a lock that nobody has: its name and its grant.
    async fn granted(&mut self, lease_ms: u64) -> Result<(String, String), String> {
        let lock = self.fresh_lock().await?;
        let reply = self.ask_for(A, &lock, "t0", 2_000, Some(lease_ms)).await?;
        Ok((lock, granted(&reply, "a free lock")?))
    }

    /// Expects `busy`. An error begins with `otherwise`.
    fn expect_busy(&self, reply: &Reply, otherwise: &str) -> Result<(), String> {
        if self.is_busy(reply) { Ok(()) } else { Err(format!("{otherwise} {}", shown(reply))) }
    }

    /// Expects that another client still has the lock. If it was granted, the error begins with `free`.
    fn expect_taken(&self, reply: &Reply, free: &str) -> Result<(), String> {
        match grant_of(reply) {
            Some(_) => Err(format!("{free}: another client was granted it")),
            None => self.expect_busy(reply, "a lock that another client has was answered"),
        }
    }

    fn is_busy(&self, reply: &Reply) -> bool {
        reply.ending == "busy" || (reply.ending == "unknown" && self.has_feature("open_busy"))
    }

    async fn end(&mut self) {
        for driver in self.drivers.iter_mut().flatten() {
            driver.listen(Duration::from_millis(100), |_| false).await;
            driver.kill().await;
            self.violations.append(&mut driver.violations);
        }
    }
}

/// The second lock of a request of the kind `multi`.
fn second_name(lock: &str) -> String {
    format!("{lock}-beside")
}

fn first_few(wrong: &[String]) -> String {
    let few = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match wrong.len() {
        0..=3 => few,
        all => format!("{few}; and {} more", all - 3),
    }
}

fn skip(why: &str) -> SkippableResult {
    Err(StepFailure::Skipped(why.to_owned()))
}

fn grant_of(reply: &Reply) -> Option<String> {
    (reply.ending == "ok").then(|| reply.body.get("grant")?.as_str()).flatten().map(str::to_owned)
}

/// The grant of an answer; else the error says who was answered what.
fn granted(reply: &Reply, who: &str) -> Result<String, String> {
    let grant = grant_of(reply).ok_or_else(|| format!("{who} was answered {}", shown(reply)))?;
    match grant.len() > limits::GRANT {
        true => Err(format!("{who} was given a grant whose name has more than {} bytes", limits::GRANT)),
        false => Ok(grant),
    }
}

/// Expects one of these endings. An error begins with `what`.
fn expect(reply: &Reply, endings: &[&str], what: &str) -> StepResult {
    match endings.contains(&reply.ending.as_str()) {
        true => Ok(String::new()),
        false => Err(format!("{what} answered {}", shown(reply))),
    }
}

fn shown(reply: &Reply) -> String {
    let body: String = reply.body.to_string().chars().take(200).collect();
    format!("`{}` {body}", reply.ending)
}
