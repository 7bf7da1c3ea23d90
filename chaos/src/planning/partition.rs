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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(groups: &str) -> Vec<String> {
        let party = |word: &str| match word.strip_prefix('c') {
            Some(number) => Party::Client(number.parse().expect("a number")),
            None => Party::Node(word.to_owned()),
        };
        let groups: Vec<Vec<Party>> =
            groups.split(" | ").map(|group| group.split(", ").map(party).collect()).collect();
        // One of the two directions is enough to read; that both are there is asserted once.
        let links = cut(&groups);
        for link in &links {
            let Target::Link(from, to) = link else {
                panic!("only links are cut");
            };
            assert!(links.contains(&Target::Link(to.clone(), from.clone())));
        }
        let mut words: Vec<String> = links
            .iter()
            .filter_map(|link| match link {
                Target::Link(from, to) if from < to => Some(link.to_string()),
                _ => None,
            })
            .collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn two_halves_share_no_link() {
        assert_eq!(shown("n1, n2 | n3, c1"), ["n1 -> c1", "n1 -> n3", "n2 -> c1", "n2 -> n3"]);
    }

    #[test]
    fn a_bridge_reaches_both_sides() {
        assert_eq!(shown("n1, n2, n3 | n3, n4, n5"), ["n1 -> n4", "n1 -> n5", "n2 -> n4", "n2 -> n5"]);
    }

    #[test]
    fn in_a_ring_everybody_sees_its_neighbours() {
        assert_eq!(
            shown("n1, n2, n3 | n2, n3, n4 | n3, n4, n5 | n4, n5, n1 | n5, n1, n2"),
            [] as [&str; 0],
            "in five groups of three, every two stand together somewhere"
        );
        assert_eq!(shown("n1, n2 | n2, n3 | n3, n4 | n4, n1"), ["n1 -> n3", "n2 -> n4"]);
    }

    #[test]
    fn clients_alone_have_nothing_to_cut() {
        assert_eq!(shown("c1 | c2"), [] as [&str; 0]);
    }
}
