//! Harms to the bytes and connections of links, beside delay and cut: a table of settings for what the
//! proxies can do.

use std::time::Duration;

use cluster_config::LinkFault;

use crate::faults::network::link::OnLinks;
use crate::faults::{Blocks, FaultKind, SettingKind, SettingSpec, settings};

/// Long enough for a reply, too short for a request and its script.
const SLICE: u32 = 16;
/// A slow path, and not a stalled one.
const SLICE_DELAY: Duration = Duration::from_millis(1);
const BYTES_MOST: u32 = 1_000_000_000;
const BURST_LONGEST: u32 = 1_000_000;

pub(crate) const BANDWIDTH: FaultKind = FaultKind {
    name: "bandwidth",
    about: "at most `rate` bytes per second pass, over all connections of the link together",
    settings: &[SettingSpec::required("rate", SettingKind::Rate).about("bytes per second, such as `64kB/s`")],
    ..FaultKind::on_links(&OnLinks(|with| LinkFault::Bandwidth {
        bytes_per_s: settings::rate(with, "rate").unwrap_or(1),
    }))
};

pub(crate) const REFUSE: FaultKind = FaultKind {
    name: "refuse",
    about: "connections over the link are closed, and new ones as soon as they are made",
    blocks: Blocks::BothWays,
    ..FaultKind::on_links(&OnLinks(|_| LinkFault::Refuse))
};

pub(crate) const RESET: FaultKind = FaultKind {
    name: "reset",
    about: "connections over the link end with a TCP reset, and new ones as soon as they are made",
    blocks: Blocks::BothWays,
    ..FaultKind::on_links(&OnLinks(|_| LinkFault::Reset))
};

pub(crate) const CLOSE_AFTER: FaultKind = FaultKind {
    name: "close-after",
    about: "each connection is closed once `bytes` of its bytes have passed; what comes after is lost",
    settings: &[SettingSpec::required("bytes", SettingKind::Count(0, BYTES_MOST))
        .about("bytes that still pass, per connection")],
    ..FaultKind::on_links(&OnLinks(|with| LinkFault::CloseAfter {
        bytes: u64::from(settings::count(with, "bytes").unwrap_or(0)),
    }))
};

pub(crate) const SLICED: FaultKind = FaultKind {
    name: "slice",
    about: "bytes arrive in pieces of at most `size`, each `delay` after the one before",
    settings: &[
        SettingSpec::optional("size", SettingKind::Count(1, BYTES_MOST)).about("bytes per piece; default 16"),
        SettingSpec::optional("delay", SettingKind::Duration).about("pause after each piece; default 1ms"),
    ],
    ..FaultKind::on_links(&OnLinks(|with| LinkFault::Slice {
        size: settings::count(with, "size").unwrap_or(SLICE) as usize,
        delay: settings::time(with, "delay").unwrap_or(SLICE_DELAY),
    }))
};

pub(crate) const CORRUPT: FaultKind = FaultKind {
    name: "corrupt",
    about: "each byte is replaced by another with probability `rate`",
    settings: &[SettingSpec::required("rate", SettingKind::Share)
        .about("share of the bytes, more than 0.0 and at most 1.0")],
    ..FaultKind::on_links(&OnLinks(|with| LinkFault::Corrupt {
        rate: settings::share(with, "rate").unwrap_or(0.0),
    }))
};

pub(crate) const LOSS: FaultKind = FaultKind {
    name: "loss",
    about: "packets are lost and sent again, as TCP does: what is lost arrives 200 ms later, or 600 ms, 1.4 s and so on, and what follows it waits",
    settings: &[
        SettingSpec::required("rate", SettingKind::Share)
            .about("share of the packets, more than 0.0 and at most 1.0"),
        SettingSpec::optional("burst", SettingKind::Count(1, BURST_LONGEST))
            .about("so many in a row are lost on average; default 1"),
    ],
    ..FaultKind::on_links(&OnLinks(|with| LinkFault::Loss {
        rate: settings::share(with, "rate").unwrap_or(0.0),
        burst: settings::count(with, "burst").unwrap_or(1),
    }))
};
