//! The rules of the fair lock's model, by its scripts.

use super::{
    lua::{Scripts, run},
    model::{Asker, Called, LEASE_MS, LOCK, News, Rules},
    store::{Answer, Store},
};

const QUEUE: &str = "redisson_lock_queue:{n}";
const DEADLINES: &str = "redisson_lock_timeout:{n}";
const CHANNEL: &str = "redisson_lock__channel:{n}";
const KEYS: [&str; 5] = [LOCK, QUEUE, DEADLINES, "locklab_fair_latch:{n}", CHANNEL];
/// As the library asks.
const PLACE_MS: u64 = 30_000;
/// How long the scripts keep a line beyond its last deadline.
const KEPT_MS: u64 = 86_400_000;
/// How long the scripts wait for somebody who was called.
const HEARD_MS: u64 = 1000;
const UNHEARD_MS: u64 = 250;

/// The scripts, perhaps with something taken away.
#[derive(Debug, Clone)]
pub(crate) struct Fair(Scripts);

impl Fair {
    pub(crate) fn new() -> Self {
        Fair(Scripts::new(
            include_str!("../../../lock-core/scripts/fair.lua"),
            include_str!("../../../lock-core/scripts/acquire_fair.lua"),
            include_str!("../../../lock-core/scripts/release_fair.lua"),
            include_str!("../../../lock-core/scripts/heartbeat_fair.lua"),
        ))
    }

    /// A broken twin: every script with `piece` replaced. Something must be replaced.
    pub(crate) fn with(&self, piece: &str, by: &str) -> Self {
        Fair(self.0.with(piece, by))
    }
}

impl Rules for Fair {
    fn take(&self, server: &mut Store, asker: &Asker) -> News {
        let (lease, place) = (LEASE_MS.to_string(), PLACE_MS.to_string());
        match run(server, &self.0.take, &KEYS, &[&lease, &asker.owner, "PUBLISH", &place]) {
            Answer::Nil => News::Held { until_us: server.now_us + LEASE_MS * 1000 },
            Answer::Many(_) => News::Waits,
            other => panic!("take answered {other:?}"),
        }
    }

    fn give(&self, server: &mut Store, asker: &Asker, _heirs: &[Asker]) -> News {
        // A release and the end of a wait are the same here: one that gives the lock back has no place.
        run(server, &self.0.give, &KEYS, &[&asker.owner, "PUBLISH", "1"]);
        News::Again
    }

    fn beat(&self, server: &mut Store, asker: &Asker) -> News {
        let place = PLACE_MS.to_string();
        let Answer::Many(parts) = run(server, &self.0.beat, &KEYS, &["PUBLISH", &place, &asker.owner]) else {
            panic!("a beat is answered with a list");
        };
        let head = Answer::Text(asker.owner.clone());
        match parts.as_slice() {
            // It has no place.
            [_, _, _, _, _, ..] => News::Again,
            [_, _, first, Answer::Int(1)] if *first == head => News::Again,
            _ => News::Waits,
        }
    }

    fn claim(&self, server: &mut Store, asker: &Asker) -> bool {
        let lease = LEASE_MS.to_string();
        run(server, &self.0.extend, &[LOCK], &[&lease, &asker.owner]) == Answer::Int(1)
    }

    fn channel(&self, asker: &Asker) -> String {
        format!("{CHANNEL}:{}", asker.owner)
    }

    fn read(&self, _asker: &Asker, _payload: &str) -> Option<News> {
        Some(News::Again)
    }

    /// A waiter that lost its place has a new one, at the end.
    fn shares_places(&self) -> bool {
        false
    }

    fn calls(&self, asker: &Asker, message: &(String, String)) -> bool {
        message.0 == self.channel(asker)
    }

    fn has_place(&self, server: &mut Store, asker: &Asker) -> bool {
        let question = ["LPOS".to_owned(), QUEUE.to_owned(), asker.owner.clone()];
        server.call(&question) != Ok(Answer::Nil)
    }

    fn may_pass(&self, now_us: u64, heard_us: u64, called: Option<Called>) -> bool {
        let grace_ms = |called: Called| if called.heard { HEARD_MS } else { UNHEARD_MS };
        let slow = |called: Called| called.at_us + grace_ms(called) * 1000 <= now_us;
        heard_us + PLACE_MS * 1000 <= now_us || called.is_some_and(slow)
    }

    fn deadlines(&self, heard_us: u64, called: Option<Called>) -> Vec<u64> {
        let graces = [HEARD_MS, UNHEARD_MS].map(|ms| called.map(|called| called.at_us + ms * 1000));
        let place = heard_us + PLACE_MS * 1000;
        graces.into_iter().flatten().chain([place]).collect()
    }

    fn stays(&self, _key: &str) -> bool {
        false
    }

    /// The dead leave their places, as they do with RFairLock; the next one who asks takes them out, or time
    /// does.
    fn forgotten_ms(&self) -> u64 {
        PLACE_MS + KEPT_MS + 1000
    }
}
