//! Checks that links between Markdown files lead somewhere, and that the book is whole where it is hosted by
//! itself.

use std::path::Path;

use crate::Findings;
use crate::files::{below, shown};

/// The book's pages. Nothing outside of this directory is there when the book is hosted.
const BOOK: &str = "docs/src";

/// Every link of every Markdown file, the book's includes, and its summary.
pub(crate) fn check(root: &Path) -> Findings {
    let mut findings = Findings::new();
    let book = root.join(BOOK);
    let summary = std::fs::read_to_string(book.join("SUMMARY.md")).unwrap_or_default();
    for page in below(root, "md") {
        let name = shown(root, &page);
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let dir = page.parent().unwrap_or(root);
        let in_book = dir == book;
        if in_book && !page.ends_with("SUMMARY.md") {
            let file = page.file_name().unwrap_or_default().to_string_lossy();
            if !summary.contains(&format!("({file})")) {
                findings.push(format!("{name}: not in {BOOK}/SUMMARY.md"));
            }
        }
        for link in links(&text) {
            if let Some(why) = broken(link, &page, dir, in_book) {
                findings.push(format!("{name}: {link}: {why}"));
            }
        }
        for file in includes(&text).filter(|file| !dir.join(file).is_file()) {
            findings.push(format!("{name}: {{{{#include {file}}}}}: no such file"));
        }
    }
    findings
}

/// What stands in `](…)`, or behind `[…]: ` where a line begins with that, outside of code blocks, without a
/// title.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    let lines = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    let all = lines.flat_map(|line| {
        let reference = line.split_once("]: ").filter(|_| line.starts_with('['));
        line.split("](").skip(1).chain(reference.map(|(_, target)| target))
    });
    all.filter_map(|rest| rest.split([')', ' ']).next())
}

/// The files that mdbook puts in, without their anchors.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{#include ").skip(1).filter_map(|rest| rest.split([':', '}']).next())
}

fn broken(link: &str, page: &Path, dir: &Path, in_book: bool) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        _ if in_book && file.contains("..") => return Some("leads out of the book"),
        _ => dir.join(file),
    };
    if !target.exists() {
        return Some("no such file");
    }
    let is_page = target.extension().is_some_and(|end| end == "md");
    if anchor.is_empty() || !is_page {
        return None;
    }
    let text = std::fs::read_to_string(&target).unwrap_or_default();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let known = headings.map(anchor_of).any(|known| known == anchor);
    (!known).then_some("no such heading")
}

/// The anchor that a heading gets: letters, digits and hyphens, blanks as hyphens.
fn anchor_of(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code_and_anchors_are_those_of_headings() {
        let text = "[a](b.md \"title\") and [c](#d)\n```\n[no](x.md)\n```\n[e](f#g)\n[`h`]: i.rs \"title\"";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "#d", "f#g", "i.rs"]);
        let page = "{{#include ../../x.toml}} {{#include y.md:part}}";
        assert_eq!(includes(page).collect::<Vec<_>>(), ["../../x.toml", "y.md"]);
        assert_eq!(anchor_of("## Read, write (both)"), "read-write-both");
    }

    #[test]
    fn a_link_that_leads_nowhere_or_out_of_the_book_is_found() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page = dir.join("README.md");
        let why = |link, in_book| broken(link, &page, &dir, in_book);
        assert_eq!(why("CONTRIBUTING.md", false), None);
        assert_eq!(why("nowhere.md", false), Some("no such file"));
        assert_eq!(why("README.md#no-such", false), Some("no such heading"));
        assert_eq!(why("../README.md", true), Some("leads out of the book"));
    }
}
