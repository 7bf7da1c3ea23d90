//! Where a watch gets commands and keys from.

pub(crate) mod held_now;
pub(crate) mod kept_traffic;
pub(crate) mod key_reads;
pub(crate) mod listeners;
pub(crate) mod live;
