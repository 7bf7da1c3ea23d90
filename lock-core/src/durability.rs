//! How many replicas must have a write before it counts.
/// How many replicas must acknowledge an acquire before it counts as acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability { /// The master's word is enough.
    #[default] None, /// At least this many replicas.
    Wait(u32), /// Every replica that the master lists.
    WaitAll }
