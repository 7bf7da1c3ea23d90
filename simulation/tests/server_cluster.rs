//! A simulated cluster: commands are sent elsewhere, slots move and replicas take over as in a real one,
//! whose answers stand beside.

mod support;

use std::time::{Duration, Instant};

use simulation::server::{Address, Loss, Membership, Settings, Shard};
use support::{
    Real,
    net::{Net, address},
    programs, shown, words,
};

const MOMENT: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);
const SLOTS: [(u16, u16); 3] = [(0, 5461), (5462, 10_922), (10_923, 16_383)];

/// Three masters, and their replicas in the same order behind them.
fn cluster(addresses: &[Address]) -> Net {
    let shard = |at: usize| Shard {
        slots: vec![SLOTS[at]],
        nodes: vec![addresses[at].clone(), addresses[at + 3].clone()],
    };
    let settings = |own: &Address| Settings {
        address: own.clone(),
        version: (7, 0),
        cluster: Some(Membership {
            shards: (0..3).map(shard).collect(),
            node_timeout: SECOND,
            full_coverage: true,
        }),
        ..Settings::default()
    };
    let mut net = Net::new(addresses.iter().map(settings));
    net.pass(5 * SECOND);
    net
}

fn own() -> Vec<Address> {
    (0..6).map(address).collect()
}

fn id(net: &mut Net, at: usize) -> String {
    net.ask(at, "CLUSTER MYID")[4..44].to_owned()
}

/// What real and simulated nodes are asked, in this order: which one, and what; `N1` stands for the id of the
/// second.
const QUESTIONS: &str = include_str!("support/cluster_rules.txt");

#[test]
fn nodes_answer_as_real_ones_do() {
    let (program, _) = programs().remove(0);
    let options =
        ["--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--repl-diskless-sync-delay", "0"];
    let real: Vec<Real> = (0..6).map(|_| Real::start_with_time(&program, &options)).collect();
    let ask = |at: usize, line: &str| shown(&real[at].connect().ask(&words(line)));
    let ids: Vec<String> = (0..6).map(|at| ask(at, "CLUSTER MYID")[4..44].to_owned()).collect();
    for (at, (from, to)) in SLOTS.into_iter().enumerate() {
        assert_eq!(ask(at, &format!("CLUSTER ADDSLOTSRANGE {from} {to}")), "+OK|");
    }
    for at in 0..6 {
        if at < 3 {
            ask(at, &format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
        }
        ask(at, &format!("CLUSTER MEET 127.0.0.1 {}", real[0].port));
    }
    let until = Instant::now() + 20 * SECOND;
    let wait = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(Instant::now() < until, "the real cluster does not come up: {}", ask(0, "CLUSTER NODES"));
            std::thread::sleep(MOMENT);
        }
    };
    let knows_all = |at: usize| {
        ask(at, "CLUSTER INFO").contains("known_nodes:6") && ask(at, "CLUSTER INFO").contains("state:ok")
    };
    wait(&|| (0..6).all(knows_all));
    for at in 3..6 {
        assert_eq!(ask(at, &format!("CLUSTER REPLICATE {}", ids[at - 3])), "+OK|");
    }
    let all_linked = |at: usize| {
        let nodes = ask(at, "CLUSTER SLOTS");
        ids.iter().all(|id| nodes.contains(id.as_str()))
    };
    wait(&|| {
        (0..6).all(all_linked)
            && (3..6).all(|at| ask(at, "INFO replication").contains("master_link_status:up"))
    });

    let addresses: Vec<Address> =
        real.iter().map(|real| Address { host: "127.0.0.1".to_owned(), port: real.port }).collect();
    let mut net = cluster(&addresses);
    let model_ids: Vec<String> = (0..6).map(|at| id(&mut net, at)).collect();
    let mut lines: Vec<_> = real.iter().map(Real::connect).collect();
    let clients: Vec<_> = (0..6).map(|at| net.client(at)).collect();
    let mut wrong = Vec::new();
    for question in QUESTIONS.lines().filter(|line| !line.is_empty()) {
        let (at, question) = question.split_once(' ').expect("which one");
        let at: usize = at.parse().expect("a node");
        let named = |ids: &[String], text: &str| {
            ids.iter().enumerate().fold(text.to_owned(), |text, (n, id)| text.replace(&format!("N{n}"), id))
        };
        let unnamed = |ids: &[String], text: &str| {
            ids.iter().enumerate().fold(text.to_owned(), |text, (n, id)| text.replace(id, &format!("N{n}")))
        };
        let port = |text: &str| {
            (0..6).fold(text.to_owned(), |text, n| text.replace(&format!("P{n}"), &real[n].port.to_string()))
        };
        let question = port(question);
        let mut said = unnamed(&ids, &shown(&lines[at].ask(&words(&named(&ids, &question)))));
        let mut modelled = net.say(clients[at], &named(&model_ids, &question));
        if modelled.is_empty() {
            net.pass(MOMENT);
            modelled = net.heard(clients[at]);
        }
        let mut modelled = unnamed(&model_ids, &modelled);
        if question == "CLUSTER NODES" {
            // In which order and when they were heard is nothing; the real replicas were masters once, and
            // made the epochs grow.
            let sorted = |text: &str| {
                let lines = text.split(['|', '\n']).filter(|line| line.starts_with('N'));
                let shown = lines.map(|line| {
                    let words: Vec<&str> = line.split(' ').collect();
                    [&words[..4], &words[7..]].concat().join(" ")
                });
                let mut lines: Vec<String> = shown.collect();
                lines.sort();
                lines.join("\n")
            };
            (said, modelled) = (sorted(&said), sorted(&modelled));
        }
        if said != modelled {
            wrong.push(format!("{at} {question}\n  is answered {said}\n  and modelled {modelled}"));
        }
        net.pass(MOMENT);
        std::thread::sleep(MOMENT);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The masters as a node tells them, by the first slot of each.
fn masters(net: &mut Net, asked: usize) -> String {
    net.ask(asked, "CLUSTER SLOTS")
}

#[test]
fn a_replica_takes_over_from_a_master_that_has_failed_and_the_old_one_comes_back_as_its_replica() {
    let mut net = cluster(&own());
    net.ask(0, "SET b 1");
    net.pass(MOMENT);
    net.crash(0, Loss::Process);
    net.pass(SECOND / 2);
    assert_eq!(net.ask(1, "GET b"), "-MOVED 3300 10.0.0.0:6379|");
    let refusals = (0..100).filter(|_| {
        net.pass(SECOND / 20);
        net.ask(1, "EXISTS c") == "-CLUSTERDOWN The cluster is down|"
    });
    assert_ne!(refusals.count(), 0, "while it covers not all slots");
    net.pass(6 * SECOND);
    assert_eq!(net.ask(3, "GET b"), "$1|1|");
    assert_eq!(net.ask(1, "GET b"), "-MOVED 3300 10.0.0.3:6379|");
    assert!(masters(&mut net, 2).contains("10.0.0.3"));
    net.restart(0, Duration::ZERO);
    net.pass(6 * SECOND);
    assert!(net.ask(0, "ROLE").starts_with("*5|$5|slave|$8|10.0.0.3|"));
    assert_eq!(net.ask(0, "GET b"), "-MOVED 3300 10.0.0.3:6379|");
    assert_eq!(net.ask(0, "DBSIZE"), ":1|");
}

#[test]
fn a_master_that_is_cut_off_stops_and_loses_what_it_took_until_then() {
    let mut net = cluster(&own());
    for other in 1..6 {
        net.cut.extend([(0, other), (other, 0)]);
    }
    assert_eq!(net.ask(0, "SET b lost"), "+OK|");
    net.pass(2 * SECOND);
    assert_eq!(net.ask(0, "SET b 1"), "-CLUSTERDOWN The cluster is down|");
    net.pass(5 * SECOND);
    assert_eq!(net.ask(3, "GET b"), "$-1|");
    net.heal();
    net.pass(10 * SECOND);
    assert!(net.ask(0, "ROLE").starts_with("*5|$5|slave|"), "{}", net.ask(0, "CLUSTER NODES"));
}

#[test]
fn a_minority_of_masters_promotes_nobody() {
    let mut net = cluster(&own());
    net.crash(0, Loss::Process);
    net.crash(1, Loss::Process);
    net.pass(20 * SECOND);
    for replica in [3, 4] {
        assert!(net.ask(replica, "ROLE").starts_with("*5|$5|slave|"));
    }
    assert_eq!(net.ask(2, "SET a 1"), "-CLUSTERDOWN The cluster is down|");
}

#[test]
fn a_takeover_that_is_asked_for_loses_nothing() {
    let mut net = cluster(&own());
    let client = net.client(0);
    assert_eq!(net.say(client, "SET b 1"), "+OK|");
    assert_eq!(net.ask(3, "CLUSTER FAILOVER"), "+OK|");
    net.pass(Duration::from_millis(5));
    assert_eq!(net.say(client, "SET b 2"), "", "it keeps its clients from writing");
    net.pass(2 * SECOND);
    assert_eq!(net.heard(client), "-MOVED 3300 10.0.0.3:6379|");
    assert_eq!(net.ask(3, "GET b"), "$1|1|");
}

#[test]
fn a_messages_way_is_the_bus() {
    let mut net = cluster(&own());
    let (plain, sharded) = (net.client(4), net.client(3));
    net.say(plain, "SUBSCRIBE c");
    assert!(net.say(sharded, "SSUBSCRIBE b").starts_with("*3|"));
    assert_eq!(net.ask(0, "PUBLISH c m"), ":0|");
    assert_eq!(net.ask(0, "SPUBLISH b m"), ":0|");
    net.pass(MOMENT);
    assert_eq!(net.heard(plain), "*3|$7|message|$1|c|$1|m|");
    assert_eq!(net.heard(sharded), "*3|$8|smessage|$1|b|$1|m|");
}
