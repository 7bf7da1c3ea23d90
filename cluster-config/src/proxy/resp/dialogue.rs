//! Tells which command each reply on a connection answers.
//!
//! Redis answers in order, with exceptions, which are what this file is about: subscribing is answered once
//! per channel, published messages answer nothing, in a transaction the answer comes with EXEC, a client may
//! ask for silence, and a replica's connection turns into a stream of writes.

use std::collections::{BTreeSet, VecDeque};

use super::frame::MessageWords;

pub(crate) type Marks = Vec<u64>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplyRole {
    Answer(Marks),
    /// A command was queued in a transaction, or this is one of several answers still to come.
    NotYet,
    /// It answers nothing.
    Push,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Replies,
    /// A snapshot, then the master's writes.
    Snapshot,
    Writes,
}

#[derive(Debug)]
struct PendingCommand {
    kind: CommandKind,
    marks: Marks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    Plain,
    Hello3,
    Reset,
    Multi,
    Exec,
    Discard,
    /// Confirmations still to come; `None` for "unsubscribe from all", which is as many as there are.
    Subscribe(Option<u64>),
    Psync,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Silence {
    #[default]
    No,
    ForTheNext,
    Always,
}

/// Both directions of one connection, as far as they depend on each other.
#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    pending: VecDeque<PendingCommand>,
    silence: Silence,
    queued: Option<Marks>,
    /// What is subscribed to: kind (`s`, `p` or nothing) and channel.
    subscribed: BTreeSet<(Vec<u8>, Vec<u8>)>,
    resp3: bool,
    /// The client has asked to be a replica: what it says from then on is not answered.
    is_replica: bool,
    pub(crate) stage: Stage,
    /// One side was not understood, so nothing can be said about the other either.
    pub(crate) is_lost: bool,
}

impl Dialogue {
    /// Takes note of a command that the server will see. `marks` come back with its answer.
    pub(crate) fn command(&mut self, words: &MessageWords, marks: Marks) {
        let Some(name) = words.get(0) else {
            // The server passes over empty commands.
            return;
        };
        if self.is_replica {
            return;
        }
        let kind = if is_subscription(name) {
            let channels = words.count() as u64 - 1;
            CommandKind::Subscribe((channels > 0).then_some(channels))
        } else if words.is(0, "CLIENT") && words.is(1, "REPLY") {
            if words.is(2, "OFF") {
                self.silence = Silence::Always;
                return;
            }
            if words.is(2, "SKIP") {
                if self.silence == Silence::No {
                    self.silence = Silence::ForTheNext;
                }
                return;
            }
            self.silence = Silence::No;
            CommandKind::Plain
        } else if words.is(0, "MULTI") {
            CommandKind::Multi
        } else if words.is(0, "EXEC") {
            CommandKind::Exec
        } else if words.is(0, "DISCARD") {
            CommandKind::Discard
        } else if words.is(0, "HELLO") && words.is(1, "3") {
            CommandKind::Hello3
        } else if words.is(0, "RESET") {
            self.silence = Silence::No;
            CommandKind::Reset
        } else if words.is(0, "PSYNC") {
            self.is_replica = true;
            CommandKind::Psync
        } else if words.is(0, "SYNC") {
            // The old form sends a snapshot as its reply.
            self.is_lost = true;
            return;
        } else {
            CommandKind::Plain
        };
        match self.silence {
            Silence::No => self.pending.push_back(PendingCommand { kind, marks }),
            Silence::ForTheNext => self.silence = Silence::No,
            Silence::Always => {}
        }
    }

    /// Whether the server sends a replica what it has written, in which nothing may be missing.
    pub(crate) fn is_replication(&self) -> bool {
        self.stage != Stage::Replies
    }

    /// Says what a message of the server is, by its first byte and its words.
    pub(crate) fn reply(&mut self, first: u8, words: &MessageWords) -> ReplyRole {
        if self.stage == Stage::Writes {
            return ReplyRole::Push;
        }
        let name = words.get(0).unwrap_or_default();
        let array = first == b'*' || first == b'>';
        if array && is_subscription(name) {
            return self.confirmation(words);
        }
        let published = !self.resp3 && !self.subscribed.is_empty() && is_published(name);
        if first == b'>' || (first == b'*' && published) {
            return ReplyRole::Push;
        }
        let Some(answered) = self.pending.pop_front() else {
            // A line of MONITOR, or an error before the server closes.
            return ReplyRole::Push;
        };
        let error = first == b'-';
        if first == b'+'
            && words.is(0, "QUEUED")
            && let Some(queued) = &mut self.queued
        {
            queued.extend(answered.marks);
            return ReplyRole::NotYet;
        }
        let mut marks = answered.marks;
        match answered.kind {
            CommandKind::Plain | CommandKind::Subscribe(_) => {}
            CommandKind::Hello3 => self.resp3 |= !error,
            CommandKind::Reset => {
                self.resp3 = false;
                self.subscribed.clear();
                self.queued = None;
            }
            CommandKind::Multi if error => {}
            CommandKind::Multi => self.queued = Some(Marks::new()),
            CommandKind::Exec => {
                marks.extend(self.queued.take().unwrap_or_default());
                marks.sort_unstable();
                marks.dedup();
            }
            CommandKind::Discard => self.queued = None,
            CommandKind::Psync => {
                // `+FULLRESYNC id offset` is one word for the framer, as a simple string is.
                let full = name.starts_with(b"FULLRESYNC");
                match () {
                    () if error => self.is_replica = false,
                    () if full => self.stage = Stage::Snapshot,
                    () => self.stage = Stage::Writes,
                }
            }
        }
        ReplyRole::Answer(marks)
    }

    fn confirmation(&mut self, words: &MessageWords) -> ReplyRole {
        let (verb, channel) = (words.get(0).unwrap_or_default(), words.get(1));
        let verb = verb.to_ascii_lowercase();
        let (family, leaves) = match verb.strip_suffix(b"unsubscribe") {
            Some(family) => (family.to_vec(), true),
            None => (verb[..verb.len() - b"subscribe".len()].to_vec(), false),
        };
        let had = self.subscribed.iter().filter(|(of, _)| *of == family).count() as u64;
        let entry = (family, channel.unwrap_or_default().to_vec());
        if leaves {
            self.subscribed.remove(&entry);
        } else {
            self.subscribed.insert(entry);
        }
        let Some(PendingCommand { kind: CommandKind::Subscribe(left), .. }) = self.pending.front_mut() else {
            // A server that gives a slot away ends its subscriptions unasked.
            return ReplyRole::Push;
        };
        let still = left.unwrap_or(had.max(1)) - 1;
        *left = Some(still);
        if still > 0 {
            return ReplyRole::NotYet;
        }
        let marks = self.pending.pop_front().map(|answered| answered.marks);
        ReplyRole::Answer(marks.unwrap_or_default())
    }
}

/// The commands that are answered once per channel, and the first word of each of those answers.
fn is_subscription(name: &[u8]) -> bool {
    const NAMES: [&str; 6] =
        ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"];
    // Most words are shorter, and then nothing needs comparing.
    name.len() >= 9 && NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

fn is_published(name: &[u8]) -> bool {
    name == b"message" || name == b"pmessage" || name == b"smessage"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> MessageWords {
        let mut words = MessageWords::default();
        for word in text.split_whitespace() {
            words.push(word.as_bytes());
        }
        words
    }

    /// Sends commands, each marked by its place from 1, and says what each reply is: the marks that it
    /// answers, `.` for one of several answers to come, `>` for what answers nothing.
    fn said(commands: &[&str], replies: &[&str]) -> (String, Dialogue) {
        let mut dialogue = Dialogue::default();
        for (mark, command) in (1..).zip(commands) {
            dialogue.command(&words(command), vec![mark]);
        }
        let said = replies.iter().map(|reply| {
            let (first, reply) = reply.split_at(1);
            match dialogue.reply(first.as_bytes()[0], &words(reply)) {
                ReplyRole::Answer(marks) => format!("{marks:?}"),
                ReplyRole::NotYet => ".".to_owned(),
                ReplyRole::Push => ">".to_owned(),
            }
        });
        (said.collect::<Vec<_>>().join(" "), dialogue)
    }

    #[test]
    fn each_reply_leads_to_its_command() {
        let cases: [(&[&str], &[&str], &str); 5] = [
            // In order, and pushes answer nothing.
            (&["PING", "GET k", ""], &["+PONG", ">invalidate k", "$v", "-ERR bye"], "[1] > [2] >"),
            // Once per channel, and messages come between.
            (
                &["SUBSCRIBE a b", "PSUBSCRIBE x*", "PING", "UNSUBSCRIBE", "PING"],
                &[
                    "*subscribe a 1",
                    "*message a hello",
                    "*subscribe b 2",
                    "*psubscribe x* 3",
                    "*pmessage x* xy hello",
                    "*pong",
                    "*unsubscribe a 2",
                    "*unsubscribe b 1",
                    "*pong",
                ],
                ". > [1] [2] > [3] . [4] [5]",
            ),
            // In the new protocol an array is an answer, whatever it holds.
            (
                &["HELLO 3", "SUBSCRIBE a", "LRANGE l 0 -1"],
                &["%server redis", ">subscribe a 1", ">message a x", "*message a x"],
                "[1] [2] > [3]",
            ),
            // A transaction answers its commands when it runs.
            (
                &["MULTI", "EVALSHA a", "BAD", "EXEC", "GET k"],
                &["+OK", "+QUEUED", "-ERR", "*1", "+QUEUED"],
                "[1] . [3] [2, 4] [5]",
            ),
            // Silence that was asked for is not waited out.
            (
                &[
                    "CLIENT REPLY SKIP",
                    "GET a",
                    "GET b",
                    "CLIENT REPLY OFF",
                    "GET c",
                    "CLIENT REPLY ON",
                    "GET d",
                ],
                &["$b", "+OK", "$d"],
                "[3] [6] [7]",
            ),
        ];
        for (commands, replies, expected) in cases {
            assert_eq!(said(commands, replies).0, expected, "{commands:?}");
        }
    }

    #[test]
    fn a_replica_is_sent_writes_and_not_answers() {
        let commands = ["PING", "PSYNC ? -1", "REPLCONF ACK 0"];
        let (said, mut dialogue) = said(&commands, &["+PONG", "+FULLRESYNC"]);
        assert_eq!((&*said, dialogue.stage), ("[1] [2]", Stage::Snapshot));
        dialogue.stage = Stage::Writes;
        assert_eq!(dialogue.reply(b'*', &words("SET k v")), ReplyRole::Push);
    }
}
