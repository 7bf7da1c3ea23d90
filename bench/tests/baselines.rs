//! The contract that every lock of another system keeps, on its real server: exclusion, bounded waits, the
//! end of a lease and of a session, loss, and that nobody gives back what another holds. Each broken twin
//! fails the part that it is broken in. Systems that are not built in have no tests here.
#![cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "zookeeper"))]

mod support;

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bench::{
    subject::{AcquireEnd, ClientEvent, ConnectTo, Connected, ReleaseEnd, Subject, SubjectError},
    subjects,
};
use cluster_config::{ClusterError, ProvisionerKind, Server, Topology, TopologyKind};
use support::{Lab, PATIENCE, ask, held, to, try_lab};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
/// The session of every client here, in whole seconds, since some servers count those: far above what a busy
/// machine takes for one answer.
const SESSION: Duration = Duration::from_secs(3);

/// A system's server; `None` where it is not on this machine, which is said in the form that `.ci/run`
/// counts.
async fn server(kind: TopologyKind) -> Option<Lab> {
    match try_lab(Topology::of(kind)).await {
        Ok(lab) => Some(lab),
        Err(error @ ClusterError::Missing(_)) => {
            let mut output = std::io::stderr();
            let _ = writeln!(output, "SKIPPED the contract of locks on {kind}: {error}");
            None
        }
        Err(error) => panic!("{kind}: {error}"),
    }
}

fn connect_to(target: &str) -> ConnectTo {
    ConnectTo { watchdog: Some(SESSION), ..to(target) }
}

fn subject(name: &str) -> Arc<dyn Subject> {
    subjects::find(name).unwrap()
}

async fn connect(name: &str, target: &str) -> Connected {
    for _ in 0..10 {
        match subject(name).connect(&connect_to(target)).await {
            Ok(connected) => return connected,
            // A busy machine may take longer than a client waits.
            Err(SubjectError::Unreachable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("{name} does not reach {target}")
}

/// A lock name that nobody else uses.
fn fresh(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("locklab:test:{name}:{since:x}:{number}")
}

/// How many were inside at once, at most: eight tasks of two clients, three turns each. A token that does not
/// rise counts as two.
async fn most_inside(name: &str, target: &str) -> usize {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let last = Arc::new(std::sync::Mutex::new(None));
    let lock = fresh("inside");
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let client = Arc::new(connect(name, target).await.client);
        for task in 0..4 {
            let (client, lock) = (client.clone(), lock.clone());
            let (inside, most, last) = (inside.clone(), most.clone(), last.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..3 {
                    let request = ask(&lock, "", PATIENCE, LONG);
                    let AcquireEnd::Ok { grant, token, .. } = client.acquire(request).await else {
                        panic!("task {task} was not served");
                    };
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    let before = std::mem::replace(&mut *last.lock().unwrap(), token);
                    if token.is_some() && token <= before {
                        most.fetch_max(2, Ordering::SeqCst);
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    client.release(&grant).await;
                }
            }));
        }
    }
    for task in tasks {
        tokio::time::timeout(PATIENCE * 2, task).await.expect(name).expect(name);
    }
    most.load(Ordering::SeqCst)
}

/// Exclusion; what is busy says so within its bound; what was given back is free at once; a stranger gives
/// nothing back.
async fn excludes(name: &str, target: &str) {
    assert_eq!(most_inside(name, target).await, 1, "{name}");
    let (a, b) = (connect(name, target).await.client, connect(name, target).await.client);
    let lock = fresh("busy");
    let request = |wait| ask(&lock, "", wait, LONG);
    let grant = held(a.as_ref(), request(Duration::ZERO)).await;
    for (client, who) in [(&a, "itself"), (&b, "another")] {
        for wait in [Duration::ZERO, Duration::from_millis(300)] {
            let called = Instant::now();
            let busy = client.acquire(request(wait)).await;
            assert_eq!(busy, AcquireEnd::Busy, "{name} {who} {wait:?}");
            let late = called.elapsed().saturating_sub(wait);
            assert!(late < Duration::from_secs(2), "{name} {who} {wait:?}: {late:?} late");
        }
    }
    assert_eq!(a.held(&grant).await, Some(true), "{name}");
    let stranger = b.release(&grant).await;
    assert!(matches!(stranger, ReleaseEnd::Failed(_)), "{name}: {stranger:?}");
    assert_eq!(b.acquire(request(Duration::ZERO)).await, AcquireEnd::Busy, "{name}");
    assert_eq!(a.release(&grant).await, ReleaseEnd::Ok, "{name}");
    assert_eq!(a.held(&grant).await, Some(false), "{name}");
    let other = held(b.as_ref(), request(Duration::from_secs(1))).await;
    let again = a.release(&grant).await;
    assert!(matches!(again, ReleaseEnd::Failed(_)), "{name}: {again:?}");
    assert_eq!(b.release(&other).await, ReleaseEnd::Ok, "{name}");
}

/// Whether a holder whose lease is over frees the lock of its successor when it gives back.
async fn late_release_frees(name: &str, target: &str) -> bool {
    let (a, b) = (connect(name, target).await.client, connect(name, target).await.client);
    let lock = fresh("late");
    let short = Some(Duration::from_millis(300));
    let late = held(a.as_ref(), ask(&lock, "", Duration::ZERO, short)).await;
    let successor = held(b.as_ref(), ask(&lock, "", PATIENCE, LONG)).await;
    a.release(&late).await;
    let third = a.acquire(ask(&lock, "", Duration::ZERO, LONG)).await;
    b.release(&successor).await;
    matches!(third, AcquireEnd::Ok { .. })
}

/// A lease ends by itself; who is late then does not give back what another has, and cannot extend it. A
/// waiter that gave up leaves nothing behind.
async fn ends(name: &str, target: &str) {
    assert!(!late_release_frees(name, target).await, "{name}: the late release freed it");
    let (a, b) = (connect(name, target).await.client, connect(name, target).await.client);
    let lock = fresh("ends");
    let short = Some(Duration::from_millis(400));
    let late = held(a.as_ref(), ask(&lock, "", Duration::ZERO, short)).await;
    let gave_up = b.acquire(ask(&lock, "", Duration::from_millis(50), LONG)).await;
    assert_eq!(gave_up, AcquireEnd::Busy, "{name}");
    let begun = Instant::now();
    let successor = held(b.as_ref(), ask(&lock, "", PATIENCE, LONG)).await;
    assert!(begun.elapsed() < SESSION * 2, "{name}: {:?}", begun.elapsed());
    assert_eq!(a.held(&late).await, Some(false), "{name}");
    let extended = a.extend(&late, Duration::from_millis(900)).await;
    assert_ne!(extended, ReleaseEnd::Ok, "{name}");
    assert_eq!(a.release(&late).await, ReleaseEnd::NotHeld, "{name}");
    assert_eq!(b.extend(&successor, Duration::from_secs(1)).await, ReleaseEnd::Ok, "{name}");
    assert_eq!(b.release(&successor).await, ReleaseEnd::Ok, "{name}");
}

/// A renewed lock outlasts its session as long as its client lives, and says each time that it was renewed.
async fn renews(name: &str, target: &str) {
    let (a, b) = (connect(name, target).await, connect(name, target).await.client);
    let lock = fresh("renewed");
    let grant = held(a.client.as_ref(), ask(&lock, "", Duration::ZERO, None)).await;
    tokio::time::sleep(SESSION * 3 / 2).await;
    // On a busy machine the first connection of this client may take too long.
    let asked_until = Instant::now() + PATIENCE;
    let mut busy = b.acquire(ask(&lock, "", Duration::ZERO, LONG)).await;
    while matches!(busy, AcquireEnd::Failed(_)) && Instant::now() < asked_until {
        busy = b.acquire(ask(&lock, "", Duration::ZERO, LONG)).await;
    }
    assert_eq!(busy, AcquireEnd::Busy, "{name}");
    let mut events = a.events;
    let renewed = events.try_recv();
    assert!(matches!(renewed, Ok(ClientEvent::Extended { .. })), "{name}: {renewed:?}");
    assert_eq!(a.client.held(&grant).await, Some(true), "{name}");
    assert_eq!(a.client.release(&grant).await, ReleaseEnd::Ok, "{name}");
}

/// A target of another system is refused in a sentence, and one that does not answer is unreachable.
async fn refuses(name: &str, system: &str) {
    let connected = subject(name).connect(&to("redis://127.0.0.1:1")).await;
    let error = connected.err().expect(name);
    assert!(matches!(error, SubjectError::NotApplicable(_)), "{name}: {error}");
    assert!(error.to_string().contains(&format!("{system}://")), "{name}: {error}");
    let connected = subject(name).connect(&to(format!("{system}://127.0.0.1:1/x"))).await;
    let error = connected.err().expect(name);
    assert!(matches!(error, SubjectError::Unreachable(_)), "{name}: {error}");
    let ours = subject("lock-core:reentrant").connect(&to(format!("{system}://127.0.0.1:1"))).await;
    assert!(matches!(ours.err(), Some(SubjectError::Usage(_))), "{system}");
}

/// Passes every byte between a client and a server on, until it is told to freeze: then it answers nothing
/// and closes nothing.
async fn relay(server: &str) -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (freeze, frozen) = watch::channel(false);
    let server = server.to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, frozen) = (server.clone(), frozen.clone());
            tokio::spawn(async move {
                let server = TcpStream::connect(server).await.unwrap();
                let (client, server) = (client.into_split(), server.into_split());
                tokio::join!(pass(client.0, server.1, frozen.clone()), pass(server.0, client.1, frozen));
            });
        }
    });
    (address, freeze)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut frozen: watch::Receiver<bool>) {
    let mut bytes = vec![0; 65_536];
    loop {
        let read = tokio::select! {
            () = async { drop(frozen.wait_for(|frozen| *frozen).await) } => std::future::pending().await,
            read = from.read(&mut bytes) => read.unwrap_or(0),
        };
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// By how long the holder's belief outlasted its successor's grant, where the holder is cut off and nothing
/// tells it; zero if it ended before.
async fn believes_too_long(name: &str, target: &str) -> Duration {
    let (scheme, rest) = target.split_once("://").unwrap();
    let (user, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (host, path) = hosts.split_once('/').unwrap_or((hosts, ""));
    let (address, freeze) = relay(host).await;
    let cut = match user {
        "" => format!("{scheme}://{address}/{path}"),
        user => format!("{scheme}://{user}@{address}/{path}"),
    };
    let (mut a, b) = (connect(name, &cut).await, connect(name, target).await.client);
    let lock = fresh("cut");
    let grant = held(a.client.as_ref(), ask(&lock, "", Duration::ZERO, None)).await;
    tokio::time::sleep(SESSION / 2).await;
    freeze.send(true).unwrap();
    let lost = async {
        loop {
            if let ClientEvent::Lost { at, .. } = a.events.recv().await.expect(name) {
                return at;
            }
        }
    };
    let successor = async {
        held(b.as_ref(), ask(&lock, "", PATIENCE, LONG)).await;
        Instant::now()
    };
    let both = tokio::time::timeout(PATIENCE * 2, async { tokio::join!(lost, successor) });
    let (lost, granted) = both.await.expect(name);
    assert_eq!(a.client.held(&grant).await, Some(false), "{name}");
    lost.saturating_duration_since(granted)
}

async fn contract(name: &str, target: &str) {
    excludes(name, target).await;
    ends(name, target).await;
    renews(name, target).await;
    assert_eq!(believes_too_long(name, target).await, Duration::ZERO, "{name}");
}

/// The contract of each lock of a system; `controls` are convicted of letting two in.
async fn of(kind: TopologyKind, locks: &[&str], controls: &[&str]) -> Option<Lab> {
    for name in locks {
        refuses(name, kind.name()).await;
    }
    let lab = server(kind).await?;
    for name in locks {
        contract(name, &lab.url()).await;
    }
    for name in controls {
        assert!(most_inside(name, &lab.url()).await > 1, "{name} was not convicted");
    }
    Some(lab)
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_keeps_the_contract() {
    of(TopologyKind::Etcd, &["etcd:lock"], &["broken:etcd-shared-lease"]).await;
}

/// The installed server, in a container; its path says that no registry is to be asked.
#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_in_a_container_keeps_the_contract() {
    let mut topology = Topology::of(TopologyKind::Etcd);
    topology.provisioner = ProvisionerKind::Container;
    let lab = async {
        cluster_config::engine().await?;
        let server = Server::of(&topology)?.path;
        topology.server = server.to_string_lossy().into_owned();
        try_lab(topology).await
    };
    let lab = match lab.await {
        Ok(lab) => lab,
        Err(error @ ClusterError::Missing(_)) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED etcd in a container: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    contract("etcd:lock", &lab.url()).await;
}

/// A member that is cut off keeps the end of a call that its client has given up, which deletes the key of
/// the call's lease, and sends it on when it is back. The same client has the lock by another member then.
#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cut_off_leader_of_etcd_sends_on_frees_no_lock() {
    use cluster_config::{LinkFault, Links, Party, Process, Provisioner, Role, UpOptions};
    let dir = tempfile::tempdir().unwrap();
    let mut options = UpOptions::new(dir.path());
    options.links = Links::Proxied;
    let topology = Topology::of(TopologyKind::Etcd3);
    let lab = match Process.up(&topology, &options).await {
        Ok(lab) => lab,
        Err(error @ ClusterError::Missing(_)) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED a cut-off leader: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let roles = lab.roles().await;
    let is_leader = |name: &str| roles.get(name) == Some(&Role::Master);
    let (leader, others): (Vec<_>, Vec<_>) = lab.nodes().iter().partition(|node| is_leader(&node.name));
    let party = |name: &str| Party::Node(name.to_owned());
    let links: Vec<_> = others
        .iter()
        .flat_map(|node| {
            let ends = (party(&leader[0].name), party(&node.name));
            [ends.clone(), (ends.1, ends.0)]
        })
        .collect();

    // The leader is asked first, with a lease of an earlier hold.
    let addresses = leader.iter().chain(&others);
    let addresses: Vec<_> = addresses.map(|node| node.announced.to_string()).collect();
    let a = connect("etcd:lock", &format!("etcd://{}", addresses.join(","))).await;
    let lock = fresh("cut-off");
    let request = |wait| ask(&lock, "", wait, LONG);
    let grant = held(a.client.as_ref(), request(PATIENCE)).await;
    assert_eq!(a.client.release(&grant).await, ReleaseEnd::Ok);
    let cut = lab.apply(&links, &LinkFault::Cut).unwrap();
    let grant = held(a.client.as_ref(), request(PATIENCE)).await;
    drop(cut);
    let b = connect("etcd:lock", &lab.url()).await;
    let busy = b.client.acquire(request(SESSION)).await;
    assert_eq!(busy, AcquireEnd::Busy);
    assert_eq!(a.client.held(&grant).await, Some(true));
    assert_eq!(a.client.release(&grant).await, ReleaseEnd::Ok);
}

#[cfg(feature = "zookeeper")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_keeps_the_contract() {
    if let Some(lab) = of(TopologyKind::ZooKeeper, &["zookeeper:ephemeral"], &[]).await {
        // Its belief ends by a timer of its library and the successor's grant comes by a message, which a
        // busy machine may delay: one try of several convicts.
        let mut late = Duration::ZERO;
        for _ in 0..5 {
            late = late.max(believes_too_long("broken:zookeeper-acts-on-expired", &lab.url()).await);
            if late > Duration::from_millis(100) {
                return;
            }
        }
        panic!("not convicted: {late:?}");
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_the_contract() {
    let broken = ["broken:postgres-advisory-shared", "broken:postgres-row-read-then-write"];
    of(TopologyKind::Postgres, &["postgres:advisory", "postgres:row"], &broken).await;
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_keeps_the_contract() {
    let locks = ["mysql:row", "mysql:get-lock", "mysql:for-update"];
    let broken = [
        "broken:mysql-row-without-expiry",
        "broken:mysql-get-lock-shared",
        "broken:mysql-for-update-autocommit",
    ];
    if let Some(lab) = of(TopologyKind::Mysql, &locks, &broken).await {
        let frees = late_release_frees("broken:mysql-row-releases-any", &lab.url()).await;
        assert!(frees, "a release without owner check was not convicted");
    }
}
