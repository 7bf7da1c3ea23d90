//! Where the generators of one load meet: a hash at the target says which plan they follow, how far each has
//! come, and when the next step begins by the server's clock.
//!
//! Its fields: `plan`; `meeting`, drawn by the first part; `at:K`, the step that part K waits for or is in;
//! `alive:K`, when it last said so; `go:S`, when step S begins; `began`, once all have met; `lost:K`, the
//! step that the others began without part K. All times are the server's TIME in microseconds. The hash
//! expires by itself once nobody refreshes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;

use super::GeneratorShare;
use crate::links::{CommandError, Links, cmd};

const HEARTBEAT: Duration = Duration::from_millis(500);
const SILENT: Duration = Duration::from_secs(5);
/// How long the hash outlives the last part.
const KEPT: Duration = Duration::from_secs(15);
/// From the moment at which the last part has come to the step: so long takes the news to all.
const NOTICE: Duration = Duration::from_millis(150);
/// The step after which nobody measures.
const LAST: u64 = u64::MAX;

/// Why generators did not meet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The parts that are there follow another plan.
    #[error("{0}")]
    OtherPlan(String),
    /// Parts that did not come in time, or that went on without this one.
    #[error("{0}")]
    Missing(String),
    /// The server did not answer.
    #[error("the parts meet at the target, which does not answer: {0}")]
    Unreachable(String),
}

impl From<CommandError> for BarrierError {
    fn from(trouble: CommandError) -> Self {
        BarrierError::Unreachable(trouble.to_string())
    }
}

/// The part of a generator in a load that several share.
pub struct Barrier {
    at: Arc<BarrierHash>,
    share: GeneratorShare,
    meeting: String,
    patience: Duration,
    heartbeat: JoinHandle<()>,
}

struct BarrierHash {
    links: Links,
    key: String,
}

/// What the hash says, and the server's clock beside ours.
struct BarrierState {
    fields: BTreeMap<String, String>,
    server_us: u64,
    /// When the server's clock said so, by ours, to half the trip.
    at: Instant,
    half_trip: Duration,
}

impl BarrierHash {
    /// Sends a command whose first argument is the hash.
    async fn ask<T: redis::FromRedisValue>(&self, verb: &str, args: &[&str]) -> Result<T, CommandError> {
        let words = [&[verb, &self.key], args].concat();
        self.links.query(&self.key, &cmd(&words)).await
    }

    async fn set(&self, field: &str, value: &str) -> Result<(), CommandError> {
        self.ask::<i64>("HSET", &[field, value]).await?;
        let kept_ms = KEPT.as_millis().to_string();
        self.ask::<i64>("PEXPIRE", &[&kept_ms]).await?;
        Ok(())
    }

    async fn settle(&self, field: &str, value: &str) -> Result<String, CommandError> {
        self.ask::<i64>("HSETNX", &[field, value]).await?;
        let settled: Option<String> = self.ask("HGET", &[field]).await?;
        Ok(settled.unwrap_or_default())
    }

    async fn drop_field(&self, field: &str) -> Result<(), CommandError> {
        self.ask::<i64>("HDEL", &[field]).await?;
        Ok(())
    }

    async fn look(&self) -> Result<BarrierState, CommandError> {
        let fields = self.ask("HGETALL", &[]).await?;
        let asked = self.links.time(&self.key, Instant::now).await?;
        let half_trip = (asked.answered - asked.sent) / 2;
        Ok(BarrierState {
            fields,
            server_us: asked.reference_ns / 1_000,
            at: asked.sent + half_trip,
            half_trip,
        })
    }

    async fn beat(&self, index: u32) -> Result<(), CommandError> {
        let seen = self.look().await?;
        self.set(&format!("alive:{index}"), &seen.server_us.to_string()).await
    }
}

impl BarrierState {
    fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.parse().ok()
    }

    fn is_alive(&self, index: u32) -> bool {
        let alive = self.number(&format!("alive:{index}"));
        alive.is_some_and(|us| self.server_us.saturating_sub(us) < SILENT.as_micros() as u64)
    }

    fn is_lost(&self, index: u32) -> bool {
        self.fields.contains_key(&format!("lost:{index}"))
    }

    fn missing(&self, of: u32, step: u64) -> Vec<u32> {
        let at = |index| self.number(&format!("at:{index}"));
        let there = |index| at(index).is_some_and(|at| at >= step);
        let mut missing: Vec<u32> = (0..of).collect();
        missing.retain(|index| !there(*index) && !self.is_lost(*index));
        missing
    }

    /// When a moment of the server's clock is by ours.
    fn ours(&self, server_us: u64) -> Instant {
        match server_us.checked_sub(self.server_us) {
            Some(ahead) => self.at + Duration::from_micros(ahead),
            None => self.at.checked_sub(Duration::from_micros(self.server_us - server_us)).unwrap_or(self.at),
        }
    }
}

impl Barrier {
    /// Comes to the others. `plan` is what all must say alike, a JSON object; `patience` the longest wait for
    /// them, here and at each step.
    ///
    /// # Errors
    /// Another plan, parts that have begun already, a part that is there twice, and a server that does not
    /// answer. That others are missing is found by [`Barrier::meet`].
    pub async fn join(
        target: &str,
        prefix: &str,
        share: GeneratorShare,
        plan: &str,
        patience: Duration,
    ) -> Result<Barrier, BarrierError> {
        let links = Links::parse(target, Duration::from_secs(2))
            .map_err(|error| BarrierError::Unreachable(error.to_string()))?;
        let key = format!("{prefix}parts");
        let at = Arc::new(BarrierHash { links, key });
        let settled = at.settle("plan", plan).await?;
        let GeneratorShare { index, of } = share;
        if settled != plan {
            return Err(BarrierError::OtherPlan(format!(
                "part {index} of {of} was started with another plan than the parts that are there: {}; give all parts the same flags, \
                 seed and version of locklab",
                differing(&settled, plan)
            )));
        }
        let seen = at.look().await?;
        // Set once all have come: until then one that waits already keeps nobody out.
        if seen.is_alive(index) || seen.fields.contains_key("began") {
            let why = match seen.is_alive(index) {
                true => "is here already",
                false => "comes too late, or again: the others have begun",
            };
            return Err(BarrierError::Missing(format!(
                "part {index} of {of} {why}; where no part runs any more, begin again in {KEPT:?}"
            )));
        }
        let drawn = format!("{:016x}", rand::random::<u64>());
        let meeting = at.settle("meeting", &drawn).await?;
        at.beat(index).await?;
        let beats = at.clone();
        let heartbeat = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                // The next beat may get through.
                let _ = beats.beat(index).await;
            }
        });
        Ok(Barrier { at, share, meeting, patience, heartbeat })
    }

    /// What these parts have in common, and no others, whatever their plan.
    pub fn meeting(&self) -> &str {
        &self.meeting
    }

    /// Waits until all parts have come to a step, 1 or higher and rising, and then until the moment that it
    /// begins at all of them. How far from that moment this may be.
    ///
    /// A part that was silent for some seconds is left behind, but for the first step, which takes all.
    ///
    /// # Errors
    /// Parts that did not come, by their numbers; the others have gone on without this one; a server that
    /// does not answer.
    pub async fn meet(&self, step: u64) -> Result<Duration, BarrierError> {
        let GeneratorShare { index, of } = self.share;
        let at = format!("at:{index}");
        self.at.set(&at, &step.to_string()).await?;
        let go = format!("go:{step}");
        let pause = Duration::from_millis(u64::from(of / 2).clamp(5, 50));
        let began = Instant::now();
        loop {
            let seen = self.at.look().await?;
            if seen.is_lost(index) {
                return Err(BarrierError::Missing(format!(
                    "part {index} of {of} was silent for {SILENT:?}, and the others went on without it"
                )));
            }
            if let Some(go_us) = seen.number(&go) {
                let due = seen.ours(go_us);
                tokio::time::sleep_until(due.into()).await;
                if index == 0 {
                    let before = format!("go:{}", step.wrapping_sub(2));
                    self.at.drop_field(&before).await?;
                }
                return Ok(due.elapsed() + seen.half_trip);
            }
            let missing = seen.missing(of, step);
            let all_began = seen.fields.contains_key("began");
            let silent = |other: &&u32| all_began && !seen.is_alive(**other);
            for silent in missing.iter().filter(silent) {
                self.at.settle(&format!("lost:{silent}"), &step.to_string()).await?;
            }
            if missing.is_empty() {
                let go_us = seen.server_us + NOTICE.as_micros() as u64;
                self.at.settle("began", "yes").await?;
                self.at.settle(&go, &go_us.to_string()).await?;
                continue;
            }
            if began.elapsed() > self.patience {
                let names: Vec<String> = missing.iter().map(u32::to_string).collect();
                return Err(BarrierError::Missing(format!(
                    "part {} of {of} did not come to the others within {:?}",
                    names.join(", "),
                    self.patience
                )));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits for the end of all others. True for the one part that may remove what they shared.
    pub async fn end(&self) -> Result<bool, BarrierError> {
        self.meet(LAST).await?;
        self.heartbeat.abort();
        let seen = self.at.look().await.ok();
        // Nobody looks at the hash any more by then.
        tokio::time::sleep(NOTICE * 3).await;
        let is_lost = |index: &u32| seen.as_ref().is_some_and(|seen| seen.is_lost(*index));
        Ok((0..self.share.of).find(|index| !is_lost(index)) == Some(self.share.index))
    }

    /// Goes away early: the others need not wait for a silence.
    pub async fn leave(&self) {
        self.heartbeat.abort();
        let alive = format!("alive:{}", self.share.index);
        // Where that fails, they notice by the silence.
        let _ = self.at.drop_field(&alive).await;
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

/// The first fields in which two JSON objects differ, with their values.
fn differing(one: &str, other: &str) -> String {
    let read = |text| serde_json::from_str::<BTreeMap<String, Value>>(text).ok();
    let (Some(one), Some(other)) = (read(one), read(other)) else {
        return "they cannot be compared".to_owned();
    };
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let value = |of: &BTreeMap<String, Value>, key| of.get(key).unwrap_or(&Value::Null).to_string();
    let pairs = keys.into_iter().map(|key| (key, value(&one, key), value(&other, key)));
    let words: Vec<String> = pairs
        .filter(|(_, one, other)| one != other)
        .map(|(key, one, other)| format!("{key}: {one} and {other}"))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_say_in_what_they_differ() {
        let words = differing(r#"{"seed":7,"tasks":[16],"of":2}"#, r#"{"seed":7,"tasks":[32]}"#);
        assert_eq!(words, "of: 2 and null, tasks: [16] and [32]");
    }
}
