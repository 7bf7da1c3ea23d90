//! What faults on links leave of connections: nothing overtakes, and no answer takes the place of a lost one.

use super::*;
use crate::server::{Server, Settings};

/// With so many of them the server hears of some resets before the client does.
#[tokio::test(start_paused = true)]
async fn a_reset_reaches_the_client_whichever_end_is_nearer() {
    let (soon, late) = (Duration::from_millis(1), Duration::from_millis(20));
    let host = Host::new("n1:6379".to_owned(), Server::new(Settings::default()));
    let network = Network::new(1, (soon, late), [("n1".to_owned(), host)].into(), None);
    let carrier = tokio::spawn(Arc::clone(&network).carry());
    let dial = |state: &mut State| state.dial("c1".to_owned(), "n1:6379", None);
    let all: Vec<u64> = (0..20).map(|_| network.with(dial)).collect();
    tokio::time::sleep(late * 3).await;
    let way = ("c1".into(), "n1".into());
    assert_eq!(network.with(|state| state.end_way(&way, true)), 20);
    tokio::time::sleep(late * 3).await;
    for number in all {
        let phase = network.with(|state| state.connections.get(&number).map(|one| one.phase));
        assert_eq!(phase, Some(Phase::Reset));
    }
    carrier.abort();
}

async fn one_connection(seed: u64) -> (Arc<Network>, u64) {
    let soon = Duration::from_millis(1);
    let host = Host::new("n1:6379".to_owned(), Server::new(Settings::default()));
    let network = Network::new(seed, (soon, soon), [("n1".to_owned(), host)].into(), None);
    tokio::spawn(Arc::clone(&network).carry());
    let number = network.with(|state| {
        state.begin_trace();
        state.dial("c1".to_owned(), "n1:6379", None)
    });
    tokio::time::sleep(soon * 5).await;
    (network, number)
}

fn say(state: &mut State, number: u64, words: &[&str]) {
    for word in words {
        let mut bytes = Vec::new();
        write_command(&[word.as_bytes().to_vec()], &mut bytes);
        state.send(number, true, Event::Request(number, bytes));
    }
}

fn harm(state: &mut State, way: &Way, nth: u64, is_lost: bool) {
    let chosen = MessageFault { span: nth, pattern: Pattern::any(), nth, count: 1, is_lost, fitted: 0 };
    state.choose(way, chosen);
}

fn asked(network: &Network) -> Vec<String> {
    let trace = network.with(State::take_trace);
    trace.iter().filter_map(|line| line.split_once("asks  ")).map(|(_, what)| what.to_owned()).collect()
}

/// Also where a cut or a stop keeps what came later.
#[tokio::test(start_paused = true)]
async fn what_a_fault_held_comes_before_what_came_later() {
    let some = Duration::from_millis(5);
    let way = ("c1".into(), "n1".into());
    for is_cut in [false, true] {
        let (network, number) = one_connection(1).await;
        let keeps = |state: &mut State, on| match (is_cut, on) {
            (true, _) => state.cut(&way, on),
            (false, true) => drop(state.stop("n1")),
            (false, false) => drop(state.go_on("n1")),
        };
        network.with(|state| {
            harm(state, &way, 1, false);
            say(state, number, &["A"]);
        });
        tokio::time::sleep(some).await;
        network.with(|state| {
            keeps(state, true);
            say(state, number, &["B"]);
        });
        tokio::time::sleep(some).await;
        network.with(|state| {
            state.choose_no_more(&way, 1);
            say(state, number, &["C"]);
        });
        tokio::time::sleep(some).await;
        network.with(|state| keeps(state, false));
        tokio::time::sleep(some).await;
        assert_eq!(asked(&network), ["A", "B", "C"], "cut: {is_cut}");
    }
}

/// Whether it waits at a stopped process, or is under way when the connection is reset.
#[tokio::test(start_paused = true)]
async fn nothing_comes_behind_what_is_lost() {
    let some = Duration::from_millis(5);
    let way = ("c1".into(), "n1".into());
    for (is_lost, is_stopped) in [(true, true), (true, false), (false, true), (false, false)] {
        for seed in 0..8 {
            let (network, number) = one_connection(seed).await;
            network.with(|state| {
                harm(state, &way, 1, is_lost);
                if is_stopped {
                    state.stop("n1");
                }
                say(state, number, &["A"]);
            });
            tokio::time::sleep(some).await;
            network.with(|state| say(state, number, &["B", "C"]));
            if is_stopped {
                tokio::time::sleep(some).await;
            }
            network.with(|state| {
                if is_stopped {
                    state.go_on("n1");
                }
                say(state, number, &["D", "E"]);
                state.end_way(&way, true);
                state.choose_no_more(&way, 1);
            });
            tokio::time::sleep(some).await;
            let none: [&str; 0] = [];
            assert_eq!(asked(&network), none, "{is_lost} {is_stopped}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_behind_a_lost_one_reaches_nobody() {
    let some = Duration::from_millis(5);
    let way = ("n1".into(), "c1".into());
    let (network, number) = one_connection(1).await;
    network.with(|state| {
        harm(state, &way, 1, true);
        harm(state, &way, 2, false);
        say(state, number, &["PING", "PING"]);
    });
    tokio::time::sleep(some).await;
    network.with(|state| state.choose_no_more(&way, 2));
    tokio::time::sleep(some).await;
    assert_eq!(network.with(|state| state.connections[&number].received.len()), 0);
}

/// A fault that ends while the answer that it chose is under way holds nothing from then on.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_at_the_end_of_a_fault_arrives() {
    let way = ("n1".into(), "c1".into());
    let (network, number) = one_connection(1).await;
    network.with(|state| {
        harm(state, &way, 1, false);
        say(state, number, &["PING"]);
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    network.with(|state| {
        assert!(state.choose_no_more(&way, 1), "it has chosen the answer");
        say(state, number, &["PING"]);
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let received = network.with(|state| state.connections[&number].received.len());
    assert_eq!(received, 2 * "+PONG\r\n".len());
}
