//! `locklab init`: what keeps a lock judged from now on: `locklab.toml`, a scenario, a budget, and a workflow
//! that runs them.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use chaos::builtin;
use chaos::scenario::Scenario;
use clap::Args;
use cluster_config::TopologyKind;
use serde_json::json;

use crate::exit;
use crate::files;
use crate::project;
use crate::terminal::Terminal;

/// Flags of `init`; on a terminal it asks for what they do not say.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The lock: a program around it ('python3 driver.py'), or a name of `locklab list subjects`
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Your own servers by URL, or @FILE with one, instead of servers that each run starts
    #[arg(long, value_name = "URL|@FILE")]
    target: Option<String>,
    /// The servers that the scenario starts and breaks [default: single]
    #[arg(long, value_name = "TOPOLOGY", conflicts_with = "target", value_parser = ["single", "sentinel", "cluster", "masters"])]
    topology: Option<String>,
    /// The file of conditions that a run must keep; one is written if it is not there [default: locks.budget]
    #[arg(long, value_name = "FILE")]
    budget: Option<String>,
    /// Whose workflow [default: gitlab where .gitlab-ci.yml is, else github]
    #[arg(long, value_name = "CI", value_parser = ["github", "gitlab"])]
    ci: Option<String>,
    /// Write over files that are there
    #[arg(long)]
    force: bool,
}

const SCENARIO: &str = "locks.toml";
const BUDGET: &str = "locks.budget";

/// A condition that a sound lock meets on any machine.
const CONDITIONS: &str = include_str!("../../../templates/locks.budget");

/// The built-in scenario that becomes the project's own, by its servers.
fn scenario_of(topology: &str) -> &'static str {
    match topology {
        "sentinel" => "failover-wait-all",
        "cluster" => "failover-wait-all-cluster",
        "masters" => "masters-restart-aof",
        "single" => "crash-single-aof",
        // Servers of one's own are not killed.
        _ => "client-pause",
    }
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let is_interactive = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let ask = |given: Option<String>, question: &str, usual: &str| match given {
        Some(given) => Ok(given),
        None if is_interactive => ask_user(question, usual, terminal),
        None => Ok(usual.to_owned()),
    };
    let subject = ask(options.subject, "your lock, as 'python3 driver.py'", "")?;
    if subject.is_empty() {
        return Err(exit::usage(
            "which lock? locklab init 'python3 driver.py', or a name of `locklab list subjects`; `locklab new-driver` writes a driver",
        ));
    }
    let subject = bench::subjects::typed(&subject);
    bench::subjects::find(&subject)?;
    let target = options.target;
    if let Some(url) = target.as_deref().filter(|url| !url.starts_with('@')) {
        url.parse::<lock_core::Target>().map_err(exit::usage)?;
        if results::secrets::redact(url) != url {
            return Err(exit::usage(
                "the URL has a password, which does not belong in a file of a repository: put it into a file that is not kept, and say --target @FILE",
            ));
        }
    }
    let topology = match &target {
        Some(_) => "target".to_owned(),
        None => ask(options.topology, "its servers: single, sentinel, cluster or masters", "single")?,
    };
    if target.is_none() && topology.parse::<TopologyKind>().is_err() {
        return Err(exit::usage(format!(
            "there is no topology `{topology}`, but single, sentinel, cluster and masters"
        )));
    }
    let budget = ask(options.budget, "the file of conditions that a run must keep", BUDGET)?;
    let gitlab = Path::new(".gitlab-ci.yml").is_file();
    let ci = options.ci.unwrap_or_else(|| if gitlab { "gitlab" } else { "github" }.to_owned());

    let mut texts = vec![
        (project::FILE.to_owned(), project_text(&subject, target.as_deref(), &budget)),
        (SCENARIO.to_owned(), scenario_text(scenario_of(&topology))?),
        workflow(&ci, &subject, &budget, target.is_some()),
    ];
    if !Path::new(&budget).is_file() {
        texts.push((budget, CONDITIONS.to_owned()));
    }
    let there = texts.iter().find(|(path, _)| Path::new(path).exists());
    if let Some((path, _)) = there.filter(|_| !options.force) {
        return Err(exit::usage(format!(
            "{path} is there already, and nothing was written; --force writes over it"
        )));
    }
    for (path, text) in &texts {
        if let Some(dir) = Path::new(path).parent() {
            std::fs::create_dir_all(dir).map_err(exit::unwritable)?;
        }
        files::write(path, text)?;
    }
    let paths: Vec<&str> = texts.iter().map(|(path, _)| path.as_str()).collect();
    terminal.answer(&json!({"schema": 1, "files": paths}), || {
        format!(
            "wrote {}\nnext: `locklab audit` judges the lock, `locklab chaos` runs {SCENARIO}; `locklab.toml` says with what",
            paths.join(", ")
        )
    })
}

/// A line of standard input; what is usual where it is empty.
fn ask_user(question: &str, usual: &str, terminal: &Terminal) -> anyhow::Result<String> {
    let shown = match usual {
        "" => String::new(),
        usual => format!(" [{usual}]"),
    };
    terminal.note(&format!("{question}{shown}:"));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(match line.trim() {
        "" => usual.to_owned(),
        line => line.to_owned(),
    })
}

/// A template with each `{word}` replaced.
fn filled(template: &str, words: &[(&str, &str)]) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (word, rest) in parts.filter_map(|part| part.split_once('}')) {
        let found = words.iter().find(|(known, _)| *known == word);
        text += found.map_or("", |(_, with)| with);
        text += rest;
    }
    text
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn project_text(subject: &str, target: Option<&str>, budget: &str) -> String {
    let target = target.map_or_else(String::new, |target| format!("target = {}\n", quoted(target)));
    let (subject, budget) = (quoted(subject), quoted(budget));
    let words = [("subject", &*subject), ("target", &target), ("scenario", SCENARIO), ("budget", &budget)];
    filled(include_str!("../../../templates/locklab.toml"), &words)
}

/// A built-in scenario under the project's own name.
fn scenario_text(name: &str) -> anyhow::Result<String> {
    let found = builtin::find(name).ok_or_else(|| anyhow::anyhow!("no scenario `{name}`"))?;
    let own = SCENARIO.trim_end_matches(".toml");
    let text = found.text.replacen(&format!("name = \"{name}\""), &format!("name = \"{own}\""), 1);
    // What is for audits of any lock does not belong to a file of one.
    let text = text.split("\n[audit]").next().unwrap_or_default();
    Scenario::parse(SCENARIO, text)?;
    Ok(format!(
        "# Yours to change, by *Scenario files* of locklab's book. It began as the built-in scenario {name}.\n{}\n",
        text.trim_end()
    ))
}

/// The workflow's path and text.
fn workflow(ci: &str, subject: &str, budget: &str, has_target: bool) -> (String, String) {
    let address = option_env!("LOCKLAB_REPOSITORY");
    let note = address.map_or(" `my-group/locklab` is your copy of it.", |_| "");
    let address = address.unwrap_or("https://github.com/my-group/locklab");
    let action = address.rsplitn(3, '/').take(2).collect::<Vec<_>>();
    let servers = match has_target {
        true => "        # The servers of `target` in locklab.toml must be within reach of the runner.\n",
        false => "",
    };
    let words = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("address", address),
        ("note", note),
        ("action", &format!("{}/{}", action[1], action[0])),
        ("servers", servers),
        ("scenario", SCENARIO),
        ("subject", &quoted(subject)),
        ("budget", budget),
    ];
    let (path, template) = match ci {
        "gitlab" => ("locks.gitlab-ci.yml", include_str!("../../../templates/locks.gitlab-ci.yml")),
        _ => (".github/workflows/locks.yml", include_str!("../../../templates/locks.yml")),
    };
    (path.to_owned(), filled(template, &words))
}
