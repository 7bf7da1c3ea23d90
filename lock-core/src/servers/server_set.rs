//! Which servers decide over a lock: one set, or a majority of several.

use std::sync::Arc;

use crate::topology::Route;

pub(crate) fn majority(n: usize) -> usize {
    n / 2 + 1
}

#[derive(Clone)]
pub(crate) enum Servers {
    /// One server, sentinel group or cluster.
    One(Arc<Route>),
    /// Independent masters; more than half of them decide.
    Majority(Arc<[Arc<Route>]>),
}

impl Servers {
    pub(crate) fn is_majority(&self) -> bool {
        matches!(self, Servers::Majority(_))
    }

    /// Every server set, for what goes to all of them.
    pub(crate) fn routes(&self) -> &[Arc<Route>] {
        match self {
            Servers::One(route) => std::slice::from_ref(route),
            Servers::Majority(routes) => routes,
        }
    }
}
