//! What simulated clients find in the place of their machine: connections over the network, and the process
//! that they are.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use futures_util::{FutureExt as _, future::BoxFuture};
use lock_core::machine;
use tokio::io::ReadBuf;

use super::{Event, Network, Phase};
use crate::runtime::process::Process;

pub(crate) struct Machine(pub(crate) Arc<Network>);

impl machine::Machine for Machine {
    fn lookup(&self, name: &str) -> Option<String> {
        self.0.with(|state| state.lookup(name))
    }

    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Arc<dyn machine::Stream>>> {
        let network = Arc::clone(&self.0);
        let (process, address) = (Process::running(), format!("{host}:{port}"));
        async move {
            let client = process.map_or_else(String::new, |process| process.name.clone());
            let number = network.with(|state| state.dial(client, &address, None));
            let stream = Stream { network, number };
            std::future::poll_fn(|context| stream.poll_dialled(context)).await?;
            Ok(Arc::new(stream) as Arc<dyn machine::Stream>)
        }
        .boxed()
    }

    fn process(&self) -> Arc<dyn machine::Process> {
        // A task whose process has ended does nothing any more.
        Process::running().unwrap_or_else(|| {
            let nobody = Process::new("");
            nobody.kill();
            nobody
        })
    }
}

struct Stream {
    network: Arc<Network>,
    number: u64,
}

impl Stream {
    fn poll_dialled(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.network.with(|state| {
            let gone = || Err(io::ErrorKind::ConnectionReset.into());
            let Some(own) = state.connections.get_mut(&self.number) else { return Poll::Ready(gone()) };
            match own.phase {
                Phase::Open => Poll::Ready(Ok(())),
                Phase::Refused => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
                Phase::Closed | Phase::Reset => Poll::Ready(gone()),
                Phase::Dialling => {
                    own.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

impl machine::Stream for Stream {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.network.state();
        let Some(own) = state.connections.get_mut(&self.number) else { return Poll::Ready(Ok(())) };
        if !own.received.is_empty() {
            let length = own.received.len().min(buffer.remaining());
            let (first, second) = own.received.as_slices();
            let head = length.min(first.len());
            buffer.put_slice(&first[..head]);
            buffer.put_slice(&second[..length - head]);
            own.received.drain(..length);
            return Poll::Ready(Ok(()));
        }
        match own.phase {
            Phase::Open | Phase::Dialling => {
                own.reader = Some(context.waker().clone());
                Poll::Pending
            }
            Phase::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Phase::Closed | Phase::Refused => Poll::Ready(Ok(())),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.network.with(|state| {
            let own = state.connections.get(&self.number);
            if !own.is_some_and(|own| own.phase == Phase::Open) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            state.send(self.number, true, Event::Request(self.number, bytes.to_vec()));
            Ok(())
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        (self.network).with(|state| state.send(self.number, true, Event::Hangup(self.number)));
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("number", &self.number).finish_non_exhaustive()
    }
}
