//! Users and passwords that change while a client lives: who tells them, and until when they hold.

use std::panic::AssertUnwindSafe;
use std::{error::Error, fmt, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::timeout;

use crate::bounds::ENDLESS;

/// As whom a connection authenticates.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    pub(crate) valid_for: Option<Duration>,
}

impl Credentials {
    /// A password of the server's default user, without an end.
    pub fn new(password: impl Into<String>) -> Self {
        Credentials { user: None, password: password.into(), valid_for: None }
    }

    /// Sets the user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets for how long from now on it is taken; before that is over open connections authenticate anew.
    pub fn valid_for(mut self, life: Duration) -> Self {
        self.valid_for = Some(life).filter(|life| *life < ENDLESS);
        self
    }
}

/// The password is shown to nobody.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

type Answer = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// Tells a client its [`Credentials`]: tokens of ElastiCache or Entra, a secret that a vault rotates. For
/// [`ClientOptions::credentials`](crate::ClientOptions::credentials).
///
/// It is asked whenever a connection is made, and for each open one when four fifths of the time are over;
/// one that fails or is silent then is asked again until the time is over, and nothing is lost with that
/// alone: the server decides what becomes of the connection. One that fails while a connection is made is
/// asked again with the next try, within the caller's bound.
///
/// ```
/// # use std::time::Duration;
/// # use lock_core::{Client, ClientOptions, Credentials, CredentialsProvider};
/// # async fn fetch_token() -> std::io::Result<String> { Ok("secret".into()) }
/// # fn options() -> ClientOptions {
/// let provider = CredentialsProvider::new(|| async {
///     let token = fetch_token().await?;
///     Ok(Credentials::new(token).user("app").valid_for(Duration::from_secs(900)))
/// });
/// ClientOptions::default().credentials(provider)
/// # }
/// ```
#[derive(Clone)]
pub struct CredentialsProvider(Arc<dyn Fn() -> BoxFuture<'static, Answer> + Send + Sync>);

impl CredentialsProvider {
    /// Calls `tell` each time.
    pub fn new<F>(tell: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        CredentialsProvider(Arc::new(move || Box::pin(tell())))
    }

    /// What it tells, within a time; why it does not.
    pub(crate) async fn ask(&self, patience: Duration) -> Result<Credentials, String> {
        let asked = AssertUnwindSafe(async { (self.0)().await }).catch_unwind();
        match timeout(patience, asked).await {
            Ok(Ok(told)) => told.map_err(|error| format!("the provider of credentials failed: {error}")),
            Ok(Err(_)) => Err("the provider of credentials panicked".to_owned()),
            Err(_) => Err(format!("the provider of credentials did not answer within {patience:?}")),
        }
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsProvider")
    }
}
