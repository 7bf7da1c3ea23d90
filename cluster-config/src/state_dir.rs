//! Names the user's own directory in which runs on this machine meet: port locks and the list of deployments.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use crate::ClusterError;
use crate::server::non_empty_var;

/// `$XDG_RUNTIME_DIR/locklab`, else `/tmp/locklab-<uid>`; made if missing, and refused if it belongs to
/// somebody else, because processes are ended by what is read there.
///
/// Directories of deployments that nobody placed elsewhere fit there as well.
pub fn state_dir() -> Result<PathBuf, ClusterError> {
    let uid = nix::unistd::getuid().as_raw();
    let path = match non_empty_var("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("locklab"),
        None => PathBuf::from(format!("/tmp/locklab-{uid}")),
    };
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&path);
    let owner = made.and_then(|()| fs::symlink_metadata(&path));
    let owned = owner.and_then(|found| match found.is_dir() && found.uid() == uid {
        true => Ok(()),
        false => Err(io::Error::other("it belongs to somebody else")),
    });
    owned.map_err(|error| {
        missing!("cannot use {}: {error}; set XDG_RUNTIME_DIR to a directory of your own", path.display())
    })?;
    Ok(path)
}
