//! Asks Porcupine about histories, where Go is there, and compares its answers with our checkers'.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use chaos::checkers::{CheckOptions, Record, belief, confirmed, contract, porcupine};
use results::history::History;

/// Histories that both judges are to be asked about, by name.
pub(crate) struct BothJudges {
    histories: Vec<(String, Record)>,
}

impl BothJudges {
    /// Those of the tests of our checkers.
    pub(crate) fn small_histories() -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../chaos/tests/histories");
        let mut files: Vec<_> = fs::read_dir(dir)
            .expect("the small histories")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        let mut both = Self { histories: Vec::new() };
        for file in files {
            let text = fs::read_to_string(&file).expect("a history");
            both.add(file.display().to_string(), &text);
        }
        both
    }

    /// Takes another.
    pub(crate) fn add(&mut self, name: String, text: &str) {
        let history = History::parse(text).expect("a history");
        self.histories.push((name, Record::of(&history)));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.histories.len()
    }

    /// Where the two differ, and how often each class was violated; `None` where Go or Porcupine is not to be
    /// had.
    pub(crate) fn ask(&self) -> Option<(String, [usize; 3])> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let program = dir.path().join("judge");
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers/porcupine");
        let built =
            Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(sources).status();
        if !built.is_ok_and(|status| status.success()) {
            return None;
        }
        let mut judge = Command::new(program);
        for (number, (_, record)) in self.histories.iter().enumerate() {
            let mut lines = String::new();
            for operation in porcupine::operations(record) {
                let line = serde_json::to_string(&operation).expect("JSON");
                writeln!(lines, "{line}").expect("it is written to memory");
            }
            let file = dir.path().join(format!("{number}.jsonl"));
            fs::write(&file, lines).expect("a file");
            judge.arg(file);
        }
        let output = judge.output().expect("the judge runs");
        let answers = String::from_utf8(output.stdout).expect("text");
        let answers: Vec<&str> = answers.lines().collect();
        assert_eq!(answers.len(), self.histories.len(), "{}", String::from_utf8_lossy(&output.stderr));
        let (mut differences, mut violated) = (String::new(), [0; 3]);
        for ((name, record), answer) in self.histories.iter().zip(answers) {
            let found = answer.split_once(": ").map_or("", |(_, found)| found);
            let options = CheckOptions::default();
            let judges = [
                ("belief", belief::check(record, &options)),
                ("contract", contract::check(record, &options)),
                ("confirmed", confirmed::check(record, &options)),
            ];
            for (class, (word, findings)) in judges.into_iter().enumerate() {
                // A grant that came too late is not a matter of order.
                let mut anomalies = findings.iter().flat_map(|finding| &finding.anomalies);
                let ours = anomalies.any(|anomaly| anomaly.what == "overlap");
                let theirs = found.split(' ').any(|found| found == word);
                violated[class] += usize::from(ours);
                // What it could not find out in time ends in a question mark.
                let answered = !found.split(' ').any(|found| found == format!("{word}?"));
                if answered && ours != theirs {
                    let _ = writeln!(differences, "{name}: {word}: we say {ours}; {answer}");
                }
            }
        }
        Some((differences, violated))
    }
}
