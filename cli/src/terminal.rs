//! Where a command writes: results on standard output, everything else on standard error, progress only for people.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use results::report::text::TextOptions;

use crate::args::{Color, Common};

/// Rows as lines, each column as wide as its widest cell: `sides` has `<` or `>` for each.
pub(crate) fn columns(sides: &str, rows: &[Vec<String>]) -> String {
    let wide = |text: &String| text.chars().count();
    let width = |at: usize| rows.iter().map(|row| wide(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..sides.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = sides.chars().zip(row).zip(&widths);
        let cells = cells.map(|((side, cell), width)| match side {
            '>' => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Where a command writes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Terminal {
    /// The options of every command.
    pub(crate) common: Common,
    bars: MultiProgress,
    color: bool,
    /// A result that could not be written, and why.
    lost: Arc<Mutex<Option<std::io::Error>>>,
}

impl Terminal {
    pub(crate) fn new(common: Common) -> Self {
        let shows_bars = std::io::stderr().is_terminal() && !common.quiet;
        let target = match shows_bars {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let color = match common.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
            }
        };
        Terminal {
            common,
            bars: MultiProgress::with_draw_target(target),
            color,
            lost: Arc::default(),
        }
    }

    /// How a summary looks here.
    pub(crate) fn text_options(&self) -> TextOptions {
        let mut options = TextOptions {
            color: self.color,
            ..TextOptions::default()
        };
        if let Some((_, columns)) = console::Term::stdout().size_checked() {
            options.width = columns;
        }
        options
    }

    /// The result of a command, in the form that was asked for: one JSON document with `--json`, else text.
    pub(crate) fn answer(
        &self,
        document: &impl serde::Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.common.json {
            return self.json(document);
        }
        let text = text();
        // No line, rather than an empty one, where there is nothing to list.
        if !text.is_empty() {
            self.result(&text);
        }
        Ok(())
    }

    /// The same for what is said on standard error where nobody asked for JSON.
    pub(crate) fn json(&self, document: &impl serde::Serialize) -> anyhow::Result<()> {
        if self.common.json {
            self.result(&serde_json::to_string(document)?);
        }
        Ok(())
    }

    /// A result: standard output. A closed pipe ends the output, not the program; anything else that keeps it from its reader is kept
    /// for [`Terminal::lost`].
    pub(crate) fn result(&self, text: &str) {
        self.bars.suspend(|| {
            let mut out = std::io::stdout().lock();
            let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
            let written = out
                .write_all(text.as_bytes())
                .and_then(|()| out.write_all(end))
                .and_then(|()| out.flush());
            if let Err(error) = written
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
                *lost = Some(error);
            }
        });
    }

    /// Whether a result did not get through.
    pub(crate) fn has_lost(&self) -> bool {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.is_some()
    }

    /// Why a result did not get through, if one did not.
    pub(crate) fn lost(&self) -> Option<std::io::Error> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.take()
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

    /// What went wrong, with its causes.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        self.stderr(&format!("locklab: {error:#}"));
    }

    /// A progress bar over a stretch of known length in steps, or a spinner for 0.
    pub(crate) fn bar(&self, steps: u64, message: &str) -> ProgressBar {
        let (bar, template) = match steps {
            0 => (ProgressBar::new_spinner(), "  {spinner} {msg} {elapsed}"),
            _ => (
                ProgressBar::new(steps),
                "  {bar:24} {pos}/{len} {msg} {elapsed}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let bar = self.bars.add(bar);
        bar.set_message(message.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    fn stderr(&self, line: &str) {
        self.bars.suspend(|| {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        });
    }
}
