//! `locklab guard`: ends what the drivers of another `locklab` have left, once that one has ended.

use bench::exec::guard;
use clap::Args;

use crate::exit;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What the marks of its drivers begin with
    mark: String,
}

pub(crate) fn install() {
    // Without its own path this program has no guard. The parent-death signal then ends the first process of
    // each driver.
    if let Ok(program) = std::env::current_exe() {
        let program = program.to_string_lossy().into_owned();
        guard::install(vec![program, "guard".to_owned()]);
    }
}

pub(crate) fn run(options: &Options) -> u8 {
    // Under another name: who kills all processes called `locklab` spares this one, which ends the rest.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"driver-guard");
    guard::run(std::io::stdin(), &options.mark);
    exit::AS_EXPECTED
}
