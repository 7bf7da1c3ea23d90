//! The holder's proof.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::bounds::ANSWERS;
use crate::clock;
use crate::error::{ErrorKind, LockError, refuse_outside_of_tokio};
use crate::hold::guard_event::{GuardEvent, LostReason, Released};
use crate::hold::release;
use crate::hold::watchdog;
use crate::hold::{Hold, bad_extension};
use crate::servers::{ExtendOutcome, repeat};
use crate::topology::RequestPurpose;

/// The events of one guard; ends after `Lost` or the release.
#[derive(Debug)]
#[must_use = "nobody else reads its events"]
pub struct GuardEvents {
    hold: Arc<Hold>,
    receiver: mpsc::UnboundedReceiver<GuardEvent>,
}

impl GuardEvents {
    /// The next event; `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<GuardEvent> {
        loop {
            tokio::select! {
                biased;
                event = self.receiver.recv() => return event,
                // The end of a validity is an event that nobody sends; looking at the hold raises it.
                () = self.hold.change() => { self.hold.lost(); }
            }
        }
    }
}

/// A hold. Dropping it releases in the background; [`release`](Guard::release) lets the result be read.
///
/// A guard says what the client knows. A process that is stopped and goes on after the lease believes in
/// its guard for a moment longer: work that must not be done twice needs a fencing token as well.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back at once"]
pub struct Guard {
    hold: Arc<Hold>,
    /// Its place among the guards of its client, until it ends.
    place: Option<usize>,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        let place = hold.client().guarded.add(Arc::downgrade(&hold));
        Guard { hold, place: Some(place) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.hold.lock.names.key
    }

    /// Who holds, as written on the server: `<client id>:<number>`.
    pub fn owner(&self) -> &str {
        &self.hold.owner
    }

    /// The fencing token, where the kind has one: greater than that of every earlier hold whose grant this
    /// server set still knows of. What a failover forgets may be issued again.
    pub fn token(&self) -> Option<u64> {
        self.hold.token()
    }

    /// When the attempt that succeeded was sent.
    pub fn sent_at(&self) -> Instant {
        self.hold.sent_at().std()
    }

    /// For how long it was granted. A [queued](crate::Kind::Queued) lock that another client's release gave
    /// is given for 2 s at most and claims the rest of its lease after half a second.
    pub fn granted_lease(&self) -> Duration {
        self.hold.granted_lease()
    }

    /// Until when it is surely held: the last acknowledged sending plus the lease, less drift (a hundredth of
    /// the lease and 2 ms). Time for which the machine is suspended counts, though an [`Instant`] may stand
    /// still meanwhile: asked again after a resume, it is nearer.
    pub fn valid_until(&self) -> Instant {
        self.hold.valid_until().std()
    }

    /// Whether it is known to be lost; true from [`valid_until`](Guard::valid_until) on at the latest.
    pub fn is_lost(&self) -> bool {
        self.hold.lost().is_some()
    }

    /// Completes when the hold is lost, at [`valid_until`](Guard::valid_until) at the latest: before another
    /// can enter by the lease's end. If the machine was suspended over that, within a second of the resume,
    /// and [`is_lost`](Guard::is_lost) says it at once. Cancel-safe.
    pub async fn lost(&self) -> LostReason {
        loop {
            if let Some(reason) = self.hold.lost() {
                return reason;
            }
            self.hold.change().await;
        }
    }

    /// A token that is cancelled when the hold is lost, and only then: for code or tasks that take one.
    ///
    /// ```
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// let lock = client.lock(lock_core::Kind::Reentrant, "orders")?;
    /// let guard = lock.acquire().await?;
    /// let stop = guard.cancellation_token();
    /// let work = tokio::spawn(async move { stop.cancelled().await });
    /// lock.force_release().await?; // found by the next renewal at the latest
    /// # guard.extend(std::time::Duration::from_secs(60)).await.unwrap_err();
    /// work.await?;
    /// client.close().await;
    /// # Ok(()) });
    /// ```
    pub fn cancellation_token(&self) -> CancellationToken {
        let token = CancellationToken::new();
        let (told, hold) = (token.clone(), Arc::clone(&self.hold));
        self.hold.client().background.spawn_uncounted(async move {
            while hold.is_held() {
                hold.change().await;
            }
            if hold.lost().is_some() {
                told.cancel();
            }
        });
        token
    }

    /// Says `NotHeld` if it is lost: for work that computes, between two steps of it.
    pub fn check(&self) -> Result<(), LockError> {
        self.hold.lost().map_or(Ok(()), |reason| Err(self.not_held("go on under", &reason)))
    }

    /// Runs `work` while it is held: its output, or `NotHeld` as soon as the hold is lost, with `work`
    /// dropped where it waits. Work that computes without waiting is not interrupted: let it wait for a
    /// blocking task, or ask [`check`](Guard::check) between its steps.
    ///
    /// ```
    /// # use lock_core::Kind;
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// let guard = client.lock(Kind::Reentrant, "orders")?.acquire().await?;
    /// let sum = guard.run(tokio::task::spawn_blocking(|| (1..=1000_u64).sum::<u64>())).await??;
    /// assert_eq!(sum, 500_500);
    /// guard.release().await?;
    /// client.close().await;
    /// # Ok(()) });
    /// ```
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, LockError> {
        tokio::select! {
            biased;
            reason = self.lost() => Err(self.not_held("go on under", &reason)),
            done = work => Ok(done),
        }
    }

    /// Runs `work` while it is held, as [`run`](Guard::run), and gives it back: what `work` says, or why it
    /// was not held until the end, or may not be given back.
    pub async fn hold_while<T>(self, work: impl Future<Output = T>) -> Result<T, LockError> {
        let done = self.run(work).await?;
        self.release().await.map(|_| done)
    }

    fn not_held(&self, action: &'static str, reason: &LostReason) -> LockError {
        LockError::local(ErrorKind::NotHeld, action, self.name(), reason.to_string())
    }

    /// Its events from now on; of one that is lost already, that it is.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// # use lock_core::{Client, Kind};
    /// use lock_core::{ClientOptions, GuardEvent};
    ///
    /// let options = ClientOptions::default().watchdog_lease(Duration::from_millis(300));
    /// # let client = Client::connect(&server.url().parse()?, options).await?;
    /// let lock = client.lock(Kind::Reentrant, "orders")?;
    /// let guard = lock.acquire().await?;
    /// let mut events = guard.events();
    /// let mut renewals = 0;
    /// while let Some(event) = events.next().await {
    ///     match event {
    ///         GuardEvent::Extended { .. } => renewals += 1,
    ///         GuardEvent::Lost { reason, .. } => println!("lost after {renewals} renewals: {reason}"),
    ///         _ => {}
    ///     }
    ///     // Somebody takes it away, which the next renewal finds.
    ///     lock.force_release().await?;
    /// }
    /// assert!(guard.is_lost() && renewals == 1);
    /// client.close().await;
    /// # Ok(()) });
    /// ```
    pub fn events(&self) -> GuardEvents {
        GuardEvents { receiver: self.hold.listen(), hold: Arc::clone(&self.hold) }
    }

    /// Extends the hold to `lease` from now; never shortens it, never revives a lapsed one.
    ///
    /// A lost answer is asked for again, for four times the response timeout and the hold's validity at most.
    /// Errors: `Invalid` for less than 1 ms or more than a hundred years, `NotHeld` if it is lost,
    /// `NotDurable` if too few replicas acknowledged, `Failed` and `Unknown` as everywhere; after the last
    /// three the hold is as valid as before.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        const ACTION: &str = "extend the lease on";
        let hold = &self.hold;
        let name = self.name();
        if let Some(why) = bad_extension(lease) {
            return Err(LockError::invalid(ACTION, name, why));
        }
        refuse_outside_of_tokio(ACTION, name)?;
        let not_held = |why: String| LockError::local(ErrorKind::NotHeld, ACTION, name, why);
        if let Some(reason) = hold.lost() {
            return Err(not_held(reason.to_string()));
        }
        let timeout = hold.client().options.request_timeout(hold.durability);
        let bound = (clock::Instant::now() + timeout * ANSWERS).min(hold.valid_until());
        // Asking for the same extension twice is asking once.
        let asked = repeat(timeout, bound, RequestPurpose::Answer, |deadline| {
            hold.lock.servers.extend(hold, lease, deadline)
        });
        match asked.await.map(|(answer, _)| answer) {
            Ok(ExtendOutcome::Held { sent_at }) if hold.extend(sent_at, lease, false) => Ok(()),
            Ok(ExtendOutcome::Held { .. }) => Err(not_held("it was lost before the answer came".to_owned())),
            Ok(ExtendOutcome::Missing) => {
                hold.lose(LostReason::Missing);
                Err(not_held(LostReason::Missing.to_string()))
            }
            Ok(ExtendOutcome::Thin { acked, demanded }) => {
                let why = hold.durability.shortage(acked, demanded);
                Err(LockError::local(ErrorKind::NotDurable, ACTION, name, why))
            }
            Err(error) => Err(LockError::from_write(ACTION, name, error)),
        }
    }

    /// Gives it back, within four times the response timeout.
    ///
    /// A lost answer is asked for again; the repetition is recognised. If no answer comes in time the error
    /// is `Unknown` and the client goes on giving it back in the background until an answer or the end of the
    /// lease. `NotHeld` says that the server did not have this hold any more, or that it was
    /// [lost](Guard::is_lost) and an answer to its acquire had been, too: what the server gives back then may
    /// have come late, after others had the lock. Dropping the future leaves the release to the background.
    pub async fn release(mut self) -> Result<Released, LockError> {
        self.end();
        release::release(&self.hold).await
    }

    /// Leaves it held for what is left of its lease: nobody renews it any more, and nobody but
    /// [`force_release`](crate::Lock::force_release) gives it back. For work that goes on elsewhere.
    ///
    /// ```
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// let orders = client.lock(lock_core::Kind::Reentrant, "orders")?;
    /// orders.acquire().await?.leave();
    /// assert!(orders.is_locked().await?); // for 30 s more
    /// client.close().await;
    /// # Ok(()) });
    /// ```
    pub fn leave(mut self) {
        self.end();
        self.hold.end();
        watchdog::remove(&self.hold);
    }

    /// Whether it had not ended.
    fn end(&mut self) -> bool {
        let place = self.place.take();
        place.is_some_and(|place| {
            self.hold.client().guarded.remove(place);
            true
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.end() {
            release::in_background(&self.hold);
        }
    }
}
