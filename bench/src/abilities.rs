//! What a lock says and shows of itself when it is connected, so that nothing is asked of it that it does not have.

use crate::subject::{AcquireEnd, AcquireRequest, ConnectTo, Subject, SubjectError};

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
    /// Why it refused a lock without a lease; `None`: it did not.
    pub no_renewal: Option<String>,
}

impl Abilities {
    /// Whether it lists a feature.
    pub fn has(&self, feature: &str) -> bool {
        let mut features = self.features.iter().flatten();
        features.any(|has| has == feature)
    }

    /// Connects one client of `subject`, and asks it for `lock` without a lease, which is released again.
    ///
    /// # Errors
    /// As of [`Subject::connect`].
    pub async fn of(
        subject: &dyn Subject,
        to: &ConnectTo,
        lock: &str,
    ) -> Result<Self, SubjectError> {
        let connected = subject.connect(to).await?;
        let client = connected.client;
        let mut abilities = client.abilities();
        let asked = AcquireRequest {
            lock,
            others: &[],
            kind: "",
            owner: "t0",
            reenters: true,
            wait: Some(std::time::Duration::from_secs(2)),
            lease: None,
            permits: Some(1),
        };
        match client.acquire(asked).await {
            AcquireEnd::Ok { grant, .. } => {
                // What is not released ends with its client.
                let _ = client.release(&grant).await;
            }
            AcquireEnd::Failed(why) => abilities.no_renewal = Some(why),
            AcquireEnd::Busy | AcquireEnd::Unknown(_) => {}
        }
        client.close().await;
        Ok(abilities)
    }
}
