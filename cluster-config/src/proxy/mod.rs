//! tmp
use crate::{ClusterError, Party, layout::PlannedNode};
use std::{collections::BTreeMap, time::Duration};
pub(crate) struct Proxies {
    t: LinkTable,
}
impl Proxies {
    pub(crate) fn open(_n: &[PlannedNode]) -> Result<Proxies, ClusterError> {
        Err(ClusterError::new("proxied links are not there yet"))
    }
    pub(crate) fn table(&self) -> &LinkTable {
        &self.t
    }
}
/// The proxies of a deployment: settings per directed link, bytes flowing from one party to another.
#[derive(Debug)]
pub struct LinkTable {}
#[allow(missing_docs)]
impl LinkTable {
    pub(crate) fn set_clients(&self, _p: BTreeMap<u32, u32>) {}
    /// Puts a fault on the bytes that flow `from -> to`, whoever dialled; also on connections opened later. Undone by the guard's `heal` or drop.
    pub fn apply(&self, _from: &Party, _to: &Party, _fault: LinkFault) -> LinkGuard {
        LinkGuard {}
    }
}
/// A harm to one directed link.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LinkFault {
    Delay { latency: Duration, jitter: Duration },
    Cut,
}
/// The undo of a link fault, and what it did so far.
#[derive(Debug)]
pub struct LinkGuard {}
#[allow(missing_docs)]
impl LinkGuard {
    /// Bytes delayed or held so far, and connections affected: the proof that it bit.
    pub fn effect(&self) -> LinkEffect {
        LinkEffect::default()
    }
    pub fn heal(self) -> LinkEffect {
        LinkEffect::default()
    }
}
/// What a link fault did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LinkEffect {
    pub bytes: u64,
    pub chunks: u64,
    pub connections: u64,
}
