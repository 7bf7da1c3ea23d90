//! Annotations of a workflow's page, in the commands that a GitHub runner reads from a step's output: an
//! error for each scenario or row that JUnit calls failed, a warning for each that it calls an error, each at
//! its place in a file where one is known, and a notice with the answer.

use std::fmt::Write as _;

use quick_junit::{NonSuccessKind, TestCaseStatus};

use super::junit;
use crate::answer::answer;
use crate::record::run::Run;

/// The commands, one a line, the answer first.
pub(super) fn render(run: &Run) -> String {
    let mut out = format!("::notice title=locklab::{}\n", data(&answer(run)));
    for case in junit::suite(run).test_cases {
        let TestCaseStatus::NonSuccess { kind, message, .. } = &case.status else {
            continue;
        };
        let level = match kind {
            NonSuccessKind::Failure => "error",
            NonSuccessKind::Error => "warning",
        };
        let title = property(&format!("locklab {}", case.name.as_str()));
        let place = ["file", "line"].iter().filter_map(|name| {
            let value = case.extra.get(*name)?;
            Some(format!("{name}={},", property(value.as_str())))
        });
        let place: String = place.collect();
        let message = message.as_ref().map_or("", |message| message.as_str());
        let _ = writeln!(out, "::{level} {place}title={title}::{}", data(message));
    }
    out
}

/// The text of a command, in which a new line would end it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command, which a comma or a colon would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{data, property};

    #[test]
    fn what_would_end_a_command_is_written_by_its_number() {
        assert_eq!(data("100 % lost:\n::error::no"), "100 %25 lost:%0A::error::no");
        assert_eq!(property("a,b::c"), "a%2Cb%3A%3Ac");
    }
}
