//! What `conform` cannot see of the SDKs: which ending an author's exception has, when events are said, what
//! a loop counts. Their locks need no server.
#![allow(missing_docs)]

mod support;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use serde_json::{Value, json};
use support::skipped;

const PATIENCE: Duration = Duration::from_secs(20);

/// A driver, spoken to line by line.
struct Driver {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    id: u64,
}

impl Driver {
    /// Starts one that has not been greeted; `None`, said loudly, where its language is not on this machine.
    fn start(program: &str, args: &[&str]) -> Option<Self> {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/drivers");
        let compiler = match program {
            "java" => compiled(&JAVA_COMPILED, &dir, &["javac", "-d", CLASSES, "Scripted.java", JAVA_SDK]),
            _ if program == GO.0 => {
                compiled(&GO_COMPILED, &dir, &["go", "build", "-C", "sdk-go", "-o", GO.0, "."])
            }
            _ => Ok(()),
        };
        if let Err(compiler) = compiler {
            skipped(&format!("there is no {compiler}"));
            return None;
        }
        let mut command = Command::new(program);
        command.current_dir(dir).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.stderr(Stdio::null()).spawn() else {
            skipped(&format!("there is no {program}"));
            return None;
        };
        let (to, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| json!({"torn": line}));
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().expect("piped");
        Some(Driver { child, input, lines, id: 0 })
    }

    fn greeted(program: &str, args: &[&str]) -> Option<Self> {
        let mut driver = Driver::start(program, args)?;
        let hello = driver.hello("c1", "redis://127.0.0.1:1");
        assert_eq!(hello["ok"]["watchdog_ms"], 1500, "{hello}");
        Some(driver)
    }

    fn send(&mut self, mut request: Value) -> u64 {
        self.id += 1;
        request["id"] = json!(self.id);
        writeln!(self.input, "{request}").expect("the driver reads");
        self.id
    }

    fn line(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    /// The next line, which answers the request.
    fn ask(&mut self, request: Value) -> Value {
        let id = self.send(request);
        let line = self.line();
        assert_eq!(line["id"], id, "{line}");
        line
    }

    fn hello(&mut self, client: &str, target: &str) -> Value {
        self.ask(json!({"op": "hello", "protocol": 1, "target": target, "client": client, "options": {"watchdog_ms": 1500}}))
    }

    fn acquire(&mut self, lock: &str) -> Value {
        self.ask(json!({"op": "acquire", "lock": lock, "kind": "plain", "wait_ms": 0}))
    }

    fn release(&mut self, granted: &Value) -> Value {
        self.ask(json!({"op": "release", "grant": granted["ok"]["grant"]}))
    }

    fn load(&mut self, workload: &str, kind: &str, measure_ms: u64) -> Value {
        self.ask(json!({
            "op": "load", "workload": workload, "kind": kind, "tasks": 3, "locks": 3, "warmup_ms": 20, "measure_ms": measure_ms,
            "lease_ms": 20_000, "hold_us": 300,
        }))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

static JAVA_COMPILED: OnceLock<bool> = OnceLock::new();
static GO_COMPILED: OnceLock<bool> = OnceLock::new();

/// Compiles a driver once, however long that takes where the compiler has nothing in store; the compiler's
/// name where there is none.
fn compiled(done: &OnceLock<bool>, dir: &Path, command: &[&'static str]) -> Result<(), &'static str> {
    let there = done.get_or_init(|| {
        let compiler = Command::new(command[0]).current_dir(dir).args(&command[1..]).status();
        let status = compiler.ok();
        assert!(status.is_none_or(|status| status.success()), "{command:?} fails");
        status.is_some()
    });
    there.then_some(()).ok_or(command[0])
}

const PYTHON: (&str, &[&str]) = ("python3", &["sdk.py"]);
const ASYNCIO: (&str, &[&str]) = ("python3", &["sdk.py", "async"]);
const NODE: (&str, &[&str]) = ("node", &["sdk.mjs"]);
const GO: (&str, &[&str]) = (concat!(env!("CARGO_TARGET_TMPDIR"), "/sdk-go"), &[]);
const JAVA_SDK: &str = "../../../drivers/sdk/java/LocklabDriver.java";
const CLASSES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/sdk-java");
const JAVA: (&str, &[&str]) = ("java", &["-XX:TieredStopAtLevel=1", "-cp", CLASSES, "Scripted"]);

#[test]
fn what_an_author_throws_becomes_the_ending_that_it_is() {
    for (program, args) in [PYTHON, NODE, GO, JAVA] {
        let Some(mut driver) = Driver::greeted(program, args) else {
            continue;
        };
        // The library prints in each of these, and no line is torn.
        assert_eq!(driver.acquire("busy")["busy"], json!({}));
        assert_eq!(driver.acquire("failed")["failed"]["error"], "no");
        let odd = driver.acquire("odd");
        assert!(odd["unknown"]["error"].is_string(), "{odd}");
        let throws = driver.acquire("throws");
        let error = throws["unknown"]["error"].as_str().expect("an error");
        assert!(error.contains("a mistake"), "{throws}");

        let fenced = driver.acquire("fenced");
        assert_eq!(fenced["ok"]["token"], 17);
        assert_eq!(fenced["ok"]["lease_ms"], 900);
        assert!(fenced["ok"]["sent_mono_ns"].is_u64(), "{fenced}");
        assert!(driver.release(&fenced)["not_held"].is_object());

        // What may or may not have been released can be released again.
        let breaks = driver.acquire("breaks");
        assert_eq!(breaks["ok"]["sent_mono_ns"], Value::Null, "{breaks}");
        assert!(driver.release(&breaks)["unknown"].is_object());
        assert!(driver.release(&breaks)["ok"].is_object());
        assert!(driver.release(&breaks)["not_held"].is_object());

        let unheard = driver.ask(json!({"op": "dance"}));
        assert!(unheard["failed"].is_object(), "{unheard}");
        let kind = json!({"op": "acquire", "lock": "a", "kind": "spin", "wait_ms": 0});
        assert!(driver.ask(kind)["failed"].is_object());
    }
}

#[test]
fn a_library_that_does_not_renew_takes_no_lease_for_kinds_that_have_none() {
    for (program, args) in [PYTHON, NODE, GO, JAVA] {
        let Some(mut driver) = Driver::start(program, args) else {
            continue;
        };
        // Nothing is wished for, so that these renew nothing.
        let hello = json!({"op": "hello", "protocol": 1, "target": "redis://127.0.0.1:1", "client": "c1"});
        assert_eq!(driver.ask(hello)["ok"]["leaseless"], json!(["semaphore"]));
        assert!(driver.acquire("free")["failed"].is_object());
        let permit =
            json!({"op": "acquire", "lock": "free", "kind": "semaphore", "wait_ms": 0, "permits": 1});
        assert!(driver.ask(permit)["ok"].is_object(), "{program}");
    }
}

#[test]
fn an_event_comes_after_its_grant_and_never_after_its_release() {
    for (program, args) in [PYTHON, NODE, GO, JAVA] {
        let Some(mut driver) = Driver::greeted(program, args) else {
            continue;
        };
        for (lock, event) in [("loses", "lost"), ("renews", "extended")] {
            let granted = driver.acquire(lock);
            let said = driver.line();
            assert_eq!(said["event"], event, "{said}");
            assert_eq!(said["grant"], granted["ok"]["grant"], "{said}");
            assert!(said["at_mono_ns"].is_u64(), "{said}");
            assert!(driver.release(&granted)["ok"].is_object());
        }
        // The lock says `lost` of the one before: the next line is an answer all the same.
        assert_eq!(driver.acquire("busy")["busy"], json!({}));
    }
}

#[test]
fn a_target_is_read_and_a_server_that_is_away_is_unreachable() {
    for (program, args) in [PYTHON, NODE, GO, JAVA] {
        let Some(mut driver) = Driver::start(program, args) else {
            continue;
        };
        for (target, read) in [
            ("redis://h1", "single; h1 6379; None; None; None; false"),
            ("redis-sentinel://h1:1,h2:2/main", "sentinel; h1 1,h2 2; None; None; main; false"),
            ("rediss-cluster://bob:p%40ss@h1:1?tls-ca=%2Fca.crt", "cluster; h1 1; bob; p@ss; None; true"),
            ("redlocks://:secret@[::1]:1,h2:2", "masters; ::1 1,h2 2; None; secret; None; true"),
        ] {
            let answer = driver.hello("echo", target);
            assert_eq!(answer["failed"]["error"], read, "{program}");
        }
        let away = driver.hello("away", "redis://h1:1");
        assert_eq!(away["failed"]["unreachable"], true, "{away}");
        assert!(driver.acquire("a")["failed"].is_object());
    }
}

#[test]
fn a_call_is_given_up_as_its_language_does_it() {
    for (program, args) in [ASYNCIO, NODE, GO, JAVA] {
        let Some(mut driver) = Driver::greeted(program, args) else {
            continue;
        };
        let request = json!({"op": "acquire", "lock": "waits", "kind": "plain", "wait_ms": null});
        let waiting = driver.send(request);
        let cancel = driver.send(json!({"op": "cancel", "of": waiting}));
        let (first, second) = (driver.line(), driver.line());
        let of = |id: u64| if first["id"] == id { &first } else { &second };
        assert!(of(cancel)["ok"].is_object(), "{first} {second}");
        assert!(of(waiting)["unknown"].is_object(), "{first} {second}");
    }
    if let Some(mut driver) = Driver::greeted(PYTHON.0, PYTHON.1) {
        let cancel = driver.ask(json!({"op": "cancel", "of": 1}));
        assert!(cancel["failed"].is_object(), "{cancel}");
    }
}

#[test]
fn a_loop_counts_what_happened() {
    for (program, args) in [PYTHON, ASYNCIO, NODE, GO, JAVA] {
        let Some(mut driver) = Driver::greeted(program, args) else {
            continue;
        };
        let count = |body: &Value, field: &str| -> u64 {
            let text = body[field].as_str().expect(field);
            let pairs = results::hdr::decode_any(text).expect(field);
            pairs.iter().map(|(_, count)| count).sum()
        };
        let mut cpu_ns = 0;
        for workload in ["cycles", "contended", "chain"] {
            // The kind `queued` is one lock for the whole process, whatever the name.
            // Threads that get no processor in a short window have made no cycle in it.
            let mut window_ms = 300;
            let mut answer = driver.load(workload, "queued", window_ms);
            while answer["ok"]["cycles"] == 0 && window_ms < 20_000 {
                window_ms *= 4;
                answer = driver.load(workload, "queued", window_ms);
            }
            let body = &answer["ok"];
            let cycles = body["cycles"].as_u64().expect("cycles");
            let tasks = body["per_task"].as_array().expect("tasks");
            let of_tasks: u64 = tasks.iter().filter_map(Value::as_u64).sum();
            assert!(cycles > 0 && of_tasks == cycles, "{program} {body}");
            assert_eq!(count(body, "acquire_hist"), cycles);
            assert_eq!(count(body, "release_hist"), cycles);
            assert_eq!((&body["failed"], &body["unknown"]), (&json!(0), &json!(0)));
            assert_eq!(body["overlap"], Value::Null, "{program} {workload}");
            // Whenever its watcher woke: cycles are counted in the window that was asked for.
            assert_eq!(body["elapsed_ns"], window_ms * 1_000_000, "{body}");
            cpu_ns += body["client_cpu_ns"].as_u64().expect("a time");
            if workload == "cycles" {
                assert_eq!(body["handoff_hist"], Value::Null);
                continue;
            }
            // A cycle at either edge of the window may have its hand-off beyond it.
            let handed = count(body, "handoff_hist");
            assert!(handed.abs_diff(cycles) <= 3, "{handed} {cycles}");
            if workload == "chain" {
                assert_eq!(count(body, "handoff_other_hist"), handed);
            }
        }
        // A watcher that woke when the window was over has seen nothing of one.
        assert!(cpu_ns > 0, "{program}");
        // The kind `plain` excludes nobody here.
        let answer = driver.load("contended", "plain", 300);
        let overlap = answer["ok"]["overlap"].as_str().expect("an overlap");
        assert!(overlap.contains("at once"), "{overlap}");
    }
}
