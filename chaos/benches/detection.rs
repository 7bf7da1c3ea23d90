//! How much an audit finds: locks with one defect each through `locklab audit`, over several seeds; and how
//! often it accuses a sound lock.
//!
//! `cargo build --release -p cli && cargo bench -p chaos --bench detection` prints tables in Markdown: for
//! each lock its defect, in how many seeds it was convicted, and by which scenarios or by `conform`; and the
//! score by family. The locks are those of `drivers/controls/defects.py`, and of the zoo those of [`ZOO`],
//! which has what is known of other families. What the environment may say: `DETECTION_SUITE` (quick),
//! `DETECTION_SEEDS` (how many, 20), `DETECTION_LOCKS` (only names that contain one of these words, by
//! commas), `DETECTION_JOBS` (audits at a time, 1), `LOCKLAB` (the program). It ends with 1 if a sound lock
//! was accused.

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
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

/// What became of one lock.
#[derive(Default)]
struct Convictions {
    audits: u64,
    convicted: u64,
    /// Of these, by a scenario or a drawn fault, and not by `conform` alone.
    by_scenarios: u64,
    /// In how many audits a scenario, or `conform`, found the lock broken.
    by_scenario: BTreeMap<String, u64>,
    /// Why audits gave no answer.
    errors: Vec<String>,
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

/// The scenarios that found the lock broken, and `conform` if it broke a promise there.
fn audit(locklab: &Path, lock: &Lock, suite: &str, seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let kept = tempfile::tempdir()?;
    let out = kept.path().join("run");
    let mut command = Command::new(locklab);
    command.args(["audit", &lock.subject, "--no-bench", "--suite", suite]);
    command.args(["--seed", &seed.to_string(), "--out"]);
    let output = command.arg(&out).output()?;
    let Ok(document) = std::fs::read(out.join("audit.json")) else {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    };
    let document: Value = serde_json::from_slice(&document)?;
    let scenarios = document["subjects"][0]["scenarios"].as_array();
    let outcomes = || scenarios.into_iter().flatten();
    if outcomes().all(|one| one["outcome"] == "not-applicable") {
        return Err("no scenario applies".into());
    }
    let broken = outcomes().filter(|one| one["outcome"] == "broken");
    let scenarios = broken.map(|one| one["name"].as_str().unwrap_or_default().to_owned());
    let findings = document["subjects"][0]["conform"]["findings"].as_array();
    let promises = findings.into_iter().flatten().filter(|one| one["is_promise"] == true);
    Ok(scenarios.chain(promises.take(1).map(|_| CONFORM.to_owned())).collect())
}

/// Audits each lock with each seed, so many at a time.
fn audit_all(locklab: &Path, locks: &[Lock], suite: &str, seeds: u64, jobs: usize) -> Vec<Convictions> {
    let work = (1..=seeds).flat_map(|seed| (0..locks.len()).map(move |lock| (lock, seed)));
    let work = Mutex::new(work);
    let found: Vec<Mutex<Convictions>> = locks.iter().map(|_| Mutex::default()).collect();
    let next = || work.lock().expect("no panic").next();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((index, seed)) = next() {
                    let lock = &locks[index];
                    let broken = audit(locklab, lock, suite, seed);
                    eprintln!("{} seed {seed}: {broken:?}", lock.name);
                    let mut found = found[index].lock().expect("no panic");
                    match broken {
                        Ok(broken) => {
                            found.audits += 1;
                            found.convicted += u64::from(!broken.is_empty());
                            found.by_scenarios += u64::from(broken.iter().any(|name| name != CONFORM));
                            for scenario in broken {
                                *found.by_scenario.entry(scenario).or_default() += 1;
                            }
                        }
                        Err(error) => found.errors.push(error.to_string()),
                    }
                }
            });
        }
    });
    found.into_iter().map(|found| found.into_inner().expect("no panic")).collect()
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (suite, locklab) = (setting("DETECTION_SUITE", "quick"), locklab()?);
    let seeds: u64 = setting("DETECTION_SEEDS", "20").parse()?;
    let jobs: usize = setting("DETECTION_JOBS", "1").parse()?;
    let locks = locks(&locklab)?;
    let found = audit_all(&locklab, &locks, &suite, seeds, jobs);
    println!("| family | lock | what is wrong | convicted | by |\n|---|---|---|---|---|");
    let mut families: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut accused = 0;
    for (lock, found) in locks.iter().zip(&found) {
        let mut by: Vec<(&String, &u64)> = found.by_scenario.iter().collect();
        by.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let by = by.iter().map(|(name, times)| format!("{name} {times}"));
        let by: Vec<String> = by.chain(found.errors.iter().cloned()).collect();
        let Lock { name, family, defect, .. } = lock;
        let Convictions { audits, convicted, by_scenarios, .. } = found;
        println!("| {family} | {name} | {defect} | {convicted} of {audits} | {} |", by.join(", "));
        if lock.is_sound {
            accused += convicted;
            continue;
        }
        // A defect counts as found where more than half of the audits find it.
        let [is_found, by_scenario, all] = families.entry(family).or_default();
        *is_found += usize::from(2 * convicted > *audits);
        *by_scenario += usize::from(2 * by_scenarios > *audits);
        *all += 1;
    }
    println!(
        "\n| family | found in more than half of {seeds} seeds of `{suite}` | by a scenario |\n|---|---|---|"
    );
    for (family, [found, by_scenario, all]) in families {
        println!("| {family} | {found} of {all} | {by_scenario} of {all} |");
    }
    println!("\nSound locks were accused {accused} times.");
    Ok(ExitCode::from(u8::from(accused > 0)))
}
