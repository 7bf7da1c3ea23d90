//! The names and results that callers build on: codes, tokens, short forms and what a look comes to.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, LockError, Wait};
use support::Server;

const MS: Duration = Duration::from_millis(1);

async fn client(server: &Server) -> Client {
    client_with(server, ClientOptions::default()).await
}

async fn client_with(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

/// A question changes nothing, so nothing about it is unknown when its answer is lost; of what changes
/// something it is.
#[tokio::test]
async fn a_look_that_gets_no_answer_has_failed_and_a_change_is_unknown() {
    let server = Server::start(&[]);
    let mut ended = Vec::new();
    for number in 0..9 {
        // A connection of its own: what could not even be sent has failed, whatever it was.
        let options = ClientOptions::default().response_timeout(60 * MS);
        let client = client_with(&server, options).await;
        let lock = client.lock(Kind::Reentrant, "lock").expect("a good name");
        let semaphore = client.semaphore("semaphore").expect("a good name");
        let permits = client.permits("permits").expect("a good name");
        let latch = client.latch("latch").expect("a good name");
        let _frozen = server.freeze();
        let error = match number {
            0 => lock.is_locked().await.err(),
            1 => lock.holder().await.err(),
            2 => lock.holders().await.err(),
            3 => semaphore.available().await.err(),
            4 => permits.available().await.err(),
            5 => permits.list().await.err(),
            6 => latch.count().await.err(),
            7 => latch.wait_with(Wait::Try).await.err(),
            _ => lock.force_release().await.err(),
        };
        let error = error.expect("nobody answers");
        ended.push((error.code(), error.is_definite()));
    }
    assert_eq!(ended[..8], [("failed", true); 8]);
    assert_eq!(ended[8], ("unknown", false));
}

/// Logs and other programs go by these words.
#[tokio::test]
async fn an_errors_code_names_its_class_and_the_servers_code_its_refusal() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let lock = client.lock(Kind::Plain, "lock").expect("a good name");
    let code = |error: LockError| (error.code(), error.server_code().map(str::to_owned));
    assert_eq!(code(client.lock(Kind::Plain, "").expect_err("no name")), ("invalid", None));
    let held = lock.acquire().await.expect("free");
    let error = lock.acquire_timeout(MS).await.expect_err("held");
    assert_eq!(code(error), ("busy", None));
    assert!(lock.try_acquire().await.expect("answered").is_none());
    lock.force_release().await.expect("answered");
    let error = held.release().await.expect_err("taken away");
    assert_eq!(code(error), ("not-held", None));
    server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = lock.try_acquire().await.expect_err("the server is full");
    assert_eq!(code(error), ("failed", Some("OOM".to_owned())));
    server.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    let all = [
        ErrorKind::Busy,
        ErrorKind::NotHeld,
        ErrorKind::Failed,
        ErrorKind::Unknown,
        ErrorKind::NotDurable,
        ErrorKind::Invalid,
    ];
    assert_eq!(all.map(ErrorKind::name), ["busy", "not-held", "failed", "unknown", "not-durable", "invalid"]);
    let clone = client.clone();
    clone.close().await;
    let error = lock.acquire().await.expect_err("closed");
    assert_eq!(code(error), ("failed", None), "no server has said that");
}

#[tokio::test]
async fn permits_that_are_not_held_cannot_be_overlooked() {
    let server = Server::start(&[]);
    let permits = client(&server).await.permits("permits").expect("a name");
    assert!(permits.try_set_permits(4).await.expect("answered"));
    let one = permits.acquire().await.expect("free").leave();
    let two = permits.acquire_many(2).await.expect("free").leave();
    assert!(permits.try_acquire_many(2).await.expect("answered").is_none());
    let error = permits.acquire_many_timeout(2, MS).await;
    assert_eq!(error.expect_err("taken").kind(), ErrorKind::Busy);
    permits.release(&two).await.expect("held");
    let mixed = [two[0], one[0], two[1]];
    let error = permits.release(&mixed).await.expect_err("two are unknown");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    let named = |id| error.to_string().contains(&format!("{id}"));
    assert!(named(two[0]) && named(two[1]) && !named(one[0]), "{error}");
    assert_eq!(permits.available().await.expect("answered"), 4, "the known one is back");
    let last = permits.try_acquire().await.expect("answered");
    last.expect("free").release().await.expect("held");
    assert_eq!(permits.release_held(&one).await.expect("answered"), one);
}

/// The guards of both kinds, by each way to acquire, have a greater token than those before them.
#[tokio::test]
async fn fenced_guards_have_numbers_that_rise() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    for lock in [client.fenced("fenced"), client.queued("queued")] {
        let lock = lock.expect("a good name");
        let mut last = 0;
        let mut rises = |token: u64| {
            assert!(last < token, "{last}, then {token}");
            last = token;
        };
        let guard = lock.acquire().await.expect("free");
        rises(guard.token());
        assert!(lock.try_acquire().await.expect("answered").is_none());
        guard.release().await.expect("held");
        let guard = lock.acquire_timeout(100 * MS).await.expect("free");
        rises(guard.token());
        guard.release().await.expect("held");
        let guard = lock.acquire_with(Acquire::default()).await.expect("free");
        rises(guard.token());
        // What every guard has, and what every lock has.
        assert!(!guard.is_lost() && lock.is_locked().await.expect("answered"));
        assert_eq!(guard.into_guard().token(), Some(last));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_cancelled_by_a_loss_and_not_by_a_release() {
    let server = Server::start(&[]);
    let client = lock_core::connect(&server.url()).await.expect("it answers");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    let released = guard.cancellation_token();
    guard.release().await.expect("held");
    let guard = lock.acquire().await.expect("free");
    let lost = guard.cancellation_token();
    lock.force_release().await.expect("answered");
    guard.extend(Duration::from_secs(60)).await.expect_err("gone");
    lost.cancelled().await;
    assert!(!released.is_cancelled());
    client.close().await;
}
