//! `locklab lock`: runs a command while a lock is held, as flock(1) does for files.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use bench::survey::{connect_failure, connect_failure_text};
use bench::target::parse_target;
use clap::Args;
use lock_core::diagnostics::ConcernKind;
use lock_core::{
    Acquire, Client, ClientOptions, Durability, ErrorKind, Guard, Kind, Lease, Lock, LockError, Target, Wait,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getpgrp, tcgetpgrp};
use tokio::process::{Child, Command};

use crate::args::{duration, kind_of, lease_duration, target_url};
use crate::cancel::EndSignals;
use crate::exit;
use crate::terminal::Terminal;

/// The pause after too few replicas acknowledged: a missing one needs at least as long to come back.
const REPLICA_PAUSE: Duration = Duration::from_millis(100);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(override_usage = "locklab lock [OPTIONS] [TARGET] <NAME> -- <CMD>...")]
pub(crate) struct Options {
    /// Target URL, e.g. redis://127.0.0.1:6379, or @FILE for the one in a file, which no process list shows
    /// [default: that of LOCKLAB_TARGET]; and the lock's name, which is the Redis key itself
    #[arg(num_args = 1..=2, required = true, value_names = ["TARGET", "NAME"])]
    target_and_name: Vec<String>,
    /// The kind of lock [default: reentrant; redlock on redlock:// targets]
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// Longest wait for the lock [default: no limit]
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    wait: Option<Duration>,
    /// Longest wait for a server that is not there yet [default: that for the lock]
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    connect_timeout: Option<Duration>,
    /// A lease that is not renewed [default: renewed while the command runs]
    #[arg(long, value_parser = lease_duration, value_name = "DURATION", allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// Longest time of holding: then the lock is lost, as if another had taken it [default: no limit]
    #[arg(long, value_parser = lease_duration, value_name = "DURATION", allow_hyphen_values = true)]
    max_hold: Option<Duration>,
    /// Who must have the lock: none, wait:K, wait:majority or wait:all replicas (?replicas=N in the URL), or
    /// waitaof:K disks
    #[arg(long, default_value = "none", value_name = "HOW")]
    durability: Durability,
    /// When the lock is lost, the command is sent SIGTERM, and SIGKILL after this
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "DURATION", allow_hyphen_values = true)]
    grace: Duration,
    /// Exit code when the lock is not acquired in time
    #[arg(long, default_value_t = exit::NOT_ACQUIRED, value_name = "N", allow_negative_numbers = true)]
    conflict_exit_code: u8,
    /// The command and its arguments. Signals go to this one process, not to what it starts in turn: in a
    /// shell line, write `exec` before the program that is to have them
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if terminal.common.json {
        return Err(exit::usage(
            "`lock` has no --json: its standard output is the command's own; read the exit code, and the last line on standard error",
        ));
    }
    let (target, name) = target_and_name(&options)?;
    let target = parse_target(&target)?;
    let kind = kind_of(options.kind, &target)?;
    // Passed on, so that the command can end and the lock be released after it.
    let mut signals = EndSignals::listen()?;
    let started = Instant::now();
    let client = tokio::select! {
        client = connect(&target, &options, started, terminal) => client.map_err(connect_failure)?,
        _ = signals.next() => return Err(exit::interrupted("interrupted while connecting")),
    };
    for concern in client.concerns() {
        terminal.detail(&concern.to_string());
    }
    let code = hold_and_run(&options, (&client, kind, name), started, &mut signals, terminal).await;
    client.close().await;
    code
}

/// The target's URL, which may be the environment's, and the lock's name.
fn target_and_name(options: &Options) -> anyhow::Result<(String, &str)> {
    let (target, name) = match &options.target_and_name[..] {
        [target, name] => (target.clone(), name),
        names => (std::env::var("LOCKLAB_TARGET").unwrap_or_default(), &names[0]),
    };
    if target.is_empty() || name.contains("://") {
        return Err(exit::usage(
            "`lock` takes a target (its URL, @FILE, or the variable LOCKLAB_TARGET) and then the lock's name, which is no URL",
        ));
    }
    Ok((target_url(&target).map_err(exit::usage)?, name))
}

async fn hold_and_run(
    options: &Options,
    (client, kind, name): (&Client, Kind, &str),
    started: Instant,
    signals: &mut EndSignals,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let lock = client.lock(kind, name).map_err(exit::usage)?;
    let acquired = tokio::select! {
        acquired = acquire(&lock, options, started, terminal) => acquired,
        _ = signals.next() => return Err(exit::interrupted("interrupted while waiting for the lock")),
    };
    for concern in client.concerns() {
        if concern.kind == ConcernKind::Messages {
            terminal.note(&concern.to_string());
        }
    }
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) => return not_acquired(options, kind, &error, terminal),
    };

    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]).env("LOCKLAB_NAME", name);
    match guard.token() {
        Some(token) => command.env("LOCKLAB_TOKEN", token.to_string()),
        None => command.env_remove("LOCKLAB_TOKEN"),
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // Nothing ran under the lock, so a lost one does not matter.
            let _ = release(guard, terminal).await;
            terminal.warn(&format!("{}: {error}", options.command[0].display()));
            return Ok(if error.kind() == std::io::ErrorKind::NotFound {
                exit::NOT_FOUND
            } else {
                exit::NOT_EXECUTABLE
            });
        }
    };

    let ended = loop {
        tokio::select! {
            status = child.wait() => break Ok(status?),
            reason = guard.lost() => break Err(reason),
            signal = signals.next() => match signal {
                Signal::SIGINT if got_from_terminal(&child) => {}
                other => forward(&child, other),
            },
        }
    };
    match ended {
        Ok(status) => Ok(if release(guard, terminal).await { code_of(status) } else { exit::LOST }),
        Err(reason) => {
            terminal.warn(&format!("lock {name} was lost while the command ran: {reason}"));
            terminate(&mut child, options.grace).await?;
            // The guard knows that it is lost: dropping it takes nothing away from the next holder.
            drop(guard);
            Ok(exit::LOST)
        }
    }
}

/// Connects, and waits for a server that is not there yet, which is said once.
async fn connect(
    target: &Target,
    options: &Options,
    started: Instant,
    terminal: &Terminal,
) -> Result<Client, LockError> {
    let mut settings = ClientOptions::default().durability(options.durability);
    let bound = options.connect_timeout.or(options.wait);
    if let Some(timeout) = options.connect_timeout {
        let shortest = Duration::from_millis(1);
        settings.connect_timeout = settings.connect_timeout.min(timeout.max(shortest));
    }
    let mut is_said = false;
    loop {
        let error = match Client::connect(target, settings.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let is_over = bound.is_some_and(|bound| started.elapsed() + RECONNECT_PAUSE >= bound);
        if is_over || !may_become_ready(&error) {
            return Err(error);
        }
        if !std::mem::replace(&mut is_said, true) {
            let why = connect_failure_text(&error);
            terminal.note(&format!("locklab: {why}; waiting for it"));
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

/// Whether a server may be there later, or be ready. One that answers with another error, or whose
/// certificate is not trusted, is there.
fn may_become_ready(error: &LockError) -> bool {
    let is_ready_later = match error.server_code() {
        Some(code) => ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN"].contains(&code),
        None => !error.to_string().contains("TLS:"),
    };
    error.kind() == ErrorKind::Failed && is_ready_later
}

/// Tries for the lock until the wait is over, also where it was granted but too few replicas had it.
async fn acquire(
    lock: &Lock,
    options: &Options,
    started: Instant,
    terminal: &Terminal,
) -> Result<Guard, LockError> {
    let lease = options.lease.map_or(Lease::Renewed, Lease::Fixed);
    let left = || options.wait.map(|wait| wait.saturating_sub(started.elapsed()));
    let mut not_durable: Option<LockError> = None;
    loop {
        let wait = match left() {
            None => Wait::Forever,
            Some(left) if left.is_zero() => Wait::Try,
            Some(left) => Wait::AtMost(left),
        };
        let mut how = Acquire::default().wait(wait).lease(lease);
        how.max_hold = options.max_hold;
        let acquired = lock.acquire_with(how);
        let error = match acquired.await {
            Ok(guard) => return Ok(guard),
            Err(error) => error,
        };
        let over = left().is_some_and(|left| left <= REPLICA_PAUSE);
        match not_durable {
            None if error.kind() != ErrorKind::NotDurable || over => return Err(error),
            None => terminal.note(&format!("locklab: {error}; trying again")),
            // The last try may be cut off by the end of the wait, which says less than the tries before it.
            Some(not_durable) if over => return Err(not_durable),
            Some(_) if error.kind() != ErrorKind::NotDurable => return Err(error),
            Some(_) => {}
        }
        not_durable = Some(error);
        tokio::time::sleep(REPLICA_PAUSE).await;
    }
}

fn not_acquired(options: &Options, kind: Kind, error: &LockError, terminal: &Terminal) -> anyhow::Result<u8> {
    match error.kind() {
        ErrorKind::Busy | ErrorKind::NotDurable => {
            terminal.warn(&error.to_string());
            Ok(options.conflict_exit_code)
        }
        _ => Err(crate::args::acquire_failure(error, kind)),
    }
}

/// Releases the lock; `false` if the server no longer had the hold, which was then lost while the command
/// ran. Any other failure leaves that open and is only reported: the command's result is worth more than the
/// release's.
async fn release(guard: Guard, terminal: &Terminal) -> bool {
    match guard.release().await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotHeld => {
            terminal.warn(&format!("the lock was lost while the command ran: {error}"));
            false
        }
        Err(error) => {
            terminal.warn(&error.to_string());
            true
        }
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(exit::DEFECT),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// SIGTERM, then SIGKILL after the grace.
async fn terminate(child: &mut Child, grace: Duration) -> std::io::Result<()> {
    forward(child, Signal::SIGTERM);
    if tokio::time::timeout(grace, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

/// Whether the command got a Ctrl-C from the terminal itself, which sends it to its whole foreground group. A
/// second SIGINT may mean "end at once" to the command.
fn got_from_terminal(child: &Child) -> bool {
    let foreground = File::open("/dev/tty").map(tcgetpgrp);
    let Ok(Ok(foreground)) = foreground else { return false };
    let command = pid_of(child).and_then(|pid| getpgid(Some(pid)).ok());
    foreground == getpgrp() && command == Some(foreground)
}

fn forward(child: &Child, signal: Signal) {
    if let Some(pid) = pid_of(child) {
        // It may have ended in between.
        let _ = kill(pid, signal);
    }
}

/// Of a command that was not waited for yet.
fn pid_of(child: &Child) -> Option<Pid> {
    let pid = i32::try_from(child.id()?).ok()?;
    Some(Pid::from_raw(pid))
}
