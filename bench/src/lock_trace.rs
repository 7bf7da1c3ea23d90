//! A lock's life by two clients that report what they say to their servers: acquired, waited for, renewed,
//! released.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_core::diagnostics::{Traced, Tracer};
use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, LockError, Target, Wait};
use serde_json::{Value, json};

/// The lease of the lock that is watched: renewed each third of it, so that a renewal is seen soon.
const LEASE: Duration = Duration::from_millis(1500);
/// Longest wait for the lock, in case somebody else holds it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The steps of a lock's life, and what happens in each.
pub const STEPS: [(&str, &str); 5] = [
    ("acquire", "the holder gets the lock, with renewal"),
    ("wait", "another client finds it held, subscribes, and checks again"),
    ("renew", "a third of the lease has passed"),
    ("release", "the holder releases it, the waiter is notified and acquires it"),
    ("last release", "the second holder releases it"),
];

/// What was said in a step, and by which client.
pub struct TracedEvent {
    /// A row of [`STEPS`].
    pub step: usize,
    /// `holder` or `waiter`.
    pub client: &'static str,
    /// What was said.
    pub event: Traced,
}

impl TracedEvent {
    /// Lines for people: what was sent how long after `began`, the commands inside a script, and the reply.
    pub fn text(&self, inner: Option<&[String]>, began: Instant) -> String {
        let event = &self.event;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let since = ms(event.at.saturating_duration_since(began));
        let mut line = format!("{since:9.1} ms  {}  {}  {}", self.client, event.node, event.command);
        line += &event.script.map(|script| format!(" {script}")).unwrap_or_default();
        if !event.keys.is_empty() {
            line += &format!("  {}", event.keys.join(" "));
        }
        if !event.args.is_empty() {
            line += &format!("  · {}", event.args.join(" "));
        }
        for call in inner.unwrap_or_default() {
            line += &format!("\n{:18}{call}", "");
        }
        if let Some(reply) = &event.reply {
            line += &format!("\n{:14}→ {reply}  ({:.1} ms)", "", ms(event.took));
        }
        line
    }

    /// The same as JSON.
    pub fn to_json(&self, inner: Option<&[String]>, began: Instant) -> Value {
        let event = &self.event;
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        json!({
            "t_ns": ns(event.at.saturating_duration_since(began)),
            "step": STEPS[self.step].0,
            "client": self.client,
            "node": event.node,
            "command": event.command,
            "script": event.script,
            "keys": event.keys,
            "args": event.args,
            "inner": inner,
            "reply": event.reply,
            "took_ns": event.reply.as_ref().map(|_| ns(event.took)),
        })
    }
}

/// Collects the events of both clients: the step that goes on, and what was said.
#[derive(Clone, Default)]
struct TraceRecord(Arc<Mutex<(usize, Vec<TracedEvent>)>>);

impl TraceRecord {
    fn lock(&self) -> MutexGuard<'_, (usize, Vec<TracedEvent>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_step(&self) {
        self.lock().0 += 1;
    }

    fn tracer(&self, client: &'static str) -> Tracer {
        let record = self.clone();
        Tracer::new(move |event| {
            let (step, said) = &mut *record.lock();
            said.push(TracedEvent { step: *step, client, event });
        })
    }

    /// Waits for one in this step, for a lease at most: a kind that has not sent it by then does not send it.
    async fn until(&self, matches: impl Fn(&Traced) -> bool) {
        let has = || {
            let (step, said) = &*self.lock();
            said.iter().any(|said| said.step == *step && matches(&said.event))
        };
        let end = Instant::now() + LEASE;
        while Instant::now() < end && !has() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Two clients at a target, whose words are kept.
pub struct LockTrace {
    /// When the first of them began to connect.
    pub began: Instant,
    record: TraceRecord,
    holder: Client,
    waiter: Client,
}

impl LockTrace {
    /// Connects both; beyond this machine to servers that the target names, and to others if `mine`.
    pub async fn connect(target: &Target, mine: bool) -> Result<Self, LockError> {
        let (began, record) = (Instant::now(), TraceRecord::default());
        let connect = |client| {
            let options = ClientOptions::default().watchdog_lease(LEASE).only_named_addresses(!mine);
            Client::connect(target, options.poll_bound(PATIENCE).tracer(record.tracer(client)))
        };
        let (holder, waiter) = (connect("holder").await?, connect("waiter").await?);
        Ok(Self { began, record, holder, waiter })
    }

    /// What the keys of this trace begin with.
    pub fn key_prefix(&self) -> String {
        format!("locklab:trace:{}:", self.holder.id())
    }

    /// Runs the steps: one client holds a lock of the kind `held`, the other waits for one of `kind`.
    pub async fn run(&self, held: Kind, kind: Kind, name: &str) -> Result<(), LockError> {
        let (ours, theirs) = (self.holder.lock(held, name)?, self.waiter.lock(kind, name)?);
        let how = |lease| Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(lease);
        let guard = ours.acquire_with(how(Lease::Renewed)).await?;
        self.record.next_step();
        let waiting = theirs.acquire_with(how(Lease::Fixed(LEASE)));
        let holding = async {
            self.record.until(|event| event.command.ends_with("SUBSCRIBE")).await;
            // The attempt that follows the subscription.
            tokio::time::sleep(LEASE / 20).await;
            self.record.next_step();
            // A server that does not know the script yet says so first.
            let renewal = |event: &Traced| {
                let extends = event.script.is_some_and(|name| name.starts_with("extend"));
                extends && !event.reply.as_deref().is_some_and(|reply| reply.starts_with("refused"))
            };
            self.record.until(renewal).await;
            self.record.next_step();
            guard.release().await
        };
        let (guard, released) = tokio::join!(waiting, holding);
        let guard = guard?;
        self.record.next_step();
        released?;
        guard.release().await?;
        Ok(())
    }

    /// Closes both clients, which release what they hold, and gives what was said, in the order in which it
    /// was sent.
    pub async fn close(self) -> Vec<TracedEvent> {
        self.holder.close().await;
        self.waiter.close().await;
        let mut said = std::mem::take(&mut self.record.lock().1);
        // An event is reported when its reply arrives.
        said.sort_by_key(|said| said.event.at);
        said
    }
}
