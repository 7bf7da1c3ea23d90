//! Loss: packets of a link are lost and sent again by TCP, later and later.

use cluster_config::LinkFault;

use super::link::OnLinks;
use super::{FaultKind, Hits, SettingKind, SettingSpec, settings};

const BURST_LONGEST: u32 = 1_000_000;

pub(super) const KIND: FaultKind = FaultKind {
    name: "loss",
    about: "packets are lost and sent again, as TCP does: what is lost arrives 200 ms later, or 600 ms, 1.4 s and so on, and what follows it waits",
    hits: Hits::LINK,
    settings: &[
        SettingSpec::required(
            "rate",
            SettingKind::Share,
            "share of the packets, more than 0.0 and at most 1.0",
        ),
        SettingSpec::optional(
            "burst",
            SettingKind::Count(1, BURST_LONGEST),
            "so many in a row are lost on average; default 1",
        ),
    ],
    colour: "#a04000",
    ..FaultKind::of(&OnLinks(|with| LinkFault::Loss {
        rate: settings::share(with, "rate").unwrap_or(0.0),
        burst: settings::count(with, "burst").unwrap_or(1),
    }))
};
