//! Runs the real library against simulated servers in simulated time: everything random comes from one seed, and the history
//! is judged by the checkers that judge real servers.

mod client;
mod clients;
pub mod draw;
mod forked_copy;
mod heap;
mod host;
mod nemesis;
mod network;
mod process;
pub mod run;
pub mod server;
pub mod servers;
pub mod simulated_subset;
pub mod swarm;
mod swarm_text;
mod system;
