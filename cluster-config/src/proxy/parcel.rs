//! Something on its way through a link, and what the link's faults have decided about it.

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::resp::Marks;
use super::table::{Flow, Treatments};

pub(super) enum Content {
    Bytes(Vec<u8>),
    /// The sender will send no more.
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
        Parcel {
            marks,
            ..Parcel::new(Content::Bytes(bytes))
        }
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
