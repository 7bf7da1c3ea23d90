//! A cluster whose slots move and whose masters fail over: each request ends once and in the right place.
use super::support::cluster::Cluster;
use super::*;
use crate::slot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_followed_by_its_replica() {
    let mut cluster = Cluster::start(3, true);
    let route = route(&cluster.url()).await;
    let key = "a";
    let shard = usize::from(slot(key.as_bytes())) * 3 / 16_384;
    assert_eq!(route.send(&incr_and_wait(key), within(20_000)).await.unwrap().acked, Some((1, 1)));
    let mut waiter = route.channels().subscribe(key.as_bytes(), ChannelName::Channel("{a}:channel"));
    ready(&mut waiter).await;
    // Many requests in flight when their master dies, and none is stuck.
    let flying: Vec<_> = (0..200)
        .map(|_| {
            let route = route.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    let started = Instant::now();
                    let _ = route.send(&incr("{a}load"), within(1000)).await;
                    assert!(started.elapsed() < Duration::from_secs(5), "a request outlives its deadline");
                }
            })
        })
        .collect();
    cluster.nodes[shard].kill();
    let after = eventually(&route, &incr(key)).await;
    let promoted = &cluster.nodes[shard + 3];
    assert_eq!((number(&after), after.node.to_string()), (2, format!("127.0.0.1:{}", promoted.port)));
    for task in flying {
        task.await.unwrap();
    }
    ready(&mut waiter).await;
    promoted.wait_for(&["PUBSUB", "SHARDNUMSUB", "{a}:channel"], |answer| answer == "{a}:channel\n1");
    promoted.ok(&["SPUBLISH", "{a}:channel", "0"]);
    hint(&mut waiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_set_up_anew_on_its_servers_is_adopted() {
    let mut cluster = Cluster::start(3, false);
    // Its epoch is far above the next one's.
    for _ in 0..20 {
        cluster.nodes[0].call(&["CLUSTER", "BUMPEPOCH"]);
        cluster.nodes[1].call(&["CLUSTER", "BUMPEPOCH"]);
    }
    let route = route(&cluster.url()).await;
    eventually(&route, &incr("a")).await;
    cluster.form_anew();
    let until = Instant::now() + support::PATIENCE;
    let owner = &cluster.nodes[usize::from(slot(b"a")) * 3 / 16_384];
    let owner = format!("127.0.0.1:{}", owner.port);
    // Without a redirection, which would lead there too.
    while route.owner(&incr("a")).is_none_or(|node| *node.label != *owner) {
        assert!(Instant::now() < until, "the old map is still in use");
        eventually(&route, &incr("a")).await;
    }
}

/// One node of three that was set up alone, and alone answers: it knows an older configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_of_an_older_epoch_is_not_followed() {
    let cluster = Cluster::start(3, false);
    cluster.nodes[0].call(&["CLUSTER", "BUMPEPOCH"]);
    let route = route(&cluster.url()).await;
    let key = "b";
    assert_eq!(usize::from(slot(key.as_bytes())) * 3 / 16_384, 0);
    eventually(&route, &incr(key)).await;
    let alone = &cluster.nodes[2];
    alone.ok(&["FLUSHALL"]);
    alone.ok(&["CLUSTER", "RESET", "HARD"]);
    alone.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    alone.wait_for(&["CLUSTER", "INFO"], |info| info.contains("cluster_state:ok"));
    let silent = [cluster.nodes[0].freeze(), cluster.nodes[1].freeze()];
    route.rediscover(within(2_000)).await;
    let owner = route.owner(&incr(key)).expect("known");
    assert_eq!(*owner.label, *format!("127.0.0.1:{}", cluster.nodes[0].port));
    drop(silent);
    eventually(&route, &incr(key)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_redirection_one_node_is_asked_for_all_that_were_redirected() {
    let cluster = Cluster::start(3, false);
    let route = route(&cluster.url()).await;
    let (slot, to) = (slot(b"a"), &cluster.nodes[0]);
    cluster.begin_migration(slot, usize::from(slot) * 3 / 16_384, 0);
    cluster.finish_migration(slot, 0);
    let questions = || -> u64 {
        let calls = cluster.nodes.iter().filter_map(|node| {
            let info = node.ok(&["INFO", "commandstats"]);
            let (_, calls) = info.split_once("cmdstat_cluster|slots:calls=")?;
            calls.split(',').next()?.parse::<u64>().ok()
        });
        calls.sum()
    };
    let before = questions();
    let request = incr("a");
    for answer in futures_util::future::join_all((0..50).map(|_| route.send(&request, within(5_000)))).await {
        answer.unwrap();
    }
    let (until, label) = (Instant::now() + support::PATIENCE, format!("127.0.0.1:{}", to.port));
    while route.owner(&request).is_none_or(|node| *node.label != *label) {
        assert!(Instant::now() < until, "the old map is still in use");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // One that was redirected late may have begun a second look.
    let asked = questions() - before;
    assert!((1..=2).contains(&asked), "{asked} questions");
}
