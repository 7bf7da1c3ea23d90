//! The exit codes that scripts rely on; the only list of them.

use bench::subject::SubjectError;
use chaos::run::RunError;
use cluster_config::ClusterError;
use nix::libc::{EACCES, EAGAIN, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS};
use results::merge::MergeError;

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
pub(crate) const DEFECT: u8 = 70;
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// `lock`: the lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// `lock`: the command was found but could not be run, as the shell says it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `lock`: there is no such command, as the shell says it.
pub(crate) const NOT_FOUND: u8 = 127;
pub(crate) const INTERRUPTED: u8 = 130;

/// What came out where nothing can be unknown.
pub(crate) fn of(as_expected: bool) -> u8 {
    if as_expected { AS_EXPECTED } else { NOT_AS_EXPECTED }
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

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
}

fn failure(code: u8, message: impl std::fmt::Display) -> anyhow::Error {
    let message = message.to_string();
    let code = code_of_text(code, &message);
    anyhow::Error::new(Failure { code, message })
}

/// Numbers of the system's errors that say what a machine lacks: threads or processes, memory, open files of
/// all and of one process, the size of a file, space, a disk that can be written to, a share of it.
const LACKING: [i32; 8] = [EAGAIN, ENOMEM, ENFILE, EMFILE, EFBIG, ENOSPC, EROFS, EDQUOT];

/// Whether a message has the system's error of this number, in either form that the standard library has for
/// it, or as a server says it.
fn has_error(message: &str, number: i32) -> bool {
    let by_server = match number {
        EMFILE => message.contains("Your current 'ulimit -n' of"),
        EAGAIN => message.contains("Can't initialize Background Jobs"),
        _ => false,
    };
    by_server
        || message.contains(&format!("(os error {number})"))
        || message.contains(&format!("Os {{ code: {number},"))
}

pub(crate) fn limit_of(message: &str) -> Option<&'static str> {
    let limits = [(EAGAIN, "ulimit -u"), (EMFILE, "ulimit -n"), (EFBIG, "ulimit -f")];
    let reached = limits.into_iter().find(|(number, _)| has_error(message, *number));
    reached.map(|(_, limit)| limit)
}

/// The code of an error whose words those of the system may end: 69 where they say that the machine lacks
/// something, whatever was under way. Errors pass crates as text, and the standard library writes the number
/// into it.
pub(crate) fn code_of_text(code: u8, message: &str) -> u8 {
    if LACKING.into_iter().any(|number| has_error(message, number)) { MISSING } else { code }
}

/// Wrong usage, 64.
pub(crate) fn usage(message: impl std::fmt::Display) -> anyhow::Error {
    failure(USAGE, message)
}

/// A place that was named and cannot be written: wrong usage, 64, but 69 where only the right to write there
/// is missing.
pub(crate) fn unwritable(message: impl std::fmt::Display) -> anyhow::Error {
    let message = message.to_string();
    let code = if has_error(&message, EACCES) { MISSING } else { USAGE };
    failure(code, message)
}

/// A bad input file, 65.
pub(crate) fn input(message: impl std::fmt::Display) -> anyhow::Error {
    failure(INPUT, message)
}

pub(crate) fn missing(message: impl std::fmt::Display) -> anyhow::Error {
    failure(MISSING, message)
}

pub(crate) fn interrupted(message: impl std::fmt::Display) -> anyhow::Error {
    failure(INTERRUPTED, message)
}

/// The exit code of an error: its own, 69 for what the machine lacks, else 70.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    if let Some(error) = error.downcast_ref::<RunError>() {
        return of_run(error);
    }
    match error.downcast_ref::<SubjectError>() {
        Some(SubjectError::Unreachable(_)) => return MISSING,
        Some(error) => return code_of_text(USAGE, &error.to_string()),
        None => {}
    }
    match error.downcast_ref::<MergeError>() {
        Some(MergeError::Usage(_)) => return USAGE,
        Some(error) => return code_of_text(INPUT, &error.to_string()),
        None => {}
    }
    #[cfg(feature = "kube")]
    match error.downcast_ref::<kubernetes::cluster::ClusterError>() {
        Some(kubernetes::cluster::ClusterError::Missing(_)) => return MISSING,
        Some(error) => return code_of_text(INPUT, &error.to_string()),
        None => {}
    }
    match error.downcast_ref::<ClusterError>() {
        Some(ClusterError::Missing(_)) => MISSING,
        _ => code_of_text(DEFECT, &format!("{error:#}")),
    }
}

/// The exit code of a scenario's run that came to nothing.
pub(crate) fn of_run(error: &RunError) -> u8 {
    match error {
        RunError::Missing(_) => MISSING,
        RunError::Usage(why) => code_of_text(USAGE, why),
        RunError::Input(why) | RunError::NotApplicable(why) => code_of_text(INPUT, why),
        RunError::Other(why) => code_of_text(DEFECT, why),
    }
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
        let refused = std::io::Error::from_raw_os_error(nix::libc::EACCES);
        assert_eq!(code_of(&unwritable(&refused)), MISSING);
        let nowhere = std::io::Error::from_raw_os_error(nix::libc::ENOTDIR);
        assert_eq!(code_of(&unwritable(&nowhere)), USAGE);
        let full = std::io::Error::from_raw_os_error(nix::libc::ENOSPC);
        assert_eq!(code_of(&input(&full)), MISSING);
        assert_eq!(code_of(&anyhow::Error::new(full).context("x")), MISSING);
    }
}
