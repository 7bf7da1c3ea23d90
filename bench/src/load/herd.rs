//! Where a herd gathers before each wave. Unlike a barrier it knows that members may go away.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

pub(crate) struct Herd {
    gathering: Mutex<Gathering>,
    waves: watch::Sender<u64>,
    patience: Option<Duration>,
}

#[derive(Default)]
struct Gathering {
    members: u32,
    arrived: u32,
}

pub(crate) struct Member<'a>(&'a Herd);

struct Arrival<'a> {
    herd: &'a Herd,
    wave: u64,
}

impl Herd {
    /// A herd of so many. `patience`: how long the first waits for all: a stopped member must not stop all.
    pub(crate) fn new(members: u32, patience: Option<Duration>) -> Self {
        let arrived = 0;
        Herd { gathering: Mutex::new(Gathering { members, arrived }), waves: watch::Sender::new(0), patience }
    }

    pub(crate) fn join(&self) {
        self.gathering().members += 1;
    }

    /// The membership of one that the herd was made for, or that has joined.
    pub(crate) fn member(&self) -> Member<'_> {
        Member(self)
    }

    fn gathering(&self) -> MutexGuard<'_, Gathering> {
        self.gathering.lock().expect("no panic")
    }

    fn go(&self, gathering: &mut Gathering) {
        gathering.arrived = 0;
        self.waves.send_modify(|waves| *waves += 1);
    }
}

impl Member<'_> {
    /// Waits until all have arrived; true for the last of them.
    pub(crate) async fn gather(&self) -> bool {
        let herd = self.0;
        let mut waves = herd.waves.subscribe();
        let arrival = {
            let mut gathering = herd.gathering();
            let wave = *herd.waves.borrow();
            gathering.arrived += 1;
            if gathering.arrived >= gathering.members {
                herd.go(&mut gathering);
                return true;
            }
            Arrival { herd, wave }
        };
        let begun = waves.wait_for(|waves| *waves > arrival.wave);
        match herd.patience {
            None => {
                let _ = begun.await;
            }
            Some(patience) => {
                if tokio::time::timeout(patience, begun).await.is_err() {
                    let mut gathering = herd.gathering();
                    if *herd.waves.borrow() == arrival.wave {
                        herd.go(&mut gathering);
                    }
                }
            }
        }
        false
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let mut gathering = self.herd.gathering();
        if *self.herd.waves.borrow() == self.wave {
            gathering.arrived -= 1;
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut gathering = self.0.gathering();
        gathering.members -= 1;
        if gathering.arrived > 0 && gathering.arrived >= gathering.members {
            self.0.go(&mut gathering);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_last_to_arrive_lets_all_go() {
        let herd = Herd::new(2, None);
        let (one, other) = (herd.member(), herd.member());
        for _ in 0..3 {
            let (first, last) = tokio::join!(one.gather(), other.gather());
            assert_eq!((first, last), (false, true));
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_member_that_has_gone_or_gave_up() {
        let herd = Herd::new(3, None);
        let (one, other, gone) = (herd.member(), herd.member(), herd.member());
        assert_eq!(one.gather().now_or_never(), None, "alone, and gives up");
        let mut waits = Box::pin(one.gather());
        assert_eq!((&mut waits).now_or_never(), None);
        drop(gone);
        assert_eq!((&mut waits).now_or_never(), None, "one is still missing");
        assert!(other.gather().await);
        assert!(!waits.await);
        let mut waits = Box::pin(one.gather());
        assert_eq!((&mut waits).now_or_never(), None);
        drop(other);
        assert!(!waits.await, "it was the last one missing");
    }

    #[tokio::test]
    async fn a_patient_herd_goes_without_those_who_are_late() {
        let herd = Herd::new(2, Some(Duration::from_millis(10)));
        let (one, _late) = (herd.member(), herd.member());
        assert!(!one.gather().await);
    }
}
