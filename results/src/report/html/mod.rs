//! The page for a browser: no file beside it, no network, readable without JavaScript and on paper.
//!
//! `templates/page.html` is the page around the sections, `templates/blocks.html` each kind of block.

mod fit;

use askama::Template;

use super::cells;
use super::document::{Block, Form, Phrase, shown_in};
use super::sections;
use crate::answer::{self, Tone};
use crate::record::run::Run;
use crate::svg;

const CSS: &str = include_str!("../../../templates/report.css");
const JS: &str = include_str!("../../../templates/report.js");

const ELSEWHERE: &str = "<code>locklab report RUN --scenario NAME</code> makes the page of one scenario, with its charts and proofs; \
                         the run’s own <code>run.json</code> and <code>--format json</code> have everything.";

pub(super) fn render(run: &Run) -> Result<String, String> {
    let blocks = shown_in(Form::Html, sections::of(run));
    // The first screen ends where the list of contents stands.
    let is_first = |block: &&Block| match block {
        Block::Section(section) => section.id == "matrix-h",
        block => matches!(block, Block::Owners(_)),
    };
    let (first, rest) = blocks.split_at(blocks.iter().take_while(is_first).count());
    let kicker = match &run.audit {
        Some(audit) => format!("audit, suite {}", audit.suite),
        None => run.command.clone(),
    };
    let page = Page { run, kicker, first, rest };
    Ok(fit::fit(&page.render().map_err(|error| error.to_string())?, ELSEWHERE) + "\n")
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    run: &'a Run,
    kicker: String,
    first: &'a [Block],
    rest: &'a [Block],
}

#[derive(Template)]
#[template(path = "blocks.html")]
struct Blocks<'a>(&'a [Block]);

#[derive(Template)]
#[template(path = "words.html")]
struct InLine<'a>(&'a Phrase);

impl InLine<'_> {
    fn class(&self) -> &'static str {
        tone_class(&self.0.tone)
    }

    fn is_plain(&self) -> bool {
        let words = self.0;
        let said = [&words.about, &words.label, &words.link];
        words.tone == Tone::Plain && said.iter().all(|text| text.is_empty())
    }
}

fn tone_class(tone: &Tone) -> &'static str {
    match tone {
        Tone::Lost => "lost",
        Tone::Kept => "kept",
        Tone::Doubt => "doubt",
        Tone::Detail | Tone::Plain => "plain",
    }
}

/// A heading as the beginning of a line: in capitals but for `p99` and the name of a lock.
fn capital(name: &str) -> String {
    if name.contains(':') {
        return name.to_owned();
    }
    let mut letters = name.chars();
    match letters.next() {
        Some('p') if letters.as_str().starts_with(|c: char| c.is_ascii_digit()) => name.to_owned(),
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
