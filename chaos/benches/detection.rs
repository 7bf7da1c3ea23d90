//! How much an audit finds: locks with one defect each through `locklab audit`, over several seeds; and how
//! often it accuses a sound lock.
//!
//! Each lock is audited by the whole suite with the first seed. What convicted it then is tried with the
//! other seeds, too, and nothing else: the first, by name, of the scenarios that did. A sound lock is audited
//! by the whole suite with each.
//!
//! `cargo build --release -p cli && cargo bench -p chaos --bench detection` prints tables in Markdown: for
//! each lock its defect, and by which scenarios it was convicted in how many seeds; and the score by family.
//! The locks are those of `drivers/controls/defects.py`, and of the zoo those of [`ZOO`], which has what is
//! known of other families. What the environment may say: `DETECTION_SUITE` (quick), `DETECTION_DRAW` (as
//! `--draw`; what the suite has), `DETECTION_SEEDS` (how many, 20), `DETECTION_FIRST` (the first, 11),
//! `DETECTION_SCENARIOS` (how many of those that convicted are tried with the other seeds, 3),
//! `DETECTION_LOCKS` (only names that contain one of these words, by commas), `DETECTION_JOBS` (audits at a
//! time, 1), `LOCKLAB` (the program). It ends with 1 if a sound lock was accused.

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, OnceLock};
use std::thread;

use serde_json::Value;

/// What is counted beside scenarios: a promise that was broken step by step.
const CONFORM: &str = "conform";

const DEFECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers/controls/defects.py");

/// Locks of the zoo with one defect, by family. Those of one key were written with the scenarios that convict
/// them, and say nothing here.
const ZOO: [(&str, &[&str]); 3] = [
    (
        "re-entrant",
        &[
            "broken:reentrant-releases-at-once",
            "broken:reentrant-per-client",
            "broken:non-reentrant-enters-again",
        ],
    ),
    (
        "several masters",
        &[
            "broken:quorum-half",
            "broken:quorum-of-one",
            "broken:no-validity",
            "broken:quorum-hoards",
            "broken:quorum-counts-names",
        ],
    ),
    (
        "fair, read-write, fenced",
        &[
            "broken:queued-without-order",
            "broken:fair-without-order",
            "broken:line-keeps-the-dead",
            "broken:token-in-batches",
            "broken:token-from-wall-clock",
            "broken:readers-unseen",
        ],
    ),
];

/// A lock of the table.
struct Lock {
    name: String,
    family: String,
    /// What `audit` is given.
    subject: String,
    defect: String,
    is_sound: bool,
}

/// In how many runs something found a lock broken, of how many, by what found it.
type Convictions = BTreeMap<String, [usize; 2]>;

/// What every lock is tried by.
struct Plan {
    locklab: PathBuf,
    suite: String,
    draw: Option<String>,
    seeds: u64,
    first_seed: u64,
    /// How many of the scenarios that convicted are tried with the other seeds.
    scenarios: usize,
}

/// A variable of the environment, or what stands for it.
fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// The program that was built beside this one, unless another is named.
fn locklab() -> Result<PathBuf, Box<dyn Error>> {
    if let Ok(named) = env::var("LOCKLAB") {
        return Ok(named.into());
    }
    let own = env::current_exe()?;
    let built = own.ancestors().nth(2).map(|profile| profile.join("locklab"));
    built.filter(|program| program.is_file()).ok_or_else(|| {
        "there is no `locklab` beside this program: build it by `cargo build --release -p cli`, or name one in LOCKLAB".into()
    })
}

fn output_of(command: &mut Command) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// The drivers with defects, and locks of the zoo.
fn locks(locklab: &Path) -> Result<Vec<Lock>, Box<dyn Error>> {
    let drivers = output_of(Command::new("python3").arg(DEFECTS))?;
    let mut locks = Vec::new();
    for line in String::from_utf8(drivers)?.lines() {
        let mut fields = line.split('\t').map(str::to_owned);
        let (Some(name), Some(family), Some(defect)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(format!("a name, a family and a defect, not {line:?}").into());
        };
        locks.push(Lock {
            subject: format!("exec:python3 '{DEFECTS}' {name}"),
            is_sound: name.starts_with("sound"),
            name,
            family,
            defect,
        });
    }
    let mut list = Command::new(locklab);
    let zoo = output_of(list.args(["--json", "list", "subjects", "broken:"]))?;
    let zoo: Value = serde_json::from_slice(&zoo)?;
    let about = |name: &str| {
        let mut items = zoo["items"].as_array().into_iter().flatten();
        let found = items.find(|item| item["name"] == name);
        let about = found.and_then(|item| item["about"].as_str());
        about.map(str::to_owned).ok_or_else(|| format!("there is no {name}"))
    };
    for (family, names) in ZOO {
        for name in names {
            locks.push(Lock {
                name: (*name).to_owned(),
                family: family.to_owned(),
                subject: (*name).to_owned(),
                defect: about(name)?,
                is_sound: false,
            });
        }
    }
    let wanted = setting("DETECTION_LOCKS", "");
    locks.retain(|lock| wanted.split(',').any(|word| lock.name.contains(word)));
    Ok(locks)
}

/// One audit, of the suite or as `what` says: what broke its promise, and how often.
fn audit(plan: &Plan, lock: &Lock, seed: u64, what: &[&str]) -> Result<Convictions, Box<dyn Error>> {
    let kept = tempfile::tempdir()?;
    let out = kept.path().join("run");
    let mut command = Command::new(&plan.locklab);
    command.args(["audit", &lock.subject, "--no-bench", "--seed", &seed.to_string()]);
    let output = command.args(what).arg("--out").arg(&out).output()?;
    let Ok(document) = std::fs::read(out.join("audit.json")) else {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    };
    let document: Value = serde_json::from_slice(&document)?;
    let subject = &document["subjects"][0];
    let scenarios = || subject["scenarios"].as_array().into_iter().flatten();
    if scenarios().all(|one| one["outcome"] == "not-applicable") {
        return Err("no scenario applies".into());
    }
    let mut found = Convictions::new();
    for scenario in scenarios().filter(|one| one["outcome"] == "broken") {
        let runs = || scenario["runs"].as_array().into_iter().flatten();
        let broken = runs().filter(|run| run["outcome"] == "broken").count();
        let name = scenario["name"].as_str().unwrap_or_default();
        found.insert(name.to_owned(), [broken.max(1), runs().count().max(1)]);
    }
    let mut steps = subject["conform"]["findings"].as_array().into_iter().flatten();
    if steps.any(|step| step["is_promise"] == true) {
        found.insert(CONFORM.to_owned(), [1, 1]);
    }
    Ok(found)
}

/// The whole suite with the first seed, and with the others what convicted then; all of it again for a sound
/// lock.
fn audit_seeds(plan: &Plan, lock: &Lock) -> Result<Convictions, Box<dyn Error>> {
    let mut whole = vec!["--suite", &plan.suite];
    whole.extend(plan.draw.iter().flat_map(|draw| ["--draw", draw]));
    let mut all = audit(plan, lock, plan.first_seed, &whole)?;
    let add = |all: &mut Convictions, found: Convictions| {
        for (name, [broken, runs]) in found {
            let counted = all.entry(name).or_default();
            *counted = [counted[0] + broken, counted[1] + runs];
        }
    };
    let others = plan.first_seed + 1..plan.first_seed + plan.seeds;
    if lock.is_sound {
        for seed in others {
            add(&mut all, audit(plan, lock, seed, &whole)?);
        }
        all.values_mut().for_each(|counted| counted[1] = plan.seeds as usize);
        return Ok(all);
    }
    let scenarios = all.keys().map(String::as_str).filter(|name| is_scenario(name));
    let scenarios: Vec<&str> = scenarios.take(plan.scenarios).collect();
    if scenarios.is_empty() || others.is_empty() {
        return Ok(all);
    }
    let (scenarios, repeat) = (scenarios.join(","), (plan.seeds - 1).to_string());
    let what = ["--scenario", &scenarios, "--repeat", &repeat];
    let again = audit(plan, lock, plan.first_seed + 1, &what)?;
    for name in scenarios.split(',') {
        let found = again.get(name).copied().unwrap_or([0, plan.seeds as usize - 1]);
        add(&mut all, [(name.to_owned(), found)].into());
    }
    Ok(all)
}

/// Whether it can be run by name: no drawn fault, whose point depends on what else was drawn.
fn is_scenario(found_by: &str) -> bool {
    found_by != CONFORM && !found_by.starts_with("drawn-")
}

/// Audits each lock, so many at a time.
fn audit_all(plan: &Plan, locks: &[Lock], jobs: usize) -> Vec<Result<Convictions, String>> {
    let found: Vec<OnceLock<Result<Convictions, String>>> = locks.iter().map(|_| OnceLock::new()).collect();
    let work = Mutex::new(locks.iter().zip(&found));
    let next = || work.lock().expect("no panic").next();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((lock, found)) = next() {
                    let result = audit_seeds(plan, lock).map_err(|error| error.to_string());
                    eprintln!("{}: {result:?}", lock.name);
                    found.set(result).expect("each lock has one turn");
                }
            });
        }
    });
    found.into_iter().map(|found| found.into_inner().expect("each lock had a turn")).collect()
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let plan = Plan {
        locklab: locklab()?,
        suite: setting("DETECTION_SUITE", "quick"),
        draw: env::var("DETECTION_DRAW").ok(),
        seeds: setting("DETECTION_SEEDS", "20").parse()?,
        first_seed: setting("DETECTION_FIRST", "11").parse()?,
        scenarios: setting("DETECTION_SCENARIOS", "3").parse()?,
    };
    let locks = locks(&plan.locklab)?;
    let found = audit_all(&plan, &locks, setting("DETECTION_JOBS", "1").parse()?);
    println!("| family | lock | what is wrong | by, in how many seeds |\n|---|---|---|---|");
    let mut families: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut accused = 0;
    for (Lock { name, family, defect, is_sound, .. }, found) in locks.iter().zip(&found) {
        let mut by: Vec<_> = found.iter().flatten().collect();
        by.sort_by_key(|(_, [broken, _])| std::cmp::Reverse(*broken));
        let counted = by.iter().map(|(name, [broken, runs])| format!("{name} {broken} of {runs}"));
        let counted: Vec<String> = counted.chain(found.clone().err()).collect();
        println!("| {family} | {name} | {defect} | {} |", counted.join(", "));
        if *is_sound {
            accused += by.iter().map(|(_, [broken, _])| broken).sum::<usize>();
            continue;
        }
        // A defect counts as found where something finds it in more than half of its seeds.
        let is_found = |(_, [broken, runs]): &(&String, &[usize; 2])| 2 * broken > *runs;
        let [all, found, by_scenario] = families.entry(family).or_default();
        *all += 1;
        *found += usize::from(by.iter().any(is_found));
        *by_scenario += usize::from(by.iter().any(|by| by.0 != CONFORM && is_found(by)));
    }
    let Plan { suite, seeds, .. } = plan;
    println!(
        "\n| family | found in more than half of {seeds} seeds, `{suite}` | by a scenario |\n|---|---|---|"
    );
    for (family, [all, found, by_scenario]) in families {
        println!("| {family} | {found} of {all} | {by_scenario} of {all} |");
    }
    println!("\nSound locks were accused {accused} times.");
    Ok(ExitCode::from(u8::from(accused > 0)))
}
