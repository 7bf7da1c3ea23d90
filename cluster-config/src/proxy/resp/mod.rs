//! The messages of a Redis connection, and which command each reply answers.
//!
//! | file | what it is for |
//! |---|---|
//! | `pattern.rs` | which messages are meant |
//! | `frame.rs` | where a message ends |
//! | `dialogue.rs` | both directions together: which command a reply answers |
//! | `splitter.rs` | a chunk cut where its messages end |

mod dialogue;
mod frame;
mod pattern;
mod splitter;

pub(super) use dialogue::{Dialogue, Marks, ReplyRole};
pub(super) use frame::MessageDirection;
pub use frame::MessageWords;
pub use pattern::{Label, Labels, MessagePassage, Pattern};
pub(super) use splitter::{Piece, Splitter};
