//! What a page leaves out to stay small enough to be mailed and attached, and what it then says.
//!
//! The templates mark what may go, `<!--part KIND-->` … `<!--/part-->`, one inside of another too. No text
//! from outside can be such a mark, an id or a link, since its `<` and `"` are escaped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use itertools::Itertools;

/// A page that would be larger, in bytes, leaves something out; it stays below 500 kB.
const LARGEST: usize = 490_000;

/// Kinds of parts, what a reader misses least first. The second word says how their scenario came out.
const ORDER: [(&str, &str); 25] = [
    ("charts clean", "charts over time"),
    ("charts convicted", "charts over time of expected convictions"),
    ("lines convicted", "the lines of expected convictions"),
    ("curves", "benchmark charts of percentiles"),
    ("details clean", "settings, proofs and faults"),
    ("details convicted", "proofs of expected convictions"),
    ("charts surprising", "charts over time of what was not expected"),
    ("lines surprising", "the lines that convict"),
    ("section clean", "sections of scenarios that came out clean"),
    ("more", "each benchmark row in full"),
    ("benchmarks", "benchmark charts"),
    ("entry", "entries of the list of contents"),
    ("sequence convicted", "sequence diagrams of expected convictions"),
    ("section convicted", "sections of expected convictions"),
    ("details surprising", "proofs of what was not expected"),
    ("sequence broken", "sequence diagrams"),
    ("sequence surprising", "sequence diagrams"),
    ("section surprising", "sections of scenarios"),
    ("section broken", "sections of broken scenarios"),
    ("reason", "verdicts and reasons behind rows"),
    ("table", "further benchmark tables"),
    ("measured", "benchmark rows"),
    ("row clean", "the rows of set-ups that kept the lock"),
    ("row convicted", "the rows of expected convictions"),
    ("row surprising", "the rows of set-ups"),
];

const BEGIN: &str = "<!--part ";
const END: &str = "<!--/part-->";

/// A page as small as it has to be, without marks; `<!--left out-->` says what is missing and `elsewhere`.
pub(super) fn fit(page: &str, elsewhere: &str) -> String {
    let parts = parts(page).into_iter();
    let parts = parts.sorted_by_key(|(rank, part)| (*rank, Reverse(part.len()), Reverse(part.start)));
    // Where what is left out begins and ends.
    let (mut bytes, mut gone) = (page.len(), BTreeMap::new());
    let mut ranks = BTreeSet::new();
    for (rank, part) in parts {
        if bytes <= LARGEST {
            break;
        }
        if gone.range(..part.start).next_back().is_some_and(|(_, end)| *end >= part.end) {
            continue;
        }
        for (from, to) in gone.range(part.clone()).map(|(from, to)| (*from, *to)).collect_vec() {
            gone.remove(&from);
            bytes += to - from;
        }
        bytes -= part.len();
        gone.insert(part.start, part.end);
        ranks.insert(rank);
    }
    let begins = std::iter::once(0).chain(gone.values().copied());
    let ends = gone.keys().copied().chain([page.len()]);
    let rest: String = begins.zip(ends).map(|(from, to)| &page[from..to]).collect();
    let what = ranks.into_iter().map(|rank| ORDER[rank].1).unique().join(", ");
    let said = match what.as_str() {
        "" => String::new(),
        what => format!(
            "<p class=\"note\" id=\"left-out\">To stay below 500 kB this page leaves out {what}. {elsewhere}</p>\n"
        ),
    };
    linked(&unmarked(&rest)).replacen("<!--left out-->", &said, 1)
}

/// All parts by the place of their kind in the order, with their marks.
fn parts(page: &str) -> Vec<(usize, Range<usize>)> {
    let (mut open, mut parts) = (Vec::new(), Vec::new());
    for (at, _) in page.match_indices("<!--") {
        let mark = &page[at..];
        if let Some((kind, _)) = mark.strip_prefix(BEGIN).and_then(|rest| rest.split_once("-->")) {
            open.push((ORDER.iter().position(|(known, _)| *known == kind), at));
        } else if mark.starts_with(END)
            && let Some((Some(rank), from)) = open.pop()
        {
            parts.push((rank, from..at + END.len()));
        }
    }
    parts
}

fn unmarked(page: &str) -> String {
    let mut pieces = page.split(BEGIN);
    let first = pieces.next().unwrap_or_default();
    let rest = pieces.map(|piece| piece.split_once("-->").map_or(piece, |(_, rest)| rest));
    let text: String = std::iter::once(first).chain(rest).collect();
    text.replace(END, "")
}

/// A page whose links lead to what is there: to a place, else to the section that it was in, else nowhere.
fn linked(page: &str) -> String {
    const LINK: &str = " href=\"#";
    let ids = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
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
    fn every_kind_of_a_part_has_its_place_in_the_order() {
        let places = [
            ("<!--part ", "-->", include_str!("../../../templates/blocks.html")),
            ("<!--part ", "-->", include_str!("../../../templates/page.html")),
            ("Block::part(\"", "\"", include_str!("../sections/audit.rs")),
            ("Block::part(\"", "\"", include_str!("../sections/bench.rs")),
            ("format!(\"", " {}\"", include_str!("../sections/scenario.rs")),
        ];
        let mut found = BTreeSet::new();
        for (begin, end, text) in places {
            let kinds = text.split(begin).skip(1).filter_map(|rest| rest.split_once(end));
            let kinds = kinds.map(|(kind, _)| kind);
            found.extend(kinds.filter(|kind| kind.len() < 20 && !kind.contains(['{', '"'])));
        }
        assert!(found.len() >= 8, "{found:?}");
        for kind in found {
            let known = |(name, _): &(&str, &str)| {
                *name == kind || *name == format!("{kind} clean") || *name == format!("{kind} surprising")
            };
            assert!(ORDER.iter().any(known), "{kind}");
        }
    }

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
        assert!(said.ends_with("sections of scenarios that came out clean. Elsewhere."), "{said}");
        let left =
            format!("<a href=\"#s1-a\">1</a><a>2</a><section id=\"s1\"><p id=\"s1-a\">{long}</p></section>");
        assert!(rest == left);
        // The place of a part inside of a section is in the section.
        let fitted = fit(&page.replace("section clean", "row clean"), "");
        assert!(fitted.contains("<a href=\"#s1\">1</a><a href=\"#s2-a\">2</a>"));
    }

    #[test]
    fn a_page_that_is_small_enough_only_loses_its_marks() {
        assert_eq!(fit("<!--left out--><p><!--part more-->a<!--/part-->b</p>", ""), "<p>ab</p>");
    }
}
