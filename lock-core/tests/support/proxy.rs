//! A proxy before a server that answers commands by itself, hangs up at them, or swallows them.
use std::{
    io::{BufRead, BufReader, Write, copy},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// What becomes of one command.
pub enum Passage {
    Forwarded,
    /// Answered with an error, in its turn.
    Refused(String),
    /// Answered, in its turn, with what this expression of Lua is.
    Said(&'static str),
    /// Never answered.
    Swallowed,
    /// The connection ends.
    HungUp,
}

/// Where the proxy listens. It ends with the test.
pub struct Proxy {
    pub port: u16,
}

impl Proxy {
    /// `passage` is asked for each command, by its words, in upper case.
    pub fn before(
        server: SocketAddr,
        passage: impl Fn(&[String]) -> Passage + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let passage = Arc::new(passage);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let passage = Arc::clone(&passage);
                thread::spawn(move || relay(client, server, &*passage));
            }
        });
        Proxy { port }
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }
}

/// Carries one connection until either end closes it, or a command ends it.
fn relay(client: TcpStream, server: SocketAddr, passage: &dyn Fn(&[String]) -> Passage) {
    let Ok(mut there) = TcpStream::connect(server) else { return };
    let (Ok(mut answers), Ok(mut back)) = (there.try_clone(), client.try_clone()) else { return };
    thread::spawn(move || {
        let _ = copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut reader = BufReader::new(&client);
    while let Some(words) = command(&mut reader) {
        let upper: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).to_uppercase()).collect();
        let words = match passage(&upper) {
            Passage::Forwarded => words,
            // The server says it for the proxy, so that it comes in its turn.
            Passage::Refused(error) => {
                let reply = "return redis.error_reply(ARGV[1])";
                ["EVAL", reply, "0", &error].map(|word| word.as_bytes().to_vec()).to_vec()
            }
            Passage::Said(what) => {
                let reply = format!("return {what}");
                ["EVAL", &reply, "0"].map(|word| word.as_bytes().to_vec()).to_vec()
            }
            Passage::Swallowed => continue,
            Passage::HungUp => break,
        };
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        if there.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = there.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

/// The words of the next command; nothing at the end of the stream.
fn command(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let count = number(reader, '*')?;
    (0..count)
        .map(|_| {
            let mut word = vec![0; number(reader, '$')? + 2];
            reader.read_exact(&mut word).ok()?;
            word.truncate(word.len() - 2);
            Some(word)
        })
        .collect()
}

fn number(reader: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.strip_prefix(sign)?.trim_end().parse().ok()
}
