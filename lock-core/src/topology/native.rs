//! The commands that do a script's work on some servers, and how to find out whether a server has them.
//!
//! The only such work is that of a plain lock's release: delete the key if its value is this one, then notify the waiters. Redis
//! 8.4 and Valkey 9.2 have `DELEX key IFEQ value`, Valkey 9.0 has `DELIFEQ key value`; the message follows as a command of its
//! own in the same write. Between the two another may take the lock, and if the connection ends there no waiter is notified: both are
//! what a message may do anyway, since it is a hint. A repetition after a lost answer notifies the waiters again, which the script
//! does not do for a key that is gone. A server spends little more than half of what the script costs it.
//!
//! `SET key value IFEQ value PX lease` (Redis 8.4, Valkey 8.1) is not used to extend a lease. It does not look at what is left,
//! so an extension that arrives late, or asks for less than an earlier one, would shorten the lease that its holder counts on;
//! and a server without memory refuses it, while it takes PEXPIRE.
use std::sync::atomic::{AtomicU8, Ordering};

use redis::Value;

use super::request::bulk;

/// How a server deletes a key if its value is this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompareAndDelete {
    Delex,
    Delifeq,
}

impl CompareAndDelete {
    pub(super) fn name(self) -> &'static str {
        match self {
            CompareAndDelete::Delex => "DELEX",
            CompareAndDelete::Delifeq => "DELIFEQ",
        }
    }

    /// What stands between key and value.
    pub(super) fn condition(self) -> Option<&'static str> {
        match self {
            CompareAndDelete::Delex => Some("IFEQ"),
            CompareAndDelete::Delifeq => None,
        }
    }

    /// Writes the command for a key and a value that are written as the protocol does.
    pub(super) fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let condition = self.condition();
        out.extend_from_slice(if condition.is_some() {
            b"*4\r\n"
        } else {
            b"*3\r\n"
        });
        bulk(out, self.name().as_bytes());
        out.extend_from_slice(key);
        if let Some(condition) = condition {
            bulk(out, condition.as_bytes());
        }
        out.extend_from_slice(value);
    }
}

const UNKNOWN: u8 = 0;
const ASKED: u8 = 1;
const NONE: u8 = 2;
const DELEX: u8 = 3;
const DELIFEQ: u8 = 4;

/// What a script would answer: 1 and how many listen if there was something to delete; else what was answered.
pub(super) fn answer(replies: &[Value]) -> Value {
    let listeners = replies.iter().skip(1).filter_map(|reply| match reply {
        Value::Int(count) => Some(*count),
        _ => None,
    });
    match replies.first() {
        Some(Value::Int(1)) => Value::Int(1 + listeners.max().unwrap_or(0)),
        Some(first) => first.clone(),
        None => Value::Nil,
    }
}

/// What is known of a server's commands. A new connection may lead to another server.
pub(super) struct Commands(AtomicU8);

impl Commands {
    pub(super) fn new() -> Self {
        Commands(AtomicU8::new(UNKNOWN))
    }

    pub(super) fn compare_and_delete(&self) -> Option<CompareAndDelete> {
        match self.0.load(Ordering::Relaxed) {
            DELEX => Some(CompareAndDelete::Delex),
            DELIFEQ => Some(CompareAndDelete::Delifeq),
            _ => None,
        }
    }

    /// Whether this caller is to ask: the first one while nothing is known.
    pub(super) fn is_to_be_asked(&self) -> bool {
        let known = self.0.load(Ordering::Relaxed);
        known == UNKNOWN
            && (self.0)
                .compare_exchange(UNKNOWN, ASKED, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    pub(super) fn question() -> redis::Cmd {
        redis::cmd("COMMAND")
            .arg("INFO")
            .arg("DELEX")
            .arg("DELIFEQ")
            .take()
    }

    /// Takes the answer in: a description of each command, nothing for one that is not there. A user who may not ask gets an error,
    /// and scripts.
    pub(super) fn learn(&self, answer: &Value) {
        let has = |value: &Value| matches!(value, Value::Array(parts) if !parts.is_empty());
        let known = match answer {
            Value::Array(parts) => match parts.as_slice() {
                [delex, _] if has(delex) => DELEX,
                [_, delifeq] if has(delifeq) => DELIFEQ,
                _ => NONE,
            },
            _ => NONE,
        };
        self.0.store(known, Ordering::Relaxed);
    }

    /// It has the command and does not let this user have it, or takes other arguments: scripts from now on.
    pub(super) fn give_up(&self) {
        self.0.store(NONE, Ordering::Relaxed);
    }

    /// Nothing is known any more.
    pub(super) fn forget(&self) {
        self.0.store(UNKNOWN, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_asks_and_the_better_command_is_kept() {
        let commands = Commands::new();
        let there = || Value::Array(vec![Value::BulkString(b"delex".to_vec())]);
        let learned = |answer: Value| {
            commands.learn(&answer);
            commands.compare_and_delete()
        };
        assert!(commands.is_to_be_asked());
        assert!(!commands.is_to_be_asked());
        let both = Value::Array(vec![there(), there()]);
        assert_eq!(learned(both), Some(CompareAndDelete::Delex));
        let one = Value::Array(vec![Value::Nil, there()]);
        assert_eq!(learned(one), Some(CompareAndDelete::Delifeq));
        // RESP2 has two ways to say nothing.
        let neither = Value::Array(vec![Value::Nil, Value::Array(Vec::new())]);
        assert_eq!(learned(neither), None);
        assert!(!commands.is_to_be_asked());
        commands.forget();
        assert!(commands.is_to_be_asked());
    }
}
