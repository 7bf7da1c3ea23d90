//! Labels that a harness gives to messages by what it knows and the wire does not say, so that faults can mean them.

use std::fmt;

use super::resp::Words;

/// A word for a message; `None`: it has no label.
pub type Label = Option<&'static str>;

/// On which connection a message passes.
#[derive(Debug, Clone, Copy)]
pub struct MessagePassage<'a> {
    /// The connection's number, which no other gets.
    pub connection: u64,
    /// The client's number, from 1.
    pub client: u32,
    /// The server's name.
    pub node: &'a str,
}

/// Gives labels to what clients and servers say to each other ([`LinkTable::label_by`](super::LinkTable::label_by)).
///
/// It hears every message of a client that was named, once, in the order of its connection and before the message goes on, whether or
/// not a fault is on the link.
pub trait Labels: fmt::Debug + Send + Sync {
    /// The label of a command, and that of the reply which will answer it.
    fn command(&self, passage: MessagePassage<'_>, words: &Words) -> (Label, Label);

    /// The label of a message to a client that answers nothing, such as a published one.
    fn push(&self, passage: MessagePassage<'_>, words: &Words) -> Label;
}
