//! What text on a terminal is made of: tables that fit its width, and colours that mean something.

use std::ops::Range;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, Width};

use crate::answer::Tone;
use crate::report::cells::{printable, printable_lines};

/// Columns are at least as wide as their longest word, within reason: names and figures are to be copied.
const WORD_MAX: usize = 30;

/// A table without lines around it; columns from `right_from` on hold figures.
pub(super) fn table(width: u16, header: Vec<String>, right_from: usize, rows: Vec<Vec<String>>) -> String {
    let words = |at: usize| {
        let cells = rows.iter().chain([&header]).filter_map(|row| row.get(at));
        cells.flat_map(|cell| cell.split([' ', '\n'])).map(self::width).max().unwrap_or(0).min(WORD_MAX) + 2
    };
    let mut words: Vec<usize> = (0..header.len()).map(words).collect();
    // Where not all fit, names are broken before figures.
    let excess = words.iter().sum::<usize>().saturating_sub(usize::from(width));
    match words.first_mut() {
        Some(name) if *name >= excess + 14 => *name -= excess,
        _ => words.truncate(1),
    }
    let mut table = Table::new();
    table
        .load_style(
            NOTHING.header_separator(LineStyle::none().fill('─')).row_separator(LineStyle::none().fill(' ')),
        )
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(60))
        .set_header(header)
        .add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if let Some(word) = words.get(index) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*word as u16)));
        }
        if index >= right_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// Rows as lines, each column as wide as its widest cell; these columns hold figures.
pub fn columns(rows: &[Vec<String>], figures: Range<usize>) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, wide))| {
            let pad = " ".repeat(wide - self::width(cell));
            if figures.contains(&at) { pad + cell } else { cell.clone() + &pad }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The columns that a text takes: colours take none.
fn width(text: &str) -> usize {
    text.chars().filter(|c| !COLORS.contains(c)).count()
}

/// A line that does not fit, broken at spaces, its other lines indented. No word is cut.
pub(super) fn wrap(line: &str, columns: usize, indent: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let (mut out, mut length) = (String::new(), 0);
    let lead = line.len() - line.trim_start().len();
    out.push_str(&line[..lead]);
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let letters = width(word);
        if length > 0 && lead + length + 1 + letters > columns {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            length = indent.saturating_sub(lead);
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += letters;
    }
    out
}

// Colours travel through the table as invisible characters of no width, so that it measures its cells right;
// text from outside has none of them (`printable`). They become escape sequences, or nothing, at the end.
pub(super) const RED: char = '\u{2061}';
pub(super) const GREEN: char = '\u{2062}';
pub(super) const YELLOW: char = '\u{2063}';
pub(super) const GREY: char = '\u{2065}';
pub(super) const PLAIN: char = '\u{2064}';
const COLORS: [char; 5] = [RED, GREEN, YELLOW, GREY, PLAIN];

pub(super) fn tone_color(tone: Tone) -> char {
    match tone {
        Tone::Lost => RED,
        Tone::Kept => GREEN,
        Tone::Doubt => YELLOW,
        Tone::Detail | Tone::Plain => PLAIN,
    }
}

pub(super) fn paint(color: char, text: &str) -> String {
    format!("{color}{text}{PLAIN}")
}

/// A line that says what a reader must know.
pub(super) fn warning(text: &str) -> String {
    paint(YELLOW, &format!("! {}", printable(text))) + "\n"
}

/// A finished report for a terminal, printable but for its colours; words of more characters are cut.
pub fn printable_report(text: &str, word_max: usize) -> String {
    let mut parts = text.split('\u{1b}');
    let mut out = printable_lines(parts.next().unwrap_or_default(), word_max);
    for part in parts {
        let color = ["[31m", "[32m", "[33m", "[90m", "[0m"].into_iter().find(|color| part.starts_with(color));
        let (mark, color) = color.map_or(("\u{fffd}", ""), |color| ("\u{1b}", color));
        out += &[mark, color, &printable_lines(&part[color.len()..], word_max)].concat();
    }
    out
}

/// Turns the invisible characters into colours, or into nothing.
pub(super) fn finish(text: &str, color: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        for c in line.trim_end().chars() {
            let sequence = match c {
                RED => "\u{1b}[31m",
                GREEN => "\u{1b}[32m",
                YELLOW => "\u{1b}[33m",
                GREY => "\u{1b}[90m",
                PLAIN => "\u{1b}[0m",
                '\u{a0}' => " ",
                c => {
                    out.push(c);
                    continue;
                }
            };
            if color || c == '\u{a0}' {
                out.push_str(sequence);
            }
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    out
}
