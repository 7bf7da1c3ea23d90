//! Who a client is to its server: database, user and name on every connection, a password nowhere.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, Durability, Kind, Lease, Target, Wait};
use support::{PATIENCE, Server};

const PASSWORD: &str = "s3cret-of-the-app";

fn how() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(Duration::from_secs(60)))
}

fn guarded() -> (Server, String) {
    let server = Server::start(&[]);
    let password = format!(">{PASSWORD}");
    server.ok(&["ACL", "SETUSER", "app", "on", &password, "~*", "&*", "+@all"]);
    let url = format!("redis://app:{PASSWORD}@127.0.0.1:{}/3", server.port);
    (server, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_is_the_users_also_after_a_loss() {
    let (server, url) = guarded();
    let options =
        ClientOptions::default().client_name("orders-7").response_timeout(Duration::from_millis(500));
    let target = url.parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    for round in 0..2 {
        let guard = lock.acquire_with(how()).await.expect("free");
        // A connection for subscriptions and one for WAIT come up beside the first.
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire_with(how()).await }
        });
        let thin = client.lock(Kind::Plain, "other").expect("a good name");
        let thin = thin.acquire_with(how().durability(Durability::Wait(1))).await;
        thin.expect_err("there is no replica");
        let numsub = ["PUBSUB", "NUMSUB", "redisson_lock__channel:{n}"];
        server.wait_for(&numsub, |answer| answer.ends_with('1'));

        let list = server.ok(&["CLIENT", "LIST"]);
        let ours: Vec<_> = list.lines().filter(|line| line.contains("name=orders-7")).collect();
        assert!(ours.len() >= 3, "round {round}: {list}");
        for line in ours {
            assert!(line.contains(" user=app ") && line.contains(" db=3 "), "{line}");
        }
        // None but ours and the one that asks.
        let strangers =
            list.lines().filter(|line| line.contains("user=app") && !line.contains("name=orders-7"));
        assert_eq!(strangers.count(), 0, "{list}");
        guard.release().await.expect("held");
        waiting.await.expect("no panic").expect("free").release().await.expect("held");
        server.ok(&["CLIENT", "KILL", "USER", "app"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_and_no_debug_text_shows_the_password() {
    let (mut server, url) = guarded();
    let silent = |text: String| assert!(!text.contains(PASSWORD), "{text}");
    let target: Target = url.parse().expect("a good URL");
    let options = ClientOptions::default()
        .response_timeout(Duration::from_millis(200))
        .connect_timeout(Duration::from_millis(200));
    silent(format!("{target} {target:?} {target:#?}"));

    server.ok(&["ACL", "SETUSER", "app", "resetpass", ">another"]);
    let refused = Client::connect(&target, options.clone()).await;
    let refused = refused.expect_err("a wrong password");
    silent(format!("{refused} {refused:?}"));

    server.ok(&["ACL", "SETUSER", "app", &format!(">{PASSWORD}")]);
    let client = Client::connect(&target, options.clone()).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = lock.acquire_with(how()).await.expect("free");
    silent(format!("{client:?} {lock:?} {guard:?} {:?}", guard.events()));
    server.kill();
    let gone = guard.extend(Duration::from_secs(60)).await.expect_err("no server");
    silent(format!("{gone} {gone:?}"));
    let gone = lock.acquire_with(how().wait(Wait::Try)).await.expect_err("no server");
    silent(format!("{gone} {gone:?}"));
    let gone = Client::connect(&target, options).await.expect_err("no server");
    silent(format!("{gone} {gone:?}"));
}
