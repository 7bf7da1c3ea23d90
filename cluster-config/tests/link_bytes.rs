//! Faults that harm bytes themselves: thin pipes, small pieces, early ends, wrong bytes.

mod support;

use std::time::{Duration, Instant};

use cluster_config::LinkFault;
use support::PATIENCE;
use support::wire::{STRANGER, Wire, fault, node, proxied_single};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

#[tokio::test]
async fn a_thin_pipe_makes_bytes_wait_for_each_other() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let pipe = fault(&lab, &STRANGER, &node("n1"), LinkFault::Bandwidth { bytes_per_s: 1000 });
    let started = Instant::now();
    for _ in 0..50 {
        client.send("PING").await;
    }
    for _ in 0..50 {
        client.expect("+PONG\r\n").await;
    }
    // 50 times 6 bytes at 1000 bytes per second.
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
    assert_eq!(pipe.heal().bytes, 300);
}

#[tokio::test]
async fn a_pipe_of_no_width_holds_everything_until_the_heal() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let pipe = fault(&lab, &STRANGER, &node("n1"), LinkFault::Bandwidth { bytes_per_s: 0 });
    client.send("PING").await;
    assert!(client.is_silent().await);
    pipe.heal();
    client.expect("+PONG\r\n").await;
}

#[tokio::test]
async fn an_early_end_lets_exactly_its_bytes_pass() {
    let (lab, announced) = proxied_single().await;
    let close = fault(&lab, &node("n1"), &STRANGER, LinkFault::CloseAfter { bytes: 10 });
    for _ in 0..2 {
        let mut client = Wire::to(announced).await;
        client.send("PING").await;
        client.expect("+PONG\r\n").await;
        client.send("PING").await;
        client.expect("+PO").await;
        assert!(client.has_ended().await);
    }
    assert_eq!(close.heal().connections, 2);
    let mut client = Wire::to(announced).await;
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
}

#[tokio::test]
async fn slices_arrive_whole_and_one_after_the_other() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let delay = Duration::from_millis(30);
    let slice = fault(&lab, &node("n1"), &STRANGER, LinkFault::Slice { size: 2, delay });
    let started = Instant::now();
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
    // Seven bytes are four pieces with three pauses between them.
    assert!(started.elapsed() >= delay * 3, "{:?}", started.elapsed());
    assert_eq!(slice.heal().chunks, 1);
}

#[tokio::test]
async fn corrupted_bytes_are_other_bytes_and_as_many() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let corrupt = fault(&lab, &node("n1"), &STRANGER, LinkFault::Corrupt { rate: 1.0 });
    client.send("PING").await;
    let mut answer = [0; 7];
    timeout(PATIENCE, client.0.read_exact(&mut answer)).await.unwrap().unwrap();
    assert!(answer.iter().zip(b"+PONG\r\n").all(|(got, sent)| got != sent), "{answer:?}");
    corrupt.heal();
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
}

#[tokio::test]
async fn a_lost_packet_is_a_late_one_and_what_is_always_lost_waits_for_the_heal() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let loss = |rate| LinkFault::Loss { rate, burst: 1 };
    let all = fault(&lab, &STRANGER, &node("n1"), loss(1.0));
    client.send("PING").await;
    assert!(client.is_silent().await);
    assert_eq!(all.heal().bytes, 6);
    client.expect("+PONG\r\n").await;
    let some = fault(&lab, &node("n1"), &STRANGER, loss(0.2));
    // By luck alone a thousand in a row would have to pass before this failed, or one be lost six times.
    for _ in 0..1000 {
        let started = Instant::now();
        client.send("PING").await;
        client.expect("+PONG\r\n").await;
        if some.effect().bytes > 0 {
            assert!(started.elapsed() >= Duration::from_millis(200));
            return;
        }
    }
    panic!("nothing was lost");
}
