//! The steps of a trial, in their order, and what they share: two drivers, locks of their own, what was found.
//!
//! | file | what it is for |
//! |---|---|
//! | `rules.rs` | what each step asks, and what to fix |
//! | `hello.rs` | the first line and the last |
//! | `grants.rs` | one lock: granted, refused, waited for, extended, released |
//! | `leases.rs` | leases that end |
//! | `requests.rs` | unknown grants and kinds, owners, several requests at once |

mod grants;
mod hello;
mod leases;
mod requests;
mod rules;

use std::time::Duration;

use futures_util::future::BoxFuture;
use results::limits;
use serde_json::{Value, json};

use super::{
    ConformOptions, Conformity, Outcome, Step,
    scripted_driver::{Reply, ScriptedDriver},
};
use crate::protocol::{self, error_text};
use rules::{Rule, STEPS};

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

/// The steps in which another client is to be kept from a lock.
const OF_ONE_HOLDER: [&str; 10] = [
    "busy",
    "wait",
    "extend",
    "concurrency",
    "cancel",
    "expiry",
    "late extend",
    "late release",
    "renewal",
    "loss",
];

/// The steps that are about a lease.
const OF_LEASES: [&str; 8] = [
    "extend",
    "expiry",
    "late extend",
    "late release",
    "notice",
    "renewal",
    "loss",
    "kill",
];

/// What a step found: kept, with a remark; or what is wrong.
type Found = Result<String, String>;

type MaybeFound = Result<String, StepFailure>;

enum StepFailure {
    NotAsked(String),
    Wrong(String),
}

impl From<String> for StepFailure {
    fn from(wrong: String) -> Self {
        StepFailure::Wrong(wrong)
    }
}

/// One of the two drivers.
type Which = usize;
const A: Which = 0;
const B: Which = 1;

pub(super) struct Trial<'a> {
    options: &'a ConformOptions,
    drivers: [Option<ScriptedDriver>; 2],
    kind: String,
    kinds: Vec<String>,
    features: Vec<String>,
    watchdog_ms: Option<u64>,
    /// Permits of the kind have no lease.
    is_leaseless: bool,
    locks: u32,
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
            kinds: Vec::new(),
            features: Vec::new(),
            watchdog_ms: None,
            is_leaseless: false,
            locks: 0,
            violations: Vec::new(),
            remedy: None,
            result: Conformity::default(),
        }
    }

    /// Boxed, so that it is compiled here once, and not wherever it is awaited.
    pub(super) fn run(
        self,
        report: Box<dyn FnMut(&Step) + Send + 'a>,
    ) -> BoxFuture<'a, Conformity> {
        Box::pin(self.all(report))
    }

    async fn all(mut self, mut report: Box<dyn FnMut(&Step) + Send + 'a>) -> Conformity {
        let mut rules = STEPS.iter();
        macro_rules! steps {
            ($($try:ident),*) => {
                $(let rule = rules.next().expect("a rule for each step");
                let found = match self.shares(rule.0) {
                    true => not_asked("several clients may have a lock of the kind read at once"),
                    false if self.is_leaseless && OF_LEASES.contains(&rule.0) => {
                        not_asked(&format!("hello says that the kind {} has no lease", self.kind))
                    }
                    false => self.$try().await.map_err(Into::into),
                };
                self.note(*rule, found, &mut report);)*
            };
        }
        steps!(hello);
        if !self.result.conforms() {
            // A driver that cannot say hello cannot be asked for anything.
            self.end().await;
            return self.result;
        }
        steps!(version, acquire);
        let broken = |step: &Step| step.outcome == Outcome::Broken;
        // Every further step begins with a grant.
        if !self.result.steps.last().is_some_and(broken) {
            steps!(
                held,
                busy,
                wait,
                extend,
                release,
                tokens,
                unknown_grant,
                unknown_kind,
                owners,
                concurrency,
                many,
                names,
                cancel,
                owner_moves,
                block,
                expiry,
                late_extend,
                late_release,
                notice,
                renewal,
                loss,
                kill,
                load,
                malformed,
                bye,
                end_of_input
            );
        }
        self.end().await;
        // The last step: what was wrong in any of the others.
        let found = match self.violations.is_empty() {
            true => Ok(String::new()),
            false => Err(first_few(&self.violations).into()),
        };
        let last = STEPS.last().expect("there are steps");
        self.note(*last, found, &mut report);
        self.result
    }

    fn note(
        &mut self,
        (name, rule, remedy, paragraph): Rule,
        found: MaybeFound,
        report: &mut dyn FnMut(&Step),
    ) {
        let (outcome, found, remedy) = match found {
            Ok(remark) => (Outcome::Kept, remark, ""),
            Err(StepFailure::NotAsked(why)) => (Outcome::Skipped, why, ""),
            Err(StepFailure::Wrong(wrong)) => {
                (Outcome::Broken, wrong, self.remedy.take().unwrap_or(remedy))
            }
        };
        let step = Step {
            name,
            rule,
            outcome,
            found,
            remedy,
            paragraph,
        };
        report(&step);
        self.result.steps.push(step);
    }

    fn lists(&self, feature: &str) -> bool {
        self.features.iter().any(|has| has == feature)
    }

    fn needs(&self, feature: &str) -> Result<(), StepFailure> {
        match self.lists(feature) {
            true => Ok(()),
            false => not_asked(&format!("the feature {feature} is not listed")).map(drop),
        }
    }

    /// Whether a step is about a lock that one client has alone, and the kind is another.
    fn shares(&self, step: &str) -> bool {
        self.kind == "read" && OF_ONE_HOLDER.contains(&step)
    }

    /// A driver that lists no features is asked all the same.
    fn can_extend(&self) -> Result<(), StepFailure> {
        match self.features.as_slice() {
            [] => Ok(()),
            _ => self.needs("extend"),
        }
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

    /// A driver of its own, and its answer to a hello of that version.
    async fn greeted(
        &self,
        client: &str,
        version: u64,
    ) -> Result<(ScriptedDriver, Result<Reply, String>), String> {
        let to = self.options.connect_to(client);
        let mut raw =
            ScriptedDriver::start(&self.options.command, &to).map_err(|e| e.to_string())?;
        let request = self.hello_request(client, version);
        let reply = raw.ask(request, self.start_within()).await;
        Ok((raw, reply))
    }

    async fn fresh(&self, client: &str) -> Result<ScriptedDriver, String> {
        let (raw, reply) = self.greeted(client, protocol::VERSION).await?;
        Ok(self.welcome(raw, reply).await?.0)
    }

    /// The driver and its `ok` to hello; the error says what it answered instead.
    async fn welcome(
        &self,
        mut raw: ScriptedDriver,
        reply: Result<Reply, String>,
    ) -> Result<(ScriptedDriver, Value), String> {
        let why = match reply {
            Ok(reply) if reply.ending == "ok" => return Ok((raw, reply.body)),
            Ok(reply) => {
                let why = error_text(&reply.body);
                format!("hello was answered `{}`: {why}", reply.ending)
            }
            Err(why) if raw.violations.last().is_none_or(|last| why.contains(last)) => why,
            Err(why) => format!("{}; then {why}", raw.violations.join("; ")),
        };
        raw.kill().await;
        Err(why)
    }

    fn hello_request(&self, client: &str, version: u64) -> Value {
        json!({
            "op": "hello", "protocol": version, "target": self.options.target, "client": client, "seed": 7,
            "options": {"watchdog_ms": WATCHDOG_MS}, "a_field_of_later_versions": [1, {"x": null}],
        })
    }

    /// The two drivers, started anew where one has ended or broken the protocol.
    async fn both(&mut self) -> Result<(), String> {
        for (which, client) in [(A, "c1"), (B, "c2")] {
            if self.drivers[which]
                .as_ref()
                .is_some_and(ScriptedDriver::is_well)
            {
                continue;
            }
            if let Some(mut old) = self.drivers[which].take() {
                old.kill().await;
                self.violations.append(&mut old.violations);
            }
            self.drivers[which] = Some(self.fresh(client).await?);
        }
        Ok(())
    }

    fn raw(&mut self, which: Which) -> &mut ScriptedDriver {
        self.drivers[which].as_mut().expect("started by `both`")
    }

    async fn fresh_lock(&mut self) -> Result<String, String> {
        self.both().await?;
        Ok(self.lock())
    }

    /// Asks, with as much time as the request itself waits and the patience beyond.
    async fn ask(&mut self, which: Which, request: Value) -> Result<Reply, String> {
        let waits_ms = request.get("wait_ms").and_then(Value::as_u64).unwrap_or(0);
        let within = self.patience() + Duration::from_millis(waits_ms);
        self.raw(which).ask(request, within).await
    }

    async fn ask_for(
        &mut self,
        which: Which,
        lock: &str,
        owner: &str,
        wait_ms: u64,
        lease_ms: Option<u64>,
    ) -> Result<Reply, String> {
        let request = self.asking(lock, owner, wait_ms, lease_ms);
        self.ask(which, request).await
    }

    async fn release_of(&mut self, which: Which, grant: &str) -> Result<Reply, String> {
        self.ask(which, json!({"op": "release", "grant": grant}))
            .await
    }

    async fn extend_of(&mut self, which: Which, grant: &str) -> Result<Reply, String> {
        let request = json!({"op": "extend", "grant": grant, "lease_ms": LONG_MS});
        self.ask(which, request).await
    }

    async fn listen(&mut self, which: Which, length: Duration) {
        self.raw(which).listen(length, |_| false).await;
    }

    fn asking(&self, lock: &str, owner: &str, wait_ms: u64, lease_ms: Option<u64>) -> Value {
        let mut request = json!({
            "op": "acquire", "lock": lock, "kind": self.kind, "owner": owner, "wait_ms": wait_ms, "lease_ms": lease_ms.filter(|_| !self.is_leaseless),
            "a_field_of_later_versions": true,
        });
        match self.kind.as_str() {
            "multi" => {
                request["locks"] = json!([lock, beside(lock)]);
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

    /// The error begins with `otherwise` where the answer is not busy.
    fn busy_or(&self, reply: &Reply, otherwise: &str) -> Result<(), String> {
        match self.is_busy(reply) {
            true => Ok(()),
            false => Err(format!("{otherwise} {}", shown(reply))),
        }
    }

    /// That a lock is still somebody else's. The error begins with `free` where it was granted.
    fn taken_or(&self, reply: &Reply, free: &str) -> Result<(), String> {
        match grant_of(reply) {
            Some(_) => Err(format!("{free}: another client was granted it")),
            None => self.busy_or(reply, "a lock that another client has was answered"),
        }
    }

    fn is_busy(&self, reply: &Reply) -> bool {
        reply.ending == "busy" || (reply.ending == "unknown" && self.lists("open_busy"))
    }

    async fn end(&mut self) {
        for raw in self.drivers.iter_mut().flatten() {
            raw.listen(Duration::from_millis(100), |_| false).await;
            raw.kill().await;
            self.violations.append(&mut raw.violations);
        }
    }
}

/// The other name that is asked for with a lock's own where a kind takes several at once.
fn beside(lock: &str) -> String {
    format!("{lock}-beside")
}

fn first_few(wrong: &[String]) -> String {
    let few = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match wrong.len() {
        0..=3 => few,
        all => format!("{few}; and {} more", all - 3),
    }
}

fn not_asked(why: &str) -> MaybeFound {
    Err(StepFailure::NotAsked(why.to_owned()))
}

fn grant_of(reply: &Reply) -> Option<String> {
    let grant = (reply.ending == "ok").then(|| reply.body.get("grant")?.as_str());
    grant.flatten().map(str::to_owned)
}

/// The grant of an answer; else the error says who was answered what.
fn granted(reply: &Reply, who: &str) -> Result<String, String> {
    let grant = grant_of(reply).ok_or_else(|| format!("{who} was answered {}", shown(reply)))?;
    match grant.len() > limits::GRANT {
        true => Err(format!(
            "{who} was given a grant whose name has more than {} bytes",
            limits::GRANT
        )),
        false => Ok(grant),
    }
}

/// Whether an answer has one of these endings; else the error says what was answered so.
fn expect(reply: &Reply, endings: &[&str], what: &str) -> Found {
    match endings.contains(&reply.ending.as_str()) {
        true => Ok(String::new()),
        false => Err(format!("{what} answered {}", shown(reply))),
    }
}

fn shown(reply: &Reply) -> String {
    let body: String = reply.body.to_string().chars().take(200).collect();
    format!("`{}` {body}", reply.ending)
}
