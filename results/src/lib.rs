//! What was measured and judged, as something that is kept, compared and read.
//!
//! A [`run::Run`] is everything kept of one execution of `locklab`. This crate stores it, finds it again,
//! compares it with others and renders it. It has no clock and no server: data in, data or text out.
//!
//! ```
//! use results::report;
//! use results::run::{Meta, Run};
//! use results::store::{self, RunDir};
//!
//! let root = tempfile::tempdir()?;
//! let directory = RunDir::at(root.path().join("first"))?;
//! let run = Run::new(directory.label(), "chaos", Meta::default());
//! directory.save(&run)?;
//! let again = store::load_dir(directory.path())?;
//! let page = report::by_name("html").expect("a format of the list").render(&again)?;
//! directory.save_report(&page)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promised
//! - A file of a run is whole or absent, and a damaged one is an error that names the place, never a panic.
//! - Fields of `run.json` are added, not renamed; a file of a later form is refused by its number.
//! - The same run gives the same bytes in every format; whatever a server or a peer wrote is escaped.
//! - What is void, invalid or unknown is shown as such and never as a figure or a pass.
//!
//! # Not promised
//! - That two runs of different machines can be compared: what differs is listed, and not judged.
//!
//! # Map, in reading order
//!
//! | modules | what they are |
//! |---|---|
//! | [`run`], [`verdict`] | the data |
//! | [`history`], [`overlap`] | the record that they rest on, and the sweep over its intervals |
//! | [`timeline`], [`over_time`], [`intervals`], [`open_loop`] | the parts of it that are drawn, and how long callers waited |
//! | [`proof`], [`sequence`] | what a verdict shows for itself, and the conviction step by step |
//! | [`store`], [`history_writer`], [`history_file`] | files, written and read |
//! | [`compare`], [`merge`], [`merge_input`], [`parts`] | runs side by side and together |
//! | [`gate`], [`audit`] | a decision on a run, and the scorecard of a lock |
//! | [`answer`], [`report`], [`svg`] | the first line of each document, a file per format, and its pictures |
//! | [`units`], [`command_line`], [`pattern`], [`spelling`], [`hdr`], [`secrets`], [`limits`] | small help |

pub mod answer;
pub mod audit;
pub mod compare;
pub mod gate;
pub mod history;
pub mod merge;
mod record;
pub mod report;
pub mod store;
pub mod svg;
mod wording;

pub use compare::decide;
pub use history::{history_file, history_parts, history_writer, overlap};
pub use merge::{merge_input, parts};
pub use record::{
    hdr, intervals, measures, open_loop, over_time, proof, run, sequence, timeline, verdict, watch,
};
pub use store::limits;
pub use wording::{command_line, pattern, secrets, spelling, units};
