//! A driver program for the tests: `serve SUBJECT` keeps to the protocol, the other modes break it in one way
//! each.

use std::{
    io::{BufRead, Write},
    process::ExitCode,
};

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    if mode == "serve" {
        let subject = bench::subjects::find(&args.next().unwrap_or_default())?;
        let runtime = tokio::runtime::Runtime::new()?;
        let served = bench::serve::serve(subject, tokio::io::stdin(), tokio::io::stdout());
        runtime.block_on(served)?;
        // The reading of standard input blocks a thread that nothing can wake.
        runtime.shutdown_background();
        return Ok(ExitCode::SUCCESS);
    }
    misbehave(&mode)
}

fn misbehave(mode: &str) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| -> std::io::Result<()> {
        writeln!(out, "{line}")?;
        out.flush()
    };
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let request: Value = serde_json::from_str(&line)?;
        let id = &request["id"];
        match (request["op"].as_str().unwrap_or_default(), mode) {
            ("hello", "echo") => say(line)?,
            ("hello", "old") => {
                say(json!({"id": id, "ok": {"protocol": 7, "kinds": ["plain"]}}).to_string())?
            }
            ("hello", "no-kinds") => say(json!({"id": id, "ok": {"protocol": 1}}).to_string())?,
            ("hello", "open-busy") => {
                say(json!({"id": id, "ok": {"protocol": 1, "kinds": ["plain"], "features": ["open_busy"]}})
                    .to_string())?
            }
            ("hello", _) => {
                say(json!({"id": id, "ok": {"protocol": 1, "kinds": ["plain"], "watchdog_ms": 1234}})
                    .to_string())?
            }
            ("acquire", "exits") => {
                writeln!(std::io::stderr(), "about to give up for a reason of its own")?;
                return Ok(ExitCode::from(3));
            }
            ("acquire", "garbage") => say("panic: nil map".into())?,
            ("acquire", "twice") => {
                say(json!({"id": id, "busy": {}}).to_string())?;
                say(json!({"id": id, "busy": {}}).to_string())?;
            }
            ("acquire", "huge-token") => {
                say(json!({"id": id, "ok": {"grant": "g1", "token": 1_u64 << 63}}).to_string())?
            }
            ("acquire", "ending") => say(json!({"id": id, "perhaps": {}}).to_string())?,
            ("acquire", "silent") => {}
            ("acquire", "slow") => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                say(json!({"id": id, "ok": {"grant": line}}).to_string())?;
            }
            ("release", "slow") => say(json!({"id": id, "ok": {}}).to_string())?,
            ("acquire", "open-busy") => say(json!({"id": id, "busy": {}}).to_string())?,
            ("acquire", "events") => {
                say(json!({"id": id, "ok": {"grant": "g1", "token": 17, "age_ms": 3_600_000}}).to_string())?;
                say(json!({"event": "extended", "grant": "g1", "lease_ms": 900, "age_ms": 5}).to_string())?;
                say(json!({"event": "later-version", "grant": "g1"}).to_string())?;
                say(json!({"event": "lost", "grant": "g1", "reason": "gone", "age_ms": 20}).to_string())?;
            }
            // The pipe takes its time: the age was right when the line was made.
            ("acquire", "slow-pipe") => {
                let sent = std::time::Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
                std::thread::sleep(std::time::Duration::from_millis(100));
                let ok = json!({"grant": "g1", "age_ms": 0, "sent_mono_ns": sent.as_nanos() as u64});
                say(json!({"id": id, "ok": ok}).to_string())?;
            }
            // A clock of its own: its stamps mean nothing here.
            ("acquire", "other-clock") => {
                say(json!({"id": id, "ok": {"grant": "g1", "age_ms": 0, "sent_mono_ns": 17}}).to_string())?;
            }
            // `bye` is not answered by a driver that will not end.
            ("bye", "stubborn") => {}
            ("bye", _) => {
                say(json!({"id": id, "ok": {}}).to_string())?;
                return Ok(ExitCode::SUCCESS);
            }
            (op, _) => say(json!({"id": id, "failed": {"error": format!("no {op} here")}}).to_string())?,
        }
    }
    if mode == "stubborn" {
        loop {
            std::thread::park();
        }
    }
    Ok(ExitCode::SUCCESS)
}
