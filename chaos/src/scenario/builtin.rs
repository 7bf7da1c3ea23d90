//! The scenario files that come with the program: those of `chaos/scenarios`, its controls, the soak's, and
//! those of other systems.

use crate::scenario::Scenario;

/// A scenario file inside the program.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// The name by which it is found, the same as in the file.
    pub name: &'static str,
    /// Its path in the repository, for messages.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
    /// It puts a lock to the test that is known to be broken, and must be convicted.
    pub control: bool,
}

// The build script lists the files of the folder: `BUILTINS`, controls last, `SOAK` and `BASELINES`.
include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// The suite of this build: what is for Redis, and of other systems those whose lock is built in.
pub fn suite() -> Vec<&'static Builtin> {
    let built_in = |builtin: &&Builtin| {
        let scenario = Scenario::parse(builtin.path, builtin.text).ok();
        let subject = scenario.and_then(|one| bench::subjects::find(&one.lock.subject).ok());
        subject.is_some_and(|subject| subject.missing().is_none())
    };
    BUILTINS.iter().chain(BASELINES.iter().filter(built_in)).collect()
}

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    let mut named = BUILTINS.iter().chain(SOAK).chain(BASELINES).filter(|builtin| builtin.name == name);
    named.next()
}
