//! Compares verdicts with expectations: as expected, not as expected, or unknown.

use std::collections::BTreeMap;

use results::verdict::{State, Verdicts};

/// Everything came out as expected, or nothing was expected and something is known.
pub const AS_EXPECTED: u8 = 0;
/// Something came out differently: a violation where clean was expected, or a broken lock that was not convicted.
pub const NOT_AS_EXPECTED: u8 = 1;
/// Too little is known to say; never counted as a pass.
pub const UNKNOWN: u8 = 2;

/// The exit code of verdicts against what was expected of them. A proven difference counts more than an unknown; where nothing is
/// expected, one verdict that is known is enough.
pub fn judge(verdicts: &Verdicts, expected: &BTreeMap<String, String>, load_ns: u64) -> u8 {
    let unknown = verdicts
        .iter()
        .all(|(_, verdict)| verdict.state == State::Unknown);
    if expected.is_empty() && unknown {
        return UNKNOWN;
    }
    expected
        .iter()
        .map(|(class, expected)| {
            let met = verdicts
                .get(class)
                .and_then(|verdict| verdict.meets(expected, load_ns));
            match met {
                Some(true) => AS_EXPECTED,
                Some(false) => NOT_AS_EXPECTED,
                None => UNKNOWN,
            }
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
    use results::verdict::Verdict;

    fn verdicts(belief: State, contract: State) -> Verdicts {
        let verdict = |state| Verdict {
            state,
            ..Verdict::default()
        };
        Verdicts {
            belief: verdict(belief),
            contract: verdict(contract),
            ..Verdicts::default()
        }
    }

    fn code(verdicts: &Verdicts, expected: &[(&str, &str)]) -> u8 {
        let expected = expected
            .iter()
            .map(|(class, word)| ((*class).to_owned(), (*word).to_owned()))
            .collect();
        judge(verdicts, &expected, 1_000_000_000)
    }

    #[test]
    fn a_verdict_left_out_is_not_judged() {
        let verdicts = verdicts(State::Violated, State::Clean);
        assert_eq!(code(&verdicts, &[("contract", "clean")]), AS_EXPECTED);
        assert_eq!(code(&verdicts, &[]), AS_EXPECTED);
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
        assert_eq!(
            code(&verdicts, &[("belief", "clean"), ("contract", "clean")]),
            NOT_AS_EXPECTED
        );
    }
}
