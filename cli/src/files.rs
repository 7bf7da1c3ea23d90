//! Files that a user names: an error names the file too, and each command says which exit code it is.

use std::path::Path;

/// The text of a file.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file as a whole.
pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let path = path.as_ref();
    results::store::write_whole(path, bytes.as_ref())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
