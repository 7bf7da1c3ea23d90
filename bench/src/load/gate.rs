//! The gate before every step of a client's tasks: a client whose process is stopped does nothing, and one
//! that has died never will again.

use tokio::sync::watch;

#[derive(Default)]
pub(crate) struct Gate {
    paused: watch::Sender<bool>,
    dead: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    pub(crate) fn set_dead(&self) {
        self.dead.send_replace(true);
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    pub(crate) async fn died(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Passes when the client runs; false when it is dead and nothing is to be done any more.
    pub(crate) async fn pass(&self) -> bool {
        if self.is_dead() {
            return false;
        }
        let mut paused = self.paused.subscribe();
        tokio::select! {
            biased;
            () = self.died() => false,
            open = paused.wait_for(|paused| !*paused) => open.is_ok(),
        }
    }
}
