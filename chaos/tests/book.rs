//! The book's page of scenarios: what each claims and expects, its file, and what came out in the published
//! runs.
//!
//! With `LOCKLAB_BLESS=1` in the environment the page is written instead of compared.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use chaos::builtin::{BASELINES, BUILTINS, Builtin};
use chaos::scenario::Scenario;
use results::run::{Run, ScenarioResult};
use results::store;
use results::units;
use results::verdict::{CLASSES, State};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Published runs, oldest first, each with its directory's name.
fn published() -> Vec<(String, Run)> {
    let mut runs: Vec<(String, Run)> = fs::read_dir(root().join("results/published"))
        .expect("the directory")
        .filter_map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name()?.to_string_lossy().into_owned();
            // Of an audit only its document is kept.
            path.join("run.json").is_file().then(|| (name, store::load_dir(&path).expect("a published run")))
        })
        .collect();
    runs.sort_by(|a, b| (&a.1.meta.started_at, &a.0).cmp(&(&b.1.meta.started_at, &b.0)));
    runs
}

fn page() -> String {
    let runs = published();
    let mut out = String::from(
        "# Every scenario\n\n\
         <!-- Written by `LOCKLAB_BLESS=1 cargo test -p chaos --test book`: change the scenario files, not this page. -->\n\n\
         Each scenario is a file with a claim and an expectation. `locklab chaos NAME` runs one, `locklab chaos --all` all of them; exit \
         code 0 means that everything came out as its file expects. What came out in a [published run](published-runs.md) stands \
         below it.\n",
    );
    let of_suite = |control| {
        let suite = BUILTINS.iter();
        suite.filter(move |one| one.control == control).collect::<Vec<_>>()
    };
    for (title, about, builtins) in [
        ("Locks and configurations", "", of_suite(false)),
        (
            "Other systems",
            "Locks of etcd, ZooKeeper, MariaDB and PostgreSQL on [servers of their own](servers.md#other-systems). `--all` runs those \
             whose locks are built in: `cargo build --release -p cli --features baselines`.\n",
            BASELINES.iter().collect(),
        ),
        (
            "Controls",
            "Locks that are known to be broken. A control is as expected when it is *convicted*: a suite that cannot convict shows nothing.\n",
            of_suite(true),
        ),
    ] {
        let _ = write!(out, "\n## {title}\n\n{about}");
        if title == "Locks and configurations" {
            out.push_str(&convictions(&builtins));
        }
        for builtin in builtins {
            out.push_str(&entry(builtin, &runs));
        }
    }
    out
}

/// Which lock each scenario must convict; `chaos/tests/controls.rs` runs them.
fn convictions(builtins: &[&Builtin]) -> String {
    let mut out = String::from(
        "A scenario that convicts nobody shows nothing. Each must convict this lock of one of these verdicts; one that expects a violation, its \
         own lock.\n\n| scenario | must convict | of |\n|---|---|---|\n",
    );
    for builtin in builtins {
        let scenario = Scenario::parse(builtin.path, builtin.text).expect("a good scenario");
        let is_bound = |word: &str| word.starts_with(['<', '>']);
        let harmed = |(_, word): &(&String, &String)| *word != "clean" && !is_bound(word);
        let mut expected: Vec<_> = scenario.expect.iter().collect();
        expected.retain(|(class, word)| {
            CLASSES.contains(&class.as_str()) || is_bound(word) && *class != "recovery"
        });
        let control = &scenario.audit.control;
        let lock = match control.as_str() {
            "" if expected.iter().any(harmed) => {
                expected.retain(harmed);
                scenario.lock.subject.as_str()
            }
            "" => "none is known",
            control => {
                expected.retain(|one| !harmed(one));
                control
            }
        };
        let of: Vec<&str> = expected.iter().map(|(class, _)| class.as_str()).collect();
        let name = builtin.name;
        let _ = writeln!(out, "| [{name}](#{name}) | {lock} | {} |", of.join(", "));
    }
    out
}

fn entry(builtin: &Builtin, runs: &[(String, Run)]) -> String {
    let scenario = Scenario::parse(builtin.path, builtin.text).expect("a good scenario");
    let faults: Vec<&str> = scenario.faults.iter().map(|fault| fault.fault.as_str()).collect();
    let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
    let expected: Vec<String> =
        scenario.expect.iter().map(|(class, state)| format!("{class} {state}")).collect();
    let durability = match scenario.lock.durability.as_str() {
        "" | "none" => String::new(),
        other => format!(", grants wait for {other}"),
    };
    let mut out = format!(
        "\n### {}\n\n{}\n\n| | |\n|---|---|\n| claim | {} |\n| on | {}, {}{durability} |\n| faults | {faults} |\n| expected | {} |\n",
        scenario.name,
        scenario.about,
        scenario.claim.replace('|', "\\|"),
        scenario.topology.kind.name(),
        scenario.lock.subject,
        expected.join(", "),
    );
    if !scenario.audit.inherent.is_empty() {
        let _ = writeln!(out, "| no lock can keep it here | {} |", scenario.audit.inherent);
    }
    for (name, run) in runs {
        for result in run.scenarios.iter().filter(|one| one.name == scenario.name) {
            let _ = writeln!(out, "| came out, [{name}](published-runs.md#{name}) | {} |", came_out(result));
        }
    }
    let path = builtin.path;
    let _ = write!(
        out,
        "\n<details><summary>{path}</summary>\n\n```toml\n{{{{#include ../../{path}}}}}\n```\n\n</details>\n"
    );
    out
}

fn came_out(result: &ScenarioResult) -> String {
    let verdicts = result.verdicts.iter().map(|(class, verdict)| {
        if verdict.state == State::Violated {
            let worst = if verdict.worst_ns > 0 {
                format!(", worst {}", units::duration(verdict.worst_ns))
            } else {
                String::new()
            };
            format!("{class} **violated** {}×{worst}", verdict.count)
        } else {
            format!("{class} {}", verdict.state.word())
        }
    });
    format!("{}: {}", result.outcome(), verdicts.collect::<Vec<_>>().join("; "))
}

#[test]
fn the_page_of_scenarios_is_current() {
    let path = root().join("docs/src/scenarios.md");
    let page = page();
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "{} is not current; set LOCKLAB_BLESS=1 and look at the difference",
        path.display()
    );
    for builtin in BUILTINS.iter().chain(BASELINES) {
        assert!(page.contains(&format!("### {}\n", builtin.name)));
    }
}
