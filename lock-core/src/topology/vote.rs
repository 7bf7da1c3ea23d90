//! Which of several masters a connection leads to, and that each server has one vote.
use std::sync::Arc;

use super::dial_error::DialError;
use crate::sync::Mutex;

/// One of several masters, in the URL's order, with the servers of its connections, by their `run_id`.
///
/// A server that answers under two names has one vote. Names are changed by people: where two of a majority's
/// masters are one server for one client and two for another, both clients find a majority at the same time.
#[derive(Debug, Clone)]
pub(crate) struct Voter {
    all: Arc<Mutex<Vec<Vec<String>>>>,
    own: usize,
}

/// A connection leads to this server; while it lives, those of no other master may.
#[derive(Debug)]
pub(crate) struct Vote {
    voter: Voter,
    run_id: String,
}

impl Voter {
    pub(crate) fn all(count: usize) -> impl Iterator<Item = Self> {
        let all = Arc::new(Mutex::new(vec![Vec::new(); count]));
        (0..count).map(move |own| Voter { all: all.clone(), own })
    }

    /// Says which server a new connection leads to; an error if another master is that one already.
    pub(super) fn is(&self, run_id: &str) -> Result<Vote, DialError> {
        let mut all = self.all.lock();
        let same = |servers: &Vec<String>| servers.iter().any(|server| server == run_id);
        if let Some(other) = all.iter().position(same).filter(|at| *at != self.own) {
            return Err(DialError::new(format!(
                "it is the same server as master {} of the target, and has one vote",
                other + 1
            )));
        }
        all[self.own].push(run_id.to_owned());
        Ok(Vote { voter: self.clone(), run_id: run_id.to_owned() })
    }
}

impl Drop for Vote {
    fn drop(&mut self) {
        let servers = &mut self.voter.all.lock()[self.voter.own];
        if let Some(at) = servers.iter().position(|server| *server == self.run_id) {
            servers.swap_remove(at);
        }
    }
}
