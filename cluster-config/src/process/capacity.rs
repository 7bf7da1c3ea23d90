//! Whether this machine has what a topology of processes needs, asked before anything starts. The number of
//! nodes uses up no ports: each listens on, and dials from, an address of its own, all on the same port,
//! which `ports::reserve` finds free on every address before anything starts, or says that none is.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::layout::PlannedNode;
use crate::{ClusterError, Links};

/// What a server takes, with connections to many others: 4 to 5 MB in clusters of 64 and 200 nodes.
const SERVER_MB: u64 = 8;
/// Descriptors of a process beside those of nodes among each other: files, listeners, clients.
const OWN_DESCRIPTORS: u64 = 128;

/// Makes room for these nodes, or says what is needed and what is there.
pub(crate) fn ensure(nodes: &[PlannedNode], links: Links) -> Result<(), ClusterError> {
    let descriptors = descriptors(nodes, links);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|error| failed!("cannot read the limit of open files: {error}"))?;
    fits(nodes.len(), links, descriptors, hard, available_mb())?;
    if descriptors > soft && soft < hard {
        let descriptors = descriptors.min(hard);
        setrlimit(Resource::RLIMIT_NOFILE, descriptors, hard)
            .map_err(|error| failed!("cannot raise the limit of open files to {descriptors}: {error}"))?;
    }
    Ok(())
}

/// Of the process that needs most: a member of a cluster dials every other; a proxied link has two ends here.
fn descriptors(nodes: &[PlannedNode], links: Links) -> u64 {
    let count = nodes.len() as u64;
    let peers = if nodes.iter().any(|node| node.bus_port() > 0) { count - 1 } else { 0 };
    match links {
        Links::Direct => 2 * peers + OWN_DESCRIPTORS,
        Links::Proxied => 2 * count * (peers + 2) + OWN_DESCRIPTORS,
    }
}

fn fits(
    nodes: usize,
    links: Links,
    descriptors: u64,
    limit: u64,
    available_mb: Option<u64>,
) -> Result<(), ClusterError> {
    // A few nodes start wherever one does, and what they lack then says so itself.
    const FEW: usize = 24;
    if nodes <= FEW {
        return Ok(());
    }
    let of_proxies = match links {
        Links::Direct => "",
        Links::Proxied => ", since every link between two of them passes a proxy",
    };
    if descriptors > limit {
        return Err(missing!(
            "{nodes} nodes need {descriptors} open files in one process{of_proxies}, and its hard limit is {limit}; raise that \
             (`ulimit -Hn`), or take fewer nodes"
        ));
    }
    let needed = SERVER_MB * nodes as u64;
    match available_mb {
        Some(available) if available < needed => Err(missing!(
            "{nodes} nodes need {needed} MB of memory, and {available} MB are available; end what takes it, or take fewer nodes"
        )),
        _ => Ok(()),
    }
}

/// `None` where the system does not say.
fn available_mb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kb: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kb / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_with_what_is_needed_and_what_is_there() {
        let said = |limit, available| {
            fits(64, Links::Proxied, 8448, limit, available).map_err(|error| match error {
                ClusterError::Missing(message) => message,
                other => panic!("{other}"),
            })
        };
        assert_eq!(said(8448, Some(512)), Ok(()));
        assert_eq!(said(8448, None), Ok(()));
        let files = said(8447, Some(512)).expect_err("one too few");
        assert!(files.contains("need 8448 open files") && files.contains("limit is 8447"), "{files}");
        let memory = said(8448, Some(511)).expect_err("one too few");
        assert!(memory.contains("need 512 MB") && memory.contains("511 MB are"), "{memory}");
        assert!(available_mb().is_none_or(|available| available > 0));
    }
}
