//! A TCP, TLS or Unix stream: a half for reading and a half that several tasks may write to.
use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

use super::super::tls::{Session, TlsStream};
use crate::machine::Simulated;

#[derive(Debug)]
pub(in crate::topology) enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
    Simulated(Simulated),
}

/// Any of them, for who reads and writes by one task.
pub(in crate::topology) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

pub(super) enum ReadHalf {
    Plain(Box<dyn AsyncRead + Unpin + Send>),
    Tls(Arc<Session>),
}

#[derive(Debug)]
pub(super) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Tls(Arc<Session>),
    Unix(unix::OwnedWriteHalf),
    Simulated(Simulated),
}

impl Socket {
    pub(in crate::topology) fn boxed(self) -> Box<dyn ByteStream> {
        match self {
            Socket::Tcp(stream) => Box::new(stream),
            Socket::Tls(stream) => stream,
            Socket::Unix(stream) => Box::new(stream),
            Socket::Simulated(stream) => Box::new(stream),
        }
    }

    pub(super) fn split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Socket::Tcp(stream) => {
                let (reading, writing) = stream.into_split();
                (ReadHalf::Plain(Box::new(reading)), WriteHalf::Tcp(writing))
            }
            Socket::Tls(stream) => {
                let session = Arc::new(Session::new(*stream));
                (ReadHalf::Tls(Arc::clone(&session)), WriteHalf::Tls(session))
            }
            Socket::Unix(stream) => {
                let (reading, writing) = stream.into_split();
                (ReadHalf::Plain(Box::new(reading)), WriteHalf::Unix(writing))
            }
            Socket::Simulated(stream) => {
                (ReadHalf::Plain(Box::new(stream.clone())), WriteHalf::Simulated(stream))
            }
        }
    }
}

impl ReadHalf {
    /// Reads what is there; nothing at the end of the stream.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            ReadHalf::Plain(half) => Pin::new(half).poll_read(context, buffer),
            ReadHalf::Tls(session) => session.poll_read(context, buffer),
        }
    }
}

impl WriteHalf {
    /// Writes as much as fits, from any task.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WriteHalf::Tcp(half) => half.try_write(bytes),
            WriteHalf::Tls(session) => session.try_write(bytes),
            WriteHalf::Unix(half) => half.try_write(bytes),
            WriteHalf::Simulated(stream) => stream.try_write(bytes),
        }
    }

    /// Whether something that was written has not left yet: TLS keeps records that did not fit.
    pub(super) fn owes(&self) -> bool {
        match self {
            WriteHalf::Tls(session) => session.owes(),
            WriteHalf::Tcp(_) | WriteHalf::Unix(_) | WriteHalf::Simulated(_) => false,
        }
    }

    /// Completes when nothing is owed; for one task at a time.
    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            WriteHalf::Tls(session) => session.poll_flush(context),
            WriteHalf::Tcp(_) | WriteHalf::Unix(_) | WriteHalf::Simulated(_) => Poll::Ready(Ok(())),
        }
    }

    /// Completes when something may fit; for one task at a time.
    pub(super) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            WriteHalf::Tcp(half) => half.as_ref().poll_write_ready(context),
            WriteHalf::Tls(session) => session.poll_write_ready(context),
            WriteHalf::Unix(half) => half.as_ref().poll_write_ready(context),
            WriteHalf::Simulated(_) => Poll::Ready(Ok(())),
        }
    }

    /// Tells the other end that nothing more comes. Who had this connection lets go of it only with the next
    /// request.
    pub(super) fn shut_down(&self) {
        let _ = self.socket().map(|socket| socket.shutdown(Shutdown::Write));
    }

    fn socket(&self) -> Option<SockRef<'_>> {
        match self {
            WriteHalf::Tcp(half) => Some(SockRef::from(half.as_ref())),
            WriteHalf::Tls(session) => Some(SockRef::from(&session.stream)),
            WriteHalf::Unix(half) => Some(SockRef::from(half.as_ref())),
            WriteHalf::Simulated(_) => None,
        }
    }
}

/// A socket closed with bytes unread resets its connection, and a server that meets the reset drops the
/// requests that it has not read yet: of a program that ends after its releases, the last ones.
impl Drop for WriteHalf {
    fn drop(&mut self) {
        const READS_MAX: usize = 64;
        let Some(socket) = self.socket() else { return };
        let mut unread = [MaybeUninit::uninit(); 4096];
        let mut read = || matches!(socket.recv(&mut unread), Ok(1..));
        let _ = (0..READS_MAX).all(|_| read());
    }
}
