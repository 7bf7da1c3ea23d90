//! The promises of an election: one leader of a term, terms that rise, the next leader after a resignation, a
//! loss or a crash, and observers who see each.

mod support;

use std::{
    collections::BTreeMap,
    io::Read as _,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Leader, LockError, Wait};
use support::{
    PATIENCE, Server,
    proxy::{Passage, Proxy},
    sentinel::Group,
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

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

/// An election under faults: candidates that campaign again whenever they were lost, and an observer.
struct Campaigns {
    observer: Client,
    seen: BoxStream<'static, Result<Leader, LockError>>,
    terms_seen: BTreeMap<u64, String>,
    candidates: Vec<(Client, JoinHandle<()>)>,
    leads: mpsc::UnboundedSender<(u64, String)>,
    led: mpsc::UnboundedReceiver<(u64, String)>,
}

impl Campaigns {
    async fn observed_at(url: &str) -> Self {
        let observer = client(url).await;
        let seen = observer.election("jobs").expect("a good name").observe();
        let (leads, led) = mpsc::unbounded_channel();
        let (terms_seen, candidates) = (BTreeMap::new(), Vec::new());
        Campaigns { observer, seen, terms_seen, candidates, leads, led }
    }

    /// Another candidate; its client's id.
    async fn join(&mut self, url: &str) -> String {
        let (client, leads) = (client(url).await, self.leads.clone());
        let (id, election) = (client.id().to_owned(), client.election("jobs").expect("a good name"));
        let me = id.clone();
        let campaign = async move {
            loop {
                match election.campaign().await {
                    Ok(leadership) => {
                        leads.send((leadership.term(), me.clone())).expect("the test goes on");
                        leadership.lost().await;
                    }
                    // The server is away, or comes back.
                    Err(_) => tokio::time::sleep(20 * MS).await,
                }
            }
        };
        self.candidates.push((client, tokio::spawn(campaign)));
        id
    }

    /// What the observer sees until it pleases; the term of each leader is above all before it.
    async fn see_until(&mut self, pleases: impl Fn(&Result<Leader, LockError>) -> bool) {
        loop {
            let next = timeout(PATIENCE, self.seen.next()).await;
            let next = next.expect("somebody leads again").expect("the client is open");
            if let Ok(leader) = &next {
                let last = self.terms_seen.last_key_value().map_or(0, |(&term, _)| term);
                assert!(leader.term > last, "{leader:?} after term {last}");
                self.terms_seen.insert(leader.term, leader.client().to_owned());
            }
            if pleases(&next) {
                return;
            }
        }
    }

    async fn see_leader(&mut self, id: &str) {
        self.see_until(|next| next.as_ref().is_ok_and(|leader| leader.client() == id)).await;
    }

    /// Ends all; of no term there were two leaders, by what they say and by what was seen.
    async fn end(mut self) {
        for (client, campaign) in self.candidates {
            campaign.abort();
            client.close_and_release().await;
        }
        self.observer.close().await;
        drop(self.leads);
        let mut leaders = BTreeMap::new();
        while let Some((term, id)) = self.led.recv().await {
            let other = leaders.insert(term, id);
            assert_eq!(other, None, "and another led in term {term}");
        }
        for (term, id) in self.terms_seen {
            assert!(leaders.get(&term).is_none_or(|leader| *leader == id), "term {term}: {leaders:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_see_who_follows_a_leader_that_is_cut_off_and_a_restarted_server() {
    let mut server = Server::start(&[]);
    let cut = Arc::new(AtomicBool::new(false));
    let proxy = Proxy::before(server.address(), {
        let cut = Arc::clone(&cut);
        move |_| if cut.load(Ordering::SeqCst) { Passage::HungUp } else { Passage::Forwarded }
    });
    let mut campaigns = Campaigns::observed_at(&server.url()).await;
    let behind = campaigns.join(&proxy.url()).await;
    campaigns.see_leader(&behind).await;
    let other = campaigns.join(&server.url()).await;
    cut.store(true, Ordering::SeqCst);
    campaigns.see_leader(&other).await;
    cut.store(false, Ordering::SeqCst);
    // It forgets the leader and its term.
    server.kill();
    campaigns.see_until(Result::is_err).await;
    assert!(server.restart());
    campaigns.see_until(Result::is_ok).await;
    campaigns.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_see_the_next_leader_at_the_next_master() {
    let mut group = Group::start(1);
    let mut campaigns = Campaigns::observed_at(&group.url()).await;
    for _ in 0..2 {
        campaigns.join(&group.url()).await;
    }
    campaigns.see_until(Result::is_ok).await;
    // What a replica does not have when its master dies may be granted twice, terms too.
    group.data[0].acknowledged();
    group.data[0].kill();
    group.data[1].wait_for(&["ROLE"], |role| role.starts_with("master"));
    campaigns.see_until(Result::is_ok).await;
    campaigns.end().await;
}
