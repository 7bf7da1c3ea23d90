//! A model of the line of waiters, a channel and its subscription in which no clock helps: a waiter that
//! misses a message for good waits for ever, which the checker finds as a deadlock.

use std::sync::Arc;

use loom::{
    future::block_on,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    channel::{Channel, Waiter},
    line::Lines,
    topology::ChannelName,
    twin::{self, Line},
};

/// The subscription's number; the channel believes no other.
const FEED: u64 = 1;

/// The server: whether the lock is held, and whether messages reach this client.
struct Server {
    state: Mutex<State>,
    channel: Arc<Channel>,
}

struct State {
    held: bool,
    subscribed: bool,
}

impl Server {
    /// Held by somebody, and nobody subscribed.
    fn held() -> Arc<Self> {
        let channel = Arc::new(Channel::new(ChannelName::Channel("c"), 0));
        channel.settle(FEED);
        Arc::new(Server { state: Mutex::new(State { held: true, subscribed: false }), channel })
    }

    fn acquire(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().unwrap().held, true)
    }

    /// Frees the lock and says so to those who are subscribed at that moment.
    fn release(&self) {
        let mut state = self.state.lock().unwrap();
        state.held = false;
        let heard = state.subscribed;
        drop(state);
        if heard && !twin::lacks(Line::HintsOnAMessage) {
            self.channel.hint();
        }
    }

    /// The server takes the subscription in, and says so.
    fn subscribe(&self) {
        self.state.lock().unwrap().subscribed = true;
        if !twin::lacks(Line::HintsWhenSubscribedAgain) {
            self.channel.acknowledged(FEED);
        }
    }

    fn lose_subscription(&self) {
        self.state.lock().unwrap().subscribed = false;
    }
}

type Seat = Option<Waiter>;
type Waiting = Lines<&'static str, Seat>;

/// As the library's: look, sit down, subscribe, look again, then once for each hint.
fn wait_and_release(server: &Server, lines: &Waiting) {
    if !server.acquire() {
        let place = lines.enter("n", || None);
        let mut seat = block_on(place.front());
        let first = seat.is_none();
        let ears = seat.get_or_insert_with(|| Waiter::join(Arc::clone(&server.channel)));
        if first {
            block_on(ears.ready());
        }
        let mut look = !first || !twin::lacks(Line::LooksAfterSubscribing);
        while !(look && server.acquire()) {
            block_on(ears.hint());
            look = true;
        }
    }
    server.release();
}

pub(crate) fn two_waiters() {
    let server = Server::held();
    let lines = Arc::new(Waiting::new());
    let waiter = {
        let (server, lines) = (Arc::clone(&server), Arc::clone(&lines));
        move || wait_and_release(&server, &lines)
    };
    let others = [thread::spawn(waiter.clone()), thread::spawn(waiter)];
    server.subscribe();
    server.release();
    for other in others {
        other.join().unwrap();
    }
    assert!(lines.is_empty(), "a line without anybody in it");
    assert!(!server.state.lock().unwrap().held);
}

/// The connection of the subscription is lost and made again while the lock becomes free.
pub(crate) fn lost_subscription() {
    let server = Server::held();
    let lines = Arc::new(Waiting::new());
    // The first subscription stands, whatever the twin lacks.
    server.state.lock().unwrap().subscribed = true;
    server.channel.acknowledged(FEED);
    let waiter = thread::spawn({
        let (server, lines) = (Arc::clone(&server), Arc::clone(&lines));
        move || wait_and_release(&server, &lines)
    });
    let feed = thread::spawn({
        let server = Arc::clone(&server);
        move || {
            server.lose_subscription();
            server.channel.lost(FEED);
            server.subscribe();
        }
    });
    server.release();
    feed.join().unwrap();
    waiter.join().unwrap();
}

/// Three come and go: one at a time in the seat, and the last one ends the line.
pub(crate) fn three_in_line() {
    let lines = Arc::new(Waiting::new());
    let seated = Arc::new(AtomicUsize::new(0));
    let comer = {
        let lines = Arc::clone(&lines);
        move || {
            let place = lines.enter("n", || None);
            let seat = block_on(place.front());
            assert_eq!(seated.fetch_add(1, Ordering::SeqCst), 0, "two in one seat");
            let mut place = Some(place);
            if twin::lacks(Line::LeavesTheSeatFirst) {
                place.take();
            }
            seated.fetch_sub(1, Ordering::SeqCst);
            drop(seat);
            drop(place);
        }
    };
    let others = [thread::spawn(comer.clone()), thread::spawn(comer.clone())];
    comer();
    for other in others {
        other.join().unwrap();
    }
    assert!(lines.is_empty() && lines.served(&"n").is_none(), "an empty line stays");
}

/// Two give up at one moment, and nobody is left to end the line.
pub(crate) fn two_leave_at_once() {
    if twin::lacks(Line::CountsUnderTheMutex) {
        return counted_by_arc();
    }
    let lines = Arc::new(Waiting::new());
    let comer = {
        let lines = Arc::clone(&lines);
        move || drop(lines.enter("n", || None))
    };
    let other = thread::spawn(comer.clone());
    comer();
    other.join().unwrap();
    assert!(lines.is_empty() && lines.served(&"n").is_none(), "an empty line stays");
}

/// A line whose last one knows that it is the last by the `Arc` that each position has: those who leave let
/// go of it only after they have let go of the mutex.
fn counted_by_arc() {
    type Line = Mutex<Option<loom::sync::Arc<()>>>;
    fn comes_and_goes(line: &Line) {
        let position = loom::sync::Arc::clone(line.lock().unwrap().get_or_insert_default());
        let mut line = line.lock().unwrap();
        if loom::sync::Arc::strong_count(&position) == 2 {
            line.take();
        }
        drop(line);
        drop(position);
    }
    let line = Arc::new(Line::default());
    let other = thread::spawn({
        let line = Arc::clone(&line);
        move || comes_and_goes(&line)
    });
    comes_and_goes(&line);
    other.join().unwrap();
    assert!(line.lock().unwrap().is_none(), "an empty line stays");
}
