//! Fuzzes the scenario parser: any text is a scenario or has problems; a scenario gives a plan that is
//! written and read again.
#![no_main]

use chaos::plan::Plan;
use chaos::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(scenario) = Scenario::parse("fuzzed.toml", text) else {
        return;
    };
    let plan = Plan::new(&scenario, 7);
    let again = Plan::from_json(&plan.to_json()).expect("what was written is read");
    assert_eq!(again, plan);
});
