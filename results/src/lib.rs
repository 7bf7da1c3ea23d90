//! What a run is, how it is stored, compared and rendered.
pub mod history;
pub mod overlap;
pub mod run;
pub mod verdict;
