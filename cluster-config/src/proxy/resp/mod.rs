//! Turns the bytes of a Redis connection into messages, and each reply into the command that it answers.
//!
//! Reading order: [`Pattern`] (which messages are meant), `frame` (where a message ends), `dialogue` (both directions
//! together), `splitter` (a chunk cut where its messages end).

mod dialogue;
mod frame;
mod pattern;
mod splitter;

pub(super) use dialogue::{Dialogue, Marks, Said};
pub(super) use frame::{Side, Words};
pub use pattern::Pattern;
pub(super) use splitter::{Piece, Splitter};
