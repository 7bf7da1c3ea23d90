//! The exit codes that scripts rely on; the only list of them.

/// Everything came out as expected.
pub(crate) const AS_EXPECTED: u8 = 0;
/// A violation where clean was expected, a control not convicted, a gate not passed.
pub(crate) const NOT_AS_EXPECTED: u8 = 1;
/// Too little happened, a fault did not take effect, the history is incomplete.
pub(crate) const UNKNOWN: u8 = 2;
/// Wrong usage: a bad URL, flag or duration.
pub(crate) const USAGE: u8 = 64;
/// A bad input file: a scenario, a history, a run.
pub(crate) const INPUT: u8 = 65;
/// A server, a package or an engine is missing.
pub(crate) const MISSING: u8 = 69;
/// A defect of ours.
pub(crate) const DEFECT: u8 = 70;
/// `lock`: not acquired in time.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// `lock`: the lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// `lock`: the command was found but could not be run, as the shell says it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `lock`: there is no such command, as the shell says it.
pub(crate) const NOT_FOUND: u8 = 127;
/// Interrupted by the user.
pub(crate) const INTERRUPTED: u8 = 130;

/// What came out where nothing can be unknown.
pub(crate) fn of(as_expected: bool) -> u8 {
    match as_expected {
        true => AS_EXPECTED,
        false => NOT_AS_EXPECTED,
    }
}

/// The worse of two outcomes: 1 before 2 before 0; anything higher is the tool's own and comes first.
pub(crate) fn worse(a: u8, b: u8) -> u8 {
    let rank = |code: u8| match code {
        AS_EXPECTED => 0,
        UNKNOWN => 1,
        NOT_AS_EXPECTED => 2,
        other => other,
    };
    if rank(a) >= rank(b) { a } else { b }
}

/// An error with the exit code that belongs to it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// The process's exit code.
    pub(crate) code: u8,
    message: String,
}

fn failure(code: u8, message: impl std::fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Failure {
        code,
        message: message.to_string(),
    })
}

/// Wrong usage, 64.
pub(crate) fn usage(message: impl std::fmt::Display) -> anyhow::Error {
    failure(USAGE, message)
}

/// A bad input file, 65.
pub(crate) fn input(message: impl std::fmt::Display) -> anyhow::Error {
    failure(INPUT, message)
}

/// Something is missing or does not answer, 69.
pub(crate) fn missing(message: impl std::fmt::Display) -> anyhow::Error {
    failure(MISSING, message)
}

/// Interrupted, 130.
pub(crate) fn interrupted(message: impl std::fmt::Display) -> anyhow::Error {
    failure(INTERRUPTED, message)
}

/// The exit code of an error: its own, or 70.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    error
        .downcast_ref::<Failure>()
        .map_or(DEFECT, |failure| failure.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_worse_than_unknown_and_both_than_expected() {
        assert_eq!(worse(AS_EXPECTED, UNKNOWN), UNKNOWN);
        assert_eq!(worse(UNKNOWN, NOT_AS_EXPECTED), NOT_AS_EXPECTED);
        assert_eq!(worse(NOT_AS_EXPECTED, UNKNOWN), NOT_AS_EXPECTED);
        assert_eq!(worse(AS_EXPECTED, AS_EXPECTED), AS_EXPECTED);
    }

    #[test]
    fn an_error_without_a_code_is_a_defect() {
        assert_eq!(code_of(&anyhow::anyhow!("?")), DEFECT);
        assert_eq!(code_of(&usage("?")), USAGE);
    }
}
