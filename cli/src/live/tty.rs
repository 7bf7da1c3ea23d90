//! Turns standard error into a screen of its own and back, whatever ends the program but SIGKILL.
//!
//! The terminal is not put into raw mode, so that Ctrl-C stays a signal and ends the run in good order; only the echo is off.

use std::io::{self, IsTerminal as _};
use std::sync::{Mutex, Once, PoisonError};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};

/// How the terminal was before; `None` while it is as it was.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Takes the terminal.
///
/// # Errors
/// Standard error is none, or does not obey.
pub(super) fn take() -> io::Result<()> {
    if !io::stderr().is_terminal() {
        return Err(io::Error::other("standard error is no terminal"));
    }
    static PANICS: Once = Once::new();
    PANICS.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
    let before = tcgetattr(io::stderr())?;
    let mut quiet = before.clone();
    quiet
        .local_flags
        .remove(LocalFlags::ECHO | LocalFlags::ICANON);
    tcsetattr(io::stderr(), SetArg::TCSANOW, &quiet)?;
    *lock() = Some(before);
    execute!(io::stderr(), EnterAlternateScreen, Hide)
}

/// Gives the terminal back as it was; once, and again without harm.
pub(crate) fn restore() {
    if let Some(before) = lock().take() {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        let _ = tcsetattr(io::stderr(), SetArg::TCSANOW, &before);
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}
