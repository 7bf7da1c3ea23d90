//! Writes a file as a whole or not at all.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes `bytes` to `path` through a temporary file beside it, synced and renamed: a reader, or a crash,
/// sees the old contents or the new ones. The directory is synced too: the name survives a power cut.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.as_file_mut().write_all(bytes))
}

/// The same of what `fill` writes to the temporary file, and finds good there.
pub(crate) fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut NamedTempFile) -> io::Result<()>,
) -> io::Result<()> {
    let directory = folder(path);
    let mut file = tempfile::Builder::new()
        .prefix(".writing-")
        // The default is for secrets (0600); reports are for everybody, as far as the umask lets them.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    fill(&mut file)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
