//! A TLS session whose handshake is done.
use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll, ready};

use rustls::ClientConnection;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::sync::Mutex;

/// A TLS session over TCP that one task reads and several write; its handshake is done. Reader and writers
/// take turns at it only to encrypt or decrypt: nobody waits for the network with it.
#[derive(Debug)]
pub(in crate::topology) struct Session {
    pub(in crate::topology) stream: TcpStream,
    state: Mutex<ClientConnection>,
}

impl Session {
    pub(in crate::topology) fn new(stream: TlsStream<TcpStream>) -> Self {
        let (stream, state) = stream.into_inner();
        Session { stream, state: Mutex::new(state) }
    }

    /// Reads what is there; nothing at the end of the stream. For one task at a time.
    pub(in crate::topology) fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            {
                let mut state = self.state.lock();
                match state.reader().read(buffer.initialize_unfilled()) {
                    Ok(read) => {
                        buffer.advance(read);
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
                match state.read_tls(&mut NonBlockingStream(&self.stream)) {
                    Ok(0) => return Poll::Ready(Ok(())),
                    Ok(_) => {
                        if let Err(error) = state.process_new_packets() {
                            // The peer learns why, where the stream takes it.
                            let _ = state.write_tls(&mut NonBlockingStream(&self.stream));
                            return Poll::Ready(Err(io::Error::other(error)));
                        }
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            ready!(self.stream.poll_read_ready(context))?;
        }
    }

    /// Takes as much as fits, from any task. It may still have to be sent: see [`owes`](Self::owes).
    pub(in crate::topology) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        self.send(&mut state)?;
        let taken = state.writer().write(bytes)?;
        match self.send(&mut state) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    pub(in crate::topology) fn owes(&self) -> bool {
        self.state.lock().wants_write()
    }

    /// Sends what is owed. For one task at a time.
    pub(in crate::topology) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let sent = self.send(&mut self.state.lock());
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
            ready!(self.stream.poll_write_ready(context))?;
        }
    }

    /// Completes when something may fit. For one task at a time.
    pub(in crate::topology) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_write_ready(context)
    }

    fn send(&self, state: &mut ClientConnection) -> io::Result<()> {
        while state.wants_write() {
            state.write_tls(&mut NonBlockingStream(&self.stream))?;
        }
        Ok(())
    }
}

/// The stream as the session wants it: what cannot be done now is an error of kind `WouldBlock`.
struct NonBlockingStream<'a>(&'a TcpStream);

impl Read for NonBlockingStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for NonBlockingStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
