//! One client and several runtimes: what it has is carried by the runtime on which it was made, whichever
//! asks for it.

mod support;

use std::{
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use lock_core::{Client, ClientOptions, Guard, GuardEvent, Kind, diagnostics::Tracer};
use support::{PATIENCE, Server};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const MS: Duration = Duration::from_millis(1);
/// Who polls only so often and is not late was woken by a message.
const RARELY: Duration = Duration::from_secs(60);

fn several_workers() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("threads")
}

/// As actix has one for each of its threads.
fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

async fn connect(server: &Server) -> Client {
    let options = ClientOptions::default().poll_bound(RARELY);
    connect_with(server, options).await
}

async fn connect_with(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

async fn acquire(client: &Client, name: &str) -> Guard {
    let lock = client.lock(Kind::Reentrant, name).expect("a good name");
    let acquired = timeout(PATIENCE, lock.acquire()).await;
    acquired.expect("woken").expect("granted")
}

/// Waits for a lock that another client holds, and is woken by its release.
async fn is_woken(client: &Client, rival: &Client, server: &Server, name: &str) {
    let held = acquire(rival, name).await;
    let release = async {
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let until = Instant::now() + PATIENCE;
        while !server.call(&["PUBSUB", "NUMSUB", &channel]).ends_with("\n1") {
            assert!(Instant::now() < until, "nobody listens to {channel}");
            tokio::time::sleep(10 * MS).await;
        }
        held.release().await.expect("held");
    };
    let (waiter, ()) = tokio::join!(acquire(client, name), release);
    waiter.release().await.expect("held");
}

#[test]
fn who_waits_on_a_runtime_that_ends_takes_no_subscriptions_along() {
    let server = Server::start(&[]);
    let main = several_workers();
    let (client, rival) = main.block_on(async { (connect(&server).await, connect(&server).await) });
    let held = main.block_on(acquire(&rival, "first"));
    let first = client.lock(Kind::Reentrant, "first").expect("a good name");
    let waited = move || one_thread().block_on(first.acquire_timeout(100 * MS)).map(drop);
    let refused = thread::spawn(waited).join().expect("no panic");
    refused.expect_err("another client holds it");
    main.block_on(held.release()).expect("held");
    main.block_on(is_woken(&client, &rival, &server, "second"));
}

#[test]
fn a_thread_that_stops_in_the_middle_of_its_dial_keeps_nobody_from_dialling() {
    let server = Server::start(&[]);
    let main = several_workers();
    let options = ClientOptions::default().poll_bound(RARELY).watchdog_lease(3_000 * MS);
    let client = main.block_on(connect_with(&server, options));
    let kept = main.block_on(acquire(&client, "kept"));
    server.call(&["CLIENT", "KILL", "TYPE", "normal"]);
    let frozen = server.freeze();
    let (stop, stopped) = mpsc::channel::<()>();
    let (gave_up, given_up) = mpsc::channel();
    let theirs = client.lock(Kind::Plain, "theirs").expect("a good name");
    let parked = thread::spawn(move || {
        let own = one_thread();
        let _ = own.block_on(async { timeout(100 * MS, theirs.try_acquire()).await });
        gave_up.send(()).expect("the test waits");
        // Its runtime is there, and nobody drives it.
        let _ = stopped.recv();
    });
    given_up.recv().expect("it gives up");
    drop(frozen);
    let guard = main.block_on(async {
        let until = Instant::now() + PATIENCE;
        let ours = client.lock(Kind::Plain, "ours").expect("a good name");
        loop {
            match ours.try_acquire().await {
                Ok(Some(guard)) => return guard,
                other => assert!(Instant::now() < until, "{other:?}"),
            }
            tokio::time::sleep(20 * MS).await;
        }
    });
    // A lock that was held meanwhile is renewed, over a connection that others dialled.
    main.block_on(async {
        let mut events = kept.events();
        let event = timeout(PATIENCE, events.next()).await.expect("renewed");
        assert!(matches!(event, Some(GuardEvent::Extended { .. })), "{event:?}");
    });
    drop(stop);
    parked.join().expect("no panic");
    main.block_on(guard.release()).expect("held");
    main.block_on(kept.release()).expect("held");
}

#[test]
fn a_call_returns_by_its_bound_while_nobody_drives_the_clients_runtime() {
    let server = Server::start(&[]);
    let undriven = one_thread();
    let options = ClientOptions::default().response_timeout(200 * MS);
    let client = undriven.block_on(connect_with(&server, options));
    let guard = undriven.block_on(acquire(&client, "held"));
    let other = several_workers();
    other.block_on(async {
        let lock = client.lock(Kind::Plain, "x").expect("a good name");
        let asked = timeout(PATIENCE, lock.try_acquire()).await;
        asked.expect("it returns").expect_err("nobody reads the answer");
        let released = timeout(PATIENCE, guard.release()).await;
        released.expect("it returns").expect_err("nobody reads the answer");
    });
    // Driven again, it serves.
    undriven.block_on(async {
        tokio::time::sleep(10 * MS).await;
        acquire(&client, "y").await.release().await.expect("held");
    });
}

#[test]
fn threads_with_runtimes_of_their_own_share_a_client() {
    const TURNS: usize = 20;
    let server = Server::start(&[]);
    let main = several_workers();
    let client = main.block_on(connect(&server));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                one_thread().block_on(async {
                    for _ in 0..TURNS {
                        let guard = acquire(&client, "shared").await;
                        guard.release().await.expect("held");
                    }
                });
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("each has had its turns");
    }
}

/// As in a file of tests, each with a runtime and a client of its own.
#[test]
fn clients_of_runtimes_that_ended_leave_nothing_to_the_next() {
    let server = Server::start(&[]);
    for round in 0..3 {
        one_thread().block_on(async {
            let (client, rival) = (connect(&server).await, connect(&server).await);
            is_woken(&client, &rival, &server, "same").await;
            let left = acquire(&client, &format!("left-{round}")).await;
            assert!(!left.is_lost());
        });
    }
}

/// A client in a `static`: made on the runtime that lives as long as the process, used from others that end.
#[test]
fn a_client_in_a_static_serves_runtimes_that_come_and_go() {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let server = Server::start(&[]);
    let lasting = several_workers();
    let made = lasting.block_on(connect(&server));
    let client = CLIENT.get_or_init(|| made);
    for _ in 0..3 {
        let guard = one_thread().block_on(acquire(client, "n"));
        one_thread().block_on(guard.release()).expect("held");
    }
    lasting.block_on(client.clone().close());
    // Without it the error says what is missing.
    drop(lasting);
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let refused = one_thread().block_on(lock.acquire()).expect_err("nobody carries it");
    assert!(refused.to_string().contains("has ended"), "{refused}");
}

/// Where timers jump, the error says so: nothing is wrong with the server.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_is_named() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("bound");
    let silent = format!("redis://{address}").parse().expect("a good URL");
    let refused = Client::connect(&silent, ClientOptions::default()).await;
    let refused = refused.expect_err("time jumps while the answer is on its way");
    assert!(refused.to_string().contains("clock is paused"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tracer_that_panics_harms_nobody() {
    let server = Server::start(&[]);
    let tracer = Tracer::new(|traced| panic!("on purpose, at {}", traced.command));
    let options = ClientOptions::default().poll_bound(RARELY).tracer(tracer);
    let (client, rival) = (connect_with(&server, options).await, connect(&server).await);
    is_woken(&client, &rival, &server, "first").await;
    is_woken(&client, &rival, &server, "second").await;
}
