//! The lines of the subject protocol, version 1, each described once; both ends use them.

use std::time::{Duration, Instant};

use lock_core::{Target, TopologyKind};
use results::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value, json};
use serde_with::skip_serializing_none;

use crate::driver_loop::LoadRequest;
use crate::monotonic;
use crate::subject::{AcquireEnd, ClientEvent, ReleaseEnd};

/// The version that this build speaks.
pub(crate) const VERSION: u64 = 1;

/// The endings that an answer may have: exactly one of them.
pub(crate) const ENDINGS: [&str; 5] = ["ok", "busy", "not_held", "failed", "unknown"];

/// The workloads of `load`, as the protocol names them and as ours are named.
const WORKLOADS: [(&str, &str); 3] =
    [("cycles", "uncontended"), ("contended", "contended"), ("chain", "chain")];

/// A request as it is on the wire. Fields that an operation does not use are absent.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Request {
    /// Names the answer; never used again in this process.
    pub(crate) id: u64,
    pub(crate) op: String,
    /// The version that the sender speaks.
    pub(crate) protocol: Option<u64>,
    /// `hello`: the URL of the servers.
    pub(crate) target: Option<String>,
    /// `hello`: this client's name in the record.
    pub(crate) client: Option<String>,
    /// `hello`: for what the driver draws at random.
    pub(crate) seed: Option<u64>,
    /// `hello`: what the harness asks for beside the target.
    pub(crate) options: Option<Options>,
    /// `acquire`: its name.
    pub(crate) lock: Option<String>,
    /// `acquire` of the kind `multi`: the names; `load`: how many.
    pub(crate) locks: Option<Locks>,
    /// One of those in hello.
    pub(crate) kind: Option<String>,
    /// `acquire`: the caller inside the client; absent: somebody new. `release`, `extend`: who does it;
    /// absent: who acquired.
    pub(crate) owner: Option<String>,
    /// `acquire`: the longest wait; 0: one try; absent: no bound.
    pub(crate) wait_ms: Option<u64>,
    /// The lease; absent: the library renews it until it is released.
    pub(crate) lease_ms: Option<u64>,
    /// `acquire` of a semaphore: how many.
    pub(crate) permits: Option<u32>,
    /// `release`, `extend`, `held`: which.
    pub(crate) grant: Option<String>,
    /// `cancel`: the `id` of the request that its caller gives up.
    pub(crate) of: Option<u64>,
    /// `block`: for how long.
    pub(crate) for_ms: Option<u64>,
    /// `load`: `cycles`, `contended` or `chain`.
    pub(crate) workload: Option<String>,
    /// `load`: how many at a time.
    pub(crate) tasks: Option<u32>,
    /// `load`: for so long nothing is counted.
    pub(crate) warmup_ms: Option<u64>,
    /// `load`: the window that is counted.
    pub(crate) measure_ms: Option<u64>,
    /// `load`: how long each holds.
    pub(crate) hold_us: Option<u64>,
    /// `load`: the pause after a release.
    pub(crate) think_us: Option<u64>,
    /// What a load's lock names begin with; a driver may choose its own.
    pub(crate) prefix: Option<String>,
}

/// Names in `acquire`, how many of them in `load`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Locks {
    /// The names.
    Names(Vec<String>),
    /// How many.
    Count(u32),
}

/// What the harness asks of a driver beside the target. A driver may ignore all of it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Options {
    /// As the library's own option is written; absent: the library's own default.
    pub(crate) durability: Option<String>,
    /// Lease of renewed locks.
    pub(crate) watchdog_ms: Option<u64>,
}

impl Request {
    /// A request without fields.
    pub(crate) fn of(op: &str) -> Self {
        Request { op: op.to_owned(), ..Request::default() }
    }

    /// A request about a grant.
    pub(crate) fn about(op: &str, grant: &str) -> Self {
        Request { grant: Some(grant.to_owned()), ..Request::of(op) }
    }

    /// A `load` of a kind that the driver has.
    pub(crate) fn load(asked: &LoadRequest, kind: &str) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let workload = WORKLOADS.iter().find(|(_, ours)| *ours == asked.workload);
        let workload = workload.map_or(&*asked.workload, |(name, _)| name);
        Request {
            workload: Some(workload.to_owned()),
            kind: Some(kind.to_owned()),
            tasks: Some(asked.tasks),
            locks: Some(Locks::Count(asked.locks)),
            warmup_ms: Some(whole_ms(asked.warmup)),
            measure_ms: Some(whole_ms(asked.measure)),
            lease_ms: asked.lease.map(whole_ms),
            hold_us: Some(us(asked.hold)),
            think_us: Some(us(asked.think)),
            prefix: Some(asked.prefix.clone()),
            ..Request::of("load")
        }
    }

    /// What a `load` asks for. An error says which field is wrong.
    pub(crate) fn to_load(&self) -> Result<LoadRequest, String> {
        let name = self.workload.as_deref().unwrap_or_default();
        let Some((_, ours)) = WORKLOADS.iter().find(|(known, _)| *known == name) else {
            return Err(format!("load of an unknown workload `{name}`: it is cycles, contended or chain"));
        };
        let tasks = self.tasks.unwrap_or(0);
        let locks = match self.locks {
            None => tasks,
            Some(Locks::Count(locks)) => locks,
            Some(Locks::Names(_)) => return Err("load: `locks` is how many, no names".into()),
        };
        let ms = |ms: Option<u64>| Duration::from_millis(ms.unwrap_or(0));
        let us = |us: Option<u64>| Duration::from_micros(us.unwrap_or(0));
        let measure = ms(self.measure_ms);
        for (field, empty) in
            [("tasks", tasks == 0), ("locks", locks == 0), ("measure_ms", measure.is_zero())]
        {
            if empty {
                return Err(format!("load without `{field}`, or with none"));
            }
        }
        Ok(LoadRequest {
            workload: (*ours).to_owned(),
            kind: self.kind.clone().unwrap_or_default(),
            tasks,
            locks: if *ours == "uncontended" { locks } else { 1 },
            warmup: ms(self.warmup_ms),
            measure,
            lease: self.lease_ms.map(Duration::from_millis),
            hold: us(self.hold_us),
            think: us(self.think_us),
            prefix: self.prefix.clone().unwrap_or("locklab-load:".into()),
        })
    }
}

/// Whether a driver can be asked to run this workload of ours by itself.
pub(crate) fn offers_load(workload: &str) -> bool {
    WORKLOADS.iter().any(|(_, ours)| *ours == workload)
}

/// A line of a driver.
pub(crate) enum Line {
    /// Something that nobody asked for.
    Event(Object),
    /// The answer to a request, with its ending; `None` if it has none, or several.
    Reply(u64, Option<(String, Value)>),
}

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

impl Line {
    /// An error says what is wrong with the line.
    pub(crate) fn parse(text: &str) -> Result<Line, &'static str> {
        let mut object: Object =
            serde_json::from_str(text).map_err(|_| "printed a line that is not a JSON object")?;
        if object.contains_key("event") {
            return Ok(Line::Event(object));
        }
        let id = object.remove("id").and_then(|id| id.as_u64());
        let id = id.ok_or("printed a line with neither `id` nor `event`")?;
        let at = object.remove("at");
        let mut endings = object.into_iter().filter(|(key, _)| ENDINGS.contains(&key.as_str()));
        let mut first = endings.next().filter(|_| endings.next().is_none());
        if let (Some(at), Some((_, Value::Object(body)))) = (at, &mut first) {
            body.entry("at").or_insert(at);
        }
        Ok(Line::Reply(id, first))
    }
}

/// `ok` to a hello: what a driver says of itself.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct HelloReply {
    /// The version that the driver speaks in this process.
    pub(crate) protocol: Option<u64>,
    /// The library's.
    pub(crate) name: String,
    /// The library's.
    pub(crate) version: String,
    /// The library's.
    pub(crate) language: String,
    /// Which kinds it has, its default first.
    pub(crate) kinds: Vec<String>,
    /// The shapes of servers that it works on; absent: nothing is known, and each is tried.
    pub(crate) topologies: Option<Vec<String>>,
    /// What it can do beside the least; absent: nothing is known, and everything is tried.
    pub(crate) features: Option<Vec<String>>,
    /// The lease of locks that the library renews by itself.
    pub(crate) watchdog_ms: Option<u64>,
    /// Kinds whose permits have no lease.
    pub(crate) leaseless: Option<Vec<String>>,
}

impl HelloReply {
    /// Why there is nothing to try on this target's shape, if the driver says that it does not work there.
    pub(crate) fn lacks_topology(&self, target: &str) -> Option<String> {
        let listed = self.topologies.as_ref()?;
        let shape = shape(target)?;
        let lacks = !listed.iter().any(|has| has == shape);
        lacks.then(|| {
            format!(
                "{} {} does not work on `{shape}`; its hello lists {}",
                self.name,
                self.version,
                listed.join(", ")
            )
        })
    }
}

/// The topologies of Redis, as a driver lists them.
pub(crate) const SHAPES: [&str; 4] = ["single", "sentinel", "cluster", "masters"];

/// The topology of a target of Redis, as a driver lists it.
pub(crate) fn shape(target: &str) -> Option<&'static str> {
    let [single, sentinel, cluster, masters] = SHAPES;
    Some(match target.parse::<Target>().ok()?.topology_kind() {
        TopologyKind::Single => single,
        TopologyKind::Sentinel => sentinel,
        TopologyKind::Cluster => cluster,
        TopologyKind::Masters => masters,
    })
}

/// A grant's name, which is kept for as long as it is held, and is in every line about it.
fn grant_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    bounded("a grant's name", String::deserialize(deserializer)?)
}

fn source_place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let place = Option::deserialize(deserializer)?;
    place.map(|place| bounded("a place in a source", place)).transpose()
}

fn bounded<E: serde::de::Error>(what: &str, text: String) -> Result<String, E> {
    match text.len() > limits::GRANT {
        true => Err(E::custom(format!("{what} has at most {} bytes", limits::GRANT))),
        false => Ok(text),
    }
}

/// `ok` to an acquire.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Granted {
    /// Its name, never used again in this process.
    #[serde(deserialize_with = "grant_name")]
    pub(crate) grant: String,
    /// The fencing token.
    pub(crate) token: Option<u64>,
    /// How long ago the attempt was sent that succeeded.
    pub(crate) age_ms: Option<Number>,
    /// The same moment on the clock that all processes share.
    pub(crate) sent_mono_ns: Option<u64>,
    /// When the library returned to its caller, on the same clock.
    pub(crate) returned_mono_ns: Option<u64>,
    /// What was granted, if that is less than what was asked for.
    pub(crate) lease_ms: Option<u64>,
    /// Where in the driver's own source the answer was given, as `lock.py:41`; also beside `ok`.
    #[serde(default, deserialize_with = "source_place")]
    pub(crate) at: Option<String>,
}

/// What a driver says unasked.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The library has notified its caller that the lock is gone.
    Lost {
        /// Which.
        grant: String,
        /// Why.
        reason: Option<String>,
        #[serde(flatten)]
        when: EventTime,
    },
    /// The library has renewed the lock.
    Extended {
        /// Which.
        grant: String,
        /// The lease from the moment on at which the renewal was sent.
        lease_ms: u64,
        #[serde(flatten)]
        when: EventTime,
    },
}

/// When an event was: how long ago, and on the clock that all processes share.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct EventTime {
    /// How long ago it was when the line was written.
    pub(crate) age_ms: Option<Number>,
    /// The moment by `CLOCK_MONOTONIC`.
    pub(crate) at_mono_ns: Option<u64>,
}

impl EventTime {
    fn at(at: Instant) -> Self {
        EventTime { age_ms: Some(age_ms(at.elapsed())), at_mono_ns: monotonic::ns(at) }
    }
}

/// The line of an event; `None` for the end of a subject's own process, which the harness sees by itself.
pub(crate) fn event_line(event: ClientEvent) -> Option<Value> {
    let event = match event {
        ClientEvent::Lost { grant, reason, at } => {
            Event::Lost { grant, reason: Some(reason), when: EventTime::at(at) }
        }
        ClientEvent::Extended { grant, lease, sent_at } => Event::Extended {
            grant,
            lease_ms: whole_ms(lease),
            when: sent_at.map(EventTime::at).unwrap_or_default(),
        },
        ClientEvent::Exited { .. } => return None,
    };
    Some(json!(event))
}

/// Whole milliseconds, rounded up: a shorter hold can hide an overlap and never invent one.
fn age_ms(age: Duration) -> Number {
    u64::try_from(age.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).into()
}

/// A duration in whole milliseconds, rounded down but never to zero unless it is zero.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(u64::from(!duration.is_zero()))
}

/// The reply line to an acquire.
pub(crate) fn acquire_reply(id: u64, end: AcquireEnd) -> Value {
    match end {
        AcquireEnd::Ok { grant, token, sent_at, returned_at: _, lease, at } => {
            let granted = Granted {
                grant,
                token,
                age_ms: sent_at.map(|at| age_ms(at.elapsed())),
                sent_mono_ns: sent_at.and_then(monotonic::ns),
                // The library has just said so.
                returned_mono_ns: monotonic::ns(Instant::now()),
                lease_ms: lease.map(|lease| lease.as_millis() as u64),
                at,
            };
            ok(id, granted)
        }
        AcquireEnd::Busy => json!({"id": id, "busy": {}}),
        AcquireEnd::Failed(error) => failed(id, &error),
        AcquireEnd::Unknown(error) => unknown(id, &error),
    }
}

/// The reply line to a release or an extend.
pub(crate) fn release_reply(id: u64, end: ReleaseEnd) -> Value {
    match end {
        ReleaseEnd::Ok => ok(id, json!({})),
        ReleaseEnd::NotHeld => json!({"id": id, "not_held": {}}),
        ReleaseEnd::Failed(error) => failed(id, &error),
        ReleaseEnd::Unknown(error) => unknown(id, &error),
    }
}

/// The reply line of something that was done.
pub(crate) fn ok(id: u64, body: impl Serialize) -> Value {
    json!({"id": id, "ok": body})
}

/// The reply line of something that certainly did not happen.
pub(crate) fn failed(id: u64, error: &str) -> Value {
    json!({"id": id, "failed": {"error": error}})
}

/// The reply line of something that may have happened.
pub(crate) fn unknown(id: u64, error: &str) -> Value {
    json!({"id": id, "unknown": {"error": error}})
}

/// The text of an ending, if it carries one.
pub(crate) fn error_text(body: &Value) -> String {
    body.get("error").and_then(Value::as_str).unwrap_or("the driver gave no reason").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_comes_back_as_it_was_asked() {
        let asked = LoadRequest {
            workload: "chain".into(),
            kind: "plain".into(),
            tasks: 8,
            locks: 1,
            warmup: Duration::from_millis(100),
            measure: Duration::from_millis(900),
            lease: None,
            hold: Duration::from_micros(5),
            think: Duration::ZERO,
            prefix: "p:".into(),
        };
        let request = Request::load(&asked, "plain");
        assert_eq!(request.workload.as_deref(), Some("chain"));
        let back = request.to_load().expect("ours");
        assert_eq!(format!("{back:?}"), format!("{asked:?}"));
        for (workload, tasks, locks) in [("cycle", 1, 1), ("cycles", 0, 1), ("cycles", 1, 0)] {
            let mut wrong = request.clone();
            wrong.workload = Some(workload.into());
            wrong.tasks = Some(tasks);
            wrong.locks = Some(Locks::Count(locks));
            wrong.to_load().unwrap_err();
        }
    }
}
