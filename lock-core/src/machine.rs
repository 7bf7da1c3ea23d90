//! What a client has of its machine besides the clock: connections and tasks. They are the runtime's own,
//! unless the thread simulates a machine. Not for users.
//!
//! A simulation [enters](enter) a [`Machine`] of its own on its thread. From then on everything that is
//! dialled or spawned there is the simulation's; everywhere else a call costs one look at a flag. Time and
//! randomness are not here: a simulation answers the calls of the system that give them.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::{fmt, io};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{EnterGuard, Handle, RuntimeFlavor, TryCurrentError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A simulated machine, as code that runs on it sees it.
pub trait Machine: Send + Sync {
    /// What a name means now, both with their port; nothing where it means nothing.
    fn lookup(&self, name: &str) -> Option<String>;
    /// Connects the running process to an address, or to what a name means.
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Arc<dyn Stream>>>;
    /// The running process, to which a new task belongs.
    fn process(&self) -> Arc<dyn Process>;
}

/// A connection. Several tasks may write to it, one reads. To drop it closes it.
pub trait Stream: fmt::Debug + Send + Sync {
    /// Reads what is there; nothing at the end of the stream.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
    /// Takes all bytes: what lies between the two ends has room for everything.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;
}

/// A process whose tasks can all be stopped, and ended.
pub trait Process: Send + Sync {
    /// A task of the process is about to run; `task` is a place in which the process keeps the task's number.
    fn begin(&self, task: &mut Option<u64>, context: &Context<'_>) -> TaskState;
    /// It has run; `over`: it will not again.
    fn end(&self, task: Option<u64>, over: bool);
}

/// Whether a task runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It does.
    Go,
    /// The process is stopped; the task is woken when it goes on.
    Wait,
    /// The process has ended.
    Never,
}

static ENTERED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HERE: RefCell<Option<Arc<dyn Machine>>> = const { RefCell::new(None) };
}

/// Puts a machine in the place of this thread's, until the answer is dropped.
pub fn enter(machine: Arc<dyn Machine>) -> impl Sized {
    ENTERED.store(true, Ordering::Relaxed);
    HERE.set(Some(machine));
    MachineGuard
}

struct MachineGuard;

impl Drop for MachineGuard {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

fn here() -> Option<Arc<dyn Machine>> {
    if ENTERED.load(Ordering::Relaxed) { HERE.with_borrow(Clone::clone) } else { None }
}

/// What a name means now, both with their port; nothing where it means nothing.
pub async fn lookup(name: &str) -> Option<String> {
    match here() {
        Some(machine) => machine.lookup(name),
        None => {
            let found = tokio::net::lookup_host(name).await;
            found.ok()?.next().map(|address| address.to_string())
        }
    }
}

/// Why a server was not dialled, behind its address.
pub const ELSEWHERE: &str = "is not on this machine, and the target does not name it";

/// The addresses of a host that nobody named: an error that says [`ELSEWHERE`] unless all of them are on this
/// machine. They are what is to be dialled, since a name may mean something else a moment later.
pub async fn addresses_here(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let all: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    match all.iter().all(|address| address.ip().to_canonical().is_loopback()) {
        true => Ok(all),
        false => Err(io::Error::other(format!("{host} {ELSEWHERE}"))),
    }
}

/// A connection of this thread's simulated machine; `None` where there is none.
pub async fn dial(host: &str, port: u16) -> Option<io::Result<Simulated>> {
    let dialled = here()?.dial(host, port);
    Some(dialled.await.map(Simulated))
}

/// Spawns on the runtime of the caller, as a task of the running process.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    spawn_on(&Handle::current(), work)
}

fn spawn_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    match here() {
        None => runtime.spawn(work),
        Some(machine) => runtime.spawn(in_process(machine.process(), work)),
    }
}

/// The runtime on which a client was made. It carries the client's connections, subscriptions and renewals,
/// whichever runtime asks for them, and the caller's stands in for it once it has ended.
#[derive(Debug, Clone)]
pub(crate) struct ClientRuntime {
    handle: Handle,
    /// Its sender is owned by a task that lasts as long as the runtime or the last clone of this.
    running: watch::Receiver<()>,
}

impl ClientRuntime {
    /// The runtime that this is called on. Fails outside of one.
    pub(crate) fn current() -> Result<Self, TryCurrentError> {
        let handle = Handle::try_current()?;
        let (sender, running) = watch::channel(());
        spawn_on(&handle, async move { sender.closed().await });
        Ok(ClientRuntime { handle, running })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.running.has_changed().is_err()
    }

    pub(crate) async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    pub(crate) fn is_current(&self) -> bool {
        Handle::try_current().is_ok_and(|current| current.id() == self.handle.id())
    }

    /// Makes it the caller's runtime until the answer is dropped.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Spawns on it, or on the caller's runtime, if there is one, once it has ended.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let substitute = self.has_ended().then(|| Handle::try_current().ok());
        spawn_on(substitute.flatten().as_ref().unwrap_or(&self.handle), work)
    }
}

/// Whether a simulation stands in the place of the machine, in which work is done by tasks alone.
pub(crate) fn is_simulated() -> bool {
    here().is_some()
}

/// Moves what was woken or spawned last from the worker's LIFO slot to its queue. Idle workers of a
/// multi-threaded runtime take work from the queue and not from the slot, so that a task that goes on
/// computing would keep it. The slot is left to a task that does nothing.
pub(crate) fn empty_lifo_slot() {
    if is_simulated() {
        return;
    }
    if let Ok(runtime) = Handle::try_current()
        && runtime.runtime_flavor() == RuntimeFlavor::MultiThread
    {
        runtime.spawn(std::future::ready(()));
    }
}

/// A task of a process: it runs while the process does.
pub fn in_process<T>(
    process: Arc<dyn Process>,
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> + Send {
    InProcess { process, task: None, work: Some(Box::pin(work)) }
}

struct InProcess<F> {
    process: Arc<dyn Process>,
    task: Option<u64>,
    work: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for InProcess<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let polled = match (this.process.begin(&mut this.task, context), &mut this.work) {
            (TaskState::Go, Some(work)) => work.as_mut().poll(context),
            (TaskState::Wait, _) | (TaskState::Go, None) => Poll::Pending,
            (TaskState::Never, _) => {
                this.work = None;
                Poll::Pending
            }
        };
        if polled.is_ready() {
            this.work = None;
        }
        this.process.end(this.task, this.work.is_none());
        polled
    }
}

impl<F> Drop for InProcess<F> {
    fn drop(&mut self) {
        if self.work.is_some() {
            // What is dropped may spawn, or close connections: still as its own process.
            self.process.begin(&mut self.task, &Context::from_waker(Waker::noop()));
            self.work = None;
            self.process.end(self.task, true);
        }
    }
}

/// A simulated connection, for code that takes any stream.
#[derive(Debug, Clone)]
pub struct Simulated(Arc<dyn Stream>);

impl Simulated {
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map(|()| bytes.len())
    }
}

impl AsyncRead for Simulated {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(context, buffer)
    }
}

impl AsyncWrite for Simulated {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.try_write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
