//! The template of a driver in Rust keeps to the protocol.

mod support;

use bench::exec::conform::{ConformOptions, Outcome, conform};
use cluster_config::TopologyKind;
use support::{PATIENCE, lab_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_template_conforms() {
    let lab = lab_of(TopologyKind::Single).await;
    let options = ConformOptions {
        command: vec![env!("CARGO_BIN_EXE_bench-rust-template").to_owned()],
        target: lab.url(),
        prefix: "locklab:template:".to_owned(),
        kind: None,
        patience: PATIENCE,
        may_flush: true,
        line_faults: None,
        log: Some(lab.dir.path().join("driver.log")),
    };
    let found = conform(&options, |_| {}).await;
    for step in &found.steps {
        // All that the template has; it does not renew, so that it has nothing to lose, and knows no owners.
        // Its kind has no tokens and takes one name.
        let expected = match step.name {
            "renewal" | "loss" | "owner moves" | "tokens" | "several names" | "reading in writing"
            | "readers" | "master away" | "late entry" | "renewed in turn" => Outcome::Skipped,
            _ => Outcome::Kept,
        };
        assert_eq!(step.outcome, expected, "{step:#?}");
    }
    assert_eq!(found.library, "set-nx-px 1.0 (rust)");
}
