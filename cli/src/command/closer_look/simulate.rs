//! `locklab simulate`: the library in simulated time, a seed after the other, on servers, links and clocks
//! that fail. 0: as expected; 1: a seed was convicted that was not to be.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use chaos::scenario::Scenario;
use chaos::shrink_search::{self, GRAVEST_FIRST, PlanSize};
use clap::Args;
use clap::builder::PossibleValuesParser;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use simulation::draw::{FixedChoices, KINDS, TOPOLOGIES, plan, scenario};
use simulation::simulated_subset::{misfit, unjudged};
use simulation::swarm::{self, SeedReport};

use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// A conviction is made smaller by so many runs at most.
const TRIES: u32 = 200;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A scenario file in place of what seeds draw; they decide the rest
    #[arg(value_name = "FILE", conflicts_with_all = ["kind", "topology", "subject", "messages", "scenario"])]
    file: Option<PathBuf>,
    /// Seeds to run, from --seed or 1 on [default: 1000; with --seed, --history or --trace 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    seeds: Option<u64>,
    /// Runs at a time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    jobs: u16,
    /// Only this kind of lock
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS.iter().map(|(kind, _)| *kind)))]
    kind: Option<String>,
    /// Only these servers
    #[arg(long, value_name = "TOPOLOGY", value_parser = PossibleValuesParser::new(TOPOLOGIES))]
    topology: Option<String>,
    /// Another lock than the library's, such as broken:steal; it takes the place of the one that was drawn
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Faults on messages alone: the table from which an audit draws (role x moment x fault), in turn a point
    /// for each seed
    #[arg(long)]
    messages: bool,
    /// Write the history of the first seed, which `check` judges and `replay` does not need: the seed alone
    /// gives it again
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Write what clients and servers of the first seed said to each other, a line for each message, with the
    /// time of the run
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the first seed as a scenario for `locklab chaos`, and run nothing
    #[arg(long)]
    scenario: bool,
}

/// Runs on the only thread of the program: each seed is run by a copy of it.
pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let choices = FixedChoices {
        kind: options.kind,
        topology: options.topology,
        subject: options.subject,
        messages: options.messages,
        scenario: (options.file.as_deref()).map(|path| read_scenario(path, terminal)).transpose()?,
    };
    if !choices.fits() && choices.messages {
        return Err(exit::usage("--messages: locks of one holder, on `single` and `masters`".to_owned()));
    }
    if !choices.fits() {
        let kind = choices.kind.unwrap_or_default();
        let on = KINDS.iter().find(|(name, _)| *name == kind);
        let mut on = on.map_or(&[][..], |(_, on)| *on).to_vec();
        on.dedup();
        return Err(exit::usage(format!("--kind {kind}: this lock is simulated on {} only", on.join(", "))));
    }
    if let Some(subject) = &choices.subject {
        bench::subjects::find(subject)?;
    }
    let first = terminal.common.seed.unwrap_or(1);
    let in_full = options.history.is_some() || options.trace.is_some();
    let one = terminal.common.seed.is_some() || in_full;
    let count = options.seeds.unwrap_or(if one { 1 } else { 1000 });
    let end = first.checked_add(count);
    let end = end.ok_or_else(|| exit::usage(format!("seeds end at {}", u64::MAX - 1)))?;
    if options.scenario {
        terminal.result(&scenario(first, &choices));
        return Ok(exit::AS_EXPECTED);
    }
    let held = HeldSignals::hold()?;
    let is_interrupted = AtomicBool::new(false);
    let goes_on = |_: &u64| {
        is_interrupted.store(held.has_one(), Ordering::Relaxed);
        !is_interrupted.load(Ordering::Relaxed)
    };
    let seeds = (first..end).take_while(goes_on);
    let bar = terminal.bar(count, "seeds");
    let began = Instant::now();
    let mut first_run = None;
    let report = swarm::run(seeds, usize::from(options.jobs), &choices, in_full.then_some(first), |seed| {
        if seed.seed == first && in_full {
            first_run = Some((seed.history.clone(), seed.trace.clone()));
        }
        bar.inc(1);
    })?;
    let elapsed_s = began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    if let Some((history, trace)) = first_run {
        for (path, lines) in [(&options.history, history), (&options.trace, trace)] {
            if let Some(path) = path {
                files::write(path, lines.join("\n") + "\n")?;
            }
        }
    }
    terminal.answer(&report.to_json(elapsed_s), || report.text(elapsed_s, terminal.common.verbose > 0))?;
    if is_interrupted.into_inner() {
        return Ok(exit::INTERRUPTED);
    }
    drop(held);
    if let (1, [one]) = (count, report.convicted.as_slice()) {
        shrink(one, &choices, terminal)?;
    }
    // What should be violated is so in one seed at least.
    let never = |missed: &u64| *missed == report.seeds;
    Ok(match report.convicted.is_empty() && !report.missed.values().any(never) {
        false => exit::NOT_AS_EXPECTED,
        // Of some seeds nothing can be said, of the swarm something can.
        true if report.unknown.len() as u64 == report.seeds => exit::UNKNOWN,
        true => exit::AS_EXPECTED,
    })
}

/// SIGINT and SIGTERM wait from now on until this is dropped: they are asked for between seeds, since this
/// command has no runtime that listens, and a seed that is begun is finished.
struct HeldSignals(SigSet, SignalFd);

impl HeldSignals {
    fn hold() -> nix::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        signals.thread_block()?;
        let waiting = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self(signals, waiting))
    }

    fn has_one(&self) -> bool {
        matches!(self.1.read_signal(), Ok(Some(_)))
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // A signal that came meanwhile ends the command now.
        let _ = self.0.thread_unblock();
    }
}

/// A scenario that can be simulated, as the text of its file.
fn read_scenario(path: &Path, terminal: &Terminal) -> anyhow::Result<String> {
    let name = path.display().to_string();
    let text = results::limits::read_text(path).map_err(exit::input)?;
    let scenario = Scenario::parse(&name, &text).map_err(exit::input)?;
    if let Some(why) = misfit(&scenario) {
        return Err(exit::usage(format!("{name}: {why}; `locklab chaos {name}` runs it on real servers")));
    }
    let unjudged: Vec<_> = unjudged(&scenario).collect();
    if !unjudged.is_empty() {
        terminal.note(&format!("{name}: not judged in simulated time: {}", unjudged.join(", ")));
    }
    Ok(text)
}

/// Makes the plan of a conviction as small as it goes, and says what it leads to.
fn shrink(one: &SeedReport, choices: &FixedChoices, terminal: &Terminal) -> anyhow::Result<()> {
    let convicted = |class: &&str| one.convicted.iter().any(|convicted| convicted == class);
    let Some(class) = GRAVEST_FIRST.into_iter().find(convicted) else { return Ok(()) };
    let whole = plan(one.seed, choices);
    let (small, run) = swarm::smallest(whole.clone(), class, TRIES)?;
    let kept = crate::run::store();
    let dir = terminal.common.out.as_deref().unwrap_or(kept.root());
    let (scenario, _) = shrink_search::write(dir, &small).map_err(exit::unwritable)?;
    let scenario = scenario.display();
    terminal.note(&format!(
        "before  {}\nafter   {}\n{}\n{}wrote {scenario}, for real servers: `locklab --seed {} chaos {scenario}`",
        PlanSize::of(&whole),
        PlanSize::of(&small),
        run.verdict(),
        run.diagram.unwrap_or_default(),
        one.seed
    ));
    Ok(())
}
