//! The client of a driver: each call is a request line, and waits for its answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot};

use super::process::{self, DriverProcess};
use super::processes::Processes;
use super::reader::{self, reported_at};
use crate::abilities::Abilities;
use crate::driver_loop::{LoadReport, LoadRequest};
use crate::protocol::{self, Granted, HelloReply, Locks, Options, Request, error_text, whole_ms};
use crate::subject::{
    AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd, SubjectError,
};

/// How long a driver may take to start: a virtual machine of some languages needs seconds on a loaded host.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How long beyond its wait an answer may take, pauses not counted: longer than the judge's 10 s.
const ANSWER_SLACK: Duration = Duration::from_secs(15);
/// How long beyond its window a driver's own loop may take: its tasks finish first.
const LOAD_SLACK: Duration = Duration::from_secs(30);
const BYE_WITHIN: Duration = Duration::from_secs(5);

/// What a pending request asked for: it decides which endings are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Acquire,
    Release,
    Other,
}

impl Op {
    pub(super) fn endings(self) -> &'static [&'static str] {
        match self {
            Op::Acquire => &["ok", "busy", "failed", "unknown"],
            Op::Release => &["ok", "not_held", "failed", "unknown"],
            Op::Other => &["ok", "failed", "unknown"],
        }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) at: Instant,
    pub(super) ending: String,
    pub(super) body: Value,
}

pub(super) struct Pending {
    pub(super) op: Op,
    pub(super) answer: oneshot::Sender<Result<Answer, String>>,
}

/// What the client's calls and the reader of its output have in common.
pub(super) struct DriverConnection {
    /// The driver's command and client, for messages.
    pub(super) name: String,
    pub(super) log: Option<PathBuf>,
    pub(super) events: mpsc::UnboundedSender<ClientEvent>,
    pub(super) closing: AtomicBool,
    /// `Err`: the driver has ended, and how.
    pending: Mutex<Result<BTreeMap<u64, Pending>, String>>,
    next_id: AtomicU64,
    paused: AtomicBool,
    /// How many requests were given up unanswered, and what is to be said of the first.
    unanswered: Mutex<Option<(u64, String)>>,
    /// Lines for the writer's task: a request is never torn by a caller that goes away.
    requests: mpsc::UnboundedSender<String>,
}

impl DriverConnection {
    pub(super) fn take_pending(&self, id: u64) -> Option<Pending> {
        self.pending.lock().expect("no panic while held").as_mut().ok()?.remove(&id)
    }

    pub(super) fn was_asked(&self, id: u64) -> bool {
        id < self.next_id.load(Ordering::Relaxed)
    }

    /// What the driver did, with its name before and the end of its log behind.
    pub(super) fn report(&self, what: &str) -> String {
        format!("{} {what}{}", self.name, super::log_tail(self.log.as_ref()))
    }

    /// Ends everything in flight as unknown: the driver has ended.
    pub(super) fn fail_pending(&self, report: &str) {
        let before = std::mem::replace(
            &mut *self.pending.lock().expect("no panic while held"),
            Err(report.to_owned()),
        );
        for pending in before.unwrap_or_default().into_values() {
            let _ = pending.answer.send(Err(report.to_owned()));
        }
    }

    pub(super) fn release_grant(&self, grant: &str) {
        let _ = self.send_request(Op::Release, Request::about("release", grant));
    }

    /// Sends a request. An error says that the driver is gone, so that nothing was sent.
    fn send_request(&self, op: Op, mut request: Request) -> Result<SentRequest, String> {
        let (answer, receiver) = oneshot::channel();
        request.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut line = serde_json::to_string(&request).expect("plain fields");
        // An absent lease_ms means the same, but an explicit null is plainer in a trace.
        if op == Op::Acquire && request.lease_ms.is_none() {
            line.pop();
            line.push_str(r#","lease_ms":null}"#);
        }
        // Messages quote the request, and the target may contain a password.
        let asked = match request.target.take() {
            Some(_) => serde_json::to_string(&request).expect("plain fields"),
            None => line.clone(),
        };
        line.push('\n');
        match &mut *self.pending.lock().expect("no panic while held") {
            Ok(pending) => pending.insert(request.id, Pending { op, answer }),
            Err(report) => return Err(report.clone()),
        };
        // The writer ends only with the driver, and then the reader answers what is pending.
        let _ = self.requests.send(line);
        Ok(SentRequest { id: request.id, line: asked, answer: receiver })
    }

    /// Waits for an answer; time while the process is paused does not count. `None`: without bound.
    async fn wait_for_answer(
        &self,
        mut asked: SentRequest,
        within: Option<Duration>,
    ) -> Result<Answer, String> {
        const STEP: Duration = Duration::from_millis(200);
        let mut left = within.unwrap_or(Duration::MAX);
        loop {
            let begun = Instant::now();
            match tokio::time::timeout(STEP.min(left), &mut asked.answer).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(format!("{} was given up", self.name)),
                Err(_) if self.paused.load(Ordering::Relaxed) => {}
                Err(_) if within.is_some() => left = left.saturating_sub(begun.elapsed()),
                Err(_) => {}
            }
            if left.is_zero() {
                let why = format!(
                    "{} never answered `{}`: nothing within {:?}{}",
                    self.name,
                    asked.line,
                    within.unwrap_or_default(),
                    super::log_tail(self.log.as_ref())
                );
                let mut unanswered = self.unanswered.lock().expect("no panic while held");
                unanswered.get_or_insert_with(|| (0, why.clone())).0 += 1;
                return Err(why);
            }
        }
    }
}

struct SentRequest {
    id: u64,
    line: String,
    answer: oneshot::Receiver<Result<Answer, String>>,
}

struct ExecClient {
    shared: Arc<DriverConnection>,
    is_ours: bool,
    hello: HelloReply,
    processes: Processes,
    stop: Option<oneshot::Sender<()>>,
    reader: tokio::task::JoinHandle<()>,
}

/// Starts a driver, says hello and waits for its answer.
pub(super) async fn start(
    command: &[String],
    to: &ConnectTo,
    is_ours: bool,
) -> Result<Connected, SubjectError> {
    let DriverProcess { child, processes, stdin, output, logged } = process::start(command, to)?;
    let pid = processes.first();
    let (requests, lines) = mpsc::unbounded_channel();
    let (events, event_receiver) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel();
    let shared = Arc::new(DriverConnection {
        name: format!("the driver `{}` (client {}, process {pid})", shell_words::join(command), to.client),
        log: to.log.clone(),
        events,
        closing: AtomicBool::new(true),
        pending: Mutex::new(Ok(BTreeMap::new())),
        next_id: AtomicU64::new(0),
        paused: AtomicBool::new(false),
        unanswered: Mutex::default(),
        requests,
    });
    tokio::spawn(write(stdin, lines));
    let process = (child, processes.clone());
    let reader = tokio::spawn(reader::run(shared.clone(), process, output, logged, stopped));
    let mut client =
        ExecClient { shared, is_ours, hello: HelloReply::default(), processes, stop: Some(stop), reader };
    match client.greet(to).await {
        Ok(hello) => client.hello = hello,
        Err(e) => {
            client.end(Duration::ZERO).await;
            return Err(e);
        }
    }
    client.shared.closing.store(false, Ordering::Relaxed);
    Ok(Connected { client: Box::new(client), events: event_receiver })
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

impl ExecClient {
    async fn greet(&self, to: &ConnectTo) -> Result<HelloReply, SubjectError> {
        let request = Request {
            protocol: Some(protocol::VERSION),
            target: Some(to.target.clone()),
            client: Some(to.client.clone()),
            seed: Some(to.seed),
            options: Some(Options {
                durability: (!to.durability.is_empty()).then(|| to.durability.clone()),
                watchdog_ms: to.watchdog.map(whole_ms),
            }),
            ..Request::of("hello")
        };
        let answer = self.call(Op::Other, request, Some(START_WITHIN)).await;
        let answer = answer.map_err(|(Ok(why) | Err(why))| SubjectError::Usage(why))?;
        if answer.ending != "ok" {
            let why = error_text(&answer.body);
            let message = format!("{} could not connect: {why}", self.shared.name);
            let is = |what: &str| answer.body.get(what) == Some(&Value::Bool(true));
            return Err(match (is("unreachable"), is("not_applicable")) {
                (true, _) => SubjectError::unreachable(message),
                (false, true) => SubjectError::NotApplicable(why),
                (false, false) => SubjectError::Refused(message),
            });
        }
        let hello: HelloReply = serde_json::from_value(answer.body)
            .map_err(|e| usage!("{}: its hello: {e}", self.shared.name))?;
        if hello.protocol != Some(protocol::VERSION) {
            bail!(
                "{} speaks version {} of the protocol, and this build speaks {}",
                self.shared.name,
                hello.protocol.map_or("none".into(), |v| v.to_string()),
                protocol::VERSION
            );
        }
        if hello.kinds.is_empty() {
            bail!("{} lists no kinds in its hello", self.shared.name);
        }
        match hello.lacks_topology(&to.target) {
            Some(why) => Err(SubjectError::NotApplicable(why)),
            None => Ok(hello),
        }
    }

    fn has(&self, feature: &str) -> bool {
        self.hello.features.iter().flatten().any(|has| has == feature)
    }

    /// The kind to ask for; by default the driver's first.
    fn kind<'a>(&'a self, asked: &'a str) -> &'a str {
        match asked {
            "" => &self.hello.kinds[0],
            kind => kind,
        }
    }

    /// One request and its answer. `Err(Ok(_))`: nothing was sent; `Err(Err(_))`: nobody knows.
    async fn call(
        &self,
        op: Op,
        request: Request,
        within: Option<Duration>,
    ) -> Result<Answer, Result<String, String>> {
        let receiver = self.shared.send_request(op, request).map_err(Ok)?;
        self.shared.wait_for_answer(receiver, within).await.map_err(Err)
    }

    /// A release, or with a lease an extend; by the caller that acquired, or by another of the client's.
    async fn release_or_extend(
        &self,
        grant: &str,
        lease: Option<Duration>,
        owner: Option<&str>,
    ) -> ReleaseEnd {
        let request = Request {
            lease_ms: lease.map(whole_ms),
            owner: owner.map(str::to_owned),
            ..Request::about(lease.map_or("release", |_| "extend"), grant)
        };
        match self.call(Op::Release, request, Some(ANSWER_SLACK)).await {
            Ok(answer) => match answer.ending.as_str() {
                "ok" => ReleaseEnd::Ok,
                "not_held" => ReleaseEnd::NotHeld,
                "failed" => ReleaseEnd::Failed(error_text(&answer.body)),
                _ => ReleaseEnd::Unknown(error_text(&answer.body)),
            },
            Err(Ok(not_sent)) => ReleaseEnd::Failed(not_sent),
            Err(Err(lost)) => ReleaseEnd::Unknown(lost),
        }
    }

    /// Ends the process: in an orderly way within `grace`, else by force.
    async fn end(&mut self, grace: Duration) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if !grace.is_zero() {
            let _ = self.shared.send_request(Op::Other, Request::of("bye"));
            let _ = tokio::time::timeout(grace, &mut self.reader).await;
        }
        // The reader ends the process when it is asked to stop, if that has not happened by itself.
        self.stop.take();
        if !self.reader.is_finished() {
            let _ = (&mut self.reader).await;
        }
    }
}

#[async_trait]
impl LockClient for ExecClient {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let called = Instant::now();
        let within = request.wait.map(|wait| wait + ANSWER_SLACK);
        let kind = self.kind(request.kind);
        let single = request.others.is_empty() && kind != "multi";
        let names = std::iter::once(&request.lock).chain(request.others);
        let names = || names.map(|name| (*name).to_owned()).collect();
        let mut leaseless = self.hello.leaseless.iter().flatten();
        let has_lease = !leaseless.any(|one| one == kind);
        // Our own drivers acquire more cheaply without an owner. Other drivers always get one.
        let named = request.reenters || !self.is_ours;
        let line = Request {
            lock: single.then(|| request.lock.to_owned()),
            locks: (!single).then(|| Locks::Names(names())),
            kind: Some(kind.to_owned()),
            owner: named.then(|| request.owner.to_owned()),
            wait_ms: request.wait.map(whole_ms),
            lease_ms: request.lease.filter(|_| has_lease).map(whole_ms),
            permits: request.permits,
            ..Request::of("acquire")
        };
        let asked = or_end!(self.shared.send_request(Op::Acquire, line).map_err(AcquireEnd::Failed));
        let cancel = Request { of: Some(asked.id), ..Request::of("cancel") };
        let answer = self.shared.wait_for_answer(asked, within);
        tokio::pin!(answer);
        let answer = match request.cancel {
            None => answer.await,
            Some(after) => match tokio::time::timeout(after, &mut answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    // The answer to the cancel does not matter: the acquire has its own.
                    let _ = self.shared.send_request(Op::Other, cancel);
                    answer.await
                }
            },
        };
        let answer = or_end!(answer.map_err(AcquireEnd::Unknown));
        match answer.ending.as_str() {
            "ok" => {
                let said: Granted =
                    serde_json::from_value(answer.body).expect("the reader lets no other ok pass");
                let lease = said.lease_ms.map(Duration::from_millis);
                AcquireEnd::Ok {
                    grant: said.grant,
                    token: said.token,
                    lease,
                    // Nothing is sent before it is asked for, whatever the driver's rounding says.
                    sent_at: reported_at(said.sent_mono_ns, said.age_ms, Some(called), answer.at),
                    returned_at: reported_at(said.returned_mono_ns, None, Some(called), answer.at),
                    at: said.at,
                }
            }
            "busy" if self.has("open_busy") => {
                AcquireEnd::Unknown("busy, from a library that cannot tell it from perhaps held".into())
            }
            "busy" => AcquireEnd::Busy,
            "failed" => AcquireEnd::Failed(error_text(&answer.body)),
            _ => AcquireEnd::Unknown(error_text(&answer.body)),
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        self.release_or_extend(grant, None, None).await
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        self.release_or_extend(grant, Some(lease), None).await
    }

    async fn release_as(&self, grant: &str, owner: &str) -> ReleaseEnd {
        self.release_or_extend(grant, None, Some(owner)).await
    }

    async fn extend_as(&self, grant: &str, lease: Duration, owner: &str) -> ReleaseEnd {
        self.release_or_extend(grant, Some(lease), Some(owner)).await
    }

    async fn held(&self, grant: &str) -> Option<bool> {
        let answer = self.call(Op::Other, Request::about("held", grant), Some(ANSWER_SLACK)).await;
        answer.ok()?.body.get("held").and_then(Value::as_bool)
    }

    async fn load(&self, asked: &LoadRequest) -> Option<Result<LoadReport, String>> {
        let request = Request::load(asked, self.kind(&asked.kind));
        let within = asked.warmup + asked.measure + LOAD_SLACK;
        let answer = match self.call(Op::Other, request, Some(within)).await {
            Ok(answer) => answer,
            Err(Ok(lost) | Err(lost)) => return Some(Err(lost)),
        };
        match answer.ending.as_str() {
            "ok" => Some(LoadReport::of_body(&answer.body, asked.tasks)),
            // A driver need not offer it.
            "failed" => None,
            _ => Some(Err(error_text(&answer.body))),
        }
    }

    async fn block(&self, time: Duration) -> Result<Duration, String> {
        let request = Request { for_ms: Some(whole_ms(time)), ..Request::of("block") };
        let asked = Instant::now();
        // What is asked meanwhile is answered later, as it should be.
        self.set_paused(true);
        let within = time + ANSWER_SLACK;
        let answer = tokio::time::timeout(within, self.call(Op::Other, request, Some(ANSWER_SLACK))).await;
        self.set_paused(false);
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(Ok(lost) | Err(lost))) => return Err(lost),
            Err(_) => return Err(format!("no answer within {within:?}")),
        };
        match answer.body.get("blocked_ns").and_then(Value::as_u64) {
            // No block is longer than what was seen of it from here.
            Some(ns) => Ok(Duration::from_nanos(ns).min(asked.elapsed())),
            None => Err(error_text(&answer.body)),
        }
    }

    fn set_paused(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::Relaxed);
    }

    fn processes(&self) -> Option<&Processes> {
        Some(&self.processes)
    }

    fn ended(&self) -> Option<String> {
        self.shared.pending.lock().expect("no panic while held").as_ref().err().cloned()
    }

    fn unanswered(&self) -> Option<String> {
        let unanswered = self.shared.unanswered.lock().expect("no panic while held");
        unanswered.as_ref().map(|(count, first)| match count - 1 {
            0 => first.clone(),
            others => format!("{first}; nor {others} requests after it"),
        })
    }

    fn watchdog(&self) -> Option<Duration> {
        self.hello.watchdog_ms.map(Duration::from_millis)
    }

    fn kinds(&self) -> &[String] {
        &self.hello.kinds
    }

    fn abilities(&self) -> Abilities {
        let hello = self.hello.clone();
        Abilities {
            library: format!("{} {} ({})", hello.name, hello.version, hello.language),
            kinds: hello.kinds,
            topologies: hello.topologies,
            features: hello.features,
            renews: hello.watchdog_ms.is_some(),
            watchdog: hello.watchdog_ms.map(Duration::from_millis),
            leaseless: hello.leaseless.unwrap_or_default(),
        }
    }

    async fn commands(&self) -> Option<u64> {
        if !self.is_ours {
            return None;
        }
        let answer = self.call(Op::Other, Request::of("commands"), Some(ANSWER_SLACK)).await;
        answer.ok()?.body.get("commands").and_then(Value::as_u64)
    }

    async fn close(mut self: Box<Self>) {
        self.end(BYE_WITHIN).await;
    }
}
