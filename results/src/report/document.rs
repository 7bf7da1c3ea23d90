//! What a document says, whatever its form: sections, paragraphs, lists, facts, tables, figures and folds.
//! `sections/` describes a run with them, each thing once; `html`, `markdown` and `text` render it.

use super::two_owners::TwoOwners;
use crate::answer::Tone;
use crate::record::figure;
use crate::record::verdict::{State, Verdict};
use crate::svg::Chart;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Html,
    Markdown,
    Text,
}

pub(super) const PAGE: &[Form] = &[Form::Html];
pub(super) const PLAIN: &[Form] = &[Form::Markdown, Form::Text];
pub(super) const ALL: &[Form] = &[Form::Html, Form::Markdown, Form::Text];

#[derive(Clone)]
pub(super) struct Phrase {
    pub(super) text: String,
    pub(super) tone: Tone,
    pub(super) label: String,
    pub(super) about: String,
    pub(super) link: String,
}

impl Phrase {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone, label: String::new(), about: String::new(), link: String::new() }
    }

    pub(super) fn verdict(verdict: &Verdict) -> Self {
        Self::new(tone(verdict.state), super::cells::verdict(verdict))
    }

    pub(super) fn comparison(word: &str) -> Self {
        let tone = match word {
            "better" => Tone::Kept,
            "worse" => Tone::Lost,
            _ => Tone::Plain,
        };
        Self::new(tone, word)
    }

    pub(super) fn to(mut self, link: impl Into<String>) -> Self {
        self.link = link.into();
        self
    }
}

impl<T: Into<String>> From<T> for Phrase {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

pub(super) fn tone(state: State) -> Tone {
    match state {
        State::Clean => Tone::Kept,
        State::Unknown => Tone::Doubt,
        State::Violated => Tone::Lost,
    }
}

pub(super) type Fact = (&'static str, String);

#[derive(Clone)]
pub(super) enum Block {
    Section(Section),
    Heading(String),
    Paragraph(&'static str, Vec<Phrase>),
    List(Vec<Vec<Phrase>>),
    /// What limits trust; never folded away.
    Warnings(&'static str, Vec<String>),
    Facts(Vec<Fact>),
    Table(Table),
    Chart(Figure),
    Owners(TwoOwners),
    Fold(Fold),
    /// Lines to be copied, and their language.
    Code(&'static str, String),
    Group(Group),
}

#[derive(Clone, Default)]
pub(super) struct Section {
    /// Where links lead; also what the list of contents knows it by.
    pub(super) id: String,
    pub(super) title: String,
    /// What stands behind the title in small letters.
    pub(super) aside: String,
    pub(super) class: &'static str,
    pub(super) body: Vec<Block>,
}

/// A picture: as SVG with an id of its own, and as a Mermaid diagram where it has that form.
#[derive(Clone)]
pub(super) struct Figure {
    pub(super) chart: Chart,
    pub(super) id: String,
    pub(super) mermaid: String,
}

/// What is hidden behind a line, but in those forms. Text, which cannot unfold, leaves it out.
#[derive(Clone)]
pub(super) struct Fold {
    pub(super) summary: Vec<Phrase>,
    pub(super) open: &'static [Form],
    pub(super) body: Vec<Block>,
}

/// Blocks that belong together: where they are shown, and which kind of part a page may leave out.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) forms: &'static [Form],
    pub(super) part: String,
    pub(super) body: Vec<Block>,
}

#[derive(Clone, Default)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) class: &'static str,
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Default)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) about: String,
    /// Whether it holds figures, which stand at the right.
    pub(super) figures: bool,
}

#[derive(Clone, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// Its figures may not be quoted.
    pub(super) dim: bool,
    pub(super) part: String,
    /// What the page has behind it, and under which words.
    pub(super) behind: Option<(&'static str, Vec<Vec<Phrase>>)>,
}

#[derive(Clone, Default)]
pub(super) struct Cell {
    pub(super) words: Vec<Phrase>,
    pub(super) small: Vec<String>,
    /// What to sort by; empty where there is no figure, which sorts last.
    pub(super) key: String,
}

impl Head {
    pub(super) fn new(name: &str, about: &str, figures: bool) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), figures }
    }
}

impl<T> From<&figure::Figure<T>> for Head {
    fn from(figure: &figure::Figure<T>) -> Self {
        Self::new(figure.head, figure.about, true)
    }
}

impl<T: Into<Phrase>> From<T> for Cell {
    fn from(words: T) -> Self {
        Self { words: vec![words.into()], ..Self::default() }
    }
}

impl Cell {
    pub(super) fn with_small(mut self, small: impl IntoIterator<Item = String>) -> Self {
        self.small.extend(small.into_iter().filter(|line| !line.is_empty()));
        self
    }
}

impl<T: Into<Cell>> FromIterator<T> for Row {
    fn from_iter<I: IntoIterator<Item = T>>(cells: I) -> Self {
        Self { cells: cells.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl Table {
    /// A table with headings of words; those from `figures_from` on hold figures.
    pub(super) fn new<'a>(
        title: &str,
        heads: impl IntoIterator<Item = &'a str>,
        figures_from: usize,
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        let heads = heads.into_iter().enumerate();
        let heads = heads.map(|(index, name)| Head::new(name, "", index >= figures_from));
        Self { title: title.to_owned(), class: "", heads: heads.collect(), rows: rows.into_iter().collect() }
    }

    /// Leaves out columns in which nothing stands.
    pub(super) fn trimmed(mut self) -> Self {
        for column in (1..self.heads.len()).rev() {
            let is_empty = |row: &Row| row.cells[column].words.iter().all(|words| words.text == "–");
            if self.rows.iter().all(is_empty) {
                self.heads.remove(column);
                for row in &mut self.rows {
                    row.cells.remove(column);
                }
            }
        }
        self
    }
}

impl Block {
    pub(super) fn section(id: &str, title: &str, body: Vec<Block>) -> Self {
        Self::Section(Section { id: id.to_owned(), title: title.to_owned(), body, ..Section::default() })
    }

    pub(super) fn note(words: impl Into<Phrase>) -> Self {
        Self::Paragraph("note", vec![words.into()])
    }

    /// What is hidden behind a line, in every form.
    pub(super) fn fold(summary: impl Into<Phrase>, body: Vec<Block>) -> Self {
        Self::Fold(Fold { summary: vec![summary.into()], open: &[], body })
    }

    pub(super) fn list<T: Into<Phrase>>(lines: impl IntoIterator<Item = T>) -> Self {
        let lines = lines.into_iter().map(|line| vec![line.into()]);
        Self::List(lines.collect())
    }

    pub(super) fn chart(chart: Chart, id: impl Into<String>) -> Self {
        Self::Chart(Figure { chart, id: id.into(), mermaid: String::new() })
    }

    pub(super) fn only(forms: &'static [Form], body: Vec<Block>) -> Self {
        Self::Group(Group::new(forms, body))
    }

    /// Blocks that a page leaves out to stay small, as its kind says.
    pub(super) fn part(part: impl Into<String>, body: Vec<Block>) -> Self {
        Self::Group(Group { part: part.into(), ..Group::new(ALL, body) })
    }
}

impl Group {
    pub(super) fn new(forms: &'static [Form], body: Vec<Block>) -> Self {
        Self { id: String::new(), forms, part: String::new(), body }
    }
}

/// What a form shows of blocks: nothing that is for others, and nothing in which nothing is left.
pub(super) fn shown_in(form: Form, blocks: Vec<Block>) -> Vec<Block> {
    let shown = blocks.into_iter().flat_map(|mut block| {
        let is_there = match &mut block {
            Block::Group(group) if !group.forms.contains(&form) => false,
            Block::Fold(fold) if form == Form::Text && !fold.open.contains(&form) => false,
            Block::Group(Group { body, .. })
            | Block::Fold(Fold { body, .. })
            | Block::Section(Section { body, .. }) => {
                *body = shown_in(form, std::mem::take(body));
                // A heading of nothing, too.
                body.iter().any(|block| !matches!(block, Block::Heading(_)))
            }
            Block::List(lines) => !lines.is_empty(),
            Block::Warnings(_, lines) => !lines.is_empty(),
            Block::Table(table) => !table.rows.is_empty(),
            Block::Facts(facts) => {
                facts.retain(|(_, value)| !value.is_empty());
                !facts.is_empty()
            }
            Block::Paragraph(_, words) => {
                words.retain(|words| !words.text.is_empty());
                !words.is_empty()
            }
            Block::Code(_, text) => !text.is_empty(),
            Block::Chart(_) if form == Form::Html => true,
            Block::Chart(figure) => form == Form::Markdown && !figure.mermaid.is_empty(),
            Block::Heading(_) | Block::Owners(_) => true,
        };
        match block {
            _ if !is_there => Vec::new(),
            Block::Group(Group { id, part, body, .. }) if id.is_empty() && part.is_empty() => body,
            block => vec![block],
        }
    });
    shown.collect()
}
