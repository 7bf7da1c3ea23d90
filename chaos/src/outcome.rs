//! Compares verdicts with expectations: as expected, not as expected, or unknown.

use results::run::ScenarioResult;
use results::verdict::State;

/// Everything came out as expected, or nothing was expected and something is known.
pub const AS_EXPECTED: u8 = 0;
/// Something came out differently: a violation where clean was expected, or a broken lock that was not
/// convicted.
pub const NOT_AS_EXPECTED: u8 = 1;
/// Too little is known to say; never counted as a pass.
pub const UNKNOWN: u8 = 2;

/// The exit code of a result against what was expected of it. A proven difference counts more than an
/// unknown; where nothing is expected, one verdict that is known is enough.
pub fn judge(result: &ScenarioResult) -> u8 {
    let mut verdicts = result.verdicts.iter();
    if result.expected.is_empty() && verdicts.all(|(_, verdict)| verdict.state == State::Unknown) {
        return UNKNOWN;
    }
    worst(result, true)
}

/// The exit code of somebody's own lock: 1 where it was lost, whatever its file expects. That a file expects
/// a violation says what another lock does there: this one may keep it.
pub fn judge_lock(result: &ScenarioResult) -> u8 {
    match result.is_lost() {
        true => NOT_AS_EXPECTED,
        false if result.expected.is_empty() => judge(result),
        false => worst(result, false),
    }
}

/// The worst of what was expected; whether a violation that did not come counts.
fn worst(result: &ScenarioResult, violations_too: bool) -> u8 {
    let expected = result.expected.iter();
    expected
        .map(|(class, expected)| match result.meets(class, expected) {
            Some(true) => AS_EXPECTED,
            Some(false) if !violations_too && expected == "violated" => AS_EXPECTED,
            Some(false) => NOT_AS_EXPECTED,
            None => UNKNOWN,
        })
        .min_by_key(|code| match *code {
            NOT_AS_EXPECTED => 0,
            UNKNOWN => 1,
            _ => 2,
        })
        .unwrap_or(AS_EXPECTED)
}
