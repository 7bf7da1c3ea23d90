//! Credentials that change while a client lives: a provider is asked when a connection is made and before
//! what it told ends, and harms no lock when it is slow, fails or is silent. And the passwords of sentinels.

mod support;

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{Client, ClientOptions, Credentials, CredentialsProvider, ErrorKind, KeyTracking, Kind};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);

/// A server that admits the user `app` alone, and its URL without a password.
fn guarded() -> (Server, lock_core::Target) {
    let server = Server::start(&[]);
    rotate(&server, "one");
    let target = server.url().parse().expect("a good URL");
    (server, target)
}

fn rotate(server: &Server, password: &str) {
    let password = format!(">{password}");
    server.ok(&["ACL", "SETUSER", "app", "on", "resetpass", &password, "~*", "&*", "+@all"]);
}

fn login(password: &str) -> Credentials {
    Credentials::new(password).user("app").valid_for(300 * MS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_authenticate_anew_and_new_ones_with_what_holds_now() {
    let (server, target) = guarded();
    let password = Arc::new(Mutex::new("one"));
    let told = Arc::clone(&password);
    let provider = CredentialsProvider::new(move || {
        let password = *told.lock().expect("no panic");
        async move { Ok(login(password)) }
    });
    // Keys are followed over a connection of its own.
    let options = ClientOptions::default().credentials(provider).key_tracking(KeyTracking::Off);
    let client = Client::connect(&target, options).await.expect("admitted");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    let connections = || server.ok(&["CLIENT", "LIST"]).matches("user=app").count();
    let before = connections();
    server.wait_for(&["INFO", "commandstats"], |stats| {
        let (_, auth) = stats.split_once("cmdstat_auth:calls=").unwrap_or_default();
        auth.split(',').next().is_some_and(|calls| calls.parse::<u32>().is_ok_and(|calls| calls > 4))
    });
    assert_eq!(connections(), before, "no connection was made anew");
    rotate(&server, "two");
    *password.lock().expect("no panic") = "two";
    server.ok(&["CLIENT", "KILL", "USER", "app"]);
    guard.release().await.expect("it is held on new connections");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_fails_once_or_is_slow_is_waited_for() {
    let (_server, target) = guarded();
    let asked = Arc::new(AtomicU32::new(0));
    let provider = CredentialsProvider::new(move || {
        let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            tokio::time::sleep(100 * MS).await;
            match first {
                true => Err("the vault is sealed".into()),
                false => Ok(login("one")),
            }
        }
    });
    let options = ClientOptions::default().credentials(provider);
    let client = Client::connect(&target, options).await.expect("admitted");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    lock.acquire().await.expect("free").release().await.expect("held");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_never_answers_is_named_and_costs_no_open_connection() {
    let (_server, target) = guarded();
    let options = ClientOptions::default().connect_timeout(2_000 * MS);
    let panics = CredentialsProvider::new(|| async { panic!("as it is meant to") });
    for (provider, says) in [(CredentialsProvider::new(pending), "did not answer"), (panics, "panicked")] {
        let refused = Client::connect(&target, options.clone().credentials(provider)).await;
        let refused = refused.expect_err("nobody says who it is");
        assert_eq!(refused.kind(), ErrorKind::Failed);
        let says = format!("provider of credentials {says}");
        assert!(refused.to_string().contains(&says), "{refused}");
    }
    // One that is silent from the second time on.
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let falls_silent = CredentialsProvider::new(move || {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            match first {
                true => Ok(login("one")),
                false => pending().await,
            }
        }
    });
    let options = options.credentials(falls_silent).watchdog_lease(1_000 * MS);
    let client = Client::connect(&target, options).await.expect("admitted");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    let silent_twice = async {
        while asked.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(10 * MS).await;
        }
    };
    tokio::time::timeout(PATIENCE, silent_twice).await.expect("it is asked again");
    tokio::time::sleep(1_500 * MS).await;
    assert!(!guard.is_lost(), "it is renewed all the same");
    guard.release().await.expect("held");
    client.close().await;
}

/// Of redis-rs, which begins each stream with what holds now.
#[cfg(feature = "redis-1")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_of_redis_rs_is_asked_at_each_connect() {
    use std::pin::Pin;

    use futures_util::{Stream, StreamExt as _, stream};
    use redis::{RedisResult, StreamingCredentialsProvider, auth::BasicAuth};

    struct Theirs(Arc<Mutex<&'static str>>);

    impl StreamingCredentialsProvider for Theirs {
        fn subscribe(&self) -> Pin<Box<dyn Stream<Item = RedisResult<BasicAuth>> + Send + 'static>> {
            let of_now = BasicAuth::new("app".into(), (*self.0.lock().expect("no panic")).into());
            stream::iter([Ok(of_now)]).chain(stream::pending()).boxed()
        }
    }

    let (server, target) = guarded();
    let password = Arc::new(Mutex::new("one"));
    let provider = CredentialsProvider::streaming(Theirs(Arc::clone(&password)));
    let options = ClientOptions::default().credentials(provider);
    let client = Client::connect(&target, options).await.expect("admitted");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    rotate(&server, "two");
    *password.lock().expect("no panic") = "two";
    server.ok(&["CLIENT", "KILL", "USER", "app"]);
    guard.release().await.expect("held, on new connections");
    client.close().await;
}

/// Two sentinels of one server: the first as it is, the second with a password, which is down while the
/// client connects and heard once it is back.
async fn is_heard(own_password: &str, query: &str) {
    let server = Server::start(&["--requirepass", "secret"]);
    let port = server.port;
    let open = |_| format!("sentinel monitor m 127.0.0.1 {port} 1\nsentinel auth-pass m secret\n");
    let locked = |port| format!("{}requirepass {own_password}\n", open(port));
    let first = Server::start_with_file(open, &["--sentinel"]);
    let mut second = Server::start_with_file(locked, &["--sentinel"]);
    second.kill();
    let addresses = format!("{},{}", first.address(), second.address());
    let client = lock_core::connect(&format!("redis-sentinel://:secret@{addresses}/m{query}")).await;
    let client = client.expect("one sentinel answers");
    assert!(second.restart(), "its port is free");
    let asked = redis::Client::open(format!("redis://:{own_password}@{}", second.address())).unwrap();
    let mut asked = asked.get_multiplexed_async_connection().await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let list: String = redis::cmd("CLIENT").arg("LIST").take().query_async(&mut asked).await.unwrap();
        if list.contains(" sub=1 ") {
            break;
        }
        assert!(Instant::now() < until, "nobody listens: {list}");
        tokio::time::sleep(20 * MS).await;
    }
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    lock.acquire().await.expect("free").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_with_the_servers_password_is_heard_once_it_is_back() {
    is_heard("secret", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_with_a_password_of_its_own_is_heard_once_it_is_back() {
    is_heard("another", "?sentinel-password=another").await;
}
