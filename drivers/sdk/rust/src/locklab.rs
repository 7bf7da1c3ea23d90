//! Makes a driver of locklab's out of a lock library: the author gives a [`Lock`], with `acquire`, `release` and, where there is one, `extend`.
//! The rest of the driver protocol (docs/src/driver-protocol.md) is done here: requests side by side, grants, endings, clocks, events,
//! cancellation, and the load loop with its histograms.
#![allow(dead_code, unreachable_pub, clippy::exit, clippy::print_stderr, reason = "each driver uses a part")]

use std::{
    collections::HashMap,
    future::Future,
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use base64::Engine as _;
use hdrhistogram::{
    Histogram,
    serialization::{Serializer as _, V2DeflateSerializer},
};
use nix::{
    sys::resource::{UsageWho, getrusage},
    time::{ClockId, clock_gettime},
};
use serde_json::{Value, json};
use tokio::{io::AsyncBufReadExt as _, sync::watch, task::AbortHandle};

/// A library as its driver describes it.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The library's.
    pub name: &'static str,
    /// The library's.
    pub version: &'static str,
    /// The default first; an acquire of any other kind is refused here.
    pub kinds: &'static [&'static str],
    /// Of single, sentinel, cluster and masters; on any other the library has nothing to lock with.
    pub topologies: &'static [&'static str],
    /// Those beside what is brought here (load, prefix, overlap, mono, cancel, block), e.g. extend.
    pub features: &'static [&'static str],
}

/// Where the servers are, and what is asked of the client.
#[derive(Debug, Clone, Default)]
pub struct Hello {
    /// The URL as it came.
    pub target: String,
    /// single, sentinel, cluster or masters.
    pub shape: &'static str,
    /// host:port, one or several.
    pub hosts: Vec<String>,
    /// `user:password`, as it stands in a URL; empty: none.
    pub login: String,
    /// A database's number, of sentinel the master's name.
    pub path: String,
    /// Whether the servers want TLS.
    pub tls: bool,
    /// The file of the authority that signed their certificates, as it stands in a URL; empty: one of the machine's own.
    pub tls_ca: String,
    /// This client's name in the record.
    pub client: String,
    /// For what is drawn at random.
    pub seed: u64,
    /// none, wait:K and so on.
    pub durability: String,
    /// The wished lease of renewed locks.
    pub watchdog: Option<Duration>,
}

/// One acquire.
#[derive(Debug, Clone)]
pub struct Call {
    /// The lock's name; of kind multi, `locks` are all of them.
    pub lock: String,
    /// Every name.
    pub locks: Vec<String>,
    /// One of those in [`About::kinds`].
    pub kind: String,
    /// The caller inside the client.
    pub owner: String,
    /// The longest wait: zero is one try, `None` has no bound.
    pub wait: Option<Duration>,
    /// `None`: the library renews by itself.
    pub lease: Option<Duration>,
    /// How many may hold a semaphore.
    pub permits: u32,
    events: Option<Events>,
}

impl Call {
    /// What is left of the wait of a call that began then; `None`: it is over.
    pub fn left(&self, began: Instant) -> Option<Duration> {
        let left = self.wait.unwrap_or(Duration::MAX);
        left.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
    }

    /// The library says that the lock is gone.
    pub fn lost(&self, reason: &str) {
        let event = json!({"event": "lost", "reason": reason, "at_mono_ns": mono_ns(Instant::now())});
        self.events.iter().for_each(|to| to.send(event.clone()));
    }

    /// The library has renewed: the lease counts from when the renewal was sent.
    pub fn extended(&self, lease: Duration, sent: Instant) {
        let lease_ms = lease.as_millis() as u64;
        let event = json!({"event": "extended", "lease_ms": lease_ms, "at_mono_ns": mono_ns(sent)});
        self.events.iter().for_each(|to| to.send(event.clone()));
    }
}

/// A lock that is held, and what the library says of it.
#[derive(Debug, Clone)]
pub struct Granted<H> {
    /// What a release and an extend need.
    pub held: H,
    /// When the successful attempt was sent, where known.
    pub sent: Option<Instant>,
    /// The fencing token.
    pub token: Option<u64>,
    /// What was granted, where that is shorter than what was asked for.
    pub lease: Option<Duration>,
}

impl<H> Granted<H> {
    /// Granted by an attempt that was sent then.
    pub fn sent(held: H, sent: Instant) -> Self {
        Granted { held, sent: Some(sent), token: None, lease: None }
    }
}

/// How a call ended that did not do what was asked. Any error of a library becomes `Unknown`.
#[derive(Debug, Clone)]
pub enum Ending {
    /// Of an acquire: another certainly had the lock until the wait was over.
    Busy,
    /// Of a release or an extend: the server did not have the lock as this grant's.
    NotHeld,
    /// It certainly did not happen.
    Failed(String),
    /// It may or may not have happened.
    Unknown(String),
    /// While connecting: no server answered.
    Unreachable(String),
}

impl<E: std::error::Error> From<E> for Ending {
    fn from(error: E) -> Self {
        Ending::Unknown(error.to_string())
    }
}

/// A client of the lock library. All calls may run side by side; one that is given up is dropped.
pub trait Lock: Send + Sync + 'static {
    /// What a release needs.
    type Held: Send + Sync + 'static;
    /// Asks for a lock.
    fn acquire(&self, call: &Call) -> impl Future<Output = Result<Granted<Self::Held>, Ending>> + Send;
    /// Gives it back.
    fn release(&self, held: &Self::Held) -> impl Future<Output = Result<(), Ending>> + Send;
    /// Sets the lease from now on.
    fn extend(
        &self,
        _held: &Self::Held,
        _lease: Duration,
    ) -> impl Future<Output = Result<(), Ending>> + Send {
        async { Err(Ending::Failed("extend is not offered".into())) }
    }
    /// The lease that the library renews by itself; `None`: it does not, and a lock without a lease is refused here.
    fn watchdog(&self) -> Option<Duration> {
        None
    }
    /// Kinds whose permits have no lease, e.g. semaphore.
    fn leaseless(&self) -> &'static [&'static str] {
        &[]
    }
    /// What the library believes, without a question to a server.
    fn held(&self, _held: &Self::Held) -> bool {
        true
    }
}

type Answer = (&'static str, Value);

fn answer_of(end: Ending) -> Answer {
    match end {
        Ending::Busy => ("busy", json!({})),
        Ending::NotHeld => ("not_held", json!({})),
        Ending::Failed(error) => ("failed", json!({"error": error})),
        Ending::Unknown(error) => ("unknown", json!({"error": error})),
        Ending::Unreachable(error) => ("failed", json!({"error": error, "unreachable": true})),
    }
}

fn refuse(error: impl Into<String>) -> Ending {
    Ending::Failed(error.into())
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn text<'a>(request: &'a Value, field: &str) -> &'a str {
    request[field].as_str().unwrap_or_default()
}

fn ms(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

/// CLOCK_MONOTONIC at a moment of the past. The shown clock is read first: a stop between the two makes a stamp too early, which hides an
/// overlap and never invents one.
fn mono_ns(at: Instant) -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.saturating_sub(at.elapsed()).as_nanos() as u64
}

/// What is held, by its grant, and whether the library has said that it is lost.
type Grants<H> = Mutex<HashMap<String, (Arc<H>, bool)>>;

/// Events are about grants that locklab knows: after their answer, and before their release.
#[derive(Clone)]
struct Events {
    send: Arc<dyn Fn(Value) + Send + Sync>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    fn of<H: Send + Sync + 'static>(
        name: String,
        grants: Arc<Grants<H>>,
        told: watch::Receiver<bool>,
    ) -> Self {
        let send = move |mut line: Value| {
            let (name, grants, mut told) = (name.clone(), grants.clone(), told.clone());
            tokio::spawn(async move {
                let _ = told.wait_for(|told| *told).await;
                if let Some(grant) = grants.lock().expect("no panic").get_mut(&name) {
                    grant.1 |= line["event"] == "lost";
                    line["grant"] = json!(name);
                    say(&line);
                }
            });
        };
        Events { send: Arc::new(send) }
    }

    fn send(&self, line: Value) {
        (self.send)(line);
    }
}

struct Client<L: Lock> {
    about: About,
    hello: Hello,
    lock: L,
    grants: Arc<Grants<L::Held>>,
    number: AtomicU64,
    calls: Mutex<HashMap<u64, AbortHandle>>,
}

/// Answers locklab until it says bye or its input ends, and then ends the process.
pub async fn serve<L: Lock, F: Future<Output = Result<L, Ending>>>(
    about: About,
    connect: impl Fn(Hello) -> F,
) {
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut client: Option<Arc<Client<L>>> = None;
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                eprintln!("not a request: {error}: {line}");
                std::process::exit(1);
            }
        };
        let id = request["id"].as_u64().unwrap_or_default();
        let reply = |(ending, body): Answer| say(&json!({"id": id, ending: body}));
        match (text(&request, "op"), &client) {
            ("hello", _) => match greet(&about, &request, &connect).await {
                Ok((made, body)) => {
                    client = Some(Arc::new(made));
                    reply(("ok", body));
                }
                Err(answer) => reply(answer),
            },
            ("bye", _) => {
                reply(("ok", json!({})));
                std::process::exit(0);
            }
            (_, None) => reply(answer_of(refuse("say hello first"))),
            ("cancel", Some(client)) => {
                let of = request["of"].as_u64().unwrap_or(u64::MAX);
                if let Some(call) = client.calls.lock().expect("no panic").remove(&of) {
                    call.abort();
                }
                reply(("ok", json!({})));
            }
            ("block", Some(_)) => block(id, ms(&request["for_ms"]).unwrap_or_default()),
            (_, Some(client)) => client.clone().begin(id, request),
        }
    }
    std::process::exit(0);
}

/// Blocks every worker of this runtime; a thread beside them measures for how long nothing ran.
fn block(id: u64, time: Duration) {
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let until = Instant::now() + time;
        for _ in 0..runtime.metrics().num_workers() {
            runtime.spawn(async move { std::thread::sleep(until - Instant::now()) });
        }
        let mut longest = Duration::ZERO;
        while Instant::now() < until {
            let (ran, when) = std::sync::mpsc::channel();
            let asked = Instant::now();
            runtime.spawn(async move { ran.send(()) });
            let _ = when.recv();
            longest = longest.max(asked.elapsed());
        }
        let blocked_ns = longest.as_nanos() as u64;
        say(&json!({"id": id, "ok": {"blocked_ns": blocked_ns}}));
    });
}

async fn greet<L: Lock, F: Future<Output = Result<L, Ending>>>(
    about: &About,
    request: &Value,
    connect: impl Fn(Hello) -> F,
) -> Result<(Client<L>, Value), Answer> {
    if request["protocol"] != 1 {
        return Err(answer_of(refuse("this driver speaks version 1")));
    }
    let mut hello = target(text(request, "target")).map_err(answer_of)?;
    if !about.topologies.contains(&hello.shape) {
        let error =
            format!("{} works on {}, not on {}", about.name, about.topologies.join(", "), hello.shape);
        return Err(("failed", json!({"error": error, "not_applicable": true})));
    }
    hello.client = text(request, "client").to_owned();
    hello.seed = request["seed"].as_u64().unwrap_or_default();
    hello.durability = text(&request["options"], "durability").to_owned();
    hello.watchdog = ms(&request["options"]["watchdog_ms"]);
    let lock = connect(hello.clone()).await.map_err(answer_of)?;
    let features = ["load", "prefix", "overlap", "mono", "cancel", "block"].iter().chain(about.features);
    let body = json!({
        "protocol": 1, "name": about.name, "version": about.version, "language": "rust", "kinds": about.kinds, "topologies": about.topologies,
        "features": features.collect::<Vec<_>>(), "watchdog_ms": lock.watchdog().map(|lease| lease.as_millis() as u64),
        "leaseless": lock.leaseless(),
    });
    let client = Client {
        about: about.clone(),
        hello,
        lock,
        grants: Arc::default(),
        number: AtomicU64::new(0),
        calls: Mutex::default(),
    };
    Ok((client, body))
}

/// Takes a target's URL apart.
fn target(url: &str) -> Result<Hello, Ending> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let shape = match scheme {
        "redis" | "rediss" => "single",
        "redis-sentinel" | "rediss-sentinel" => "sentinel",
        "redis-cluster" | "rediss-cluster" => "cluster",
        "redlock" | "redlocks" => "masters",
        _ => return Err(refuse(format!("the target's scheme `{scheme}` is unknown"))),
    };
    let (rest, settings) = rest.split_once('?').unwrap_or((rest, ""));
    let mut settings = settings.split('&');
    let tls_ca = settings.find_map(|setting| setting.strip_prefix("tls-ca="));
    let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if shape == "sentinel" { 26379 } else { 6379 };
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:{port}"),
    };
    Ok(Hello {
        target: url.to_owned(),
        shape,
        hosts: hosts.split(',').map(with_port).collect(),
        login: login.to_owned(),
        path: path.to_owned(),
        tls: scheme.starts_with("rediss") || scheme == "redlocks",
        tls_ca: tls_ca.unwrap_or_default().replace("%2F", "/"),
        ..Hello::default()
    })
}

impl<L: Lock> Client<L> {
    /// Answers a request in tasks of its own, and also where its task panics or is given up.
    fn begin(self: Arc<Self>, id: u64, request: Value) {
        let (tell, told) = watch::channel(false);
        let client = self.clone();
        let work = tokio::spawn(async move { client.answer(&request, told).await });
        self.calls.lock().expect("no panic").insert(id, work.abort_handle());
        tokio::spawn(async move {
            let end = work.await.unwrap_or_else(|gone| Err(Ending::Unknown(format!("given up: {gone}"))));
            let (ending, body) = end.map_or_else(answer_of, |body| ("ok", body));
            self.calls.lock().expect("no panic").remove(&id);
            say(&json!({"id": id, ending: body}));
            let _ = tell.send(true);
        });
    }

    async fn answer(self: Arc<Self>, request: &Value, told: watch::Receiver<bool>) -> Result<Value, Ending> {
        let op = text(request, "op");
        if op == "acquire" || op == "load" {
            let kind = match text(request, "kind") {
                "" => self.about.kinds[0],
                kind => kind,
            };
            if !self.about.kinds.contains(&kind) {
                return Err(refuse(format!("the kinds are {}, not {kind}", self.about.kinds.join(", "))));
            }
            let lease = ms(&request["lease_ms"]);
            let has_none = self.lock.leaseless().contains(&kind);
            if lease.is_none() && self.lock.watchdog().is_none() && !has_none {
                return Err(refuse(format!("{} does not renew a lock by itself", self.about.name)));
            }
            return match op {
                "load" => self.load(request, kind, lease).await,
                _ => self.acquire(request, kind, lease, told).await,
            };
        }
        let name = text(request, "grant");
        if !matches!(op, "release" | "extend" | "held") {
            return Err(refuse(format!("`{op}` is not offered")));
        }
        let grant = self.grants.lock().expect("no panic").get(name).cloned();
        if grant.is_none() && op == "held" {
            return Ok(json!({"held": false}));
        }
        // It was released, or is nobody's.
        let (held, lost) = grant.ok_or(Ending::NotHeld)?;
        let end = match op {
            "held" => return Ok(json!({"held": !lost && self.lock.held(&held)})),
            "release" => self.lock.release(&held).await,
            _ => {
                let lease = ms(&request["lease_ms"]).unwrap_or_default();
                self.lock.extend(&held, lease).await
            }
        };
        // An ending that such a call does not have.
        let end = end.map_err(|end| match end {
            Ending::Busy => Ending::Unknown("busy, of a grant".into()),
            end => end,
        });
        if matches!(end, Err(Ending::NotHeld)) || op == "release" && end.is_ok() {
            self.grants.lock().expect("no panic").remove(name);
        }
        end.map(|()| json!({}))
    }

    async fn acquire(
        &self,
        request: &Value,
        kind: &str,
        lease: Option<Duration>,
        told: watch::Receiver<bool>,
    ) -> Result<Value, Ending> {
        let name = format!("g{}", self.number.fetch_add(1, Ordering::Relaxed) + 1);
        let of = |name: &Value| name.as_str().unwrap_or_default().to_owned();
        let several = request["locks"].as_array().map(|names| names.iter().map(of).collect());
        let locks: Vec<String> = several.unwrap_or_else(|| vec![of(&request["lock"])]);
        let owner = request["owner"].as_str().map_or(format!("of {name}"), str::to_owned);
        let call = Call {
            lock: locks.first().cloned().unwrap_or_default(),
            locks,
            kind: kind.to_owned(),
            owner,
            wait: ms(&request["wait_ms"]),
            lease,
            permits: request["permits"].as_u64().unwrap_or(1) as u32,
            events: Some(Events::of(name.clone(), self.grants.clone(), told)),
        };
        let granted = self.lock.acquire(&call).await.map_err(|end| match end {
            Ending::NotHeld => Ending::Unknown("not held, of an acquire".into()),
            end => end,
        })?;
        let returned = mono_ns(Instant::now());
        let held = (Arc::new(granted.held), false);
        self.grants.lock().expect("no panic").insert(name.clone(), held);
        Ok(json!({
            "grant": name, "token": granted.token, "sent_mono_ns": granted.sent.map(mono_ns),
            "returned_mono_ns": returned,
            "lease_ms": granted.lease.map(|lease| lease.as_millis() as u64),
        }))
    }

    async fn load(
        self: &Arc<Self>,
        request: &Value,
        kind: &str,
        lease: Option<Duration>,
    ) -> Result<Value, Ending> {
        let number = |field: &str| request[field].as_u64().unwrap_or_default();
        let tasks = number("tasks") as usize;
        let workload = text(request, "workload").to_owned();
        let locks = match workload.as_str() {
            "cycles" => request["locks"].as_u64().map_or(tasks, |locks| locks as usize),
            "contended" | "chain" => 1,
            _ => {
                return Err(refuse(format!(
                    "the workloads are cycles, contended and chain, not `{workload}`"
                )));
            }
        };
        if tasks == 0 || locks == 0 || number("measure_ms") == 0 {
            return Err(refuse("a load needs tasks, locks and measure_ms"));
        }
        let prefix = request["prefix"].as_str().unwrap_or("locklab-load:");
        // An earlier loop's leftovers are not met.
        let own = format!("{prefix}{}:{}:", self.hello.client, std::process::id());
        let from = Instant::now() + Duration::from_millis(number("warmup_ms"));
        let to = from + Duration::from_millis(number("measure_ms"));
        let run = Arc::new(Loop {
            client: self.clone(),
            shared: matches!(kind, "read" | "semaphore" | "permits"),
            kind: kind.to_owned(),
            lease,
            tasks,
            from,
            to,
            hold: Duration::from_micros(number("hold_us")),
            think: Duration::from_micros(number("think_us")),
            spots: (0..locks).map(|n| Spot::new(format!("{own}{n}"))).collect(),
            times: Default::default(),
            failed: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            overlap: Mutex::default(),
            workload,
        });
        let all: Vec<_> = (0..tasks).map(|task| tokio::spawn(run.clone().task(task))).collect();
        tokio::time::sleep_until(from.into()).await;
        let cpu = cpu();
        tokio::time::sleep_until(to.into()).await;
        let client_cpu_ns = self::cpu().saturating_sub(cpu).as_nanos() as u64;
        let stop = tokio::time::Instant::now() + LOOP_END;
        let mut per_task = Vec::new();
        for task in all {
            let abort = task.abort_handle();
            let cycles = tokio::time::timeout_at(stop, task).await;
            abort.abort();
            per_task.push(cycles.ok().and_then(Result::ok).unwrap_or_default());
        }
        let handed = run.workload != "cycles" && !run.shared;
        let times = |what: Timed| run.times[what as usize].encoded();
        Ok(json!({
            "cycles": per_task.iter().sum::<u64>(), "failed": run.failed.load(Ordering::Relaxed), "unknown": run.unknown.load(Ordering::Relaxed),
            "elapsed_ns": (to - from).as_nanos() as u64, "client_cpu_ns": client_cpu_ns, "per_task": per_task,
            "acquire_hist": times(Timed::Acquire), "release_hist": times(Timed::Release),
            "handoff_hist": handed.then(|| times(Timed::Handoff)), "handoff_other_hist": handed.then(|| times(Timed::HandoffOther)),
            "overlap": *run.overlap.lock().expect("no panic"),
        }))
    }
}

fn cpu() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF);
    used.map_or(Duration::ZERO, |used| {
        let us = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
        Duration::from_micros(us(used.user_time()) + us(used.system_time()))
    })
}

/// How long an acquire of the loop waits at most, and how long tasks may take to end after the window.
const LOOP_WAIT: Duration = Duration::from_secs(60);
const LOOP_END: Duration = Duration::from_secs(10);

enum Timed {
    Acquire,
    Release,
    Handoff,
    HandoffOther,
}

/// What all tasks of a loop share.
struct Loop<L: Lock> {
    client: Arc<Client<L>>,
    workload: String,
    kind: String,
    shared: bool,
    lease: Option<Duration>,
    tasks: usize,
    from: Instant,
    to: Instant,
    hold: Duration,
    think: Duration,
    spots: Vec<Spot>,
    times: [Times; 4],
    failed: AtomicU64,
    unknown: AtomicU64,
    overlap: Mutex<Option<String>>,
}

/// One lock of a loop.
struct Spot {
    name: String,
    state: Mutex<State>,
    /// How often it was granted.
    grants: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    holders: u32,
    /// When it was last released, and by which task.
    released: Option<(Instant, usize)>,
}

impl Spot {
    fn new(name: String) -> Self {
        Spot { name, state: Mutex::default(), grants: watch::Sender::new(0) }
    }
}

impl<L: Lock> Loop<L> {
    fn counts(&self, at: Instant) -> bool {
        at >= self.from && at < self.to
    }

    fn record(&self, what: Timed, time: Duration) {
        self.times[what as usize].record(time);
    }

    async fn fault(&self, end: Ending) {
        if self.counts(Instant::now()) {
            let count = match end {
                Ending::Unknown(_) => &self.unknown,
                _ => &self.failed,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Notes a grant; how many there have been of this lock.
    fn granted(&self, spot: &Spot, task: usize, at: Instant) -> u64 {
        let mut state = spot.state.lock().expect("no panic");
        state.holders += 1;
        if state.holders > 1 && !self.shared {
            let said = || format!("{} held {} at once", state.holders, spot.name);
            self.overlap.lock().expect("no panic").get_or_insert_with(said);
        }
        if let Some((sent, by)) = state.released.filter(|_| self.counts(at)) {
            self.record(Timed::Handoff, at - sent);
            if by != task {
                self.record(Timed::HandoffOther, at - sent);
            }
        }
        spot.grants.send_modify(|grants| *grants += 1);
        *spot.grants.borrow()
    }

    /// Cycles of one task until the window is over; how many ended in it.
    async fn task(self: Arc<Self>, task: usize) -> u64 {
        let (lock, spot) = (&self.client.lock, &self.spots[task % self.spots.len()]);
        let call = Call {
            lock: spot.name.clone(),
            locks: vec![spot.name.clone()],
            kind: self.kind.clone(),
            owner: format!("load{task}"),
            wait: Some(LOOP_WAIT),
            lease: self.lease,
            permits: 1,
            events: None,
        };
        let (mut cycles, mut grants) = (0, spot.grants.subscribe());
        while Instant::now() < self.to {
            let called = Instant::now();
            let granted = match lock.acquire(&call).await {
                Ok(granted) => granted,
                Err(end) => {
                    self.fault(end).await;
                    continue;
                }
            };
            let got = Instant::now();
            let number = self.granted(spot, task, got);
            if !self.hold.is_zero() {
                tokio::time::sleep(self.hold).await;
            }
            let sent = Instant::now();
            {
                let mut state = spot.state.lock().expect("no panic");
                state.holders -= 1;
                state.released = Some((sent, task));
            }
            let end = lock.release(&granted.held).await;
            let done = Instant::now();
            match end {
                Err(end) => self.fault(end).await,
                Ok(()) if self.counts(done) => {
                    cycles += 1;
                    self.record(Timed::Acquire, got - called);
                    self.record(Timed::Release, done - sent);
                }
                Ok(()) => {}
            }
            if self.workload == "chain" && self.tasks > 1 {
                let next = grants.wait_for(|grants| *grants > number);
                let _ = tokio::time::timeout_at(self.to.into(), next).await;
            }
            if !self.think.is_zero() {
                tokio::time::sleep(self.think).await;
            }
        }
        cycles
    }
}

/// Times up to an hour with three significant digits, in HdrHistogram's buckets, which every task counts in.
struct Times(Vec<AtomicU64>);

const MOST_NS: u64 = 3_600_000_000_000;

impl Default for Times {
    fn default() -> Self {
        Times(std::iter::repeat_with(AtomicU64::default).take(33 << 10).collect())
    }
}

impl Times {
    fn record(&self, time: Duration) {
        let ns = (time.as_nanos() as u64).min(MOST_NS);
        let bucket = 53 - (ns | 2047).leading_zeros() as usize;
        self.0[(bucket << 10) + (ns >> bucket) as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// HdrHistogram V2, compressed, in base64.
    fn encoded(&self) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, MOST_NS, 3).expect("good bounds");
        for (index, count) in self.0.iter().enumerate() {
            let bucket = (index >> 10).saturating_sub(1);
            let ns = ((index - (bucket << 10)) as u64) << bucket;
            match count.load(Ordering::Relaxed) {
                0 => {}
                count => histogram.saturating_record_n(ns, count),
            }
        }
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&histogram, &mut bytes);
        written.expect("memory takes it");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }
}
