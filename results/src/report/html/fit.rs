//! What a page leaves out to stay small enough to be mailed and attached, and what it then says.
//!
//! A template marks what may go, `<!--part KIND-->` … `<!--/part-->`, one inside of another too; here is which kind goes first. No text from
//! outside can be such a mark, an id or a link, since its `<` and `"` are escaped.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::iter::successors;

use itertools::Itertools;

use crate::units;

/// A page that would be larger, in bytes, leaves something out; with what it says of that it stays below 500 kB.
const LARGEST: usize = 490_000;

/// Kinds of parts, what a reader misses least first. A second word says whose part it is, see [`whose`].
const ORDER: [&str; 25] = [
    "charts clean",
    "charts convicted",
    "lines convicted",
    "curves",
    "details clean",
    "details convicted",
    "charts surprising",
    "lines surprising",
    "section clean",
    "more",
    "benchmarks",
    "entry",
    "sequence convicted",
    "section convicted",
    "details surprising",
    "sequence broken",
    "sequence surprising",
    "section surprising",
    "section broken",
    "reason",
    "table",
    "measured",
    "row clean",
    "row convicted",
    "row surprising",
];

fn what(kind: &str) -> &'static str {
    match kind.split(' ').next().unwrap_or(kind) {
        "charts" => "charts over time",
        "lines" => "the lines that convict",
        "curves" => "benchmark charts of percentiles and over time",
        "details" => "settings, proofs and faults",
        "section" => "the section",
        "more" => "each benchmark row in full",
        "benchmarks" => "benchmark charts",
        "sequence" => "the sequence diagram",
        "reason" => "reasons",
        "table" => "further benchmark tables",
        "entry" => "entries of the list of contents",
        "measured" => "benchmark rows",
        _ => "the row",
    }
}

/// Whose part a kind is: of scenarios that came out in one way.
fn whose(kind: &str) -> Option<&'static str> {
    Some(match kind.split_once(' ')?.1 {
        "clean" => "that came out clean, as expected",
        "convicted" => "convicted, as expected",
        "broken" => "that a lock broke",
        _ => "that did not come out as expected",
    })
}

/// A page as small as it has to be, without its marks. What it leaves out is said where the template has `<!--left out-->`, with `elsewhere`,
/// which says where that is.
pub(super) fn fit(page: &str, elsewhere: &str) -> String {
    let mut parts = Parts::of(page);
    let all = 1..parts.all.len();
    let weight = |at: &usize| {
        let part = &parts.all[*at];
        let rank = ORDER.iter().position(|kind| *kind == part.kind);
        (rank, Reverse(part.bytes), Reverse(*at))
    };
    for at in all.sorted_by_key(weight) {
        if parts.all[0].bytes <= LARGEST {
            break;
        }
        parts.leave_out(at);
    }
    linked(&parts.text()).replacen("<!--left out-->", &parts.said(elsewhere), 1)
}

#[derive(Default)]
struct HtmlElement<'a> {
    kind: &'a str,
    /// The part that it is inside of.
    around: usize,
    bytes: usize,
    /// Its first text.
    first: usize,
    is_left_out: bool,
    /// What stands in its place then.
    note: String,
}

struct Parts<'a> {
    /// The first is the page itself.
    all: Vec<HtmlElement<'a>>,
    /// All text in its order, and the innermost part that it is in.
    texts: Vec<(usize, &'a str)>,
}

impl<'a> Parts<'a> {
    fn of(page: &'a str) -> Self {
        let mut parts = Self {
            all: vec![HtmlElement::default()],
            texts: Vec::new(),
        };
        let mut at = 0;
        for (index, opened) in page.split("<!--part ").enumerate() {
            let mut text = opened;
            if let (1.., Some((kind, rest))) = (index, opened.split_once("-->")) {
                text = rest;
                // Between items of a list, rows and sections there is no place for a paragraph.
                let is_item = ["<li", "<tr", "<section"]
                    .iter()
                    .any(|tag| text.starts_with(tag));
                let note = format!("<p class=\"note\">Left out: {}.</p>\n", what(kind));
                parts.all.push(HtmlElement {
                    kind,
                    around: at,
                    first: parts.texts.len(),
                    note: if is_item { String::new() } else { note },
                    ..HtmlElement::default()
                });
                at = parts.all.len() - 1;
            }
            for (index, text) in text.split("<!--/part-->").enumerate() {
                if index > 0 {
                    at = parts.all[at].around;
                }
                parts.texts.push((at, text));
                for at in parts.outwards(at).collect_vec() {
                    parts.all[at].bytes += text.len();
                }
            }
        }
        parts
    }

    /// A part and those that it is inside of, up to the page.
    fn outwards(&self, at: usize) -> impl Iterator<Item = usize> {
        successors(Some(at), |at| (*at > 0).then(|| self.all[*at].around))
    }

    fn is_there(&self, at: usize) -> bool {
        !self.outwards(at).any(|at| self.all[at].is_left_out)
    }

    fn leave_out(&mut self, at: usize) {
        let (gone, note) = (self.all[at].bytes, self.all[at].note.len());
        if gone <= note || !self.is_there(at) {
            return;
        }
        self.all[at].is_left_out = true;
        for at in self.outwards(at).collect_vec() {
            self.all[at].bytes = self.all[at].bytes + note - gone;
        }
    }

    fn text(&self) -> String {
        let mut out = String::with_capacity(self.all[0].bytes);
        for (index, (at, text)) in self.texts.iter().enumerate() {
            let part = &self.all[*at];
            if self.is_there(*at) {
                out.push_str(text);
            } else if part.is_left_out && part.first == index && self.is_there(part.around) {
                out.push_str(&part.note);
            }
        }
        out
    }

    /// Of how many scenarios a kind was left out: one may have several parts of it, all in its section.
    fn left_out(&self, kind: &str) -> usize {
        let is_meant = |at: &usize| self.all[*at].is_left_out && self.all[*at].kind == kind;
        let parts = (1..self.all.len()).filter(is_meant);
        let outermost = |at| self.outwards(at).filter(|at| *at > 0).last();
        parts.filter_map(outermost).unique().count()
    }

    /// What is left out, as a paragraph; nothing where all is there.
    fn said(&self, elsewhere: &str) -> String {
        let kinds = ORDER.iter().filter_map(|kind| {
            let count = self.left_out(kind);
            let of = whose(kind).map(|whose| (whose, units::several(count, "scenario")));
            (count > 0).then(|| (of, what(kind)))
        });
        let kinds = kinds.sorted_by_key(|(of, _)| of.as_ref().map(|(whose, _)| *whose));
        let groups = kinds.chunk_by(|(of, _)| of.clone());
        let groups = groups.into_iter().map(|(of, kinds)| {
            let kinds = kinds.map(|(_, what)| what).join(", ");
            let of = of.map(|(whose, scenarios)| format!("of {scenarios} {whose}: "));
            of.unwrap_or_default() + &kinds
        });
        let before = "<p class=\"note\" id=\"left-out\">To stay below 500 kB this page leaves out ";
        units::enclosed(
            before,
            &groups.format("; ").to_string(),
            &format!(". {elsewhere}</p>\n"),
        )
    }
}

/// A page whose links lead to what is there: to a place, else to the section that it was in, else nowhere.
fn linked(page: &str) -> String {
    const LINK: &str = " href=\"#";
    let ids = page.split(" id=\"").skip(1);
    let ids = ids.filter_map(|rest| rest.split('"').next());
    let ids: BTreeSet<&str> = ids.collect();
    let mut links = page.split(LINK);
    let mut out = links.next().unwrap_or_default().to_owned();
    for link in links {
        let (id, rest) = link.split_once('"').unwrap_or((link, ""));
        let section = id.rsplit_once('-').map_or(id, |(section, _)| section);
        if let Some(id) = [id, section].into_iter().find(|id| ids.contains(id)) {
            out.push_str(&format!("{LINK}{id}\""));
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_least_goes_first_and_links_lead_to_what_is_left() {
        let long = "x".repeat(LARGEST / 2);
        let page = format!(
            "<!--left out--><a href=\"#s1-a\">1</a><a href=\"#s2-a\">2</a>\
             <!--part section surprising--><section id=\"s1\">\
             <!--part details surprising--><p id=\"s1-a\">{long}<!--part charts surprising-->c<!--/part--></p><!--/part--></section><!--/part-->\
             <!--part section clean--><section id=\"s2\"><p id=\"s2-a\">{long}</p></section><!--/part-->"
        );
        let fitted = fit(&page, "Elsewhere.");
        let (said, rest) = fitted.split_once("</p>\n").expect("a paragraph");
        assert_eq!(
            said,
            "<p class=\"note\" id=\"left-out\">To stay below 500 kB this page leaves out \
             of 1 scenario that came out clean, as expected: the section. Elsewhere."
        );
        let left = format!(
            "<a href=\"#s1-a\">1</a><a>2</a><section id=\"s1\"><p id=\"s1-a\">{long}c</p></section>"
        );
        assert!(rest == left);
        // The place of a part inside of a section is in the section.
        let fitted = fit(&page.replace("section clean", "row clean"), "");
        assert!(fitted.contains("<a href=\"#s1\">1</a><a href=\"#s2-a\">2</a>"));
        assert!(fitted.contains("<section id=\"s1\"><p class=\"note\">Left out: settings"));
    }

    #[test]
    fn a_page_that_is_small_enough_only_loses_its_marks() {
        let page = "<!--left out--><p><!--part more-->a<!--/part-->b</p>";
        assert_eq!(fit(page, ""), "<p>ab</p>");
    }
}
