//! The command line of a run: what it asked for, and the line that makes the run again.

use itertools::Itertools;

use crate::record::run::Run;

/// A command line that a shell reads back as the same words.
pub fn shell_line(words: &[String]) -> String {
    // By hand, since shell-words quotes `=` too, and a line full of quotation marks is hard to read.
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| match word.chars().all(plain) {
        true if !word.is_empty() => word.clone(),
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.format(" ").to_string()
}

/// The words of a run's command line without those options and their values.
fn without(run: &Run, options: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = run.meta.command_line.iter();
    while let Some(word) = rest.next() {
        if options.contains(&word.as_str()) {
            rest.next();
        } else if !options
            .iter()
            .any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
        {
            words.push(word.clone());
        }
    }
    words
}

/// What was asked, by which runs are alike: the words without the program, the seed and the directory.
pub(crate) fn question(run: &Run) -> Vec<String> {
    without(run, &["--seed", "--out"]).into_iter().skip(1).collect()
}

/// The line that makes a run again elsewhere: with its seed, and without its directory.
pub(crate) fn again(run: &Run) -> String {
    let mut words = without(run, &["--out"]);
    let seeded = words.iter().any(|word| word == "--seed" || word.starts_with("--seed="));
    // What is rendered or joined draws nothing.
    if !seeded && !words.is_empty() && run.meta.seed != 0 {
        words.extend(["--seed".to_owned(), run.meta.seed.to_string()]);
    }
    shell_line(&words)
}
