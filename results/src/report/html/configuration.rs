//! The configuration of rows: what they share and where they differ.

use itertools::Itertools;

use crate::compare::pivot::FIELDS;
use crate::run::Run;

/// What all rows were configured with, and in what they differ: name and value, or name and values.
#[derive(Default)]
pub(super) struct Configuration {
    pub(super) shared: Vec<(&'static str, String)>,
    pub(super) differing: Vec<(&'static str, String)>,
}

pub(super) fn configuration(run: &Run) -> Configuration {
    let mut configuration = Configuration::default();
    // What the run itself is stands on top of the page.
    for field in FIELDS.iter().filter(|field| field.of_rows()) {
        let values = run.rows.iter().map(|row| field.value(run, row));
        let values = values.filter(|value| !value.is_empty()).unique();
        let values: Vec<String> = values.collect();
        let of = match values.len() {
            0 => continue,
            1 => &mut configuration.shared,
            _ => &mut configuration.differing,
        };
        of.push((field.name, values.join(", ")));
    }
    configuration
}
