//! A dead master: requests succeed at the promoted one.
use futures_util::future::join_all;

use super::support::Server;
use super::support::sentinel::Group;
use super::*;
use crate::topology::dial::{Dialer, Proof};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_followed_by_the_promoted_one() {
    let mut group = Group::start(3);
    let route = route(&group.url()).await;
    let first = route.send(&incr_and_wait("k"), within(20_000)).await.unwrap();
    assert_eq!((number(&first), first.acked), (1, Some((1, 1))));
    assert_eq!(first.node.to_string(), format!("127.0.0.1:{}", group.data[0].port));
    let mut waiter = route.channels().subscribe(b"k", ChannelName::Channel("channel"));
    ready(&mut waiter).await;

    group.data[0].kill();
    hint(&mut waiter).await;
    let after = eventually(&route, &incr("k")).await;
    assert_eq!((number(&after), after.node.to_string()), (2, format!("127.0.0.1:{}", group.data[1].port)));
    group.data[1].wait_for(&["PUBSUB", "NUMSUB", "channel"], |answer| answer == "channel\n1");
    ready(&mut waiter).await;
    group.data[1].ok(&["PUBLISH", "channel", "0"]);
    hint(&mut waiter).await;

    // The old master comes back and takes itself for one; nobody goes there.
    assert!(group.data[0].restart());
    for round in 3..=40 {
        let sent = route.send(&incr("k"), within(20_000)).await.unwrap();
        assert_eq!(
            (number(&sent), sent.node.to_string()),
            (round, format!("127.0.0.1:{}", group.data[1].port))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_failover_is_followed_through_the_announcement() {
    let group = Group::start(1);
    let route = route(&group.url()).await;
    assert_eq!(number(&route.send(&incr("k"), within(20_000)).await.unwrap()), 1);
    group.data[1].wait_for(&["GET", "k"], |answer| answer == "1");
    // Refused while the sentinel has not heard of the replica for a moment (a loaded machine).
    group.sentinels[0].wait_for(&["SENTINEL", "FAILOVER", "m"], |answer| answer == "OK");
    // No request is sent meanwhile: the announcement alone must bring the change.
    let until = Instant::now() + support::PATIENCE;
    let promoted = format!("127.0.0.1:{}", group.data[1].port);
    let masters = || Vec::from_iter(route.masters().iter().map(|node| node.label.to_string()));
    while masters() != [promoted.as_str()] {
        assert!(Instant::now() < until, "still at {:?}", masters());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let after = eventually(&route, &incr("k")).await;
    assert_eq!((number(&after), after.node.to_string()), (2, promoted));
}

/// A sentinel is dialled for questions and for announcements, and says on both that it has a password.
#[tokio::test]
async fn dials_that_learn_of_a_password_together_all_send_it() {
    let server = Server::start(&["--requirepass", "secret"]);
    let target = format!("redis-sentinel://:secret@127.0.0.1:{}/m", server.port);
    let target: Target = target.parse().expect("a good URL");
    let runtime = ClientRuntime::current().expect("a runtime");
    let dialer = Dialer::new(&target, &ClientOptions::default(), None, &runtime).for_sentinel(&target);
    let dialer = Arc::new(dialer);
    let dials = (0..8).map(|_| dialer.dial(&target.endpoints[0], Proof::Answers));
    for dialled in join_all(dials).await {
        assert!(dialled.is_ok(), "{:?}", dialled.err().map(|error| error.message));
    }
}
