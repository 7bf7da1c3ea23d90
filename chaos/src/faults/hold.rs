//! Hold: certain commands or replies wait on their link until the heal.

use cluster_config::LinkFault;

use super::link::OnLinks;
use super::message::{SETTINGS, chosen};
use super::{FaultKind, Hits};

pub(super) const KIND: FaultKind = FaultKind {
    name: "hold",
    about: "commands or replies that match are held, and what follows them on their connections; they arrive when `for` ends",
    hits: Hits::LINK,
    settings: SETTINGS,
    colour: "#5b2c6f",
    ..FaultKind::of(&OnLinks(|with| {
        let (pattern, nth, count) = chosen(with);
        LinkFault::Hold {
            pattern,
            nth,
            count,
        }
    }))
};
