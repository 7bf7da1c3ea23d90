//! The message on the wire at which a fault is due, such as `3rd EVALSHA reply to client 1`.

use std::fmt;

use cluster_config::{Pattern, Topology};
use serde::{Deserialize, Serialize};

use super::target::{self, FaultParty};
use crate::faults::network::message::{pattern, role};

/// A message between a client or a server and a server, as it passes a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnMessage {
    /// Which of them, from 1, counted from the load's beginning.
    pub nth: u64,
    /// Words of the command, or of the command that a reply answers; see [`cluster_config::Pattern`]. Or a
    /// role alone, in small letters, such as `acquire`: what its client is doing for a lock that the message
    /// names.
    pub words: String,
    /// Who sends it; `None`: anybody.
    pub from: Option<FaultParty>,
    /// Who receives it; `None`: anybody.
    pub to: Option<FaultParty>,
}

impl OnMessage {
    /// What such a message says.
    pub fn pattern(&self) -> Pattern {
        role(&self.words).map_or_else(|| pattern(&self.words, None), |role| pattern("", Some(role)))
    }
}

impl fmt::Display for OnMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of `{}`", self.nth, self.words)?;
        if let Some(from) = &self.from {
            write!(f, " from {from}")?;
        }
        if let Some(to) = &self.to {
            write!(f, " to {to}")?;
        }
        Ok(())
    }
}

const FORM: &str = "such as `3rd EVALSHA reply to client 1` or `SET *orders* from client 2`: which (first if it is not said), the words of a \
                    command, or `acquire`, `release`, `extend`, `wait` or `renewal`, `reply` if its reply is meant, and `from` or `to` a node, `master`, `any` of the nodes, `client 1` or `any client`";

pub(super) fn parse(text: &str, topology: Option<&Topology>, clients: u32) -> Result<OnMessage, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let nth = match words.first().and_then(|word| ordinal(word)) {
        Some(0) => return Err(format!("counted from 1, {FORM}")),
        Some(nth) => {
            words.remove(0);
            nth
        }
        None => 1,
    };
    // From the back: a party has one word or two, and the words of a command may be anything.
    let mut from = None;
    let mut to = None;
    while let Some(at) = words.iter().rposition(|word| matches!(*word, "from" | "to")) {
        let name = words[at + 1..].join(" ");
        let side = if words[at] == "from" { &mut from } else { &mut to };
        if side.is_some() || name.is_empty() {
            break;
        }
        *side = Some(party(&name, topology, clients)?);
        words.truncate(at);
    }
    if from.is_none() && to.is_none() {
        return Err(FORM.to_owned());
    }
    if words.last() == Some(&"reply") {
        words.pop();
        // Replies flow from servers: those of a client are what servers send to it.
        if from.as_ref().is_some_and(FaultParty::is_client) {
            return Err(format!("{FORM}; a reply comes from a server: `reply to`, or leave `reply` out"));
        }
    } else if to.as_ref().is_some_and(FaultParty::is_client) {
        return Err(format!("{FORM}; what a client receives is a reply: say `reply to`"));
    }
    if words.is_empty() {
        return Err(FORM.to_owned());
    }
    Ok(OnMessage { nth, words: words.join(" "), from, to })
}

/// `first`, `3rd`, `12th`.
fn ordinal(word: &str) -> Option<u64> {
    const NAMED: [&str; 10] =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
    if let Some(at) = NAMED.iter().position(|named| *named == word) {
        return Some(at as u64 + 1);
    }
    ["st", "nd", "rd", "th"].into_iter().find_map(|end| word.strip_suffix(end)?.parse().ok())
}

fn party(name: &str, topology: Option<&Topology>, clients: u32) -> Result<FaultParty, String> {
    let who = target::who(name, topology, clients).map_err(|why| format!("{FORM}; {why}"))?;
    match who {
        FaultParty::Node(_)
        | FaultParty::Client(_)
        | FaultParty::Master
        | FaultParty::Any
        | FaultParty::AnyClient => Ok(who),
        several => Err(format!("one party, {FORM}; `{several}` may be several")),
    }
}
