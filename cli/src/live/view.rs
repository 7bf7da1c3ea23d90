//! Turns the sources of a run into a screen, four times a second, from a thread of its own.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bench::live::{LiveLoad, Look};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::follow::Follow;
use super::model::{Model, Scene};
use super::{Diverted, screen, tty};
use crate::exit;

const TICK: Duration = Duration::from_millis(250);

/// The screen. Ends, and gives the terminal back, when it is told to or dropped.
pub(crate) struct Live {
    sources: Arc<Mutex<Sources>>,
    load: Arc<LiveLoad>,
    running: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

#[derive(Default)]
struct Sources {
    followed: Vec<Follow>,
    scenes: Vec<Scene>,
    progress: Option<(usize, usize, String)>,
}

impl Live {
    /// Takes the terminal and begins to draw.
    ///
    /// # Errors
    /// Wrong usage: there is no terminal to draw on.
    pub(crate) fn start(title: &str, diverted: Diverted) -> anyhow::Result<Self> {
        tty::take().map_err(|error| {
            exit::usage(format!("--tui draws on a terminal: {error}; leave it out"))
        })?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stderr()));
        let mut terminal = terminal.inspect_err(|_| tty::restore())?;
        diverted.begin();
        let sources = Arc::new(Mutex::new(Sources::default()));
        let load = Arc::new(LiveLoad::default());
        let mut model = Model {
            title: format!("locklab {title}"),
            ..Model::default()
        };
        let (stop, stopped) = mpsc::channel();
        let seen = (sources.clone(), load.clone());
        let thread = std::thread::spawn(move || {
            let (sources, load) = seen;
            let began = Instant::now();
            let mut last = (began, None);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                let seconds = last.0.elapsed().as_secs_f64();
                last.0 = Instant::now();
                last.1 = look(&mut model, &sources, &load, last.1, seconds);
                model.elapsed_s = began.elapsed().as_secs();
                model.notes = diverted.last(3);
                // A terminal that went away is no reason to end a run.
                let _ = terminal.draw(|frame| screen::draw(frame, &model));
            }
        });
        Ok(Self {
            sources,
            load,
            running: Mutex::new(Some((stop, thread))),
        })
    }

    /// Also shows the scenario whose history is, or will be, in this file.
    pub(crate) fn follow(&self, name: &str, history: &Path) {
        let mut sources = lock(&self.sources);
        sources.followed.push(Follow::new(history));
        sources.scenes.push(Scene::new(name));
    }

    /// What a benchmark hangs its rounds into.
    pub(crate) fn load(&self) -> Arc<LiveLoad> {
        self.load.clone()
    }

    /// How far it has come.
    pub(crate) fn progress(&self, done: usize, total: usize, now: &str) {
        lock(&self.sources).progress = Some((done, total, now.to_owned()));
    }

    /// Gives the terminal back.
    pub(crate) fn end(&self) {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((stop, thread)) = running {
            drop(stop);
            let _ = thread.join();
            tty::restore();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

/// One tick. Gives what the counters of a benchmark were.
fn look(
    model: &mut Model,
    sources: &Mutex<Sources>,
    load: &LiveLoad,
    before: Option<Look>,
    seconds: f64,
) -> Option<Look> {
    let mut sources = lock(sources);
    let Sources {
        followed,
        scenes,
        progress,
    } = &mut *sources;
    model.progress = progress.clone();
    for (follow, scene) in followed.iter_mut().zip(scenes.iter_mut()) {
        // What cannot be read now is read at the next tick, or not at all: the judges read the file by themselves.
        for line in follow.lines().unwrap_or_default() {
            scene.take(&line);
        }
    }
    if !scenes.is_empty() {
        model.scenes(scenes, seconds);
    }
    let now = load.look();
    if let Some(now) = now {
        model.look(before.unwrap_or(now), now, seconds);
    }
    now
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
