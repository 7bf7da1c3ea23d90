//! The examples do what they say.

#[path = "../examples/fenced_write.rs"]
mod fenced_write;
#[path = "../examples/graceful_shutdown.rs"]
mod graceful_shutdown;
#[path = "../examples/one_of_many.rs"]
mod one_of_many;
#[path = "../examples/order_handler.rs"]
mod order_handler;
mod support;
#[path = "../examples/worker_pool.rs"]
mod worker_pool;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lock_core::{Client, Kind};
use support::Server;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const MS: Duration = Duration::from_millis(1);

async fn client(server: &Server) -> Client {
    lock_core::connect(&server.url()).await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_shipped_by_one_request_at_a_time() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let app = order_handler::app(client.clone());
    let served = tokio::spawn(async move { axum::serve(listener, app).await });
    let post = async || {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = "POST /orders/7 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        answer
    };
    let answer = post().await;
    assert!(answer.contains("200 OK") && answer.ends_with("order 7 is shipped"), "{answer}");
    let order = client.lock(Kind::Plain, "order:7").expect("a good name");
    let guard = order.try_acquire().await.expect("answered").expect("given back");
    let answer = post().await;
    assert!(answer.contains("409 Conflict"), "{answer}");
    guard.release().await.expect("held");
    served.abort();
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_on_one_of_many_machines() {
    let server = Server::start(&[]);
    let (one, other) = (client(&server).await, client(&server).await);
    let terms = Mutex::new(Vec::new());
    let job = |term| {
        terms.lock().expect("no panic").push(term);
        async { true }
    };
    let (first, second) = tokio::join!(one_of_many::lead(&one, job), one_of_many::lead(&other, job));
    first.and(second).expect("both led");
    let terms = terms.into_inner().expect("no panic");
    assert!(matches!(terms[..], [first, second] if first < second), "{terms:?}");
    one.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_workers_than_permits_call_at_once() {
    let server = Server::start(&[]);
    let (one, other) = (client(&server).await, client(&server).await);
    let (now, most, calls) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let call = |_| async {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(5 * MS).await;
        now.fetch_sub(1, Ordering::SeqCst);
        calls.fetch_add(1, Ordering::SeqCst);
    };
    let (first, second) =
        tokio::join!(worker_pool::work(&one, 3, 0..12, call), worker_pool::work(&other, 3, 0..12, call));
    first.and(second).expect("all were called");
    let seen = (calls.into_inner(), most.into_inner());
    assert!(seen.0 == 24 && seen.1 <= 3, "{seen:?}");
    one.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_overtaken_writes_nothing() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let database = rusqlite::Connection::open_in_memory().expect("SQLite");
    database.execute(fenced_write::TABLE, []).expect("a table");
    let write = |amount, token| fenced_write::write(&database, "alice", amount, token);
    let lock = client.fenced("balance:alice").expect("a good name");
    let sleeper = lock.acquire().await.expect("free");
    lock.force_release().await.expect("answered");
    let other = lock.acquire().await.expect("free");
    assert_eq!(write(100, other.token()), Ok(true));
    assert_eq!(write(1, sleeper.token()), Ok(false));
    assert_eq!(write(2, other.token()), Ok(false), "an equal token is refused too");
    let amount = database.query_row("SELECT amount FROM balance", [], |row| row.get(0));
    assert_eq!(amount, Ok(100));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_ends_leaves_nothing_taken() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let told = tokio::time::sleep(100 * MS);
    let steps = graceful_shutdown::serve(&client, told).await;
    assert!(steps.expect("both were free") > 0);
    assert_eq!(server.ok(&["EXISTS", "invoices", "reminders"]), "0");
}
