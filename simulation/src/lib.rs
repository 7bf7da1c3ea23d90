//! Runs the real library against simulated servers in simulated time: everything random comes from one seed,
//! and the history is judged by the checkers that judge real servers.
//!
//! | file | what it is for |
//! |---|---|
//! | `draw.rs`, `simulated_subset.rs` | scenarios from seeds; which scenarios can be simulated |
//! | `run.rs` | carries a plan out and judges it |
//! | `client.rs`, `clients.rs` | clients as processes that stop and end |
//! | `host.rs`, `server/`, `servers.rs` | machines and their servers |
//! | `network/` | links and the order of arrival |
//! | `nemesis.rs` | the faults |
//! | `runtime/` | makes a run repeat: process, memory, time, random bytes |
//! | `swarm.rs`, `swarm_text.rs` | many seeds, and what came of them |

mod client;
mod clients;
pub mod draw;
mod host;
mod nemesis;
mod network;
pub mod run;
mod runtime;
pub mod server;
pub mod servers;
pub mod simulated_subset;
pub mod swarm;
mod swarm_text;
