//! Links that are harmed by a Toxiproxy server instead of the embedded proxies: ours as a server of that API, and the real one.

mod support;

use std::time::{Duration, Instant};

use cluster_config::{
    ClusterError, Deployment, LinkFault, LinkFaultGuard, Links, Party, Process, Provisioner,
    Topology, TopologyKind, UpOptions,
};
use support::toxiproxy::Api;
use support::wire::{STRANGER, Wire, new_connection_ends, node};
use support::{eventually, scratch};
use tempfile::TempDir;

async fn through(api: &Api, kind: TopologyKind) -> (Deployment, TempDir) {
    let dir = scratch();
    let options = UpOptions {
        links: Links::Proxied,
        toxiproxy: Some(api.address()),
        ..UpOptions::new(dir.path())
    };
    let deployment = Process.up(&Topology::of(kind), &options).await.unwrap();
    (deployment, dir)
}

async fn fault(lab: &Deployment, from: &Party, to: &Party, fault: LinkFault) -> LinkFaultGuard {
    let links = [(from.clone(), to.clone())];
    lab.apply(&links, &fault).await.unwrap().remove(0)
}

/// How many proxies of ours the server has. Long lists come in chunks, so that the text is searched and not parsed.
async fn proxies_of(api: &Api) -> usize {
    let answer = api.ask("GET", "/proxies", "").await;
    answer.body.matches("\"name\":\"locklab-").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_holds_what_is_said_and_closes_nothing() {
    for api in Api::both().await {
        let (lab, _dir) = through(&api, TopologyKind::Single).await;
        let server = node("n1");
        let announced = lab.nodes()[0].announced;
        let mut old = Wire::to(announced).await;
        old.send("INCR k").await;
        old.expect(":1\r\n").await;
        let cut = fault(&lab, &STRANGER, &server, LinkFault::Cut).await;
        old.send("INCR k").await;
        let mut new = Wire::to(announced).await;
        new.send("INCR k").await;
        assert!(old.is_silent().await && new.is_silent().await);
        assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "1");
        let effect = cut.heal().await.unwrap();
        assert_eq!(
            effect.bytes,
            2 * "INCR k\r\n".len() as u64,
            "{}",
            api.name()
        );
        assert_eq!(effect.connections, 2);
        eventually("what was held arrives", async || {
            lab.command("n1", &["GET", "k"]).await.unwrap() == "3"
        })
        .await;

        // The other way: the command takes effect, and its answer waits.
        let mut client = Wire::to(announced).await;
        let cut = fault(&lab, &server, &STRANGER, LinkFault::Cut).await;
        client.send("SET k v").await;
        eventually("the answer is held", async || cut.effect().bytes == 5).await;
        assert!(client.is_silent().await);
        assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "v");
        cut.heal().await.unwrap();
        client.expect("+OK\r\n").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_add_up_and_a_dropped_fault_heals() {
    for api in Api::both().await {
        let (lab, _dir) = through(&api, TopologyKind::Single).await;
        let late = |ms| LinkFault::Delay {
            latency: Duration::from_millis(ms),
            jitter: Duration::ZERO,
        };
        let mut client = Wire::to(lab.nodes()[0].announced).await;
        let one = fault(&lab, &STRANGER, &node("n1"), late(60)).await;
        let two = fault(&lab, &STRANGER, &node("n1"), late(70)).await;
        let started = Instant::now();
        client.send("PING").await;
        client.expect("+PONG\r\n").await;
        assert!(started.elapsed() >= Duration::from_millis(130));
        assert_eq!((one.effect().bytes, two.effect().bytes), (6, 6));
        drop((one, two));
        let long = fault(&lab, &STRANGER, &node("n1"), late(600_000)).await;
        client.send("PING").await;
        assert!(client.is_silent().await);
        drop(long);
        client.expect("+PONG\r\n").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_end_at_a_refusal_and_after_their_last_byte() {
    for api in Api::both().await {
        let (lab, _dir) = through(&api, TopologyKind::Single).await;
        let announced = lab.nodes()[0].announced;
        let mut client = Wire::to(announced).await;
        client.send("PING").await;
        client.expect("+PONG\r\n").await;
        let refused = fault(&lab, &STRANGER, &node("n1"), LinkFault::Refuse).await;
        assert!(client.has_ended().await);
        assert!(new_connection_ends(announced).await);
        // Others take the ports on which nothing listens now.
        let proxies = api.ask("GET", "/proxies", "").await.body;
        let listens = proxies.split("\"listen\":\"").skip(1);
        let addresses = listens.filter_map(|rest| rest.split('"').next());
        let taken: Vec<_> = addresses
            .filter_map(|address| std::net::TcpListener::bind(address).ok())
            .collect();
        assert!(!taken.is_empty(), "{proxies}");
        assert_eq!(refused.heal().await.unwrap().connections, 2);

        let mut client = Wire::to(announced).await;
        let closed = LinkFault::CloseAfter { bytes: 10 };
        let closed = fault(&lab, &node("n1"), &STRANGER, closed).await;
        client.send("PING").await;
        client.expect("+PONG\r\n").await;
        client.send("PING").await;
        client.expect("+PO").await;
        assert!(client.has_ended().await);
        assert_eq!(closed.heal().await.unwrap().connections, 1);
        let mut client = Wire::to(announced).await;
        client.send("PING").await;
        client.expect("+PONG\r\n").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_servers_are_told_apart_and_nothing_stays_at_the_server() {
    for api in Api::both().await {
        let (lab, _dir) = through(&api, TopologyKind::Sentinel).await;
        let write: [&[&str]; 2] = [&["SET", "k", "v"], &["WAIT", "2", "300"]];
        let patience = Duration::from_secs(20);
        // One replica's acknowledgements, and neither the other's nor any client.
        let cut = fault(&lab, &node("n2"), &node("n1"), LinkFault::Cut).await;
        let answers = lab.commands("n1", &write, patience).await.unwrap();
        assert_eq!(answers, ["OK", "1"], "{}", api.name());
        assert!(cut.effect().bytes > 0);
        cut.heal().await.unwrap();
        eventually("both replicas acknowledge again", async || {
            let answers = lab.commands("n1", &write, patience).await;
            answers.is_ok_and(|answers| answers == ["OK", "2"])
        })
        .await;
        assert!(
            lab.toxiproxy()
                .unwrap()
                .contains(&api.address().to_string())
        );
        assert!(proxies_of(&api).await > 0);
        lab.down().await.unwrap();
        assert_eq!(proxies_of(&api).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_toxiproxy_cannot_do_is_refused_and_its_absence_named() {
    let api = Api::ours().await;
    let (lab, _dir) = through(&api, TopologyKind::Single).await;
    let links = [(STRANGER, node("n1"))];
    let error = lab.apply(&links, &LinkFault::Reset).await.unwrap_err();
    assert!(error.to_string().contains("reset_peer"), "{error}");
    let dir = scratch();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let options = UpOptions {
        links: Links::Proxied,
        toxiproxy: Some(address),
        ..UpOptions::new(dir.path())
    };
    let topology = Topology::of(TopologyKind::Single);
    let error = Process.up(&topology, &options).await.unwrap_err();
    assert!(matches!(error, ClusterError::Missing(_)), "{error}");
    assert!(
        error.to_string().contains("toxiproxy-server -host"),
        "{error}"
    );
    assert!(!dir.path().join("nodes").exists());
}
