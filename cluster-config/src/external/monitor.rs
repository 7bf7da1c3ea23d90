//! Listens to what somebody's servers run, by MONITOR, and asks them single things. Reads only.

use std::io;
use std::net::SocketAddr;

use redis::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};

use super::discover::{ANSWER, discover, resolved};
use super::{External, SecureStream};
use crate::access::Dial;
use crate::node_commands::{ask, items, text};
use crate::{ClusterError, Role};

/// A line of MONITOR longer than this is cut off: the rest of it is passed over.
const LINE_MAX: u64 = 1 << 20;

/// What a server runs, line by line. Ends when it is dropped.
pub struct MonitorStream {
    lines: BufReader<Box<dyn SecureStream>>,
}

impl std::fmt::Debug for MonitorStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitorStream").finish_non_exhaustive()
    }
}

impl MonitorStream {
    async fn open(dial: &Dial) -> io::Result<MonitorStream> {
        let stream: Box<dyn SecureStream> = match (&dial.socket, &dial.tls) {
            (Some(path), _) => Box::new(UnixStream::connect(path).await?),
            (None, tls) => {
                let stream = TcpStream::connect(dial.address).await?;
                match tls {
                    Some(tls) => tls.0.connect(&dial.address.ip().to_string(), stream).await?,
                    None => Box::new(stream),
                }
            }
        };
        let mut lines = BufReader::with_capacity(1 << 18, stream);
        if let Some(password) = &dial.password {
            let mut words = vec!["AUTH"];
            words.extend(dial.user.as_deref());
            words.push(password.reveal());
            send(&mut lines, &words).await?;
        }
        // A server that does not know names of connections serves all the same.
        let _ = send(&mut lines, &["CLIENT", "SETNAME", "locklab-watch"]).await;
        send(&mut lines, &["MONITOR"]).await?;
        Ok(MonitorStream { lines })
    }

    /// Reads the next line into `line`, without its end; `false`: the server has closed the connection.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let count = (&mut self.lines).take(LINE_MAX).read_until(b'\n', line).await?;
        if count as u64 == LINE_MAX && line.last() != Some(&b'\n') {
            let mut rest = Vec::new();
            while !rest.ends_with(b"\n") {
                rest.clear();
                if (&mut self.lines).take(LINE_MAX).read_until(b'\n', &mut rest).await? == 0 {
                    return Ok(false);
                }
            }
            line.push(b'\n');
        }
        Ok(count > 0)
    }

    /// Whether more was received already, so that the next line needs no wait.
    pub fn has_more(&self) -> bool {
        !self.lines.buffer().is_empty()
    }
}

/// Sends a command and reads its answer of one line.
async fn send(lines: &mut BufReader<Box<dyn SecureStream>>, words: &[&str]) -> io::Result<()> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let answered = async {
        lines.get_mut().write_all(&command.get_packed_command()).await?;
        let mut answer = Vec::new();
        lines.read_until(b'\n', &mut answer).await?;
        let answer = String::from_utf8_lossy(&answer).trim_end().to_owned();
        match answer.strip_prefix('-') {
            Some(refusal) => Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal.to_owned())),
            None if answer.is_empty() => Err(io::Error::other("the server closed the connection")),
            None => Ok(()),
        }
    };
    let answered = tokio::time::timeout(ANSWER, answered).await;
    answered.unwrap_or_else(|_| Err(io::Error::other(format!("no answer to {}", words[0]))))
}

impl External {
    /// The data servers as they were found, masters first.
    pub fn data_servers(&self) -> Vec<(SocketAddr, Role)> {
        let data = self.found.iter().filter(|one| one.role != Role::Sentinel);
        data.map(|one| (one.address, one.role)).collect()
    }

    /// The replicas that a master says it has: none where its socket is all that is known, and none beyond
    /// this machine where all others are on it.
    pub async fn replicas_of(&self, master: SocketAddr) -> Vec<SocketAddr> {
        let Ok(role) = self.ask_server(master, &["ROLE"]).await else { return Vec::new() };
        let mut replicas = Vec::new();
        for replica in items(&role).get(2).map_or(&[][..], items) {
            if let [host, port, ..] = items(replica)
                && let Ok(address) = resolved(&format!("{}:{}", text(host), text(port))).await
                && self.target.socket.is_none()
                && (address.ip().is_loopback() || !self.is_loopback())
            {
                replicas.push(address);
            }
        }
        replicas
    }

    /// Asks again which servers there are, as after a failover.
    ///
    /// # Errors
    /// Nobody answered, or one is beyond this machine where all others are on it.
    pub async fn find_again(&mut self) -> Result<(), ClusterError> {
        let (topology, found) = discover(&self.target).await?;
        let was_here = self.is_loopback();
        if let Some(far) = found.iter().find(|one| was_here && !one.address.ip().is_loopback()) {
            bail!("the servers lead to {}, which is not on this machine", far.address);
        }
        (self.topology, self.found) = (topology, found);
        Ok(())
    }

    /// How one of the servers is reached.
    pub fn dial(&self, address: SocketAddr) -> Dial {
        self.target.dial(Role::Master, address)
    }

    /// Listens to a server.
    ///
    /// # Errors
    /// It cannot be reached, or does not let this user listen ([`io::ErrorKind::PermissionDenied`]); in its
    /// words.
    pub async fn monitor(&self, address: SocketAddr) -> io::Result<MonitorStream> {
        let dial = self.dial(address);
        let opened = MonitorStream::open(&dial);
        let opened = tokio::time::timeout(ANSWER * 2, opened).await;
        let silent = || format!("no answer to MONITOR within {:?}", ANSWER * 2);
        opened.unwrap_or_else(|_| Err(io::Error::other(silent())))
    }

    /// Asks a server one thing, over a connection of its own.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask_server(&self, address: SocketAddr, words: &[&str]) -> Result<Value, String> {
        ask(&self.dial(address), words, ANSWER).await.map_err(String::from)
    }
}
