//! Several libraries on the same locks: each client is one of them in turn, so that one history shows whether
//! they respect each other.

use std::sync::Arc;

use async_trait::async_trait;

use crate::subject::{ConnectTo, Connected, Subject, SubjectError};

/// Between the names of its parts.
pub(super) const AND: &str = " + ";

/// Subjects side by side: client 1 is the first, client 2 the second, and after the last it begins anew.
pub struct Mixed {
    name: String,
    about: String,
    parts: Vec<Arc<dyn Subject>>,
}

impl Mixed {
    /// Refuses parts that have no kind in common.
    pub fn new(parts: Vec<Arc<dyn Subject>>) -> Result<Self, SubjectError> {
        let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
        let mixed = Mixed {
            name: names.join(AND),
            about: format!("{}, client by client in turn", names.join(" and ")),
            parts,
        };
        let known = |part: &Arc<dyn Subject>| !part.kinds().is_empty();
        if mixed.kinds().is_empty() && mixed.parts.iter().any(known) {
            return Err(SubjectError::usage(format!("`{}` have no kind in common", mixed.name)));
        }
        Ok(mixed)
    }
}

/// Which of `parts` a client is, by the number in its name: `c1` is the first.
pub fn turn(client: &str, parts: usize) -> usize {
    let number: usize = client.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(1);
    (number.max(1) - 1) % parts
}

#[async_trait]
impl Subject for Mixed {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn kinds(&self) -> Vec<String> {
        let mut known = self.parts.iter().map(|part| part.kinds()).filter(|kinds| !kinds.is_empty());
        let mut common = known.next().unwrap_or_default();
        for kinds in known {
            common.retain(|kind| kinds.contains(kind));
        }
        common
    }

    fn missing(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.missing())
    }

    fn parts(&self) -> &[Arc<dyn Subject>] {
        &self.parts
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let part = &self.parts[turn(&to.client, self.parts.len())];
        part.connect(to).await
    }
}
