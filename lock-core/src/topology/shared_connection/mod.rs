//! Many tasks on one connection: one stream of requests, and each reply to the task that asked.
//!
//! A connection of the client library costs a queue of messages, a channel for each reply, a timer for each
//! request and two changes of task on the way out. Here a request is written straight into the connection's
//! buffer, and one timer for each connection looks after all deadlines.
//!
//! The task whose request is the last of a batch writes the batch. A batch is a [`BATCHES`]th of what is
//! under way, so that the server works on the first requests of a burst while the tasks are still asking the
//! others; the only request on an idle line is a batch by itself. What is short of a batch after one turn of
//! the scheduler is written by the driver.
//!
//! | file | what it is for |
//! |---|---|
//! | `driver.rs` | the task that writes requests and hands out replies |
//! | `frame.rs` | replies from bytes |
//! | `socket.rs` | TCP, TLS or Unix, in two halves |
//! | `timekeeper.rs` | deadlines, and PING on an idle connection |

mod driver;
mod frame;
mod socket;
#[cfg(test)]
mod tests;
mod timekeeper;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use redis::Value;

pub(super) use self::frame::ReplyDecoder;
pub(super) use self::socket::{ByteStream, Socket};
use self::{driver::Driver, socket::WriteHalf, timekeeper::Timekeeper};
use crate::sync::{Mutex, Notify};

/// A buffer that grew beyond so many bytes for a burst is not kept, and of places for requests so many.
pub(super) const KEEP: usize = 256 * 1024;
const KEEP_SLOTS: usize = 4096;

/// In so many writes a burst leaves. Of 2 to 12, measured beside `rslock`, 4 to 8 gave the most cycles at 16
/// and 64 tasks, hardly different; the more there are, the fewer requests for a read.
const BATCHES: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// None came in time.
    Silent,
    /// The connection ended before.
    Cut(Arc<str>),
}

/// How an idle line is kept open, and found to lead nowhere.
pub(super) struct IdleProbe {
    /// PING is asked after no longer a silence than this.
    pub(super) quiet: Duration,
    /// The connection ends if PING stays unanswered for so long.
    pub(super) patience: Duration,
    /// Counts the PINGs.
    pub(super) commands: Arc<AtomicU64>,
}

/// One connection, as its users see it.
pub(super) struct SharedConnection {
    socket: WriteHalf,
    ended: AtomicBool,
    /// Something is due before the timekeeper looks again.
    sooner: Notify,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Bytes that nobody has begun to write, and of how many requests.
    out: Vec<u8>,
    unwritten: usize,
    /// How many replies the last read had.
    burst: usize,
    /// Whose replies come next: places in `slots`.
    owed: VecDeque<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The timekeeper looks for passed deadlines then, or before.
    look_at: Option<Instant>,
    driver: Option<Waker>,
    /// The driver has been woken and has not looked yet.
    driver_woken: bool,
    /// Several requests are under way: others are about to ask too, so that waiting a turn saves writes.
    busy: bool,
    /// The driver has taken bytes that it has not written yet.
    writing: bool,
    /// Nobody may be left to poll the driver again: it writes what is left without letting others ask first.
    urgent: bool,
    /// Something has come since the timekeeper looked.
    heard: bool,
    end: Option<Arc<str>>,
}

#[derive(Default)]
struct Slot {
    fate: Fate,
    /// Replies still to come.
    left: u32,
    values: Vec<Value>,
    value: Value,
    deadline: Option<Instant>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Fate {
    Asked,
    /// Nobody waits for the replies any more.
    #[default]
    Abandoned,
    Answered,
    Late,
    Cut,
}

impl SharedConnection {
    /// The connection, the work that carries it, and the work that keeps its time, which ends with the first:
    /// it serves while both are polled, each by a task of its own.
    pub(super) fn new(
        socket: Socket,
        idle: IdleProbe,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static, impl Future<Output = ()> + Send + 'static)
    {
        let (reading, writing) = socket.split();
        let wire = Arc::new(SharedConnection {
            socket: writing,
            ended: AtomicBool::new(false),
            sooner: Notify::new(),
            queue: Mutex::new(Queue::default()),
        });
        let driver = Driver::new(Arc::clone(&wire), reading);
        let timekeeper = Timekeeper::new(Arc::clone(&wire), idle);
        (wire, driver.run(), timekeeper.run())
    }

    /// Whether nothing can be asked any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Asks what `write` appends, in one write; it says how many replies that gets, at least one. Without a
    /// deadline the caller sees to the time. `at_once` writes it here and now, with all that is left to write
    /// before it, unless the driver is about to.
    pub(super) fn ask<W>(&self, write: W, deadline: Option<Instant>, at_once: bool) -> PendingReply<'_, W>
    where
        W: FnOnce(&mut Vec<u8>) -> u32 + Unpin,
    {
        PendingReply { wire: self, step: Step::New(Some(write)), deadline, at_once }
    }

    /// Ends the connection: what is asked stays without an answer.
    pub(super) fn end(&self, why: &str) {
        let mut queue = self.queue.lock();
        if queue.end.is_some() {
            return;
        }
        self.ended.store(true, Ordering::Release);
        queue.end = Some(why.into());
        queue.out = Vec::new();
        let mut wakers = Vec::new();
        for index in std::mem::take(&mut queue.owed) {
            let slot = &mut queue.slots[index as usize];
            slot.left = 0;
            match slot.fate {
                Fate::Asked => {
                    slot.fate = Fate::Cut;
                    wakers.extend(slot.waker.take());
                }
                Fate::Abandoned => queue.free.push(index),
                Fate::Answered | Fate::Late | Fate::Cut => {}
            }
        }
        wakers.extend(queue.driver.take());
        drop(queue);
        self.socket.shut_down();
        wakers.into_iter().for_each(Waker::wake);
        self.sooner.notify_one();
    }
}

impl Queue {
    /// A place for a request; its replies are the next ones that nobody has been promised.
    fn place(&mut self, replies: u32, deadline: Option<Instant>, waker: Waker) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer requests than that fit into memory")
        });
        let slot = &mut self.slots[index as usize];
        slot.fate = Fate::Asked;
        slot.left = replies;
        slot.deadline = deadline;
        slot.waker = Some(waker);
        if replies > 1 {
            slot.values.reserve(replies as usize);
        }
        self.owed.push_back(index);
        index
    }

    /// Asks PING on behalf of nobody.
    fn ping(&mut self) {
        self.out.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
        let index = self.place(1, None, Waker::noop().clone());
        self.slots[index as usize].fate = Fate::Abandoned;
    }

    /// Hands the next reply to whom it is owed; false if nobody asked.
    fn deliver(&mut self, value: Value, wakers: &mut Vec<Waker>) -> bool {
        let Some(&index) = self.owed.front() else {
            return false;
        };
        let slot = &mut self.slots[index as usize];
        slot.left -= 1;
        if slot.fate == Fate::Asked {
            if slot.left == 0 && slot.values.is_empty() {
                slot.value = value;
            } else {
                slot.values.push(value);
            }
        }
        if slot.left == 0 {
            self.owed.pop_front();
            match slot.fate {
                Fate::Asked => {
                    slot.fate = Fate::Answered;
                    wakers.extend(slot.waker.take());
                }
                Fate::Abandoned => self.free.push(index),
                Fate::Answered | Fate::Late | Fate::Cut => {}
            }
        }
        true
    }

    /// What nobody has taken yet may answer something else: its waiters learn that the connection ended.
    fn take_back(&mut self) {
        let answered = self.slots.iter_mut();
        answered.filter(|slot| slot.fate == Fate::Answered).for_each(|slot| slot.fate = Fate::Cut);
    }

    /// Tells those whose time is over, and finds out when to look again.
    fn sweep(&mut self, now: Instant, wakers: &mut Vec<Waker>) {
        let mut next = None;
        for &index in &self.owed {
            let slot = &mut self.slots[index as usize];
            let Some(deadline) = slot.deadline.filter(|_| slot.fate == Fate::Asked) else {
                continue;
            };
            if deadline <= now {
                slot.fate = Fate::Late;
                wakers.extend(slot.waker.take());
            } else {
                next = Some(next.map_or(deadline, |next: Instant| next.min(deadline)));
            }
        }
        self.look_at = next;
    }

    /// Nobody waits for this request any more. What it leaves is dropped only after the queue is let go of.
    fn abandon(&mut self, index: u32) -> impl Sized + use<> {
        let slot = &mut self.slots[index as usize];
        let left = (slot.waker.take(), std::mem::take(&mut slot.values), std::mem::take(&mut slot.value));
        if slot.left == 0 {
            self.free.push(index);
            if self.slots.len() > KEEP_SLOTS && self.free.len() == self.slots.len() {
                (self.slots, self.free) = (Vec::new(), Vec::new());
            }
        } else {
            slot.fate = Fate::Abandoned;
        }
        left
    }
}

/// A request on its way. Dropping it does not recall it.
pub(super) struct PendingReply<'a, W> {
    wire: &'a SharedConnection,
    step: Step<W>,
    deadline: Option<Instant>,
    at_once: bool,
}

enum Step<W> {
    New(Option<W>),
    Asked(u32),
    Over,
}

/// One reply, or as many as were asked for.
#[derive(Debug)]
pub(super) enum Replies {
    One(Value),
    All(Vec<Value>),
}

impl<W: FnOnce(&mut Vec<u8>) -> u32 + Unpin> Future for PendingReply<'_, W> {
    type Output = Result<Replies, NoReply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut this.step {
            Step::New(write) => {
                let write = write.take().expect("asked once");
                match this.wire.begin(write, (this.deadline, this.at_once), context) {
                    Ok(index) => {
                        this.step = Step::Asked(index);
                        Poll::Pending
                    }
                    Err(why) => {
                        this.step = Step::Over;
                        Poll::Ready(Err(NoReply::Cut(why)))
                    }
                }
            }
            Step::Asked(index) => {
                let answer = std::task::ready!(this.wire.take(*index, context));
                this.step = Step::Over;
                Poll::Ready(answer)
            }
            Step::Over => panic!("asked for an answer after it was given"),
        }
    }
}

impl<W> Drop for PendingReply<'_, W> {
    fn drop(&mut self) {
        if let Step::Asked(index) = self.step {
            let left = self.wire.queue.lock().abandon(index);
            drop(left);
        }
    }
}

impl SharedConnection {
    /// Puts a request into the buffer, and on its way if nobody else is about to.
    fn begin(
        &self,
        write: impl FnOnce(&mut Vec<u8>) -> u32,
        (deadline, at_once): (Option<Instant>, bool),
        context: &Context<'_>,
    ) -> Result<u32, Arc<str>> {
        let mut queue = self.queue.lock();
        if let Some(why) = &queue.end {
            return Err(Arc::clone(why));
        }
        queue.unwritten += 1;
        let batch = queue.unwritten * BATCHES >= queue.burst.max(queue.owed.len());
        let replies = write(&mut queue.out);
        let index = queue.place(replies, deadline, context.waker().clone());
        queue.urgent |= at_once && queue.writing;
        let leaves = (batch || at_once) && !queue.writing;
        if leaves {
            // The driver meets the same error, and knows what to do about it.
            if let Ok(written) = self.socket.try_write(&queue.out) {
                queue.unwritten = 0;
                drop(queue.out.drain(..written));
            }
        }
        let sooner = deadline.is_some_and(|deadline| queue.look_at.is_none_or(|look_at| deadline < look_at));
        if sooner {
            queue.look_at = deadline;
        }
        let left = !queue.out.is_empty() || leaves && self.socket.owes();
        let mut waker = None;
        if left && !queue.driver_woken {
            queue.driver_woken = true;
            waker = queue.driver.clone();
        }
        drop(queue);
        if sooner {
            self.sooner.notify_one();
            // Which is seldom: the task that asks may compute next, and nobody else keeps the deadlines.
            crate::machine::empty_lifo_slot();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(index)
    }

    fn take(&self, index: u32, context: &Context<'_>) -> Poll<Result<Replies, NoReply>> {
        let mut queue = self.queue.lock();
        let slot = &mut queue.slots[index as usize];
        let answer = match slot.fate {
            Fate::Asked | Fate::Abandoned => {
                let old = if slot.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    None
                } else {
                    slot.waker.replace(context.waker().clone())
                };
                drop(queue);
                drop(old);
                return Poll::Pending;
            }
            Fate::Answered if slot.values.is_empty() => Ok(Replies::One(std::mem::take(&mut slot.value))),
            Fate::Answered => Ok(Replies::All(std::mem::take(&mut slot.values))),
            Fate::Late => Err(NoReply::Silent),
            Fate::Cut => {
                let why = queue.end.clone();
                Err(NoReply::Cut(why.unwrap_or_else(|| "closed".into())))
            }
        };
        let left = queue.abandon(index);
        drop(queue);
        drop(left);
        Poll::Ready(answer)
    }
}
