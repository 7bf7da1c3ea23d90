//! Matches commands against words such as `EVALSHA *orders*`, and against labels that a harness gives to
//! messages by what it knows and the wire does not say.

use std::fmt;
use std::str::FromStr;

use super::frame::MessageWords;

/// Which messages are meant: words of a command, or of the command that a reply answers.
///
/// The first word is the command's name. Each further word must be among those that follow, in the same
/// order, not necessarily side by side: `SET orders PX` means `SET orders t1 NX PX 3000` too. `*` in a word
/// stands for any run of characters. Upper and lower case are the same. Without words every message is meant.
///
/// Only the first 64 words of a command are looked at, and the first 512 bytes of each.
///
/// Messages that answer nothing are matched by their own words: `message redisson_lock__channel*` means a
/// published message on its way to a subscriber, `SET` on a replication link the write that the master passes
/// on.
///
/// A label ([`Labels`]) is wanted besides the words, if one is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    words: Vec<String>,
    label: Label,
}

impl Pattern {
    /// Every message.
    pub fn any() -> Pattern {
        Pattern::default()
    }

    /// Of the messages that it means, those with this label only.
    #[must_use]
    pub fn labelled(self, label: Label) -> Pattern {
        Pattern { label, ..self }
    }

    /// The label that is wanted besides the words.
    pub fn label(&self) -> Label {
        self.label
    }

    /// Whether a message of these words and with this label is meant.
    pub fn matches(&self, words: &MessageWords, label: Label) -> bool {
        if self.label.is_some() && self.label != label {
            return false;
        }
        let mut said = words.iter();
        let mut wanted = self.words.iter();
        match (wanted.next(), said.next()) {
            (None, _) => return true,
            (Some(name), Some(word)) if like(name.as_bytes(), word) => {}
            _ => return false,
        }
        wanted.all(|wanted| said.any(|word| like(wanted.as_bytes(), word)))
    }
}

impl FromStr for Pattern {
    type Err = std::convert::Infallible;

    /// Words apart by blanks; every text is a pattern.
    fn from_str(text: &str) -> Result<Pattern, Self::Err> {
        Ok(Pattern { words: text.split_whitespace().map(str::to_owned).collect(), label: None })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// Whether a word fits a pattern in which `*` stands for anything. On a mismatch only the last star has to
/// take one character more: an earlier one could gain nothing that the last cannot.
fn like(pattern: &[u8], word: &[u8]) -> bool {
    let (mut p, mut w) = (0, 0);
    let mut last_star = None;
    while w < word.len() {
        if pattern.get(p) == Some(&b'*') {
            last_star = Some((p, w));
            p += 1;
        } else if pattern.get(p).is_some_and(|wanted| wanted.eq_ignore_ascii_case(&word[w])) {
            p += 1;
            w += 1;
        } else if let Some((star, taken)) = last_star {
            last_star = Some((star, taken + 1));
            p = star + 1;
            w = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|rest| *rest == b'*')
}

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

/// Gives labels to what clients and servers say to each other
/// ([`LinkTable::label_by`](crate::LinkTable::label_by)).
///
/// It hears every message of a client that was named, once, in the order of its connection and before the
/// message goes on, whether or not a fault is on the link.
pub trait Labels: fmt::Debug + Send + Sync {
    /// The label of a command, and that of the reply which will answer it.
    fn command(&self, passage: MessagePassage<'_>, words: &MessageWords) -> (Label, Label);

    /// The label of a message to a client that answers nothing, such as a published one.
    fn push(&self, passage: MessagePassage<'_>, words: &MessageWords) -> Label;
}
