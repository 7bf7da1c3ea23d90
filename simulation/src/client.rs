//! A client of a subject as a process of its own: each call runs as a task of the process, so that it stops
//! and ends with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bench::abilities::Abilities;
use bench::subject::{
    AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd, Subject,
    SubjectError,
};
use lock_core::machine::in_process;
use tokio::sync::mpsc;

use crate::runtime::lock;
use crate::runtime::process::Process;

pub(crate) async fn connect(
    subject: &Arc<dyn Subject>,
    to: &ConnectTo,
    process: &Arc<Process>,
) -> Result<Connected, SubjectError> {
    let (subject, to) = (Arc::clone(subject), to.clone());
    let connected = call(process, async move { subject.connect(&to).await }).await;
    let Connected { client, events: mut theirs } =
        connected.unwrap_or_else(|| Err(SubjectError::unreachable("its process ended")))?;
    let names = Arc::new(Names::default());
    let (events, receiver) = mpsc::unbounded_channel();
    let (of, by) = (Arc::clone(process), Arc::clone(&names));
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                biased;
                () = of.died() => ClientEvent::Exited { how: "killed".to_owned() },
                // A lock without events ends by the process alone.
                Some(event) = theirs.recv() => by.event(event),
                () = events.closed() => return,
            };
            let ended = matches!(event, ClientEvent::Exited { .. });
            if events.send(event).is_err() || ended {
                return;
            }
        }
    });
    Ok(Connected {
        client: Box::new(Client { inner: Some(client.into()), process: Arc::clone(process), names }),
        events: receiver,
    })
}

/// Runs work as a task of a process; `None` if the process ended before.
async fn call<T: Send + 'static>(
    process: &Arc<Process>,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let task = tokio::spawn(in_process(process.clone(), work));
    tokio::select! {
        biased;
        done = task => done.ok(),
        () = process.died() => None,
    }
}

/// The grants of a client by their names in the history: those of subjects tell the thread that runs.
#[derive(Default)]
struct Names(Mutex<AssignedNames>);

#[derive(Default)]
struct AssignedNames {
    count: u64,
    theirs: BTreeMap<String, String>,
    ours: BTreeMap<String, String>,
}

impl Names {
    fn given(&self) -> MutexGuard<'_, AssignedNames> {
        lock(&self.0)
    }

    fn ours(&self, theirs: String) -> String {
        let mut given = self.given();
        if let Some(known) = given.ours.get(&theirs) {
            return known.clone();
        }
        given.count += 1;
        let ours = format!("g{}", given.count);
        given.theirs.insert(ours.clone(), theirs.clone());
        given.ours.insert(theirs, ours.clone());
        ours
    }

    fn theirs(&self, ours: &str) -> String {
        self.given().theirs.get(ours).cloned().unwrap_or_else(|| ours.to_owned())
    }

    fn event(&self, event: ClientEvent) -> ClientEvent {
        match event {
            ClientEvent::Lost { grant, reason, at } => {
                ClientEvent::Lost { grant: self.ours(grant), reason, at }
            }
            ClientEvent::Extended { grant, lease, sent_at } => {
                ClientEvent::Extended { grant: self.ours(grant), lease, sent_at }
            }
            exited @ ClientEvent::Exited { .. } => exited,
        }
    }
}

struct Client {
    /// Taken out by the end only.
    inner: Option<Arc<dyn LockClient>>,
    process: Arc<Process>,
    names: Arc<Names>,
}

const ENDED: &str = "its process ended";

impl Client {
    fn inner(&self) -> Arc<dyn LockClient> {
        Arc::clone(self.inner.as_ref().expect("it has not been closed"))
    }

    /// Gives back or extends.
    async fn change<F>(&self, work: F) -> ReleaseEnd
    where
        F: Future<Output = ReleaseEnd> + Send + 'static,
    {
        call(&self.process, work).await.unwrap_or_else(|| ReleaseEnd::Unknown(ENDED.to_owned()))
    }
}

#[async_trait]
impl LockClient for Client {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let (inner, names) = (self.inner(), Arc::clone(&self.names));
        let (lock, kind, owner) =
            (request.lock.to_owned(), request.kind.to_owned(), request.owner.to_owned());
        let others: Vec<String> = request.others.iter().map(|other| (*other).into()).collect();
        let AcquireRequest { reenters, wait, lease, permits, cancel, .. } = request;
        let work = async move {
            let others: Vec<&str> = others.iter().map(String::as_str).collect();
            let asked = inner.acquire(AcquireRequest {
                lock: &lock,
                others: &others,
                kind: &kind,
                owner: &owner,
                reenters,
                wait,
                lease,
                permits,
                cancel: None,
            });
            let end = match cancel {
                None => asked.await,
                // Its caller drops the call wherever it is.
                Some(after) => match tokio::time::timeout(after, asked).await {
                    Ok(end) => end,
                    Err(_) => return AcquireEnd::Unknown("given up by its caller".to_owned()),
                },
            };
            match end {
                AcquireEnd::Ok { grant, token, sent_at, lease, at, .. } => AcquireEnd::Ok {
                    grant: names.ours(grant),
                    token,
                    sent_at,
                    returned_at: Some(Instant::now()),
                    lease,
                    at,
                },
                end => end,
            }
        };
        call(&self.process, work).await.unwrap_or_else(|| AcquireEnd::Unknown(ENDED.to_owned()))
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let (inner, grant) = (self.inner(), self.names.theirs(grant));
        self.change(async move { inner.release(&grant).await }).await
    }

    async fn release_as(&self, grant: &str, owner: &str) -> ReleaseEnd {
        let (inner, grant) = (self.inner(), self.names.theirs(grant));
        let owner = owner.to_owned();
        self.change(async move { inner.release_as(&grant, &owner).await }).await
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        let (inner, grant) = (self.inner(), self.names.theirs(grant));
        self.change(async move { inner.extend(&grant, lease).await }).await
    }

    async fn extend_as(&self, grant: &str, lease: Duration, owner: &str) -> ReleaseEnd {
        let (inner, grant) = (self.inner(), self.names.theirs(grant));
        let owner = owner.to_owned();
        self.change(async move { inner.extend_as(&grant, lease, &owner).await }).await
    }

    fn watchdog(&self) -> Option<Duration> {
        self.inner().watchdog()
    }

    fn reports_renewals(&self) -> bool {
        self.inner().reports_renewals()
    }

    fn abilities(&self) -> Abilities {
        let mut abilities = self.inner().abilities();
        if self.reports_renewals() {
            // As a driver of it would say.
            abilities.features.get_or_insert_default().push("renewals".to_owned());
        }
        abilities
    }

    fn set_paused(&self, paused: bool) {
        match paused {
            true => self.process.stop(),
            false => self.process.go_on(),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // What is dropped may spawn, and close connections: as its own process.
        let inner = self.inner.take();
        self.process.within(|| drop(inner));
    }
}
