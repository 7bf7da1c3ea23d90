//! Every fault bites on real servers and real client processes, and says what shows it.

mod support;

use chaos::run::ScenarioRun;
use support::{has_server, run, run_by, told};

/// A short load on one server with one fault in it.
fn single(fault: &str) -> String {
    format!(
        "name = \"one\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nhold = \"20ms..40ms\"\nduration = \"2200ms\"\n\
         [[faults]]\nat = \"300ms\"\nfor = \"1s\"\n{fault}\n"
    )
}

fn assert_bit(run: &ScenarioRun) {
    assert!(!run.result.faults.is_empty(), "{}", told(run));
    for fault in &run.result.faults {
        assert!(fault.bit, "{} did not bite: {}", fault.fault, fault.proof);
        assert!(fault.healed_ns.is_some(), "{} was not healed: {}", fault.fault, fault.proof);
    }
    let acquires = &run.result.operations["acquire"];
    assert!(acquires["ok"] > 3, "{}", told(run));
}

macro_rules! bites {
    ($($test:ident: $fault:literal;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let (run, _dir) = run(&single($fault), 7).await;
            assert_bit(&run);
        })*
    };
}

bites! {
    kill_of_a_server_that_comes_back: "fault = \"kill\"\non = \"master\"";
    kill_of_a_client_that_comes_back: "fault = \"kill\"\non = \"client 2\"";
    restart_without_data: "fault = \"restart\"\nwith = { data = \"lose\" }";
    pause_of_a_server: "fault = \"pause\"\non = \"n1\"";
    pause_of_a_holder: "fault = \"pause\"\non = \"holder\"";
    stress: "fault = \"stress\"\nwith = { workers = 16 }";
    delay_of_one_client: "fault = \"delay\"\non = \"client 1 -> master\"\nwith = { latency = \"50ms\", jitter = \"10ms\" }";
    cut_both_ways: "fault = \"cut\"\non = \"clients <-> n1\"";
    partition_of_one_client: "fault = \"partition\"\non = \"n1 | client 2\"";
    script_flush: "fault = \"script-flush\"";
    flushall: "fault = \"flushall\"\nwith = {}";
    client_pause: "fault = \"client-pause\"";
    bandwidth: "fault = \"bandwidth\"\non = \"clients -> master\"\nwith = { rate = \"64kB/s\" }";
    refuse: "fault = \"refuse\"\non = \"client 1 <-> n1\"";
    reset: "fault = \"reset\"\non = \"client 1 -> n1\"";
    close_after: "fault = \"close-after\"\non = \"n1 -> client 2\"\nwith = { bytes = 100 }";
    slice: "fault = \"slice\"\non = \"clients <-> master\"\nwith = { size = 3, delay = \"1ms\" }";
    corrupt: "fault = \"corrupt\"\non = \"client 2 -> n1\"\nwith = { rate = 0.05 }";
    loss: "fault = \"loss\"\non = \"clients -> master\"\nwith = { rate = 0.2, burst = 2 }";
    hold: "fault = \"hold\"\non = \"master -> client 1\"\nwith = { match = \"EVALSHA\", nth = 2 }";
    drop: "fault = \"drop\"\non = \"client 2 -> master\"\nwith = { match = \"EVALSHA *channel*\", nth = 2, count = 1 }";
    client_kill: "fault = \"client-kill\"";
    client_kill_of_a_client: "fault = \"client-kill\"\non = \"client 2\"";
    client_kill_behind_proxies: "fault = \"client-kill\"\non = \"client 2\"\n\n[[faults]]\nfor = \"100ms\"\nfault = \"delay\"\n\
                                 on = \"client 1 -> master\"\nwith = { latency = \"1ms\" }";
    maxmemory: "fault = \"maxmemory\"\nwith = { limit = \"100kb\", policy = \"noeviction\" }";
    config_set: "fault = \"config-set\"\nwith = { key = \"hz\", value = 20 }";
    refuse_command: "fault = \"refuse-command\"\nwith = { commands = [\"EVALSHA\", \"PUBLISH\"] }";
    change_password: "fault = \"change-password\"";
    power_cut: "fault = \"power-cut\"";
    clock_of_a_server: "fault = \"clock\"\nwith = { jump = \"-20s\" }";
    drift_of_a_server: "fault = \"clock\"\nwith = { drift = \"50%\" }";
    clock_of_a_client: "fault = \"clock\"\non = \"client 1\"\nwith = { jump = \"5s\", drift = \"1%\" }";
    block_of_a_client: "fault = \"block\"\non = \"client 1\"";
    late_writes: "fault = \"late-writes\"\non = \"client 1\"\nwith = { latency = \"50ms\" }";
    new_address: "fault = \"new-address\"\nwith = { after = \"100ms\" }";
    command: "fault = \"command\"\nwith = { args = [\"DEL\", \"orders-1\"] }";
}

/// A fault once in the middle of a load, on a topology of its own.
fn once(topology: &str, fault: &str) -> String {
    format!(
        "name = \"once\"\n[topology]\n{topology}\n[load]\nclients = 2\nhold = \"5ms..20ms\"\nduration = \"30s\"\nenough = 4\n\
         [[faults]]\nat = \"300ms\"\nfor = \"400ms\"\n{fault}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_makes_syncs_late() {
    let topology = "kind = \"single\"\nconfig = { appendonly = \"yes\", appendfsync = \"always\" }";
    let text = once(topology, "fault = \"disk\"\nwith = { fsync = \"20ms\" }");
    let (run, _dir) = run(&text, 7).await;
    assert_bit(&run);
}

/// The keys were synced never, at once, or not at all: the words of the proof say how many bytes went.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
    for (appendfsync, loses) in [("no", true), ("always", false)] {
        let topology = format!(
            "kind = \"single\"\nconfig = {{ appendonly = \"yes\", appendfsync = \"{appendfsync}\" }}"
        );
        let (run, _dir) = run(&once(&topology, "fault = \"power-cut\""), 7).await;
        assert_bit(&run);
        let proof = &run.result.faults[0].proof;
        assert_eq!(!proof.contains(" 0 bytes in 0 files"), loses, "{proof}");
    }
}

/// On a master it is replaced; on a replica it takes over, whichever the servers would have chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_changes_the_role_of_its_target() {
    for (topology, on, words) in [
        ("sentinel", "master", "n1 was a master and is a replica, "),
        ("sentinel", "n2", "n2 was a replica and is a master, "),
        ("cluster", "master", "n1 was a master and is a replica, "),
        ("cluster", "n4", "n4 was a replica and is a master, "),
    ] {
        let topology = format!("kind = \"{topology}\"");
        let fault = format!("fault = \"failover\"\non = \"{on}\"");
        let (run, _dir) = run(&once(&topology, &fault), 7).await;
        assert_bit(&run);
        let proof = &run.result.faults[0].proof;
        assert!(proof.starts_with(words), "{proof}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directive_that_was_so_before_is_without_proof() {
    let text = single("fault = \"config-set\"\nwith = { key = \"hz\", value = 100 }");
    let (run, _dir) = run(&text, 7).await;
    let fault = &run.result.faults[0];
    let was = "n1: hz was \"100\" and is \"100\"".to_owned();
    assert_eq!((fault.bit, &fault.proof), (false, &was), "{}", told(&run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_asks_nobody() {
    let (run, _dir) = run(&once("kind = \"cluster\"", "fault = \"takeover\""), 7).await;
    assert_bit(&run);
    assert!(run.result.faults[0].proof.contains("calls itself master"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replica_that_is_named_is_promoted() {
    for (topology, replica) in [("sentinel", "n3"), ("cluster", "n4")] {
        let topology = format!("kind = \"{topology}\"");
        let fault = format!("fault = \"promote\"\non = \"{replica}\"");
        let (run, _dir) = run(&once(&topology, &fault), 7).await;
        assert_bit(&run);
        let proof = &run.result.faults[0].proof;
        assert_eq!(*proof, format!("{replica} says that it is master"));
    }
}

/// A server that was killed is still being started when it is to be killed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_waits_until_its_target_has_recovered_from_another() {
    let text = "name = \"again\"\n[topology]\nkind = \"single\"\nconfig = { appendonly = \"yes\" }\n[load]\nclients = 2\nduration = \"30s\"\n\
                enough = 4\n[[faults]]\nat = \"200ms\"\nfor = \"300ms\"\nfault = \"kill\"\n[[faults]]\nat = \"520ms\"\nfault = \"restart\"\n";
    let (run, _dir) = run(text, 7).await;
    assert_bit(&run);
}

/// The first pause is in force a tenth of a second after it is due, when it has been seen to be, and so ends
/// later than the second begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_that_ends_late_does_not_end_the_next_of_its_kind() {
    let pause = |at: &str| format!("[[faults]]\nat = \"{at}\"\nfor = \"300ms\"\nfault = \"client-pause\"\n");
    let text = "name = \"pauses\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nduration = \"30s\"\nenough = 8\n";
    let (run, _dir) = run(&format!("{text}{}{}", pause("200ms"), pause("520ms")), 7).await;
    assert_bit(&run);
}

/// What the default user might not do before a fault, it may not do after it; a selector in its rules is set
/// again too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_access_list_is_set_back_as_it_was() {
    let acl = |at: &str, args: &str| {
        format!("[[faults]]\nat = \"{at}\"\nfault = \"command\"\nwith = {{ args = [\"ACL\", {args}] }}\n")
    };
    let before = acl("100ms", r#""SETUSER", "default", "-hset", "(~a* +get)""#);
    let after = acl("1900ms", r#""DRYRUN", "default", "HSET", "k", "f", "v""#);
    let refused = "fault = \"refuse-command\"\nwith = { commands = [\"HSET\", \"SET\"] }";
    let text = format!("{}\n{before}{after}", single(refused));
    let text = text.replace("[load]", "[lock]\nsubject = \"lock-core:plain\"\n[load]");
    let (run, _dir) = run(&text, 7).await;
    assert_bit(&run);
    let proof = &run.result.faults.last().expect("three").proof;
    assert!(proof.contains("no permissions"), "{proof}");
}

/// Of three masters with a replica each, n2 is copied by n5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_the_address_of_its_dead_master_where_nobody_votes() {
    let text = "name = \"address\"\n[topology]\nkind = \"masters\"\nmasters = 3\nreplicas = 1\n[lock]\nsubject = \"lock-core:redlock\"\n\
                [load]\nclients = 2\nduration = \"30s\"\nenough = 4\n[[faults]]\nat = \"300ms\"\nfault = \"kill\"\non = \"n2\"\n\
                [[faults]]\nat = \"600ms\"\nfault = \"promote\"\non = \"n2\"\n";
    let (run, _dir) = run(text, 7).await;
    let [kill, promote] = run.result.faults.as_slice() else {
        panic!("{}", told(&run));
    };
    assert!(kill.bit && promote.bit, "{}", told(&run));
    assert_eq!(promote.proof, "n5 says that it is master, and answers where n2 was");
}

/// What is late is not lost: the counter ends where the last write to arrive leaves it, and the overwritten
/// ones are counted as damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_writes_of_holders_in_order_damage_what_they_protect() {
    let text = "name = \"late\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nhold = \"5ms..10ms\"\nduration = \"2s\"\n\
                [[faults]]\nat = \"200ms\"\nfor = \"1s\"\nfault = \"late-writes\"\non = \"client 1\"\nwith = { latency = \"300ms\" }\n\
                [expect]\nbelief = \"clean\"\neffect = \"violated\"\n";
    let (run, _dir) = run(text, 7).await;
    assert_bit(&run);
    assert!(run.result.as_expected, "{}", told(&run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_load_the_locks_own_first() {
    let fault = "fault = \"migrate-slot\"\nwith = { slots = 2, to = \"n3\" }";
    let (run, _dir) = run(&once("kind = \"cluster\"", fault), 7).await;
    assert_bit(&run);
    let proof = &run.result.faults[0].proof;
    assert!(proof.starts_with("n3 owns 2 of 2 slots that were n1's"), "{proof}");
    // Clients met the move: the lock's slot was among those that moved.
    assert!(!proof.contains(" 0 ASK and 0 MOVED"), "{proof}");
}

/// By Redis' command and by Valkey's; an older server has none, and then nothing is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_in_one_piece_where_the_server_can() {
    let fault = "fault = \"migrate-atomic\"\nwith = { slots = 2, to = \"n3\" }";
    for server in ["redis-8", "valkey-9"].into_iter().filter(|name| has_server(name)) {
        let topology = format!("kind = \"cluster\"\nserver = \"{server}\"");
        let (run, _dir) = run(&once(&topology, fault), 7).await;
        assert_bit(&run);
        let proof = &run.result.faults[0].proof;
        assert!(proof.starts_with("n3 owns 2 of 2 slots that were n1's; the migration: "), "{proof}");
        assert!(!proof.contains(" 0 MOVED") && !proof.contains("nothing is known"), "{proof}");
        assert!(run.result.server.starts_with(server), "{}", run.result.server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_to_the_same_server_is_without_proof() {
    let usual = cluster_config::Server::find("redis").expect("the installed server");
    let fault = format!("fault = \"upgrade\"\nwith = {{ server = \"{}\" }}", usual.path.display());
    let (run, _dir) = run(&single(&fault.replace("fault", "on = \"n1\"\nfault")), 7).await;
    let [span] = run.result.faults.as_slice() else { panic!("{}", told(&run)) };
    let name = usual.name();
    assert_eq!((span.bit, &span.proof), (false, &format!("n1: {name} became {name}")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_keeps_what_is_on_the_disk() {
    if !has_server("redis-8") {
        return;
    }
    let topology = "kind = \"single\"\nconfig = { appendonly = \"yes\", appendfsync = \"always\" }";
    let fault = "fault = \"upgrade\"\nwith = { server = \"redis-8\" }\n[expect]\ncontract = \"clean\"";
    let (run, _dir) = run(&once(topology, fault).replace("for = \"400ms\"\n", ""), 7).await;
    assert_bit(&run);
    assert!(run.result.as_expected, "{}", told(&run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_comes_due_with_a_message_on_the_wire() {
    let text = "name = \"wire\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nduration = \"30s\"\nenough = 3\n[[faults]]\n\
                when = \"5th EVALSHA reply to client 2\"\nfor = \"100ms\"\nfault = \"pause\"\non = \"client 2\"\n";
    let (run, _dir) = run(text, 7).await;
    assert_bit(&run);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_that_never_comes_due_is_without_proof_and_leaves_the_verdicts_unknown() {
    // Nobody is granted anything while the server is stopped from the beginning, so the second fault has
    // nothing to wait for.
    let text = "name = \"never\"\n[topology]\nkind = \"single\"\n[load]\nclients = 1\nduration = \"700ms\"\n[[faults]]\nfault = \"pause\"\n\
                [[faults]]\nafter = \"first-grant\"\nfault = \"script-flush\"\n[expect]\ncontract = \"clean\"\n";
    let (run, _dir) = run(text, 7).await;
    let spans = &run.result.faults;
    assert!(spans[0].bit, "{}", told(&run));
    assert!(!spans[1].bit, "{}", told(&run));
    assert_eq!(run.result.exit_code, chaos::outcome::UNKNOWN, "{}", told(&run));
}

/// Its scripts are forgotten by the first, so the second finds none to forget.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_never_loads_its_scripts_again_feels_the_second_flush_too() {
    let text = chaos::builtin::find("script-flush").expect("a built-in scenario").text;
    let (run, _dir) = run(&text.replace("lock-core:reentrant", "broken:script-loaded-once"), 7).await;
    assert_bit(&run);
    assert!(run.result.faults[1].proof.contains(" forgot 0 scripts"), "{}", told(&run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_a_client_may_not_have_seen_is_no_proof() {
    let text = single("fault = \"clock\"\non = \"client 1\"\nwith = { jump = \"5s\" }");
    let bare = "exec env -u LD_PRELOAD DRIVER lock-core:reentrant";
    let (run, _dir) = run_by(bare, &text, 7).await;
    let fault = &run.result.faults[0];
    assert!(!fault.bit && fault.proof.contains("not in its process"), "{}", told(&run));
    let state = run.result.verdicts.contract.state;
    assert_eq!(state, results::verdict::State::Unknown, "{}", told(&run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_that_nothing_matched_says_so() {
    let text = single("fault = \"drop\"\non = \"clients -> n1\"\nwith = { match = \"NOSUCH\" }");
    let (run, _dir) = run(&text, 7).await;
    let fault = &run.result.faults[0];
    assert!(!fault.bit && fault.proof.contains("matched"), "{}", told(&run));
}

/// One run for each role: a lock of other commands than ours, which polls, is harmed in that role and in no
/// other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_known_by_what_its_client_is_doing_whatever_the_locks_commands_are() {
    let python = format!("exec python3 {}/../examples/driver.py", env!("CARGO_MANIFEST_DIR"));
    for (role, harmed) in
        [("acquire", "acquire"), ("wait", "acquire"), ("release", "release"), ("extend", "extend")]
    {
        let text = format!(
            "name = \"role\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"baseline:set-nx-px\"\nlease = \"1s\"\n\
             [load]\nclients = 2\nhold = \"30ms..60ms\"\nextend = \"20ms\"\nduration = \"30s\"\nenough = 8\n[[faults]]\nat = \"300ms\"\n\
             fault = \"drop\"\non = \"n1 -> client 1\"\nwith = {{ during = \"{role}\" }}\n"
        );
        let (run, _dir) = run_by(&python, &text, 7).await;
        assert_bit(&run);
        let proof = &run.result.faults[0].proof;
        assert!(proof.contains("in 1 pieces"), "{role}: {proof}");
        for (operation, endings) in &run.result.operations {
            let unknown = endings.get("unknown").copied().unwrap_or_default();
            assert_eq!(unknown, u64::from(operation == harmed), "{role}: {}", told(&run));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_are_known_and_their_loss_loses_the_lock() {
    let text = "name = \"renewals\"\n[topology]\nkind = \"single\"\n[lock]\nlease = \"renewed\"\nwatchdog = \"600ms\"\n[load]\n\
                clients = 1\nhold = \"2s\"\nduration = \"3s\"\n[[faults]]\nafter = \"first-grant\"\nfault = \"hold\"\n\
                on = \"client 1 -> n1\"\nwith = { during = \"renewal\" }\n";
    let (run, dir) = run(text, 7).await;
    assert!(run.result.faults[0].bit, "{}", told(&run));
    let history = std::fs::read_to_string(dir.path().join("run/history.jsonl")).expect("a history");
    assert!(history.contains("\"event\":\"lost\""), "{}", told(&run));
}

/// By a name that means nothing, and one that means another server. Clients that were cut off look it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_resolves_to_another_server_or_to_none() {
    for (to, words) in [("", "does not resolve"), ("with = { to = \"n2\" }", "resolves to n2")] {
        let fault = format!(
            "fault = \"resolve\"\non = \"n1\"\n{to}\n[[faults]]\nat = \"400ms\"\nfault = \"client-kill\"\non = \"n1\""
        );
        let text = once("kind = \"masters\"\nmasters = 3", &fault);
        let text = text.replace("[load]", "[lock]\nsubject = \"lock-core:redlock\"\n[load]");
        let (run, _dir) = run(&text, 7).await;
        assert_bit(&run);
        let proof = &run.result.faults[0].proof;
        assert!(proof.contains(words) && proof.contains("; clients looked"), "{proof}");
    }
}

/// Which part of a lock's work a message is.
mod roles_of_messages {
    use chaos::roles::Roles;
    use cluster_config::{Label, MessagePassage, MessageWords};
    use results::history::{Acquire, Call, End, Entry, Event};

    const WAIT: Label = Some("wait");

    /// Two clients at one server, a line of text each.
    #[derive(Default)]
    struct TwoClients {
        roles: Roles,
        next: u64,
    }

    impl TwoClients {
        fn calls(&mut self, call: Call) -> u64 {
            self.next += 1;
            let id = self.next;
            self.roles.follow(&Entry::Call { id, call });
            id
        }

        fn acquire(&mut self, client: &str, lock: &str, lease_ms: Option<u64>) -> u64 {
            self.calls(Call::Acquire(Acquire {
                client: client.to_owned(),
                owner: "t0".to_owned(),
                lock: Some(lock.to_owned()),
                locks: None,
                kind: "plain".to_owned(),
                lease_ms,
                wait_ms: None,
                permits: None,
            }))
        }

        fn grants(&mut self, id: u64, grant: &str) {
            let end = End::Ok {
                grant: Some(grant.to_owned()),
                token: None,
                sent_ns: None,
                returned_ns: None,
                lease_ms: None,
                at: None,
            };
            self.roles.follow(&Entry::End { id, end });
        }

        fn ends(&mut self, id: u64) {
            self.roles.follow(&Entry::End { id, end: End::Busy });
        }

        fn release(&mut self, grant: &str) -> u64 {
            let grant = grant.to_owned();
            self.calls(Call::Release { grant })
        }

        fn labels(&mut self, client: u32, command: &str) -> (Label, Label) {
            self.roles.command(passage(client), &words(command))
        }

        fn says(&mut self, client: u32, command: &str) -> Label {
            self.labels(client, command).0
        }

        /// An acquire and a release of a lock in which nobody else is interested.
        fn teaches(&mut self, client: u32, lock: &str) {
            let name = format!("c{client}");
            let id = self.acquire(&name, lock, Some(1_000));
            assert_eq!(self.says(client, &format!("TAKE {lock} v")), Some("acquire"));
            self.grants(id, "taught");
            let id = self.release("taught");
            assert_eq!(self.says(client, &format!("GIVE {lock}")), Some("release"));
            self.ends(id);
        }
    }

    fn passage(client: u32) -> MessagePassage<'static> {
        MessagePassage { connection: u64::from(client), client, node: "n1" }
    }

    fn words(text: &str) -> MessageWords {
        let mut words = MessageWords::default();
        text.split_whitespace().for_each(|word| words.push(word.as_bytes()));
        words
    }

    #[test]
    fn a_command_that_names_a_lock_belongs_to_the_only_operation_in_flight() {
        let mut talk = TwoClients::default();
        assert_eq!(talk.says(1, "GET orders-1"), None, "nothing is in flight");
        let id = talk.acquire("c1", "orders-1", Some(1_000));
        for other in ["PING", "GET orders-12", "GET other", "orders-1 x"] {
            assert_eq!(talk.says(1, other), None, "{other}");
        }
        assert_eq!(talk.says(2, "GET orders-1"), None, "of another client");
        assert_eq!(talk.says(1, "INCR {orders-1}:token"), Some("acquire"));
        assert_eq!(talk.says(1, "WAIT 1 0"), Some("acquire"));
        talk.grants(id, "g1");
        assert_eq!(talk.says(1, "GET orders-1"), None, "a lease that is fixed");
        let grant = "g1".to_owned();
        talk.calls(Call::Extend { grant, lease_ms: 1, by: None });
        assert_eq!(talk.says(1, "PEXPIRE orders-1 1"), Some("extend"));
        assert_eq!(talk.roles.unclear(), 0);
    }

    #[test]
    fn a_second_try_is_a_wait_and_the_steps_of_a_first_one_are_not() {
        let mut talk = TwoClients::default();
        let id = talk.acquire("c1", "a", Some(1_000));
        assert_eq!(talk.says(1, "INCR a:token"), Some("acquire"));
        assert_eq!(talk.labels(1, "SET a x1 NX"), (Some("acquire"), Some("acquire")));
        assert_eq!(talk.labels(1, "SET a x2 NX"), (WAIT, WAIT));
        assert_eq!(talk.says(1, "BLPOP a:signal 1"), WAIT);
        talk.ends(id);
        talk.acquire("c1", "a", Some(1_000));
        assert_eq!(talk.says(1, "SET a x3 NX"), Some("acquire"));
        // Another owner in the same client: its first try is not the second of the one before, but its own
        // second is one.
        talk.acquire("c1", "a", Some(1_000));
        assert_eq!(talk.says(1, "SET a y NX"), Some("acquire"));
        assert_eq!(talk.says(1, "SET a y NX"), WAIT);
    }

    #[test]
    fn pushed_messages_are_what_a_waiter_is_told_where_there_are_any() {
        let mut talk = TwoClients::default();
        let id = talk.acquire("c1", "a", Some(1_000));
        talk.says(1, "SET a x NX");
        let message = words("message channel:{a} 0");
        assert_eq!(talk.labels(1, "SET a x NX"), (WAIT, WAIT));
        assert_eq!(talk.labels(1, "SUBSCRIBE channel:{a}"), (WAIT, None));
        assert_eq!(talk.labels(1, "SET a x NX"), (WAIT, None));
        assert_eq!(talk.roles.push(passage(1), &message), WAIT);
        assert_eq!(talk.roles.push(passage(2), &message), None);
        talk.ends(id);
        assert_eq!(talk.roles.push(passage(1), &message), None);
        assert_eq!(talk.says(1, "UNSUBSCRIBE channel:{a}"), None);
    }

    #[test]
    fn a_renewal_comes_from_a_holder_with_nothing_in_flight() {
        let mut talk = TwoClients::default();
        let id = talk.acquire("c1", "a", None);
        assert_eq!(talk.says(1, "SET a x NX"), Some("acquire"));
        talk.grants(id, "g1");
        assert_eq!(talk.roles.holder(), Some("c1"));
        assert_eq!(talk.says(1, "EVALSHA f00 1 a x"), Some("renewal"));
        talk.release("g1");
        assert_eq!(talk.says(1, "EVALSHA bad 1 a x"), Some("release"));
        let id = talk.acquire("c2", "a", None);
        talk.grants(id, "g2");
        let grant = "g2".to_owned();
        talk.roles.follow(&Entry::Event(Event::Lost { grant, reason: None, at_ns: None }));
        assert_eq!(talk.says(2, "EVALSHA f00 1 a x"), None, "it is lost");
        assert_eq!(talk.roles.holder(), None);
    }

    #[test]
    fn what_is_unclear_has_no_role_until_its_shape_was_learned() {
        let mut talk = TwoClients::default();
        let id = talk.acquire("c1", "a", Some(1_000));
        talk.grants(id, "g1");
        talk.release("g1");
        talk.acquire("c1", "a", Some(1_000));
        assert_eq!(talk.says(1, "TAKE a v"), None);
        assert_eq!(talk.says(1, "GIVE a"), None);
        assert_eq!(talk.roles.unclear(), 2);
        // From another client and another lock.
        talk.teaches(2, "b");
        assert_eq!(talk.says(1, "TAKE a w"), Some("acquire"));
        assert_eq!(talk.says(1, "GIVE a"), Some("release"));
        assert_eq!(talk.says(1, "GIVE a twice"), None, "of another shape");
        assert_eq!(talk.roles.unclear(), 3);
    }

    /// Another task of the client asks for the lock all the time, so that no release is ever clear.
    #[test]
    fn what_is_never_clear_is_known_by_exclusion() {
        let mut talk = TwoClients::default();
        for n in 0..10 {
            let id = talk.acquire("c1", "a", Some(1_000));
            assert_eq!(talk.says(1, &format!("TAKE a {n}")), Some("acquire"));
            talk.ends(id);
        }
        talk.acquire("c1", "a", Some(1_000));
        let mut given = Vec::new();
        for n in 0..4 {
            let id = talk.acquire("c1", "a", Some(1_000));
            let grant = format!("g{n}");
            talk.grants(id, &grant);
            let id = talk.release(&grant);
            assert_ne!(talk.says(1, &format!("TAKE a x{n}")), None);
            given.push(talk.says(1, "GIVE a"));
            talk.ends(id);
        }
        assert_eq!(given, [None, None, Some("release"), Some("release")]);
        assert_eq!(talk.roles.unclear(), 2);
    }

    #[test]
    fn a_shape_that_was_two_things_decides_nothing() {
        let mut talk = TwoClients::default();
        for n in 0..3 {
            let id = talk.acquire("c1", "a", Some(1_000));
            assert_eq!(talk.says(1, "CALL a"), Some("acquire"));
            talk.grants(id, &format!("g{n}"));
            let id = talk.release(&format!("g{n}"));
            assert_eq!(talk.says(1, "CALL a"), Some("release"));
            talk.ends(id);
        }
        let id = talk.acquire("c1", "a", Some(1_000));
        talk.grants(id, "g");
        talk.release("g");
        talk.acquire("c1", "a", Some(1_000));
        assert_eq!(talk.says(1, "CALL a"), None);
    }
}

/// What a process sees that was started with the shim.
mod preloaded_shim {
    use std::fs;
    use std::process::Command;
    use std::time::Duration;

    use chaos::shim::{PowerCutLoss, Shims, Skew};
    use cluster_config::children;

    fn shims() -> Shims {
        Shims::new(["n1".to_owned()]).expect("files in memory")
    }

    /// `date` reads the wall clock by `clock_gettime`.
    fn year(shims: &Shims) -> i32 {
        let output =
            Command::new("date").args(["-u", "+%Y"]).envs(shims.env("n1")).output().expect("coreutils");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a year")
    }

    #[test]
    fn a_skewed_process_sees_another_time_until_it_is_healed() {
        let shims = shims();
        let page = shims.page("n1").expect("a page");
        let now = year(&shims);
        assert_eq!(page.attached().expect("readable"), 1);
        let ten_years_ns = 10 * 366 * 86_400 * 1_000_000_000;
        for offset_ns in [ten_years_ns, -ten_years_ns] {
            let skew = Skew { offset_ns, ..Skew::default() };
            page.set_skew(skew).expect("writable");
            let difference = year(&shims) - now;
            assert!((9..=11).contains(&(difference * offset_ns.signum() as i32)));
        }
        assert!(page.skewed_reads().expect("readable") > 0);
        page.set_skew(Skew::default()).expect("writable");
        assert!((0..=1).contains(&(year(&shims) - now)));
    }

    #[test]
    fn a_process_without_the_shim_below_one_with_it_is_found() {
        let shims = shims();
        let page = shims.page("n1").expect("a page");
        // A shell with it, whose child has it, or has not.
        for (without, has) in [("", true), ("env -u LD_PRELOAD ", false)] {
            let mut shell = Command::new("sh")
                .args(["-c", &format!("{without}cat; true")])
                .envs(shims.env("n1"))
                .stdin(std::process::Stdio::piped())
                .spawn()
                .expect("a shell");
            let child = || children(shell.id()).first().copied();
            let runs_cat = || {
                let name = fs::read_to_string(format!("/proc/{}/comm", child()?)).ok()?;
                (name.trim() == "cat").then_some(())
            };
            while runs_cat().is_none() {
                std::thread::yield_now();
            }
            // A library is loaded a moment after the name is there.
            let until = std::time::Instant::now() + Duration::from_secs(5);
            while page.is_with(shell.id()) != has && std::time::Instant::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(page.is_with(shell.id()), has);
            drop(shell.stdin.take());
            shell.wait().expect("the shell ends");
        }
    }

    #[test]
    fn what_was_not_synced_is_cut_and_what_was_is_kept() {
        let shims = shims();
        let page = shims.page("n1").expect("a page");
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("older"), "was here before").expect("written");
        // dd opens with O_CREAT and O_TRUNC, and syncs at the end where asked to.
        let dd = |name: &str, sync: bool| {
            let mut command = Command::new("dd");
            command
                .args(["if=/dev/zero", "bs=10", "count=3", "status=none"])
                .arg(format!("of={}", dir.path().join(name).display()))
                .envs(shims.env("n1"));
            if sync {
                command.arg("conv=fsync");
            }
            assert!(command.status().expect("coreutils").success());
        };
        dd("loose", false);
        dd("synced", true);
        page.set_sync_delay(Duration::from_millis(1)).expect("writable");
        dd("late", true);
        assert_eq!(page.late_syncs().expect("readable"), 1);

        let cut = page.cut_power(dir.path()).expect("cut");
        assert_eq!(cut, PowerCutLoss { files: 1, bytes: 30 });
        let length = |name: &str| fs::metadata(dir.path().join(name)).expect("there").len();
        assert_eq!([length("older"), length("loose"), length("synced"), length("late")], [15, 0, 30, 30]);
    }

    #[test]
    fn a_party_without_a_page_preloads_nothing() {
        assert!(shims().env("n2").is_empty());
    }
}

/// The table of faults.
mod registry {
    use chaos::faults::{FAULTS, names};

    #[test]
    fn names_are_told_apart() {
        let names: std::collections::BTreeSet<_> = names().into_iter().collect();
        assert_eq!(names.len(), FAULTS.len());
    }

    #[test]
    fn faults_of_any_system_need_no_command() {
        let mut any = FAULTS.iter().filter(|fault| fault.any_system);
        assert!(any.all(|fault| !fault.by_command));
    }
}
