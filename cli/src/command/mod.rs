//! One command per file; this file is the table of contents and what several of them share.

pub(crate) mod bench;
mod bench_place;
mod bench_sweep;
pub(crate) mod chaos;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod conform;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod driver;
pub(crate) mod gate;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod man;
pub(crate) mod merge;
mod plans;
mod provisioner;
pub(crate) mod proxy;
pub(crate) mod ps;
pub(crate) mod quickstart;
pub(crate) mod replay;
pub(crate) mod report;
mod run;
pub(crate) mod show;
pub(crate) mod shrink;
pub(crate) mod soak;
mod survey;
mod tally;
mod target;
pub(crate) mod trace;
pub(crate) mod up;

use crate::args::{Cli, Command};
use crate::terminal::Terminal;

/// Does what was asked and gives the exit code.
pub(crate) fn run(cli: Cli, terminal: &Terminal) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let common = cli.common;
    let code = runtime.block_on(async {
        match cli.command {
            Command::Quickstart(options) => quickstart::run(options, &common, terminal).await,
            Command::Up(options) => up::run(options, &common, terminal).await,
            Command::Ps(options) => ps::run(options, &common, terminal).await,
            Command::Down(options) => down::run(options, &common, terminal).await,
            Command::Lock(options) => lock::run(options, &common, terminal).await,
            Command::Bench(options) => bench::run(options, &common, terminal).await,
            Command::Chaos(options) => chaos::run(options, &common, terminal).await,
            Command::Soak(options) => soak::run(options, &common, terminal).await,
            Command::Replay(options) => replay::run(options, &common, terminal).await,
            Command::Shrink(options) => shrink::run(options, &common, terminal).await,
            Command::Check(options) => check::run(options, &common, terminal),
            Command::List(options) => list::run(options, &common, terminal),
            Command::Show(options) => show::run(options, &common, terminal),
            Command::Compare(options) => compare::run(options, &common, terminal),
            Command::Gate(options) => gate::run(options, &common, terminal),
            Command::Merge(options) => merge::run(options, &common, terminal),
            Command::Completions(options) => Ok(completions::run(&options, terminal)),
            Command::Man(options) => man::run(&options, &common, terminal),
            Command::Conform(options) => conform::run(options, &common, terminal).await,
            Command::Report(options) => report::run(options, &common, terminal),
            Command::Proxy(options) => proxy::run(options, &common, terminal).await,
            Command::Trace(options) => trace::run(options, &common, terminal).await,
            Command::Doctor(options) => doctor::run(options, &common, terminal).await,
            Command::Driver(options) => driver::run(options).await,
        }
    });
    // A blocked read of standard input must not hold up the end.
    runtime.shutdown_background();
    code
}
