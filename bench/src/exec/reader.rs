//! Reads what a driver prints: answers and events, and misbehaviour, which is reported.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Deserialize as _;
use serde_json::{Number, Value};
use tokio::{process::Child, sync::oneshot};

use super::client::{Answer, DriverConnection, Op, Pending};
use super::output::{Output, TimedLine};
use super::process::ending;
use super::processes::Processes;
use crate::monotonic;
use crate::protocol::{Event, EventTime, Granted, Line};
use crate::subject::ClientEvent;

/// How long the output of an ended process is still read: a child may keep the pipe open for ever.
const DRAIN: Duration = Duration::from_millis(500);

/// Reads until the driver ends, misbehaves or `stop` is sent or dropped; then ends all of it and says so.
pub(super) async fn run(
    shared: Arc<DriverConnection>,
    (mut child, processes): (Child, Processes),
    mut output: Output,
    logged: oneshot::Receiver<()>,
    mut stop: oneshot::Receiver<()>,
) {
    let mut ended: Option<std::io::Result<std::process::ExitStatus>> = None;
    let mut drained = None;
    let misbehaved = loop {
        tokio::select! {
            biased;
            line = output.next() => match line {
                Ok(Some(line)) => {
                    if let Err(what) = handle_line(&shared, &line) {
                        break Some(what);
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            },
            _ = &mut stop => break None,
            status = child.wait(), if ended.is_none() => {
                ended = Some(status);
                drained = Some(tokio::time::Instant::now() + DRAIN);
            }
            () = tokio::time::sleep_until(drained.unwrap_or_else(tokio::time::Instant::now)),
                if drained.is_some() => break None,
        }
    };
    let how = match (misbehaved, ended) {
        (Some(what), _) => {
            let _ = child.kill().await;
            what
        }
        (None, Some(status)) => ending(status),
        (None, None) => {
            // Its output ended first; a process that closes it and goes on is ended here.
            match tokio::time::timeout(DRAIN, child.wait()).await {
                Ok(status) => ending(status),
                Err(_) => {
                    let _ = child.kill().await;
                    "closed its output and was ended".to_owned()
                }
            }
        }
    };
    processes.end().await;
    let _ = tokio::time::timeout(DRAIN, logged).await;
    let report = shared.report(&how);
    shared.fail_pending(&report);
    if !shared.closing.load(Ordering::Relaxed) {
        let _ = shared.events.send(ClientEvent::Exited { how: report });
    }
}

/// One line of output; an error says what is wrong with it.
fn handle_line(shared: &Arc<DriverConnection>, line: &TimedLine) -> Result<(), String> {
    let (at, line) = (line.at, line.text.as_str());
    let wrong = |what: &str| format!("{what}: `{}`", line.chars().take(200).collect::<String>());
    let (id, ending) = match Line::parse(line).map_err(wrong)? {
        Line::Reply(id, ending) => (id, ending),
        Line::Event(event) => {
            // An unknown event is ignored, as unknown fields are; a known one must be whole.
            if matches!(event["event"].as_str(), Some("lost" | "extended")) {
                let event = serde_json::from_value(event.into())
                    .map_err(|_| wrong("printed an event that lacks a field"))?;
                let _ = shared.events.send(client_event(event, at));
            }
            return Ok(());
        }
    };
    let Some(Pending { op, answer }) = shared.take_pending(id) else {
        return Err(wrong(if shared.was_asked(id) {
            "answered an id twice"
        } else {
            "answered an id that was never asked"
        }));
    };
    let (ending, body) = match ending {
        Some(one) if op.endings().contains(&one.0.as_str()) => one,
        _ => {
            let what =
                wrong(&format!("answered with an unknown ending (allowed: {})", op.endings().join(", ")));
            let _ = answer.send(Err(shared.report(&what)));
            return Err(what);
        }
    };
    if op == Op::Acquire
        && ending == "ok"
        && let Err(why) = granted(&body)
    {
        let what = match body.get("grant") {
            Some(Value::String(_)) => wrong(&format!("granted with a wrong field ({why})")),
            _ => wrong("granted without naming the grant"),
        };
        let _ = answer.send(Err(shared.report(&what)));
        return Err(what);
    }
    if let Err(Ok(late)) = answer.send(Ok(Answer { at, ending, body })) {
        // The caller has gone. A lock that is granted so late is released.
        if op == Op::Acquire
            && late.ending == "ok"
            && let Some(grant) = late.body.get("grant").and_then(Value::as_str)
        {
            shared.release_grant(grant);
        }
    }
    Ok(())
}

/// What was granted, which a history has room for: a run whose own history cannot be read says nothing.
fn granted(body: &Value) -> Result<(), String> {
    let granted = Granted::deserialize(body).map_err(|why| why.to_string())?;
    match granted.token {
        Some(token) if i64::try_from(token).is_err() => {
            Err(format!("token {token}; allowed: a whole number from 0 to 2^63-1"))
        }
        _ => Ok(()),
    }
}

fn client_event(event: Event, at: Instant) -> ClientEvent {
    let when = |when: EventTime| reported_at(when.at_mono_ns, when.age_ms, None, at);
    match event {
        Event::Lost { grant, reason, when: lost } => ClientEvent::Lost {
            grant,
            reason: reason.unwrap_or_else(|| "no reason given".to_owned()),
            at: when(lost).unwrap_or(at),
        },
        Event::Extended { grant, lease_ms, when: sent } => {
            ClientEvent::Extended { grant, lease: Duration::from_millis(lease_ms), sent_at: when(sent) }
        }
    }
}

/// When the event happened that a driver reports in a line read `at`: by its stamp, else by its age. It
/// cannot have been before `after`. A stamp outside of these bounds is of another clock and is ignored.
pub(super) fn reported_at(
    stamp: Option<u64>,
    age_ms: Option<Number>,
    after: Option<Instant>,
    at: Instant,
) -> Option<Instant> {
    let stamped = stamp
        .and_then(monotonic::instant)
        // The conversion of a stamp errs to the early side.
        .filter(|then| *then <= at && after.is_none_or(|after| *then + STAMP_ERROR >= after));
    stamped
        .or_else(|| at.checked_sub(Duration::try_from_secs_f64(age_ms?.as_f64()? / 1000.0).ok()?))
        .map(|then| after.map_or(then, |after| then.max(after)))
}

/// The error of a stamp's conversion.
const STAMP_ERROR: Duration = Duration::from_millis(1);
