//! What locks cost, on a redis-server of its own: per cycle, beside the same commands sent bare and
//! beside redis-benchmark, and per lock held.
//!
//! `cargo bench -p lock-core --bench locks` · `-- --million` holds 1,000,000 locks instead of 100,000 ·
//! `-- cycle`, `-- reference`, `-- pairs`, `-- quorum`, `-- chain`, `-- share`, `-- tracking`, `-- map`,
//! `-- unheard`, `-- timers` and `-- renewal` run one part · `--features peer` measures beside rslock
//! (`-- peer`, `-- quorum`). Ratios are medians over rounds in which the two sides take turns, since a
//! machine's pace drifts; absolute figures are of this machine, now. Each goal of the library is a line that
//! begins with `goal:` and says whether it is reached.

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout)]

#[cfg(feature = "peer")]
mod bare;
mod chain;
mod cycle;
mod goals;
#[path = "../../tests/lock_support/mod.rs"]
mod lock_support;
mod map;
mod pairs;
#[cfg(feature = "peer")]
mod peer;
mod quorum;
mod reference;
mod renewal;
mod share;
#[path = "../../tests/support/mod.rs"]
mod support;
mod timers;
mod tracking;
mod unheard;
mod usage;

/// What [`map`] reads of the library's own files knows these paths.
mod client {
    pub(crate) mod target {
        pub(crate) use lock_core::Endpoint;
    }
}
mod topology {
    pub(crate) mod slot {
        pub(crate) const SLOTS: u16 = 16_384;
    }

    pub(crate) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asks = |word: &str| arguments.iter().any(|argument| argument == word);
    const PARTS: [&str; 12] = [
        "cycle",
        "peer",
        "quorum",
        "reference",
        "pairs",
        "renewal",
        "chain",
        "share",
        "tracking",
        "map",
        "unheard",
        "timers",
    ];
    let all = !PARTS.into_iter().any(asks);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if all || asks("cycle") {
        runtime.block_on(cycle::run())?;
    }
    #[cfg(feature = "peer")]
    if all || asks("peer") {
        runtime.block_on(peer::run())?;
    }
    if all || asks("pairs") {
        runtime.block_on(pairs::run())?;
    }
    if all || asks("reference") {
        runtime.block_on(reference::run())?;
    }
    if all || asks("quorum") {
        runtime.block_on(quorum::run())?;
    }
    if all || asks("chain") {
        runtime.block_on(chain::run())?;
    }
    if all || asks("share") {
        runtime.block_on(share::run())?;
    }
    if all || asks("map") {
        map::run()?;
    }
    if all || asks("tracking") {
        runtime.block_on(tracking::run())?;
    }
    if all || asks("unheard") {
        runtime.block_on(unheard::run())?;
    }
    if all || asks("timers") {
        runtime.block_on(timers::run())?;
    }
    if all || asks("renewal") {
        let locks = if asks("--million") { 1_000_000 } else { 100_000 };
        runtime.block_on(renewal::run(locks))?;
    }
    Ok(())
}

/// The middle one; of an even number the higher of the two.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
