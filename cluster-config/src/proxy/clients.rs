//! Turns the two addresses of a local TCP connection into the client process that owns its far end.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use crate::proc_fs::Stat;

/// The client (number to process number in `pids`) whose process, or a descendant of it, holds the socket that is bound
/// to `peer` and connected to `local`.
pub(super) fn owner(peer: SocketAddr, local: SocketAddr, pids: &BTreeMap<u32, u32>) -> Option<u32> {
    if pids.is_empty() {
        return None;
    }
    let socket = format!("socket:[{}]", inode(peer, local)?);
    let direct = pids.iter().find(|(_, pid)| holds(**pid, &socket));
    if let Some((client, _)) = direct {
        return Some(*client);
    }
    // A driver may be a script that starts the real program.
    let parents = parents();
    let holder = parents.keys().copied().find(|pid| {
        ancestors(*pid, &parents).any(|ancestor| pids.values().any(|named| *named == ancestor))
            && holds(*pid, &socket)
    })?;
    ancestors(holder, &parents).find_map(|ancestor| {
        let client = pids.iter().find(|(_, pid)| **pid == ancestor)?;
        Some(*client.0)
    })
}

/// The socket's number, from the kernel's tables. A program that uses IPv6 sockets for everything, as Java does, is
/// listed in the second.
fn inode(bound_to: SocketAddr, connected_to: SocketAddr) -> Option<u64> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|path| find_inode(&fs::read_to_string(path).ok()?, bound_to, connected_to))
}

fn find_inode(table: &str, bound_to: SocketAddr, connected_to: SocketAddr) -> Option<u64> {
    let (bound_to, connected_to) = (hex(bound_to)?, hex(connected_to)?);
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // An IPv4 address inside an IPv6 one stands in its last eight digits.
        let matches =
            fields.next()?.ends_with(&bound_to) && fields.next()?.ends_with(&connected_to);
        // State, queues, timer, retransmits, user and timeout lie before the inode.
        let inode = fields.nth(6)?.parse().ok()?;
        (matches && inode != 0).then_some(inode)
    })
}

/// `127.0.0.1:6379` as the kernel prints it: the address as a little-endian word.
fn hex(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(ip) => {
            let word = u32::from_le_bytes(ip.octets());
            Some(format!("{word:08X}:{:04X}", address.port()))
        }
        IpAddr::V6(_) => None,
    }
}

fn holds(pid: u32, socket: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == socket))
}

/// Every process and its parent.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, Stat::read(pid)?.parent))
        })
        .collect()
}

/// A process's parent, its parent, and so on.
fn ancestors(pid: u32, parents: &BTreeMap<u32, u32>) -> impl Iterator<Item = u32> {
    std::iter::successors(parents.get(&pid).copied(), |pid| parents.get(pid).copied())
        .take_while(|pid| *pid != 0)
        // The table is not one moment's: numbers reused meanwhile could make a ring.
        .take(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_kernel_tables_are_understood() {
        let peer = "127.0.0.1:40000".parse().unwrap();
        let local = "127.0.1.11:17000".parse().unwrap();
        let four = "head\n 0: 0100007F:9C40 0B01007F:4268 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n";
        assert_eq!(find_inode(four, peer, local), Some(4711));
        let six = four
            .replace("0100007F:9C40", "0000000000000000FFFF00000100007F:9C40")
            .replace("0B01007F:4268", "0000000000000000FFFF00000B01007F:4268");
        assert_eq!(find_inode(&six, peer, local), Some(4711));
        assert_eq!(find_inode(four, local, peer), None);
    }

    #[test]
    fn a_socket_of_this_process_is_found_and_others_are_not_blamed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let own = std::process::id();
        assert_eq!(owner(peer, local, &BTreeMap::from([(3, own)])), Some(3));
        assert_eq!(owner(peer, local, &BTreeMap::new()), None);
        // Nothing descends from a process that does not exist.
        assert_eq!(
            owner(peer, local, &BTreeMap::from([(1, u32::MAX - 1)])),
            None
        );
    }
}
