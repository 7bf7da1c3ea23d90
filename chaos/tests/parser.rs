//! Whatever text comes in, the parser of scenarios gives a scenario or messages with their places; and
//! whatever history, the judges judge.

use chaos::builtin::BUILTINS;
use chaos::checkers::{CheckOptions, check};
use chaos::plan::Plan;
use chaos::proof;
use chaos::scenario::Scenario;
use proptest::prelude::*;
use results::history::History;
use results::verdict::State;

fn parsed(text: &str) -> Result<(), TestCaseError> {
    match Scenario::parse("x.toml", text) {
        Ok(scenario) => {
            let plan = Plan::new(&scenario, 7);
            prop_assert_eq!(Plan::from_json(&plan.to_json()).expect("what was written is read"), plan);
        }
        Err(errors) => {
            let message = errors.to_string();
            let lines = text.lines().count().max(1) + 1;
            for place in message
                .lines()
                .filter_map(|line| line.strip_prefix("x.toml:"))
                // After the first fifty, how many there are besides.
                .filter(|place| !place.starts_with(" and "))
            {
                let number = place.split(':').next().and_then(|word| word.parse::<usize>().ok());
                prop_assert!(number.is_some_and(|number| (1..=lines).contains(&number)), "{}", message);
            }
            prop_assert!(message.contains("x.toml:"), "{}", message);
        }
    }
    Ok(())
}

fn words() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "\"5s\"",
        "\"-1s\"",
        "0",
        "-1",
        "1e9",
        "true",
        "[]",
        "{}",
        "\"\"",
        "\"master\"",
        "\"n99\"",
        "\"A -> B\"",
        "\"client 1 <-> master\"",
        "[[faults]]",
        "[load]",
        "= ",
        "\"kill\"",
        "\"renewed\"",
        "\n",
        "#",
        "9223372036854775807",
        "\"18446744073709551615s\"",
        "\"1ns..0ns\"",
    ]);
    prop_oneof![known.prop_map(str::to_owned), "\\PC{0,6}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_text_is_a_scenario_or_a_message(text in "(\\PC|\n){0,200}") {
        parsed(&text)?;
    }

    #[test]
    fn a_spoilt_scenario_is_one_or_is_refused_with_its_place(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize, words()), 1..4),
    ) {
        let mut text: Vec<char> = BUILTINS[which.index(BUILTINS.len())].text.chars().collect();
        for (at, gone, put) in edits {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + gone).min(text.len());
            text.splice(at..end, put.chars());
        }
        parsed(&text.into_iter().collect::<String>())?;
    }

    /// Lines of small histories, put together as chance will have it: times are corrected so that most can be
    /// read.
    #[test]
    fn any_history_is_judged_and_what_is_violated_is_proven(picks in prop::collection::vec((0..40_usize, 0..4_u64), 1..40)) {
        const FILES: [&str; 3] = [
            include_str!("histories/effect-lost-update.jsonl"),
            include_str!("histories/liveness-free-and-refused.jsonl"),
            include_str!("histories/writer-beside-a-reader.jsonl"),
        ];
        let lines: Vec<&str> = FILES.iter().flat_map(|text| text.lines()).collect();
        let mut text = String::new();
        let mut t_ns = 0;
        for (pick, step) in picks {
            t_ns += step * 400_000_000;
            let line = lines[pick % lines.len()];
            let rest = line.split_once(',').map_or("}", |(_, rest)| rest);
            let candidate = format!("{text}{{\"t_ns\":{t_ns},{rest}\n");
            // Ends without a call and calls twice are bad lines, which is another test's matter.
            if History::parse(&candidate).is_ok_and(|history| !history.torn) {
                text = candidate;
            }
        }
        if let Ok(history) = History::parse(&text) {
            let options = CheckOptions { floors: None, ..CheckOptions::default() };
            let mut report = check(&history, &options);
            proof::attach(&mut report, &history, &options);
            for (class, verdict) in report.verdicts.iter() {
                prop_assert_eq!(verdict.proof.is_some(), verdict.state == State::Violated);
                let Some(proof) = &verdict.proof else { continue };
                prop_assert!(!proof.slice.is_empty(), "{} in\n{}", class, text);
                let slice = History::parse(&proof.history()).expect("a slice is a history");
                let again = check(&slice, &options).verdicts;
                let again = again.get(class).expect("a class");
                prop_assert_eq!(again.state, State::Violated, "{} in\n{}", class, text);
            }
        }
    }
}
