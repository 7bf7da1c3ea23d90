//! Turns a run into a document. One exporter per file, one row per exporter in [`FORMATS`]; each reads the run and nothing else.

mod cells;
mod charts;
pub mod csv;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
mod measures;
mod recovery;
pub mod svg;
mod table;
pub mod text;

pub use cells::rates;

use crate::run::Run;

/// Why a document could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot render {format}: {message}")]
pub struct ReportError {
    /// The format's name.
    pub format: &'static str,
    /// What went wrong.
    pub message: String,
}

/// A form that a run can be given.
pub trait Exporter: Sync {
    /// The name after `--format`.
    fn name(&self) -> &'static str;
    /// The usual end of a file's name, without the point.
    fn extension(&self) -> &'static str;
    /// One line for help.
    fn about(&self) -> &'static str;
    /// The document, with a newline at its end. The same run gives the same bytes.
    fn render(&self, run: &Run) -> Result<String, ReportError>;
}

/// All forms, in the order in which they are listed.
pub static FORMATS: &[&dyn Exporter] = &[
    &html::Html,
    &markdown::Markdown,
    &junit::Junit,
    &csv::Csv,
    &json::Json,
    &svg::Svg,
    &text::Text,
];

/// The exporter of a name; `None` if there is none.
pub fn by_name(name: &str) -> Option<&'static dyn Exporter> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}
