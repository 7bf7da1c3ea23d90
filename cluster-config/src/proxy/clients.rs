//! Finds the process that owns the far end of a local TCP connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::sock_diag;
use crate::Party;
use crate::proc_fs::{TcpSocket, parents, socket_inodes, tcp_sockets};

/// The party (with its process number in `pids`) whose process, or a descendant of it, holds the socket that
/// is bound to `peer` and connected to `local`.
pub(super) fn owner(peer: SocketAddr, local: SocketAddr, pids: &BTreeMap<Party, u32>) -> Option<Party> {
    if pids.is_empty() {
        return None;
    }
    let inode = if sock_diag::works() {
        sock_diag::inode(peer, local)?
    } else {
        let mut sockets = tcp_sockets().into_iter();
        let ends = |socket: &TcpSocket| (socket.local, socket.remote) == (peer, local);
        sockets.find(|socket| ends(socket) && socket.inode != 0)?.inode
    };
    let holds = |pid: u32| socket_inodes(pid).contains(&inode);
    if let Some((party, _)) = pids.iter().find(|(_, pid)| holds(**pid)) {
        return Some(party.clone());
    }
    // A driver may be a script that starts the real program.
    let parents = parents();
    let holder = parents.keys().copied().find(|pid| {
        ancestors(*pid, &parents).any(|ancestor| pids.values().any(|named| *named == ancestor)) && holds(*pid)
    })?;
    ancestors(holder, &parents).find_map(|ancestor| {
        let (party, _) = pids.iter().find(|(_, pid)| **pid == ancestor)?;
        Some(party.clone())
    })
}

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
    fn a_socket_of_this_process_is_found_and_others_are_not_blamed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let own = std::process::id();
        let third = Party::Client(3);
        let named = BTreeMap::from([(third.clone(), own)]);
        assert_eq!(owner(peer, local, &named), Some(third));
        assert_eq!(owner(peer, local, &BTreeMap::new()), None);
        // Nothing descends from a process that does not exist.
        assert_eq!(owner(peer, local, &BTreeMap::from([(Party::Client(1), u32::MAX - 1)])), None);
    }
}
