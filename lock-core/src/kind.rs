//! The kinds of lock: one registry.
/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind { /// Re-entrant mutex in the wire format of RLock.
    Reentrant, /// Quorum lock over independent masters.
    Redlock }
impl Kind { /// Every kind, in the order of the docs.
    pub const ALL: &'static [Kind] = &[Kind::Reentrant, Kind::Redlock]; /// Its name, as in files and flags.
    pub fn name(self) -> &'static str { match self { Kind::Reentrant => "reentrant", Kind::Redlock => "redlock" } } }
