//! Nothing that is said makes a terminal do anything: control characters of files, arguments, drivers and
//! servers are shown, not obeyed.
#![allow(missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Output;

use support::{code, run, stderr, stdout};

/// A title, a colour, C1's own CSI, a change of direction, a carriage return.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{9b}32m\u{202e}x\r\u{2066}";

/// What a terminal would obey; colours of reports are the only exception, where they were asked for.
fn obeyed(output: &Output, colored: bool) -> Vec<char> {
    let mut text = format!("{}{}", stdout(output), stderr(output));
    if colored {
        for color in ["\u{1b}[32m", "\u{1b}[33m", "\u{1b}[90m", "\u{1b}[0m"] {
            text = text.replace(color, "");
        }
    }
    let drives = |c: &char| {
        (c.is_control() && *c != '\n' && *c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(drives).collect()
}

fn silent(dir: &std::path::Path, args: &[&str]) -> Output {
    let output = run(dir, args);
    assert_eq!(obeyed(&output, false), [' '; 0], "{args:?}: {}{}", stdout(&output), stderr(&output));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    output
}

#[test]
fn names_in_a_history_are_shown_and_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let lock = serde_json::to_string(HOSTILE).unwrap();
    let acquire = |t: u64, client: &str| {
        format!(
            r#"{{"t_ns":{t},"id":{t},"client":"{client}","owner":"t","op":"acquire","lock":{lock},"kind":"plain","lease_ms":3000,"wait_ms":5}}"#
        )
    };
    let history = format!(
        "{}\n{{\"t_ns\":1,\"id\":0,\"end\":\"ok\",\"grant\":\"a\"}}\n{}\n{{\"t_ns\":3,\"id\":2,\"end\":\"ok\",\"grant\":\"b\"}}\n",
        acquire(0, "c1"),
        acquire(2, "c2")
    );
    std::fs::write(dir.path().join("h.jsonl"), history).unwrap();
    let output = silent(dir.path(), &["check", "h.jsonl", "--no-floors"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let colored = run(dir.path(), &["check", "h.jsonl", "--color", "always"]);
    assert_eq!(obeyed(&colored, true), [' '; 0]);
    // JSON says the same by numbers, and reads back as what the file has.
    let output = silent(dir.path(), &["check", "h.jsonl", "--no-floors", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(json["locks"].get(HOSTILE).is_some(), "{json}");
}

#[test]
fn arguments_and_files_are_shown_and_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let flood = "A".repeat(5_000);
    for args in [
        &[HOSTILE][..],
        &["bench", "--tasks", HOSTILE],
        &["chaos", HOSTILE],
        &["check", HOSTILE],
        &["report", HOSTILE],
        &["lock", HOSTILE, "x", "--", "true"],
        &["list", "scenarios", HOSTILE],
        &["chaos", "failover-async", "--subject", HOSTILE, "--dry-run"],
        &["conform", HOSTILE],
        &["gate", "latest", HOSTILE],
        &["chaos", &flood],
        &["bench", "--tasks", &flood],
    ] {
        let output = silent(dir, args);
        let said = stderr(&output);
        assert!(!said.contains(&flood[..300]), "a text from outside is cut: {said}");
    }
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let scenarios = [
        format!("name = {quoted}\nabout = {quoted}\n[topology]\nkind = \"single\"\n"),
        format!("name = \"x\"\n[topology]\nkind = {quoted}\n"),
        format!("name = \"{HOSTILE}\"\n"),
        format!("name = \"x\"\n\"{flood}\" = 1\n[topology]\nkind = \"single\"\n"),
    ];
    for text in scenarios {
        std::fs::write(dir.join("s.toml"), text).unwrap();
        let output = silent(dir, &["chaos", "s.toml", "--dry-run"]);
        assert!(!stderr(&output).contains(&flood[..300]), "{}", stderr(&output));
    }
}

#[test]
fn a_run_from_elsewhere_is_shown_and_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../results/published/2026-11-28-vm-2-cores-quickstart/run.json"
    );
    let text = std::fs::read_to_string(fixture).unwrap();
    let mut run: serde_json::Value = serde_json::from_str(&text).unwrap();
    for place in ["run", "command"] {
        run[place] = HOSTILE.into();
    }
    for of in ["rows", "scenarios"] {
        for part in run[of].as_array_mut().unwrap() {
            for place in ["subject", "topology", "name", "workload", "about"] {
                if part.get(place).is_some() {
                    part[place] = HOSTILE.into();
                }
            }
        }
    }
    run["warnings"] = serde_json::json!([HOSTILE, "B".repeat(5_000)]);
    run["meta"]["environment"]["host"] = HOSTILE.into();
    std::fs::create_dir_all(dir.join("runs/hostile")).unwrap();
    std::fs::write(dir.join("runs/hostile/run.json"), run.to_string()).unwrap();
    for args in [
        &["report", "hostile", "-v"][..],
        &["list", "runs"],
        &["list", "runs", "--json"],
        &["report", "hostile", "--json"],
        &["compare", "hostile", "hostile"],
        &["gate", "hostile", "p99(acquire) < 5ms"],
        &["report", "hostile", "--format", "markdown"],
    ] {
        silent(dir, args);
    }
    let colored = support::run(dir, &["report", "hostile", "--color", "always"]);
    let colored = Output { stdout: stdout(&colored).replace("\u{1b}[31m", "").into_bytes(), ..colored };
    assert_eq!(obeyed(&colored, true), [' '; 0]);
    assert!(!stdout(&colored).contains(&"B".repeat(300)));
}

/// A server that answers everything in one way.
fn server(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let (mut stream, mut line) = (stream, String::new());
                while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
                    if line.starts_with('*') && stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    url
}

#[test]
fn what_a_server_says_is_shown_and_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let one_line = HOSTILE.replace('\r', "");
    let info = format!("redis_version:{one_line}\r\nrole:master\r\n");
    for answer in
        [format!("-ERR {one_line}{}\r\n", "C".repeat(5_000)), format!("${}\r\n{info}\r\n", info.len())]
    {
        let url = server(answer);
        for args in [
            &["lock", &url, "x", "--wait", "0", "--", "true"][..],
            &["bench", "--target", &url, "--duration", "200ms", "--rounds", "1", "--warmup", "0"],
            &["doctor", &url],
            &["doctor", &url, "--json"],
            &["trace", &url],
        ] {
            let output = silent(dir, args);
            let said = format!("{}{}", stdout(&output), stderr(&output));
            let cut = args.contains(&"--json") || !said.contains(&"C".repeat(300));
            assert!(cut, "{args:?}: {said}");
        }
    }
}

#[test]
fn what_a_driver_says_is_shown_and_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let said = format!(
        "import json, sys\nw = {quoted} + '|' + 'D' * 5000 + '`<b>*'\nprint(w, file=sys.stderr, flush=True)\nfor line in sys.stdin:\n    \
         q = json.loads(line)\n    h = {{'protocol': 1, 'name': w, 'version': w, 'language': w, 'kinds': ['plain', w]}}\n    \
         print(json.dumps({{'id': q['id'], **({{'ok': h}} if q['op'] == 'hello' else {{'failed': {{'error': w}}}})}}), flush=True)\n"
    );
    std::fs::write(dir.join("talks.py"), said).unwrap();
    std::fs::write(dir.join("wrong.py"), format!("import sys\nsys.stdin.readline()\nprint({quoted})\n"))
        .unwrap();
    for driver in ["python3 talks.py", "python3 wrong.py"] {
        let output = silent(dir, &["conform", driver, "--patience", "200ms"]);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(!stdout(&output).contains(&"D".repeat(300)));
    }
}
