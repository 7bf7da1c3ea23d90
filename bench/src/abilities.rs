//! What a lock says of itself when it is connected, so that nothing is asked of it that it does not have.

use std::time::Duration;

use crate::subject::{ConnectTo, Subject, SubjectError};

/// What a lock can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Abilities {
    /// The library's name, version and language.
    pub library: String,
    /// The kinds that it has, its default first.
    pub kinds: Vec<String>,
    /// Where it works; `None`: nothing is known.
    pub topologies: Option<Vec<String>>,
    /// What it can do beside the least; `None`: nothing is known.
    pub features: Option<Vec<String>>,
    /// Whether it renews a lock by itself.
    pub renews: bool,
    /// The lease that it renews, by its own word and after a wish; `None`: nothing is known.
    pub watchdog: Option<Duration>,
    /// Kinds whose permits have no lease: nothing is asked of them that concerns one.
    pub leaseless: Vec<String>,
}

/// The features that scenarios ask for, but for `redlock`, which the kinds say too.
const FEATURES: &str = "lost durability extend reentrant renewals cancel owner_moves block credentials";

impl Abilities {
    /// Of a lock of which only the kinds are known before it is asked: everything else is taken as given.
    pub fn assumed(kinds: Vec<String>) -> Self {
        Self {
            kinds,
            features: Some(FEATURES.split(' ').map(str::to_owned).collect()),
            renews: true,
            ..Self::default()
        }
    }

    fn common(mut self, other: Self) -> Self {
        let keep = |all: &mut Vec<String>, has: &[String]| all.retain(|one| has.contains(one));
        keep(&mut self.kinds, &other.kinds);
        match (&mut self.topologies, &other.topologies) {
            (Some(all), Some(has)) => keep(all, has),
            (all, has) => *all = all.take().or_else(|| has.clone()),
        }
        match (&mut self.features, &other.features) {
            (Some(all), Some(has)) => keep(all, has),
            (all, _) => *all = None,
        }
        self.library = format!("{} and {}", self.library, other.library);
        self.renews &= other.renews;
        self.leaseless.extend(other.leaseless);
        self.watchdog = self.watchdog.max(other.watchdog);
        self
    }

    /// Whether it lists a feature.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().flatten().any(|has| has == feature)
    }

    /// Connects one client of `subject`, or of each of its parts, and lets it go again.
    pub async fn of(subject: &dyn Subject, to: &ConnectTo) -> Result<Self, SubjectError> {
        let mut parts = subject.parts().iter();
        if let Some(first) = parts.next() {
            let mut all = Box::pin(Self::of(first.as_ref(), to)).await?;
            for part in parts {
                all = all.common(Box::pin(Self::of(part.as_ref(), to)).await?);
            }
            return Ok(all);
        }
        let client = subject.connect(to).await?.client;
        let abilities = client.abilities();
        client.close().await;
        Ok(abilities)
    }
}
