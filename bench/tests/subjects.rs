//! Subjects by name, where they may be used, what they say of a target, and that each flaw is there.

mod support;

use std::{
    future::poll_fn,
    path::Path,
    time::{Duration, Instant},
};

use bench::{
    driver::BenchPlan,
    subject::{
        AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, ReleaseEnd, SubjectError, counted_durability,
    },
    subjects,
};
use cluster_config::{Topology, TopologyKind};
use support::{PATIENCE, ask, held, lab, lab_of, to, until};

const LONG: Option<Duration> = Some(Duration::from_secs(20));
const SHORT: Option<Duration> = Some(Duration::from_millis(60));

#[test]
fn a_misspelt_subject_is_told_the_nearest() {
    for (given, meant) in [
        ("baseline:set-nx-pz", "baseline:set-nx-px"),
        ("reentrant", "lock-core:reentrant"),
        ("lock-core:rentrant", "lock-core:reentrant"),
        ("broken:stael", "broken:steal"),
    ] {
        let error = subjects::find(given).err().unwrap();
        assert!(error.to_string().contains(&format!("did you mean `{meant}`")), "{given}: {error}");
    }
}

#[test]
fn subjects_are_split_at_commas_but_drivers_are_not() {
    let given = [
        "lock-core:reentrant,baseline:set-nx-px".to_owned(),
        "exec:driver --kinds a,b,lock-core:plain,exec:other".to_owned(),
    ];
    assert_eq!(
        subjects::by_comma(&given),
        [
            "lock-core:reentrant",
            "baseline:set-nx-px",
            "exec:driver --kinds a,b",
            "lock-core:plain",
            "exec:other"
        ]
    );
}

#[test]
fn clients_take_turns_and_kinds_are_common() {
    let turns = ["c1", "c2", "c3", "c4", "nobody"].map(|client| subjects::turn(client, 3));
    assert_eq!(turns, [0, 1, 2, 0, 0]);
    let mixed = subjects::find("lock-core:fair + peer:redisson").expect("two");
    assert_eq!(mixed.kinds().first().map(String::as_str), Some("fair"));
    assert_eq!(mixed.parts().len(), 2);
    for wrong in ["lock-core:redlock + lock-core:plain", "lock-core:fair + nobody"] {
        assert!(subjects::find(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn replicas_are_counted_unless_the_url_says_how_many_there_are() {
    let counted = |target| counted_durability("wait:all", target, 2);
    assert_eq!(counted("redis-sentinel://a:1/m"), "wait:2");
    assert_eq!(counted("redis-sentinel://a:1/m?tls-ca=x&replicas=3"), "wait:all");
    // A password, and a setting whose name ends alike, say nothing of them.
    assert_eq!(counted("redis-sentinel://:replicas=3@a:1/m"), "wait:2");
    assert_eq!(counted("redis-sentinel://a:1/m?min-replicas=3"), "wait:2");
}

#[test]
fn every_subject_is_found_by_its_name_and_explains_itself() {
    let all = subjects::all();
    for subject in &all {
        assert_eq!(subjects::find(subject.name()).unwrap().name(), subject.name());
        assert!(
            !subject.about().is_empty() && (subject.program().is_some() || !subject.kinds().is_empty()),
            "{}",
            subject.name()
        );
    }
    for kind in lock_core::Kind::ALL {
        subjects::find(&format!("lock-core:{}", kind.name())).unwrap();
    }
    subjects::find("lock-core:multi").unwrap();
}

#[test]
fn each_peer_has_a_folder_with_its_build_and_its_start() {
    let all = subjects::all();
    let mut peers = all.iter().filter_map(|subject| subject.name().strip_prefix("peer:")).peekable();
    assert!(peers.peek().is_some());
    for peer in peers {
        for file in ["build.sh", "run"] {
            let path = format!("{}/../drivers/peers/{peer}/{file}", env!("CARGO_MANIFEST_DIR"));
            assert!(Path::new(&path).is_file(), "{path}");
        }
    }
}

#[tokio::test]
async fn no_part_of_a_password_is_said() {
    let subject = subjects::find("baseline:set-nx-px").unwrap();
    for url in [
        "redis://bob:s3cr/et@h",
        "redis://bob:s3cret@h:x",
        "redis-sentinel://bob:s3cret@h",
        "bob:s3cret@h",
        "s3cret@redis://h",
        "redis-cluster://bob:s3 cret@h/1",
    ] {
        let plan = BenchPlan::new(url);
        let to = ConnectTo::new(url, "c1", 1, "");
        let error = subject.connect(&to).await.err().expect(url).to_string();
        assert!(error.contains("the target's URL"), "{error}");
        let mut shown = vec![error];
        // What is no URL of servers may be any other word.
        if url.starts_with("redis") {
            shown.extend([format!("{plan:?}"), format!("{to:#?}")]);
        }
        for shown in shown {
            assert!(!shown.contains("s3") && !shown.contains("cret"), "{shown}");
        }
    }
}

/// A caller that keeps its hold itself and one that goes by the names of grants keep each other out.
#[tokio::test]
async fn a_caller_keeps_its_hold_itself() {
    let lab = lab_of(TopologyKind::Single).await;
    let subject = subjects::find("lock-core:reentrant").unwrap();
    let connected = subject.connect(&to(lab.url())).await.unwrap();
    let client = connected.client;
    assert!(client.caller(&[""]).is_none(), "events go by the names of grants");
    drop(connected.events);
    assert!(client.caller(&["", "semaphore"]).is_none());
    let mut caller = client.caller(&["", "fenced"]).unwrap();
    for lock in ["a", "a", "b"] {
        let called = Instant::now();
        caller.begin_acquire(ask(lock, "t0", PATIENCE, LONG)).unwrap();
        let granted = poll_fn(|context| caller.poll_acquire(context)).await;
        assert_eq!(granted, Ok(None));
        // Between two clocks there is a rounding.
        assert!(caller.sent_at().unwrap() + Duration::from_millis(1) >= called);
        let short = ask(lock, "t1", Duration::from_millis(60), LONG);
        assert_eq!(client.acquire(short).await, AcquireEnd::Busy);
        caller.begin_release();
        let given = poll_fn(|context| caller.poll_release(context)).await;
        assert_eq!(given, ReleaseEnd::Ok);
        let grant = held(&*client, ask(lock, "t1", PATIENCE, LONG)).await;
        caller.begin_acquire(short).unwrap();
        let refused = poll_fn(|context| caller.poll_acquire(context)).await;
        assert_eq!(refused, Err(AcquireEnd::Busy));
        assert_eq!(client.release(&grant).await, ReleaseEnd::Ok);
    }
}

/// A hold of an election is a term of leading, and its token the term.
#[tokio::test]
async fn an_elections_term_is_a_token() {
    let lab = lab_of(TopologyKind::Single).await;
    let subject = subjects::find("lock-core:election").unwrap();
    assert_eq!(subject.kinds()[0], "queued");
    let ours = subject.connect(&to(lab.url())).await.unwrap().client;
    let mut connected = subject.connect(&to(lab.url())).await.unwrap();
    let theirs = connected.client;
    let look = lock_core::connect(&lab.url()).await.unwrap();
    let election = look.election("a").unwrap();
    let mut last = 0;
    for client in [&ours, &theirs] {
        let AcquireEnd::Ok { grant, token, .. } = client.acquire(ask("a", "t0", PATIENCE, LONG)).await else {
            panic!("nobody leads");
        };
        let leader = election.leader().await.unwrap().expect("somebody leads");
        assert!(token == Some(leader.term) && leader.term > last, "{token:?} {leader:?}");
        assert_eq!(client.extend(&grant, PATIENCE).await, ReleaseEnd::Ok);
        assert_eq!(client.release(&grant).await, ReleaseEnd::Ok);
        last = leader.term;
    }
    let grant = held(&*theirs, ask("a", "t0", PATIENCE, None)).await;
    assert_eq!(ours.acquire(ask("a", "t0", Duration::ZERO, LONG)).await, AcquireEnd::Busy);
    // Leading that ends without a resignation is said.
    lab.command("n1", &["DEL", "a"]).await.unwrap();
    loop {
        let event = tokio::time::timeout(PATIENCE, connected.events.recv()).await.expect("it is told");
        if let ClientEvent::Lost { grant: lost, .. } = event.expect("it is connected") {
            assert_eq!(lost, grant);
            break;
        }
    }
}

/// Several locks in one request are held together, and either of them by itself excludes them all.
#[tokio::test]
async fn several_locks_are_held_as_one() {
    let lab = lab_of(TopologyKind::Single).await;
    let subject = subjects::find("lock-core:multi").unwrap();
    let (ours, theirs) = (
        subject.connect(&to(lab.url())).await.unwrap().client,
        subject.connect(&to(lab.url())).await.unwrap().client,
    );
    let mut both = ask("b", "t0", Duration::from_secs(20), LONG);
    both.others = &["a"];
    both.kind = "multi";
    let mut one = ask("a", "t0", Duration::ZERO, LONG);
    one.kind = "reentrant";
    let grant = held(&*ours, both).await;
    assert_eq!(ours.held(&grant).await, Some(true));
    assert_eq!(theirs.acquire(one).await, AcquireEnd::Busy);
    assert_eq!(ours.extend(&grant, Duration::from_secs(30)).await, ReleaseEnd::Ok);
    assert_eq!(ours.release(&grant).await, ReleaseEnd::Ok);
    let single = held(&*theirs, one).await;
    both.wait = Some(Duration::ZERO);
    assert_eq!(ours.acquire(both).await, AcquireEnd::Busy);
    assert_eq!(theirs.release(&single).await, ReleaseEnd::Ok);
    // A kind of one lock does not take two.
    both.kind = "reentrant";
    let refused = ours.acquire(both).await;
    assert!(matches!(refused, AcquireEnd::Failed(_)), "{refused:?}");
}

/// The two sides of a read-write lock under one subject: shared, alone, and downgraded by the same owner.
#[tokio::test]
async fn both_sides_of_a_read_write_lock_are_asked_for_by_kind() {
    let lab = lab_of(TopologyKind::Single).await;
    let subject = subjects::find("lock-core:write").unwrap();
    let (ours, theirs) = (
        subject.connect(&to(lab.url())).await.unwrap().client,
        subject.connect(&to(lab.url())).await.unwrap().client,
    );
    let of = |kind: &'static str| AcquireRequest { kind, ..ask("n", "t0", Duration::ZERO, LONG) };
    let writing = held(&*ours, of("write")).await;
    assert_eq!(theirs.acquire(of("read")).await, AcquireEnd::Busy);
    let reading = held(&*ours, of("read")).await;
    assert_eq!(ours.release(&writing).await, ReleaseEnd::Ok);
    let other = held(&*theirs, of("read")).await;
    let refused = theirs.acquire(of("write")).await;
    assert!(matches!(refused, AcquireEnd::Failed(_)), "{refused:?}");
    assert_eq!(ours.release(&reading).await, ReleaseEnd::Ok);
    assert_eq!(theirs.release(&other).await, ReleaseEnd::Ok);
}

#[tokio::test]
async fn a_subject_refuses_targets_that_are_not_for_it() {
    for (subject, target) in [
        ("lock-core:redlock", "redis://127.0.0.1:1"),
        ("lock-core:reentrant", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"),
        ("baseline:set-nx-px", "redlock://127.0.0.1:1,127.0.0.1:2"),
        ("broken:quorum-half", "redis://127.0.0.1:1"),
    ] {
        let connected = subjects::find(subject).unwrap().connect(&to(target)).await;
        let error = connected.err().unwrap_or_else(|| panic!("{subject} took {target}"));
        assert!(
            matches!(error, SubjectError::Usage(_) | SubjectError::NotApplicable(_))
                && error.to_string().contains("redlock"),
            "{subject}: {error}"
        );
    }
}

#[tokio::test]
async fn naive_locks_follow_sentinels_and_slots() {
    for kind in [TopologyKind::Sentinel, TopologyKind::Cluster] {
        let lab = lab_of(kind).await;
        let subject = subjects::find("baseline:set-nx-px").unwrap();
        let client = subject.connect(&to(lab.url())).await.unwrap().client;
        // Enough names for every shard.
        for i in 0..24 {
            let name = format!("orders-{i}");
            let grant = held(client.as_ref(), ask(&name, "t0", Duration::ZERO, LONG)).await;
            let second = client.acquire(ask(&name, "t1", Duration::ZERO, LONG)).await;
            assert_eq!(second, AcquireEnd::Busy, "{name}");
            assert_eq!(client.release(&grant).await, ReleaseEnd::Ok, "{name}");
        }
        let stats = bench::server_stats::ServerWatch::find(&lab.url()).await.unwrap();
        assert_eq!(stats.versions().await.len() as u32, lab.topology().data_nodes());
        assert!(stats.counts().await.unwrap().calls > Some(0));
    }
}

/// A holder whose lease ran out releases: with the owner check the other's lock stays, without it a third one
/// gets in.
#[tokio::test]
async fn a_release_without_owner_check_frees_the_other_holder() {
    let lab = lab_of(TopologyKind::Single).await;
    for (name, freed) in [("baseline:set-nx-px", false), ("broken:release-without-owner-check", true)] {
        let subject = subjects::find(name).unwrap();
        let a = subject.connect(&to(lab.url())).await.unwrap().client;
        let b = subject.connect(&to(lab.url())).await.unwrap().client;
        let late = held(a.as_ref(), ask(name, "t0", Duration::ZERO, SHORT)).await;
        held(b.as_ref(), ask(name, "t0", Duration::from_secs(10), LONG)).await;
        let release = a.release(&late).await;
        assert_eq!(release == ReleaseEnd::Ok, freed, "{name}: {release:?}");
        let third = a.acquire(ask(name, "t1", Duration::ZERO, LONG)).await;
        assert_eq!(matches!(third, AcquireEnd::Ok { .. }), freed, "{name}: {third:?}");
    }
}

/// The same for extend: without the check a late holder takes the other's key for its own.
#[tokio::test]
async fn an_extend_without_owner_check_succeeds_on_the_others_lock() {
    let lab = lab_of(TopologyKind::Single).await;
    for (name, fooled) in [("baseline:set-nx-px", false), ("broken:renew-without-owner-check", true)] {
        let subject = subjects::find(name).unwrap();
        let client = subject.connect(&to(lab.url())).await.unwrap().client;
        let late = held(client.as_ref(), ask(name, "t0", Duration::ZERO, SHORT)).await;
        held(client.as_ref(), ask(name, "t1", Duration::from_secs(10), LONG)).await;
        let extend = client.extend(&late, Duration::from_secs(20)).await;
        assert_eq!(extend == ReleaseEnd::Ok, fooled, "{name}: {extend:?}");
    }
}

/// Two steps leave a key without an end while the second one is missing.
#[tokio::test]
async fn a_lock_in_two_steps_is_eternal_in_between() {
    let lab = lab_of(TopologyKind::Single).await;
    let subject = subjects::find("broken:setnx-expire").unwrap();
    let client = subject.connect(&to(lab.url())).await.unwrap().client;
    let ttl = async || lab.command("n1", &["PTTL", "k"]).await.unwrap();
    let mut seen = false;
    for _ in 0..200 {
        let watch = until("no end, or an end", async || {
            let ttl = ttl().await;
            seen |= ttl.trim() == "-1";
            seen || !matches!(ttl.trim(), "-2" | "-1")
        });
        let (grant, ()) = tokio::join!(held(client.as_ref(), ask("k", "t0", Duration::ZERO, LONG)), watch);
        client.release(&grant).await;
        if seen {
            return;
        }
    }
    panic!("the key had an end whenever it was looked at");
}

#[tokio::test]
async fn half_a_quorum_is_held_by_two_clients() {
    let mut topology = Topology::of(TopologyKind::Masters);
    topology.masters = 4;
    let lab = lab(topology).await;
    let subject = subjects::find("broken:quorum-half").unwrap();
    let a = subject.connect(&to(lab.url())).await.unwrap().client;
    let b = subject.connect(&to(lab.url())).await.unwrap().client;
    held(a.as_ref(), ask("k", "t0", Duration::ZERO, LONG)).await;
    // As if the two had asked the servers in opposite order: two of the four servers answered the other one
    // first.
    for node in ["n3", "n4"] {
        lab.command(node, &["DEL", "k"]).await.unwrap();
    }
    held(b.as_ref(), ask("k", "t0", Duration::ZERO, LONG)).await;
}

/// As many are inside as the requests say that there are permits, also by two clients; one that is given back
/// lets the next in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_let_as_many_in_as_there_are() {
    let lab = lab_of(TopologyKind::Single).await;
    for name in ["lock-core:semaphore", "lock-core:permits"] {
        let subject = subjects::find(name).unwrap();
        let a = subject.connect(&to(lab.url())).await.unwrap().client;
        let b = subject.connect(&to(lab.url())).await.unwrap().client;
        let one_of_two = |wait| {
            let mut request = ask(name, "t0", wait, LONG);
            request.permits = Some(2);
            request
        };
        let first = held(a.as_ref(), one_of_two(Duration::ZERO)).await;
        held(b.as_ref(), one_of_two(Duration::ZERO)).await;
        let third = b.acquire(one_of_two(Duration::ZERO)).await;
        assert_eq!(third, AcquireEnd::Busy, "{name}");
        let extended = a.extend(&first, Duration::from_secs(30)).await;
        let has_lease = name == "lock-core:permits";
        assert_eq!(extended == ReleaseEnd::Ok, has_lease, "{name}: {extended:?}");
        assert_eq!(a.held(&first).await, Some(true));
        assert_eq!(a.release(&first).await, ReleaseEnd::Ok, "{name}");
        held(b.as_ref(), one_of_two(Duration::from_secs(10))).await;
    }
}

/// Whatever its way of waiting, a baseline lets one in at a time and everybody in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_baseline_excludes_and_serves_all() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    let lab = lab_of(TopologyKind::Single).await;
    let all = subjects::all();
    let ours = |name: &str| name.starts_with("baseline:");
    for subject in all.iter().filter(|subject| ours(subject.name())) {
        let name = subject.name().to_owned();
        let inside = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for task in 0..4 {
            let connected = subject.connect(&to(lab.url())).await.unwrap();
            let (inside, name) = (inside.clone(), name.clone());
            tasks.push(tokio::spawn(async move {
                let client = connected.client;
                for _ in 0..3 {
                    let owner = format!("t{task}");
                    let grant = held(client.as_ref(), ask(&name, &owner, support::PATIENCE, LONG)).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{name}");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(client.release(&grant).await, ReleaseEnd::Ok, "{name}");
                    let again = client.release(&grant).await;
                    assert!(matches!(again, ReleaseEnd::Failed(_)), "{name}: {again:?}");
                }
            }));
        }
        for task in tasks {
            tokio::time::timeout(support::PATIENCE * 2, task).await.expect(&name).expect(&name);
        }
    }
}

/// Between the look and the transaction somebody else may be faster; the server itself keeps the line of
/// those who wait for a token.
#[tokio::test]
async fn a_try_of_each_baseline_says_busy_within_its_bound() {
    let lab = lab_of(TopologyKind::Single).await;
    for name in ["baseline:watch-multi", "baseline:blpop", "baseline:raw-scripts", "baseline:poll-100ms"] {
        let subject = subjects::find(name).unwrap();
        let a = subject.connect(&to(lab.url())).await.unwrap().client;
        let b = subject.connect(&to(lab.url())).await.unwrap().client;
        let grant = held(a.as_ref(), ask(name, "t0", Duration::ZERO, LONG)).await;
        for wait in [Duration::ZERO, Duration::from_millis(150)] {
            let busy = b.acquire(ask(name, "t0", wait, LONG)).await;
            assert_eq!(busy, AcquireEnd::Busy, "{name} {wait:?}");
        }
        assert_eq!(a.release(&grant).await, ReleaseEnd::Ok, "{name}");
        held(b.as_ref(), ask(name, "t0", Duration::ZERO, LONG)).await;
    }
}
