//! Replies, garbage, the end of the stream and silence, in every order: each call returns by its bound.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Reply,
    Garbage,
    Close,
    /// Nothing comes until every call has returned.
    Silence,
}

const EVENTS: [Event; 4] = [Event::Reply, Event::Garbage, Event::Close, Event::Silence];
/// Calls under way when the first event comes.
const CALLS: usize = 2;

#[derive(Debug, PartialEq, Eq)]
enum CallEnding {
    Answered,
    Cut,
    Silent,
}

/// What each of the calls must come to.
fn expected(events: &[Event]) -> Vec<CallEnding> {
    let mut endings: Vec<CallEnding> = Vec::new();
    for event in events.iter().chain([&Event::Silence]) {
        let rest = CALLS - endings.len();
        match event {
            Event::Reply if rest > 0 => endings.push(CallEnding::Answered),
            // A reply too many, which ends the connection: in one read with the others it may be any of them.
            Event::Reply if endings[CALLS - 1] == CallEnding::Answered => {
                endings = Vec::from([CallEnding::Cut, CallEnding::Cut]);
            }
            Event::Reply => {}
            Event::Garbage | Event::Close => endings.extend((0..rest).map(|_| CallEnding::Cut)),
            Event::Silence => endings.extend((0..rest).map(|_| CallEnding::Silent)),
        }
    }
    endings
}

fn write_ping(out: &mut Vec<u8>) -> u32 {
    out.extend_from_slice(b"PING\r\n");
    1
}

/// A connection that asks PING after `quiet`, and the server's end of it.
async fn connection(quiet: Duration) -> (Arc<SharedConnection>, impl Future<Output = ()> + Send, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let idle = IdleProbe { quiet, patience: quiet, commands: Arc::default() };
    let (wire, driver, timekeeper) = SharedConnection::new(Socket::Tcp(stream), idle);
    tokio::spawn(timekeeper);
    (wire, driver, server)
}

/// What the calls come to if the server does this, in one write or each event by itself.
async fn endings(events: &[Event], in_one_write: bool) -> Vec<CallEnding> {
    let (wire, driver, mut server) = connection(Duration::from_secs(60)).await;
    let driver = tokio::spawn(driver);
    let deadline = Instant::now() + Duration::from_millis(500);
    // Each call is a task of its own, which nothing wakes but its answer.
    let calls = [(); CALLS].map(|()| {
        let wire = Arc::clone(&wire);
        tokio::spawn(async move {
            match wire.ask(write_ping, Some(deadline), false).await {
                Ok(_) => CallEnding::Answered,
                Err(NoReply::Cut(_)) => CallEnding::Cut,
                Err(NoReply::Silent) => CallEnding::Silent,
            }
        })
    });
    while wire.queue.lock().owed.len() < CALLS {
        tokio::task::yield_now().await;
    }
    let serve = async {
        let mut bytes = Vec::new();
        for event in events {
            match event {
                Event::Reply => bytes.extend_from_slice(b"+PONG\r\n"),
                Event::Garbage => bytes.extend_from_slice(b"\x00\r\n"),
                Event::Close | Event::Silence => {}
            }
            if !in_one_write || matches!(event, Event::Close | Event::Silence) {
                let _ = server.write_all(&bytes).await;
                bytes.clear();
                tokio::task::yield_now().await;
            }
            match event {
                Event::Close => return None,
                Event::Silence => break,
                Event::Reply | Event::Garbage => {}
            }
        }
        let _ = server.write_all(&bytes).await;
        Some(server)
    };
    let _open = serve.await;
    let mut endings = Vec::new();
    for call in calls {
        // Far beyond the bound of the calls: only a call that never returns meets it.
        let ending = timeout(Duration::from_secs(20), call).await;
        let ending = ending
            .unwrap_or_else(|_| panic!("a call never returned: {events:?}, in one write: {in_one_write}"));
        endings.push(ending.unwrap());
    }
    driver.abort();
    endings
}

#[tokio::test]
async fn each_call_returns_by_its_bound_whatever_its_connection_does() {
    let mut orders: Vec<Vec<Event>> = vec![Vec::new()];
    for _ in 0..3 {
        let longer = orders.iter().flat_map(|order| EVENTS.map(|event| [&order[..], &[event]].concat()));
        orders = longer.collect();
    }
    assert_eq!(orders.len(), EVENTS.len().pow(3));
    let runs = orders.iter().flat_map(|order| {
        // By itself a reply too many comes before or after the others were taken.
        let alone = order.iter().any(|event| *event != Event::Reply);
        [true, false].into_iter().filter(move |way| *way || alone).map(move |in_one_write| async move {
            assert_eq!(
                endings(order, in_one_write).await,
                expected(order),
                "{order:?}, in one write: {in_one_write}"
            );
        })
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn a_connection_with_an_answer_that_nobody_reads_ends_without_a_reset() {
    let (wire, driver, mut server) = connection(Duration::from_secs(60)).await;
    server.write_all(b"+PONG\r\n").await.unwrap();
    wire.end("the program ends");
    drop((wire, driver));
    assert_eq!(server.read(&mut [0; 8]).await.expect("an orderly end"), 0);
    server.write_all(b"+PONG\r\n").await.expect("no reset yet");
}

#[tokio::test]
async fn an_idle_line_is_asked_and_ends_when_it_leads_nowhere() {
    let (wire, driver, mut server) = connection(Duration::from_millis(50)).await;
    let driver = tokio::spawn(driver);
    let mut ping = [0; 14];
    for _ in 0..3 {
        server.read_exact(&mut ping).await.unwrap();
        assert_eq!(&ping, b"*1\r\n$4\r\nPING\r\n");
        assert!(!wire.has_ended());
        server.write_all(b"+PONG\r\n").await.unwrap();
    }
    // The last one stays unanswered.
    timeout(Duration::from_secs(20), driver).await.expect("it ends").unwrap();
    let why = wire.queue.lock().end.clone().expect("it has ended");
    assert!(why.starts_with("no answer to PING"), "{why}");
}

/// A paused clock jumps to the deadline as soon as nobody has anything to do, before a server answers.
#[tokio::test(start_paused = true)]
async fn a_timer_that_fires_before_its_time_keeps_nobody_from_running() {
    let (wire, driver, _server) = connection(Duration::from_secs(60)).await;
    tokio::spawn(driver);
    let deadline = Instant::now() + Duration::from_millis(300);
    let asks = tokio::spawn(async move {
        let answer = wire.ask(write_ping, Some(deadline), false).await;
        (answer.expect_err("nobody answers"), Instant::now())
    });
    let mut turns = 0;
    while !asks.is_finished() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        turns += 1;
    }
    let (error, ended) = asks.await.unwrap();
    assert_eq!(error, NoReply::Silent);
    assert!(ended >= deadline, "before its time");
    assert!(turns > 30, "others ran {turns} times");
}

#[tokio::test]
async fn what_a_burst_needed_is_not_kept() {
    let (wire, driver, mut server) = connection(Duration::from_secs(60)).await;
    tokio::spawn(driver);
    let burst = KEEP_SLOTS + 1;
    let calls: Vec<_> = (0..burst)
        .map(|_| {
            let wire = Arc::clone(&wire);
            tokio::spawn(async move { wire.ask(write_ping, None, false).await.map(drop) })
        })
        .collect();
    while wire.queue.lock().owed.len() < burst {
        tokio::task::yield_now().await;
    }
    server.write_all(&b"+PONG\r\n".repeat(burst)).await.unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let queue = wire.queue.lock();
    assert_eq!((queue.slots.capacity(), queue.free.capacity()), (0, 0));
    assert!(queue.out.capacity() <= KEEP);
}

/// The driver has taken bytes that it has not written yet, and several requests are under way, when a program
/// ends with a release: the poll of the driver that is going on is the last one.
#[tokio::test]
async fn what_is_to_leave_at_once_leaves_with_the_drivers_next_write() {
    let (wire, driver, mut server) = connection(Duration::from_secs(60)).await;
    let mut driver = Box::pin(driver);
    let mut context = Context::from_waker(Waker::noop());
    assert!(driver.as_mut().poll(&mut context).is_pending());
    {
        let mut queue = wire.queue.lock();
        (queue.busy, queue.writing) = (true, true);
    }
    let mut release = Box::pin(wire.ask(write_ping, None, true));
    assert!(release.as_mut().poll(&mut context).is_pending());
    assert!(!wire.queue.lock().out.is_empty(), "the driver is writing");
    assert!(driver.as_mut().poll(&mut context).is_pending());
    let mut said = [0; 6];
    let came = timeout(Duration::from_secs(20), server.read_exact(&mut said)).await;
    came.expect("it has left").unwrap();
    assert_eq!(&said, b"PING\r\n");
}

/// The server answers the first of a burst while others are being asked; the driver writes the rest.
#[tokio::test]
async fn a_burst_leaves_in_batches() {
    let (wire, driver, mut server) = connection(Duration::from_secs(60)).await;
    let mut driver = Box::pin(driver);
    let mut context = Context::from_waker(Waker::noop());
    assert!(driver.as_mut().poll(&mut context).is_pending());
    wire.queue.lock().burst = 2 * BATCHES;
    let mut calls = Vec::new();
    for count in 1..=2 * BATCHES + 1 {
        calls.push(Box::pin(wire.ask(write_ping, None, false)));
        assert!(calls[count - 1].as_mut().poll(&mut context).is_pending());
        assert_eq!(wire.queue.lock().unwritten, count % 2);
    }
    assert!(driver.as_mut().poll(&mut context).is_pending());
    assert!(wire.queue.lock().out.is_empty());
    let mut said = vec![0; 6 * calls.len()];
    let came = timeout(Duration::from_secs(20), server.read_exact(&mut said)).await;
    came.expect("it has left").unwrap();
    assert_eq!(said, b"PING\r\n".repeat(calls.len()));
}
