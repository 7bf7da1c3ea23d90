//! What a lock keeps while something around it fails: one of its keys, its waiter, a master, a line.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::super::LineFault;
use super::leases::{said_lost, send_to};
use super::{
    A, B, DriverIndex, LONG_MS, SHORT_MS, SLACK, SkippableResult, StepFailure, StepResult, Trial,
    WATCHDOG_MS, expect, grant_of, granted, shown, skip,
};

/// A lock with more keys than that is not tried with each of them.
const KEYS_MAX: usize = 8;
/// Libraries that ask for a sign of life each second take a waiter that is stopped for so long for dead.
const STOPPED_FOR_MS: u64 = 1_500;
/// A waiter that was stopped has time left to be granted a lock that is free.
const WAIT_MS: u64 = 10_000;
/// Of so many locks some are handed on before the answer to their release has come.
const HANDED_ON: usize = 6;
/// Of so many locks some are entered again when another gets them.
const ENTERED: usize = 12;
/// So long some of them wait, over lines that lose packets.
const RACE_MS: u64 = 1_500;

impl Trial<'_> {
    fn line_fault(&self, fault: LineFault) -> Result<Box<dyn std::any::Any + Send>, StepFailure> {
        match &self.options.line_faults {
            Some(begin) => Ok(begin(fault)),
            None => Err(StepFailure::Skipped("the lines to the servers are not ours".to_owned())),
        }
    }

    /// Deletes each key of a lock alone, as an eviction or a hand does, of a holder who has entered twice
    /// where the kind allows it.
    pub(super) async fn lost_key(&mut self) -> SkippableResult {
        self.require_own_single()?;
        if self.nests().is_none() || self.has_feature("release_blind") {
            return skip("several owners may have a lock of this kind, or its releases are blind");
        }
        for tried in 0..KEYS_MAX {
            send_to::<()>(&self.options.target, &redis::cmd("FLUSHALL")).await?;
            let (lock, outer) = self.granted(LONG_MS).await?;
            let inner = grant_of(&self.ask_for(A, &lock, "t0", 0, Some(LONG_MS)).await?);
            let mut keys: Vec<Vec<u8>> = send_to(&self.options.target, redis::cmd("KEYS").arg("*")).await?;
            keys.sort();
            let holds = Vec::from_iter(inner.into_iter().chain([outer]));
            let Some(key) = keys.get(tried) else {
                self.release_all(A, &holds).await?;
                return Ok(format!("{tried} keys"));
            };
            send_to::<()>(&self.options.target, redis::cmd("DEL").arg(key)).await?;
            self.releases_of_what_was_lost(&lock, &holds, &String::from_utf8_lossy(key)).await?;
        }
        Ok(format!("the first {KEYS_MAX} keys"))
    }

    async fn releases_of_what_was_lost(&mut self, lock: &str, holds: &[String], key: &str) -> StepResult {
        let reply = self.ask_for(B, lock, "t0", 0, Some(LONG_MS)).await?;
        let Some(next) = grant_of(&reply) else {
            self.release_all(A, holds).await?;
            return Ok(String::new());
        };
        let lost = format!("the key `{key}` of a lock was deleted, another client was granted the lock");
        for grant in holds {
            let reply = self.release_of(A, grant).await?;
            if reply.ending == "ok" {
                return Err(format!(
                    "{lost}, and a release of its first holder was answered {}",
                    shown(&reply)
                ));
            }
        }
        let reply = self.ask_for(A, lock, "t2", 0, Some(LONG_MS)).await?;
        self.expect_taken(&reply, &format!("{lost}, and releases of its first holder freed it"))?;
        self.release_all(B, &[next]).await
    }

    async fn release_all(&mut self, which: DriverIndex, grants: &[String]) -> StepResult {
        for grant in grants {
            self.release_of(which, grant).await?;
        }
        Ok(String::new())
    }

    /// Who waits is stopped for so long that others may take it for dead, and is not.
    pub(super) async fn stopped_waiter(&mut self) -> SkippableResult {
        let (lock, held) = self.granted(LONG_MS).await?;
        let request = self.acquire_request(&lock, "t0", WAIT_MS, Some(LONG_MS));
        let waiting = self.driver(B).send(request).await;
        self.listen(B, Duration::from_millis(SHORT_MS / 2)).await;
        // A driver that has ended meanwhile has no answer.
        let _ = self.driver(B).signal(Signal::SIGSTOP);
        let beside = self.ask_for(A, &lock, "t1", STOPPED_FOR_MS, Some(LONG_MS)).await;
        let _ = self.driver(B).signal(Signal::SIGCONT);
        self.expect_busy(&beside?, "another owner, who waited for a lock that is held, was answered")?;
        // It sees that it has no place any more before the lock is free.
        self.listen(B, Duration::from_millis(SHORT_MS / 2)).await;
        let reply = self.answer_after_release(&held, waiting, WAIT_MS).await?;
        match grant_of(&reply) {
            Some(grant) => self.release_all(B, &[grant]).await?,
            None if self.is_busy(&reply) => {
                return Err(format!(
                    "a client that waited was stopped for {STOPPED_FOR_MS} ms, the lock was released, and it was not granted"
                )
                .into());
            }
            None => return skip(&format!("a waiter that was stopped was answered {}", shown(&reply))),
        };
        Ok(String::new())
    }

    /// A release that is done at most masters is done.
    pub(super) async fn master_away(&mut self) -> SkippableResult {
        if crate::protocol::shape(&self.options.target) != Some("masters") {
            return skip("the target is not a set of masters");
        }
        self.start_both().await?;
        let away = self.line_fault(LineFault::OneServerAway)?;
        let mut found = String::new();
        // The first calls may find out that the master is away.
        for _ in 0..4 {
            let lock = self.lock();
            let reply = self.ask_for(A, &lock, "t0", 5_000, Some(LONG_MS)).await?;
            let released = match grant_of(&reply) {
                Some(grant) => self.release_of(A, &grant).await?,
                None => reply,
            };
            if released.ending == "ok" {
                drop(away);
                return Ok(String::new());
            }
            found = shown(&released);
        }
        Err(format!("with one master away no lock was granted and released: {found}").into())
    }

    /// Holders enter again when their lease is nearly over, and answers come late: another may have the lock
    /// before all of the entry is done.
    pub(super) async fn late_entry(&mut self) -> SkippableResult {
        if self.nests() != Some(Some(true)) {
            return skip("its holder is not granted it again");
        }
        self.start_both().await?;
        // Once in ten times none of the entries meets the end of its lease.
        let entered = self.enter_late().await? + self.enter_late().await?;
        Ok(format!("{entered} of {} entered again", 2 * ENTERED))
    }

    async fn enter_late(&mut self) -> Result<usize, StepFailure> {
        let locks: Vec<String> = std::iter::repeat_with(|| self.lock()).take(ENTERED).collect();
        for lock in &locks {
            granted(&self.ask_for(A, lock, "t0", 2_000, Some(SHORT_MS)).await?, "a free lock")?;
        }
        let lossy = self.line_fault(LineFault::LostPackets)?;
        let mut waiting = Vec::new();
        for lock in &locks {
            for owner in ["t0", "t1"] {
                let request = self.acquire_request(lock, owner, SHORT_MS * 3, Some(LONG_MS));
                waiting.push(self.driver(B).send(request).await);
            }
        }
        self.listen(A, Duration::from_millis(SHORT_MS * 5 / 8)).await;
        let mut entries = Vec::new();
        for lock in &locks {
            self.listen(A, Duration::from_millis(SHORT_MS * 5 / 16) / ENTERED as u32).await;
            let request = self.acquire_request(lock, "t0", 0, Some(SHORT_MS));
            entries.push(self.driver(A).send(request).await);
        }
        // All leases that were entered again end meanwhile.
        self.listen(A, Duration::from_millis(SHORT_MS * 3 / 2)).await;
        drop(lossy);
        let within = self.patience() + Duration::from_millis(SHORT_MS * 3);
        let mut entered = 0;
        for id in entries {
            entered += usize::from(grant_of(&self.driver(A).reply(id, within).await?).is_some());
        }
        let mut replies = Vec::new();
        for id in waiting {
            replies.push(self.driver(B).reply(id, within).await?);
        }
        for next in replies.iter().filter_map(grant_of) {
            let what = "the holder before had entered again when its lease was nearly over, and the release of the next one was";
            expect(&self.release_of(B, &next).await?, &["ok"], what)?;
        }
        Ok(entered)
    }

    /// Owners of one client hand on renewed locks while answers come late: what one has released, the other
    /// has, and it is renewed.
    pub(super) async fn renewed_in_turn(&mut self) -> SkippableResult {
        let Some(watchdog_ms) = self.hello.watchdog_ms.filter(|ms| *ms <= WATCHDOG_MS) else {
            return skip("nothing is renewed, or not soon");
        };
        self.start_both().await?;
        let mut locks = Vec::new();
        for _ in 0..HANDED_ON {
            let lock = self.lock();
            let reply = self.ask_for(A, &lock, "t0", 2_000, None).await?;
            if reply.ending == "failed" {
                return skip("there is no renewed lease");
            }
            locks.push((lock, granted(&reply, "a free lock")?));
        }
        let lossy = self.line_fault(LineFault::LostPackets)?;
        let mut waiting = Vec::new();
        for (lock, _) in &locks {
            for owner in ["t1", "t2"] {
                let request = self.acquire_request(lock, owner, RACE_MS, None);
                waiting.push((lock.clone(), self.driver(A).send(request).await));
            }
        }
        self.listen(A, Duration::from_millis(SHORT_MS / 4)).await;
        let mut releases = Vec::new();
        for (_, grant) in &locks {
            releases.push(self.driver(A).send(json!({"op": "release", "grant": grant})).await);
        }
        self.listen(A, Duration::from_millis(RACE_MS / 2)).await;
        drop(lossy);
        let within = self.patience() + Duration::from_millis(RACE_MS);
        // Where releases wait for so long, so do renewals.
        let mut is_queued = false;
        for release in releases {
            is_queued |=
                self.driver(A).reply(release, within).await?.took > Duration::from_millis(watchdog_ms);
        }
        let (mut held, since) = (Vec::new(), Instant::now());
        for (lock, id) in waiting {
            let reply = self.driver(A).reply(id, within).await?;
            held.extend(grant_of(&reply).map(|grant| (lock, grant)));
        }
        let long = Duration::from_millis(watchdog_ms + watchdog_ms / 2);
        self.listen(A, long.saturating_sub(since.elapsed())).await;
        for (lock, grant) in &held {
            let reply = self.ask_for(B, lock, "t0", 0, Some(LONG_MS)).await?;
            let said_it = said_lost(grant);
            if grant_of(&reply).is_some() {
                self.driver(A).listen(SLACK, &said_it).await;
            }
            let was_told = said_it(self.driver(A));
            if grant_of(&reply).is_some() && !was_told && !is_queued {
                return Err(format!(
                    "a renewed lock that another owner of its client had released meanwhile was free {:?} after its grant, and nobody was told",
                    since.elapsed()
                ).into());
            }
            let released = self.release_of(A, grant).await?;
            if !was_told && !is_queued {
                expect(&released, &["ok"], "the release of a renewed lock that was handed on was")?;
            }
        }
        Ok(format!("{} of {HANDED_ON} were handed on", held.len()))
    }
}
