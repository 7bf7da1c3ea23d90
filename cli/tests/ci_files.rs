//! The files for other people's CI, executed: the steps of `action.yml` and of the GitLab job run as their
//! runners run them, in a repository of somebody else, against this build.
//!
//! Three things are not as there. `cargo` is a script that checks what it is asked and puts this build where
//! a release build would be. A release is a directory with an archive in which `locklab` starts this build.
//! And the steps that are GitHub's own (`uses:`) are looked at, not run.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{code, stderr, stdout};

const CALM: &str = "name = \"calm\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nduration = \"2s\"\nhold = \"1ms\"\nthink = \"1ms\"\n\
                    [expect]\ncontract = \"clean\"\n";

/// A lock that frees what another client holds, where a clean contract is expected.
const LOST: &str = "name = \"lost\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"broken:release-without-owner-check\"\nlease = \"300ms\"\nwait = \"1s\"\n\
                    [load]\nclients = 3\ntasks = 2\nhold = \"100ms..500ms\"\nduration = \"3s\"\n[expect]\ncontract = \"clean\"\n";

/// Stands in for cargo: a build of `cli` from the manifest that is named, and nothing else.
const CARGO: &str = r#"#!/bin/sh
set -eu
[ "$1 $2 $3 $4 $6 $7" = "build --release --locked --manifest-path -p cli" ] || { echo "unexpected: cargo $*" >&2; exit 97; }
grep -q '^\[workspace\]' "$5"
mkdir -p "$(dirname "$5")/target/release"
ln -sf "$LOCKLAB_UNDER_TEST" "$(dirname "$5")/target/release/locklab"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Somebody's repository, a copy of what of ours the files need, and a `cargo` before the real one.
struct Place {
    _dir: tempfile::TempDir,
    theirs: PathBuf,
    ours: PathBuf,
    path: String,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("their project");
    let ours = dir.path().join("ours");
    let bin = dir.path().join("bin");
    for dir in [&theirs, &ours, &bin] {
        fs::create_dir(dir).unwrap();
    }
    for name in ["Makefile", "Cargo.toml", "scripts", "ci", "deploy"] {
        let status = Command::new("cp").arg("-r").args([root().join(name), ours.join(name)]).status();
        assert!(status.unwrap().success());
    }
    fs::write(theirs.join("calm.toml"), CALM).unwrap();
    fs::write(theirs.join("lost.toml"), LOST).unwrap();
    fs::write(theirs.join("kept"), "contract == clean\n").unwrap();
    fs::write(theirs.join("broken"), "contract == violated\n").unwrap();
    fs::write(bin.join("cargo"), CARGO).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    Place { theirs, ours, path: format!("{}:{path}", bin.display()), _dir: dir }
}

impl Place {
    /// A script as a runner starts it: in the project's directory, stopped by the first failure.
    fn script(&self, script: &str, env: &BTreeMap<String, String>) -> Output {
        Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(&self.theirs)
            .env("PATH", &self.path)
            .env("LOCKLAB_UNDER_TEST", env!("CARGO_BIN_EXE_locklab"))
            .env("CI", "true")
            // What the action keeps between jobs; and what would say where another build is.
            .env("HOME", self.theirs.join("../home"))
            .env_remove("CARGO_TARGET_DIR")
            .envs(env)
            .output()
            .expect("bash runs")
    }
}

/// One step of `action.yml`: its plain entries, and those of its `env` and `with`.
#[derive(Debug, Default)]
struct Step {
    entries: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    with: BTreeMap<String, String>,
}

/// The steps, the inputs' defaults and the outputs' values of a file of the form that `action.yml` has.
/// Anything else is a panic: a file that this does not understand was not tried.
fn action() -> (Vec<Step>, BTreeMap<String, String>, BTreeMap<String, String>) {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let (mut steps, mut defaults, mut outputs) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let (mut section, mut name, mut inner) = (String::new(), String::new(), String::new());
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indent = line.len() - line.trim_start().len();
        let starts_step = section == "runs" && indent == 4 && line.trim().starts_with("- ");
        let entry = line.trim().trim_start_matches("- ");
        let (key, value) = entry.split_once(':').expect("an entry of a mapping");
        let value = value.trim();
        // A string in quotes, but not a command that happens to end with one.
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = bare.unwrap_or(value).to_owned();
        if starts_step {
            steps.push(Step::default());
            inner.clear();
        }
        match (section.as_str(), indent) {
            (_, 0) => section = key.to_owned(),
            ("inputs" | "outputs", 2) => name = key.to_owned(),
            ("inputs", 4) if key == "default" => {
                defaults.insert(name.clone(), value);
            }
            ("outputs", 4) if key == "value" => {
                outputs.insert(name.clone(), value);
            }
            ("inputs" | "outputs", 4) => {}
            ("runs", 2) => assert!(matches!(key, "using" | "steps"), "{line}"),
            ("runs", 4 | 6) if matches!(key, "env" | "with") => inner = key.to_owned(),
            ("runs", 4 | 6) => {
                let step: &mut Step = steps.last_mut().expect("a step");
                step.entries.insert(key.to_owned(), value);
            }
            ("runs", 8) => {
                let step = steps.last_mut().expect("a step");
                let map = if inner == "env" { &mut step.env } else { &mut step.with };
                map.insert(key.to_owned(), value);
            }
            _ => panic!("not understood: {line}"),
        }
    }
    (steps, defaults, outputs)
}

/// Replaces `${{ … }}` as GitHub does, for the contexts that the action uses. The outputs of its first step
/// stand among the inputs, as `source/NAME`.
fn expanded(text: &str, inputs: &BTreeMap<String, String>, ours: &Path) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (expression, after) = after.split_once("}}").expect("a closed expression");
        out.push_str(before);
        match expression.trim().split_once('.') {
            Some(("inputs", name)) => out.push_str(inputs.get(name).expect("a known input")),
            Some(("github", "action_path")) => out.push_str(&ours.to_string_lossy()),
            Some(("github", "action_ref")) => out.push_str("main"),
            Some(("github", "action_repository")) => out.push_str("my-group/locklab"),
            Some(("steps", output)) => {
                let name = output.strip_prefix("source.outputs.").expect(output);
                out.push_str(&inputs[&format!("source/{name}")]);
            }
            _ => panic!("not understood: {expression}"),
        }
        rest = after;
    }
    out + rest
}

/// Runs the action with these inputs. Gives the code and output of the first step that failed, or of the
/// last; and the outputs.
fn act(place: &Place, given: &[(&str, &str)]) -> (Output, BTreeMap<String, String>) {
    let (steps, mut inputs, outputs) = action();
    inputs.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let mut last = None;
    for step in &steps {
        let Some(run) = step.entries.get("run") else {
            if step.entries["uses"].starts_with("actions/cache@") {
                assert!(step.with["key"].contains("source.outputs.key"));
                continue;
            }
            assert_eq!(step.entries["if"], "always()");
            let kept = place.theirs.join(expanded(&step.with["path"], &inputs, &place.ours));
            let said = last.as_ref().map(stderr).unwrap_or_default();
            assert!(kept.is_dir(), "nothing to upload in {}: {said}", kept.display());
            continue;
        };
        assert_eq!(step.entries["shell"], "bash");
        if last.as_ref().is_some_and(|output: &Output| !output.status.success()) {
            continue;
        }
        let mut env: BTreeMap<String, String> = step
            .env
            .iter()
            .map(|(name, value)| (name.clone(), expanded(value, &inputs, &place.ours)))
            .collect();
        for (name, path) in [
            ("GITHUB_ACTION_PATH", place.ours.clone()),
            ("GITHUB_WORKSPACE", place.theirs.clone()),
            ("GITHUB_STEP_SUMMARY", place.theirs.join("../summary.md")),
            ("GITHUB_OUTPUT", place.theirs.join("../output")),
        ] {
            env.insert(name.to_owned(), path.to_string_lossy().into_owned());
        }
        last = Some(place.script(&expanded(run, &inputs, &place.ours), &env));
        if step.entries.get("id").is_some_and(|id| id == "source") {
            let said = fs::read_to_string(place.theirs.join("../output")).unwrap();
            inputs.extend(said.lines().map(|line| {
                let (name, value) = line.split_once('=').expect("an output");
                (format!("source/{name}"), value.to_owned())
            }));
        }
    }
    let outputs =
        outputs.iter().map(|(name, value)| (name.clone(), expanded(value, &inputs, &place.ours))).collect();
    (last.expect("a step"), outputs)
}

#[test]
fn the_action_runs_gates_and_leaves_its_reports() {
    let place = place();
    let (output, outputs) = act(&place, &[("scenarios", "calm.toml"), ("budget", "kept")]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let page = fs::read_to_string(place.theirs.join(&outputs["report"])).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    let junit = fs::read_to_string(place.theirs.join(&outputs["junit"])).unwrap();
    assert!(junit.contains("<testcase") && junit.contains("calm"), "{junit}");
    let summary = fs::read_to_string(place.theirs.join("../summary.md")).unwrap();
    assert!(summary.contains("calm"), "{summary}");
}

#[test]
fn the_action_fails_by_its_budget_and_leaves_its_reports_all_the_same() {
    let place = place();
    let (output, outputs) =
        act(&place, &[("scenarios", "calm.toml"), ("budget", "broken"), ("out", "kept here")]);
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    assert!(outputs["junit"].starts_with("kept here/"));
    for file in outputs.values() {
        assert!(place.theirs.join(file).is_file(), "{file}");
    }
    let (output, _) = act(&place, &[("scenarios", "no-such-scenario"), ("out", "kept here")]);
    assert_eq!(code(&output), 65, "{}", stderr(&output));
}

/// What a release hands out for this processor, as an address: its archive and the sums.
fn release(place: &Place) -> String {
    let dir = place.theirs.join("../release");
    let name = format!("locklab-{}-{}-unknown-linux-gnu", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    fs::create_dir_all(dir.join(&name)).unwrap();
    let program = dir.join(&name).join("locklab");
    fs::write(&program, "#!/bin/sh\nexec \"$LOCKLAB_UNDER_TEST\" \"$@\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let pack = format!("tar -czf {name}.tar.gz {name} && sha256sum {name}.tar.gz >SHA256SUMS");
    let status = Command::new("sh").args(["-c", &pack]).current_dir(&dir).status();
    assert!(status.unwrap().success());
    format!("file://{}", fs::canonicalize(dir).unwrap().display())
}

#[test]
fn a_release_is_fetched_checked_and_used_without_a_build_and_a_lost_lock_is_an_annotation() {
    let place = place();
    fs::write(place.path.split(':').next().unwrap().to_owned() + "/cargo", "#!/bin/sh\nexit 98\n").unwrap();
    let releases = release(&place);
    let given = [("scenarios", "lost.toml"), ("releases", &releases)];
    let (output, _) = act(&place, &given);
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("::notice title=locklab::"), "{said}");
    assert!(
        said.contains("::error file=lost.toml,line=13,title=locklab lost::the lock was LOST%0A"),
        "{said}"
    );
    // What is not what its sum says is not run.
    fs::remove_dir_all(place.theirs.join("../home")).unwrap();
    let sums = place.theirs.join("../release/SHA256SUMS");
    let wrong = fs::read_to_string(&sums).unwrap().replace(['0', '1'], "2");
    fs::write(&sums, wrong).unwrap();
    let (output, _) = act(&place, &given);
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    assert!(stderr(&output).contains("not what its checksum says"), "{}", stderr(&output));
}

/// The commands under a key of the GitLab job, in order.
fn gitlab_commands(text: &str, key: &str) -> Vec<String> {
    let head = format!("  {key}:");
    let commands: Vec<String> = text
        .lines()
        .skip_while(|line| *line != head)
        .skip(1)
        .map_while(|line| line.strip_prefix("    - "))
        .map(str::to_owned)
        .collect();
    assert!(!commands.is_empty(), "no {key}");
    commands
}

fn gitlab_variables(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .skip_while(|line| *line != "  variables:")
        .skip(1)
        .take_while(|line| line.starts_with("    "))
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| {
            let (name, value) = line.trim().split_once(": ").expect("a variable");
            (name.to_owned(), value.trim_matches('"').to_owned())
        })
        .collect()
}

/// Runs the job with these variables on top of its own.
fn job(place: &Place, given: &[(&str, &str)]) -> Output {
    let text = fs::read_to_string(root().join("ci/locklab.gitlab-ci.yml")).unwrap();
    let project = place.theirs.to_string_lossy().into_owned();
    let mut variables = gitlab_variables(&text);
    variables.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    for value in variables.values_mut() {
        *value = value.replace("$CI_PROJECT_DIR", &project);
    }
    let mut commands = gitlab_commands(&text, "before_script");
    commands.extend(gitlab_commands(&text, "script"));
    place.script(&commands.join("\n"), &variables)
}

#[test]
fn the_gitlab_job_fetches_its_sources_runs_and_leaves_what_it_lists() {
    let place = place();
    let git = |args: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .current_dir(&place.ours)
            .status();
        assert!(status.expect("git runs").success());
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "sources"]);
    let sources = format!("file://{}", place.ours.display());
    let output = job(
        &place,
        &[("LOCKLAB_SCENARIOS", "calm.toml"), ("LOCKLAB_BUDGET", "kept"), ("LOCKLAB_REPOSITORY", &sources)],
    );
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let text = fs::read_to_string(root().join("ci/locklab.gitlab-ci.yml")).unwrap();
    let junit = text.lines().find_map(|line| line.trim().strip_prefix("junit: "));
    assert!(place.theirs.join(junit.expect("a junit report")).is_file());
    assert!(place.theirs.join("locklab-run/report.html").is_file());
}

#[test]
fn the_gitlab_job_says_what_it_lacks_and_takes_sources_that_are_there() {
    let place = place();
    let output = job(&place, &[("LOCKLAB_SCENARIOS", "calm.toml")]);
    assert_ne!(code(&output), 0);
    assert!(stderr(&output).contains("where are the sources of locklab?"), "{}", stderr(&output));
    symlink(&place.ours, place.theirs.join(".locklab")).unwrap();
    let output = job(&place, &[("LOCKLAB_SCENARIOS", "calm.toml"), ("LOCKLAB_BUDGET", "broken")]);
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
}
