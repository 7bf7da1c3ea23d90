//! How much an audit finds: locks with one defect each through `locklab audit`, over several seeds; and how often it accuses a sound lock.
//!
//! `cargo build --release -p cli && cargo bench -p chaos --bench detection` prints a table in Markdown: for each lock its defect, in how many seeds it
//! was convicted, and by which scenarios. The locks are the controls of `locklab list subjects broken:` and those of
//! `drivers/controls/defects.py`. What the environment may say: `DETECTION_SUITE` (quick), `DETECTION_SEEDS` (how many, 20), `DETECTION_LOCKS` (only
//! names that contain one of these words, by commas), `DETECTION_JOBS` (audits at a time, 1), `LOCKLAB` (the program). It ends with 1 if a sound lock was
//! accused.

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

const DEFECTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../drivers/controls/defects.py"
);

/// A lock of the table.
struct Lock {
    name: String,
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
    /// In how many audits a scenario found the lock broken.
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
    let built = own
        .ancestors()
        .nth(2)
        .map(|profile| profile.join("locklab"));
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

/// The zoo of the program, without what is not built, and the drivers with defects.
fn locks(locklab: &Path) -> Result<Vec<Lock>, Box<dyn Error>> {
    let mut list = Command::new(locklab);
    let zoo = output_of(list.args(["--json", "list", "subjects", "broken:"]))?;
    let zoo: Value = serde_json::from_slice(&zoo)?;
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let built = zoo["items"].as_array().into_iter().flatten();
    let built = built.filter(|item| item["missing"].is_null());
    let mut locks: Vec<Lock> = built
        .map(|item| Lock {
            name: text(item, "name"),
            subject: text(item, "name"),
            defect: text(item, "about"),
            is_sound: false,
        })
        .collect();
    let drivers = output_of(Command::new("python3").arg(DEFECTS))?;
    for line in String::from_utf8(drivers)?.lines() {
        let (name, defect) = line.split_once('\t').ok_or("a name, a tab, a defect")?;
        locks.push(Lock {
            name: name.to_owned(),
            subject: format!("exec:python3 '{DEFECTS}' {name}"),
            defect: defect.to_owned(),
            is_sound: name.starts_with("sound"),
        });
    }
    let wanted = setting("DETECTION_LOCKS", "");
    locks.retain(|lock| wanted.split(',').any(|word| lock.name.contains(word)));
    Ok(locks)
}

/// The scenarios that found the lock broken.
fn audit(
    locklab: &Path,
    lock: &Lock,
    suite: &str,
    seed: u64,
) -> Result<Vec<String>, Box<dyn Error>> {
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
    Ok(broken
        .map(|one| one["name"].as_str().unwrap_or_default().to_owned())
        .collect())
}

/// Audits each lock with each seed, so many at a time.
fn audit_all(
    locklab: &Path,
    locks: &[Lock],
    suite: &str,
    seeds: u64,
    jobs: usize,
) -> Vec<Convictions> {
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
    found
        .into_iter()
        .map(|found| found.into_inner().expect("no panic"))
        .collect()
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (suite, locklab) = (setting("DETECTION_SUITE", "quick"), locklab()?);
    let seeds: u64 = setting("DETECTION_SEEDS", "20").parse()?;
    let jobs: usize = setting("DETECTION_JOBS", "1").parse()?;
    let locks = locks(&locklab)?;
    let found = audit_all(&locklab, &locks, &suite, seeds, jobs);
    println!("| lock | what is wrong | convicted | by |\n|---|---|---|---|");
    for (lock, found) in locks.iter().zip(&found) {
        let mut by: Vec<(&String, &u64)> = found.by_scenario.iter().collect();
        by.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let by = by.iter().map(|(name, times)| format!("{name} {times}"));
        let by: Vec<String> = by.chain(found.errors.iter().cloned()).collect();
        let Convictions {
            audits, convicted, ..
        } = found;
        println!(
            "| {} | {} | {convicted} of {audits} | {} |",
            lock.name,
            lock.defect,
            by.join(", ")
        );
    }
    let (sound, defective): (Vec<_>, Vec<_>) = locks
        .iter()
        .zip(&found)
        .partition(|(lock, _)| lock.is_sound);
    // A defect counts as found where more than half of the audits find it.
    let is_found = |one: &&(&Lock, &Convictions)| 2 * one.1.convicted > one.1.audits;
    let accused: u64 = sound.iter().map(|(_, found)| found.convicted).sum();
    println!(
        "\n`{suite}` finds {} of {} defects in more than half of {seeds} seeds; sound locks were accused {accused} times.",
        defective.iter().filter(is_found).count(),
        defective.len(),
    );
    Ok(ExitCode::from(u8::from(accused > 0)))
}
