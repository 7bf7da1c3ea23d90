//! Turns a TCP or Unix stream into a half for reading and a half that several tasks may write to.
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{TcpStream, UnixStream, tcp, unix},
};

/// A connected stream.
#[derive(Debug)]
pub(in crate::topology) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
pub(super) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

#[derive(Debug)]
pub(super) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

impl Socket {
    pub(super) fn split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Socket::Tcp(stream) => {
                let (reading, writing) = stream.into_split();
                (ReadHalf::Tcp(reading), WriteHalf::Tcp(writing))
            }
            Socket::Unix(stream) => {
                let (reading, writing) = stream.into_split();
                (ReadHalf::Unix(reading), WriteHalf::Unix(writing))
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
            ReadHalf::Tcp(half) => Pin::new(half).poll_read(context, buffer),
            ReadHalf::Unix(half) => Pin::new(half).poll_read(context, buffer),
        }
    }
}

impl WriteHalf {
    /// Writes as much as fits, from any task.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WriteHalf::Tcp(half) => half.try_write(bytes),
            WriteHalf::Unix(half) => half.try_write(bytes),
        }
    }

    /// Completes when something may fit; for one task at a time.
    pub(super) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            WriteHalf::Tcp(half) => half.as_ref().poll_write_ready(context),
            WriteHalf::Unix(half) => half.as_ref().poll_write_ready(context),
        }
    }
}
