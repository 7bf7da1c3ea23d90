//! One command per file, in folders by the groups of `locklab help all`. This file calls the one that was
//! asked for.
//!
//! | file | what it is for |
//! |---|---|
//! | `everyday/` | *Try, measure, decide* |
//! | `kept_runs/` | *Look again* |
//! | `closer_look/` | *Look closer* |
//! | `servers/` | *Servers* |
//! | `programs/` | *For programs* |
//! | `left_out.rs` | commands that this build was made without |

mod closer_look;
mod everyday;
mod kept_runs;
#[cfg(not(all(feature = "kube", feature = "simulate")))]
mod left_out;
mod programs;
mod servers;

pub(crate) use closer_look::*;
pub(crate) use everyday::*;
pub(crate) use kept_runs::*;
#[cfg(not(feature = "kube"))]
pub(crate) use left_out::kube;
#[cfg(not(feature = "simulate"))]
pub(crate) use left_out::simulate;
pub(crate) use programs::*;
pub(crate) use servers::*;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use crate::args::Command;
use crate::exit;
use crate::terminal::Terminal;

/// Whether the async runtime is starting. If it cannot start a thread then, it panics, and unwinding would
/// wait for its other threads for ever: `main` exits instead.
pub(crate) static STARTING: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(command: Command, terminal: &Terminal) -> anyhow::Result<u8> {
    // `simulate` runs its seeds in forked copies of this process, which must have no other threads.
    let command = match command {
        Command::Simulate(options) => return simulate::run(options, terminal),
        Command::Guard(options) => return Ok(guard::run(&options)),
        command => command,
    };
    if let Err(error) = try_threads() {
        return Err(exit::missing(format!("cannot start the threads that a command needs: {error}")));
    }
    guard::install();
    STARTING.store(true, Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    STARTING.store(false, Ordering::Relaxed);
    let code = runtime.block_on(async {
        match command {
            Command::Quickstart(options) => quickstart::run(&options, terminal).await,
            Command::Up(options) => up::run(options, terminal).await,
            Command::Ps => ps::run(terminal),
            Command::Down(options) => down::run(options, terminal),
            Command::Lock(options) => lock::run(options, terminal).await,
            Command::Bench(options) => bench::run(options, terminal).await,
            Command::Chaos(options) => chaos::run(options, terminal).await,
            Command::Audit(options) => audit::run(options, terminal).await,
            Command::Simulate(_) | Command::Guard(_) => unreachable!("it was run above"),
            Command::Soak(options) => soak::run(options, terminal).await,
            Command::Replay(options) => replay::run(options, terminal).await,
            Command::Check(options) => check::run(options, terminal),
            Command::Clock(options) => clock::run(options).await,
            Command::List(options) => list::run(options, terminal),
            Command::Compare(options) => compare::run(options, terminal),
            Command::Gate(options) => gate::run(options, terminal),
            Command::Kube(options) => kube::run(options, terminal).await,
            Command::Merge(options) => merge::run(options, terminal),
            Command::Completions(options) => completions::run(&options, terminal),
            Command::Man(options) => man::run(&options, terminal),
            Command::Conform(options) => conform::run(options, terminal).await,
            Command::NewDriver(options) => new_driver::run(&options, terminal),
            Command::Init(options) => init::run(options, terminal),
            Command::Risk(options) => risk::run(&options, terminal).await,
            Command::Report(options) => report::run(options, terminal),
            Command::Proxy(options) => proxy::run(options, terminal).await,
            Command::Trace(options) => trace::run(options, terminal).await,
            Command::Watch(options) => watch::run(options, terminal).await,
            Command::Help(options) => help::run(&options, terminal),
            Command::Doctor(options) => doctor::run(options, terminal).await,
            Command::Driver(options) => driver::run(options).await,
        }
    });
    // A blocked read of standard input must not hold up the end.
    runtime.shutdown_background();
    ::bench::exec::guard::dismiss();
    code
}

/// Starts as many threads at once as a command needs: one for each processor, and a few for files and host
/// names. A runtime that gets fewer waits for them for ever.
fn try_threads() -> std::io::Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut ends = Vec::new();
    for _ in 0..processors + 4 {
        let (end, wait) = mpsc::channel::<()>();
        std::thread::Builder::new().spawn(move || wait.recv())?;
        ends.push(end);
    }
    Ok(())
}
