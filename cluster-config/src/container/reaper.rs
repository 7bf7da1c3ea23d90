//! A small process that outlives this one by seconds: when their pipe closes, it removes the containers.
//!
//! Containers are children of the engine, so no death signal reaches them. The reaper is a fork that runs no
//! other program: all its requests are written before, and it does nothing but read, connect, write and wait,
//! which is what a fork of a program with threads may do. It goes on until containers are gone for good,
//! since a request to create one that was under way when this process died is still obeyed later.

use std::env;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, write};

use crate::ClusterError;

/// The word that tells the reaper that nothing is left to do; without it, the pipe's end means sudden death.
const DONE: &[u8] = b"d";
/// Pause between two rounds of requests.
const ROUND_MS: libc::c_int = 250;
/// So many rounds in a row must find nothing.
const EMPTY_ROUNDS: u32 = 6;
/// After so many rounds it gives up; the next start sweeps.
const MAX_ROUNDS: u32 = 240;

/// The other end of the reaper's pipe. When it closes without [`Reaper::dismiss`], the containers go.
#[derive(Debug)]
pub(crate) struct Reaper {
    pipe: OwnedFd,
    process: Pid,
}

impl Reaper {
    /// Starts watching over containers with these names. `None` if the engine is not reached through a socket
    /// of this machine: then only the next start's sweep removes what a sudden death leaves.
    pub(crate) fn start(containers: &[String]) -> Result<Option<Reaper>, ClusterError> {
        let Some(address) = socket_address() else { return Ok(None) };
        let requests: Vec<Vec<u8>> = containers.iter().map(|name| request(name)).collect();
        let mut sockets: Vec<libc::c_int> = vec![-1; requests.len()];
        let failed =
            |error: nix::Error| failed!("cannot start the process that watches over containers: {error}");
        let (read_end, pipe) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        // SAFETY: until it ends, the child calls async-signal-safe functions only; no memory, no lock.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Parent { child } => Ok(Some(Reaper { pipe, process: child })),
            ForkResult::Child => watch(read_end.into_raw_fd(), &address, &requests, &mut sockets),
        }
    }

    pub(crate) fn dismiss(self) {
        // Fails only if it is gone, and then there is nothing to wait for either.
        if write(&self.pipe, DONE).is_ok() {
            let _ = waitpid(self.process, None);
        }
    }
}

/// What the Docker client would connect to, if that is a socket of this machine.
fn socket_address() -> Option<libc::sockaddr_un> {
    let host = env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let path = match &host {
        Some(host) => host.strip_prefix("unix://")?.to_owned(),
        None => default_socket()?,
    };
    // SAFETY: a sockaddr_un of zeros is a valid value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // One byte stays for the closing zero.
    if path.len() >= address.sun_path.len() {
        return None;
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    Some(address)
}

/// The sockets that testcontainers tries, in its order.
fn default_socket() -> Option<String> {
    let below = |folder: Option<String>, rest: &str| folder.map(|folder| format!("{folder}/{rest}"));
    let home = env::var("HOME").ok();
    let candidates = [
        Some("/var/run/docker.sock".to_owned()),
        below(env::var("XDG_RUNTIME_DIR").ok(), ".docker/run/docker.sock"),
        below(home.clone(), ".docker/run/docker.sock"),
        below(home, ".docker/desktop/docker.sock"),
    ];
    candidates.into_iter().flatten().find(|path| std::path::Path::new(path).exists())
}

fn request(container: &str) -> Vec<u8> {
    format!(
        "DELETE /containers/{container}?force=true&v=true HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

/// The child's whole life.
fn watch(
    pipe: libc::c_int,
    address: &libc::sockaddr_un,
    requests: &[Vec<u8>],
    sockets: &mut [libc::c_int],
) -> ! {
    // SAFETY: system calls on plain values and on memory made before the fork, which nobody changes.
    unsafe {
        // Signals to the terminal's group or to the session are not meant for it.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"locklab-reaper".as_ptr());
        // It must keep nothing else open: not a reader's pipe, not a lock, not another reaper's pipe.
        libc::dup2(pipe, 0);
        if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) != 0 {
            for fd in 1..4096 {
                libc::close(fd);
            }
        }
        if !was_dismissed() {
            let mut empty_rounds = 0;
            let mut rounds = 0;
            while empty_rounds < EMPTY_ROUNDS && rounds < MAX_ROUNDS {
                // All at once, since the engine takes its time over each.
                for (socket, request) in sockets.iter_mut().zip(requests) {
                    *socket = ask(address, request);
                }
                let mut found = false;
                for socket in sockets.iter() {
                    found |= engine_knows(*socket);
                }
                empty_rounds = if found { 0 } else { empty_rounds + 1 };
                rounds += 1;
                libc::poll(std::ptr::null_mut(), 0, ROUND_MS);
            }
        }
        libc::_exit(0)
    }
}

/// Waits for the pipe's end; whether the word came before it.
unsafe fn was_dismissed() -> bool {
    let mut byte = 0_u8;
    loop {
        // SAFETY: one byte is read into a variable of one byte.
        match unsafe { libc::read(0, (&raw mut byte).cast(), 1) } {
            0 => return false,
            1.. => return true,
            // Reading errno is async-signal-safe and allocates nothing.
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return false,
        }
    }
}

/// Sends one request; returns the socket on which its answer will come, or -1.
unsafe fn ask(address: &libc::sockaddr_un, request: &[u8]) -> libc::c_int {
    // SAFETY: the pointers are to memory of the lengths given.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        if socket < 0 {
            return -1;
        }
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let connected = libc::connect(socket, (&raw const *address).cast(), length) == 0;
        let (bytes, count) = (request.as_ptr().cast(), request.len());
        if connected && libc::send(socket, bytes, count, libc::MSG_NOSIGNAL) == count as isize {
            return socket;
        }
        libc::close(socket);
        -1
    }
}

/// Waits for the answer; whether the engine knew the container, or could not be asked.
unsafe fn engine_knows(socket: libc::c_int) -> bool {
    // "HTTP/1.1 404" is the answer to everything that is not there; any other comes when a removal has ended.
    let mut answer = [0_u8; 12];
    // SAFETY: at most as many bytes are written as the buffer has.
    unsafe {
        let length = libc::recv(socket, answer.as_mut_ptr().cast(), answer.len(), libc::MSG_WAITALL);
        libc::close(socket);
        length != 12 || &answer[9..12] != b"404"
    }
}
