//! Redlock: the questions to several independent masters at once, and what a majority of answers means.
//!
//! The algorithm is antirez's (the distributed locks page of the Redis documentation), with three repairs:
//! the lease counts from the first sending, whatever was or may have been taken is given back everywhere
//! after a failure, and an extension only extends what the masters still have.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::{StreamExt, poll, stream::FuturesUnordered};

use crate::bounds::LAST_LOOK;
use crate::clock::Instant;
use crate::hold::Hold;
use crate::hold::release::{Open, ReleaseReason};
use crate::kind::{Holder, LockFormat, ReleaseAnswer};
use crate::servers::server_set::majority;
use crate::servers::{
    AttemptAnswer, ExtendOutcome, GiveBack, acquire_at, extend_at, holders_at, release_at, yes_at,
};
use crate::topology::{Node, NodeError, Request, RequestPurpose, Route, passes};

type Routes = Arc<[Arc<Route>]>;
type Answers<T> = FuturesUnordered<Pin<Box<dyn Future<Output = (usize, Result<T, NodeError>)> + Send>>>;

fn ask_all<T, F, A>(routes: &Routes, request: Request, ask: F) -> Answers<T>
where
    F: Fn(Arc<Route>, Arc<Request>) -> A,
    A: Future<Output = Result<T, NodeError>> + Send + 'static,
{
    let request = Arc::new(request);
    let each = routes.iter().enumerate().map(|(index, route)| {
        let asked = ask(Arc::clone(route), Arc::clone(&request));
        Box::pin(async move { (index, asked.await) }) as Pin<Box<_>>
    });
    each.collect()
}

/// The masters of the routes, in their order.
type Nodes = Vec<Option<Arc<Node>>>;

fn is_silent(node: Option<&Node>) -> bool {
    node.is_some_and(|node| node.is_silent.get())
}

fn note_silence<T>(node: Option<&Node>, answer: &Result<T, NodeError>) {
    if let Some(node) = node {
        node.is_silent.set(answer.as_ref().is_err_and(|error| !error.definite));
    }
}

/// The answers to an acquire so far.
#[derive(Debug, Default)]
struct Tally {
    granted: usize,
    refused: Vec<Option<Duration>>,
    /// Masters that have it or may have it, and whether they have said so.
    taken: Vec<(usize, bool)>,
    thin: Option<(u32, u32)>,
    settled: bool,
    errors: Vec<NodeError>,
}

impl Tally {
    fn count(&mut self, index: usize, answer: Result<AttemptAnswer, NodeError>) {
        match answer {
            Ok(AttemptAnswer::Granted { .. }) => {
                self.granted += 1;
                self.taken.push((index, true));
            }
            Ok(AttemptAnswer::Thin { acked, demanded }) => {
                self.thin = Some((acked, demanded));
                self.taken.push((index, true));
            }
            Ok(AttemptAnswer::Busy { left } | AttemptAnswer::Queued { left, .. }) => self.refused.push(left),
            Ok(AttemptAnswer::Split | AttemptAnswer::Late | AttemptAnswer::Own) => self.refused.push(None),
            Ok(AttemptAnswer::Settled) => self.settled = true,
            Err(error) => {
                if !error.definite {
                    self.taken.push((index, false));
                }
                self.errors.push(error);
            }
        }
    }

    /// Whether a master may have it that has not said so.
    fn is_doubtful(&self) -> bool {
        self.taken.iter().any(|(_, said)| !said)
    }

    /// What a failed attempt of `n` masters comes to, after what was taken has been given back.
    fn failed(self, n: usize, given_back: usize) -> Result<AttemptAnswer, NodeError> {
        let majority = majority(n);
        if self.settled {
            return Ok(AttemptAnswer::Settled);
        }
        // What was taken and is given back is settled; a lost request may still arrive.
        let definite = self.taken.len() - given_back < majority;
        if let Some((acked, demanded)) = self.thin.filter(|_| definite) {
            return Ok(AttemptAnswer::Thin { acked, demanded });
        }
        if self.refused.len() >= majority {
            // When enough masters could be free: those that granted are.
            let mut left: Vec<_> = self.refused.iter().flatten().copied().collect();
            left.sort_unstable();
            let missing = majority.saturating_sub(self.granted).max(1);
            let left = left.get(missing - 1).copied();
            return Ok(AttemptAnswer::Busy { left });
        }
        let heard = self.refused.len() + self.taken.iter().filter(|(_, said)| *said).count();
        if heard >= majority && definite {
            return Ok(AttemptAnswer::Split);
        }
        // No majority answered, or it may have granted: that is no refusal but an outage.
        let open = if heard < majority { "" } else { ", and not all of them that it was given back" };
        let code = self.errors.iter().find(|error| !passes(error, RequestPurpose::Answer));
        Err(NodeError {
            node: None,
            definite,
            code: code.and_then(|error| error.code.clone()),
            message: format!("{heard} of {n} masters answered{open} ({})", said(&self.errors)),
            attempt: 1,
        })
    }
}

/// One attempt to acquire. Returns as soon as a majority has granted; the others' answers are awaited in the
/// background, so that a slow master grants the lock too, or has it taken back if the hold is over by then.
pub(crate) async fn acquire(
    routes: &Routes,
    hold: &Arc<Hold>,
    request: Request,
    deadline: Instant,
) -> Result<AttemptAnswer, NodeError> {
    let (n, majority) = (routes.len(), majority(routes.len()));
    let first_sent_at = Instant::now();
    let node_timeout = hold.client().options.quorum_node_timeout(hold.lease);
    let node_deadline = deadline.min(first_sent_at + node_timeout);
    let nodes: Nodes = routes.iter().map(|route| route.owner(&request)).collect();
    let mut answers = ask_all(routes, request, |route, request| {
        let hold = Arc::clone(hold);
        async move { acquire_at(&route, &hold, &request, node_deadline).await }
    });
    let mut tally = Tally::default();
    let mut heard = vec![false; n];
    while let Some((index, answer)) = answers.next().await {
        heard[index] = true;
        note_silence(nodes[index].as_deref(), &answer);
        tally.count(index, answer);
        if tally.is_doubtful() {
            // What is given back in the background is then given back again and again.
            hold.unsettled.set(true);
        }
        if tally.granted >= majority {
            if !answers.is_empty() {
                late_answers(hold, nodes, answers);
            }
            return Ok(AttemptAnswer::Granted { token: None, sent_at: first_sent_at });
        }
        // Where another has votes, those that are here are not kept from it while masters are waited for
        // that were silent the last time.
        let may_answer = |index: &usize| !heard[*index] && !is_silent(nodes[*index].as_deref());
        let left = match tally.refused.is_empty() {
            true => answers.len(),
            false => (0..n).filter(may_answer).count(),
        };
        if tally.granted + left < majority {
            break;
        }
    }
    // A master that has not answered yet may still grant it.
    tally.taken.extend((0..n).filter(|index| !heard[*index]).map(|index| (index, false)));
    drop(answers);
    if tally.is_doubtful() {
        hold.unsettled.set(true);
    }
    let until = deadline.min(Instant::now() + node_timeout);
    let given_back = give_back(routes, hold, &tally.taken, until).await;
    tally.failed(n, given_back)
}

/// Hears the answers that came after a majority.
fn late_answers(hold: &Arc<Hold>, nodes: Nodes, mut answers: Answers<AttemptAnswer>) {
    let late = Arc::clone(hold);
    hold.client().background.spawn(async move {
        while let Some((index, answer)) = answers.next().await {
            note_silence(nodes[index].as_deref(), &answer);
            let to_give_back = match answer {
                // The release went to this master too, and over the same connection it comes after the
                // acquire. Only if it found nothing it had overtaken the acquire.
                Ok(AttemptAnswer::Granted { .. } | AttemptAnswer::Thin { .. }) => late.granted_late(index),
                Ok(_) => false,
                Err(error) => {
                    if !error.definite {
                        late.unsettled.set(true);
                    }
                    !error.definite
                }
            };
            if to_give_back && late.has_ended() {
                Open::new(&late, ReleaseReason::Undo).add(index);
            }
        }
    });
}

/// Gives back what a failed attempt took or may have taken; what is not acknowledged in time goes on in the
/// background. Answers how many masters had it and have it no more.
///
/// A master that has just answered gets a moment in any case: else the next attempt might overtake what is
/// given back there, and lose that vote to its own predecessor.
async fn give_back(routes: &Routes, hold: &Arc<Hold>, taken: &[(usize, bool)], deadline: Instant) -> usize {
    let request = hold.lock.format.undo(&hold.request());
    let moment = deadline.max(Instant::now() + LAST_LOOK);
    let mut open = Open::new(hold, ReleaseReason::Undo);
    let mut acks: FuturesUnordered<_> = taken
        .iter()
        .map(|&(index, answers)| {
            open.add(index);
            let (route, request) = (&routes[index], &request);
            let how = GiveBack { valid: false, deadline: if answers { moment } else { deadline } };
            async move {
                let given = release_at(route, hold, request, how).await;
                if given.is_ok() {
                    note_silence(route.owner(request).as_deref(), &given);
                }
                (index, given.map(|(given, _)| given))
            }
        })
        .collect();
    let mut given_back = 0;
    while let Some((index, ack)) = acks.next().await {
        if let Ok(given) = ack {
            // Where there is nothing the acquire may still be on its way, unless its record keeps it out.
            if given != ReleaseAnswer::Absent || !hold.unsettled.get() || hold.has_records() {
                open.close(index);
            }
            given_back += usize::from(given != ReleaseAnswer::Absent);
        }
    }
    given_back
}

pub(crate) async fn extend(
    routes: &Routes,
    hold: &Arc<Hold>,
    request: Request,
    deadline: Instant,
) -> Result<ExtendOutcome, NodeError> {
    let (n, majority) = (routes.len(), majority(routes.len()));
    let first_sent_at = Instant::now();
    let mut answers = ask_all(routes, request, |route, request| {
        let hold = Arc::clone(hold);
        async move { extend_at(&route, &hold, &request, deadline).await }
    });
    let (mut held, mut missing, mut thin) = (0, 0, None);
    let mut errors = Vec::new();
    while let Some((_, answer)) = answers.next().await {
        match answer {
            Ok(ExtendOutcome::Held { .. }) => held += 1,
            Ok(ExtendOutcome::Missing) => missing += 1,
            Ok(ExtendOutcome::Thin { acked, demanded }) => thin = Some((acked, demanded)),
            Err(error) => errors.push(error),
        }
        if held >= majority {
            if !answers.is_empty() {
                // The slow ones are extended too; their answers decide nothing.
                hold.client().background.spawn(async move { while answers.next().await.is_some() {} });
            }
            return Ok(ExtendOutcome::Held { sent_at: first_sent_at });
        }
        if missing > n - majority {
            return Ok(ExtendOutcome::Missing);
        }
    }
    if let Some((acked, demanded)) = thin {
        return Ok(ExtendOutcome::Thin { acked, demanded });
    }
    Err(outvoted(&errors, held, n))
}

/// Gives a hold back on all masters; done with a majority, the rest goes on in the background.
pub(crate) async fn release(
    routes: &Routes,
    hold: &Arc<Hold>,
    request: Request,
    how: GiveBack,
) -> Result<ReleaseAnswer, NodeError> {
    let (n, majority) = (routes.len(), majority(routes.len()));
    let mut answers = ask_all(routes, request, |route, request| {
        let hold = Arc::clone(hold);
        async move {
            let given = release_at(&route, &hold, &request, how).await;
            given.map(|(given, _)| given)
        }
    });
    // Where the acquire's answer was lost a release does not keep a late acquire out, its undo does.
    let giving = if hold.unsettled.get() { ReleaseReason::Undo } else { ReleaseReason::Release };
    let mut open = Open::new(hold, giving);
    open.add_all();
    let (mut freed, mut kept, mut absent) = (0, 0, 0);
    let mut errors = Vec::new();
    let client = hold.client();
    let calls = how.valid && !client.turns.has_rivals(&hold.lock);
    let served = calls.then(|| hold.lock.waiters_served()).flatten();
    // Now it is sent. Where no other client waits, this one's next waiter need not hear it from servers.
    let mut first = poll!(answers.next());
    if let Some(served) = served {
        hold.lock.call_waiter(served);
    }
    loop {
        let next = match std::mem::replace(&mut first, Poll::Pending) {
            Poll::Ready(next) => next,
            Poll::Pending => answers.next().await,
        };
        let Some((index, answer)) = next else { break };
        settle(hold, &mut open, index, &answer);
        match answer {
            Ok(ReleaseAnswer::Freed | ReleaseAnswer::Passed { .. }) => freed += 1,
            Ok(ReleaseAnswer::Kept) => kept += 1,
            Ok(ReleaseAnswer::Absent | ReleaseAnswer::Inherited { .. }) => absent += 1,
            Err(error) => errors.push(error),
        }
        // A minority may not have had it from the start; more than that is a lost lock.
        let lost = absent > n - majority;
        if !lost && freed + kept < majority {
            continue;
        }
        if !answers.is_empty() {
            let late = Arc::clone(hold);
            hold.client().background.spawn(async move {
                while let Some((index, answer)) = answers.next().await {
                    settle(&late, &mut open, index, &answer);
                }
            });
        }
        return Ok(match (lost, kept) {
            (true, _) => ReleaseAnswer::Absent,
            (false, 0) => ReleaseAnswer::Freed,
            (false, _) => ReleaseAnswer::Kept,
        });
    }
    // A majority has it no more, although not all of them had it until now.
    if freed + kept + absent >= majority {
        return Ok(if kept > 0 { ReleaseAnswer::Kept } else { ReleaseAnswer::Freed });
    }
    Err(outvoted(&errors, freed + kept, n))
}

/// A master that has answered a release is done with, unless its acquire was still on the way.
fn settle(hold: &Hold, open: &mut Open, index: usize, answer: &Result<ReleaseAnswer, NodeError>) {
    let done = match answer {
        Ok(ReleaseAnswer::Absent) => !hold.was_absent(index) && !hold.unsettled.get(),
        Ok(_) => true,
        Err(_) => false,
    };
    if done {
        open.close(index);
    }
}

/// What a majority says, of a question that every master answers yes or no.
pub(crate) async fn yes_or_no(
    routes: &Routes,
    request: Request,
    deadline: Instant,
) -> Result<bool, NodeError> {
    let (n, majority) = (routes.len(), majority(routes.len()));
    let mut answers =
        ask_all(routes, request, |route, request| async move { yes_at(&route, &request, deadline).await });
    let (mut yes, mut no) = (0, 0);
    let mut errors = Vec::new();
    while let Some((_, answer)) = answers.next().await {
        match answer {
            Ok(true) => yes += 1,
            Ok(false) => no += 1,
            Err(error) => errors.push(error),
        }
    }
    if yes >= majority || no >= majority {
        return Ok(yes >= majority);
    }
    if errors.is_empty() { Ok(false) } else { Err(outvoted(&errors, yes, n)) }
}

/// Whom a majority of masters names. What is left is what that many have at least.
pub(crate) async fn holder(
    routes: &Routes,
    format: &'static dyn LockFormat,
    request: Request,
    deadline: Instant,
) -> Result<Option<Holder>, NodeError> {
    let (n, majority) = (routes.len(), majority(routes.len()));
    let mut answers = ask_all(routes, request, |route, request| async move {
        holders_at(&route, format, &request, deadline).await
    });
    let (mut heard, mut errors) = (0, Vec::new());
    let mut named: BTreeMap<String, Vec<Holder>> = BTreeMap::new();
    while let Some((_, answer)) = answers.next().await {
        match answer {
            Ok(held) => {
                heard += 1;
                for held in held {
                    let of_one = named.entry(held.owner.clone()).or_default();
                    of_one.push(held);
                    if of_one.len() >= majority {
                        of_one.sort_by_key(|held| Reverse(held.lasts()));
                        return Ok(Some(of_one.swap_remove(majority - 1)));
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    // Those that did not answer may have the votes that an owner lacks.
    let most = named.values().map(Vec::len).max().unwrap_or(0);
    match heard >= majority && most + errors.len() < majority {
        true => Ok(None),
        false => Err(outvoted(&errors, heard, n)),
    }
}

fn said(errors: &[NodeError]) -> String {
    let each = errors.iter().map(|error| match error.node.as_deref().unwrap_or("a master") {
        // Most messages begin with it.
        node if error.message.contains(node) => error.message.clone(),
        node => format!("{node}: {}", error.message),
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The error of a question that no majority answered.
fn outvoted(errors: &[NodeError], ayes: usize, n: usize) -> NodeError {
    NodeError {
        node: None,
        definite: ayes == 0 && errors.iter().all(|error| error.definite),
        code: None,
        message: format!("{ayes} of {n} masters did it ({})", said(errors)),
        attempt: errors.iter().map(|error| error.attempt).max().unwrap_or(1),
    }
}
