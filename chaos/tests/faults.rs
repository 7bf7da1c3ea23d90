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
             [load]\nclients = 2\nhold = \"30ms..60ms\"\nextend = \"20ms\"\nduration = \"3s\"\n[[faults]]\nat = \"300ms\"\n\
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
