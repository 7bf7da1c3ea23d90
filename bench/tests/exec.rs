//! A driver that does not keep to the protocol is reported by name, and what it had in flight is unknown.

mod support;

use std::time::{Duration, Instant};

use bench::exec::ExecSubject;
use bench::subject::{AcquireEnd, ClientEvent, Connected, ReleaseEnd, Subject};
use support::{alive, ask, driver, to, until};

const NOWHERE: &str = "redis://127.0.0.1:1";

async fn start(mode: &str) -> Connected {
    driver(mode).connect(&to(NOWHERE)).await.unwrap()
}

/// Acquires from a driver that breaks off; its unknown ending and its `Exited`.
async fn broken_off(mode: &str) -> (AcquireEnd, String) {
    let mut connected = start(mode).await;
    let end = connected.client.acquire(ask("a", "t0", Duration::ZERO, None)).await;
    let event = connected.events.recv().await;
    let Some(ClientEvent::Exited { how }) = event else {
        panic!("{mode}: {event:?} instead of the report of its end");
    };
    let pid = connected.client.pid().unwrap();
    until("the driver has ended", async || !alive(pid)).await;
    (end, how)
}

/// The kernel ends a driver with the thread that forked it, and a thread of a runtime ends when it has been
/// idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_outlives_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Handle::current();
    let asking = std::thread::spawn(move || {
        let connected = runtime.block_on(start("without-acquire"));
        (connected, nix::unistd::gettid())
    });
    let joined = tokio::task::spawn_blocking(|| asking.join().unwrap());
    let (connected, thread) = joined.await.unwrap();
    let task = format!("/proc/self/task/{thread}");
    until("the thread is gone", async || !std::fs::exists(&task).unwrap()).await;
    let asked = ask("a", "t0", Duration::ZERO, None);
    let end = connected.client.acquire(asked).await;
    assert!(format!("{end:?}").contains("no acquire here"), "{end:?}");
}

#[tokio::test]
async fn the_drivers_of_a_run_share_the_room_for_their_logs() {
    let dir = tempfile::tempdir().unwrap();
    let loud = "sh -c 'head -c 40000000 /dev/zero | tr \\\\0 x >&2; exit 3'";
    let loud = ExecSubject::from_command_line(loud).unwrap();
    let starting = ["c1", "c2"].map(|client| {
        let mut place = to(NOWHERE);
        place.log = Some(dir.path().join(format!("{client}.log")));
        let loud = &loud;
        async move { loud.connect(&place).await.err().expect("it exits").to_string() }
    });
    for said in futures_util::future::join_all(starting).await {
        assert!(said.contains("exited with code 3"), "{said}");
    }
    let logs = std::fs::read_dir(dir.path()).unwrap().flatten();
    let kept: u64 = logs.map(|log| log.metadata().unwrap().len()).sum();
    assert!((64 << 20..66 << 20).contains(&kept), "{kept}");
}

#[tokio::test]
async fn a_driver_that_exits_is_reported_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut place = to(NOWHERE);
    place.log = Some(dir.path().join("c1.log"));
    let mut connected = driver("exits").connect(&place).await.unwrap();
    let end = connected.client.acquire(ask("a", "t0", Duration::ZERO, None)).await;
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
    let Some(ClientEvent::Exited { how }) = connected.events.recv().await else {
        panic!("no report");
    };
    for part in ["bench-test-driver exits", "client c1", "exited with code 3", "a reason of its own"] {
        assert!(how.contains(part), "`{part}` is not in: {how}");
    }
    let after = connected.client.release("g1").await;
    assert!(matches!(after, ReleaseEnd::Failed(_)), "nothing can be sent to a dead driver: {after:?}");
}

#[tokio::test]
async fn a_line_that_is_not_json_is_reported_with_the_line() {
    let (end, how) = broken_off("garbage").await;
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
    assert!(how.contains("not a JSON object") && how.contains("panic: nil map"), "{how}");
}

#[tokio::test]
async fn an_id_answered_twice_is_reported() {
    let (end, how) = broken_off("twice").await;
    assert_eq!(end, AcquireEnd::Busy, "the first answer counts");
    assert!(how.contains("answered an id twice"), "{how}");
}

#[tokio::test]
async fn a_token_for_which_a_history_has_no_room_is_reported() {
    let (end, how) = broken_off("huge-token").await;
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
    assert!(how.contains("token 9223372036854775808"), "{how}");
}

#[tokio::test]
async fn an_unknown_ending_is_reported_and_unknown() {
    let (end, how) = broken_off("ending").await;
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
    assert!(how.contains("unknown ending") && how.contains("perhaps"), "{how}");
}

#[tokio::test]
async fn a_killed_driver_leaves_its_call_unknown() {
    let mut connected = start("silent").await;
    let pid = connected.client.pid().unwrap();
    let call = connected.client.acquire(ask("a", "t0", Duration::from_secs(60), None));
    let kill = async {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    };
    let (end, ()) = tokio::join!(call, kill);
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
    let Some(ClientEvent::Exited { how }) = connected.events.recv().await else {
        panic!("no report");
    };
    assert!(how.contains("killed by signal 9"), "{how}");
}

#[tokio::test]
async fn a_driver_that_never_answers_is_reported_when_its_time_is_over_pauses_not_counted() {
    let connected = start("silent").await;
    connected.client.set_paused(true);
    let begun = Instant::now();
    let call = connected.client.acquire(ask("a", "t0", Duration::ZERO, None));
    let pause = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        connected.client.set_paused(false);
    };
    let (end, ()) = tokio::join!(call, pause);
    let AcquireEnd::Unknown(why) = end else {
        panic!("{end:?}");
    };
    assert!(why.contains("never answered") && why.contains(r#""op":"acquire""#), "{why}");
    assert_eq!(connected.client.unanswered(), Some(why));
    // Ten seconds of patience and the pause, less a step of the waiting.
    assert!(begun.elapsed() >= Duration::from_millis(11_500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_driver_of_another_version_is_refused() {
    for (mode, part) in
        [("old", "version 7"), ("no-kinds", "no kinds"), ("echo", "`{\"id\":0,\"op\":\"hello\"")]
    {
        let Err(error) = driver(mode).connect(&to(NOWHERE)).await else {
            panic!("{mode} was accepted");
        };
        assert!(error.to_string().contains(part), "{error}");
        let named = error.to_string().contains(mode) && error.to_string().contains("client c1");
        assert!(named, "{error}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let subject = bench::exec::ExecSubject::from_command_line("/nonexistent/driver --fast").unwrap();
    let Err(error) = subject.connect(&to(NOWHERE)).await else {
        panic!("connected to nothing");
    };
    assert!(error.to_string().contains("/nonexistent/driver"), "{error}");
}

#[tokio::test]
async fn events_carry_their_age_and_no_attempt_is_older_than_its_call() {
    let mut connected = start("events").await;
    let called = Instant::now();
    let end = connected.client.acquire(ask("a", "t0", Duration::ZERO, None)).await;
    let AcquireEnd::Ok { grant, token, sent_at, .. } = end else {
        panic!("{end:?}");
    };
    assert_eq!((grant.as_str(), token), ("g1", Some(17)));
    assert!(sent_at.unwrap() >= called, "an age of an hour is cut at the call");
    let Some(ClientEvent::Extended { lease, sent_at, .. }) = connected.events.recv().await else {
        panic!("no renewal");
    };
    assert_eq!(lease, Duration::from_millis(900));
    assert!(sent_at.unwrap().elapsed() >= Duration::from_millis(5));
    let Some(ClientEvent::Lost { reason, at, .. }) = connected.events.recv().await else {
        panic!("no loss");
    };
    assert_eq!(reason, "gone");
    assert!(at.elapsed() >= Duration::from_millis(20));
    assert_eq!(connected.client.watchdog(), Some(Duration::from_millis(1234)));
}

#[tokio::test]
async fn a_stamp_of_the_shared_clock_does_not_age_in_the_pipe() {
    for (mode, believed) in [("slow-pipe", true), ("other-clock", false)] {
        let connected = start(mode).await;
        let called = Instant::now();
        let end = connected.client.acquire(ask("a", "t0", Duration::ZERO, None)).await;
        let AcquireEnd::Ok { sent_at: Some(sent_at), .. } = end else {
            panic!("{end:?}");
        };
        assert!(sent_at >= called, "nothing is sent before it is asked for");
        // The driver slept for 100 ms after it had sent; its age of 0 ms says otherwise.
        if believed {
            assert!(sent_at.elapsed() >= Duration::from_millis(100));
        } else {
            assert!(sent_at <= Instant::now());
        }
    }
}

#[tokio::test]
async fn busy_that_may_mean_held_is_unknown() {
    let connected = start("open-busy").await;
    let end = connected.client.acquire(ask("a", "t0", Duration::ZERO, None)).await;
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
}

#[tokio::test]
async fn a_driver_that_ignores_bye_is_ended() {
    let connected = start("stubborn").await;
    let pid = connected.client.pid().unwrap();
    connected.client.close().await;
    assert!(!alive(pid));
}

#[tokio::test]
async fn a_client_that_is_dropped_takes_its_process_with_it() {
    let connected = start("silent").await;
    let pid = connected.client.pid().unwrap();
    drop(connected);
    until("the driver has ended", async || !alive(pid)).await;
}
