//! The page that lists all runs of a directory, the worst first.

use std::cmp::Reverse;

use itertools::Itertools;

use crate::record::run::Outcome;
use crate::store::Listing;
use crate::svg::escape;

const HEAD: &str = "<!doctype html><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>locklab: runs</title><style>\
    body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}td,th{text-align:left;padding:.3rem .8rem .3rem 0;\
    vertical-align:top;overflow-wrap:anywhere}.lost{color:#ad2418;font-weight:600}.kept{color:#00674e}.note{color:#667}</style><h1>Runs</h1>";

/// The page, with links to the page of each run.
pub fn index(listings: &[Listing]) -> String {
    let rank = |one: &&Listing| {
        (Reverse(one.lost), Reverse(one.outcome.as_ref().map_or(Outcome::Unknown, |outcome| *outcome)))
    };
    // The order of the listing, newest first, decides between equals.
    let rows = listings.iter().sorted_by_key(rank).map(|one| {
        let [name, command, started] = [&one.name, &one.command, &one.started_at].map(|text| escape(text));
        let (class, answer) = match (&one.outcome, one.lost) {
            (Err(why), _) => ("note", why.as_str()),
            (Ok(_), 0) => ("kept", one.answer.as_str()),
            (Ok(_), _) => ("lost", one.answer.as_str()),
        };
        let (answer, started) = (escape(answer), started.get(..16).unwrap_or_default().replace('T', " "));
        format!(
            "<tr><td><a href=\"{name}/report.html\">{name}</a><br><span class=\"note\">{command}, {started}</span><td class=\"{class}\">{answer}\n"
        )
    });
    format!("{HEAD}<table>\n{}</table>\n", rows.format(""))
}
