//! What Linux says about processes and their sockets in `/proc`: the one reader of cluster-config and chaos.
//!
//! Ours and not the crate procfs: that reads only on Linux, so that every caller would need a second form for
//! other systems, and the five small files below take fewer lines than its calls and its errors do. `bench`
//! may not import this crate; it reads the machine's counters, which are other files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks between boot and its start.
    pub start_tick: u64,
}

impl ProcessId {
    /// The process with this number now, if any.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let start_tick = Stat::read(pid)?.start_tick;
        Some(ProcessId { pid, start_tick })
    }

    /// This process.
    pub fn own() -> Option<ProcessId> {
        ProcessId::of(std::process::id())
    }

    /// Whether that very process still runs. One that is dead and not yet reaped does not.
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.start_tick == self.start_tick && !stat.is_dead())
    }

    /// Whether it was started with `name=value` in its environment.
    pub fn has_variable(self, name: &str, value: &str) -> bool {
        let wanted = format!("{name}={value}");
        fs::read(file(self.pid, "environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
    }
}

/// The state letter of a process (`R`, `S`, `T`, …); `None` if it is gone, or dead and not yet reaped.
pub fn process_state(pid: u32) -> Option<char> {
    let stat = Stat::read(pid)?;
    (!stat.is_dead()).then_some(stat.state)
}

/// The processes that a process has started and not yet waited for.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = entries(&file(pid, "task"));
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let words = lists.collect::<Vec<_>>().join(" ");
    words.split_whitespace().flat_map(str::parse).collect()
}

/// The threads of a process and of all that it has started.
pub fn threads(pid: u32) -> Vec<u32> {
    let own = entries(&file(pid, "task")).filter_map(|task| task.file_name().to_str()?.parse().ok());
    own.chain(children(pid).into_iter().flat_map(threads)).collect()
}

/// How long a thread has run, and how long it has waited for a processor while it could run.
pub fn ran_and_waited_ns(thread: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(file(thread, "schedstat")).ok()?;
    let mut fields = text.split_whitespace().flat_map(str::parse);
    Some((fields.next()?, fields.next()?))
}

/// The local addresses of a process's IPv4 connections.
pub fn local_addresses(pid: u32) -> BTreeSet<SocketAddr> {
    let inodes = socket_inodes(pid);
    let own = tcp_sockets().into_iter();
    own.filter(|socket| inodes.contains(&socket.inode)).map(|socket| socket.local).collect()
}

/// A TCP socket of IPv4, or of IPv6 with an IPv4 address in it, as Java uses for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpSocket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// 0 if no process holds it any more.
    pub(crate) inode: u64,
}

pub(crate) fn tcp_sockets() -> Vec<TcpSocket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(tcp_socket).collect()
}

fn tcp_socket(line: &str) -> Option<TcpSocket> {
    // Number, local and remote address, state, queues, timer, retransmits, user, timeout, inode.
    let mut fields = line.split_whitespace().skip(1);
    Some(TcpSocket {
        local: address(fields.next()?)?,
        remote: address(fields.next()?)?,
        inode: fields.nth(6)?.parse().ok()?,
    })
}

/// `0100007F:9C40` is 127.0.0.1:40000; an IPv4 address inside an IPv6 one stands in its last eight digits.
fn address(hex: &str) -> Option<SocketAddr> {
    let (ip, port) = hex.split_once(':')?;
    let ip = u32::from_str_radix(ip.get(ip.len().checked_sub(8)?..)?, 16).ok()?;
    Some((Ipv4Addr::from(ip.to_le_bytes()), u16::from_str_radix(port, 16).ok()?).into())
}

pub(crate) fn socket_inodes(pid: u32) -> BTreeSet<u64> {
    entries(&file(pid, "fd"))
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

pub(crate) fn parents() -> BTreeMap<u32, u32> {
    entries(Path::new("/proc"))
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, Stat::read(pid)?.parent))
        })
        .collect()
}

/// What is in a directory; nothing where it cannot be read.
pub(crate) fn entries(dir: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten()
}

fn file(pid: u32, name: &str) -> PathBuf {
    format!("/proc/{pid}/{name}").into()
}

/// What `/proc/<pid>/stat` says, as far as it is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    start_tick: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        parse_stat(&fs::read_to_string(file(pid, "stat")).ok()?)
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses and may itself hold blanks and parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        // State is field 3 and the parent field 4; 17 more lie between it and field 22.
        start_tick: fields.nth(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (odd ) name) S 7 3 3 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 987654 1000 10";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.start_tick), ('S', 7, 987_654));
    }

    #[test]
    fn both_kernel_tables_are_understood() {
        let four =
            " 0: 0100007F:9C40 0B01007F:4268 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1";
        let six = four
            .replace("0100007F:9C40", "0000000000000000FFFF00000100007F:9C40")
            .replace("0B01007F:4268", "0000000000000000FFFF00000B01007F:4268");
        for line in [four, &six] {
            let expected = TcpSocket {
                local: "127.0.0.1:40000".parse().unwrap(),
                remote: "127.0.1.11:17000".parse().unwrap(),
                inode: 4711,
            };
            assert_eq!(tcp_socket(line), Some(expected));
        }
        assert_eq!(tcp_socket("  sl  local_address rem_address   st"), None);
    }
}
