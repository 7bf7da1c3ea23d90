//! Moves this process into a network of its own, in which no port collides and packets between servers can be dropped.

mod filter;

use std::sync::OnceLock;
#[cfg(target_os = "linux")]
use std::{fs, net::UdpSocket, os::fd::AsRawFd as _};

#[cfg(target_os = "linux")]
use nix::{
    libc,
    sched::{CloneFlags, unshare},
};

pub use filter::{PacketEffect, PacketGuard};

#[cfg(target_os = "linux")]
use crate::state_dir;

/// The network of its own that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// Whether single links can be cut by dropping packets; else only proxies can harm them.
    pub cuts_packets: bool,
    /// What a reader of the run should know.
    pub note: String,
}

static ENTERED: OnceLock<Isolation> = OnceLock::new();

/// The network of its own that this process has entered, if it has.
pub fn isolation() -> Option<&'static Isolation> {
    ENTERED.get()
}

/// Enters a network namespace with nothing in it but loopback, as root or in a user namespace of its own. To be called
/// before the first thread is started, since a namespace is entered by the calling thread and those it starts later.
///
/// # Errors
/// Why the kernel refuses, in a sentence; then nothing has changed.
#[cfg(target_os = "linux")]
pub fn isolate() -> Result<&'static Isolation, String> {
    if let Some(entered) = ENTERED.get() {
        return Ok(entered);
    }
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    // Inside a user namespace the user has another number: where runs meet is settled before.
    let meeting_place = state_dir::state_dir().map_err(|error| error.to_string())?;
    let as_root = uid.is_root() && unshare(CloneFlags::CLONE_NEWNET).is_ok();
    if !as_root {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|error| {
            format!(
                "this kernel gives no network of its own to a program ({error}); as root it may, or after: sysctl \
                 kernel.apparmor_restrict_unprivileged_userns=0 kernel.unprivileged_userns_clone=1"
            )
        })?;
        // Without these the user would be nobody, and could write nowhere.
        fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {uid} 1")))
            .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {gid} 1")))
            .map_err(|error| format!("cannot map the user into a namespace of its own: {error}"))?;
        state_dir::settle(meeting_place.clone());
    }
    loopback_up()
        .map_err(|error| format!("cannot start loopback in a network of its own: {error}"))?;
    let lock_file = meeting_place.join("xtables.lock");
    let (cuts_packets, note) = match filter::probe(&lock_file) {
        Ok(()) => (
            true,
            "links between servers are cut by dropping packets".to_owned(),
        ),
        Err(why) => (
            false,
            format!("links are cut by proxies, since packets cannot be dropped: {why}"),
        ),
    };
    Ok(ENTERED.get_or_init(|| Isolation { cuts_packets, note }))
}

/// Refuses, with the reason.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn isolate() -> Result<&'static Isolation, String> {
    Err(
        "a network of its own is a thing of Linux; run in a container or a virtual machine for it"
            .to_owned(),
    )
}

#[cfg(target_os = "linux")]
fn loopback_up() -> std::io::Result<()> {
    // Any socket will do to talk about interfaces.
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zeros is a valid value of this plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the descriptor is open, and the kernel only reads the structure, which lives until the call returns.
    let done = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
