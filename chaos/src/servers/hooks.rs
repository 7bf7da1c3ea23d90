//! The commands that a scenario gives for faults: programs with arguments, ready for each node.
//!
//! A hook is how somebody else's server is killed: `kill = "kubectl delete pod {node}"`. It is split like a
//! shell line and run without a shell, so that nothing in it is expanded but the words in braces.

use std::collections::BTreeMap;

use cluster_config::Node;
use cluster_config::input::{nearest, one_of};
use serde::{Deserialize, Serialize};

const WORDS: [&str; 5] = ["node", "address", "host", "port", "role"];

/// The ending of the name under which the undo of a fault stands: `pause` and `pause-heal`.
pub(crate) const HEAL: &str = "-heal";

/// The programs by fault, and by fault with `-heal`.
pub type Hooks = BTreeMap<String, Hook>;

/// A program and its arguments, with words in braces left to fill in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Line")]
pub struct Hook(Vec<String>);

/// A line to be split, or the words of one.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a command in quotes, such as \"kubectl delete pod {node}\"")]
enum Line {
    Whole(String),
    Words(Vec<String>),
}

impl TryFrom<Line> for Hook {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        match line {
            Line::Whole(line) => Hook::parse(&line),
            Line::Words(words) => Hook::of(words),
        }
    }
}

impl Hook {
    /// Splits a line as a shell does.
    ///
    /// # Errors
    /// What is wrong with it, in the words of "allowed is …".
    pub fn parse(line: &str) -> Result<Hook, String> {
        let words = shell_words::split(line)
            .map_err(|_| "a command with every quote closed, such as \"kubectl delete pod {node}\"")?;
        Self::of(words)
    }

    fn of(words: Vec<String>) -> Result<Hook, String> {
        if words.is_empty() {
            return Err("a command, such as \"kubectl delete pod {node}\"".to_owned());
        }
        for word in &words {
            for name in braces(word) {
                if !WORDS.contains(&name) {
                    return Err(format!(
                        "a command in which {} stand in braces{}",
                        one_of(WORDS),
                        nearest(name, WORDS)
                    ));
                }
            }
        }
        Ok(Hook(words))
    }

    pub(crate) fn for_node(&self, node: &Node) -> Vec<String> {
        let values = [
            ("{node}", node.name.clone()),
            ("{address}", node.address.to_string()),
            ("{host}", node.address.ip().to_string()),
            ("{port}", node.address.port().to_string()),
            ("{role}", node.role.name().to_owned()),
        ];
        let fill =
            |word: &String| values.iter().fold(word.clone(), |word, (name, value)| word.replace(name, value));
        self.0.iter().map(fill).collect()
    }
}

/// The names in braces, as in `{node}`; other braces belong to the command, as in JSON.
fn braces(word: &str) -> impl Iterator<Item = &str> {
    word.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let small = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        small.then_some(name)
    })
}
