//! Simulated servers together: what a crash loses, what replicas have, who waits for them, and how sentinels
//! make another master. The stream of a master is compared with the real one's, and the sentinels' words with
//! those of real ones.

mod support;

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use simulation::server::{Loss, Persistence, Server, Settings, Watch};
use support::{
    EPOCH, Real, ask,
    net::{Net, address},
    programs, shown, words,
};

const MOMENT: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

fn replica_of(at: usize) -> Settings {
    Settings { replica_of: Some(address(at)), ..Settings::default() }
}

fn on_disk(persistence: Persistence) -> Settings {
    Settings { persistence, ..Settings::default() }
}

#[test]
fn a_replica_has_what_its_master_said_and_not_what_was_on_its_way() {
    let mut net = Net::new([Settings::default(), replica_of(0)]);
    net.pass(SECOND);
    assert_eq!(net.ask(0, "SET a 1"), "+OK|");
    assert_eq!(net.ask(1, "GET a"), "$-1|", "it takes a moment");
    net.pass(MOMENT);
    assert_eq!(net.ask(1, "GET a"), "$1|1|");
    assert!(net.ask(1, "SET a 2").starts_with("-READONLY"));
    net.cut.insert((0, 1));
    net.ask(0, "SET lost 1");
    net.pass(MOMENT);
    assert_eq!(net.ask(1, "REPLICAOF NO ONE"), "+OK|");
    assert_eq!(net.ask(1, "GET lost"), "$-1|");
    assert_eq!(net.ask(1, "SET a 2"), "+OK|");
    // The old master has a history of its own and takes everything anew.
    assert_eq!(net.ask(0, "REPLICAOF 10.0.0.1 6379"), "+OK|");
    net.heal();
    net.pass(2 * SECOND);
    assert_eq!(net.ask(0, "GET lost"), "$-1|");
    assert_eq!(net.ask(0, "GET a"), "$1|2|");
}

#[test]
fn a_key_of_a_replica_is_hidden_at_its_end_and_goes_by_its_masters_word() {
    let mut net = Net::new([Settings::default(), replica_of(0)]);
    net.pass(SECOND);
    net.ask(0, "SET a 1 PX 150");
    net.pass(MOMENT);
    net.cut.insert((0, 1));
    net.pass(Duration::from_millis(400));
    assert_eq!(net.ask(1, "GET a"), "$-1|");
    assert_eq!(net.ask(1, "DBSIZE"), ":1|", "it is there still");
    assert_eq!(net.ask(0, "DBSIZE"), ":0|");
    net.heal();
    net.pass(MOMENT);
    assert_eq!(net.ask(1, "DBSIZE"), ":0|");
}

#[test]
fn wait_counts_replicas_that_have_the_connections_last_write() {
    let mut net = Net::new([Settings::default(), replica_of(0), replica_of(0)]);
    net.pass(SECOND);
    let client = net.client(0);
    net.say(client, "SET a 1");
    assert_eq!(net.say(client, "WAIT 2 500"), "");
    net.pass(MOMENT);
    assert_eq!(net.heard(client), ":2|");
    net.cut.insert((0, 2));
    net.say(client, "SET a 2");
    assert_eq!(net.say(client, "WAIT 2 500"), "");
    assert_eq!(net.say(client, "GET a"), "", "what comes behind it waits too");
    net.pass(MOMENT);
    assert_eq!(net.heard(client), "");
    net.pass(SECOND);
    assert_eq!(net.heard(client), ":1|$1|2|");
    // Another connection has written nothing.
    assert_eq!(net.ask(0, "WAIT 2 500"), ":2|");
}

#[test]
fn waitaof_counts_disks() {
    let on_disk = |persistence| Settings { persistence, ..replica_of(0) };
    let mut net = Net::new([
        Settings { persistence: Persistence::EverySecond, ..Settings::default() },
        on_disk(Persistence::Always),
        on_disk(Persistence::EverySecond),
    ]);
    net.pass(3 * SECOND);
    let client = net.client(0);
    net.say(client, "SET a 1");
    assert_eq!(net.say(client, "WAITAOF 1 2 0"), "");
    assert_eq!(net.ask(0, "WAITAOF 0 0 0"), "*2|:1|:2|", "another has written nothing");
    net.pass(MOMENT);
    assert_eq!(net.heard(client), "", "a disk each second is not yet");
    net.pass(3 * SECOND);
    assert_eq!(net.heard(client), "*2|:1|:2|");
}

#[test]
fn a_crash_loses_what_the_policy_says() {
    for (persistence, loss, kept) in [
        (Persistence::None, Loss::Process, "$-1|"),
        (Persistence::EverySecond, Loss::Process, "$1|1|"),
        (Persistence::EverySecond, Loss::Power, "$-1|"),
        (Persistence::Always, Loss::Power, "$1|1|"),
        (Persistence::Never, Loss::Power, "$-1|"),
        (Persistence::Never, Loss::Process, "$1|1|"),
    ] {
        let mut net = Net::new([on_disk(persistence)]);
        net.ask(0, "SET old 1 PX 100000");
        net.pass(2 * SECOND);
        net.ask(0, "SCRIPT LOAD return(1)");
        net.ask(0, "SET a 1");
        net.crash(0, loss);
        net.restart(0, MOMENT);
        assert_eq!(net.ask(0, "GET a"), "-LOADING Redis is loading the dataset in memory|");
        net.pass(MOMENT);
        assert_eq!(net.ask(0, "GET a"), kept, "{persistence:?}, {loss:?}");
        let old = matches!(persistence, Persistence::EverySecond | Persistence::Always);
        let old = old || persistence == Persistence::Never && loss == Loss::Process;
        assert_eq!(net.ask(0, "PTTL old"), if old { ":97980|" } else { ":-2|" }, "{persistence:?}, {loss:?}");
        assert!(net.ask(0, "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0").starts_with("-NOSCRIPT"));
    }
}

#[test]
fn what_config_set_has_changed_is_gone_with_the_process_unless_it_was_rewritten() {
    for (rewrite, kept) in [(false, "0"), (true, "100000")] {
        let mut net = Net::new([Settings::default()]);
        net.ask(0, "CONFIG SET maxmemory 100000");
        if rewrite {
            assert_eq!(net.ask(0, "CONFIG REWRITE"), "+OK|");
        }
        net.crash(0, Loss::Process);
        net.restart(0, Duration::ZERO);
        let said = net.ask(0, "CONFIG GET maxmemory");
        assert!(said.ends_with(&format!("|{kept}|")), "{said}");
    }
}

#[test]
fn a_replica_that_was_away_for_a_moment_reads_on_and_one_of_an_empty_master_loses_all() {
    let mut net = Net::new([Settings::default(), replica_of(0)]);
    net.pass(SECOND);
    net.ask(0, "SET a 1");
    net.pass(MOMENT);
    net.ask(0, "CLIENT KILL TYPE replica");
    net.ask(0, "SET b 1");
    assert_eq!(net.ask(1, "GET b"), "$-1|");
    net.pass(2 * SECOND);
    assert_eq!(net.ask(1, "GET b"), "$1|1|");
    net.crash(0, Loss::Process);
    net.pass(SECOND);
    assert_eq!(net.ask(1, "GET b"), "$1|1|");
    net.restart(0, Duration::ZERO);
    net.pass(3 * SECOND);
    assert_eq!(net.ask(1, "DBSIZE"), ":0|");
}

/// A master, two replicas and three sentinels.
fn watched() -> Net {
    let watch = || Settings {
        watch: Some(Watch {
            name: "m".to_owned(),
            master: address(0),
            quorum: 2,
            down_after: Duration::from_millis(500),
            failover_timeout: 3 * SECOND,
        }),
        ..Settings::default()
    };
    let mut net = Net::new([Settings::default(), replica_of(0), replica_of(0), watch(), watch(), watch()]);
    net.pass(15 * SECOND);
    net
}

const WHO: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME m";

fn told(at: usize) -> String {
    format!("*2|$8|10.0.0.{at}|$4|6379|")
}

#[test]
fn sentinels_make_another_master_when_one_dies_and_it_comes_back_as_a_replica() {
    let mut net = watched();
    for sentinel in 3..6 {
        assert_eq!(net.ask(sentinel, WHO), told(0));
    }
    net.ask(0, "SET a 1");
    let listeners: Vec<_> = (3..6).map(|sentinel| net.client(sentinel)).collect();
    listeners.iter().for_each(|listener| _ = net.say(*listener, "PSUBSCRIBE *"));
    net.pass(MOMENT);
    net.crash(0, Loss::Process);
    net.pass(10 * SECOND);
    let now = [1, 2].into_iter().find(|at| net.ask(3, WHO) == told(*at)).expect("another master");
    for sentinel in 3..6 {
        assert_eq!(net.ask(sentinel, WHO), told(now));
    }
    assert!(net.ask(now, "ROLE").starts_with("*3|$6|master|"));
    assert_eq!(net.ask(now, "GET a"), "$1|1|");
    // What the elected one says, in the order in which a real one says it.
    let events: Vec<Vec<String>> = (listeners.iter())
        .map(|listener| {
            let heard = net.heard(*listener);
            let words = heard.split('|').filter(|word| word.starts_with(['+', '-']) && word.len() > 3);
            words.map(str::to_owned).collect()
        })
        .collect();
    let elected = events.iter().find(|events| events.iter().any(|event| event == "+elected-leader"));
    let elected = elected.unwrap_or_else(|| panic!("{events:?}"));
    let said: Vec<&str> = elected.iter().map(String::as_str).collect();
    let expected = [
        "+sdown",
        "+odown",
        "+new-epoch",
        "+try-failover",
        "+vote-for-leader",
        "+elected-leader",
        "+selected-slave",
        "+promoted-slave",
        "-odown",
        "+failover-end",
        "+switch-master",
        "+sdown",
    ];
    assert_eq!(said, expected);
    net.restart(0, Duration::ZERO);
    net.pass(30 * SECOND);
    assert_eq!(net.ask(0, "GET a"), "$1|1|", "{}", net.ask(0, "INFO replication"));
    assert!(net.ask(0, "ROLE").starts_with("*5|$5|slave|"));
}

/// A dial begins a silence of its own: the last answer may be older than a server may be silent, since it was
/// asked no sooner.
#[test]
fn a_master_that_closes_connections_is_not_found_down() {
    let mut net = watched();
    let listener = net.client(3);
    net.say(listener, "PSUBSCRIBE *");
    for later in 0..40 {
        net.ask(0, "CLIENT KILL TYPE normal");
        net.ask(0, "CLIENT KILL TYPE pubsub");
        // Each time in another part of the time between two questions.
        net.pass(Duration::from_millis(2_000 + 23 * later));
        let heard = net.heard(listener);
        assert!(!heard.contains("+sdown"), "{heard}");
    }
    net.crash(0, Loss::Process);
    net.pass(SECOND);
    let heard = net.heard(listener);
    assert!(heard.contains("+sdown"), "{heard}");
}

#[test]
fn a_minority_of_sentinels_changes_nothing() {
    let mut net = watched();
    net.crash(0, Loss::Process);
    net.crash(4, Loss::Process);
    net.crash(5, Loss::Process);
    net.pass(30 * SECOND);
    assert_eq!(net.ask(3, WHO), told(0));
}

#[test]
fn a_master_that_was_cut_off_loses_what_it_took_meanwhile() {
    let mut net = watched();
    for other in 1..6 {
        net.cut.extend([(0, other), (other, 0)]);
    }
    assert_eq!(net.ask(0, "SET a 1"), "+OK|");
    net.pass(10 * SECOND);
    assert_eq!(net.ask(0, "SET b 1"), "+OK|", "it does not know");
    assert_ne!(net.ask(3, WHO), told(0));
    net.heal();
    net.pass(60 * SECOND);
    assert!(net.ask(0, "ROLE").starts_with("*5|$5|slave|"));
    assert_eq!(net.ask(0, "EXISTS a b"), ":0|");
}

/// What is said in the stream of a real master, and of a simulated one, of the same commands.
#[test]
fn a_master_says_in_its_stream_what_the_real_one_does() {
    const SHAPES: &[&str] = &[
        "SET K V",
        "SET K V PX T",
        "SET K V px T nx",
        "PEXPIRE K T",
        "PEXPIRE K 0",
        "DEL K K",
        "INCR K",
        "DECRBY K 3",
        "GET K",
        "HSET K V V",
        "HDEL K V",
        "HINCRBY K V 2",
        "RPUSH K V",
        "LPOP K",
        "LREM K 0 V",
        "ZADD K 1 V",
        "ZADD K GT 1 V",
        "ZREM K V",
        "ZPOPMIN K",
        "ZREMRANGEBYSCORE K -inf 3",
        "PUBLISH K V",
        "SPUBLISH K V",
        "FLUSHALL",
        "EVAL return(redis.call('SET','k1',1,'PX',20)) 0",
        "EVAL redis.call('SET','k1',1,'PX',20)redis.call('PEXPIRE','k1',30)redis.call('PUBLISH','c','m')return(1) 0",
        "EVAL redis.call('GET','k1')redis.call('DEL','k2')redis.call('ZPOPMIN','k3') 0",
    ];
    for (program, version) in programs() {
        let real = Real::start(&program, &["--enable-debug-command", "yes"]);
        let mut model = Server::new(Settings { version, ..Settings::default() });
        let (mut line, connection) = (real.connect(), model.connect());
        line.ask(&words("DEBUG SET-ACTIVE-EXPIRE 0"));
        line.ask(&words("CONFIG SET repl-diskless-sync no"));
        let mut stream = real.connect();
        stream.say(&words("PSYNC ? -1"));
        stream.hear();
        stream.skip_bulk();
        let reader = model.connect();
        ask(&mut model, EPOCH, reader, &words("REPLCONF listening-port 1"));
        ask(&mut model, EPOCH, reader, &words("PSYNC ? -1"));
        let mut dice = StdRng::seed_from_u64(rand::random());
        let mut now = EPOCH;
        for _ in 0..3000 {
            let shape = SHAPES.choose(&mut dice).expect("some");
            let word = |word: &str, dice: &mut StdRng| match word {
                "K" => format!("k{}", dice.random_range(0..4)),
                "V" => dice.random_range(0..4).to_string(),
                "T" => dice.random_range(1..20).to_string(),
                word => word.to_owned(),
            };
            let command: Vec<Vec<u8>> =
                shape.split(' ').map(|each| word(each, &mut dice).into_bytes()).collect();
            let said = shown(&line.ask(&command));
            assert_eq!(
                said,
                shown(&ask(&mut model, now, connection, &command)),
                "{}",
                shown(&command.join(&b' '))
            );
            now += Duration::from_millis(dice.random_range(0..6));
            real.set_clock(now);
        }
        line.ask(&words("SET the end"));
        ask(&mut model, now, connection, &words("SET the end"));
        let model = shown(&model.output(reader)).to_uppercase();
        let mut said = String::new();
        while !said.ends_with("|SET|$3|THE|$3|END|") {
            let part = shown(&stream.hear()).to_uppercase();
            // The real one says of which of its sixteen databases it speaks, and that it is there.
            if !part.contains("|SELECT|") && !part.contains("|PING|") {
                said += &part;
            }
        }
        let differs = said.split('*').zip(model.split('*')).position(|(one, other)| one != other);
        if let Some(at) = differs {
            let around =
                |text: &str| text.split('*').skip(at.saturating_sub(6)).take(9).collect::<Vec<_>>().join("*");
            panic!("{program:?}: the real one says\n{}\nand the model\n{}", around(&said), around(&model));
        }
        assert_eq!(said.len(), model.len());
    }
}
