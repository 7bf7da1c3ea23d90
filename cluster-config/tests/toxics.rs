//! What each toxic does to bytes and connections, on our server and on the real one alike.

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use support::PATIENCE;
use support::toxiproxy::Api;
use support::wire::{SILENCE, Wire, new_connection_ends};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// A server that sends back what it gets, until its client ends.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

/// Both servers, each with a proxy `p` before an echo.
async fn proxied() -> Vec<(Api, SocketAddr)> {
    let mut all = Vec::new();
    for api in Api::both().await {
        let proxy = api.proxy("p", echo().await).await;
        all.push((api, proxy));
    }
    all
}

async fn connected(proxy: SocketAddr) -> Wire {
    let mut client = Wire::to(proxy).await;
    client.send("hello").await;
    client.expect("hello\r\n").await;
    client
}

async fn lift(api: &Api) {
    assert_eq!(api.ask("DELETE", "/proxies/p/toxics/t", "").await.status, 204);
}

#[tokio::test]
async fn latency_delays_a_burst_once_and_flushes_when_it_is_lifted() {
    for (api, proxy) in proxied().await {
        let mut client = connected(proxy).await;
        api.toxic("p", "latency", r#""attributes":{"latency":400}"#).await;
        let started = Instant::now();
        for _ in 0..10 {
            client.send("0123").await;
        }
        for _ in 0..10 {
            client.expect("0123\r\n").await;
        }
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(400), "{}: {took:?}", api.name());
        assert!(took < Duration::from_millis(4000), "{}: {took:?}", api.name());
        let slower = r#"{"attributes":{"latency":600000}}"#;
        assert_eq!(api.ask("POST", "/proxies/p/toxics/t", slower).await.status, 200);
        client.send("late").await;
        assert!(client.is_silent().await, "{}", api.name());
        lift(&api).await;
        client.expect("late\r\n").await;
    }
}

#[tokio::test]
async fn bandwidth_is_thousands_of_bytes_per_second_and_trickles() {
    for (api, proxy) in proxied().await {
        let mut client = connected(proxy).await;
        api.toxic("p", "bandwidth", r#""stream":"upstream","attributes":{"rate":5}"#).await;
        let started = Instant::now();
        client.0.write_all(&[b'x'; 5000]).await.unwrap();
        let mut bytes = [0; 5000];
        client.0.read_exact(&mut bytes[..1]).await.unwrap();
        let first = started.elapsed();
        timeout(PATIENCE, client.0.read_exact(&mut bytes[1..])).await.unwrap().unwrap();
        let all = started.elapsed();
        assert!(all >= Duration::from_millis(800), "{}: {all:?}", api.name());
        assert!(first < all - Duration::from_millis(100), "{}: {first:?} {all:?}", api.name());
    }
}

#[tokio::test]
async fn a_timeout_loses_bytes_and_closes_then_or_when_it_is_lifted() {
    for (api, proxy) in proxied().await {
        let mut client = connected(proxy).await;
        let started = Instant::now();
        api.toxic("p", "timeout", r#""attributes":{"timeout":300}"#).await;
        assert!(client.has_ended().await, "{}", api.name());
        assert!(started.elapsed() >= Duration::from_millis(300), "{}", api.name());
        lift(&api).await;
        let mut client = connected(proxy).await;
        api.toxic("p", "timeout", r#""attributes":{"timeout":0}"#).await;
        client.send("lost").await;
        assert!(client.is_silent().await, "{}", api.name());
        lift(&api).await;
        assert!(client.has_ended().await, "{}", api.name());
        connected(proxy).await;
    }
}

#[tokio::test]
async fn limit_data_lets_its_bytes_pass_and_closes() {
    for (api, proxy) in proxied().await {
        api.toxic("p", "limit_data", r#""attributes":{"bytes":10}"#).await;
        let mut client = connected(proxy).await;
        client.send("again").await;
        client.expect("aga").await;
        assert!(client.has_ended().await, "{}", api.name());
    }
}

#[tokio::test]
async fn a_slow_close_delays_the_end_alone() {
    for (api, proxy) in proxied().await {
        api.toxic("p", "slow_close", r#""attributes":{"delay":400}"#).await;
        let mut client = connected(proxy).await;
        let started = Instant::now();
        client.0.shutdown().await.unwrap();
        assert!(client.has_ended().await);
        assert!(started.elapsed() >= Duration::from_millis(400), "{}", api.name());
    }
}

#[tokio::test]
async fn slices_come_one_after_the_other() {
    for (api, proxy) in proxied().await {
        let mut client = connected(proxy).await;
        let attributes = r#""attributes":{"average_size":2,"size_variation":0,"delay":10000}"#;
        api.toxic("p", "slicer", attributes).await;
        let started = Instant::now();
        client.send("0123456789abcde").await;
        client.expect("0123456789abcde\r\n").await;
        assert!(started.elapsed() >= Duration::from_millis(60), "{}", api.name());
    }
}

#[tokio::test]
async fn reset_peer_resets_after_the_first_bytes_and_ours_old_connections_too() {
    for (api, proxy) in proxied().await {
        let mut old = connected(proxy).await;
        api.toxic("p", "reset_peer", r#""attributes":{"timeout":100}"#).await;
        let mut new = Wire::to(proxy).await;
        new.send("hello").await;
        let read = timeout(PATIENCE, new.0.read_u8()).await.unwrap();
        let reset = std::io::ErrorKind::ConnectionReset;
        assert_eq!(read.unwrap_err().kind(), reset, "{}", api.name());
        old.send("hello").await;
        let read = timeout(PATIENCE, old.0.read_u8()).await.unwrap();
        if matches!(api, Api::Ours(_)) {
            assert_eq!(read.unwrap_err().kind(), reset);
        } else {
            assert!(read.is_err());
        }
    }
}

#[tokio::test]
async fn toxicity_is_drawn_per_connection_and_nobody_is_hit_at_zero() {
    for (api, proxy) in proxied().await {
        api.toxic("p", "timeout", r#""toxicity":0,"attributes":{"timeout":1}"#).await;
        for _ in 0..5 {
            connected(proxy).await;
        }
        let half = r#"{"toxicity":0.5,"attributes":{"timeout":0}}"#;
        assert_eq!(api.ask("POST", "/proxies/p/toxics/t", half).await.status, 200);
        let mut clients = Vec::new();
        for _ in 0..40 {
            let mut client = Wire::to(proxy).await;
            client.send("x").await;
            clients.push(client);
        }
        let mut answered = vec![false; clients.len()];
        let mut look = || {
            for (client, answered) in clients.iter().zip(&mut answered) {
                *answered |= matches!(client.0.try_read(&mut [0; 1]), Ok(1));
            }
            answered.iter().filter(|answered| **answered).count()
        };
        // Fewer than 5 or more than 35 of 40 come once in a million.
        let until = Instant::now() + PATIENCE;
        while look() < 5 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(SILENCE).await;
        let answered = look();
        assert!((5..=35).contains(&answered), "{}: {answered}", api.name());
    }
}

#[tokio::test]
async fn a_disabled_proxy_ends_its_connections_and_refuses_new_ones() {
    for (api, proxy) in proxied().await {
        let mut client = connected(proxy).await;
        let off = api.ask("POST", "/proxies/p", r#"{"enabled":false}"#).await;
        assert_eq!(off.status, 200);
        assert!(client.has_ended().await, "{}", api.name());
        assert!(TcpStream::connect(proxy).await.is_err(), "{}", api.name());
        assert_eq!(api.ask("POST", "/reset", "").await.status, 204);
        connected(proxy).await;
        let elsewhere = r#"{"upstream":"127.0.0.1:1"}"#;
        let mut client = connected(proxy).await;
        assert_eq!(api.ask("POST", "/proxies/p", elsewhere).await.status, 200);
        assert!(client.has_ended().await, "{}", api.name());
        assert!(new_connection_ends(proxy).await, "{}", api.name());
        assert_eq!(api.ask("DELETE", "/proxies/p", "").await.status, 204);
        assert!(TcpStream::connect(proxy).await.is_err(), "{}", api.name());
    }
}
