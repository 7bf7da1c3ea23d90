//! Reads what Linux says about a process: its state, when it started, its environment.

use std::fs;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks between boot and its start.
    pub start_tick: u64,
}

impl ProcessId {
    /// The process with this number now, if any.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let stat = Stat::read(pid)?;
        Some(ProcessId {
            pid,
            start_tick: stat.start_tick,
        })
    }

    /// This process.
    pub fn own() -> Option<ProcessId> {
        ProcessId::of(std::process::id())
    }

    /// Whether that very process still runs. One that is dead and not yet reaped does not.
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid)
            .is_some_and(|stat| stat.start_tick == self.start_tick && !stat.is_dead())
    }

    /// Whether it was started with `name=value` in its environment.
    pub fn has_variable(self, name: &str, value: &str) -> bool {
        let wanted = format!("{name}={value}");
        fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|environ| {
            environ
                .split(|byte| *byte == 0)
                .any(|entry| entry == wanted.as_bytes())
        })
    }
}

/// What `/proc/<pid>/stat` says, as far as it is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_tick: u64,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> Option<Stat> {
        parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses and may itself hold blanks and parentheses.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // State is field 3 and the parent field 4; 17 more lie between it and field 22.
    let start_tick = fields.nth(17)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        start_tick,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (odd ) name) S 7 3 3 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 987654 1000 10";
        let stat = parse_stat(text).unwrap();
        assert_eq!(
            (stat.state, stat.parent, stat.start_tick),
            ('S', 7, 987_654)
        );
    }

    #[test]
    fn this_process_is_alive_and_an_earlier_one_of_its_number_is_not() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive());
        let earlier = ProcessId {
            start_tick: own.start_tick - 1,
            ..own
        };
        assert!(!earlier.is_alive());
    }
}
