//! Splits the chunks of one direction into pieces that end where messages end.

use super::dialogue::{Dialogue, Stage};
use super::frame::{FrameProgress, Framer, MessageDirection, MessageWords};

/// The mark that a master sends before and after a snapshot whose length it does not know yet.
const MARK_SIZE: usize = 40;

/// What the bytes that were just taken from a chunk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// They end a message; its first byte.
    Message(u8),
    /// All that is left of the chunk: a message goes on after it.
    Part,
    /// Something without messages: a snapshot, or no Redis at all.
    Raw,
}

#[derive(Debug)]
pub(crate) struct Splitter {
    framer: Framer,
    pub(crate) side: MessageDirection,
    snapshot: Option<Snapshot>,
}

#[derive(Debug)]
enum Snapshot {
    Header(Vec<u8>),
    Counted(u64),
    /// Until this mark, and the last bytes seen, in which it may have begun.
    Until(Vec<u8>, Vec<u8>),
}

impl Splitter {
    pub(crate) fn new(side: MessageDirection) -> Splitter {
        Splitter { framer: Framer::new(side), side, snapshot: None }
    }

    pub(crate) fn words(&self) -> &MessageWords {
        &self.framer.words
    }

    pub(crate) fn next(&mut self, bytes: &mut &[u8], dialogue: &mut Dialogue) -> Piece {
        if dialogue.is_lost {
            *bytes = &[];
            return Piece::Raw;
        }
        if self.side == MessageDirection::Replies && dialogue.stage == Stage::Snapshot {
            return self.pass_snapshot(bytes, dialogue);
        }
        match self.framer.next(bytes) {
            FrameProgress::More => Piece::Part,
            FrameProgress::Message(first) => Piece::Message(first),
            FrameProgress::Garbage => {
                dialogue.is_lost = true;
                *bytes = &[];
                Piece::Raw
            }
        }
    }

    fn pass_snapshot(&mut self, bytes: &mut &[u8], dialogue: &mut Dialogue) -> Piece {
        let snapshot = self.snapshot.get_or_insert(Snapshot::Header(Vec::new()));
        while !bytes.is_empty() {
            let ended = match snapshot {
                Snapshot::Header(line) => {
                    let (byte, rest) = (bytes[0], &bytes[1..]);
                    *bytes = rest;
                    line.push(byte);
                    if byte == b'\n' {
                        match header(line.trim_ascii()) {
                            Some(Snapshot::Header(empty)) => *line = empty,
                            Some(known) => *snapshot = known,
                            None => {
                                dialogue.is_lost = true;
                                *bytes = &[];
                                return Piece::Raw;
                            }
                        }
                    }
                    matches!(snapshot, Snapshot::Counted(0))
                }
                Snapshot::Counted(left) => {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *bytes = &bytes[taken..];
                    *left -= taken as u64;
                    *left == 0
                }
                Snapshot::Until(mark, seen) => {
                    let before = seen.len();
                    seen.extend_from_slice(bytes);
                    match seen.windows(MARK_SIZE).position(|window| window == mark.as_slice()) {
                        Some(at) => {
                            *bytes = &bytes[at + MARK_SIZE - before..];
                            true
                        }
                        None => {
                            *bytes = &[];
                            seen.drain(..seen.len().saturating_sub(MARK_SIZE - 1));
                            false
                        }
                    }
                }
            };
            if ended {
                self.snapshot = None;
                self.framer = Framer::new(MessageDirection::Commands);
                dialogue.stage = Stage::Writes;
                break;
            }
        }
        Piece::Raw
    }
}

/// What follows a line before a snapshot, which may be empty; `None` if it is none.
fn header(line: &[u8]) -> Option<Snapshot> {
    if line.is_empty() {
        return Some(Snapshot::Header(Vec::new()));
    }
    let length = line.strip_prefix(b"$")?;
    if let Some(mark) = length.strip_prefix(b"EOF:") {
        return (mark.len() == MARK_SIZE).then(|| Snapshot::Until(mark.to_vec(), Vec::new()));
    }
    Some(Snapshot::Counted(std::str::from_utf8(length).ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the write after the snapshot is found, whatever the size of the pieces.
    fn finds_the_write(snapshot: &[u8]) {
        let stream = [snapshot, b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n"].concat();
        for size in 1..=stream.len() {
            let mut dialogue = Dialogue::default();
            dialogue.stage = Stage::Snapshot;
            let mut splitter = Splitter::new(MessageDirection::Replies);
            let mut found = Vec::new();
            for mut piece in stream.chunks(size) {
                while !piece.is_empty() {
                    if let Piece::Message(_) = splitter.next(&mut piece, &mut dialogue) {
                        found.push(splitter.words().get(0).map(<[u8]>::to_vec));
                    }
                }
            }
            assert_eq!(found, [Some(b"INCR".to_vec())], "pieces of {size}");
        }
    }

    #[test]
    fn a_snapshot_of_known_length_is_passed_over() {
        finds_the_write(b"\n\n$12\r\nREDIS*1\r\n$4x");
        finds_the_write(b"$0\r\n");
    }

    #[test]
    fn a_snapshot_until_a_mark_is_passed_over() {
        let mark = "0123456789abcdef0123456789abcdef01234567";
        let body = format!("$EOF:{mark}\r\nREDIS{}*1\r\n{mark}", &mark[..20]);
        finds_the_write(body.as_bytes());
    }
}
