//! Scenarios that break a lock on purpose: a plan, a history recorded under faults, and verdicts on which promise held.
//!
//! ```
//! use chaos::{plan::Plan, scenario::Scenario};
//!
//! let text = "name = \"calm\"\n[topology]\nkind = \"single\"\n";
//! let scenario = Scenario::parse("calm.toml", text)?;
//! let plan = Plan::new(&scenario, 7);
//! assert_eq!(plan, Plan::from_json(&plan.to_json()).expect("it was just written"));
//! # Ok::<(), chaos::scenario::ScenarioErrors>(())
//! ```
//!
//! Promised: everything in a file is checked before anything starts; the plan is saved first and holds all that is random; a
//! fault without evidence that it took effect never lets a run pass; servers and clients are ended whatever happens. Not
//! promised: that two runs of one plan give the same history, since servers and schedulers are real.
//!
//! In reading order:
//!
//! | modules | what they are |
//! |---|---|
//! | [`scenario`], [`builtin`] | what is asked, and the suite that comes with the program |
//! | [`plan`], [`kept_plan`], [`partition`] | what is decided, what was kept of it, and which parts make it |
//! | [`faults`], [`shim`], [`names`] | what is injected and undone, how clocks and disks are wrong, and what names mean |
//! | [`hooks`], [`external`], [`toxiproxy`] | the same on somebody else's servers, and through somebody else's proxy |
//! | [`run`], [`batch`] | the plan, carried out, by one harness or by several; many plans, several at a time |
//! | [`shrink`], [`shrink_search`], [`soak`] | the smallest plan that still convicts, and random ones by the thousand |
//! | [`checkers`], [`proof`] | the judge, and what it shows |
//! | [`wait`] | what all of them wait by |
//! | [`outcome`], [`audit`] | as expected or not, and what that says of any lock |

pub mod audit;
pub mod batch;
pub mod builtin;
pub mod checkers;
mod client_sizes;
mod clients;
mod draw;
pub mod external;
pub mod faults;
pub mod hooks;
pub mod kept_plan;
pub mod laboratory;
mod members;
pub mod names;
mod nemesis;
pub mod outcome;
pub mod partition;
pub mod plan;
pub mod polling;
mod probe;
pub mod proof;
mod resolve;
pub mod roles;
pub mod run;
pub mod scenario;
pub mod shim;
pub mod shrink;
pub mod shrink_search;
pub mod soak;
pub mod toxiproxy;
mod tracker;
