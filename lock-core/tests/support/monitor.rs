//! What clients sent and scripts called, by the server's MONITOR.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use super::{PATIENCE, Server};

/// What clients send, and what scripts call, line by line.
pub struct Monitor(BufReader<TcpStream>);

impl Monitor {
    pub fn start(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(b"MONITOR\r\n").expect("written");
        let mut monitor = Monitor(BufReader::new(stream));
        assert_eq!(monitor.line(), "+OK");
        monitor
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// The words of what was sent and called until a client echoes `end`; health checks left out.
    pub fn until_echo(&mut self, server: &Server) -> Vec<(bool, Vec<String>)> {
        server.ok(&["ECHO", "the end"]);
        let mut all = Vec::new();
        loop {
            let line = self.line();
            let (head, words) = line.split_once("] ").expect("a transcript line");
            let words: Vec<_> = words.trim_matches('"').split("\" \"").map(str::to_owned).collect();
            match words[0].to_uppercase().as_str() {
                "ECHO" => return all,
                "PING" => {}
                _ => all.push((head.ends_with("lua"), words)),
            }
        }
    }
}

/// What was sent, without what scripts called.
pub fn sent(all: &[(bool, Vec<String>)]) -> Vec<&[String]> {
    let sent = all.iter().filter(|(inner, _)| !inner);
    sent.map(|(_, words)| &words[..]).collect()
}
