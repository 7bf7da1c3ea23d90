//! What each scenario came out as on each server, of a run that tried several.

use itertools::Itertools;

use super::cells;
use crate::run::{Outcome, Run, ScenarioResult};

/// The headings and the lines of the matrix, the scenario first. `None` where no scenario was tried on two servers.
pub(super) fn matrix(run: &Run) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let all = || run.scenarios.iter();
    let servers = all().map(|one| one.server.as_str());
    let servers = servers.filter(|server| !server.is_empty()).unique();
    let servers: Vec<&str> = servers.collect();
    let tried = all().map(|one| (one.name.as_str(), one.subject.as_str()));
    let mut tried: Vec<(&str, &str)> = tried.unique().collect();
    let on = |(name, subject): (&str, &str), server: &str| -> Vec<&ScenarioResult> {
        let of = all().filter(|one| one.name == name && one.subject == subject);
        of.filter(|one| one.server == server).collect()
    };
    // What names its own server says nothing of another.
    tried.retain(|of| {
        let own = servers.iter().filter(|server| !on(*of, server).is_empty());
        own.count() > 1
    });
    let several = !tried.iter().map(|of| of.1).all_equal();
    let rows = tried.iter().map(|of| {
        let title = match several {
            true => format!("{} by {}", of.0, of.1),
            false => of.0.to_owned(),
        };
        let cells = servers.iter().map(|server| cell(&on(*of, server)));
        std::iter::once(title).chain(cells).collect()
    });
    let heads = std::iter::once("scenario").chain(servers.iter().copied());
    let heads = heads.map(str::to_owned).collect();
    (!tried.is_empty()).then(|| (heads, rows.collect()))
}

/// How the worst of the repeats came out, and how many came out as expected; empty where there was none.
fn cell(repeats: &[&ScenarioResult]) -> String {
    let Some(worst) = repeats.iter().map(|one| one.outcome()).max() else {
        return String::new();
    };
    let words = cells::outcome(worst);
    let repeated = repeats.iter();
    let good = repeated.filter(|one| one.outcome() <= Outcome::AsExpected);
    match repeats.len() {
        1 => words,
        all => format!("{words}, {} of {all} as expected", good.count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, server: &str, exit_code: u8) -> ScenarioResult {
        ScenarioResult {
            name: name.to_owned(),
            server: server.to_owned(),
            as_expected: exit_code == 0,
            exit_code,
            ..ScenarioResult::default()
        }
    }

    #[test]
    fn a_scenario_has_a_line_and_each_server_a_column_with_the_worst_of_the_repeats() {
        let scenarios = vec![
            result("a", "redis-7.0", 0),
            result("a", "redis-8", 0),
            result("a", "redis-8", 1),
            result("upgrade", "redis-7.0", 0),
        ];
        let mut run = Run {
            scenarios,
            ..Run::default()
        };
        let (heads, rows) = matrix(&run).expect("two servers");
        assert_eq!(heads, ["scenario", "redis-7.0", "redis-8"]);
        assert_eq!(
            rows.len(),
            1,
            "one on a server of its own compares nothing: {rows:?}"
        );
        assert_eq!(rows[0][0], "a");
        assert_eq!(rows[0][1], "· nothing expected");
        assert_eq!(rows[0][2], "✗ not as expected, 1 of 2 as expected");
        run.scenarios.truncate(1);
        assert_eq!(matrix(&run), None);
    }
}
