//! The rules of the queued lock's model, by its scripts.

use super::{
    lua::{Scripts, run},
    model::{Asker, Called, LEASE_MS, LOCK, News, Rules},
    store::{Answer, Store},
};

const COUNTER: &str = "redisson_lock_token:{n}";
const LINE: &str = "locklab_queue:{n}";
const ORDER: &str = "locklab_queue_order:{n}";
const KEYS: [&str; 4] = [LOCK, COUNTER, LINE, ORDER];
/// As the library asks.
const UNCLAIMED: &str = "2000";
const ALIVE_MS: u64 = 3000;

/// The scripts, perhaps with something taken away.
#[derive(Debug, Clone)]
pub(crate) struct Queued(Scripts);

impl Queued {
    pub(crate) fn new() -> Self {
        Queued(Scripts::new(
            include_str!("../../../lock-core/scripts/queue.lua"),
            include_str!("../../../lock-core/scripts/acquire_queued.lua"),
            include_str!("../../../lock-core/scripts/release_queued.lua"),
            include_str!("../../../lock-core/scripts/heartbeat_queued.lua"),
        ))
    }

    /// A broken twin: every script with `piece` replaced. Something must be replaced.
    pub(crate) fn with(&self, piece: &str, by: &str) -> Self {
        Queued(self.0.with(piece, by))
    }
}

fn flag(asker: &Asker) -> &'static str {
    if asker.listens { "1" } else { "0" }
}

fn lease() -> String {
    LEASE_MS.to_string()
}

impl Rules for Queued {
    fn take(&self, server: &mut Store, asker: &Asker) -> News {
        let (lease, alive) = (lease(), ALIVE_MS.to_string());
        let waited = asker.waited_us.to_string();
        let args = [&lease, &asker.owner, "PUBLISH", UNCLAIMED, &asker.client, &alive, flag(asker), &waited];
        match run(server, &self.0.take, &KEYS, &args) {
            Answer::Many(parts) if parts[0] == Answer::Int(1) => {
                News::Held { until_us: server.now_us + LEASE_MS * 1000 }
            }
            Answer::Many(_) => News::Waits,
            other => panic!("take answered {other:?}"),
        }
    }

    fn give(&self, server: &mut Store, asker: &Asker, successors: &[Asker]) -> News {
        let (lease, alive) = (lease(), ALIVE_MS.to_string());
        let mut args = vec![&*asker.owner, "PUBLISH", UNCLAIMED, &asker.client];
        if !successors.is_empty() {
            args.extend([&*alive, flag(asker)]);
        }
        let waited: Vec<String> =
            successors.iter().map(|successor| successor.waited_us.to_string()).collect();
        for (successor, waited) in successors.iter().zip(&waited) {
            args.extend([waited, &*lease, &successor.owner]);
        }
        match run(server, &self.0.give, &KEYS, &args) {
            Answer::Many(_) => News::Held { until_us: server.now_us + LEASE_MS * 1000 },
            Answer::Int(1) => News::Waits,
            Answer::Nil => News::Again,
            other => panic!("give answered {other:?}"),
        }
    }

    fn beat(&self, server: &mut Store, asker: &Asker) -> News {
        let alive = ALIVE_MS.to_string();
        let waited = asker.waited_us.to_string();
        let args = [&*asker.client, &alive, flag(asker), "PUBLISH", UNCLAIMED, &asker.owner, &waited];
        let Answer::Many(parts) = run(server, &self.0.beat, &KEYS, &args) else {
            panic!("a beat is answered with a list");
        };
        match parts.as_slice() {
            [_, _, Answer::Int(left), Answer::Text(owner), _] if *owner == asker.owner => {
                News::Held {
                    // Without an end it is negative.
                    until_us: u64::try_from(*left).map_or(u64::MAX, |left| server.now_us + left * 1000),
                }
            }
            [_, Answer::Text(standing), ..] if *standing == asker.owner => News::Waits,
            // It should be there.
            _ => News::Again,
        }
    }

    fn claim(&self, server: &mut Store, asker: &Asker) -> bool {
        run(server, &self.0.extend, &[LOCK], &[&lease(), &asker.owner]) == Answer::Int(1)
    }

    fn channel(&self, asker: &Asker) -> String {
        format!("{LINE}:{}", asker.client)
    }

    fn read(&self, asker: &Asker, payload: &str) -> Option<News> {
        let words: Vec<_> = payload.split(' ').collect();
        let [owner, _token, at_us, ms] = words.as_slice() else {
            panic!("{payload:?} is no call");
        };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        (*owner == asker.owner).then(|| News::Held { until_us: number(at_us) + number(ms) * 1000 })
    }

    fn shares_places(&self) -> bool {
        true
    }

    fn calls(&self, _asker: &Asker, _message: &(String, String)) -> bool {
        false
    }

    fn has_place(&self, server: &mut Store, asker: &Asker) -> bool {
        let question = ["HGET", LINE, &asker.client].map(str::to_owned);
        match server.call(&question) {
            Ok(Answer::Text(entry)) => entry.ends_with(&format!(" {}", asker.owner)),
            _ => false,
        }
    }

    fn may_pass(&self, now_us: u64, heard_us: u64, _called: Option<Called>) -> bool {
        heard_us + ALIVE_MS * 1000 < now_us
    }

    fn deadlines(&self, heard_us: u64, _called: Option<Called>) -> Vec<u64> {
        vec![heard_us + ALIVE_MS * 1000]
    }

    fn stays(&self, key: &str) -> bool {
        key == COUNTER
    }
}
