//! Without the feature `tls` a target that speaks TLS is refused, and nothing else here is ever made.
use std::convert::Infallible;
use std::io;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

use crate::TlsOptions;
use crate::topology::dial_error::DialError;

#[derive(Clone)]
pub(crate) struct Secure(Infallible);

pub(in crate::topology) type TlsStream<S> = S;

#[derive(Debug)]
pub(in crate::topology) struct Session {
    pub(in crate::topology) stream: TcpStream,
    never: Infallible,
}

impl Secure {
    pub(crate) fn new(_: &TlsOptions) -> Result<Self, String> {
        Err("it speaks TLS, and this program has lock-core without its feature `tls`".to_owned())
    }

    pub(crate) async fn handshake(&self, _: &str, _: TcpStream) -> Result<TlsStream<TcpStream>, DialError> {
        match self.0 {}
    }
}

impl Session {
    pub(in crate::topology) fn new(_: TlsStream<TcpStream>) -> Self {
        unreachable!("no handshake is made")
    }

    pub(in crate::topology) fn poll_read(
        &self,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.never {}
    }

    pub(in crate::topology) fn try_write(&self, _: &[u8]) -> io::Result<usize> {
        match self.never {}
    }

    pub(in crate::topology) fn owes(&self) -> bool {
        match self.never {}
    }

    pub(in crate::topology) fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }

    pub(in crate::topology) fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }
}

#[cfg(test)]
#[test]
fn who_asks_for_it_reads_which_feature_is_missing() {
    let refused = Secure::new(&TlsOptions::default()).err();
    assert!(refused.is_some_and(|why| why.contains("TLS") && why.contains("feature `tls`")));
}
