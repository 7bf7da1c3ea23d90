//! Faults that a command to a server makes.
//!
//! | file | what it is for |
//! |---|---|
//! | `command.rs` | a command, once |
//! | `client_kill.rs`, `client_pause.rs`, `refuse_command.rs`, `change_password.rs` | what becomes of its clients |
//! | `config_set.rs`, `maxmemory.rs` | how it is configured |

pub(crate) mod change_password;
pub(crate) mod client_kill;
pub(crate) mod client_pause;
pub(crate) mod command;
pub(crate) mod config_set;
pub(crate) mod maxmemory;
pub(crate) mod refuse_command;
