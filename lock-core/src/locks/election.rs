//! Election of a leader among clients that campaign under one name: a queued lock; its token is the term.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};

use crate::client::Client;
use crate::error::LockError;
use crate::hold::acquire_options::Acquire;
use crate::hold::guard::Guard;
use crate::hold::guard_event::Released;
use crate::locks::fenced_lock::{FencedGuard, FencedLock};
use crate::locks::short_forms::stands_for;
use crate::waiting::gate::unheard_pause;

/// An election by its name: of all who campaign one leads at a time, in order of arrival. Cheap to clone.
///
/// It is a [queued](crate::Kind::Queued) lock. A leader that dies is followed when its lease ends, 30 s by
/// default ([`ClientOptions::watchdog_lease`](crate::ClientOptions::watchdog_lease)); one that resigns is
/// followed at once.
///
/// ```
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// use futures_util::StreamExt as _;
///
/// let election = client.election("jobs")?;
/// let leadership = election.campaign().await?; // waits until it leads
/// let leader = election.observe().next().await.unwrap()?; // what any client sees
/// assert_eq!((leader.client(), leader.term), (client.id(), leadership.term()));
/// tokio::select! {
///     () = run_the_jobs(leadership.term()) => { leadership.resign().await?; }
///     reason = leadership.lost() => eprintln!("leads no more: {reason}"),
/// }
/// client.close().await;
/// # Ok(()) });
/// # async fn run_the_jobs(_: u64) {}
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    lock: FencedLock,
}

/// Who leads, by the word of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The candidate that leads: the id of its client, `:`, and a number of its own.
    pub candidate: String,
    /// Its term: above those of all leaders before it.
    pub term: u64,
}

impl Leader {
    /// The [id](Client::id) of the client that leads.
    pub fn client(&self) -> &str {
        let id = self.candidate.split_once(':');
        id.map_or(&self.candidate, |(id, _)| id)
    }
}

impl Client {
    /// An election by its name, which is the Redis key. Nothing is sent; errors as [`lock`](Client::lock).
    pub fn election(&self, name: &str) -> Result<Election, LockError> {
        let lock = self.queued(name)?;
        Ok(Election { lock })
    }
}

impl Election {
    /// Its name.
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Waits for ever until it leads; leads until it resigns. Dropping the future ends the campaign.
    pub async fn campaign(&self) -> Result<Leadership, LockError> {
        self.campaign_with(Acquire::default()).await
    }

    /// As [`campaign`](Election::campaign), with a wait, a lease, a durability or a longest time of leading;
    /// errors as [`Lock::acquire_with`](crate::Lock::acquire_with).
    pub async fn campaign_with(&self, how: Acquire) -> Result<Leadership, LockError> {
        let guard = self.lock.acquire_with(how).await?;
        Ok(Leadership { guard })
    }

    /// Who leads now, if anybody; only a look. Errors: `Failed`.
    pub async fn leader(&self) -> Result<Option<Leader>, LockError> {
        let holder = self.lock.holder().await?;
        Ok(holder.and_then(|holder| Some(Leader { term: holder.token?, candidate: holder.owner })))
    }

    /// Each leader from now on, that of now first, as long as the client is open; a term that ends between
    /// two looks may be missed. It looks each [`poll_bound`](crate::ClientOptions::poll_bound), more often
    /// just after nobody led. An error means that nothing is seen for a while; the next leader follows it.
    pub fn observe(&self) -> BoxStream<'static, Result<Leader, LockError>> {
        let observation =
            Observation { election: self.clone(), seen: None, nobody_for: Duration::ZERO, failed: false };
        stream::unfold(observation, |mut seen| async move { Some((seen.next().await?, seen)) }).boxed()
    }
}

struct Observation {
    election: Election,
    seen: Option<u64>,
    nobody_for: Duration,
    failed: bool,
}

impl Observation {
    async fn next(&mut self) -> Option<Result<Leader, LockError>> {
        let client = &self.election.lock.inner.client;
        loop {
            let look = self.election.leader().await;
            if client.background.is_closed() {
                return None;
            }
            let failed_before = std::mem::replace(&mut self.failed, look.is_err());
            let poll_bound = client.options.poll_bound;
            let pause = match look {
                Ok(Some(leader)) => {
                    self.nobody_for = Duration::ZERO;
                    if self.seen.replace(leader.term) != Some(leader.term) {
                        return Some(Ok(leader));
                    }
                    poll_bound
                }
                Ok(None) => {
                    let pause = unheard_pause(self.nobody_for).min(poll_bound);
                    self.nobody_for += pause;
                    pause
                }
                Err(error) if !failed_before => return Some(Err(error)),
                Err(_) => poll_bound,
            };
            if client.background.closed_within(pause).await {
                return None;
            }
        }
    }
}

/// A term of leading, a [`Guard`] by dereferencing: [`lost`](Guard::lost) ends it. Dropping it resigns.
#[derive(Debug)]
#[must_use = "dropping it resigns at once"]
pub struct Leadership {
    guard: FencedGuard,
}

impl Leadership {
    /// The term, a fencing token: what the leader writes to must refuse one not above another leader's.
    pub fn term(&self) -> u64 {
        self.guard.token()
    }

    /// Ends it; the next candidate leads at once. Errors as [`Guard::release`].
    pub async fn resign(self) -> Result<Released, LockError> {
        self.guard.release().await
    }
}

stands_for!(Leadership, guard: Guard);
