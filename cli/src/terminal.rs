//! Where a command writes: results on standard output, everything else on standard error, progress only for
//! people.
//!
//! Everything on both streams passes through here. Passwords that this process was given are hidden, and
//! control characters are replaced, except for the colours of reports. A text for a program is changed only
//! where a terminal shows it.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use bench::live;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use results::report::text::{self, TextOptions};
use results::report::{printable_json, printable_lines, printable_message};
use results::secrets;
use serde::Serialize;

use crate::args::{Color, Common};
use crate::exit;

/// [`text::columns`] as a text.
pub(crate) fn columns(rows: &[Vec<String>], figures: Range<usize>) -> String {
    let lines = text::columns(rows, figures).into_iter();
    lines.map(|line| line + "\n").collect()
}

/// The longest word that is shown, in characters: only a text from outside has a longer one.
const WORD_MAX: usize = 200;

/// The columns of a report that goes to no terminal.
const WIDTH: u16 = 100;

/// What is said on standard error, as it may be shown.
pub(crate) fn message(text: &str) -> String {
    let mut text = printable_message(&secrets::hide(text), WORD_MAX);
    if let Some(limit) = exit::limit_of(&text) {
        text += &format!(" (the limit `{limit}`)");
    }
    text
}

#[derive(Clone)]
pub(crate) struct Terminal {
    pub(crate) common: Common,
    bars: MultiProgress,
    color: bool,
    /// A result that could not be written, and why.
    write_error: Arc<Mutex<Option<std::io::Error>>>,
    /// Whether standard output has anything.
    has_output: Arc<AtomicBool>,
}

/// What `--json` prints of a command that ends without a result.
pub(crate) fn error_document(why: &str, code: u8) -> serde_json::Value {
    serde_json::json!({"schema": 1, "error": why, "exit_code": code})
}

impl Terminal {
    pub(crate) fn new(common: Common) -> Self {
        let shows_bars = std::io::stderr().is_terminal() && !common.quiet;
        let target = if shows_bars { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let color = match common.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        let bars = MultiProgress::with_draw_target(target);
        Terminal { common, bars, color, write_error: Arc::default(), has_output: Arc::default() }
    }

    pub(crate) fn text_options(&self) -> TextOptions {
        let size = console::Term::stdout().size_checked();
        let stated = || std::env::var("COLUMNS").ok()?.parse().ok();
        TextOptions {
            color: self.color,
            width: size.map(|(_, columns)| columns).or_else(stated).unwrap_or(WIDTH),
        }
    }

    /// The result of a command, in the form that was asked for: one JSON document with `--json`, else text.
    /// Gives the exit code of a command that has nothing else to say.
    pub(crate) fn answer(&self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<u8> {
        self.answer_by(document, |terminal| terminal.result(&text()))
    }

    /// The same with a report of [`results::report::text`], in its colours.
    pub(crate) fn answer_painted(
        &self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<u8> {
        self.answer_by(document, |terminal| {
            terminal.write(&text::printable_report(&secrets::hide(&text()), WORD_MAX))
        })
    }

    /// The same with a text that is for a program, as it is.
    pub(crate) fn answer_data(&self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<u8> {
        self.answer_by(document, |terminal| terminal.data(&text()))
    }

    /// The same for what is said on standard error where nobody asked for JSON.
    pub(crate) fn json(&self, document: &impl Serialize) -> Result<u8> {
        self.answer_by(document, |_| {})
    }

    fn answer_by(&self, document: &impl Serialize, otherwise: impl FnOnce(&Self)) -> Result<u8> {
        if !self.common.json {
            otherwise(self);
            return Ok(exit::AS_EXPECTED);
        }
        let mut text = serde_json::to_string(document)?;
        if let Cow::Owned(_) = secrets::hide(&text) {
            let mut document = serde_json::to_value(document)?;
            secrets::hide_in(&mut document);
            text = document.to_string();
        }
        self.write(&printable_json(&text));
        Ok(exit::AS_EXPECTED)
    }

    /// A result for a person: standard output.
    pub(crate) fn result(&self, text: &str) {
        self.write(&printable_lines(&secrets::hide(text), WORD_MAX));
    }

    /// A result for a program: standard output, and unchanged unless that is a terminal.
    pub(crate) fn data(&self, text: &str) {
        match std::io::stdout().is_terminal() {
            true => self.write(&printable_lines(text, usize::MAX)),
            false => self.write(text),
        }
    }

    /// Writes to standard output. A closed pipe ends the output, not the program; anything else that keeps it
    /// from its reader is kept for [`Terminal::take_write_error`].
    fn write(&self, text: &str) {
        // No line, rather than an empty one, where there is nothing to list.
        if text.is_empty() {
            return;
        }
        self.has_output.store(true, Ordering::Relaxed);
        self.bars.suspend(|| {
            let mut out = std::io::stdout().lock();
            let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
            let written =
                out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
            if let Err(error) = written
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                *self.write_error() = Some(error);
            }
        });
    }

    pub(crate) fn has_write_error(&self) -> bool {
        self.write_error().is_some()
    }

    /// Why a result did not get through, if one did not.
    pub(crate) fn take_write_error(&self) -> Option<std::io::Error> {
        self.write_error().take()
    }

    fn write_error(&self) -> MutexGuard<'_, Option<std::io::Error>> {
        let slot = self.write_error.lock();
        slot.unwrap_or_else(PoisonError::into_inner)
    }

    /// A line about what is going on: standard error, not with `--quiet`.
    pub(crate) fn note(&self, line: &str) {
        if !self.common.quiet {
            self.stderr(line);
        }
    }

    /// A line for the curious: standard error, only with `-v`.
    pub(crate) fn detail(&self, line: &str) {
        if self.common.verbose > 0 {
            self.stderr(line);
        }
    }

    /// A line that must be seen: standard error, always.
    pub(crate) fn warn(&self, line: &str) {
        self.stderr(&format!("locklab: {line}"));
    }

    pub(crate) fn error(&self, error: &anyhow::Error, code: u8) {
        self.stderr(&format!("locklab: {error:#}"));
        self.no_result(&format!("{error:#}"), code);
    }

    /// With `--json` the document of a command that ends without a result: why, unless it printed one.
    pub(crate) fn no_result(&self, why: &str, code: u8) {
        if !self.has_output.load(Ordering::Relaxed) {
            // Nobody can be told that this failed: the exit code stands already.
            let _ = self.json(&error_document(why, code));
        }
    }

    /// A progress bar over a stretch of known length in steps, or a spinner for 0.
    pub(crate) fn bar(&self, steps: u64, message: &str) -> ProgressBar {
        let (bar, template) = match steps {
            0 => (ProgressBar::new_spinner(), "  {spinner} {msg} {elapsed}"),
            _ => (
                ProgressBar::new(steps),
                "  {bar:12} {percent:>3} % of {len}, {elapsed}, {eta} left  {live}{wide_msg}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let live = |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = out.write_str(&self::message(&live::shown()));
            };
            bar.set_style(style.with_key("live", live));
        }
        let bar = self.bars.add(bar);
        bar.set_message(self::message(message));
        // The bar's ticker is a thread. A process that may not start one has a bar that moves with its steps.
        let spare = std::thread::Builder::new().spawn(|| {});
        if spare.is_ok_and(|thread| thread.join().is_ok()) && !self.bars.is_hidden() {
            live::watch();
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        bar
    }

    fn stderr(&self, line: &str) {
        self.bars.suspend(|| {
            let _ = writeln!(std::io::stderr().lock(), "{}", message(line));
        });
    }
}
