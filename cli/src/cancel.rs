//! Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, a second Ctrl-C or SIGTERM ends at once.

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::watch;

use crate::exit;

/// The signals that ask this process to end.
pub(crate) struct EndSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    /// SIGHUP: the terminal is gone. `None`: it was ignored when this process began, as under nohup, and
    /// stays ignored.
    hang_up: Option<unix::Signal>,
}

impl EndSignals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let hang_up = (!ignores_hang_up()).then(|| signal(SignalKind::hangup())).transpose()?;
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hang_up })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let Self { interrupt, terminate, hang_up } = self;
        let hang_up = async {
            match hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Signal::SIGINT,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = hang_up => Signal::SIGHUP,
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
pub(crate) struct Cancel(watch::Receiver<bool>);

impl Cancel {
    /// Listens from now on. The first signal asks for an orderly end: faults are healed, servers stopped,
    /// what was measured is kept. The second exits at once; the servers' parent-death signal and the reaper
    /// then do the rest. SIGHUP never counts as the second: a closed terminal sends it twice, by itself and
    /// by its shell.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let mut signals = EndSignals::listen()?;
        let (tell, wanted) = watch::channel(false);
        tokio::spawn(async move {
            let mut count = 0;
            loop {
                count += u32::from(signals.next().await != Signal::SIGHUP);
                if count > 1 {
                    end_now();
                }
                let _ = tell.send(true);
            }
        });
        Ok(Cancel(wanted))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn wanted(&self) {
        if self.0.clone().wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn flag(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }
}

#[allow(clippy::exit)]
fn end_now() -> ! {
    std::process::exit(i32::from(exit::INTERRUPTED))
}
