//! A table of many results: how often each scenario was convicted, clean or unknown, and how often that was
//! as expected.

use std::collections::BTreeMap;

use results::run::ScenarioResult;
use results::verdict::State;

use crate::terminal::columns;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) convicted: u32,
    pub(crate) clean: u32,
    pub(crate) unknown: u32,
    pub(crate) as_expected: u32,
}

impl Count {
    /// Counts one run by the worst of its judged verdicts; where a scenario expects nothing, all are judged.
    pub(crate) fn add(&mut self, result: &ScenarioResult) {
        let is_expected = |class: &str| result.expected.contains_key(class);
        let none = !result.verdicts.iter().any(|(class, _)| is_expected(class));
        let judged = || {
            let verdicts = result.verdicts.iter();
            verdicts.filter(|(class, _)| none || is_expected(class))
        };
        let any = |state: State| judged().any(|(_, verdict)| verdict.state == state);
        if any(State::Violated) {
            self.convicted += 1;
        } else if any(State::Unknown) || judged().next().is_none() {
            self.unknown += 1;
        } else {
            self.clean += 1;
        }
        self.as_expected += u32::from(result.as_expected);
    }

    pub(crate) fn runs(&self) -> u32 {
        self.convicted + self.clean + self.unknown
    }
}

pub(crate) fn table<'r>(results: impl IntoIterator<Item = &'r ScenarioResult>) -> String {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for result in results {
        counts.entry(&result.name).or_default().add(result);
    }
    render(counts)
}

pub(crate) fn render<N: AsRef<str>>(counts: impl IntoIterator<Item = (N, Count)>) -> String {
    let heads = ["scenario", "runs", "convicted", "clean", "unknown", "as expected"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(counts.into_iter().map(|(name, count)| {
        let Count { convicted, clean, unknown, as_expected } = count;
        let counts = [count.runs(), convicted, clean, unknown, as_expected];
        let name = name.as_ref().to_owned();
        std::iter::once(name).chain(counts.map(|count| count.to_string())).collect()
    }));
    columns(&rows, 1..6)
}

#[cfg(test)]
mod tests {
    use results::verdict::{Verdict, Verdicts};

    use super::*;

    fn result(name: &str, contract: State, belief: State) -> ScenarioResult {
        let verdict = |state| Verdict { state, ..Verdict::default() };
        ScenarioResult {
            name: name.to_owned(),
            verdicts: Verdicts {
                contract: verdict(contract),
                belief: verdict(belief),
                ..Verdicts::default()
            },
            expected: [("contract".to_owned(), "clean".to_owned())].into(),
            as_expected: contract == State::Clean,
            ..ScenarioResult::default()
        }
    }

    #[test]
    fn a_run_counts_by_what_its_scenario_judges() {
        let results = [
            result("a", State::Clean, State::Violated),
            result("a", State::Violated, State::Clean),
            result("a", State::Unknown, State::Clean),
        ];
        let text = table(&results);
        let line = text.lines().nth(1).expect("one scenario");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["a", "3", "1", "1", "1", "1"]);
    }
}
