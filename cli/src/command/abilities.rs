//! A lock by its name, as far as it can be started here.

use std::sync::Arc;

use bench::subject::Subject;

use crate::exit;

/// The lock of that name. A driver that cannot be started is said before anything else is begun.
pub(crate) fn startable(name: &str) -> anyhow::Result<Arc<dyn Subject>> {
    let subject = bench::subjects::find(name).map_err(exit::usage)?;
    let mut parts = std::iter::once(&subject).chain(subject.parts());
    let started = parts.try_for_each(|part| match (part.missing(), part.program()) {
        (None, Some(command)) => bench::exec::check_program(command),
        _ => Ok(()),
    });
    started.map_err(exit::usage)?;
    Ok(subject)
}
