//! Turns what was measured and judged into something that is kept, compared and read.
pub mod history;
pub mod overlap;
pub mod run;
pub mod timeline;
pub mod verdict;
