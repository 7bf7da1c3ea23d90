//! The book's pages of what libraries keep say what the published audits say, and count a conviction only if
//! it came in every repeat.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use results::audit::{AuditOutcome, AuditedRun, AuditedScenario, AuditedSubject, subjects_of};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A page is made of the newest audit whose directory's name ends so.
fn compare_page_with_audit(page: &str, ending: &str) {
    let page = root().join(page);
    let text = fs::read_to_string(&page).expect("the page");
    let (before, rest) = text.split_once("<!-- audit -->\n").expect("the mark");
    let (_, after) = rest.split_once("<!-- /audit -->").expect("the stretch has an end");
    let audits = listed(&root().join("results/published"), "", ending);
    let said = match audits.last() {
        None => "No such audit is published yet.\n".to_owned(),
        Some(newest) => {
            let read = |path: &PathBuf| fs::read_to_string(path).expect("a document of the audit");
            let repeats = listed(newest, "repeats-", ".json");
            let repeats: Vec<String> = repeats.iter().map(read).collect();
            tables(&read(&newest.join("audit.json")), &repeats)
        }
    };
    let wanted = format!("{before}<!-- audit -->\n{said}<!-- /audit -->{after}");
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        return fs::write(&page, &wanted).expect("the page is written");
    }
    assert_eq!(text, wanted, "LOCKLAB_BLESS=1 writes {} anew", page.display());
}

#[test]
fn the_page_of_all_libraries_says_what_the_published_audit_says() {
    compare_page_with_audit("docs/src/what-libraries-keep.md", "-audit");
}

#[test]
fn the_page_of_rust_says_what_the_published_audit_says() {
    compare_page_with_audit("docs/src/rust-libraries.md", "-rust-shelf");
}

/// What is in a directory, of names that begin and end so, in order.
fn listed(directory: &Path, begin: &str, end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).expect("the directory");
    let mut paths: Vec<PathBuf> = files
        .map(|file| file.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(begin) && name.ends_with(end)
        })
        .collect();
    paths.sort();
    paths
}

/// How often a conviction came again, and of how many repeats.
fn repeated(repeats: &[AuditedSubject], subject: &str, scenario: &str) -> (usize, usize) {
    let of_subject = repeats.iter().filter(|one| one.name == subject);
    let scenarios = of_subject.flat_map(|one| &one.scenarios);
    let of_name = scenarios.filter(|one| one.name == scenario);
    let runs: Vec<&AuditedRun> = of_name.flat_map(|one| &one.runs).collect();
    let broken = |run: &&&AuditedRun| run.judged.outcome == AuditOutcome::Broken;
    (runs.iter().filter(broken).count(), runs.len())
}

/// The page's tables: what each library kept, broke and why.
fn tables(audit: &str, repeats: &[String]) -> String {
    let head: Value = serde_json::from_str(audit).expect("JSON");
    let word = |document: &Value, key: &str| document[key].as_str().expect(key).to_owned();
    let mut again = Vec::new();
    let mut commands = word(&head, "command");
    for text in repeats {
        let document: Value = serde_json::from_str(text).expect("JSON");
        commands += &format!("\n{}", word(&document, "command"));
        again.extend(subjects_of(text).expect("an audit"));
    }
    let [made, locklab, servers, machine] =
        ["started_at", "locklab", "servers", "machine"].map(|key| word(&head, key));
    let mut out = format!(
        "Made on {made} with locklab {locklab} and {servers} ({machine}):\n\n```\n{commands}\n```\n\n\
         | library | kept | broken | broken, not each time | inherent | not applicable | unknown |\n|---|---|---|---|---|---|---|\n"
    );
    let mut sections = String::new();
    for subject in subjects_of(audit).expect("an audit") {
        let (name, peer) = (&subject.name, peer_of(&subject.name));
        let always = |one: &&AuditedScenario| {
            let (broken, runs) = repeated(&again, name, &one.name);
            assert!(runs >= 3, "{} by {name} was repeated {runs} times", one.name);
            broken == runs
        };
        let (always, sometimes): (Vec<_>, Vec<_>) = subject.of(AuditOutcome::Broken).partition(always);
        let library = match subject.library.as_str() {
            "" => "this repository's own",
            library => library,
        };
        let (score, sure, others) = (subject.score, always.len(), sometimes.len());
        let row =
            [score.kept, sure as u32, others as u32, score.inherent, score.not_applicable, score.unknown];
        let row = row.map(|count| count.to_string()).join(" | ");
        writeln!(out, "| `{peer}`: {library} | {row} |").expect("text");
        write!(sections, "\n## {peer}\n\n{library}.\n").expect("text");
        for finding in subject.broken_promises() {
            let (step, found) = (&finding.name, plain(&finding.found));
            write!(
                sections,
                "\n**Broken in `conform`: `{step}`.** {found}.\n\n```\nlocklab conform {peer}\n```\n"
            )
            .expect("text");
        }
        for one in always {
            let (_, runs) = repeated(&again, name, &one.name);
            let (about, why) = (plain(&one.about), plain(&one.why));
            write!(
                sections,
                "\n**Broken, {runs} of {runs}: `{}`.** {about} {why}.\n\n```\n{}\n```\n",
                one.name, one.again
            )
            .expect("text");
        }
        for one in sometimes {
            let (broken, runs) = repeated(&again, name, &one.name);
            let scenario = &one.name;
            write!(sections, "\nBroken once, and in {broken} of {runs} repeats: `{scenario}`.\n")
                .expect("text");
        }
        for outcome in AuditOutcome::ALL {
            let names = subject.of(outcome).map(|one| format!("`{}`", one.name));
            let names: Vec<String> = names.collect();
            if outcome != AuditOutcome::Broken && !names.is_empty() {
                let (glyph, word, names) = (outcome.glyph(), outcome.word(), names.join(", "));
                write!(sections, "\n{glyph} {word}: {names}.\n").expect("text");
            }
        }
    }
    out + &sections
}

/// The name of a peer. An audit by a program that does not know the peer yet has its driver's command.
fn peer_of(name: &str) -> String {
    let folder = name.strip_prefix("exec:drivers/peers/").and_then(|rest| rest.strip_suffix("/run"));
    folder.map_or_else(|| name.to_owned(), |folder| format!("peer:{folder}"))
}

/// What Markdown and HTML would read as marks is shown as it is.
fn plain(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('*', "\\*").replace('_', "\\_")
}

#[test]
fn a_conviction_that_did_not_come_each_time_is_not_among_those_that_did() {
    let audit = |runs: &[&str]| {
        let run =
            |outcome: &&str| json!({"seed": 1, "dir": "d", "outcome": outcome, "verdicts": {}, "why": "w"});
        let runs: Vec<Value> = runs.iter().map(run).collect();
        let scenario = json!({"name": "late", "topology": "single", "about": "Late.", "claim": "c", "outcome": "broken",
            "verdicts": {}, "why": "held <twice>", "again": "locklab chaos late", "runs": runs});
        let score = json!({"kept": 0, "broken": 1, "inherent": 0, "not-applicable": 0, "unknown": 0});
        json!({"started_at": "now", "locklab": "1", "servers": "redis 7", "machine": "m", "command": "locklab audit",
            "subjects": [{"name": "peer:x", "scenarios": [scenario], "score": score}]})
        .to_string()
    };
    let first = audit(&["broken"]);
    let always = tables(&first, &[audit(&["broken", "broken", "broken"])]);
    assert!(always.contains("**Broken, 3 of 3: `late`.** Late. held &lt;twice>."), "{always}");
    assert!(always.contains("| 0 | 1 | 0 | 0 | 0 | 0 |"), "{always}");
    let twice = tables(&first, &[audit(&["broken"]), audit(&["kept", "broken"])]);
    assert!(!twice.contains("**Broken"), "{twice}");
    assert!(twice.contains("in 2 of 3 repeats: `late`"), "{twice}");
    assert_eq!(peer_of("exec:drivers/peers/rdlock/run"), "peer:rdlock");
    let few = std::panic::catch_unwind(|| tables(&first, &[audit(&["broken", "broken"])]));
    assert!(few.is_err(), "two repeats are too few");
}
