//! The servers that decide over a lock: one set, or a majority of several; the same questions to both.
//!
//! | file | what it is for |
//! |---|---|
//! | `server_set.rs` | which servers decide |
//! | `quorum.rs` | a majority of independent masters |
//! | `server_clock.rs` | what the servers' clock shows |

pub(crate) mod quorum;
pub(crate) mod server_clock;
pub(crate) mod server_set;

use std::{future::Future, sync::Arc, time::Duration};

use redis::Value;

use crate::bounds::LAST_LOOK;
use crate::clock::Instant;
use crate::durability::Durability;
use crate::hold::Hold;
use crate::kind::{Holder, LockFormat, LockRequest, ReleaseAnswer, Reply};
use crate::locks::lock_inner::LockInner;
use crate::servers::server_set::Servers;
use crate::topology::{
    NodeError, Request, RequestPurpose, Route, Script, ServerReply, UNREADABLE, passes, slot, unreadable,
};

/// The answer to one attempt to acquire.
#[derive(Debug)]
pub(crate) enum AttemptAnswer {
    Granted {
        token: Option<u64>,
        sent_at: Instant,
    },
    /// Another holds it, for so long at least if nothing is done.
    Busy {
        left: Option<Duration>,
    },
    /// Another holds it; a place in the line was taken, if one was asked for.
    Queued {
        left: Option<Duration>,
        sent_at: Instant,
        server_us: u64,
    },
    /// Nobody has a majority: look again after a random pause.
    Split,
    /// This attempt's identity is used up: ask with a new one.
    Settled,
    /// It took nothing, since it came too late by the server's clock, which is known now.
    Late,
    /// The owner has it already, and the kind does not give it to its owner again.
    Own,
    /// Taken, but too few replicas have it: to be given back.
    Thin {
        acked: u32,
        demanded: u32,
    },
}

#[derive(Debug)]
pub(crate) enum ExtendOutcome {
    Held { sent_at: Instant },
    Missing,
    Thin { acked: u32, demanded: u32 },
}

impl Servers {
    pub(crate) async fn acquire(
        &self,
        hold: &Arc<Hold>,
        deadline: Instant,
    ) -> Result<AttemptAnswer, NodeError> {
        hold.may_last(deadline, hold.lease);
        let clock = &hold.client().server_clock;
        let mut late = 0;
        loop {
            let ask = LockRequest { not_after: clock.after(deadline), ..hold.request() };
            let mut request = hold.lock.format.acquire(&ask);
            request.wait = wait_for(hold, deadline);
            request.grants = true;
            let tried = match self {
                Servers::One(route) => acquire_at(route, hold, &request, deadline).await,
                Servers::Majority(routes) => Box::pin(quorum::acquire(routes, hold, request, deadline)).await,
            };
            late += 1;
            match tried {
                // The clock was not known, or another server's.
                Ok(AttemptAnswer::Late) if late < 4 && Instant::now() < deadline => {}
                Ok(AttemptAnswer::Late) => {
                    return Err(NodeError::local(
                        "it came too late to the server, by whose clock nobody waited for it any more",
                    ));
                }
                tried => return tried,
            }
        }
    }

    pub(crate) async fn extend(
        &self,
        hold: &Arc<Hold>,
        lease: Duration,
        deadline: Instant,
    ) -> Result<ExtendOutcome, NodeError> {
        hold.may_last(deadline, lease);
        let mut request = hold.lock.format.extend(&LockRequest { lease, ..hold.request() });
        request.wait = wait_for(hold, deadline);
        match self {
            Servers::One(route) => extend_at(route, hold, &request, deadline).await,
            Servers::Majority(routes) => quorum::extend(routes, hold, request, deadline).await,
        }
    }

    /// Who holds a lock; of a majority's whom that names.
    pub(crate) async fn holders(
        &self,
        lock: &LockInner,
        deadline: Instant,
    ) -> Result<Vec<Holder>, NodeError> {
        let request = lock.format.look(&lock.names);
        match self {
            Servers::One(route) => holders_at(route, lock.format, &request, deadline).await,
            Servers::Majority(routes) => {
                let named = quorum::holder(routes, lock.format, request, deadline).await?;
                Ok(named.into_iter().collect())
            }
        }
    }

    pub(crate) async fn force_release(&self, lock: &LockInner, deadline: Instant) -> Result<bool, NodeError> {
        let request = lock.format.force_release(&lock.names);
        match self {
            Servers::One(route) => yes_at(route, &request, deadline).await,
            Servers::Majority(routes) => quorum::yes_or_no(routes, request, deadline).await,
        }
    }
}

/// What the replicas are asked; for half of the time left, so that a lack of replicas is answered in time.
fn wait_for(hold: &Hold, deadline: Instant) -> Option<crate::topology::WaitFor> {
    let timeout = hold.client().options.durability_timeout;
    let time_left = deadline.saturating_duration_since(Instant::now()) / 2;
    (hold.durability != Durability::None)
        .then(|| crate::topology::WaitFor { durability: hold.durability, timeout: timeout.min(time_left) })
}

/// Too few acknowledgements, if so.
fn thin(sent: &ServerReply) -> Option<(u32, u32)> {
    sent.acked.filter(|(acked, demanded)| acked < demanded)
}

pub(crate) async fn acquire_at(
    route: &Arc<Route>,
    hold: &Hold,
    request: &Request,
    deadline: Instant,
) -> Result<AttemptAnswer, NodeError> {
    let sent = match route.send(request, deadline).await {
        Err(error) if !error.definite && error.code.is_some() => {
            return Err(Box::pin(taken_back(route, hold, error, deadline)).await);
        }
        sent => sent?,
    };
    let reply = hold.lock.format.read_acquire(&sent.value);
    Ok(match reply.ok_or_else(|| not_an_answer(&sent))? {
        Reply::Granted { token } => granted(&sent, token),
        Reply::Admitted { more, server_ms } => {
            hold.room.set(more);
            if let Some(server_ms) = server_ms {
                hold.client().server_clock.showed(sent.sent_at, server_ms);
            }
            granted(&sent, None)
        }
        Reply::Busy { left } => AttemptAnswer::Busy { left },
        Reply::Queued { left, server_us } => AttemptAnswer::Queued { left, server_us, sent_at: sent.sent_at },
        Reply::Late { server_ms } => {
            hold.client().server_clock.showed(sent.sent_at, server_ms);
            AttemptAnswer::Late
        }
        Reply::Settled => AttemptAnswer::Settled,
        Reply::Own => AttemptAnswer::Own,
    })
}

/// A script broke off, and may have taken the lock: only an acknowledged undo shows that it is not held.
async fn taken_back(route: &Arc<Route>, hold: &Hold, error: NodeError, deadline: Instant) -> NodeError {
    let undo = hold.lock.format.undo(&hold.request());
    match route.send(&undo, deadline.max(Instant::now() + LAST_LOOK)).await {
        Ok(_) => NodeError { definite: true, ..error },
        Err(refused) => NodeError {
            message: format!(
                "{}; it could not be undone, so that {} or a key beside it may stay without an end: {}",
                error.message, hold.lock.names.key, refused.message
            ),
            ..error
        },
    }
}

fn granted(sent: &ServerReply, token: Option<u64>) -> AttemptAnswer {
    match thin(sent) {
        Some((acked, demanded)) => AttemptAnswer::Thin { acked, demanded },
        None => AttemptAnswer::Granted { token, sent_at: sent.sent_at },
    }
}

pub(crate) async fn extend_at(
    route: &Arc<Route>,
    hold: &Hold,
    request: &Request,
    deadline: Instant,
) -> Result<ExtendOutcome, NodeError> {
    let sent = route.send(request, deadline).await?;
    let held = hold.lock.format.read_extend(&sent.value);
    Ok(match (held.ok_or_else(|| not_an_answer(&sent))?, thin(&sent)) {
        (false, _) => ExtendOutcome::Missing,
        (true, Some((acked, demanded))) => ExtendOutcome::Thin { acked, demanded },
        (true, None) => ExtendOutcome::Held { sent_at: sent.sent_at },
    })
}

/// What holds renewed by one request have in common: servers, script, lease, and on a cluster the slot.
pub(crate) type Together = (usize, usize, Duration, u16);

/// With which others a hold can be renewed in one request; `None` if only by itself.
pub(crate) fn renewed_together(hold: &Hold) -> Option<Together> {
    let Servers::One(route) = &hold.lock.servers else {
        return None;
    };
    let alone = hold.lock.format.renews_alone(&hold.request());
    if hold.durability != Durability::None || alone {
        return None;
    }
    let slot = if route.is_sharded() { slot(hold.lock.names.key.as_bytes()) } else { 0 };
    let route = Arc::as_ptr(route).cast::<()>() as usize;
    let script: *const Script = hold.lock.format.extend_script();
    Some((route, script as usize, hold.lease, slot))
}

/// Extends several holds that have in common what [`renewed_together`] says, each to its lease from now.
pub(crate) async fn extend_together(
    holds: &[Arc<Hold>],
    deadline: Instant,
) -> Result<Vec<ExtendOutcome>, NodeError> {
    let lock = &holds[0].lock;
    let mut request = Request::new(lock.format.extend_script());
    for hold in holds {
        hold.may_last(deadline, hold.lease);
        request = hold.lock.format.extend_keys(&hold.request(), request);
    }
    request = request.arg_ms(holds[0].lease);
    for hold in holds {
        request = hold.lock.format.extend_arg(&hold.request(), request);
    }
    let sent = lock.servers.routes()[0].send(&request, deadline).await?;
    let Value::Array(answers) = &sent.value else {
        return Err(not_an_answer(&sent));
    };
    let read = |answer| match lock.format.read_extend(answer)? {
        true => Some(ExtendOutcome::Held { sent_at: sent.sent_at }),
        false => Some(ExtendOutcome::Missing),
    };
    let all: Option<Vec<_>> = answers.iter().map(read).collect();
    all.filter(|all| all.len() == holds.len()).ok_or_else(|| not_an_answer(&sent))
}

/// What a release needs to know of its hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GiveBack {
    /// The hold was valid when its release began. A fresh owner's release that is repeated after a lost
    /// answer and finds nothing has then done its work the first time: the lease had not run out and nobody
    /// else can have been touched, so no record is needed on the server to know it.
    pub(crate) valid: bool,
    pub(crate) deadline: Instant,
}

/// Gives a hold back at one server set; asks again after lost answers until the deadline. Says what was
/// answered, and when the question for it was sent.
pub(crate) async fn release_at(
    route: &Arc<Route>,
    hold: &Hold,
    request: &Request,
    how: GiveBack,
) -> Result<(ReleaseAnswer, Instant), NodeError> {
    let one_answer = hold.client().options.response_timeout;
    let turns = &hold.client().turns;
    turns.giving(&hold.lock);
    let asked = ask_again(route, request, one_answer, how.deadline, RequestPurpose::Deed).await;
    let (sent, doubtful) = asked?;
    let given = hold.lock.format.read_release(&sent.value).ok_or_else(|| not_an_answer(&sent))?;
    turns.gave(&hold.lock, route, given, &sent.value);
    let done_before = doubtful && how.valid && !hold.has_records();
    let given = match given {
        ReleaseAnswer::Absent if done_before => ReleaseAnswer::Freed,
        ReleaseAnswer::Inherited { token } if done_before => ReleaseAnswer::Passed { token },
        given => given,
    };
    Ok((given, sent.sent_at))
}

/// Asks at one server set, and again after lost answers and passing refusals until the deadline; the request
/// must be safe to repeat. Says with the answer whether an earlier one was lost.
pub(crate) async fn ask_again(
    route: &Arc<Route>,
    request: &Request,
    one_answer: Duration,
    until: Instant,
    need: RequestPurpose,
) -> Result<(ServerReply, bool), NodeError> {
    repeat(one_answer, until, need, |deadline| route.send(request, deadline)).await
}

/// Asks, each time for `one_answer` at most, until there is an answer or no use in asking.
pub(crate) async fn repeat<T, F: Future<Output = Result<T, NodeError>>>(
    one_answer: Duration,
    until: Instant,
    need: RequestPurpose,
    ask: impl Fn(Instant) -> F,
) -> Result<(T, bool), NodeError> {
    let mut doubtful = false;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut error = match ask(until.min(Instant::now() + one_answer)).await {
            Ok(answer) => return Ok((answer, doubtful)),
            Err(error) => error,
        };
        doubtful |= !error.definite;
        error.definite = !doubtful;
        error.attempt = error.attempt.max(attempt);
        let pause = backoff(attempt);
        if !passes(&error, need) || Instant::now() + pause >= until {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

pub(crate) async fn holders_at(
    route: &Arc<Route>,
    format: &dyn LockFormat,
    request: &Request,
    deadline: Instant,
) -> Result<Vec<Holder>, NodeError> {
    let sent = route.send(request, deadline).await?;
    format.read_holders(&sent.value).ok_or_else(|| not_an_answer(&sent))
}

/// Whether a server answers yes (1) or no (0).
pub(crate) async fn yes_at(
    route: &Arc<Route>,
    request: &Request,
    deadline: Instant,
) -> Result<bool, NodeError> {
    let sent = route.send(request, deadline).await?;
    match sent.value {
        Value::Int(number) => Ok(number > 0),
        _ => Err(not_an_answer(&sent)),
    }
}

/// An answer that no script of ours gives. It is not asked for again: the next one would be no better.
pub(crate) fn not_an_answer(sent: &ServerReply) -> NodeError {
    NodeError {
        node: Some(sent.node.to_string()),
        definite: false,
        code: Some(UNREADABLE.to_owned()),
        message: unreadable(&sent.value),
        attempt: sent.attempt,
    }
}

/// A pause before the next attempt: 5 to 10 ms, doubling up to 160 to 320 ms.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let most = 10u64 << attempt.saturating_sub(1).min(5);
    Duration::from_micros(rand::random_range(most * 500..=most * 1000))
}
