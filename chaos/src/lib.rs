//! Scenarios that break a lock on purpose: a plan, a history recorded under faults, and verdicts on which
//! promise held.
//!
//! In a test of the lock's own crate (`examples/rust-lock` is a whole one):
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use bench::subject::Subject;
//! use chaos::laboratory::{Laboratory, serve_client};
//! use chaos::scenario::Scenario;
//!
//! # fn my_lock() -> Arc<dyn Subject> { unimplemented!() }
//! # #[allow(dead_code)]
//! #[tokio::test]
//! async fn client() {
//!     // Each client of a scenario is this program once more, with this test alone.
//!     serve_client(my_lock()).await.unwrap();
//! }
//!
//! # #[allow(dead_code)]
//! #[tokio::test]
//! async fn a_pause_past_the_lease_gives_nobody_the_lock_too_early() {
//!     let laboratory = Laboratory::new(my_lock(), "client", "target/tmp").unwrap();
//!     let scenario = chaos::builtin::find("client-pause").unwrap();
//!     let scenario = Scenario::parse(scenario.path, scenario.text).unwrap();
//!     let run = laboratory.judge(&scenario, 1).await.unwrap();
//!     assert!(!run.result.is_lost(), "{:?}", run.result.verdicts);
//! }
//! ```
//!
//! Promised: everything in a file is checked before anything starts; the plan is saved first and holds all
//! that is random; a fault without evidence that it took effect never lets a run pass; servers and clients
//! are ended whatever happens. Not promised: that two runs of one plan give the same history, since servers
//! and schedulers are real.
//!
//! In reading order:
//!
//! | modules | what they are |
//! |---|---|
//! | [`scenario`], [`builtin`], [`scenario_source`] | what is asked, the suite that comes with the program, and what is meant by a name |
//! | [`planner`], [`plan`], [`kept_plan`], [`plan_parts`], [`partition`] | what is decided, what was kept of it, which part makes what, and which links a partition cuts |
//! | [`faults`], [`shim`], [`names`] | what is injected and undone, how clocks and disks are wrong, and what names mean |
//! | [`target_servers`], [`hooks`], [`external`], [`other_system`] | the same on somebody else's servers |
//! | [`run`], [`batch`], [`laboratory`] | the plan, carried out, by one harness or by several; many plans, several at a time; from a test |
//! | [`shrink`], [`shrink_search`], [`soak`] | the smallest plan that still convicts, and random ones by the thousand |
//! | [`checkers`], [`judged_history`], [`proof`] | the judge, what it judges again, and what it shows |
//! | [`replica_lag`], [`measured_rates`] | how far replicas are behind, and what else a risk can be told by measuring |
//! | [`risk`] | how often what a run shows once happens in a year |
//! | [`bench_servers`] | servers on which locks are measured |
//! | [`polling`] | what all of them wait by |
//! | [`outcome`], [`audit`] | as expected or not, and what that says of any lock |

pub mod audit;
pub mod batch;
pub mod checkers;
pub mod faults;
pub mod judged_history;
pub mod laboratory;
pub mod measured_rates;
pub mod outcome;
pub mod planning;
pub mod polling;
pub mod proof;
pub mod risk;
pub mod roles;
pub mod run;
pub mod scenario;
pub mod search;
pub mod servers;
pub mod watch;

pub use planning::{kept_plan, partition, plan, plan_parts, planner};
pub use scenario::{builtin, scenario_source};
pub use search::{shrink, shrink_search, soak};
pub use servers::{bench_servers, external, hooks, names, other_system, replica_lag, shim, target_servers};
