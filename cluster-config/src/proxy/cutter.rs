//! Cuts what is read from one direction of a connection into parcels, without messages that faults lose.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::resp::{Dialogue, Label, Marks, MessageDirection, Piece, ReplyRole, Splitter};
use super::table::{ConnectionEnds, Direction, Flow, Treatments};

/// A message up to this size is kept together while faults look for messages; a longer one just passes.
const MESSAGE_MOST: usize = 1024 * 1024;

pub(super) struct Cutter {
    ends: Arc<ConnectionEnds>,
    splitter: Splitter,
    /// The beginning of a message whose end has not been read.
    partial_message: Vec<u8>,
    /// Whether a part of the current message has been passed on already.
    is_passing: bool,
    /// Whether a message was lost without which no other may follow.
    is_torn: bool,
}

impl Cutter {
    pub(super) fn new(ends: &Arc<ConnectionEnds>, direction: Direction) -> Cutter {
        let side = match direction {
            Direction::Out => MessageDirection::Commands,
            Direction::Back => MessageDirection::Replies,
        };
        Cutter {
            ends: Arc::clone(ends),
            splitter: Splitter::new(side),
            partial_message: Vec::new(),
            is_passing: false,
            is_torn: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partial_message.is_empty() && !self.is_torn
    }

    pub(super) fn note_messages(&mut self, mut bytes: &[u8], opposite: &mut Flow) {
        let ends = Arc::clone(&self.ends);
        let Some(dialogue) = &ends.dialogue else { return };
        opposite.refresh();
        let dialogue = &mut *dialogue.lock().unwrap();
        while !bytes.is_empty() {
            match self.splitter.next(&mut bytes, dialogue) {
                Piece::Message(first) => {
                    self.is_passing = false;
                    self.note_message(first, dialogue, opposite, self.labels());
                }
                Piece::Part => self.is_passing = true,
                Piece::Raw => {}
            }
        }
    }

    /// Cuts what was read into parcels that have seen the link's faults; nothing follows [`Content::Reset`].
    pub(super) fn cut(&mut self, bytes: &[u8], flow: &Flow, opposite: &mut Flow) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        let ends = Arc::clone(&self.ends);
        let Some(dialogue) = &ends.dialogue else {
            push(&mut parcels, bytes.to_vec(), Marks::new(), flow);
            return parcels;
        };
        opposite.refresh();
        let dialogue = &mut *dialogue.lock().unwrap();
        let reads_messages = flow.reads_messages();
        let mut rest = bytes;
        let mut passing = Vec::new();
        while !rest.is_empty() {
            let before = rest;
            let piece = self.splitter.next(&mut rest, dialogue);
            let taken = &before[..before.len() - rest.len()];
            let first = match piece {
                Piece::Part
                    if (reads_messages || self.is_torn)
                        && !self.is_passing
                        && self.partial_message.len() + taken.len() <= MESSAGE_MOST =>
                {
                    self.partial_message.extend_from_slice(taken);
                    continue;
                }
                Piece::Part | Piece::Raw if self.is_torn => {
                    parcels.push(Parcel::new(Content::Reset));
                    return parcels;
                }
                Piece::Part | Piece::Raw => {
                    self.is_passing = piece == Piece::Part;
                    passing.append(&mut self.partial_message);
                    passing.extend_from_slice(taken);
                    continue;
                }
                Piece::Message(first) => first,
            };
            let whole = !std::mem::take(&mut self.is_passing);
            let labels = self.labels();
            let (marks, takes_a_turn) = self.marks_of_message(first, whole, dialogue, flow, labels.0);
            if self.is_torn && takes_a_turn {
                push(&mut parcels, passing, Marks::new(), flow);
                parcels.push(Parcel::new(Content::Reset));
                return parcels;
            }
            if marks.is_empty() {
                if self.splitter.side == MessageDirection::Commands {
                    self.note_message(first, dialogue, opposite, labels);
                }
                passing.append(&mut self.partial_message);
                passing.extend_from_slice(taken);
                continue;
            }
            push(&mut parcels, std::mem::take(&mut passing), Marks::new(), flow);
            let mut message = std::mem::take(&mut self.partial_message);
            message.extend_from_slice(taken);
            let lost = push(&mut parcels, message, marks, flow);
            self.is_torn |= lost && takes_a_turn;
            if !lost && self.splitter.side == MessageDirection::Commands {
                self.note_message(first, dialogue, opposite, labels);
            }
        }
        push(&mut parcels, passing, Marks::new(), flow);
        parcels
    }

    pub(super) fn take_rest(&mut self, flow: &Flow) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        let partial_message = std::mem::take(&mut self.partial_message);
        if !self.is_torn {
            push(&mut parcels, partial_message, Marks::new(), flow);
        }
        parcels
    }

    /// The faults that mean the message that has just ended, and whether the receiver counts on it.
    fn marks_of_message(
        &self,
        first: u8,
        whole: bool,
        dialogue: &mut Dialogue,
        flow: &Flow,
        label: Label,
    ) -> (Marks, bool) {
        let own = |label: Label| {
            if whole { flow.marks(self.splitter.words(), label) } else { Marks::new() }
        };
        if self.splitter.side == MessageDirection::Commands {
            return (own(label), true);
        }
        match dialogue.reply(first, self.splitter.words()) {
            ReplyRole::Answer(marks) if whole => (flow.in_force(marks), true),
            ReplyRole::Answer(_) | ReplyRole::NotYet => (Marks::new(), true),
            // A replica must not miss a message either.
            ReplyRole::Push => (own(self.push_label()), dialogue.is_replication()),
        }
    }

    /// The labels of the command that just ended and of its reply; a reply has what its command gave it.
    fn labels(&self) -> (Label, Label) {
        match self.splitter.side {
            MessageDirection::Commands => {
                self.ends.label_of(|labels, passage| labels.command(passage, self.splitter.words()))
            }
            MessageDirection::Replies => (None, None),
        }
    }

    fn push_label(&self) -> Label {
        self.ends.label_of(|labels, passage| labels.push(passage, self.splitter.words()))
    }

    fn note_message(&self, first: u8, dialogue: &mut Dialogue, opposite: &Flow, (_, reply): (Label, Label)) {
        let words = self.splitter.words();
        match self.splitter.side {
            MessageDirection::Commands => dialogue.command(words, opposite.marks(words, reply)),
            MessageDirection::Replies if dialogue.reply(first, words) == ReplyRole::Push => {
                self.push_label();
            }
            MessageDirection::Replies => {}
        }
    }
}

/// Adds a parcel unless it is empty or lost; whether it was lost.
fn push(parcels: &mut Vec<Parcel>, bytes: Vec<u8>, marks: Marks, flow: &Flow) -> bool {
    if bytes.is_empty() {
        return false;
    }
    let most = flow.largest_chunk();
    if marks.is_empty() && most < bytes.len() {
        for piece in bytes.chunks(most) {
            treat(parcels, Parcel::new(Content::Bytes(piece.to_vec())), flow);
        }
        return false;
    }
    treat(parcels, Parcel::message(bytes, marks), flow)
}

fn treat(parcels: &mut Vec<Parcel>, mut parcel: Parcel, flow: &Flow) -> bool {
    parcel.treat(flow);
    // Decided once: whether the other side will answer depends on it.
    let lost = flow.verdict(&parcel.treatments).lost;
    if !lost {
        parcels.push(parcel);
    }
    lost
}

pub(super) enum Content {
    Bytes(Vec<u8>),
    End,
    /// The sender's socket is gone, or something was lost without which nothing may follow.
    Reset,
}

pub(super) struct Parcel {
    pub(super) content: Content,
    pub(super) read_at: Instant,
    /// What faults have decided about it. Each decides once, so that looking again does not move it.
    pub(super) treatments: Treatments,
    /// The faults that mean it, if it is a message.
    marks: Marks,
    /// Its part of what may be under way.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl Parcel {
    pub(super) fn new(content: Content) -> Parcel {
        Parcel {
            content,
            read_at: Instant::now(),
            treatments: Treatments::new(),
            marks: Marks::new(),
            room: None,
        }
    }

    /// Bytes that end where a message ends which these faults mean.
    pub(super) fn message(bytes: Vec<u8>, marks: Marks) -> Parcel {
        Parcel { marks, ..Parcel::new(Content::Bytes(bytes)) }
    }

    pub(super) fn treat(&mut self, flow: &Flow) {
        let bytes = match &mut self.content {
            Content::Bytes(bytes) => Some(bytes.as_mut_slice()),
            // Ends are held and delayed as bytes are, but are none.
            Content::End | Content::Reset => None,
        };
        flow.treat(bytes, self.read_at, &self.marks, &mut self.treatments);
    }
}
