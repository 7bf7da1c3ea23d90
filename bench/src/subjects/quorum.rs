//! Quorum locks over independent masters that are known to be wrong, each in one thing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;

use super::common::{ByHand, Grants, LockClientParts, only_lock, try_again};
use super::steps::COMPARE_DELETE;
use crate::links::{CommandError, cmd};
use crate::protocol::whole_ms;
use crate::subject::{AcquireEnd, AcquireRequest, LockClient, ReleaseEnd, Subject};

/// A hoarder's pauses: from master to master, and from try to try. Its own first master is free for the few
/// milliseconds between two tries only, so the longer they are, the more rarely anybody else finds it so.
const NEXT_MASTER: Duration = Duration::from_millis(100);
const NEXT_TRY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Recipe {
    name: &'static str,
    about: &'static str,
    /// How many of so many masters are enough.
    enough: fn(usize) -> usize,
    /// So long it waits for a master; longer than the leases of tests where slow replies are to be counted.
    response_timeout: Duration,
    /// Whether a lock that took longer than its lease to get is given back.
    checks_validity: bool,
    /// What the lease is said to count from is the reply's time, not the request's.
    from_reply: bool,
    /// It asks master after master, from different ones on, and keeps what it has until its next try.
    hoards: bool,
    /// A server that has its value already is counted once more: it was asked by another name.
    counts_names: bool,
}

/// The algorithm as it should be; each of the others differs from it in what it names.
const RIGHT: Recipe = Recipe {
    name: "",
    about: "",
    enough: |masters| masters / 2 + 1,
    response_timeout: Duration::from_millis(300),
    checks_validity: true,
    from_reply: false,
    hoards: false,
    counts_names: false,
};

pub(super) static BROKEN: &[Recipe] = rows! { Recipe;
    // With an even number of servers two clients can have half each. It convicts itself without any fault.
    "broken:quorum-half": RIGHT { enough: |masters| masters.div_ceil(2) }
        "a quorum lock that is content with half of the masters; use four of them"
    // No fault is needed: each of two callers at once finds a master that is free.
    "broken:quorum-of-one": RIGHT { enough: |_| 1 }
        "a quorum lock that is content with one master"
    // With slow replies the leases on the servers are over before the majority is known.
    "broken:no-validity": RIGHT { checks_validity: false, from_reply: true, response_timeout: Duration::from_secs(10) }
        "a quorum lock that does not look how long it took to get: its lease may be over when it is granted"
    // Who begin together have a master each, and try again in step. Three masters and three clients will do.
    "broken:quorum-hoards": RIGHT { hoards: true, response_timeout: Duration::from_secs(10) }
        "a quorum lock that asks master after master and keeps what it has until its next try, without jitter"
    // Where two names lead to one server, clients count it twice, but not those with older connections.
    "broken:quorum-counts-names": RIGHT { counts_names: true }
        "a quorum lock that takes a server that has its value already for one more vote: a majority of names, not of servers"
};

pub(super) fn subject(recipe: &'static Recipe) -> Arc<dyn Subject> {
    Arc::new(ByHand {
        name: recipe.name,
        about: recipe.about,
        kinds: &["redlock"],
        response_timeout: recipe.response_timeout,
        resolves_once: false,
        says_durable: false,
        client: Box::new(move |own| {
            Box::new(QuorumClient {
                recipe,
                first: own.name.bytes().map(usize::from).sum(),
                own,
                grants: Grants::default(),
            })
        }),
    })
}

struct QuorumClient {
    recipe: &'static Recipe,
    own: LockClientParts,
    /// The master with which a hoarder begins: names that differ in their number begin at different ones.
    first: usize,
    grants: Grants<(String, String)>,
}

impl QuorumClient {
    fn needed(&self) -> usize {
        (self.recipe.enough)(self.own.links.endpoints().len())
    }

    /// Every master's answer; a hoarder asks one after the other, from its own first on.
    async fn ask_all(&self, set: &redis::Cmd) -> Vec<Result<Option<String>, CommandError>> {
        let endpoints = self.own.links.endpoints();
        if !self.recipe.hoards {
            return join_all(endpoints.iter().map(|at| self.own.links.ask(at, set))).await;
        }
        let mut answers = Vec::with_capacity(endpoints.len());
        for number in 0..endpoints.len() {
            if number > 0 {
                tokio::time::sleep(NEXT_MASTER).await;
            }
            answers.push(self.own.links.ask(&endpoints[(self.first + number) % endpoints.len()], set).await);
        }
        answers
    }

    /// Deletes what is ours everywhere: servers on which it was deleted, and servers that did not answer.
    async fn give(&self, key: &str, value: &str) -> (usize, usize) {
        let (keys, args) = ([key], [value]);
        let answers = self
            .own
            .links
            .endpoints()
            .iter()
            .map(|at| self.own.links.script_at::<i64>(Some(at), &COMPARE_DELETE, &keys, &args));
        let answers = join_all(answers).await;
        let deleted = answers.iter().filter(|a| matches!(a, Ok(1))).count();
        (deleted, answers.iter().filter(|a| a.is_err()).count())
    }
}

#[async_trait]
impl LockClient for QuorumClient {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let key = or_end!(only_lock(&request));
        let called = Instant::now();
        let lease = request.lease.unwrap_or(self.own.lease);
        let px = whole_ms(lease).to_string();
        let number = self.grants.number();
        let value = format!("{}-{number}", self.own.identity);
        loop {
            let sent = Instant::now();
            let mut set = cmd(&["SET", key, &value, "NX", "PX", &px]);
            if self.recipe.counts_names {
                // Answers what was there before: nothing, where it is set.
                set.arg("GET");
            }
            let answers = self.ask_all(&set).await;
            let votes = |answer: &&Result<Option<String>, CommandError>| match answer {
                Ok(before) if self.recipe.counts_names => before.as_ref().is_none_or(|it| *it == value),
                answer => matches!(answer, Ok(Some(_))),
            };
            let taken = answers.iter().filter(votes).count();
            let in_time = !self.recipe.checks_validity || sent.elapsed() < lease;
            if taken >= self.needed() && in_time {
                let grant = self.grants.keep(number, (key.to_owned(), value));
                let sent_at = if self.recipe.from_reply { Instant::now() } else { sent };
                return AcquireEnd::ok(grant, Some(sent_at));
            }
            if self.recipe.hoards {
                tokio::time::sleep(NEXT_TRY).await;
            }
            let (_, silent) = self.give(key, &value).await;
            let pause = if self.recipe.hoards { Duration::ZERO } else { self.own.jitter.pause() };
            if !try_again(called, request.wait, pause).await {
                // What a silent server has runs out with its lease: it may be ours, but no quorum says so.
                return match silent >= self.needed() {
                    true => AcquireEnd::Unknown(format!("{silent} masters did not answer")),
                    false => AcquireEnd::Busy,
                };
            }
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let (key, value) = or_end!(self.grants.take(grant));
        match self.give(&key, &value).await {
            (deleted, _) if deleted >= self.needed() => ReleaseEnd::Ok,
            (_, 0) => ReleaseEnd::NotHeld,
            (_, silent) => ReleaseEnd::Unknown(format!("{silent} masters did not answer")),
        }
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.own.lease)
    }

    async fn commands(&self) -> Option<u64> {
        Some(self.own.links.commands())
    }
}
