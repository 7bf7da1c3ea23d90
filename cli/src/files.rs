//! Files that a user names: an error names the file too, and each command says which exit code it is.

use std::path::Path;

/// A write beyond `ulimit -f` is an error from now on, and no longer the end of this process. What it starts has the usual again: a
/// handler, unlike a signal that is ignored, does not outlive `exec`.
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

pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let path = path.as_ref();
    results::store::write_whole(path, bytes.as_ref()).map_err(|error| {
        crate::exit::unwritable(format!("cannot write {}: {error}", path.display()))
    })
}
