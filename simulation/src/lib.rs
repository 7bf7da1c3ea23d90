//! Runs the real library against simulated servers in simulated time: everything random comes from one seed, and the history
//! is judged by the checkers that judge real servers.

pub mod server;
