//! Single commands and replies, on the wire and as MONITOR shows them: which are meant, which faults hold or
//! lose them, and that nobody takes one reply for another.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster_config::{
    Label, Labels, LinkFault, Links, MessagePassage, MessageWords, MonitorLine, Party, Pattern, TopologyKind,
};
use support::wire::{STRANGER, Wire, fault, node, proxied_single};
use support::{PATIENCE, eventually, lab_of};
use tokio::time::timeout;

fn pattern(words: &str) -> Pattern {
    words.parse().unwrap()
}

fn held(words: &str, nth: u64, count: u64) -> LinkFault {
    LinkFault::Hold { pattern: pattern(words), nth, count }
}

fn lost(words: &str, nth: u64, count: u64) -> LinkFault {
    LinkFault::Drop { pattern: pattern(words), nth, count }
}

fn meant(pattern: &str, command: &str) -> bool {
    let mut words = MessageWords::default();
    for word in command.split_whitespace() {
        words.push(word.as_bytes());
    }
    self::pattern(pattern).matches(&words, None)
}

#[test]
fn the_name_comes_first_and_other_words_follow_in_order() {
    assert!(meant("", "PING") && meant("", ""));
    assert!(meant("evalsha", "EVALSHA abc 1 orders"));
    assert!(meant("SET orders PX", "SET orders t1 NX PX 3000"));
    assert!(!meant("SET PX orders", "SET orders t1 NX PX 3000"));
    assert!(!meant("orders", "SET orders t1"));
    assert!(!meant("SET SET", "SET orders"));
    assert!(!meant("PING", ""));
}

#[test]
fn a_star_is_any_run_of_characters() {
    assert!(meant("EVALSHA *channel:{orders}", "EVALSHA a 2 k redisson_lock__channel:{orders}"));
    assert!(meant("*", "PING"));
    assert!(meant("S*T", "SECRET") && meant("S*T*", "SET") && !meant("S*T", "SETS"));
    assert!(meant("a*b*c", "aXbXbXc") && !meant("a*b*c", "aXcXb"));
}

#[test]
fn lines_are_read_as_they_are_written() {
    let said = |line: &str| {
        let line = MonitorLine::parse(line.as_bytes())?;
        let words: Vec<_> = line.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let client = String::from_utf8_lossy(line.client).into_owned();
        Some((line.time_us, line.database, client, words.join("|")))
    };
    let is = |time_us, database, client: &str, words: &str| {
        Some((time_us, database, client.to_owned(), words.to_owned()))
    };
    let cases = [
        (
            "+1.500000 [0 127.0.0.1:5000] \"SET\" \"a b\" \"\"\r\n",
            is(1_500_000, 0, "127.0.0.1:5000", "SET|a b|"),
        ),
        (
            r#"1700000000.000001 [0 lua] "set" "a\"] \"" "\\ \xc3\xa4" "\n""#,
            is(1_700_000_000_000_001, 0, "lua", "set|a\"] \"|\\ ä|\n"),
        ),
        ("+1.000000 [3 unix:/run/redis.sock] \"PING\"", is(1_000_000, 3, "unix:/run/redis.sock", "PING")),
        ("+1.000000 [0 [::1]:5000] \"PING\"", is(1_000_000, 0, "[::1]:5000", "PING")),
    ];
    for (line, read) in cases {
        assert_eq!(said(line), read, "{line}");
    }
    for broken in [
        "+OK",
        "+1.500000 [0 lua] \"set",
        r#"+1.500000 [0 lua] "\x4"#,
        r#"+1.500000 [0 lua] "\x+4""#,
        "+1.500000 [x lua] \"set\"",
        "+1.5 [0 lua] \"set\"",
        "+99999999999999999999.000000 [0 lua] \"set\"",
        // Its nanoseconds are no number of 64 bits.
        "+20568270467.284268 [0 lua] \"set\"",
        "+1.500000 [0 lua] \"set\"\"k\"",
        "",
    ] {
        assert_eq!(said(broken), None, "{broken}");
    }
}

#[tokio::test]
async fn the_reply_to_the_third_command_that_matches_is_held_and_then_arrives() {
    let (lab, announced) = proxied_single().await;
    let hold = fault(&lab, &node("n1"), &STRANGER, held("INCR k", 3, 1));
    let mut client = Wire::to(announced).await;
    let mut other = Wire::to(announced).await;
    // In one burst, so that the replies come in few pieces.
    client.send("INCR k\r\nINCR other\r\nINCR k\r\nPING\r\nINCR k\r\nPING").await;
    client.expect(":1\r\n:1\r\n:2\r\n+PONG\r\n").await;
    assert!(client.is_silent().await);
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "3");
    other.send("INCR k").await;
    other.expect(":4\r\n").await;
    let effect = hold.heal();
    assert_eq!((effect.bytes, effect.chunks, effect.connections), (4, 1, 1));
    client.expect(":3\r\n+PONG\r\n").await;
}

#[tokio::test]
async fn a_held_command_has_not_happened_until_the_heal() {
    let (lab, announced) = proxied_single().await;
    let hold = fault(&lab, &STRANGER, &node("n1"), held("SET", 1, 1));
    let mut client = Wire::to(announced).await;
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
    // Cut inside the command: no part of it may get through.
    client.0.set_nodelay(true).unwrap();
    client.send("*3\r\n$3\r\nSET\r\n$1").await;
    client.send("k\r\n$1\r\nv").await;
    eventually("it is held", async || hold.effect().bytes > 0).await;
    assert_eq!(lab.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");
    hold.heal();
    client.expect("+OK\r\n").await;
    client.send("SET k w").await;
    client.expect("+OK\r\n").await;
}

#[tokio::test]
async fn a_lost_reply_leaves_an_effect_and_no_other_reply_takes_its_place() {
    let (lab, announced) = proxied_single().await;
    let drop = fault(&lab, &node("n1"), &STRANGER, lost("INCR", 2, 1));
    let mut client = Wire::to(announced).await;
    client.send("INCR k").await;
    client.expect(":1\r\n").await;
    client.send("INCR k").await;
    assert!(client.is_silent().await);
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "2");
    // Its reply would be taken for the lost one's.
    client.send("INCR other").await;
    assert!(client.has_ended().await);
    let mut new = Wire::to(announced).await;
    new.send("INCR k").await;
    new.expect(":3\r\n").await;
    assert_eq!(drop.heal().chunks, 1);
}

#[tokio::test]
async fn a_lost_command_never_happens_and_neither_does_what_follows_it() {
    let (lab, announced) = proxied_single().await;
    let _drop = fault(&lab, &STRANGER, &node("n1"), lost("DEL", 1, 1));
    let mut client = Wire::to(announced).await;
    client.send("SET k v").await;
    client.expect("+OK\r\n").await;
    client.send("DEL k").await;
    assert!(client.is_silent().await);
    client.send("SET k w").await;
    assert!(client.has_ended().await);
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "v");
}

#[tokio::test]
async fn a_lost_message_of_a_channel_is_all_that_is_lost() {
    let (lab, announced) = proxied_single().await;
    let drop = fault(&lab, &node("n1"), &STRANGER, lost("message news*", 1, 1));
    for hello in ["PING", "HELLO 3"] {
        let mut subscriber = Wire::to(announced).await;
        subscriber.send(hello).await;
        while !subscriber.is_silent().await {}
        subscriber.send("SUBSCRIBE news:a").await;
        while !subscriber.is_silent().await {}
        for text in ["first", "second"] {
            let publish = ["PUBLISH", "news:a", text];
            assert_eq!(lab.command("n1", &publish).await.unwrap(), "1");
        }
        let first = if hello == "PING" { '*' } else { '>' };
        if hello == "PING" {
            // Only one is lost: the next subscriber hears both.
            eventually("one is lost", async || drop.effect().chunks == 1).await;
        } else {
            subscriber.expect(&format!("{first}3\r\n$7\r\nmessage\r\n$6\r\nnews:a\r\n$5\r\nfirst\r\n")).await;
        }
        subscriber.expect(&format!("{first}3\r\n$7\r\nmessage\r\n$6\r\nnews:a\r\n$6\r\nsecond\r\n")).await;
    }
}

#[tokio::test]
async fn the_answer_to_a_command_in_a_transaction_is_that_of_the_transaction() {
    let (lab, announced) = proxied_single().await;
    let hold = fault(&lab, &node("n1"), &STRANGER, held("INCR", 1, 1));
    let mut client = Wire::to(announced).await;
    client.send("MULTI\r\nINCR k\r\nEXEC").await;
    client.expect("+OK\r\n+QUEUED\r\n").await;
    assert!(client.is_silent().await);
    hold.heal();
    client.expect("*1\r\n:1\r\n").await;
}

#[tokio::test]
async fn a_write_can_be_held_on_its_way_to_a_replica() {
    let lab = lab_of(TopologyKind::Sentinel, Links::Proxied).await;
    let hold = fault(&lab, &node("n1"), &node("n2"), held("SET held", 1, 1));
    let mut client = Wire::to(lab.nodes()[0].announced).await;
    client.send("SET passes v").await;
    client.expect("+OK\r\n").await;
    let has = async |key: &str| lab.command("n2", &["EXISTS", key]).await.unwrap() == "1";
    eventually("the first write arrives", async || has("passes").await).await;
    client.send("SET held v").await;
    client.expect("+OK\r\n").await;
    eventually("the second is held", async || hold.effect().chunks == 1).await;
    assert!(!has("held").await);
    hold.heal();
    eventually("the second arrives", async || has("held").await).await;
}

#[tokio::test]
async fn a_watch_tells_when_the_third_message_has_passed() {
    let (lab, announced) = proxied_single().await;
    let links = lab.links().unwrap();
    let mut replies = links.watch(None, Some(&STRANGER), pattern("INCR k"));
    let mut commands = links.watch(Some(&STRANGER), None, pattern("INCR"));
    let mut elsewhere = links.watch(None, Some(&Party::Client(7)), Pattern::any());
    let mut client = Wire::to(announced).await;
    for _ in 0..2 {
        client.send("INCR k\r\nINCR other").await;
    }
    timeout(PATIENCE, commands.passed(4)).await.unwrap();
    timeout(PATIENCE, replies.passed(2)).await.unwrap();
    assert_eq!((commands.count(), replies.count()), (4, 2));
    let third = timeout(PATIENCE, replies.passed(3));
    let sending = async {
        client.send("INCR k").await;
        client.expect(":1\r\n:1\r\n:2\r\n:2\r\n:3\r\n").await;
    };
    let (third, ()) = tokio::join!(third, sending);
    third.unwrap();
    assert!(timeout(support::wire::SILENCE, elsewhere.passed(1)).await.is_err());
}

/// Calls every second command of client 1 and its reply `even`, and what is published `news`.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Labels for Counting {
    fn command(&self, passage: MessagePassage<'_>, _words: &MessageWords) -> (Label, Label) {
        assert_eq!((passage.client, passage.node), (1, "n1"));
        let even = self.0.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let label = Some("even").filter(|_| even);
        (label, label)
    }

    fn push(&self, _passage: MessagePassage<'_>, _words: &MessageWords) -> Label {
        Some("news")
    }
}

#[tokio::test]
async fn messages_are_chosen_by_labels_that_somebody_gives_them_whether_or_not_a_fault_was_there() {
    let (lab, announced) = proxied_single().await;
    lab.set_clients(BTreeMap::from([(1, std::process::id())]));
    let labels = Arc::new(Counting::default());
    lab.links().unwrap().label_by(labels.clone());
    let mut client = Wire::to(announced).await;
    client.send("PING").await;
    client.expect("+PONG\r\n").await;
    let of = |words: &str, label: Label, nth| LinkFault::Hold {
        pattern: pattern(words).labelled(label),
        nth,
        count: 1,
    };
    let to = Party::Client(1);
    let hold = fault(&lab, &node("n1"), &to, of("INCR", Some("even"), 2));
    let news = fault(&lab, &node("n1"), &to, of("message", Some("news"), 1));
    client.send("INCR k\r\nINCR k\r\nINCR k\r\nPING").await;
    client.expect(":1\r\n:2\r\n").await;
    assert!(client.is_silent().await);
    assert_eq!(labels.0.load(Ordering::Relaxed), 5);
    assert_eq!(hold.heal().bytes, 4);
    client.expect(":3\r\n+PONG\r\n").await;
    client.send("SUBSCRIBE a").await;
    while !client.is_silent().await {}
    lab.command("n1", &["PUBLISH", "a", "b"]).await.unwrap();
    eventually("it is held", async || news.effect().chunks == 1).await;
}
