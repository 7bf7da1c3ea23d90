//! Set-ups side by side: faults in words, outcomes by server, and what each configuration costs.

use results::run::{FaultSpan, Run, ScenarioResult};
use results::verdict::State;

use crate::samples::{around, row, run, scenario};
use crate::table;

fn said(topology: &str, faults: &[(&str, &[&str])]) -> String {
    let faults = faults.iter().map(|(name, targets)| FaultSpan {
        fault: (*name).to_owned(),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        ..FaultSpan::default()
    });
    let result = ScenarioResult {
        topology: topology.to_owned(),
        faults: faults.collect(),
        ..ScenarioResult::default()
    };
    let rows = table(&run("r", Vec::new(), vec![result]), "What became of the lock");
    rows[0][0].strip_prefix(&format!("{topology}; ")).expect("the place first").to_owned()
}

#[test]
fn faults_are_said_in_words_and_no_master_is_guessed() {
    let late: (&str, &[&str]) = ("delay", &["n1 -> n2", "n1 -> n3"]);
    for (topology, faults, words) in [
        ("sentinel", vec![late, ("kill", &["n1"])], "master killed, replication late"),
        ("single", vec![("kill", &["n1"])], "server killed"),
        ("masters", vec![("kill", &["n2"]), ("kill", &["n1", "n3"])], "one master killed, 2 masters killed"),
        ("cluster", vec![("pause", &["c1"]), ("kill", &["n1"])], "client frozen, server killed"),
        ("single", vec![("delay", &["c1 -> n1"])], "network late"),
        ("single", vec![("script-flush", &["n1"]), ("script-flush", &["n1"])], "script flush"),
        ("single", vec![], "no fault"),
    ] {
        assert_eq!(said(topology, &faults), words);
    }
}

fn on_server(name: &str, server: &str, exit_code: u8) -> ScenarioResult {
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
        on_server("a", "redis-7.0", 0),
        on_server("a", "redis-8", 0),
        on_server("a", "redis-8", 1),
        on_server("upgrade", "redis-7.0", 0),
    ];
    let mut run = run("r", Vec::new(), scenarios);
    let text = crate::render("markdown", &run);
    assert!(text.contains("| scenario | redis-7.0 | redis-8 |"), "{text}");
    let rows = table(&run, "Servers");
    let [row] = &rows[..] else {
        panic!("one on a server of its own compares nothing");
    };
    assert_eq!(row[..], ["a", "· no expectation", "✗ not as expected, 1 of 2 as expected"]);
    run.scenarios.truncate(1);
    assert!(table(&run, "Servers").is_empty());
}

#[test]
fn each_configuration_is_a_row_with_its_scenarios_and_its_speed() {
    let of = |subject: &str, topology: &str, contract| ScenarioResult {
        subject: subject.to_owned(),
        without_grant_ns: Some(3_000_000_000),
        ..scenario("s", topology, contract)
    };
    let scenarios = vec![
        of("a", "single", State::Clean),
        of("a", "sentinel", State::Violated),
        of("a", "sentinel", State::Clean),
    ];
    let rows = vec![
        row("a", "single", around(100.0, 0.01)),
        row("a", "sentinel", around(50.0, 0.01)),
        row("b", "single", around(200.0, 0.01)),
    ];
    let mut run = run("r", rows, scenarios);
    // No column of recovery: none of them has one.
    let texts = |run: &Run| table(run, "Configurations side by side");
    let all = texts(&run);
    let [single, sentinel, other] = &all[..] else { panic!("{all:?}") };
    assert_eq!(single[1], "kept in 1 scenario");
    assert_eq!(single[2], "3 s");
    assert!(single[3].starts_with("100; "), "{single:?}");
    assert_eq!(sentinel[1], "lost in 1 of 2 scenarios; for 3.5 s at worst");
    assert!(sentinel[3].contains("×0.5 (") && sentinel[3].ends_with("worse"), "{sentinel:?}");
    assert_eq!((other[0].as_str(), other[1].as_str()), ("b; single", "not tried"));
    // Another configuration of the servers was not measured.
    let own = &mut run.scenarios[0].server_config;
    own.insert("min-replicas-to-write".to_owned(), "1".to_owned());
    let all = texts(&run);
    assert_eq!((all.len(), all[0][3].as_str()), (4, "–"), "{all:?}");
}
