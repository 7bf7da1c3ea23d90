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

#[cfg(test)]
mod tests {
    use super::*;
    use results::run::FaultSpan;
    use results::verdict::{Verdict, Verdicts};

    fn verdicts(belief: State, contract: State) -> Verdicts {
        let verdict = |state| Verdict { state, ..Verdict::default() };
        Verdicts { belief: verdict(belief), contract: verdict(contract), ..Verdicts::default() }
    }

    fn result(verdicts: &Verdicts, expected: &[(&str, &str)]) -> ScenarioResult {
        let expected = expected.iter();
        ScenarioResult {
            verdicts: verdicts.clone(),
            expected: expected.map(|(class, word)| ((*class).to_owned(), (*word).to_owned())).collect(),
            load_ns: 1_000_000_000,
            ..ScenarioResult::default()
        }
    }

    fn code(verdicts: &Verdicts, expected: &[(&str, &str)]) -> u8 {
        judge(&result(verdicts, expected))
    }

    #[test]
    fn recovery_is_from_each_fault_to_the_next_grant() {
        let verdicts = verdicts(State::Clean, State::Clean);
        let of = |after_ms: &[Option<u64>], expected: &str| {
            let mut result = result(&verdicts, &[("recovery", expected)]);
            let fault = |ms: &Option<u64>| FaultSpan {
                first_grant_after_ns: ms.map(|ms| ms * 1_000_000),
                ..FaultSpan::default()
            };
            result.faults = after_ms.iter().map(fault).collect();
            judge(&result)
        };
        assert_eq!(of(&[Some(10), Some(2_999)], "< 3s"), AS_EXPECTED);
        assert_eq!(of(&[Some(10), Some(3_000)], "< 3s"), NOT_AS_EXPECTED);
        assert_eq!(of(&[Some(10), None], "< 3s"), NOT_AS_EXPECTED, "no grant");
        assert_eq!(of(&[], "< 3s"), UNKNOWN, "no fault");
    }

    #[test]
    fn a_bound_is_met_by_the_figure_that_was_measured() {
        let verdicts = verdicts(State::Clean, State::Clean);
        let of = |found: Option<f64>, expected: &str| {
            let mut result = result(&verdicts, &[("fairness", expected)]);
            result.figures = found.map(|found| ("fairness".to_owned(), found)).into_iter().collect();
            judge(&result)
        };
        assert_eq!(of(Some(0.6), "> 0.5"), AS_EXPECTED);
        assert_eq!(of(Some(0.5), "> 0.5"), NOT_AS_EXPECTED);
        assert_eq!(of(Some(0.4), "< 0.5"), AS_EXPECTED);
        assert_eq!(of(None, "< 0.5"), UNKNOWN, "not measured");
    }

    #[test]
    fn a_verdict_left_out_is_not_judged() {
        let verdicts = verdicts(State::Violated, State::Clean);
        assert_eq!(code(&verdicts, &[("contract", "clean")]), AS_EXPECTED);
        assert_eq!(code(&verdicts, &[]), AS_EXPECTED);
    }

    #[test]
    fn a_lock_of_ones_own_is_judged_by_what_became_of_it() {
        let of = |belief, contract, expected: &[(&str, &str)]| {
            judge_lock(&result(&verdicts(belief, contract), expected))
        };
        let loses = [("contract", "violated"), ("belief", "violated")];
        use State::{Clean, Unknown, Violated};
        assert_eq!(of(Violated, Violated, &loses), NOT_AS_EXPECTED, "as its file expects");
        assert_eq!(of(Clean, Clean, &loses), AS_EXPECTED, "better than its file expects");
        assert_eq!(of(Violated, Clean, &loses), AS_EXPECTED, "fencing is the resource's");
        assert_eq!(of(Unknown, Clean, &loses), UNKNOWN);
        assert_eq!(of(Clean, Violated, &[]), NOT_AS_EXPECTED);
        assert_eq!(of(Violated, Clean, &[("belief", "clean")]), NOT_AS_EXPECTED);
    }

    #[test]
    fn a_run_of_which_nothing_is_known_is_unknown_also_where_nothing_is_expected() {
        assert_eq!(code(&Verdicts::default(), &[]), UNKNOWN);
        let one_known = verdicts(State::Unknown, State::Clean);
        assert_eq!(code(&one_known, &[]), AS_EXPECTED);
    }

    #[test]
    fn unknown_never_passes_and_a_difference_counts_more() {
        let verdicts = verdicts(State::Unknown, State::Violated);
        assert_eq!(code(&verdicts, &[("belief", "clean")]), UNKNOWN);
        assert_eq!(code(&verdicts, &[("belief", "violated")]), UNKNOWN);
        assert_eq!(code(&verdicts, &[("belief", "clean"), ("contract", "clean")]), NOT_AS_EXPECTED);
    }
}
