//! Compares the slots of generated names with a server's own answers.
mod support;

use lock_core::slot;
use proptest::{prelude::*, test_runner::TestRunner};
use support::Server;

#[test]
fn slots_are_the_servers_own() {
    let server = Server::start(&["--cluster-enabled", "yes"]);
    let names = prop_oneof![
        "[a-z:_-]{0,20}",
        "[ab{}]{0,10}",
        "\\PC{0,12}",
        "[a-z]{0,4}\\{[a-z0-9:]{0,9}\\}[a-z]{0,4}"
    ];
    TestRunner::default()
        .run(&names, |name| {
            prop_assert_eq!(server.ok(&["CLUSTER", "KEYSLOT", &name]), slot(name.as_bytes()).to_string());
            Ok(())
        })
        .unwrap();
}
