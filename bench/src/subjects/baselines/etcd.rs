//! etcd's lock API. A hold is a key below the lock's name, bound to a lease; who has the oldest key holds the
//! lock, and the server makes a waiter wait for those before it.
//!
//! - **Fencing token**: the revision of the store in the grant's answer. It is the key's `create_revision`
//!   where nobody was before it, and a later one where somebody was; either way it is above that of every
//!   earlier holder.
//! - **Session**: a lease per hold, because the lock API takes two calls with one lease for one caller. It is
//!   used again by the next hold, kept alive each third of its time, and revoked when its fate is unclear.
//!   etcd counts leases anew after an outage of its own: a hold can outlive a crash that lasts longer than
//!   its lease.
//! - **Loss**: etcd says nothing by itself. A keep-alive finds no lease, or none is answered for two thirds
//!   of the lease.
//!
//! The client talks to one member at a time and goes on to the next where one does not answer: the library's
//! own balancer keeps dead ones. A call that broke off is repeated on a new lease, and the old one is
//! revoked. The server ends such a call by deleting the key that has the lease in its name, and a member that
//! is cut off sends the deletion on when it is back, which may be after that key was granted to the repeated
//! call.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Error, GetOptions, LockOptions, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, TxnOpResponse,
};
use futures_util::future::join_all;
use tokio::time::{sleep, sleep_until, timeout};

use super::{ANSWER, Hold, Store, SystemAcquire, SystemClientParts, SystemGrant, addresses};
use crate::{links::CommandError, subject::SubjectError};

/// Before the next member is asked.
const PAUSE: Duration = Duration::from_millis(50);
/// gRPC's code of what is not there.
const NOT_FOUND: i32 = 5;

/// Locks on leases: one for each hold, or one for all holds of the client where it `shares`.
pub(super) async fn lock(own: SystemClientParts, shares: bool) -> Result<Arc<dyn Store>, SubjectError> {
    let members = Arc::new(Members {
        addresses: addresses(&own.target),
        // The server counts whole seconds.
        ttl_s: i64::try_from(own.session.as_millis().div_ceil(1000)).unwrap_or(i64::MAX),
        third: own.session / 3,
        dialled: tokio::sync::Mutex::default(),
        spare: Mutex::default(),
        shares,
    });
    let until = Instant::now() + ANSWER * 3;
    let hello = members.call(until, |mut client| async move { client.get("locklab:hello", None).await });
    own.reached(hello.await)?;
    if shares {
        own.reached(members.lease(until).await)?.keep();
    }
    Ok(Arc::new(Etcd(members)))
}

/// The members of a cluster, one of which is asked until it fails.
struct Members {
    addresses: Vec<String>,
    ttl_s: i64,
    /// A third of the session: a lease is never older than that since it was last kept alive.
    third: Duration,
    /// Which one is asked, counted on at each change.
    dialled: tokio::sync::Mutex<(usize, Option<Client>)>,
    spare: Mutex<Vec<Lease>>,
    /// One lease is for all holds of the client, each of which the server then takes for the same holder.
    shares: bool,
}

/// A lease, and when the last sign of life was sent that was answered.
#[derive(Debug, Clone, Copy)]
struct Lease {
    id: i64,
    last: Instant,
}

fn is_gone(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => status.code() as i32 == NOT_FOUND,
        Error::LeaseKeepAliveError(_) => true,
        _ => false,
    }
}

impl Members {
    async fn client(&self) -> Result<(usize, Client), CommandError> {
        let mut dialled = self.dialled.lock().await;
        let (number, client) = &mut *dialled;
        if client.is_none() {
            let address = &self.addresses[*number % self.addresses.len()];
            // A member that has lost its leader says so instead of waiting for one.
            let options = ConnectOptions::new().with_connect_timeout(ANSWER).with_require_leader(true);
            let connected = Client::connect([format!("http://{address}")], Some(options)).await;
            *client = Some(connected.map_err(|error| CommandError::Refused(error.to_string()))?);
        }
        Ok((*number, client.clone().expect("it was just made")))
    }

    async fn leave(&self, number: usize) {
        let mut dialled = self.dialled.lock().await;
        if dialled.0 == number {
            *dialled = (number + 1, None);
        }
    }

    /// Asks one member after the other until one answers: `None` where what was asked for is not there.
    async fn call<T, F>(&self, until: Instant, ask: impl Fn(Client) -> F) -> Result<Option<T>, CommandError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            let (number, client) = self.client().await?;
            let why = match timeout(ANSWER, ask(client)).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(error)) if is_gone(&error) => return Ok(None),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {ANSWER:?}"),
            };
            self.leave(number).await;
            if Instant::now() + PAUSE >= until {
                return Err(CommandError::Lost(why));
            }
            sleep(PAUSE).await;
        }
    }

    /// Keeps a lease alive, asking once: false if it is gone.
    async fn beat(&self, id: i64) -> Result<bool, CommandError> {
        let beat = |mut client: Client| async move { client.lease_keep_alive(id).await.map(drop) };
        Ok(self.call(Instant::now(), beat).await?.is_some())
    }

    fn pop(&self) -> Option<Lease> {
        let mut spare = self.spare.lock().expect("no panic");
        if self.shares { spare.first().copied() } else { spare.pop() }
    }

    /// A lease that no hold has, alive for two thirds of its time at least.
    async fn lease(self: &Arc<Self>, until: Instant) -> Result<LeaseInUse, CommandError> {
        while let Some(mut lease) = self.pop() {
            let sent = Instant::now();
            if lease.last + self.third <= sent {
                match self.beat(lease.id).await {
                    Ok(true) => lease.last = sent,
                    Ok(false) | Err(_) => continue,
                }
            }
            return Ok(LeaseInUse::new(self, lease));
        }
        let (last, ttl_s) = (Instant::now(), self.ttl_s);
        let grant = |mut client: Client| async move { client.lease_grant(ttl_s, None).await };
        let granted = self.call(until, grant).await?;
        let id = granted.map_or(0, |granted| granted.id());
        Ok(LeaseInUse::new(self, Lease { id, last }))
    }

    async fn revoke(&self, id: i64) {
        let revoke = |mut client: Client| async move { client.lease_revoke(id).await };
        // One that cannot be revoked ends by itself.
        let _ = self.call(Instant::now() + ANSWER, revoke).await;
    }
}

/// A lease in use. Dropped it is revoked, and what is bound to it is gone.
struct LeaseInUse {
    members: Arc<Members>,
    lease: Option<Lease>,
}

impl LeaseInUse {
    fn new(members: &Arc<Members>, lease: Lease) -> Self {
        LeaseInUse { members: members.clone(), lease: Some(lease) }
    }

    fn id(&self) -> i64 {
        self.lease.map_or(0, |lease| lease.id)
    }

    /// Nothing is bound to it any more: it serves the next hold.
    fn keep(&mut self) {
        self.members.spare.lock().expect("no panic").extend(self.lease.take());
    }
}

impl Drop for LeaseInUse {
    fn drop(&mut self) {
        if let (Some(lease), Ok(runtime)) = (self.lease, tokio::runtime::Handle::try_current()) {
            let members = self.members.clone();
            runtime.spawn(async move { members.revoke(lease.id).await });
        }
    }
}

struct Etcd(Arc<Members>);

#[async_trait]
impl Store for Etcd {
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let taken = if want.is_one_try() { self.try_once(want).await } else { self.queue(want).await };
        // Whatever is under way goes with the lease: nothing is held that was not granted here.
        taken.map_err(CommandError::refused)
    }

    async fn close(&self) {
        let spare = std::mem::take(&mut *self.0.spare.lock().expect("no panic"));
        join_all(spare.iter().map(|lease| self.0.revoke(lease.id))).await;
    }
}

impl Etcd {
    fn taken(&self, key: impl Into<Vec<u8>>, leased: LeaseInUse, revision: i64) -> SystemGrant {
        let last = leased.lease.map_or_else(Instant::now, |lease| lease.last);
        SystemGrant {
            // The lease counts from its last sign of life, a third of it before this at most.
            sent: Instant::now().min(last + self.0.third),
            token: u64::try_from(revision).ok(),
            hold: Box::new(EtcdHold {
                members: self.0.clone(),
                key: key.into(),
                id: leased.id(),
                leased: Mutex::new(Some(leased)),
            }),
        }
    }

    /// Waits in the server's queue, and keeps the lease alive meanwhile.
    async fn queue(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let until = want.until();
        let mut trouble = None;
        while Instant::now() < until {
            let mut leased = self.0.lease(until).await?;
            let (number, mut client) = self.0.client().await?;
            let options = LockOptions::new().with_lease(leased.id());
            let mut waiting = Box::pin(client.lock(want.key, Some(options)));
            let failed = loop {
                let third = leased.lease.map_or(until, |lease| lease.last + self.0.third);
                tokio::select! {
                    answer = &mut waiting => match answer {
                        Ok(granted) => {
                            let revision = granted.header().map_or(0, |header| header.revision());
                            return Ok(Some(self.taken(granted.key(), leased, revision)));
                        }
                        Err(error) if is_gone(&error) => break None,
                        Err(error) => break Some(error.to_string()),
                    },
                    () = sleep_until(until.into()) => return Ok(None),
                    () = sleep_until(third.into()) => {
                        let sent = Instant::now();
                        match self.0.beat(leased.id()).await {
                            Ok(true) => leased.lease = leased.lease.map(|lease| Lease { last: sent, ..lease }),
                            Ok(false) => break None,
                            Err(silent) => break Some(silent.to_string()),
                        }
                    }
                }
            };
            if let Some(why) = failed {
                self.0.leave(number).await;
                trouble = Some(why);
                sleep(PAUSE).await;
            }
        }
        trouble.map_or(Ok(None), |why| Err(CommandError::Refused(why)))
    }

    /// What the lock API does before it waits, and has no call for: puts the key and looks who is first.
    async fn try_once(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let leased = self.0.lease(want.until() + ANSWER).await?;
        let key = format!("{}/{:x}", want.key, leased.id());
        let first =
            GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
        let bound = PutOptions::new().with_lease(leased.id());
        let txn = Txn::new().when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)]).and_then([
            TxnOp::put(key.as_str(), "", Some(bound)),
            TxnOp::get(format!("{}/", want.key), Some(first)),
        ]);
        let put = |mut client: Client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        };
        let Some(answer) = self.0.call(want.until(), put).await? else { return Ok(None) };
        let is_first = answer.op_responses().iter().any(|response| {
            let TxnOpResponse::Get(found) = response else { return false };
            found.kvs().first().is_some_and(|kv| kv.key() == key.as_bytes())
        });
        let revision = answer.header().map_or(0, |header| header.revision());
        Ok(is_first.then(|| self.taken(key, leased, revision)))
    }
}

struct EtcdHold {
    members: Arc<Members>,
    key: Vec<u8>,
    id: i64,
    leased: Mutex<Option<LeaseInUse>>,
}

#[async_trait]
impl Hold for EtcdHold {
    async fn keep(&self, _lease: Duration) -> Result<bool, CommandError> {
        let sent = Instant::now();
        let alive = self.members.beat(self.id).await?;
        if let (true, Some(leased)) = (alive, &mut *self.leased.lock().expect("no panic")) {
            leased.lease = Some(Lease { id: self.id, last: sent });
        }
        Ok(alive)
    }

    /// As the lock API's `unlock`, which says less. The key has the lease in its name: it is nobody else's.
    async fn give(&self) -> Result<bool, CommandError> {
        let delete = |mut client: Client| {
            let key = self.key.clone();
            async move { client.delete(key, None).await }
        };
        // No later hold has the lease if it is not known that the deletion is over.
        let leased = self.leased.lock().expect("no panic").take();
        let deleted = self.members.call(Instant::now(), delete).await?;
        if let Some(mut leased) = leased {
            leased.keep();
        }
        Ok(deleted.is_some_and(|deleted| deleted.deleted() == 1))
    }
}
