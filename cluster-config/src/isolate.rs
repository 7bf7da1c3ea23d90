//! Moves this process into a network of its own, in which no port collides and packets between servers can be dropped.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
#[cfg(target_os = "linux")]
use std::{fs, net::UdpSocket, os::fd::AsRawFd as _};

#[cfg(target_os = "linux")]
use nix::{
    libc,
    sched::{CloneFlags, unshare},
};

#[cfg(target_os = "linux")]
use crate::state_dir;
use crate::{ClusterError, Node};

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
    LOCK_FILE.get_or_init(|| meeting_place.join("xtables.lock"));
    let (cuts_packets, note) = match iptables(&["-w", "-n", "-L", "INPUT"]) {
        Ok(_) => (
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

/// Where iptables locks against itself; its usual place is not writable for everybody.
static LOCK_FILE: OnceLock<PathBuf> = OnceLock::new();

/// The undo of a packet-level cut. Dropping it heals. TCP notices with its next retransmission, which after a long cut
/// may be a second and more away.
#[must_use = "the cut heals when its guard is dropped"]
#[derive(Debug)]
pub struct PacketGuard(Vec<Rule>);

/// Packets from one address to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule(IpAddr, IpAddr);

impl Rule {
    /// Makes it (`-I`) or takes it away (`-D`).
    fn change(&self, how: &str) -> Result<String, String> {
        let (from, to) = (&*self.0.to_string(), &*self.1.to_string());
        iptables(&[how, "INPUT", "-s", from, "-d", to, "-j", "DROP", "-w"])
    }
}

impl PacketGuard {
    /// Drops every packet from one node to another from now on: between their own addresses, and between each and the
    /// place where the other is announced.
    pub(crate) fn cut(from: &Node, to: &Node) -> Result<PacketGuard, ClusterError> {
        // A failure undoes what was done, by the guard's drop.
        let mut guard = PacketGuard(Vec::new());
        for (source, target) in [
            (from.address, to.address),
            (from.address, to.announced),
            (from.announced, to.address),
        ] {
            let rule = Rule(source.ip(), target.ip());
            if !guard.0.contains(&rule) {
                rule.change("-I")
                    .map_err(|why| failed!("cannot cut {} from {}: {why}", from.name, to.name))?;
                guard.0.push(rule);
            }
        }
        Ok(guard)
    }

    /// Packets dropped so far: the evidence that it took effect.
    pub fn dropped(&self) -> u64 {
        let table = iptables(&["-w", "-n", "-v", "-x", "-L", "INPUT"]).unwrap_or_default();
        let counts = table.lines().filter_map(counted);
        let own = counts.filter(|(_, rule)| self.0.contains(rule));
        own.map(|(packets, _)| packets).sum()
    }

    /// Lets packets pass again.
    ///
    /// # Errors
    /// A rule could not be taken away; the rest of the network's life is then without that link.
    pub fn heal(mut self) -> Result<(), ClusterError> {
        self.lift()
    }

    fn lift(&mut self) -> Result<(), ClusterError> {
        for rule in std::mem::take(&mut self.0) {
            rule.change("-D")
                .map_err(|why| failed!("cannot heal {} -> {}: {why}", rule.0, rule.1))?;
        }
        Ok(())
    }
}

impl Drop for PacketGuard {
    fn drop(&mut self) {
        // Nobody is left to be told; the network ends with this process.
        let _ = self.lift();
    }
}

/// Packets and rule of a line such as `3 156 DROP 0 -- * * 127.0.0.11 127.0.0.12`.
fn counted(line: &str) -> Option<(u64, Rule)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if *words.get(2)? != "DROP" {
        return None;
    }
    let mut addresses = words.iter().skip(3).filter_map(|word| word.parse().ok());
    let rule = Rule(addresses.next()?, addresses.next()?);
    Some((words[0].parse().ok()?, rule))
}

fn iptables(args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("iptables");
    command.args(args).stdin(Stdio::null());
    if let Some(lock_file) = LOCK_FILE.get() {
        command.env("XTABLES_LOCKFILE", lock_file);
    }
    // Root's programs are not in everybody's path.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no iptables; install it with: sudo apt-get install iptables".to_owned()
        }
        _ => format!("iptables: {error}"),
    })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "iptables: {}",
            said.lines().next().unwrap_or("no reason given")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_table_of_either_iptables() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let expected = Some((3, Rule(ip("127.0.0.11"), ip("127.0.0.12"))));
        for (line, expected) in [
            (
                "       3      156 DROP       0    --  *      *       127.0.0.11           127.0.0.12",
                expected,
            ),
            (
                "       3      156 DROP       all  --  *      *       127.0.0.11           127.0.0.12          ",
                expected,
            ),
            ("Chain INPUT (policy ACCEPT 0 packets, 0 bytes)", None),
            (
                "    pkts      bytes target     prot opt in     out     source",
                None,
            ),
        ] {
            assert_eq!(counted(line), expected);
        }
    }
}
