//! How many renewals clients report, and how much of each lease was left.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::figures::Figures;
use crate::stats::histogram::Latencies;
use crate::subject::ClientEvent;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RenewalMargins {
    /// What was left of the lease when its renewal was sent, within the window.
    pub(crate) margin: Latencies,
    /// Renewals reported within the window.
    pub(crate) renewed: u64,
    pub(crate) lost: u64,
    /// When each lease was last set: by the client's number and its grant.
    #[serde(skip)]
    last: HashMap<(u32, String), Instant>,
}

impl RenewalMargins {
    /// Adds what another generator saw in the same window.
    pub(crate) fn join(&mut self, other: &RenewalMargins) {
        self.margin.merge(&other.margin);
        self.renewed += other.renewed;
        self.lost += other.lost;
    }
}

#[derive(Default)]
pub(crate) struct Renewals {
    seen: Mutex<RenewalMargins>,
    over: AtomicBool,
}

impl Renewals {
    pub(crate) fn granted(&self, client: u32, grant: &str, sent_at: Option<Instant>) {
        let Some(sent_at) = sent_at else { return };
        let mut seen = self.seen.lock().expect("no panic");
        // The first renewal may have been reported already, and is the later of the two.
        seen.last.entry((client, grant.to_owned())).or_insert(sent_at);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Relaxed);
    }

    pub(crate) fn take(&self) -> RenewalMargins {
        std::mem::take(&mut *self.seen.lock().expect("no panic"))
    }
}

/// Reads a client's events until the round is over; each renewal is a cycle of nobody in particular.
pub(super) async fn watch(figures: &Figures, client: u32, mut events: mpsc::UnboundedReceiver<ClientEvent>) {
    while let Some(event) = events.recv().await {
        let now_ns = figures.now_ns();
        match event {
            ClientEvent::Extended { grant, lease, sent_at } => {
                figures.cycle_done(client, now_ns);
                let mut seen = figures.renewals.seen.lock().expect("no panic");
                let within = figures.within(now_ns);
                seen.renewed += u64::from(within);
                let Some(sent_at) = sent_at else { continue };
                let before = seen.last.insert((client, grant), sent_at);
                if let (Some(before), true) = (before, within) {
                    let left = lease.saturating_sub(sent_at.saturating_duration_since(before));
                    seen.margin.add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
                }
            }
            ClientEvent::Lost { .. } => {
                let mut seen = figures.renewals.seen.lock().expect("no panic");
                seen.lost += u64::from(!figures.renewals.over.load(Relaxed));
            }
            ClientEvent::Exited { .. } => return,
        }
    }
}
