//! What a lock says of itself when it is connected, so that nothing is asked of it that it does not have.

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
}

impl Abilities {
    /// Whether it lists a feature.
    pub fn has(&self, feature: &str) -> bool {
        let mut features = self.features.iter().flatten();
        features.any(|has| has == feature)
    }

    /// Connects one client of `subject` and lets it go again.
    ///
    /// # Errors
    /// As of [`Subject::connect`].
    pub async fn of(subject: &dyn Subject, to: &ConnectTo) -> Result<Self, SubjectError> {
        let client = subject.connect(to).await?.client;
        let abilities = client.abilities();
        client.close().await;
        Ok(abilities)
    }
}
