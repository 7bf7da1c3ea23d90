//! The steps of a trial, in their order; each is a rule, what to mend, and a few lines that try it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    ConformOptions, Conformity, Outcome, Step,
    raw::{Raw, Reply},
};
use crate::protocol::{self, error_text};

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

/// A rule: its name, what it asks, and what to mend.
type Rule = (&'static str, &'static str, &'static str);

/// Every step: its name, what a driver has to do, and what to mend if it does not.
pub const STEPS: &[Rule] = &[
    HELLO,
    VERSION,
    ACQUIRE,
    HELD,
    BUSY,
    WAIT,
    EXTEND,
    RELEASE,
    UNKNOWN_GRANT,
    UNKNOWN_KIND,
    OWNERS,
    CONCURRENCY,
    MANY,
    EXPIRY,
    LATE_EXTEND,
    LATE_RELEASE,
    LOSS,
    KILL,
    LOAD,
    MALFORMED,
    BYE,
    END_OF_INPUT,
    LINES,
];

const HELLO: Rule = (
    "hello",
    "answers hello with its protocol, its library's name, version and language, and at least one kind; fields that it does not know are ignored",
    "answer {\"id\":0,\"ok\":{\"protocol\":1,\"name\":…,\"version\":…,\"language\":…,\"kinds\":[…],\"features\":[…]}} and flush standard output after each line; \
     banners and logs belong on standard error",
);
const VERSION: Rule = (
    "version",
    "answers a hello of a version that it does not speak with `failed`, or with the version that it does speak",
    "compare `protocol` with 1; answer `failed`, or `ok` with \"protocol\":1, and stay alive",
);
const ACQUIRE: Rule = (
    "acquire",
    "grants a free lock, with a name for the grant; token and age are numbers where they are given",
    "answer {\"id\":…,\"ok\":{\"grant\":\"…\"}}; a token is a whole number from 0 to 2^63-1, age_ms the milliseconds since the attempt that succeeded was sent",
);
const HELD: Rule = (
    "held",
    "says what the library believes of a grant that it has",
    "answer {\"id\":…,\"ok\":{\"held\":true}} while the grant is held",
);
const BUSY: Rule = (
    "busy",
    "answers `busy` at once when another client has the lock and `wait_ms` is 0",
    "one try with wait_ms 0, and `busy` if the library says that another has it (`unknown` with the feature open_busy)",
);
const WAIT: Rule = (
    "wait",
    "waits for `wait_ms`, not much less and not much longer, before it says `busy`; gets the lock when it is released meanwhile",
    "hand wait_ms to the library as the longest wait, in milliseconds",
);
const EXTEND: Rule = (
    "extend",
    "lengthens a lease that it has: the lock outlives the lease that it was acquired with",
    "extend to lease_ms from now on, and answer `ok` only when the server has done it",
);
const RELEASE: Rule = (
    "release",
    "gives the lock back, and answers `not_held` to a second release of the same grant",
    "release by the grant's own value, forget it, and answer `not_held` for what is not held",
);
const UNKNOWN_GRANT: Rule = (
    "unknown grant",
    "answers `not_held` or `failed` to a grant that it never gave",
    "look the grant up, and do not end when it is not there",
);
const UNKNOWN_KIND: Rule = (
    "unknown kind",
    "answers `failed` to a kind that it does not list",
    "compare `kind` with the list of hello",
);
const OWNERS: Rule = (
    "owners",
    "grants a re-entrant kind again to the same owner, with a new grant, and to nobody else in the same client; a plain kind to nobody",
    "use `owner` as the identity of the caller (a thread's, a task's), and give each re-entry a grant of its own",
);
const CONCURRENCY: Rule = (
    "concurrency",
    "answers one request while another one waits for a lock",
    "give each request a thread or a task of its own",
);
const MANY: Rule = (
    "many at once",
    "grants twenty free locks that are asked for at once, each with a grant of its own",
    "guard what requests share, above all standard output: a line is written whole",
);
const EXPIRY: Rule = (
    "expiry",
    "a lock that is neither extended nor released is free after its lease, and not before",
    "hand lease_ms to the library as the lease, in milliseconds, with no renewal of its own when lease_ms is a number",
);
const LATE_EXTEND: Rule = (
    "late extend",
    "answers `not_held` to an extend after the lease has lapsed and another client has the lock",
    "extend only where the value at the server is the grant's own, in one atomic step",
);
const LATE_RELEASE: Rule = (
    "late release",
    "a release after the lease has lapsed does not take the lock from the client that has it now",
    "delete only where the value at the server is the grant's own, in one atomic step, and answer `not_held` otherwise",
);
const LOSS: Rule = (
    "loss",
    "a renewed lock outlives its lease, and when the servers lose it the driver says so: `lost`, or `not_held` to an extend",
    "print {\"event\":\"lost\",\"grant\":…} when the library finds the lock gone, and do not create it anew",
);
const KILL: Rule = (
    "kill",
    "the lock of a killed client is free after its lease",
    "let the server keep the lease; nothing of a lock may depend on an orderly end",
);
const LOAD: Rule = (
    "load",
    "runs a closed loop by itself and gives cycles and histograms, or answers `failed`",
    "answer `failed` if the driver does not offer load; else cycles, failed, unknown, elapsed_ns and per_task, and histograms as base64",
);
const MALFORMED: Rule = (
    "malformed input",
    "prints nothing but protocol when a line is no request: it ends with an error on standard error, or goes on",
    "catch what the JSON parser throws; exit, or skip the line",
);
const BYE: Rule = (
    "bye",
    "answers `bye` and exits with code 0",
    "answer {\"id\":…,\"ok\":{}}, flush, and exit with 0",
);
const END_OF_INPUT: Rule = (
    "end of input",
    "exits with code 0 when its standard input ends",
    "leave the loop at the end of the input, also while threads wait",
);
const LINES: Rule = (
    "lines",
    "in all of this it printed whole lines of JSON, each id once, with one ending",
    "one line per answer, with the request's own id and one of ok, busy, not_held, failed, unknown",
);

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
        (name, rule, mend): Rule,
        found: Result<String, Result<NotAsked, String>>,
        told: &mut impl FnMut(&Step),
    ) {
        let (outcome, found, mend) = match found {
            Ok(remark) => (Outcome::Kept, remark, ""),
            Err(Ok(NotAsked(why))) => (Outcome::Skipped, why, ""),
            Err(Err(wrong)) => (Outcome::Broken, wrong, mend),
        };
        let step = Step {
            name,
            rule,
            outcome,
            found,
            mend,
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

    /// A driver of its own that has said hello.
    async fn fresh(&mut self, client: &str) -> Result<Raw, String> {
        let to = self.options.connect_to(client);
        let mut raw = Raw::start(&self.options.command, &to).map_err(|e| e.message)?;
        // Runtimes of some languages need seconds to start.
        let within = self.patience().max(Duration::from_secs(20));
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
                Err(if wrong.is_empty() {
                    why
                } else {
                    format!("{wrong}; then {why}")
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

    async fn hello(&mut self) -> Found {
        let mut raw = self.fresh("c1").await?;
        // What was said is asked for once more, since `fresh` looks at the ending only.
        raw.listen(Duration::from_millis(200), |raw| !raw.wrong.is_empty())
            .await;
        if let Some(wrong) = raw.wrong.first() {
            let wrong = wrong.clone();
            raw.kill().await;
            return Err(wrong);
        }
        raw.kill().await;
        let to = self.options.connect_to("c1");
        let mut raw = Raw::start(&self.options.command, &to).map_err(|e| e.message)?;
        let request = self.hello_request("c1", protocol::VERSION);
        let reply = raw
            .ask(request, self.patience().max(Duration::from_secs(20)))
            .await?;
        let body = reply.body;
        for field in ["name", "version", "language"] {
            if body
                .get(field)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                return Err(format!("`{field}` is missing, or no string: {body}"));
            }
        }
        if body.get("protocol").and_then(Value::as_u64) != Some(protocol::VERSION) {
            return Err(format!("`protocol` is not {}: {body}", protocol::VERSION));
        }
        let list = |field: &str| -> Option<Vec<String>> {
            let list = body.get(field)?.as_array()?;
            list.iter()
                .map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        self.kinds = list("kinds")
            .filter(|kinds| !kinds.is_empty())
            .ok_or_else(|| format!("`kinds` is no list of names: {body}"))?;
        self.features = match body.get("features") {
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                list("features").ok_or_else(|| format!("`features` is no list of names: {body}"))?
            }
        };
        self.watchdog_ms = match body.get("watchdog_ms") {
            None | Some(Value::Null) => None,
            Some(number) => Some(
                number
                    .as_u64()
                    .ok_or_else(|| format!("`watchdog_ms` is no whole number: {body}"))?,
            ),
        };
        if self.kind.is_empty() {
            self.kind = self.kinds[0].clone();
        } else if !self.kinds.contains(&self.kind) {
            return Err(format!(
                "the kind `{}` is not among those it lists: {}",
                self.kind,
                self.kinds.join(", ")
            ));
        }
        let text = |field: &str| {
            body.get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        self.result.library = format!(
            "{} {} ({})",
            text("name"),
            text("version"),
            text("language")
        );
        self.a = Some(raw);
        Ok(format!(
            "{}; kinds {}; tried with {}",
            self.result.library,
            self.kinds.join(", "),
            self.kind
        ))
    }

    async fn version(&mut self) -> Found {
        const FUTURE: u64 = 999;
        let to = self.options.connect_to("c1");
        let mut raw = Raw::start(&self.options.command, &to).map_err(|e| e.message)?;
        let request = self.hello_request("c1", FUTURE);
        let reply = raw
            .ask(request, self.patience().max(Duration::from_secs(20)))
            .await;
        raw.kill().await;
        self.wrong.append(&mut raw.wrong);
        let reply = reply?;
        match (
            reply.ending.as_str(),
            reply.body.get("protocol").and_then(Value::as_u64),
        ) {
            ("failed", _) => Ok("refused".to_owned()),
            ("ok", Some(protocol::VERSION)) => Ok("answered with its own".to_owned()),
            _ => Err(format!("version {FUTURE} was answered {}", shown(&reply))),
        }
    }

    async fn acquire(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let (request, within) = (self.asking(&lock, "t0", 0, Some(LONG_MS)), self.patience());
        let reply = self.a().ask(request, within).await?;
        let grant = grant_of(&reply)
            .ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))?;
        if let Some(token) = reply.body.get("token").filter(|token| !token.is_null())
            && token
                .as_u64()
                .is_none_or(|token| i64::try_from(token).is_err())
        {
            return Err(format!(
                "the token {token} is no whole number from 0 to 2^63-1"
            ));
        }
        if let Some(age) = reply.body.get("age_ms").filter(|age| !age.is_null()) {
            let age_ms = age
                .as_f64()
                .filter(|age| *age >= 0.0)
                .ok_or_else(|| format!("age_ms is {age}"))?;
            let took_ms = (reply.took + SLACK).as_secs_f64() * 1000.0;
            if age_ms > took_ms {
                return Err(format!(
                    "age_ms is {age_ms}, and the whole request took {:.1} ms",
                    took_ms - 150.0
                ));
            }
        }
        let (request, within) = (json!({"op": "release", "grant": grant}), self.patience());
        self.a().ask(request, within).await?;
        Ok(format!("in {:.1} ms", reply.took.as_secs_f64() * 1000.0))
    }

    async fn held(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let (request, within) = (json!({"op": "held", "grant": grant}), self.patience());
        let reply = self.a().ask(request.clone(), within).await?;
        match (reply.ending.as_str(), reply.body.get("held")) {
            ("ok", Some(Value::Bool(true))) => {}
            // A library that cannot be asked says so.
            ("failed", _) => {
                self.a()
                    .ask(json!({"op": "release", "grant": grant}), within)
                    .await?;
                return Ok("cannot be asked".to_owned());
            }
            _ => {
                return Err(format!(
                    "a lock that is held was answered {}",
                    shown(&reply)
                ));
            }
        }
        let mut round_trips = Vec::new();
        for _ in 0..200 {
            round_trips.push(self.a().ask(request.clone(), within).await?.took);
        }
        round_trips.sort_unstable();
        let pipe = (
            round_trips[round_trips.len() / 2],
            round_trips[round_trips.len() * 99 / 100],
        );
        self.result.pipe = Some(pipe);
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        Ok(format!(
            "the pipe costs {:?} per round trip (99 %: {:?})",
            pipe.0, pipe.1
        ))
    }

    fn is_busy(&self, reply: &Reply) -> bool {
        reply.ending == "busy"
            || (reply.ending == "unknown" && self.features.iter().any(|has| has == "open_busy"))
    }

    async fn busy(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let (request, within) = (self.asking(&lock, "t0", 0, Some(LONG_MS)), self.patience());
        let reply = self.b().ask(request, within).await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "a lock that another client has was answered {}",
                shown(&reply)
            ));
        }
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        Ok(String::new())
    }

    async fn wait(&mut self) -> Found {
        const WAIT_MS: u64 = 500;
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let (request, within) = (
            self.asking(&lock, "t0", WAIT_MS, Some(LONG_MS)),
            self.patience(),
        );
        let reply = self
            .b()
            .ask(request, within + Duration::from_millis(WAIT_MS))
            .await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "a lock that another client has was answered {}",
                shown(&reply)
            ));
        }
        if reply.took + SLACK < Duration::from_millis(WAIT_MS) {
            return Err(format!("it gave up after {:?} of {WAIT_MS} ms", reply.took));
        }
        if reply.took > Duration::from_millis(WAIT_MS) + Duration::from_secs(2) {
            return Err(format!("it took {:?} instead of {WAIT_MS} ms", reply.took));
        }
        let request = self.asking(&lock, "t0", 8_000, Some(LONG_MS));
        let waiting = self.b().send(request).await;
        // Not a guess that must come true: a waiter that is late only makes the step easier.
        self.b().listen(Duration::from_millis(200), |_| false).await;
        if self.b().has(waiting) {
            return Err("a waiter was answered while the lock was held".to_owned());
        }
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        let reply = self
            .b()
            .reply(waiting, within + Duration::from_secs(8))
            .await?;
        let next = grant_of(&reply).ok_or_else(|| {
            format!(
                "a waiter for a lock that was released was answered {}",
                shown(&reply)
            )
        })?;
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        Ok(String::new())
    }

    async fn extend(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, SHORT_MS).await?;
        let within = self.patience();
        let reply = self
            .a()
            .ask(
                json!({"op": "extend", "grant": grant, "lease_ms": LONG_MS}),
                within,
            )
            .await?;
        if reply.ending != "ok" {
            return Err(format!(
                "an extend of a lock that is held was answered {}",
                shown(&reply)
            ));
        }
        self.a()
            .listen(Duration::from_millis(SHORT_MS + 300), |_| false)
            .await;
        let request = self.asking(&lock, "t0", 0, Some(LONG_MS));
        let reply = self.b().ask(request, within).await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "extended by {LONG_MS} ms, after {SHORT_MS} ms another client was answered {}",
                shown(&reply)
            ));
        }
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        Ok(String::new())
    }

    async fn release(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let within = self.patience();
        let request = json!({"op": "release", "grant": grant});
        let reply = self.a().ask(request.clone(), within).await?;
        if reply.ending != "ok" {
            return Err(format!(
                "the release of a lock that is held was answered {}",
                shown(&reply)
            ));
        }
        let asking = self.asking(&lock, "t0", 2_000, Some(LONG_MS));
        let reply = self.b().ask(asking, within).await?;
        let next = grant_of(&reply)
            .ok_or_else(|| format!("after its release the lock was answered {}", shown(&reply)))?;
        let reply = self.a().ask(request, within).await?;
        if !["not_held", "failed"].contains(&reply.ending.as_str()) {
            return Err(format!("a second release was answered {}", shown(&reply)));
        }
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        Ok(String::new())
    }

    async fn unknown_grant(&mut self) -> Found {
        self.both().await?;
        let within = self.patience();
        let reply = self
            .a()
            .ask(json!({"op": "release", "grant": "no-such-grant"}), within)
            .await?;
        match reply.ending.as_str() {
            "not_held" | "failed" => Ok(String::new()),
            _ => Err(format!("it was answered {}", shown(&reply))),
        }
    }

    async fn unknown_kind(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let mut request = self.asking(&lock, "t0", 0, Some(SHORT_MS));
        request["kind"] = json!("no-such-kind");
        let within = self.patience();
        let reply = self.a().ask(request, within).await?;
        match reply.ending.as_str() {
            "failed" => Ok(String::new()),
            _ => Err(format!("it was answered {}", shown(&reply))),
        }
    }

    async fn owners(&mut self) -> Result<String, Result<NotAsked, String>> {
        let nests = match self.kind.as_str() {
            "plain" | "non-reentrant" => false,
            "reentrant" | "spin" | "fenced" | "fair" | "write" => true,
            other => return Err(Ok(NotAsked(format!("the kind {other} may nest or not")))),
        };
        let tried = async {
            self.both().await?;
            let lock = self.lock();
            let first = self.granted(&lock, LONG_MS).await?;
            let within = self.patience();
            let request = self.asking(&lock, "t1", 0, Some(LONG_MS));
            let reply = self.a().ask(request, within).await?;
            if !self.is_busy(&reply) {
                return Err(format!(
                    "another owner in the same client was answered {}",
                    shown(&reply)
                ));
            }
            let request = self.asking(&lock, "t0", 0, Some(LONG_MS));
            let reply = self.a().ask(request, within).await?;
            let again = grant_of(&reply);
            match (&again, nests) {
                (Some(again), true) if *again == first => {
                    return Err("a re-entry got the grant of the first hold".to_owned());
                }
                (None, true) => return Err(format!("a re-entry was answered {}", shown(&reply))),
                (Some(_), false) => {
                    return Err(format!(
                        "the holder of a {} lock was granted it again",
                        self.kind
                    ));
                }
                _ => {}
            }
            for grant in again.into_iter().chain([first]) {
                let reply = self
                    .a()
                    .ask(json!({"op": "release", "grant": grant}), within)
                    .await?;
                if reply.ending != "ok" {
                    return Err(format!("a release was answered {}", shown(&reply)));
                }
            }
            Ok(String::new())
        };
        tried.await.map_err(Err)
    }

    async fn concurrency(&mut self) -> Found {
        self.both().await?;
        let (lock, other) = (self.lock(), self.lock());
        let held = self.granted(&lock, LONG_MS).await?;
        let within = self.patience();
        let request = self.asking(&lock, "t0", 5_000, Some(LONG_MS));
        let waiting = self.b().send(request).await;
        let request = self.asking(&other, "t1", 0, Some(LONG_MS));
        let asked = Instant::now();
        let reply = self
            .b()
            .ask(request, within + Duration::from_secs(5))
            .await?;
        let took = asked.elapsed();
        if self.b().has(waiting) || took > Duration::from_secs(4) {
            return Err(format!(
                "while one request waited for a lock, another one was answered after {took:?}"
            ));
        }
        let got = grant_of(&reply)
            .ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))?;
        self.a()
            .ask(json!({"op": "release", "grant": held}), within)
            .await?;
        let reply = self
            .b()
            .reply(waiting, within + Duration::from_secs(5))
            .await?;
        let next =
            grant_of(&reply).ok_or_else(|| format!("the waiter was answered {}", shown(&reply)))?;
        for grant in [got, next] {
            self.b()
                .ask(json!({"op": "release", "grant": grant}), within)
                .await?;
        }
        Ok(String::new())
    }

    async fn many(&mut self) -> Found {
        self.both().await?;
        let within = self.patience();
        let mut asked = Vec::new();
        for n in 0..20 {
            let lock = self.lock();
            let request = self.asking(&lock, &format!("t{n}"), 2_000, Some(LONG_MS));
            asked.push(self.a().send(request).await);
        }
        let mut grants = std::collections::BTreeSet::new();
        for id in &asked {
            let reply = self.a().reply(*id, within + Duration::from_secs(2)).await?;
            let grant = grant_of(&reply)
                .ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))?;
            if !grants.insert(grant.clone()) {
                return Err(format!("the grant `{grant}` was given twice"));
            }
        }
        for grant in grants {
            self.a()
                .ask(json!({"op": "release", "grant": grant}), within)
                .await?;
        }
        Ok(String::new())
    }

    /// `a` lets a lease lapse, and `b` has the lock: both grants.
    async fn lapsed(&mut self) -> Result<(String, String, Duration), String> {
        self.both().await?;
        let lock = self.lock();
        let within = self.patience();
        let asked = Instant::now();
        let first = self.granted(&lock, SHORT_MS).await?;
        let request = self.asking(&lock, "t0", 6_000, Some(LONG_MS));
        let reply = self
            .b()
            .ask(request, within + Duration::from_secs(6))
            .await?;
        let after = asked.elapsed();
        let next = grant_of(&reply).ok_or_else(|| {
            format!(
                "after the lease of {SHORT_MS} ms another client was answered {}",
                shown(&reply)
            )
        })?;
        Ok((first, next, after))
    }

    async fn expiry(&mut self) -> Found {
        let (_, next, after) = self.lapsed().await?;
        let within = self.patience();
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        if after + SLACK < Duration::from_millis(SHORT_MS) {
            return Err(format!(
                "another client got the lock after {after:?} of a lease of {SHORT_MS} ms"
            ));
        }
        Ok(format!("free after {} ms of {SHORT_MS}", after.as_millis()))
    }

    async fn late_extend(&mut self) -> Found {
        let (first, next, _) = self.lapsed().await?;
        let within = self.patience();
        let reply = self
            .a()
            .ask(
                json!({"op": "extend", "grant": first, "lease_ms": LONG_MS}),
                within,
            )
            .await?;
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        match reply.ending.as_str() {
            "not_held" | "failed" => Ok(String::new()),
            _ => Err(format!(
                "an extend of a lapsed lease, with another holder, was answered {}",
                shown(&reply)
            )),
        }
    }

    async fn late_release(&mut self) -> Found {
        self.both().await?;
        let (first, next, _) = self.lapsed().await?;
        let lock = format!("{}conform-{}", self.options.prefix, self.locks);
        let within = self.patience();
        let reply = self
            .a()
            .ask(json!({"op": "release", "grant": first}), within)
            .await?;
        let late = reply.ending.clone();
        let request = self.asking(&lock, "t2", 0, Some(LONG_MS));
        let reply = self.a().ask(request, within).await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "a late release (answered `{late}`) freed the lock of another client: a third one was answered {}",
                shown(&reply)
            ));
        }
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        if late == "ok" {
            return Err(
                "a release of a lapsed lease, with another holder, was answered `ok`".to_owned(),
            );
        }
        Ok(String::new())
    }

    async fn loss(&mut self) -> Result<String, Result<NotAsked, String>> {
        if !self.options.may_flush {
            return Err(Ok(NotAsked(
                "the target is not ours: nothing is deleted there".to_owned(),
            )));
        }
        let tried = async {
            self.both().await?;
            let lock = self.lock();
            let within = self.patience();
            let request = self.asking(&lock, "t0", 2_000, None);
            let reply = self
                .a()
                .ask(request, within + Duration::from_secs(2))
                .await?;
            let Some(grant) = grant_of(&reply) else {
                return if reply.ending == "failed" {
                    Ok(Err(format!(
                        "no renewed lease: {}",
                        error_text(&reply.body)
                    )))
                } else {
                    Err(format!("a renewed lease was answered {}", shown(&reply)))
                };
            };
            let renews_ms = self.watchdog_ms.filter(|ms| *ms <= WATCHDOG_MAX_MS);
            if let Some(ms) = renews_ms {
                self.a()
                    .listen(Duration::from_millis(ms + 300), |_| false)
                    .await;
                let request = self.asking(&lock, "t0", 0, Some(LONG_MS));
                let reply = self.b().ask(request, within).await?;
                if !self.is_busy(&reply) {
                    return Err(format!(
                        "a renewed lock was free after its lease of {ms} ms: another client was answered {}",
                        shown(&reply)
                    ));
                }
            }
            flush(&self.options.target).await?;
            let told = |raw: &Raw| {
                raw.events.iter().any(|event| {
                    event.get("event").and_then(Value::as_str) == Some("lost")
                        && event.get("grant").and_then(Value::as_str) == Some(&grant)
                })
            };
            if let Some(ms) = renews_ms {
                self.a()
                    .listen(Duration::from_millis(ms) + Duration::from_secs(2), told)
                    .await;
            }
            if told(self.a()) {
                return Ok(Ok("said lost".to_owned()));
            }
            let reply = self
                .a()
                .ask(
                    json!({"op": "extend", "grant": grant, "lease_ms": LONG_MS}),
                    within,
                )
                .await?;
            match reply.ending.as_str() {
                "not_held" | "failed" => Ok(Ok("said so when it was asked".to_owned())),
                _ => Err(format!(
                    "the lock was deleted at the server, no `lost` came, and an extend was answered {}",
                    shown(&reply)
                )),
            }
        };
        match tried.await {
            Ok(Ok(remark)) => Ok(remark),
            Ok(Err(why)) => Err(Ok(NotAsked(why))),
            Err(wrong) => Err(Err(wrong)),
        }
    }

    async fn kill(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        self.granted(&lock, SHORT_MS).await?;
        self.a().kill().await;
        let within = self.patience();
        let request = self.asking(&lock, "t0", 6_000, Some(LONG_MS));
        let reply = self
            .b()
            .ask(request, within + Duration::from_secs(6))
            .await?;
        let next = grant_of(&reply).ok_or_else(|| {
            format!(
                "{} ms after its death another client was answered {}",
                reply.took.as_millis(),
                shown(&reply)
            )
        })?;
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        Ok(format!("free after {} ms", reply.took.as_millis()))
    }

    async fn load(&mut self) -> Result<String, Result<NotAsked, String>> {
        let tried = async {
            self.both().await?;
            let request = json!({
                "op": "load", "workload": "cycles", "kind": self.kind, "tasks": 2, "locks": 2, "warmup_ms": 50, "measure_ms": 300,
                "lease_ms": LONG_MS, "hold_us": 0, "think_us": 0,
            });
            let within = self.patience() + Duration::from_secs(5);
            self.a().ask(request, within).await
        };
        let reply = tried.await.map_err(Err)?;
        if reply.ending == "failed" {
            return Err(Ok(NotAsked(format!(
                "not offered: {}",
                error_text(&reply.body)
            ))));
        }
        let figure = |field: &str| reply.body.get(field).and_then(Value::as_u64);
        let fields = ["cycles", "failed", "unknown", "elapsed_ns"];
        if let Some(missing) = fields.into_iter().find(|field| figure(field).is_none()) {
            return Err(Err(format!(
                "`{missing}` is missing, or no whole number: {}",
                shown(&reply)
            )));
        }
        let per_task = reply.body.get("per_task").and_then(Value::as_array);
        if per_task.is_none_or(|list| list.len() != 2) {
            return Err(Err(format!(
                "`per_task` is no list of one figure per task: {}",
                shown(&reply)
            )));
        }
        for field in ["acquire_hist", "release_hist"] {
            if reply
                .body
                .get(field)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                return Err(Err(format!("`{field}` is missing, or no string")));
            }
        }
        Ok(format!(
            "{} cycles in {:.1} ms",
            figure("cycles").unwrap_or(0),
            figure("elapsed_ns").unwrap_or(0) as f64 / 1e6
        ))
    }

    async fn malformed(&mut self) -> Found {
        let mut raw = self.fresh("c3").await?;
        raw.line("{\"id\": 17, \"op\": ").await;
        // It may take a moment to end.
        raw.listen(Duration::from_millis(500), |_| false).await;
        let lock = self.lock();
        let (request, within) = (self.asking(&lock, "t0", 0, Some(SHORT_MS)), self.patience());
        let id = raw.send(request).await;
        let reply = raw.reply(id, within).await;
        let wrong = std::mem::take(&mut raw.wrong);
        let ended = raw.wait(Duration::from_millis(10)).await;
        raw.kill().await;
        match (wrong.first(), reply, ended) {
            (Some(wrong), _, _) => Err(wrong.clone()),
            (None, Ok(_), _) => Ok("went on".to_owned()),
            (None, Err(_), Ok(Some(0))) => {
                Err("it ended as if all were well, with code 0".to_owned())
            }
            (None, Err(_), Ok(_)) => Ok("ended".to_owned()),
            (None, Err(why), Err(_)) => Err(format!(
                "after a line that is no request it neither ended nor answered: {why}"
            )),
        }
    }

    async fn bye(&mut self) -> Found {
        let mut raw = self.fresh("c3").await?;
        let within = self.patience();
        let reply = raw.ask(json!({"op": "bye"}), within).await?;
        if reply.ending != "ok" {
            return Err(format!("it was answered {}", shown(&reply)));
        }
        raw.listen(within, |_| false).await;
        let code = raw.wait(within).await;
        raw.kill().await;
        self.wrong.append(&mut raw.wrong);
        exited(code?)
    }

    async fn end_of_input(&mut self) -> Found {
        let mut raw = self.fresh("c3").await?;
        raw.end_input();
        let within = self.patience();
        raw.listen(within, |_| false).await;
        let code = raw.wait(within).await;
        raw.kill().await;
        self.wrong.append(&mut raw.wrong);
        exited(code?)
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

fn exited(code: Option<i32>) -> Found {
    match code {
        Some(0) => Ok(String::new()),
        Some(code) => Err(format!("it exited with code {code}")),
        None => Err("it was ended by a signal".to_owned()),
    }
}

fn grant_of(reply: &Reply) -> Option<String> {
    let grant = (reply.ending == "ok").then(|| reply.body.get("grant")?.as_str());
    grant.flatten().map(str::to_owned)
}

fn shown(reply: &Reply) -> String {
    let body: String = reply.body.to_string().chars().take(200).collect();
    format!("`{}` {body}", reply.ending)
}

/// Deletes everything at a target of one server that is ours.
async fn flush(target: &str) -> Result<(), String> {
    let tried = async {
        let client = redis::Client::open(target)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("FLUSHALL")
            .query_async::<()>(&mut connection)
            .await
    };
    tried
        .await
        .map_err(|e| format!("cannot delete the keys of our own server: {e}"))
}
