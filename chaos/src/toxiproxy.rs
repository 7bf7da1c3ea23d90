//! Holds a scenario against a Toxiproxy server: which of its faults on links that server cannot do, and why.

use crate::faults::find;
use crate::scenario::Scenario;

/// What such a server cannot do of this scenario: the fault's index from 0, `None` for one that is drawn; and why. Faults on nodes and clients do
/// not concern it.
pub fn beyond_toxiproxy(scenario: &Scenario) -> Vec<(Option<usize>, String)> {
    let written = scenario.faults.iter().enumerate();
    let written = written.map(|(index, fault)| (Some(index), &fault.fault, &fault.with));
    let drawn = scenario
        .random
        .iter()
        .flat_map(|random| &random.faults)
        .map(|candidate| (None, &candidate.fault, &candidate.with));
    written
        .chain(drawn)
        .filter_map(|(index, name, with)| {
            let why = find(name)?.fault.on_links(with)?.by_toxiproxy().err()?;
            Some((
                index,
                format!("`{name}` cannot be done over Toxiproxy: {why}; leave out --toxiproxy, or this fault"),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(faults: &str) -> Scenario {
        let text = format!("name = \"x\"\n[topology]\nkind = \"sentinel\"\n{faults}");
        Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn fault(name: &str, on: &str, with: &str) -> String {
        format!(
            "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"{name}\"\non = \"{on}\"\nwith = {{ {with} }}\n"
        )
    }

    #[test]
    fn what_a_toxic_exists_for_passes_and_the_rest_is_named_with_its_place() {
        let good = [
            fault("delay", "master -> replicas", "latency = \"5s\""),
            fault("cut", "client 1 <-> master", ""),
            fault("partition", "n1 | n2, n3", ""),
            fault("bandwidth", "clients -> master", "rate = \"64kB/s\""),
            fault("refuse", "client 1 <-> master", ""),
            fault("close-after", "client 1 -> master", "bytes = 100"),
            fault("slice", "client 1 -> master", ""),
        ];
        assert_eq!(beyond_toxiproxy(&scenario(&good.concat())), []);
        let reset = fault("reset", "client 1 <-> master", "");
        let kill = "[[faults]]\nat = \"2s\"\nfault = \"kill\"\non = \"master\"\n";
        let found = beyond_toxiproxy(&scenario(&format!("{kill}{reset}")));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, Some(1));
        assert!(
            found[0].1.starts_with("`reset` cannot be done"),
            "{found:?}"
        );
    }

    #[test]
    fn faults_that_may_be_drawn_count_too() {
        let drawn = "[random]\nfaults = [\"pause\", \"loss\"]\non = [\"clients\", \"clients -> master\"]\nwith = { loss = { rate = 0.5 } }\n";
        let found = beyond_toxiproxy(&scenario(drawn));
        assert!(matches!(found.as_slice(), [(None, _)]), "{found:?}");
    }
}
