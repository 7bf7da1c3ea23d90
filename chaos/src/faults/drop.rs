//! Drop: certain commands or replies are lost on their link.

use cluster_config::LinkFault;

use super::link::OnLinks;
use super::message::{SETTINGS, chosen};
use super::{FaultKind, Hits};

pub(super) const KIND: FaultKind = FaultKind {
    name: "drop",
    about: "commands or replies that match are lost; the connection stays silent, and is reset before another message could take a lost one's place",
    hits: Hits::LINK,
    settings: SETTINGS,
    colour: "#8e44ad",
    ..FaultKind::of(&OnLinks(|with| {
        let (pattern, nth, count) = chosen(with);
        LinkFault::Drop {
            pattern,
            nth,
            count,
        }
    }))
};
