//! Turns what was measured and judged into something that is kept, compared and read.
mod atomic;
pub mod history;
pub mod history_writer;
mod json_path;
pub mod overlap;
pub mod report;
pub mod run;
pub mod secrets;
pub mod store;
pub mod svg;
pub mod timeline;
pub mod units;
pub mod verdict;
