//! Files that a user names: an error names the file too, and each command says which exit code it is.

use std::path::Path;

use results::limits;

/// The text of a file.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    let bytes =
        limits::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let (before, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(before);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let (path, found) = (path.display(), rest.first().copied().unwrap_or_default());
        format!(
            "{path}:{line}:{column}: the byte 0x{found:02x} is no UTF-8; save the file as UTF-8"
        )
    })
}

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

/// Writes a file as a whole.
pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let path = path.as_ref();
    results::store::write_whole(path, bytes.as_ref()).map_err(|error| {
        crate::exit::unwritable(format!("cannot write {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_no_text_is_told_its_place() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("x.toml");
        std::fs::write(&path, b"name = \"x\"\nabout = \"\xc3\xa9\xff\"\n").expect("a file");
        let error = read(&path).expect_err("a byte is no text");
        let place = format!("{}:2:11: the byte 0xff", path.display());
        assert!(error.starts_with(&place), "{error}");
    }
}
