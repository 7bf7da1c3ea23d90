//! Files that a user names: an error names the file too, and each command says which exit code it is.

use std::fs::{Metadata, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// Makes a write beyond `ulimit -f` an error instead of the end of this process. Programs that it starts have
/// the default again: a handler, unlike an ignored signal, does not survive `exec`.
pub(crate) fn survive_size_limit() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing, so that it is safe in whatever it interrupts.
    let _ = unsafe {
        nix::sys::signal::signal(
            nix::sys::signal::Signal::SIGXFSZ,
            nix::sys::signal::SigHandler::Handler(nothing),
        )
    };
}

/// A directory for what a command needs only while it runs.
pub(crate) fn work_dir() -> anyhow::Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        crate::exit::missing(format!(
            "cannot make a directory in {}: {error}; set TMPDIR to one that can be written",
            place.display()
        ))
    })
}

/// Writes a file as a whole or not at all, behind a link too; a terminal, a pipe or another device is written
/// to, and never replaced.
pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let (path, bytes) = (path.as_ref(), bytes.as_ref());
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_device = ["/dev", "/proc"].iter().any(|place| real.starts_with(place));
    let is_special = |found: Metadata| !(found.is_file() || found.is_dir());
    let written = match is_device || path.metadata().is_ok_and(is_special) {
        true => OpenOptions::new().append(true).open(path).and_then(|mut device| device.write_all(bytes)),
        false => results::store::write_whole(&real, bytes),
    };
    written.map_err(|error| crate::exit::unwritable(format!("cannot write {}: {error}", path.display())))
}
