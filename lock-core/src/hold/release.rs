//! Giving holds back: with the caller waiting, and in the background until it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use crate::bounds::ANSWERS;
use crate::clock::{Instant, outside_of_tokio, sleep_until};
use crate::durability::Durability;
use crate::error::{ErrorKind, LockError, in_the_background};
use crate::hold::Hold;
use crate::hold::guard_event::{LostReason, Released};
use crate::hold::watchdog;
use crate::kind::{LockRequest, ReleaseAnswer};
use crate::locks::lock_inner::LockInner;
use crate::servers::quorum;
use crate::servers::server_set::Servers;
use crate::servers::{GiveBack, release_at};
use crate::topology::{NodeError, Request, RequestPurpose, passes};
use crate::waiting::handoff::Handoff;

const ACTION: &str = "release";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseReason {
    Release,
    /// An acquire that may have been granted.
    Undo,
    /// The same for a waiter that a release has named, whose answer was lost. It names nobody: those named
    /// would be given back in turn if they had left too, two for each, without end.
    UndoNamed,
}

/// The server sets on which something is still to be given back; what is open when it is dropped is given
/// back in the background. That makes every future that holds one safe to drop.
#[derive(Debug)]
pub(crate) struct Open {
    hold: Arc<Hold>,
    giving: ReleaseReason,
    /// One bit for each route, in their order.
    routes: u64,
}

impl Open {
    pub(crate) fn new(hold: &Arc<Hold>, giving: ReleaseReason) -> Self {
        Open { hold: Arc::clone(hold), giving, routes: 0 }
    }

    pub(crate) fn add(&mut self, route: usize) {
        self.routes |= 1 << route;
    }

    pub(crate) fn add_all(&mut self) {
        self.routes = u64::MAX >> (64 - self.hold.lock.servers.routes().len());
    }

    pub(crate) fn close(&mut self, route: usize) {
        self.routes &= !(1 << route);
    }

    pub(crate) fn close_all(&mut self) {
        self.routes = 0;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Mostly there are none.
        while self.routes != 0 {
            let route = self.routes.trailing_zeros() as usize;
            self.close(route);
            let (hold, giving) = (Arc::clone(&self.hold), self.giving);
            let client = self.hold.client();
            let under_way = (self.hold.release_key()).map(|key| client.returns.begin(key));
            client.background.begin(async move {
                compensate(&hold, giving, route).await;
                drop(under_way);
            });
        }
    }
}

/// Gives a hold back while the caller waits, for `ANSWERS` response timeouts at most.
pub(crate) async fn release(hold: &Arc<Hold>) -> Result<Released, LockError> {
    let client = hold.client();
    let valid = hold.end();
    watchdog::remove(hold);
    let mut open = Open::new(hold, ReleaseReason::Release);
    open.add_all();
    if let Some(why) = outside_of_tokio() {
        return Err(in_the_background(ACTION, &hold.lock.names.key, why));
    }
    let how = GiveBack { valid, deadline: Instant::now() + client.options.response_timeout * ANSWERS };
    let successors = Handoff::of(hold, how.deadline);
    let request = request(hold, ReleaseReason::Release, &successors);
    let given = match &hold.lock.servers {
        Servers::One(route) => {
            let given = release_at(route, hold, &request, how).await;
            given.map(|(given, sent_at)| {
                successors.tell(given, sent_at);
                given
            })
        }
        Servers::Majority(routes) => {
            open.close_all();
            quorum::release(routes, hold, request, how).await
        }
    };
    let name = &hold.lock.names.key;
    match given {
        Ok(given) => {
            // An acquire that is still on its way would take the lock for nobody.
            if hold.unsettled.get() {
                open.giving = ReleaseReason::Undo;
            } else {
                open.close_all();
            }
            match given {
                // A repetition of the acquire may have come after all, and taken what others had meanwhile.
                ReleaseAnswer::Freed | ReleaseAnswer::Passed { .. } | ReleaseAnswer::Kept
                    if !how.valid && hold.unsettled.get() =>
                {
                    let why =
                        "it was lost before, and what was given back may be a late repetition of its acquire";
                    Err(LockError::local(ErrorKind::NotHeld, ACTION, name, why))
                }
                ReleaseAnswer::Freed | ReleaseAnswer::Passed { .. } => Ok(Released::Freed),
                ReleaseAnswer::Kept => Ok(Released::StillHeld),
                ReleaseAnswer::Absent | ReleaseAnswer::Inherited { .. } => {
                    let why = format!("the server does not have it for {}", hold.owner);
                    Err(LockError::local(ErrorKind::NotHeld, ACTION, name, why))
                }
            }
        }
        Err(error) if error.definite && !passes(&error, RequestPurpose::Deed) => {
            open.close_all();
            Err(LockError::at_node(ErrorKind::Failed, ACTION, name, error))
        }
        // It goes on in the background, so it may be done yet: that is not a definite failure.
        Err(error) => Err(LockError::at_node(ErrorKind::Unknown, ACTION, name, error)),
    }
}

/// Gives a hold back without anybody waiting.
pub(crate) fn in_background(hold: &Arc<Hold>) {
    hold.end();
    watchdog::remove(hold);
    Open::new(hold, ReleaseReason::Release).add_all();
}

/// Gives a hold back under its guard, which learns that it is lost.
pub(crate) fn take_back(hold: &Arc<Hold>) {
    hold.lose(LostReason::Closed);
    watchdog::remove(hold);
    Open::new(hold, ReleaseReason::Release).add_all();
}

fn request(hold: &Hold, giving: ReleaseReason, successors: &Handoff) -> Request {
    let ask = LockRequest { successors: successors.said(), ..hold.request() };
    match giving {
        ReleaseReason::Release => hold.lock.format.release(&ask),
        _ if hold.client().wait_queues.shares_owner(hold) => {
            // The place is the other one's too, and stays.
            hold.lock.format.undo(&LockRequest { place: None, ..ask })
        }
        _ => hold.lock.format.undo(&ask),
    }
}

/// Why a client asks for no more of what no lease ends, if so: each acquire whose answer is lost leaves an
/// undo that must come to the server, and while none comes there they would pile up, and all arrive together.
pub(crate) fn too_many_undos(lock: &LockInner) -> Option<NodeError> {
    const MOST: usize = 1_000;
    lock.format.undo_life()?;
    let undos = lock.client.undos.len();
    (undos >= MOST).then(|| {
        NodeError::local(format!(
            "not asked: {undos} acquires whose answers were lost are still to be given back"
        ))
    })
}

/// The longest pause of what goes on while its client closes.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Gives back on one server set until that is acknowledged or no server can have it any more.
async fn compensate(hold: &Hold, giving: ReleaseReason, index: usize) {
    const MOST: Duration = Duration::from_secs(2);
    let client = hold.client();
    let route = &hold.lock.servers.routes()[index];
    if !hold.is_known() {
        return;
    }
    let undo_life = hold.lock.format.undo_life();
    let _counted = undo_life.map(|_| client.undos.token());
    let successors = match giving {
        ReleaseReason::UndoNamed => Handoff::none(),
        // The others leave, too: the place would stay for one of them.
        _ if client.background.is_closed() => Handoff::none(),
        _ => Handoff::of(hold, Instant::now() + client.options.response_timeout),
    };
    let mut request = request(hold, giving, &successors);
    request.leaves_at_once = true;
    let mut names = !successors.said().is_empty();
    let mut successors = Some(successors);
    // A lost acquire of a fresh owner may arrive after the release that was to undo it. The release is
    // repeated for as long as the lease could last; an acquire with a record is kept out by the record. So it
    // is for one that nobody waits for any more: what it waits behind is another connection's than the
    // release's where replicas are asked, and else if the release itself gets no answer.
    let dropped = giving != ReleaseReason::Release && hold.asking.get();
    let may_come_late = !hold.has_records();
    let mut repeat =
        may_come_late && (hold.unsettled.get() || dropped && hold.durability != Durability::None);
    // A place in the line may outlast the lease that was asked for by far; all would wait for its owner once.
    let line = hold.lock.format.line().filter(|_| giving != ReleaseReason::Release && hold.in_line.get());
    let place = line.map_or(Duration::ZERO, |line| line.place_life());
    let until = hold.server_until().max(Instant::now() + place) + client.options.response_timeout;
    let until = undo_life.map_or(until, |life| until.min(Instant::now() + life));
    let mut pause = Duration::from_millis(20);
    let mut first = true;
    client.turns.giving(&hold.lock);
    loop {
        let deadline = Instant::now() + client.options.response_timeout;
        match route.send(&request, deadline).await {
            Ok(sent) => {
                let given = hold.lock.format.read_release(&sent.value);
                if let (Some(successors), Some(given)) = (successors.take(), given) {
                    successors.tell(given, sent.sent_at);
                }
                if !repeat {
                    if let Some(given) = given {
                        client.turns.gave(&hold.lock, route, given, &sent.value);
                    }
                    let overtaken = given == Some(ReleaseAnswer::Absent) && hold.was_absent(index);
                    if !std::mem::replace(&mut first, false) || !overtaken {
                        return;
                    }
                }
            }
            Err(error) if !passes(&error, RequestPurpose::Deed) => return,
            Err(error) => repeat |= may_come_late && dropped && !error.definite,
        }
        request.leaves_at_once = false;
        // By the time that a repetition finds something, others may wait: it names nobody, and they ask.
        if std::mem::take(&mut names) {
            successors = None;
            request = self::request(hold, giving, &Handoff::none());
        }
        if Instant::now() + pause >= until {
            return;
        }
        if client.background.closed_within(pause).await {
            // What no lease ends is tried until the connections are closed, too; the rest may be left.
            if undo_life.is_none() {
                return;
            }
            pause = pause.min(LAST_PAUSE);
            sleep_until(Instant::now() + pause).await;
        }
        pause = (pause * 2).min(MOST);
    }
}
