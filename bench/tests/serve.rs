//! Our own subjects as drivers: the protocol over a pipe, with a real server behind it.

mod support;

use std::time::Duration;

use bench::{
    driver_loop::LoadRequest,
    subject::{AcquireEnd, AcquireRequest, ClientEvent, ReleaseEnd, Subject, SubjectError},
};
use cluster_config::TopologyKind;
use serde_json::{Value, json};
use support::{PATIENCE, ask, driver, held, lab_of, to};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

const LEASE: Option<Duration> = Some(Duration::from_secs(20));

/// A driver at the other end of a pipe in memory, spoken to line by line.
struct Wire {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: tokio::task::JoinHandle<Result<(), bench::serve::ServeError>>,
}

impl Wire {
    fn of(subject: &str) -> Self {
        let subject = bench::subjects::find(subject).unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let served = tokio::spawn(bench::serve::serve(subject, input, output));
        let (from, to) = tokio::io::split(ours);
        let from = BufReader::new(from).lines();
        Wire { to, from, served }
    }

    async fn say(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.from.next_line()).await;
        serde_json::from_str(&line.expect("an answer").unwrap().expect("a line")).unwrap()
    }

    async fn call(&mut self, request: Value) -> Value {
        self.say(&request.to_string()).await;
        self.hear().await
    }
}

fn hello(target: &str) -> Value {
    json!({"id": 0, "op": "hello", "protocol": 1, "target": target, "client": "c1", "seed": 1, "options": {}, "later": true})
}

async fn conforms(subject: &str, target: &str) {
    let mut wire = Wire::of(subject);
    let early = wire.call(json!({"id": 9, "op": "acquire", "lock": "a", "kind": "plain"})).await;
    assert!(early["failed"]["error"].is_string(), "{early}");
    let ok = wire.call(hello(target)).await;
    assert_eq!(ok["ok"]["protocol"], 1, "{ok}");
    assert_eq!(ok["ok"]["name"], subject);
    let kind = ok["ok"]["kinds"][0].clone();
    let lock = format!("{subject}:lock");
    let acquire = |id: u64, owner: &str, wait_ms: u64| json!({"id": id, "op": "acquire", "lock": lock, "kind": kind, "owner": owner, "wait_ms": wait_ms, "lease_ms": 20_000});

    let first = wire.call(acquire(1, "t1", 0)).await;
    let grant = first["ok"]["grant"].clone();
    assert!(grant.is_string(), "{first}");
    assert!(first["ok"]["age_ms"].is_u64(), "{first}");
    let busy = wire.call(acquire(2, "t2", 0)).await;
    assert_eq!(busy, json!({"id": 2, "busy": {}}));
    let extended = wire.call(json!({"id": 3, "op": "extend", "grant": grant, "lease_ms": 20_000})).await;
    assert_eq!(extended, json!({"id": 3, "ok": {}}));

    // A waiter does not keep the driver from answering others.
    wire.say(&acquire(4, "t2", 15_000).to_string()).await;
    let release = json!({"id": 5, "op": "release", "grant": grant});
    wire.say(&release.to_string()).await;
    let mut answers = [wire.hear().await, wire.hear().await];
    answers.sort_by_key(|a| a["id"].as_u64());
    assert!(answers[0]["ok"]["grant"].is_string(), "the waiter has it: {answers:?}");
    assert_eq!(answers[1], json!({"id": 5, "ok": {}}));

    let again = wire.call(json!({"id": 6, "op": "release", "grant": grant})).await;
    assert!(again.get("ok").is_none(), "given back twice: {again}");
    let other = wire
        .call(json!({"id": 7, "op": "acquire", "lock": lock, "kind": "no-such-kind", "owner": "t1", "wait_ms": 0, "lease_ms": 1000}))
        .await;
    assert!(other["failed"]["error"].is_string(), "{other}");
    let unknown = wire.call(json!({"id": 8, "op": "dance"})).await;
    assert!(unknown["failed"]["error"].as_str().unwrap().contains("dance"), "{unknown}");
    let bye = wire.call(json!({"id": 10, "op": "bye"})).await;
    assert_eq!(bye, json!({"id": 10, "ok": {}}));
    wire.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn subjects_keep_to_the_protocol() {
    let lab = lab_of(TopologyKind::Single).await;
    for subject in ["baseline:set-nx-px", "baseline:setnx-expire", "lock-core:reentrant"] {
        conforms(subject, &lab.url()).await;
    }
}

#[tokio::test]
async fn one_owner_enters_again_and_releases_pair_up() {
    let lab = lab_of(TopologyKind::Single).await;
    let subject = bench::subjects::find("lock-core:reentrant").unwrap();
    let one = subject.connect(&to(lab.url())).await.unwrap().client;
    let ask_as = |owner: &'static str| ask("orders", owner, Duration::ZERO, LEASE);
    let outer = held(one.as_ref(), ask_as("t1")).await;
    let inner = held(one.as_ref(), ask_as("t1")).await;
    assert_ne!(outer, inner, "grants are told apart");
    assert_eq!(one.acquire(ask_as("t2")).await, AcquireEnd::Busy);
    assert_eq!(one.release(&inner).await, ReleaseEnd::Ok);
    assert_eq!(one.acquire(ask_as("t2")).await, AcquireEnd::Busy, "held once more");
    assert_eq!(one.release(&outer).await, ReleaseEnd::Ok);
    let last = held(one.as_ref(), ask_as("t2")).await;
    assert_eq!(one.release(&last).await, ReleaseEnd::Ok);
    // Of a caller that never comes again nobody need know who it is: each of its calls is somebody new.
    let nobody = AcquireRequest { reenters: false, ..ask_as("t1") };
    held(one.as_ref(), nobody).await;
    assert_eq!(one.acquire(nobody).await, AcquireEnd::Busy);
    one.close().await;
}

/// The call that waits is told what became of it long before its wait is over, and takes nothing afterwards.
#[tokio::test]
async fn a_caller_that_gives_up_is_answered_and_leaves_nothing() {
    let lab = lab_of(TopologyKind::Single).await;
    let one = driver("serve lock-core:reentrant").connect(&to(lab.url())).await;
    let one = one.unwrap().client;
    let ask_as = |owner| ask("cancelled", owner, PATIENCE, LEASE);
    let first = held(one.as_ref(), ask_as("t1")).await;
    let began = std::time::Instant::now();
    let given_up = AcquireRequest { cancel: Some(Duration::from_millis(50)), ..ask_as("t2") };
    let end = one.acquire(given_up).await;
    assert!(matches!(end, AcquireEnd::Unknown(_)), "{end:?}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert_eq!(one.release(&first).await, ReleaseEnd::Ok);
    // Nobody has it, for a second in which a call that goes on would have taken it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = AcquireRequest { wait: Some(Duration::ZERO), ..ask_as("t3") };
    held(one.as_ref(), next).await;
    one.close().await;
}

#[tokio::test]
async fn a_malformed_line_ends_the_driver_with_the_line() {
    let mut wire = Wire::of("baseline:set-nx-px");
    wire.say("hello there").await;
    let error = wire.served.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("hello there"), "{error}");
}

#[tokio::test]
async fn a_dead_server_is_told_apart_from_a_wrong_name() {
    let Err(error) = driver("serve baseline:set-nx-px").connect(&to("redis://127.0.0.1:1")).await else {
        panic!("connected to nothing");
    };
    assert!(matches!(error, SubjectError::Unreachable(_)), "{error}");
    let Err(error) = driver("serve baseline:set-nx-px").connect(&to("redlock://127.0.0.1:1")).await else {
        panic!("connected to nothing");
    };
    assert!(matches!(error, SubjectError::NotApplicable(_)), "{error}");
}

/// The whole way: harness, process, pipe, driver, server, and the loss of the lock back to the caller.
#[tokio::test]
async fn a_process_renews_its_lock_and_says_when_it_is_lost() {
    let lab = lab_of(TopologyKind::Single).await;
    for subject in ["baseline:set-nx-px", "lock-core:reentrant"] {
        let mut place = to(lab.url());
        place.watchdog = Some(Duration::from_millis(900));
        let program = driver(&format!("serve {subject}"));
        let mut connected = program.connect(&place).await.unwrap();
        assert_eq!(connected.client.watchdog(), place.watchdog, "{subject}");
        let lock = format!("{subject}:renewed");
        let grant = held(connected.client.as_ref(), ask(&lock, "t1", Duration::ZERO, None)).await;
        let next = tokio::time::timeout(PATIENCE, connected.events.recv()).await.unwrap();
        let Some(ClientEvent::Extended { grant: of, sent_at, .. }) = next else {
            panic!("{subject}: {next:?} instead of a renewal");
        };
        assert_eq!(of, grant);
        assert!(sent_at.is_some());
        lab.command("n1", &["DEL", &lock]).await.unwrap();
        let lost = tokio::time::timeout(PATIENCE, async {
            loop {
                match connected.events.recv().await {
                    Some(ClientEvent::Lost { grant, .. }) => return grant,
                    Some(_) => {}
                    None => panic!("{subject}: no events any more"),
                }
            }
        });
        assert_eq!(lost.await.expect("told of the loss"), grant);
        assert_eq!(connected.client.release(&grant).await, ReleaseEnd::NotHeld, "{subject}");
        connected.client.close().await;
    }
}

/// The closed loop beyond the pipe: its cycles add up, its histograms are read again, and waiters hand on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_runs_the_loop_itself() {
    let lab = lab_of(TopologyKind::Single).await;
    let connected = driver("serve lock-core:reentrant").connect(&to(lab.url())).await.unwrap();
    for (workload, locks) in [("uncontended", 3), ("uncontended", 1), ("contended", 1), ("chain", 1)] {
        let asked = LoadRequest {
            workload: workload.into(),
            kind: String::new(),
            tasks: 3,
            locks,
            warmup: Duration::from_millis(50),
            measure: Duration::from_millis(400),
            lease: LEASE,
            hold: Duration::ZERO,
            think: Duration::ZERO,
            prefix: "own:".into(),
        };
        let report = connected.client.load(&asked).await;
        let report = report.expect("offered").expect("measured");
        assert!(report.cycles > 0, "{workload}: {report:?}");
        assert_eq!(report.per_task.iter().sum::<u64>(), report.cycles);
        assert_eq!((report.failed, report.unknown), (0, 0), "{report:?}");
        assert_eq!(report.overlap, None);
        assert!(report.client_cpu_ns.unwrap() > 0);
        let count = |pairs: &[(u64, u64)]| pairs.iter().map(|(_, count)| count).sum::<u64>();
        // A cycle ends with its release, and its grant may lie before the window.
        assert_eq!(count(&report.release), report.cycles, "{workload}");
        assert!(count(&report.acquire).abs_diff(report.cycles) <= 3);
        let (all, others) = (count(&report.handoff), count(&report.handoff_other));
        assert!(others <= all && all > 0, "{workload}: {others} of {all}");
        if workload == "chain" {
            assert_eq!(all, others, "nobody meets itself");
        }
    }
    connected.client.close().await;
}

/// A lock that keeps nobody out says so of its own loop, and what cannot be run is refused with the field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_sees_overlaps_and_refuses_what_it_cannot_run() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut wire = Wire::of("broken:steal");
    wire.call(hello(&lab.url())).await;
    let load = json!({"id": 1, "op": "load", "workload": "contended", "tasks": 4, "locks": 1, "warmup_ms": 0,
        "measure_ms": 200, "lease_ms": 20_000, "hold_us": 2_000, "think_us": 0});
    let reply = wire.call(load.clone()).await;
    assert!(reply["ok"]["overlap"].is_string(), "{reply}");
    for (field, value) in [
        ("workload", json!("dance")),
        ("tasks", json!(0)),
        ("measure_ms", json!(null)),
        ("locks", json!(["a"])),
        ("kind", json!("no-such-kind")),
    ] {
        let mut wrong = load.clone();
        wrong[field] = value;
        let reply = wire.call(wrong).await;
        let error = reply["failed"]["error"].as_str().unwrap_or_default();
        assert!(error.contains(field) || error.contains("no-such-kind"), "{field}: {reply}");
    }
}
