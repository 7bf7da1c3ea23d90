//! Servers that speak TLS: every topology locks and notifies over it, and trust is not given for nothing.

mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, LockError, Released, TlsOptions, Wait, slot,
};
use support::{PATIENCE, Server, tls::Authority};

const MINUTE: Duration = Duration::from_secs(60);
const USER: [&str; 7] = ["--user", "app", "on", ">s3cret", "~*", "&*", "+@all"];

fn how() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(MINUTE))
}

async fn connect(url: &str, options: ClientOptions) -> Result<Client, LockError> {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await
}

/// One holds, another waits and is woken: without the message it would look again after a minute. Every
/// connection is the user's, by TLS, also after the server has dropped them all.
async fn locks_and_wakes(url: &str, kind: Kind, servers: &[(&Server, u16)], expected: &str) {
    let options = ClientOptions::default()
        .poll_bound(MINUTE)
        .client_name("over-tls")
        .response_timeout(Duration::from_secs(5));
    let clients = [
        connect(url, options.clone()).await.expect("it answers"),
        connect(url, options).await.expect("it answers"),
    ];
    let [holder, waiter] = clients.map(|client| client.lock(kind, "n").expect("a good name"));
    for _ in 0..2 {
        let guard = holder.acquire_with(how()).await.expect("free");
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.acquire_with(how()).await }
        });
        for (server, port) in servers {
            let sharded = server.call(&["CLUSTER", "MYID"]).starts_with('-');
            let numsub = if sharded { "NUMSUB" } else { "SHARDNUMSUB" };
            let channel = "redisson_lock__channel:{n}";
            server.wait_for(&["PUBSUB", numsub, channel], |answer| answer.ends_with('1'));
            let list = server.ok(&["CLIENT", "LIST"]);
            let ours: Vec<_> = (list.lines()).filter(|line| line.contains(" name=over-tls ")).collect();
            assert!(ours.len() >= 2, "{list}");
            let address = format!(" laddr=127.0.0.1:{port} ");
            for line in &ours {
                assert!(line.contains(&address) && line.contains(expected), "{line}");
            }
            assert!(ours.iter().any(|line| line.contains("sub=1 ")), "nobody listens: {list}");
        }
        assert_eq!(guard.release().await.expect("held"), Released::Freed);
        let woken = tokio::time::timeout(PATIENCE, waiting).await.expect("woken");
        let guard = woken.expect("no panic").expect("woken");
        guard.release().await.expect("held");
        for (server, _) in servers {
            server.ok(&["CLIENT", "KILL", "TYPE", "normal"]);
            server.ok(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_and_masters_serve_over_tls() {
    let authority = Authority::new();
    let servers: Vec<_> = (0..3).map(|_| authority.server(&USER)).collect();
    let all: Vec<_> = servers.iter().map(|(server, port)| (server, *port)).collect();
    let query = authority.query();
    let url = format!("rediss://app:s3cret@127.0.0.1:{}/3{query}", all[0].1);
    locks_and_wakes(&url, Kind::Fenced, &all[..1], " user=app ").await;
    locks_and_wakes(&url, Kind::Plain, &all[..1], " db=3 ").await;
    let addresses: Vec<_> = (all.iter()).map(|(_, port)| format!("127.0.0.1:{port}")).collect();
    let url = format!("redlocks://app:s3cret@{}{query}", addresses.join(","));
    locks_and_wakes(&url, Kind::Redlock, &all, " user=app ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinels_master_serves_over_tls() {
    let authority = Authority::new();
    let (master, port) = authority.server(&USER);
    let (sentinel, sentinel_port) = authority.sentinel(port);
    sentinel.wait_for(&["SENTINEL", "MASTER", "m"], |state| state.contains("flags\nmaster\n"));
    let query = authority.query();
    let url = format!("rediss-sentinel://app:s3cret@127.0.0.1:{sentinel_port}/m/2{query}");
    locks_and_wakes(&url, Kind::Reentrant, &[(&master, port)], " user=app ").await;
    locks_and_wakes(&url, Kind::Reentrant, &[(&master, port)], " db=2 ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_serves_over_tls() {
    let authority = Authority::new();
    let arguments = [&["--cluster-enabled", "yes"][..], &USER].concat();
    let nodes: Vec<_> = (0..2).map(|_| authority.server(&arguments)).collect();
    for (index, ((node, _), (from, to))) in nodes.iter().zip([("0", "8191"), ("8192", "16383")]).enumerate() {
        node.ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        node.ok(&["CLUSTER", "ADDSLOTSRANGE", from, to]);
    }
    nodes[0].0.ok(&["CLUSTER", "MEET", "127.0.0.1", &nodes[1].1.to_string()]);
    for (node, _) in &nodes {
        node.wait_for(&["CLUSTER", "INFO"], |info| {
            info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
        });
    }
    let owner = &nodes[usize::from(slot(b"n") >= 8192)];
    // The client is told the TLS ports of the others, since it asks over TLS.
    for (_, seed) in &nodes {
        let url = format!("rediss-cluster://app:s3cret@127.0.0.1:{seed}{}", authority.query());
        locks_and_wakes(&url, Kind::Reentrant, &[(&owner.0, owner.1)], " user=app ").await;
    }
}

/// Requests that are larger together than what a session keeps before it is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_beyond_every_buffer_arrives_whole() {
    let authority = Authority::new();
    let (_server, port) = authority.server(&[]);
    let url = format!("rediss://127.0.0.1:{port}{}", authority.query());
    let options = ClientOptions::default().response_timeout(Duration::from_millis(7_500));
    let client = connect(&url, options).await.expect("it answers");
    let long = "x".repeat(20_000);
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let lock = client.lock(Kind::Reentrant, &format!("{long}{number}"));
            let lock = lock.expect("a good name");
            tokio::spawn(async move {
                let guard = lock.acquire_with(how()).await.expect("free");
                guard.release().await.expect("held")
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("no panic"), Released::Freed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trust_is_not_given_for_nothing() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let (server, port) = authority.server(&[]);
    let refused = |url: String, says: &'static str| async move {
        let began = Instant::now();
        let error = connect(&url, ClientOptions::default()).await;
        let error = error.expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert!(began.elapsed() < PATIENCE, "{error}");
        assert!(error.to_string().contains(says), "{url}: {error}");
    };
    let base = format!("rediss://127.0.0.1:{port}");
    refused(format!("{base}{}", stranger.query()), "certificate").await;
    refused(base.clone(), "certificate").await;
    let other_name = format!("{base}{}&tls-server-name=other.test", authority.query());
    refused(other_name, "certificate").await;
    let plain = format!("rediss://127.0.0.1:{}{}", server.port, authority.query());
    refused(plain, "does it speak TLS?").await;
    for accepted in [
        format!("{base}{}&tls-server-name=redis.test", authority.query()),
        format!("{base}?tls-insecure=true"),
    ] {
        let client = connect(&accepted, ClientOptions::default()).await;
        let lock = client.expect("trusted").lock(Kind::Plain, "n");
        let guard = lock.expect("a good name").acquire_with(how()).await.expect("free");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_a_certificate_gets_it() {
    let authority = Authority::new();
    let (_server, port) = authority.server(&["--tls-auth-clients", "yes"]);
    let url = format!("rediss://127.0.0.1:{port}");
    let trusting = TlsOptions::default().ca_file(authority.file("ca.pem"));
    let options = ClientOptions::default().tls(trusting.clone());
    let error = connect(&url, options).await.expect_err("without one");
    assert!(error.to_string().contains("ertificate"), "{error}");
    let (cert, key) = (authority.file("cert.pem"), authority.file("key.pem"));
    let options = ClientOptions::default().tls(trusting.client_certificate(&cert, &key));
    let client = connect(&url, options).await.expect("let in");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    drop(lock.acquire_with(how()).await.expect("free"));
    let (ca, cert, key) = (authority.file("ca.pem"), cert.display(), key.display());
    let by_url = format!("{url}?tls-ca={}&tls-cert={cert}&tls-key={key}", ca.display());
    let client = connect(&by_url, ClientOptions::default()).await;
    client.expect("let in");
    // The same from memory, where nothing of the key is shown; what is no certificate is said before anything
    // is dialled.
    let read = |name| std::fs::read(authority.file(name)).expect("written");
    let tls = TlsOptions::default()
        .ca_pem(read("ca.pem"))
        .client_certificate_pem(read("cert.pem"), read("key.pem"));
    assert!(!format!("{tls:?}").contains("45, 45"), "{tls:?}");
    let client = connect(&url, ClientOptions::default().tls(tls.clone())).await;
    client.expect("let in");
    let wrong = ClientOptions::default().tls(tls.ca_pem("no certificate"));
    let error = connect("rediss://127.0.0.1:1", wrong).await.expect_err("no PEM");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("in memory"), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_before_anything_is_dialled() {
    let authority = Authority::new();
    let key = authority.file("key.pem");
    let missing = authority.file("missing.pem");
    for (options, file) in [
        (TlsOptions::default().ca_file(&missing), &missing),
        (TlsOptions::default().ca_file(&key), &key),
        (TlsOptions::default().client_certificate(&missing, &key), &missing),
    ] {
        let options = ClientOptions::default().tls(options);
        let error = connect("rediss://127.0.0.1:1", options).await;
        let error = error.expect_err("a bad file");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_not_repeated_anywhere() {
    let authority = Authority::new();
    let (server, port) = authority.server(&USER);
    let (sentinel, sentinel_port) = authority.sentinel(port);
    server.ok(&["PING"]);
    sentinel.ok(&["PING"]);
    for url in [
        format!("rediss://app:wr0ng@127.0.0.1:{port}"),
        format!("rediss-sentinel://app:wr0ng@127.0.0.1:{sentinel_port}/m"),
        format!("rediss-cluster://app:wr0ng@127.0.0.1:{port}"),
        format!("redlocks://app:wr0ng@127.0.0.1:{port}"),
    ] {
        let url = format!("{url}{}", authority.query());
        let error = connect(&url, ClientOptions::default()).await;
        let error = error.expect_err("a wrong password");
        for shown in [format!("{error}"), format!("{error:?}")] {
            assert!(!shown.contains("wr0ng"), "{shown}");
        }
    }
    let url = format!("rediss://app:s3cret@127.0.0.1:{port}{}", authority.query());
    let client = connect(&url, ClientOptions::default()).await;
    let client = client.expect("let in");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let guard = lock.acquire_with(how()).await.expect("free");
    for shown in [format!("{client:?}"), format!("{lock:?}"), format!("{guard:?}")] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
