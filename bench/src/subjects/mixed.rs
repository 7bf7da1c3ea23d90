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
    let digits = client.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number: usize = digits.parse().unwrap_or(1);
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
        let lists = self.parts.iter().map(|part| part.kinds());
        let mut known = lists.filter(|kinds| !kinds.is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::find;

    #[test]
    fn clients_take_turns_and_kinds_are_common() {
        let turns = ["c1", "c2", "c3", "c4", "nobody"].map(|client| turn(client, 3));
        assert_eq!(turns, [0, 1, 2, 0, 0]);
        let mixed = find("lock-core:fair + peer:redisson").expect("two");
        assert_eq!(mixed.kinds().first().map(String::as_str), Some("fair"));
        assert_eq!(mixed.parts().len(), 2);
        for wrong in ["lock-core:redlock + lock-core:plain", "lock-core:fair + nobody"] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
