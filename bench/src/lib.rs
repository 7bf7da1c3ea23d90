//! Measures a lock at a target URL: subjects, workloads, the load engine and the driver.
//!
//! ```no_run
//! # async fn run() -> Result<(), bench::subject::SubjectError> {
//! use bench::driver::{self, BenchPlan};
//!
//! let mut plan = BenchPlan::new("redis://127.0.0.1:6379");
//! plan.subjects = vec!["baseline:set-nx-px".into(), "lock-core:reentrant".into()];
//! let outcome = driver::run(&plan, &driver::Hooks::default()).await?;
//! assert_eq!(outcome.rows.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Promised: every row says whether the lock was safe while it was measured and whether its figures may be
//! quoted. Not promised: that two machines agree. This crate starts no servers and knows no faults.
//!
//! In reading order:
//!
//! | modules | what they are |
//! |---|---|
//! | [`subject`], [`abilities`] | the seam, and what a lock has |
//! | [`subjects`] | the registry of locks under test |
//! | [`exec`], [`serve`], [`driver_loop`] | the two ends of the subject protocol, and the loop that a driver runs by itself |
//! | [`workload`], [`load`], [`sink`] | what a client does, the engine that carries it out, and who is given each step |
//! | [`live`] | what is going on at this moment |
//! | [`consent`] | which servers beyond this machine may be dialled |
//! | [`target`], [`survey`] | Redis servers by URL, and what they report about themselves |
//! | [`parts`] | one load from many generators |
//! | [`recorded`] | a load that becomes a history |
//! | [`lock_trace`] | what a lock says to its servers, from acquire to release |
//! | [`driver`], [`sweep`] | the rounds of a benchmark, and levels of load |
//! | [`stats`], [`server_stats`], [`environment`], [`client_cores`] | the figures, those of the servers, the machine, and who has which of its cores |

#[macro_use]
pub mod subject;

pub mod abilities;
pub mod client_cores;
pub mod driver;
pub mod driver_loop;
pub mod environment;
pub mod exec;
mod links;
pub mod live;
pub mod load;
pub mod lock_trace;
mod monotonic;
pub mod parts;
mod per_thread;
mod protocol;
pub mod recorded;
mod round;
pub mod serve;
pub mod servers;
pub mod sink;
pub mod stats;
pub mod subjects;
pub mod sweep;
pub mod workload;

pub use servers::{consent, server_stats, survey, target};
