//! Faults on links: what they do to clients and replication, how they combine, and that they heal.

mod support;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cluster_config::{LinkFault, LinkGuard, Links, Party, TopologyKind};
use support::wire::{SILENCE, STRANGER, Wire, fault, new_connection_ends, node, proxied_single};
use support::{Lab, PATIENCE, eventually, lab_of, masters};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

fn late(millis: u64) -> LinkFault {
    LinkFault::Delay { latency: Duration::from_millis(millis), jitter: Duration::ZERO }
}

#[tokio::test]
async fn a_delay_holds_up_a_burst_once_and_not_each_of_its_pieces() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
    let delay = fault(&lab, &STRANGER, &node("n1"), late(100));
    let started = Instant::now();
    for _ in 0..100 {
        client.send("PING").await;
        // Lets the proxy read it as a piece of its own.
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    for _ in 0..100 {
        client.expect("+PONG\r\n").await;
    }
    let took = started.elapsed();
    let effect = delay.heal();
    assert!(took >= Duration::from_millis(100), "{took:?}");
    assert_eq!(effect.bytes, 600);
    assert_eq!(effect.connections, 1);
    // Piece by piece they would have taken at least 100 ms each, one after the other.
    assert!(effect.chunks > 1, "{effect:?}");
    assert!(took < Duration::from_millis(100) * effect.chunks as u32, "{took:?} {effect:?}");
}

#[tokio::test]
async fn a_healed_delay_sets_free_what_it_held() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    // Longer than any wait of this test.
    let delay = fault(&lab, &node("n1"), &STRANGER, late(600_000));
    client.send("PING").await;
    assert!(client.is_silent().await);
    drop(delay);
    client.expect("+PONG\r\n").await;
}

#[tokio::test]
async fn delays_on_one_link_add_up_and_a_cut_wins() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let _one = fault(&lab, &STRANGER, &node("n1"), late(60));
    let _two = fault(&lab, &STRANGER, &node("n1"), late(70));
    let started = Instant::now();
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
    assert!(started.elapsed() >= Duration::from_millis(130));
    let cut = fault(&lab, &STRANGER, &node("n1"), LinkFault::Cut);
    client.send("PING").await;
    assert!(client.is_silent().await);
    drop(cut);
    client.expect("+PONG\r\n").await;
}

#[tokio::test]
async fn a_cut_holds_bytes_and_new_connections_closes_nothing_and_heals() {
    let (lab, announced) = proxied_single().await;
    let mut old = Wire::to(announced).await;
    old.send("PING").await;
    old.expect("+PONG\r\n").await;
    let cut = fault(&lab, &STRANGER, &node("n1"), LinkFault::Cut);
    old.send("INCR k").await;
    let mut new = Wire::to(announced).await;
    new.send("INCR k").await;
    assert!(old.is_silent().await && new.is_silent().await);
    assert_eq!(lab.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");
    eventually("both connections are counted", async || cut.effect().connections == 2).await;
    assert_eq!(cut.effect().bytes, "INCR k\r\n".len() as u64);
    cut.heal();
    for client in [&mut old, &mut new] {
        let answer = client.0.read_u8();
        assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap(), b':');
    }
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "2");
}

#[tokio::test]
async fn a_cut_answer_leaves_a_command_that_took_effect() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    let cut = fault(&lab, &node("n1"), &STRANGER, LinkFault::Cut);
    client.send("SET k v").await;
    eventually("the write arrives", async || lab.command("n1", &["EXISTS", "k"]).await.unwrap() == "1").await;
    assert!(client.is_silent().await);
    cut.heal();
    client.expect("+OK\r\n").await;
}

/// Connections of the server's clients that call themselves `name`.
async fn server_sees(lab: &Lab, name: &str) -> usize {
    let list = lab.command("n1", &["CLIENT", "LIST"]).await.unwrap();
    list.matches(&format!("name={name} ")).count()
}

#[tokio::test]
async fn a_close_travels_through_the_proxy_but_not_through_a_cut() {
    let (lab, announced) = proxied_single().await;
    let named = async || {
        let mut client = Wire::to(announced).await;
        client.send("CLIENT SETNAME lab").await;
        client.expect("+OK\r\n").await;
        client
    };
    drop(named().await);
    eventually("the server has seen the close", async || server_sees(&lab, "lab").await == 0).await;

    let client = named().await;
    let cut = fault(&lab, &STRANGER, &node("n1"), LinkFault::Cut);
    drop(client);
    tokio::time::sleep(SILENCE).await;
    assert_eq!(server_sees(&lab, "lab").await, 1);
    cut.heal();
    eventually("the close arrives late", async || server_sees(&lab, "lab").await == 0).await;
}

#[tokio::test]
async fn a_server_that_is_gone_ends_its_connections_and_new_ones() {
    let (lab, announced) = proxied_single().await;
    let mut old = Wire::to(announced).await;
    old.send("PING").await;
    old.expect("+PONG\r\n").await;
    lab.kill("n1").await.unwrap();
    assert!(old.has_ended().await);
    assert!(new_connection_ends(announced).await);
}

#[tokio::test]
async fn refuse_and_reset_end_connections_until_they_heal() {
    let (lab, announced) = proxied_single().await;
    for kind in [LinkFault::Refuse, LinkFault::Reset] {
        let mut old = Wire::to(announced).await;
        old.send("PING").await;
        old.expect("+PONG\r\n").await;
        let guard = fault(&lab, &STRANGER, &node("n1"), kind.clone());
        assert!(old.has_ended().await, "{kind:?}");
        assert!(new_connection_ends(announced).await, "{kind:?}");
        assert!(guard.heal().connections >= 2, "{kind:?}");
        let mut new = Wire::to(announced).await;
        new.send("PING").await;
        new.expect("+PONG\r\n").await;
    }
}

#[tokio::test]
async fn an_existing_connection_is_reset_and_not_merely_closed() {
    let (lab, announced) = proxied_single().await;
    let mut client = Wire::to(announced).await;
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
    let _reset = fault(&lab, &STRANGER, &node("n1"), LinkFault::Reset);
    let read = timeout(PATIENCE, client.0.read_u8()).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_cut_replication_link_fails_wait_while_clients_are_served() {
    let lab = lab_of(TopologyKind::Sentinel, Links::Proxied).await;
    let links = lab.links().unwrap();
    for replica in ["n2", "n3"] {
        assert!(links.open_connections(&node(replica), &node("n1")) > 0, "{replica}");
    }
    let cuts: Vec<LinkGuard> =
        ["n2", "n3"].map(|replica| fault(&lab, &node("n1"), &node(replica), LinkFault::Cut)).into();
    let mut client = Wire::to(lab.nodes()[0].announced).await;
    client.send("SET k v").await;
    client.expect("+OK\r\n").await;
    client.send("WAIT 1 300").await;
    client.expect(":0\r\n").await;
    assert!(cuts.iter().all(|cut| cut.effect().bytes > 0), "{cuts:?}");
    drop(cuts);
    client.send(&format!("WAIT 2 {}", PATIENCE.as_millis())).await;
    client.expect(":2\r\n").await;
}

#[tokio::test]
async fn an_isolated_master_is_replaced_and_steps_down_after_the_heal() {
    let lab = lab_of(TopologyKind::Sentinel, Links::Proxied).await;
    let isolated = node("n1");
    let mut cuts = Vec::new();
    for other in lab.nodes().iter().skip(1) {
        let other = node(&other.name);
        cuts.push(fault(&lab, &isolated, &other, LinkFault::Cut));
        cuts.push(fault(&lab, &other, &isolated, LinkFault::Cut));
    }
    // Both call themselves master: asked past the proxies, so the cut does not hide the old one.
    eventually("there are two masters", async || masters(&lab).await.len() == 2).await;
    assert!(lab.probe("orders", PATIENCE).await);
    // A heal in the midst of the failover could still go either way.
    let old = lab.nodes()[0].announced;
    eventually("every sentinel names another master", async || {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locklab"];
        for sentinel in ["s1", "s2", "s3"] {
            let named = lab.command(sentinel, &ask).await.unwrap();
            if named == format!("{}\n{}", old.ip(), old.port()) {
                return false;
            }
        }
        true
    })
    .await;
    drop(cuts);
    eventually("the old master steps down", async || {
        let masters = masters(&lab).await;
        masters.len() == 1 && masters[0] != "n1"
    })
    .await;
}

#[tokio::test]
async fn every_bus_link_of_a_cluster_passes_through_a_proxy() {
    let lab = lab_of(TopologyKind::Cluster, Links::Proxied).await;
    let links = lab.links().unwrap();
    eventually("every member has dialled every other", async || {
        lab.nodes().iter().all(|from| {
            let others = lab.nodes().iter().filter(|to| to.name != from.name);
            others.into_iter().all(|to| links.open_connections(&node(&from.name), &node(&to.name)) > 0)
        })
    })
    .await;
}

/// A client process that reads commands from its input: redis-cli, perhaps under a shell.
struct ClientProcess(Child);

impl ClientProcess {
    fn start(mut command: Command) -> ClientProcess {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        ClientProcess(command.spawn().unwrap())
    }

    fn increments(&mut self, key: &str) {
        use std::io::Write;
        let stdin = self.0.stdin.as_mut().unwrap();
        writeln!(stdin, "INCR {key}").unwrap();
        stdin.flush().unwrap();
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // The end of its input ends redis-cli, and with it a shell around it.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn clients_are_told_apart_by_the_process_that_owns_the_connection() {
    let (lab, announced) = proxied_single().await;
    let (ip, port) = (announced.ip().to_string(), announced.port().to_string());
    let mut plain = Command::new("redis-cli");
    plain.args(["-h", &ip, "-p", &port]);
    let mut wrapped = Command::new("sh");
    wrapped.args(["-c", &format!("redis-cli -h {ip} -p {port}; true")]);
    let mut one = ClientProcess::start(plain);
    let mut two = ClientProcess::start(wrapped);
    let counter = async |key: &str| lab.command("n1", &["GET", key]).await.unwrap();
    // Both connections are there before anybody says whose they are.
    one.increments("one");
    two.increments("two");
    eventually("both are connected", async || counter("one").await == "1" && counter("two").await == "1")
        .await;
    lab.set_clients(BTreeMap::from([(1, one.0.id()), (2, two.0.id())]));

    for (harmed, other) in [(1, "two"), (2, "one")] {
        let before = counter(other).await;
        let cut = fault(&lab, &Party::Client(harmed), &node("n1"), LinkFault::Cut);
        one.increments("one");
        two.increments("two");
        eventually("the other client is served", async || counter(other).await > before).await;
        eventually("the harmed one is held", async || cut.effect().bytes > 0).await;
        let held = if harmed == 1 { "one" } else { "two" };
        assert_eq!(counter(held).await, before, "client {harmed}");
        cut.heal();
        eventually("the held one is served", async || counter(held).await > before).await;
    }
}

#[tokio::test]
async fn direct_links_cannot_be_harmed() {
    let lab = lab_of(TopologyKind::Single, Links::Direct).await;
    let message = lab.links().unwrap_err().to_string();
    assert!(message.contains("direct links"), "{message}");
}
