//! Replies that no server gives: every call returns all the same, by its own bound, whatever the kind of
//! lock.
#![allow(missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::{code, locklab, stderr, stdout};

/// Every kind of the library, on one server and on three.
const KINDS: [&str; 13] = [
    "plain",
    "reentrant",
    "non-reentrant",
    "spin",
    "fenced",
    "fair",
    "queued",
    "read",
    "write",
    "multi",
    "semaphore",
    "permits",
    "redlock",
];

#[test]
fn corrupted_replies_leave_no_request_of_any_kind_without_an_answer() {
    let dir = support::scratch();
    let dir = dir.path();
    for kind in KINDS {
        let (topology, on) = match kind {
            "redlock" => ("masters", "majority"),
            _ => ("single", "master"),
        };
        let text = format!(
            "name = \"corrupt-{kind}\"\n[topology]\nkind = \"{topology}\"\n[lock]\nsubject = \"lock-core:{kind}\"\nlease = \"1s\"\nwait = \"300ms\"\n\
             [load]\nclients = 2\ntasks = 10\nlocks = 5\nhold = \"0ms..1ms\"\nthink = \"0ms..1ms\"\nduration = \"2500ms\"\n\
             [[faults]]\nat = \"300ms\"\nfor = \"1s\"\nfault = \"corrupt\"\non = \"{on} -> clients\"\nwith = {{ rate = 0.05 }}\n\
             [expect]\nliveness = \"clean\"\n"
        );
        std::fs::write(dir.join(format!("corrupt-{kind}.toml")), text).unwrap();
    }
    let files = KINDS.map(|kind| format!("corrupt-{kind}.toml"));
    for seed in ["1", "2"] {
        let output = locklab(dir)
            .args(["chaos", "--json", "--jobs", "2", "--seed", seed, "--out"])
            .arg(format!("run-{seed}"))
            .args(&files)
            .output()
            .unwrap();
        let said = stdout(&output);
        assert_eq!(code(&output), 0, "{said}{}", stderr(&output));
        assert!(!said.contains("never answered"), "{said}");
    }
}

/// The words of one command.
fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<Vec<u8>>> {
    let length = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim_end().parse::<usize>().ok()
    };
    let words = length(reader)?;
    let word = |_| {
        let mut word = vec![0; length(reader)? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        Some(word.to_ascii_uppercase())
    };
    (0..words).map(word).collect()
}

/// A server that answers each script like this; it counts them.
fn answer(stream: TcpStream, script: &[u8], scripts: &AtomicU64) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(words) = command(&mut reader) {
        let reply: &[u8] = match words[0].as_slice() {
            b"EVAL" | b"EVALSHA" => {
                scripts.fetch_add(1, Ordering::Relaxed);
                script
            }
            b"PING" => b"+PONG\r\n",
            b"CONFIG" => b"*0\r\n",
            b"INFO" => b"$11\r\nrole:master\r\n",
            _ => b"+OK\r\n",
        };
        if writer.write_all(reply).is_err() {
            return;
        }
    }
}

/// How `lock` ends that waits for a second at a server with such answers, and how many scripts it asked for.
fn locked(script: &'static [u8]) -> (Option<i32>, u64) {
    let scripts = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let counted = scripts.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = counted.clone();
            std::thread::spawn(move || answer(stream, script, &counted));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let mut lock = locklab(dir.path())
        .args(["lock", &url, "n", "--wait", "1s", "--lease", "2s", "--", "true"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut ended = None;
    support::until("the lock's command returns", || {
        ended = lock.try_wait().unwrap();
        ended.is_some()
    });
    (ended.unwrap().code(), scripts.load(Ordering::Relaxed))
}

/// With a reply that nobody asked for in the same write as nil, which grants, nobody can tell which of them
/// is the answer.
#[test]
fn a_lock_whose_server_says_more_than_it_was_asked_returns_by_its_wait_and_is_not_granted() {
    let (code, _) = locked(b"$-1\r\n+x\r\n");
    assert!(matches!(code, Some(69 | 75)), "{code:?}");
}

/// Without a pause it is asked as often as a connection carries.
#[test]
fn a_server_that_forgets_each_script_is_not_asked_without_a_pause() {
    let (code, scripts) = locked(b"-NOSCRIPT No matching script.\r\n");
    assert!(matches!(code, Some(69 | 75)), "{code:?}");
    assert!(scripts < 500, "{scripts}");
}
