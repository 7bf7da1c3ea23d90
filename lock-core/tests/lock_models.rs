//! Models of the renewal queue and of the way a waiter is notified, made of the library's own files:
//! every order of events is tried (by loom, up to a bound of preemptions).
//!
//! Each proof has a broken twin next to it: the same model with the effect of one line taken away, which must
//! be convicted. A model that cannot be convicted proves nothing.

#[path = "../src/topology/pubsub/channel.rs"]
#[allow(dead_code)]
mod channel;
#[path = "../src/clock.rs"]
#[allow(dead_code)]
mod clock;
#[path = "../src/waiting/line.rs"]
#[allow(dead_code)]
mod line;
#[path = "../src/hold/renewals.rs"]
#[allow(dead_code)]
mod renewals;

/// What the files above import from the library, with the checker's primitives in place of the real ones.
mod sync {
    pub(crate) use loom::sync::{
        Arc, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    };

    use super::twin::{self, Line};

    /// As in the library.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    /// Tokio's, which is tried by loom where it is made; here its waking can be taken away.
    #[derive(Debug)]
    pub(crate) struct Notify(tokio::sync::Notify);

    impl Notify {
        pub(crate) fn new() -> Self {
            Notify(tokio::sync::Notify::new())
        }

        pub(crate) fn notify_one(&self) {
            if !twin::lacks(Line::WakesTheTask) {
                self.0.notify_one();
            }
        }

        pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
            self.0.notified()
        }
    }
}

#[allow(dead_code)]
mod topology {
    #[derive(Debug, Clone, Copy)]
    pub(crate) enum ChannelName<'a> {
        Channel(&'a str),
        Pattern(&'a str),
    }

    pub(crate) struct KeyCheck;

    #[derive(Debug)]
    pub(crate) struct Message {
        pub(crate) channel: String,
        pub(crate) payload: Vec<u8>,
    }

    pub(crate) type MessageReader = Box<dyn Fn(&Message) -> bool + Send + Sync>;
}

/// Which line a broken twin lacks.
mod twin {
    use std::sync::LazyLock;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Line {
        /// The queue wakes the task, for what is due before it would look and at the end.
        WakesTheTask,
        /// `insert` refuses a hold that has ended.
        RefusesWhatHasEnded,
        /// A release takes its hold out of the queue.
        RemovesAtRelease,
        /// A waiter looks again after its subscription stands.
        LooksAfterSubscribing,
        /// A new subscription is told to its waiters.
        HintsWhenSubscribedAgain,
        /// A message is told to its waiters.
        HintsOnAMessage,
        /// The seat is left before the place in the line.
        LeavesTheSeatFirst,
        /// Positions are counted under the mutex, and not by the `Arc` that each of them has.
        CountsUnderTheMutex,
    }

    /// Names it to the process that tries the twin.
    pub(crate) const VARIABLE: &str = "MODEL_LACKS";

    static LACKING: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

    pub(crate) fn lacks(line: Line) -> bool {
        let lacking = LACKING.as_deref();
        lacking.is_some_and(|lacking| lacking == format!("{line:?}"))
    }

    pub(crate) fn is_tried_here() -> bool {
        LACKING.is_some()
    }
}

#[path = "lock_models/renewal.rs"]
mod renewal_model;
#[path = "lock_models/waking.rs"]
mod waking_model;

use std::process::Command;

use twin::Line;

/// Tries every order of events of the model with so many preemptions at most, and then each twin of it: one
/// that is not convicted fails the test. A conviction may abort the process, so that a twin is this test
/// again in another.
fn check(test: &str, preemptions: usize, model: fn(), twins: &[(Line, &str)]) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(preemptions);
    checker.max_branches = 10_000;
    checker.check(model);
    if twin::is_tried_here() {
        return;
    }
    for (line, charge) in twins {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture"])
            .env(twin::VARIABLE, format!("{line:?}"))
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("this program again");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "nobody misses {line:?}: the model proves nothing");
        assert!(said.contains(charge), "{line:?} is not {charge}: {said}");
    }
}

const DEADLOCK: &str = "deadlock";

#[test]
fn a_hold_is_renewed_until_it_ends_and_not_after() {
    check(
        "a_hold_is_renewed_until_it_ends_and_not_after",
        2,
        renewal_model::two_holders,
        &[
            (Line::WakesTheTask, DEADLOCK),
            (Line::RefusesWhatHasEnded, "an ended hold is still to be renewed"),
            (Line::RemovesAtRelease, "an ended hold is still to be renewed"),
        ],
    );
}

#[test]
fn renewals_end_with_the_client() {
    check("renewals_end_with_the_client", 3, renewal_model::closing, &[(Line::WakesTheTask, DEADLOCK)]);
}

#[test]
fn a_hold_that_comes_and_goes_wakes_nobody() {
    let test = "a_hold_that_comes_and_goes_wakes_nobody";
    check(test, 1, renewal_model::coming_and_going, &[]);
}

#[test]
fn every_waiter_enters_without_a_clock() {
    check(
        "every_waiter_enters_without_a_clock",
        2,
        waking_model::two_waiters,
        &[(Line::LooksAfterSubscribing, DEADLOCK), (Line::HintsOnAMessage, DEADLOCK)],
    );
}

#[test]
fn a_message_that_is_lost_with_its_subscription_is_made_good_by_the_next() {
    check(
        "a_message_that_is_lost_with_its_subscription_is_made_good_by_the_next",
        2,
        waking_model::lost_subscription,
        &[(Line::HintsWhenSubscribedAgain, DEADLOCK)],
    );
}

#[test]
fn the_last_one_ends_the_line() {
    check(
        "the_last_one_ends_the_line",
        2,
        waking_model::three_in_line,
        &[(Line::LeavesTheSeatFirst, "two in one seat")],
    );
}

#[test]
fn two_that_leave_at_once_end_the_line() {
    check(
        "two_that_leave_at_once_end_the_line",
        3,
        waking_model::two_leave_at_once,
        &[(Line::CountsUnderTheMutex, "an empty line stays")],
    );
}
