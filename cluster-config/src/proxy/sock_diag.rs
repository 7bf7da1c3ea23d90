//! Asks the kernel for one TCP socket by its two ends, through its socket diagnostics, as `ss` does: some
//! microseconds, where reading the whole table of sockets in `/proc` takes milliseconds.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::OnceLock;

/// Whether the kernel answers. Built without, it says the same as of a socket that is not there.
pub(crate) fn works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let address = listener.as_ref().ok().and_then(|own| own.local_addr().ok());
        let nobody = (Ipv4Addr::UNSPECIFIED, 0).into();
        address.is_some_and(|address| inode(address, nobody).is_some())
    })
}

/// The inode of the IPv4 socket (or one of IPv6 with IPv4 addresses) bound to `local` and connected to
/// `remote`. `None`: there is none, no process holds it, or the kernel does not answer.
pub(crate) fn inode(local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    match (local, remote) {
        (SocketAddr::V4(local), SocketAddr::V4(remote)) => answered(&question(local, remote)),
        _ => None,
    }
}

/// `struct nlmsghdr`, then `struct inet_diag_req_v2`; numbers in the machine's order where it has to be.
fn question(local: SocketAddrV4, remote: SocketAddrV4) -> Vec<u8> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const AF_INET: u8 = 2;
    const IPPROTO_TCP: u8 = 6;
    const LENGTH: u32 = 16 + 56;
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // The message's number and its sender: one question, one answer.
    bytes.extend([0; 8]);
    bytes.extend([AF_INET, IPPROTO_TCP, 0, 0]);
    // In whatever state it is.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        bytes.extend(address.ip().octets());
        bytes.extend([0; 12]);
    }
    // On any interface, and whatever its cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

/// Sends the question and takes the inode out of the answer.
#[cfg(target_os = "linux")]
fn answered(question: &[u8]) -> Option<u64> {
    use std::os::fd::AsRawFd as _;

    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

    let kernel =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)
            .ok()?;
    send(kernel.as_raw_fd(), question, MsgFlags::empty()).ok()?;
    let mut answer = [0; 1024];
    // The kernel answers while it is asked.
    let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT).ok()?;
    let answer = &answer[..length];
    // Where no connection has these ends, a listener at the first is named, which has no other end.
    let same_ends = answer.get(20..24)? == &question[24..28];
    same_ends.then(|| inode_in(answer))?
}

/// Elsewhere there is nobody to ask.
#[cfg(not(target_os = "linux"))]
fn answered(_question: &[u8]) -> Option<u64> {
    None
}

/// The last of the numbers of `struct inet_diag_msg`, after the header; an error is shorter.
#[cfg(target_os = "linux")]
fn inode_in(answer: &[u8]) -> Option<u64> {
    let inode: [u8; 4] = answer.get(16 + 68..16 + 72)?.try_into().ok()?;
    Some(u64::from(u32::from_ne_bytes(inode))).filter(|inode| *inode != 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn one_socket_is_found_by_its_ends_and_a_closed_one_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        let answer = inode(peer, local).map(|inode| format!("socket:[{inode}]"));
        // Where the kernel cannot be asked, the table of sockets is read instead.
        assert_eq!(answer.as_deref(), link.to_str().filter(|_| works()));
        // The listener is no connection.
        assert_eq!(inode(local, peer), None);
    }
}
