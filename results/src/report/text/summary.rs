//! All of a run as text: the sections of every form, below each other, within the terminal's width.

use itertools::Itertools;

use super::text_layout::{finish, paint, table, tone_color, wrap};
use super::{TextOptions, headline};
use crate::answer::Tone;
use crate::record::proof::Proof;
use crate::record::run::Run;
use crate::report::cells::{printable, rates};
use crate::report::document::{Block, Cell, Form, Phrase, Table, shown_in};
use crate::report::sections;
use crate::wording::units::enclosed;

/// The summary: the answer, and behind it everything that the other forms have and text can show.
pub fn summary(run: &Run, options: TextOptions) -> String {
    let body = blocks(sections::of(run), options.width);
    finish(&format!("{}\n{body}", headline(run, true)), options.color)
}

/// The proof of every violated verdict of every scenario, each drawn, with the lines that convict.
pub fn proofs(run: &Run) -> String {
    let proofs = run.scenarios.iter().flat_map(|scenario| {
        scenario.verdicts.iter().filter_map(move |(class, verdict)| {
            let proof = verdict.proof.as_ref().map(Proof::text)?;
            let title = format!("{} (seed {}): {class}", scenario.name, scenario.seed);
            let rates = rates(verdict).unwrap_or_default();
            let lines: String = proof.lines().map(|line| printable(line) + "\n").collect();
            Some(format!("\n{}\n{}{lines}", printable(&title), enclosed("  ", &rates, "\n")))
        })
    });
    match proofs.collect::<String>() {
        none if none.is_empty() => "nothing is violated, so there is nothing to prove\n".to_owned(),
        proofs => proofs,
    }
}

pub(super) fn blocks(all: Vec<Block>, width: u16) -> String {
    rendered(&shown_in(Form::Text, all), usize::from(width.max(60))) + "\n"
}

fn rendered(all: &[Block], width: usize) -> String {
    all.iter().map(|one| block(one, width)).collect_vec().join("\n\n")
}

fn block(block: &Block, width: usize) -> String {
    match block {
        Block::Section(section) => {
            let aside = enclosed(" (", &printable(&section.aside), ")");
            let title = printable(&section.title);
            format!("{title}{aside}\n\n{}", rendered(&section.body, width))
        }
        Block::Heading(title) => printable(title),
        Block::Paragraph(_, said) => wrap(&words(said), width, 0),
        Block::List(lines) => {
            lines.iter().map(|line| wrap(&format!("- {}", words(line)), width, 2)).collect_vec().join("\n")
        }
        Block::Warnings(_, lines) => {
            let lines = lines.iter().map(|line| super::text_layout::warning(line));
            lines.collect::<String>().trim_end().to_owned()
        }
        Block::Facts(facts) => {
            facts.iter().map(|(name, value)| format!("{name}: {}", printable(value))).collect_vec().join("\n")
        }
        Block::Table(of) => tabled(of, width),
        Block::Chart(_) | Block::Owners(_) => String::new(),
        Block::Fold(fold) => {
            let body = rendered(&fold.body, width.saturating_sub(4));
            let body = body.lines().map(|line| format!("    {line}"));
            format!("{}\n{}", words(&fold.summary), body.format("\n"))
        }
        Block::Code(_, text) => text.lines().map(printable).join("\n"),
        Block::Group(group) => rendered(&group.body, width),
    }
}

fn tabled(of: &Table, width: usize) -> String {
    let first = of.heads.first().map(|head| head.name.to_uppercase());
    let heads = of.heads.iter().skip(1).map(|head| printable(&head.name));
    let rows = of.rows.iter().map(|row| {
        let mut cells = row.cells.iter().enumerate().map(|(at, one)| cell(one, at > 0)).collect_vec();
        if row.dim {
            cells[0] = format!("✗\u{a0}{}", cells[0]);
        }
        cells
    });
    let from = of.heads.iter().position(|head| head.figures).unwrap_or(usize::MAX);
    table(width as u16, first.into_iter().chain(heads).collect(), from, rows.collect())
}

/// Words above smaller lines; those of a verdict or a figure stay together.
fn cell(cell: &Cell, is_short: bool) -> String {
    let together = |text: String| match is_short && text.chars().count() < 16 {
        true => text.replace(' ', "\u{a0}"),
        false => text,
    };
    let small = cell.small.iter().map(|line| together(printable(line)));
    std::iter::once(together(words(&cell.words))).chain(small).join("\n")
}

fn words(all: &[Phrase]) -> String {
    let said = all.iter().map(|one| match one.tone {
        Tone::Plain | Tone::Detail => printable(&one.text),
        tone => paint(tone_color(tone), &printable(&one.text)),
    });
    said.collect_vec().join(" ")
}
