//! The links that a partition into groups cuts, as data.
//!
//! Two parties are cut from each other if each is in a group and no group has both. So who is in no group
//! reaches everybody; a party in two groups is a bridge between them; and overlapping groups
//! (`n1, n2 | n2, n3 | n3, n1`) make a ring, in which everybody sees a few.

use cluster_config::Party;

use crate::faults::Target;

/// The links that a partition into these groups cuts, both ways, each once and in order.
pub fn cut(groups: &[Vec<Party>]) -> Vec<Target> {
    let mut links = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        for other in &groups[index + 1..] {
            for a in group {
                for b in other {
                    let together = |group: &Vec<Party>| group.contains(a) && group.contains(b);
                    // Clients never talk to each other, and nobody talks to itself.
                    let clients = matches!((a, b), (Party::Client(_), Party::Client(_)));
                    if a != b && !clients && !groups.iter().any(together) {
                        links.push(Target::Link(a.clone(), b.clone()));
                        links.push(Target::Link(b.clone(), a.clone()));
                    }
                }
            }
        }
    }
    links.sort_unstable();
    links.dedup();
    links
}

/// Every directed link between two groups of parties, in one or both directions, without links to oneself;
/// each once and in order.
pub fn between(from: &[Party], to: &[Party], both: bool) -> Vec<Target> {
    let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (a, b)));
    let mut links = Vec::new();
    for (a, b) in pairs.filter(|(a, b)| a != b) {
        links.push(Target::Link(a.clone(), b.clone()));
        if both {
            links.push(Target::Link(b.clone(), a.clone()));
        }
    }
    links.sort_unstable();
    links.dedup();
    links
}
