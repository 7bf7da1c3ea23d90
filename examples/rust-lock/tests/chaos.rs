//! Tries to break the lock: servers are started, clients are paused and lose replies, and the recorded history is judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bench::subject::{
    AcquireEnd, AcquireRequest, ConnectTo, Connected, LockClient, ReleaseEnd, Subject, SubjectError,
};
use chaos::laboratory::{Laboratory, serve_client};
use chaos::scenario::Scenario;
use results::verdict::State;
use rust_lock::RedisLock;

/// The lock, or its twin that releases whatever is there.
struct Lock {
    name: &'static str,
    checks_owner: bool,
}

const SOUND: Lock = Lock { name: "rust-lock", checks_owner: true };
const BROKEN: Lock = Lock { name: "rust-lock-unchecked", checks_owner: false };

struct Client {
    lock: RedisLock,
    name: String,
    checks_owner: bool,
    grants: AtomicU64,
}

#[async_trait]
impl Subject for Lock {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        "SET NX PX with a lease that nobody renews"
    }

    fn kinds(&self) -> Vec<String> {
        vec!["plain".to_owned()]
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let lock = RedisLock::connect(&to.target).await;
        let client = Client {
            lock: lock.map_err(|error| SubjectError::unreachable(error.to_string()))?,
            name: to.client.clone(),
            checks_owner: self.checks_owner,
            grants: AtomicU64::new(0),
        };
        let (_, events) = tokio::sync::mpsc::unbounded_channel();
        let client = Box::new(client);
        Ok(Connected { client, events })
    }
}

#[async_trait]
impl LockClient for Client {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let Some(lease) = request.lease else {
            return AcquireEnd::Failed("this lock renews nothing".to_owned());
        };
        let wait = request.wait.unwrap_or(Duration::from_secs(3600));
        let number = self.grants.fetch_add(1, Ordering::Relaxed);
        // A grant is named so that its release finds the lock and the value.
        let value = format!("{}-{number}", self.name);
        match self.lock.acquire(request.lock, &value, lease, Instant::now() + wait).await {
            Ok(true) => AcquireEnd::Ok {
                grant: format!("{} {value}", request.lock),
                token: None,
                sent_at: None,
                returned_at: None,
                lease: None,
                at: None,
            },
            Ok(false) => AcquireEnd::Busy,
            // It may have been granted, and the answer lost.
            Err(error) => AcquireEnd::Unknown(error.to_string()),
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let (lock, value) = grant.split_once(' ').unwrap_or((grant, ""));
        let released = match self.checks_owner {
            true => self.lock.release(lock, value).await,
            false => self.lock.release_unchecked(lock).await,
        };
        match released {
            Ok(true) => ReleaseEnd::Ok,
            Ok(false) => ReleaseEnd::NotHeld,
            Err(error) => ReleaseEnd::Unknown(error.to_string()),
        }
    }
}

// ANCHOR: tests
fn laboratory(lock: Lock, client: &str) -> Laboratory {
    let laboratory = Laboratory::new(Arc::new(lock), client, env!("CARGO_TARGET_TMPDIR"));
    laboratory.expect("the program knows where it is")
}

fn builtin(name: &str) -> Scenario {
    let builtin = chaos::builtin::find(name).expect("it comes with the laboratory");
    Scenario::parse(builtin.path, builtin.text).expect("a good file")
}

/// What a client of the sound lock runs; in the tests' own process it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn sound_client() {
    serve_client(Arc::new(SOUND)).await.expect("a harness that asks");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_client() {
    serve_client(Arc::new(BROKEN)).await.expect("a harness that asks");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_is_granted_the_lock_before_the_lease_of_a_paused_holder_ends() {
    let laboratory = laboratory(SOUND, "sound_client");
    let run = laboratory.judge(&builtin("client-pause"), 1).await.expect("it ran");
    let verdicts = &run.result.verdicts;
    assert!(verdicts.contract.state == State::Clean, "{verdicts:?}");
    // No lock that only counts leases can do better, and the file says so.
    assert!(run.result.as_expected, "{verdicts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_lost_costs_nobody_the_lock() {
    let laboratory = laboratory(SOUND, "sound_client");
    let run = laboratory.judge(&builtin("lost-reply-release"), 1).await.expect("it ran");
    assert!(!run.result.is_lost(), "{:?}", run.result.verdicts);
}

/// A holder that stops for longer than its lease, and releases late.
const LATE_RELEASE: &str = r#"
name = "late-release"
[topology]
kind = "single"
[lock]
subject = "lock-core:plain"
lease = "2s"
wait = "3s"
[load]
clients = 3
# Three of 600 ms follow one lease: the third is under way when the pause ends.
hold = "600ms"
duration = "6s"
[[faults]]
at = "500ms"
for = "3s"
fault = "pause"
on = "holder"
[expect]
contract = "clean"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_leaves_the_next_holder_its_lock_and_a_twin_that_does_not_check_is_convicted() {
    let scenario = Scenario::parse("late-release.toml", LATE_RELEASE).expect("a good file");
    let sound = laboratory(SOUND, "sound_client").judge(&scenario, 1).await.expect("it ran");
    assert!(sound.result.as_expected, "{:?}", sound.result.verdicts);
    let broken = laboratory(BROKEN, "broken_client").judge(&scenario, 1).await.expect("it ran");
    assert!(broken.result.is_lost(), "{:?}", broken.result.verdicts);
}
// ANCHOR_END: tests
