//! A single server that is slow, killed or refuses: definite and unknown endings, and the way back.
use std::sync::atomic::{AtomicBool, Ordering};

use super::{support::Server, *};
use crate::topology::Node;
use crate::topology::pubsub::{ChannelRouter, Hub, Listening};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_requests_in_flight_get_their_own_answers() {
    let server = Server::start(&[]);
    let route = route(&server.url()).await;
    let tasks: Vec<_> = (0..300)
        .map(|task| {
            let route = route.clone();
            tokio::spawn(async move {
                for round in 1..=20 {
                    let sent = route.send(&incr(&format!("k{task}")), within(20_000)).await.unwrap();
                    assert_eq!(number(&sent), round);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_leaves_the_request_in_flight_unknown_and_then_recovers() {
    let mut server = Server::start(&[]);
    let route = route(&server.url()).await;
    server.ok(&["CLIENT", "PAUSE", "60000", "ALL"]);
    let flying = {
        let route = route.clone();
        tokio::spawn(async move { route.send(&incr("k"), within(20_000)).await })
    };
    // The paused server has the request once it has read it; only the client's count shows the write.
    while route.dialer().commands() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.kill();
    let error = flying.await.unwrap().expect_err("the server died");
    assert!(!error.definite, "{error:?}");

    let error = super::error(&route, &incr("k"), 300).await;
    assert!(error.definite, "nobody listens: {error:?}");
    // The number of attempts is said by who knows of all.
    let said = crate::LockError::from_write("ask", "k", error).to_string();
    assert_eq!(said.matches("attempt").count(), 1, "{said}");
    assert!(server.restart());
    assert_eq!(number(&eventually(&route, &incr("k")).await), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_survives_its_connection_and_says_so() {
    let mut server = Server::start(&[]);
    let route = route(&server.url()).await;
    let mut waiter = route.channels().subscribe(b"k", ChannelName::Channel("channel"));
    ready(&mut waiter).await;
    assert!(no_hint_waiting(&mut waiter));
    server.ok(&["PUBLISH", "channel", "0"]);
    hint(&mut waiter).await;

    let mut second = route.channels().subscribe(b"k", ChannelName::Channel("channel"));
    ready(&mut second).await;
    assert_eq!(server.ok(&["PUBSUB", "NUMSUB", "channel"]), "channel\n1", "waiters share a subscription");

    // A loss is a hint and so is the new subscription; afterwards messages arrive again.
    server.ok(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    hint(&mut waiter).await;
    // The hint may come before the connection is known for dead.
    server.wait_for(&["PUBSUB", "NUMSUB", "channel"], |answer| answer == "channel\n1");
    ready(&mut waiter).await;
    server.ok(&["PUBLISH", "channel", "0"]);
    hint(&mut waiter).await;

    server.kill();
    hint(&mut waiter).await;
    assert!(server.restart());
    server.wait_for(&["PUBSUB", "NUMSUB", "channel"], |answer| answer == "channel\n1");
    ready(&mut waiter).await;
    server.ok(&["PUBLISH", "channel", "0"]);
    hint(&mut waiter).await;
    hint(&mut second).await;

    drop((waiter, second));
    server.wait_for(&["PUBSUB", "NUMSUB", "channel"], |answer| answer == "channel\n0");
}

/// A panic ends the task that has a node's subscriptions, and then the one that says which node that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_and_a_board_that_a_panic_ended_are_started_anew() {
    struct PanicsOnce(Arc<Node>, AtomicBool);
    impl ChannelRouter for PanicsOnce {
        fn place(&self, _: u16) -> Option<Arc<Node>> {
            assert!(self.1.swap(true, Ordering::Relaxed), "on purpose");
            Some(Arc::clone(&self.0))
        }
    }
    let server = Server::start(&[]);
    let route = route(&server.url()).await;
    let mut waiter = route.channels().subscribe(b"k", ChannelName::Channel("channel"));
    ready(&mut waiter).await;
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let panics = heard.clone();
    waiter.read(Box::new(move |_| panic!("on purpose: {:?}", panics.send(()))));
    server.ok(&["PUBLISH", "channel", "0"]);
    hears.recv().await.expect("a reader");
    waiter.read(Box::new(move |_| heard.send(()).is_ok()));
    let until = Instant::now() + support::PATIENCE;
    while hears.try_recv().is_err() {
        assert!(Instant::now() < until, "nobody subscribes any more");
        server.ok(&["PUBLISH", "channel", "0"]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let node = route.masters().remove(0);
    let router = PanicsOnce(Arc::clone(&node), AtomicBool::new(false));
    let hub = Hub::new(Arc::new(router), Listening::Plain, &node.dialer.runtime);
    let first = hub.join(b"k", ChannelName::Channel("first"));
    while !first.is_ready() {
        assert!(Instant::now() < until, "nobody places a channel any more");
        drop(hub.join(b"k", ChannelName::Channel("next")));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
