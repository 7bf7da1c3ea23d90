//! Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, a second Ctrl-C or SIGTERM ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit;

/// SIGHUP: the terminal is gone. If it was ignored when this process began, as under nohup, it stays ignored.
pub(crate) struct HangUp(Option<Signal>);

impl HangUp {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(HangUp(match ignores_hang_up() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        }))
    }

    pub(crate) async fn recv(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// As /proc says; elsewhere nobody can tell.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal, as the lowest bit.
    mask.is_some_and(|mask| mask & 1 != 0)
}

/// Whether the user wants to end. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Cancel {
    wanted: watch::Receiver<bool>,
}

impl Cancel {
    /// Listens from now on. The first signal asks for an orderly end: faults are healed, servers stopped,
    /// what was measured is kept. The second exits at once; the servers' parent-death signal and the reaper
    /// then do the rest. SIGHUP never counts as the second: a closed terminal sends it twice, by itself and
    /// by its shell.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = HangUp::listen()?;
        let (tell, wanted) = watch::channel(false);
        tokio::spawn(async move {
            let mut count = 0;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => count += 1,
                    _ = terminate.recv() => count += 1,
                    () = hang_up.recv() => {}
                }
                if count > 1 {
                    end_now();
                }
                let _ = tell.send(true);
            }
        });
        Ok(Cancel { wanted })
    }

    pub(crate) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    pub(crate) async fn wanted(&self) {
        let mut wanted = self.wanted.clone();
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn flag(&self) -> watch::Receiver<bool> {
        self.wanted.clone()
    }
}

#[allow(clippy::exit)]
fn end_now() -> ! {
    std::process::exit(i32::from(exit::INTERRUPTED))
}
