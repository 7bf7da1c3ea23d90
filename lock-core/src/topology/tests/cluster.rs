//! A cluster whose slots move and whose masters fail over: each request ends once and in the right place.
use super::{
    support::{Server, cluster::Cluster},
    *,
};
use crate::slot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_requests_and_subscriptions() {
    let cluster = Cluster::start(2, false);
    let route = route(&cluster.url()).await;
    assert_eq!(route.publish_command(), "SPUBLISH");
    for key in ["a", "b", "c", "d"] {
        let owner = usize::from(slot(key.as_bytes()) >= 8192);
        let sent = route.send(&incr(key), within(20_000)).await.unwrap();
        assert_eq!(
            sent.node.to_string(),
            format!("127.0.0.1:{}", cluster.nodes[owner].port),
            "{key}"
        );
    }
    let key = "a";
    let moved = slot(key.as_bytes());
    let (from, to) = if moved < 8192 { (0, 1) } else { (1, 0) };
    let mut waiter = route.subscribe(key.as_bytes(), Tune::Channel("{a}:channel"));
    ready(&mut waiter).await;
    cluster.nodes[from].ok(&["SPUBLISH", "{a}:channel", "0"]);
    hint(&mut waiter).await;

    // While the slot moves, a key that is still there is served there, and one that is not by the other node (ASK).
    cluster.begin_migration(moved, from, to);
    assert_eq!(
        number(&route.send(&incr(key), within(20_000)).await.unwrap()),
        2
    );
    let asked = route.send(&incr("{a}new"), within(20_000)).await.unwrap();
    assert_eq!(
        (number(&asked), asked.node.to_string()),
        (1, format!("127.0.0.1:{}", cluster.nodes[to].port))
    );
    let asked = route.send(&incr("{a}new"), within(20_000)).await.unwrap();
    assert_eq!(
        number(&asked),
        2,
        "each request ran once, the script was loaded on the way"
    );

    // Some keys here, some there: TRYAGAIN until the move is over.
    static BOTH: Script = Script::new("both", "return redis.call('exists', KEYS[1], KEYS[2])");
    let both = Request::new(What::Script(&BOTH)).key(b"{a}new").key(b"a");
    let torn = error(&*route, &both, 2000).await;
    assert_eq!(
        (torn.definite, torn.code.as_deref()),
        (true, Some("TRYAGAIN")),
        "{torn:?}"
    );

    let port = cluster.nodes[to].port.to_string();
    cluster.nodes[from].ok(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    cluster.finish_migration(moved, to);
    assert_eq!(number(&route.send(&both, within(20_000)).await.unwrap()), 2);
    let after = route.send(&incr(key), within(20_000)).await.unwrap();
    assert_eq!(
        (number(&after), after.node.to_string()),
        (3, format!("127.0.0.1:{}", cluster.nodes[to].port))
    );

    // The server has ended the subscription with the slot; it is taken up again at the new owner.
    hint(&mut waiter).await;
    cluster.nodes[to].wait_for(&["PUBSUB", "SHARDNUMSUB", "{a}:channel"], |answer| {
        answer == "{a}:channel\n1"
    });
    ready(&mut waiter).await;
    cluster.nodes[to].ok(&["SPUBLISH", "{a}:channel", "0"]);
    hint(&mut waiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_followed_by_its_replica() {
    let mut cluster = Cluster::start(3, true);
    let route = route(&cluster.url()).await;
    let key = "a";
    let shard = usize::from(slot(key.as_bytes())) * 3 / 16_384;
    assert_eq!(
        route
            .send(&incr_and_wait(key, Replicas::All), within(20_000))
            .await
            .unwrap()
            .acked,
        Some((1, 1))
    );
    let mut waiter = route.subscribe(key.as_bytes(), Tune::Channel("{a}:channel"));
    ready(&mut waiter).await;
    // Many requests in flight when their master dies, and none is stuck.
    let flying: Vec<_> = (0..200)
        .map(|_| {
            let route = route.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    let started = Instant::now();
                    let _ = route.send(&incr("{a}load"), within(1000)).await;
                    assert!(
                        started.elapsed() < Duration::from_secs(5),
                        "a request outlives its deadline"
                    );
                }
            })
        })
        .collect();
    cluster.nodes[shard].kill();
    let after = eventually(&*route, &incr(key)).await;
    let promoted = &cluster.nodes[shard + 3];
    assert_eq!(
        (number(&after), after.node.to_string()),
        (2, format!("127.0.0.1:{}", promoted.port))
    );
    for task in flying {
        task.await.unwrap();
    }
    ready(&mut waiter).await;
    promoted.wait_for(&["PUBSUB", "SHARDNUMSUB", "{a}:channel"], |answer| {
        answer == "{a}:channel\n1"
    });
    promoted.ok(&["SPUBLISH", "{a}:channel", "0"]);
    hint(&mut waiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_cluster_is_refused() {
    let server = Server::start(&[]);
    let url = format!("redis-cluster://127.0.0.1:{}", server.port);
    let error = connect(&url.parse().unwrap(), &options(), None)
        .await
        .expect_err("no cluster");
    assert!(
        error.definite && error.message.contains("CLUSTER SLOTS"),
        "{error:?}"
    );
}
