//! Renders a document as Markdown, for the summary of a CI job or a comment on a change.

use itertools::Itertools;

use super::cells::{self, printable};
use super::document::{Block, Cell, Form, Phrase, Table, shown_in};
use super::sections;
use crate::answer;
use crate::record::run::Run;
use crate::wording::units::enclosed;

/// Most diagrams per document: the summary of a CI job may have a megabyte.
const DRAWN_MAX: usize = 20;

pub(super) fn render(run: &Run) -> String {
    let mut drawn = 0;
    let (title, answer) = (escaped(&run.run), escaped(&answer::answer(run)));
    let small = enclosed("<sub>", &escaped(&cells::small(run)), "</sub>\n\n");
    let body = blocks(&shown_in(Form::Markdown, sections::of(run)), &mut drawn);
    format!("# {title}\n\n**{answer}**\n\n{small}{body}\n")
}

fn blocks(all: &[Block], drawn: &mut usize) -> String {
    all.iter().map(|one| block(one, drawn)).collect_vec().iter().filter(|text| !text.is_empty()).join("\n\n")
}

fn block(block: &Block, drawn: &mut usize) -> String {
    match block {
        Block::Section(section) => {
            let aside = enclosed(" (", &escaped(&section.aside), ")");
            let body = blocks(&section.body, drawn);
            format!("## {}{aside}\n\n{body}", escaped(&section.title))
        }
        Block::Heading(title) => format!("### {}", escaped(title)),
        Block::Paragraph(_, said) => words(said, " "),
        Block::List(lines) => lines.iter().map(|line| format!("- {}", words(line, " "))).join("\n"),
        Block::Warnings(_, lines) => lines.iter().map(|line| format!("> {}", escaped(line))).join("\n\n"),
        Block::Facts(facts) => {
            facts.iter().map(|(name, value)| format!("{name}: {}", escaped(value))).collect_vec().join("; ")
        }
        Block::Table(of) => table(of),
        Block::Chart(figure) => {
            *drawn += 1;
            if *drawn <= DRAWN_MAX { format!("```mermaid\n{}```", figure.mermaid) } else { String::new() }
        }
        Block::Owners(two) => escaped(&two.words),
        Block::Fold(fold) => {
            let open = if fold.open.contains(&Form::Markdown) { " open" } else { "" };
            let (summary, body) = (words(&fold.summary, " "), blocks(&fold.body, drawn));
            format!("<details{open}><summary>{summary}</summary>\n\n{body}\n\n</details>")
        }
        Block::Code(language, text) => {
            let mut lines = text.lines().map(|line| printable(line).replace("```", "` ` `"));
            format!("```{language}\n{}\n```", lines.join("\n"))
        }
        Block::Group(group) => blocks(&group.body, drawn),
    }
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heads = table.heads.iter().map(|head| escaped(&head.name)).collect();
    let rule = table.heads.iter().map(|head| if head.figures { "--:" } else { "---" });
    let rule = rule.map(str::to_owned).collect();
    let rows = table.rows.iter().map(|row| {
        let mark = if row.dim { "✗ " } else { "" };
        line(row.cells.iter().map(cell).collect_vec()).replacen("| ", &format!("| {mark}"), 1)
    });
    [line(heads), line(rule)].into_iter().chain(rows).join("\n")
}

fn cell(cell: &Cell) -> String {
    let small = cell.small.iter().map(|line| format!("<sub>{}</sub>", escaped(line)));
    std::iter::once(words(&cell.words, "<br>")).chain(small).join("<br>")
}

fn words(all: &[Phrase], between: &str) -> String {
    let said = all.iter().map(|one| {
        let label = enclosed("", &escaped(&one.label), ": ");
        label + &escaped(&one.text)
    });
    said.collect_vec().join(between)
}

/// Text that is neither markup nor the end of a cell.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
