//! Finds where RESP2 and RESP3 messages end in a stream of bytes that comes in any pieces.
//!
//! Source of the format: the Redis documentation, "Redis serialization protocol specification". Bodies are
//! skipped by their length, so the cost is per element and not per byte.

/// Words beyond this many are not kept: they tell scripts' arguments apart well enough.
const WORDS_MOST: usize = 64;
/// Of longer words the beginning is kept.
const WORD_LONGEST: usize = 512;
/// The server's own bound for an inline command; a longer line is no Redis.
const LINE_LONGEST: usize = 64 * 1024;
/// Elements of one aggregate; the server's own bound is a million for commands, replies may have more.
const ELEMENTS_MOST: u64 = 1 << 32;
/// As deep as any reply goes, with room; deeper is no Redis.
const DEEPEST: usize = 64;

/// The words of a message: the first 64, and the first 512 bytes of each.
///
/// They lie side by side in one buffer, so that noting them costs no allocation once it has grown.
#[derive(Debug, Clone, Default)]
pub struct MessageWords {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl MessageWords {
    /// Every word, its name first.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    /// The word at this place, from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let start = match index {
            0 => 0,
            _ => *self.ends.get(index - 1)?,
        };
        Some(&self.text[start..*self.ends.get(index)?])
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether the word at this place is this one, in upper or lower case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Adds one at the end.
    pub fn push(&mut self, word: &[u8]) {
        self.begin();
        self.extend(word);
    }

    fn begin(&mut self) {
        self.ends.push(self.text.len());
    }

    /// Goes on with the last word.
    fn extend(&mut self, bytes: &[u8]) {
        let start = match self.ends.len() {
            0 => return,
            1 => 0,
            count => self.ends[count - 2],
        };
        let room = WORD_LONGEST.saturating_sub(self.text.len() - start);
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(end) = self.ends.last_mut() {
            *end = self.text.len();
        }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MessageDirection {
    /// Arrays of bulk strings, or a line of words.
    #[default]
    Commands,
    Replies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameProgress {
    /// All bytes are consumed and the message goes on, or none has begun.
    More,
    /// A message ended; its first byte, and its words in [`Framer::words`].
    Message(u8),
    /// This is not RESP. Nothing more can be said about this stream.
    Garbage,
}

/// Finds the ends of messages in one direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    side: MessageDirection,
    line: Vec<u8>,
    /// Bytes of a bulk still to come, its line end included.
    body: usize,
    /// Whether `body` belongs to a word that is kept.
    keeps_word: bool,
    /// Elements still to come, per level of nesting.
    open: Vec<u64>,
    /// First byte of the message under way.
    first: Option<u8>,
    pub(crate) words: MessageWords,
}

impl Framer {
    pub(crate) fn new(side: MessageDirection) -> Framer {
        Framer { side, ..Framer::default() }
    }

    /// Consumes bytes up to the end of the next message.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> FrameProgress {
        while !bytes.is_empty() {
            if self.body > 0 {
                self.take_body(bytes);
                if self.body == 0 && self.element_ended() {
                    return self.end_message();
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                *bytes = &[];
                if self.line.len() > LINE_LONGEST {
                    return FrameProgress::Garbage;
                }
                return FrameProgress::More;
            };
            let (head, rest) = bytes.split_at(end + 1);
            *bytes = rest;
            let kept;
            let line = if self.line.is_empty() {
                head
            } else {
                self.line.extend_from_slice(head);
                kept = std::mem::take(&mut self.line);
                kept.as_slice()
            };
            match self.take_line(line.trim_ascii_end()) {
                Ok(true) => return self.end_message(),
                Ok(false) => {}
                Err(()) => return FrameProgress::Garbage,
            }
        }
        FrameProgress::More
    }

    fn end_message(&mut self) -> FrameProgress {
        FrameProgress::Message(self.first.take().unwrap_or_default())
    }

    fn take_body(&mut self, bytes: &mut &[u8]) {
        let (body, rest) = bytes.split_at(self.body.min(bytes.len()));
        *bytes = rest;
        if self.keeps_word {
            // The line end, the body's last two bytes, is no part of the word.
            let text = body.len().min(self.body.saturating_sub(2));
            self.words.extend(&body[..text]);
        }
        self.body -= body.len();
    }

    /// Understands one line; whether the message ended with it.
    fn take_line(&mut self, line: &[u8]) -> Result<bool, ()> {
        let top = self.first.is_none();
        let Some((kind, rest)) = line.split_first() else {
            // A client may send empty lines, and a master sends them while it prepares a snapshot.
            return if top { Ok(false) } else { Err(()) };
        };
        if top {
            self.words.clear();
            self.first = Some(*kind);
            if self.side == MessageDirection::Commands && *kind != b'*' {
                if !line.iter().take(16).all(|byte: &u8| byte.is_ascii_graphic() || b" \t".contains(byte)) {
                    return Err(());
                }
                for word in line.split(|byte| byte.is_ascii_whitespace()) {
                    if !word.is_empty() {
                        self.add_word(word);
                    }
                }
                return Ok(true);
            }
        } else if self.side == MessageDirection::Commands && *kind != b'$' {
            return Err(());
        }
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {
                self.add_word(rest);
                Ok(self.element_ended())
            }
            b'$' | b'!' | b'=' => match number(rest)? {
                None => Ok(self.element_ended()),
                Some(length) => {
                    self.body = usize::try_from(length).map_err(|_| ())?.checked_add(2).ok_or(())?;
                    self.keeps_word = self.open.len() <= 1 && self.words.count() < WORDS_MOST;
                    if self.keeps_word {
                        self.words.begin();
                    }
                    Ok(false)
                }
            },
            b'*' | b'~' | b'>' => self.open(number(rest)?.unwrap_or(0)),
            b'%' => self.open(number(rest)?.unwrap_or(0).saturating_mul(2)),
            // An attribute stands before the value that it describes: one element more.
            b'|' => self.open(number(rest)?.unwrap_or(0).saturating_mul(2).saturating_add(1)),
            _ => Err(()),
        }
    }

    fn open(&mut self, elements: u64) -> Result<bool, ()> {
        if elements > ELEMENTS_MOST || self.open.len() >= DEEPEST {
            return Err(());
        }
        if elements == 0 {
            return Ok(self.element_ended());
        }
        self.open.push(elements);
        Ok(false)
    }

    /// Counts an element that has ended, and the aggregates that end with it; whether the whole message did.
    fn element_ended(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }

    fn add_word(&mut self, word: &[u8]) {
        if self.open.len() <= 1 && self.words.count() < WORDS_MOST {
            self.words.push(word);
        }
    }
}

/// A length or count; `None` is the null of RESP2.
fn number(digits: &[u8]) -> Result<Option<u64>, ()> {
    if digits == b"-1" {
        return Ok(None);
    }
    if digits.is_empty() || digits.len() > 12 {
        return Err(());
    }
    digits
        .iter()
        .try_fold(0_u64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
        .map(Some)
        .ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every message's first byte and words, fed in pieces of this size; `None` at the end if it was garbage.
    fn messages(side: MessageDirection, stream: &[u8], piece: usize) -> Vec<Option<(char, Vec<String>)>> {
        let mut framer = Framer::new(side);
        let mut found = Vec::new();
        for mut piece in stream.chunks(piece) {
            loop {
                match framer.next(&mut piece) {
                    FrameProgress::More => break,
                    FrameProgress::Garbage => {
                        found.push(None);
                        return found;
                    }
                    FrameProgress::Message(first) => {
                        let words =
                            framer.words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
                        found.push(Some((char::from(first), words.collect())));
                    }
                }
            }
        }
        found
    }

    fn said(first: char, words: &[&str]) -> Option<(char, Vec<String>)> {
        Some((first, words.iter().map(|word| (*word).to_owned()).collect()))
    }

    #[test]
    fn commands_are_found_however_they_are_cut() {
        let stream = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nPING  now\r\n\r\n*1\r\n$4\r\nQUIT\r\n*0\r\nINCR k\n";
        let expected = vec![
            said('*', &["SET", "k", "a\r\nb"]),
            said('P', &["PING", "now"]),
            said('*', &["QUIT"]),
            said('*', &[]),
            said('I', &["INCR", "k"]),
        ];
        for piece in 1..stream.len() {
            assert_eq!(messages(MessageDirection::Commands, stream, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn replies_of_every_type_are_found_however_they_are_cut() {
        let stream = b"+OK\r\n-ERR no\r\n:5\r\n$-1\r\n$0\r\n\r\n*-1\r\n*2\r\n*2\r\n:1\r\n$1\r\na\r\n+b\r\n%1\r\n+k\r\n:1\r\n~1\r\n_\r\n\
            #t\r\n,1.5\r\n(12345678901234567890\r\n=5\r\ntxt:a\r\n!3\r\nERR\r\n>3\r\n+message\r\n+c\r\n$1\r\nx\r\n|1\r\n+a\r\n:1\r\n:7\r\n*0\r\n";
        let firsts: String = messages(MessageDirection::Replies, stream, 7)
            .into_iter()
            .map(|message| message.map_or('?', |(first, _)| first))
            .collect();
        assert_eq!(firsts, "+-:$$**%~#,(=!>|*");
        let expected = messages(MessageDirection::Replies, stream, stream.len());
        assert_eq!(expected[14], said('>', &["message", "c", "x"]));
        for piece in 1..stream.len() {
            assert_eq!(messages(MessageDirection::Replies, stream, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_redis_is_told_from_it() {
        for stream in
            [&b"\x16\x03\x01\x02\x00\n"[..], b"*1\r\n+PING\r\n", b"*x\r\n", b"*1\r\n$99999999999999\r\n"]
        {
            assert_eq!(messages(MessageDirection::Commands, stream, 64).last(), Some(&None), "{stream:?}");
        }
        assert_eq!(messages(MessageDirection::Replies, b"HTTP/1.1 200\r\n", 64), [None]);
        assert_eq!(messages(MessageDirection::Replies, &b"*1\r\n".repeat(100), 64), [None]);
    }

    #[test]
    fn long_words_and_many_words_are_cut_short() {
        let long = "x".repeat(2 * WORD_LONGEST);
        let stream = format!("*2\r\n$4\r\nEVAL\r\n${}\r\n{long}\r\n", long.len());
        let found = messages(MessageDirection::Commands, stream.as_bytes(), 100);
        assert_eq!(found, [said('*', &["EVAL", &long[..WORD_LONGEST]])]);
        let many = format!("*100\r\n{}", "$1\r\na\r\n".repeat(100));
        let found = messages(MessageDirection::Commands, many.as_bytes(), 100);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].as_ref().unwrap().1.len(), WORDS_MOST);
    }
}
