//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once.

use tokio::sync::watch;

use crate::exit;

/// Whether the user wants to end. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Cancel {
    wanted: watch::Receiver<bool>,
}

impl Cancel {
    /// Listens from now on. The first signal asks for an orderly end: faults are healed, servers stopped, what was measured is kept.
    /// The second exits at once; the servers' parent-death signal and the reaper then do the rest.
    pub(crate) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (tell, wanted) = watch::channel(false);
        tokio::spawn(async move {
            for count in 0.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if count > 0 {
                    end_now();
                }
                let _ = tell.send(true);
            }
        });
        Ok(Cancel { wanted })
    }

    /// Whether an end is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Completes when an end is wanted.
    pub(crate) async fn wanted(&self) {
        let mut wanted = self.wanted.clone();
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The flag itself, for crates that take one.
    pub(crate) fn flag(&self) -> watch::Receiver<bool> {
        self.wanted.clone()
    }
}

#[allow(clippy::exit)]
fn end_now() -> ! {
    std::process::exit(i32::from(exit::INTERRUPTED))
}
