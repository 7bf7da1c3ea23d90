//! The messages of a Redis connection, and which command each reply answers.
//!
//! Reading order: [`Pattern`] (which messages are meant), `frame` (where a message ends), `dialogue` (both directions
//! together), `splitter` (a chunk cut where its messages end).

mod dialogue;
mod frame;
mod pattern;
mod splitter;

pub(super) use dialogue::{Dialogue, Marks, ReplyRole};
pub(super) use frame::MessageDirection;
pub use frame::MessageWords;
pub use pattern::{Label, Labels, MessagePassage, Pattern};
pub(super) use splitter::{Piece, Splitter};
