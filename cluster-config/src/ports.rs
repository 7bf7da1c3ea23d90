//! Finds a port that is free on every address of a layout, and reserves it against the user's other runs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rand::RngExt;

use crate::ClusterError;
use crate::server::non_empty_var;

/// Below the ephemeral range of Linux (32768…), so that no outgoing connection sits on a chosen port.
const FIRST: u16 = 17000;
const LAST: u16 = 31998;

/// A port and those after it, held against this user's other runs for the whole life of a deployment: the
/// port of a killed node would look free to another run just before the node comes back.
#[derive(Debug)]
pub(crate) struct PortLock {
    pub(crate) port: u16,
    /// A byte-range lock at the offset of the port; the kernel lets go of it when the process dies.
    _file: File,
}

/// Finds `count` ports in a row, 2 or more. `listens`: the addresses that a layout on that port would use.
pub(crate) fn reserve(
    wish: Option<u16>,
    count: u16,
    listens: impl Fn(u16) -> Vec<SocketAddr>,
) -> Result<PortLock, ClusterError> {
    if let Some(port) = wish {
        if port == 0 || port > u16::MAX - (count - 1) {
            return Err(ClusterError::invalid(format!(
                "port {port} cannot be used: give one from 1 to {}, or none for a free one",
                u16::MAX - (count - 1)
            )));
        }
        let lock = lock(port, count)?.ok_or_else(|| {
            failed!(
                "port {port} is in use by another deployment of yours; give another port or none, or end it first \
                 (`locklab ps` lists deployments)"
            )
        })?;
        return match first_taken(&listens(port)) {
            None => Ok(lock),
            Some((address, why)) => Err(failed!(
                "port {} is in use: cannot listen on {address}: {why}; give another port or none, or end the program \
                 that listens there (`ss -ltnp 'sport = :{}'` names it)",
                address.port(),
                address.port()
            )),
        };
    }
    let steps = (LAST - FIRST) / count;
    let start = rand::rng().random_range(0..steps);
    for step in 0..steps {
        let port = FIRST + count * ((start + step) % steps);
        if let Some(lock) = lock(port, count)?
            && first_taken(&listens(port)).is_none()
        {
            return Ok(lock);
        }
    }
    Err(failed!("no free port between {FIRST} and {LAST} on 127.0.0.0/8; end some servers, or give a port"))
}

fn first_taken(addresses: &[SocketAddr]) -> Option<(SocketAddr, std::io::Error)> {
    addresses.iter().find_map(|address| Some((*address, TcpListener::bind(address).err()?)))
}

/// Reserves `count` ports from `port` on; `None` if another deployment holds one of them.
fn lock(port: u16, count: u16) -> Result<Option<PortLock>, ClusterError> {
    let path = state_dir()?.join("ports.lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| failed!("cannot open {}: {error}", path.display()))?;
    // Open-file-description locks conflict within one process too, unlike POSIX record locks.
    let range = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(port),
        l_len: libc::off_t::from(count),
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&range)) {
        Ok(_) => Ok(Some(PortLock { port, _file: file })),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(None),
        Err(error) => Err(failed!("cannot lock {}: {error}", path.display())),
    }
}

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
