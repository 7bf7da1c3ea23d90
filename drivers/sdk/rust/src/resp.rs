//! Commands to a Redis server, as few as the template needs.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

use crate::locklab::Ending;

/// A server, by host:port.
pub(crate) struct Resp(pub(crate) String);

impl Resp {
    /// One command on a connection of its own; the first line of the reply.
    pub(crate) async fn command(&self, words: &[&str]) -> Result<String, Ending> {
        let failed = |why: &dyn std::fmt::Display| Ending::Failed(format!("not sent: {why}"));
        let connected = timeout(Duration::from_secs(2), TcpStream::connect(&self.0)).await;
        let connected = connected.map_err(|late| failed(&late))?;
        let mut connection = BufReader::new(connected.map_err(|error| failed(&error))?);
        let mut line = format!("*{}\r\n", words.len());
        for word in words {
            line += &format!("${}\r\n{word}\r\n", word.len());
        }
        connection.write_all(line.as_bytes()).await?;
        let mut reply = String::new();
        timeout(Duration::from_secs(3), connection.read_line(&mut reply)).await??;
        match reply.strip_suffix("\r\n") {
            Some(reply) if reply.starts_with('-') => Err(Ending::Failed(format!("the server said {reply}"))),
            Some(reply) => Ok(reply.to_owned()),
            None => Err(Ending::Unknown("the server closed the connection".into())),
        }
    }
}
