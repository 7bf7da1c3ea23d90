//! The promises of an election: one leader of a term, terms that rise, the next leader after a resignation, a
//! loss or a crash, and observers who see each.

mod support;

use std::{
    io::Read as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _};
use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Wait};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);

async fn client(url: &str) -> Client {
    let options = ClientOptions::default().watchdog_lease(600 * MS).poll_bound(100 * MS);
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_at_a_time_and_observers_see_each() {
    let server = Server::start(&[]);
    let [one, other] = [client(&server.url()).await, client(&server.url()).await];
    let [ours, theirs] = [&one, &other].map(|client| client.election("jobs").expect("a good name"));
    assert_eq!(ours.leader().await.expect("answered"), None);
    let mut seen = theirs.observe();
    let leadership = ours.campaign().await.expect("nobody leads");
    let busy = theirs.campaign_with(Acquire::default().wait(Wait::AtMost(200 * MS)));
    assert_eq!(busy.await.unwrap_err().kind(), ErrorKind::Busy);
    let leader = seen.next().await.expect("open").expect("answered");
    assert_eq!((leader.client(), leader.term), (one.id(), leadership.term()));
    // The next is seen too, once, and with a greater term.
    let next = tokio::spawn({
        let theirs = theirs.clone();
        async move { theirs.campaign().await.expect("the first resigns") }
    });
    server.wait_for(&["EXISTS", "locklab_queue:{jobs}"], |line| line == "1");
    let term = leadership.term();
    leadership.resign().await.expect("it led");
    let leadership = next.await.expect("no panic");
    assert!(leadership.term() > term);
    let leader = seen.next().await.expect("open").expect("answered");
    assert_eq!((leader.client(), leader.term), (other.id(), leadership.term()));
    tokio::time::sleep(300 * MS).await;
    assert!(seen.next().now_or_never().is_none());
    // Terms rise also where the server forgets everything.
    server.ok(&["FLUSHALL"]);
    tokio::time::timeout(PATIENCE, leadership.lost()).await.expect("a leader whose key is gone is told");
    let after = ours.campaign().await.expect("nobody leads");
    assert!(after.term() > leadership.term());
    other.close().await;
    // What was seen before the end may come yet; then it ends.
    let rest = seen.collect::<Vec<_>>();
    tokio::time::timeout(PATIENCE, rest).await.expect("an end");
    one.close_and_release().await;
}

const HELPER: &str = "leads_until_it_is_killed";

/// The program of the process that the test below kills.
#[tokio::test]
#[ignore = "runs in a process of its own, started by another test"]
async fn leads_until_it_is_killed() {
    let client = client(&std::env::var("LEAD_AT").expect("the server's URL")).await;
    let election = client.election("jobs").expect("a good name");
    let _leadership = election.campaign().await.expect("nobody leads");
    // Standard input ends with the parent, if the parent does not kill this process before.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
        .await
        .expect("no panic")
        .expect("a pipe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_is_followed_within_its_lease() {
    let server = Server::start(&[]);
    let mut leading = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", HELPER])
        .env("LEAD_AT", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program again");
    let client = client(&server.url()).await;
    let election = client.election("jobs").expect("a good name");
    let mut seen = election.observe();
    let killed = seen.next().await.expect("open").expect("answered");
    let next = tokio::spawn({
        let election = election.clone();
        async move { election.campaign().await.expect("the lease ends") }
    });
    // It renews: nobody else leads for longer than a lease.
    tokio::time::sleep(700 * MS).await;
    assert!(!next.is_finished());
    leading.kill().expect("SIGKILL");
    leading.wait().expect("it is dead");
    let left: i64 = server.ok(&["PTTL", "jobs"]).parse().expect("ms");
    assert!(left <= 600, "{left}");
    let killed_at = Instant::now();
    let leadership = next.await.expect("no panic");
    // The candidate asks at the lease's end, and another time if it was too early.
    let (took, lease) = (killed_at.elapsed(), 600 * MS);
    assert!(took < 3 * lease, "{took:?} without a leader after a lease of {lease:?}");
    assert!(leadership.term() > killed.term);
    let leader = seen.next().await.expect("open").expect("answered");
    assert_eq!((leader.client(), leader.term), (client.id(), leadership.term()));
    client.close_and_release().await;
}
