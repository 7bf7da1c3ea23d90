//! The processes of a simulation: their tasks can all be stopped, as by SIGSTOP, and ended, as by SIGKILL.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::machine::{self, TaskState};
use tokio::sync::watch;

use crate::runtime::lock;
use crate::runtime::system::{self, Skew, since_base};

thread_local! {
    /// Whose task is running, the innermost last.
    static RUNNING: RefCell<Vec<Arc<Process>>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    own: Weak<Process>,
    tasks: Mutex<Tasks>,
    clock: Mutex<Skew>,
    dead: watch::Sender<bool>,
}

#[derive(Debug)]
struct Tasks {
    turn: TaskState,
    stopped_at: Duration,
    stood_still: Duration,
    wakers: BTreeMap<u64, Waker>,
    numbered: u64,
}

impl Process {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Arc::new_cyclic(|own| Process {
            name: name.to_owned(),
            own: own.clone(),
            tasks: Mutex::new(Tasks {
                turn: TaskState::Go,
                stopped_at: Duration::ZERO,
                stood_still: Duration::ZERO,
                wakers: BTreeMap::new(),
                numbered: 0,
            }),
            clock: Mutex::default(),
            dead: watch::Sender::new(false),
        })
    }

    pub(crate) fn running() -> Option<Arc<Self>> {
        RUNNING.with_borrow(|running| running.last().cloned())
    }

    pub(crate) fn running_clock() -> Skew {
        let process = RUNNING.try_with(|running| running.borrow().last().cloned()).ok().flatten();
        process.map_or_else(Skew::default, |process| *lock(&process.clock))
    }

    pub(crate) fn set_clock(&self, skew: Skew) {
        *lock(&self.clock) = skew;
    }

    pub(crate) fn running_stood_still() -> Duration {
        let process = Self::running();
        process.map_or(Duration::ZERO, |process| process.tasks().stood_still)
    }

    pub(crate) fn stop(&self) {
        let mut tasks = self.tasks();
        if tasks.turn == TaskState::Go {
            tasks.turn = TaskState::Wait;
            tasks.stopped_at = since_base();
        }
    }

    /// Undoes [`stop`](Self::stop): every task has a look at what came meanwhile.
    pub(crate) fn go_on(&self) {
        let mut tasks = self.tasks();
        if tasks.turn == TaskState::Wait {
            tasks.turn = TaskState::Go;
            let stopped_for = since_base().saturating_sub(tasks.stopped_at);
            tasks.stood_still += stopped_for;
            Self::wake(tasks);
        }
    }

    /// Ends it: its tasks are dropped where they wait, its connections close.
    pub(crate) fn kill(&self) {
        let mut tasks = self.tasks();
        tasks.turn = TaskState::Never;
        Self::wake(tasks);
        self.dead.send_replace(true);
    }

    pub(crate) async fn died(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    pub(crate) fn within<T>(&self, what: impl FnOnce() -> T) -> T {
        self.push();
        let done = what();
        RUNNING.with_borrow_mut(Vec::pop);
        done
    }

    fn push(&self) {
        let own = self.own.upgrade().expect("the caller has it");
        RUNNING.with_borrow_mut(|running| running.push(own));
    }

    fn wake(tasks: MutexGuard<'_, Tasks>) {
        let wakers: Vec<Waker> = tasks.wakers.values().cloned().collect();
        drop(tasks);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        lock(&self.tasks)
    }
}

impl machine::Process for Process {
    fn begin(&self, task: &mut Option<u64>, context: &Context<'_>) -> TaskState {
        self.push();
        let mut tasks = self.tasks();
        let number = *task.get_or_insert_with(|| {
            tasks.numbered += 1;
            tasks.numbered
        });
        let waker = context.waker();
        match tasks.wakers.get_mut(&number) {
            Some(known) => known.clone_from(waker),
            None => {
                tasks.wakers.insert(number, waker.clone());
            }
        }
        // Of tasks that are ready at one time any may be first.
        if tasks.turn == TaskState::Go && system::puts_off() {
            waker.wake_by_ref();
            return TaskState::Wait;
        }
        tasks.turn
    }

    fn end(&self, task: Option<u64>, over: bool) {
        RUNNING.with_borrow_mut(Vec::pop);
        if let (Some(task), true) = (task, over) {
            self.tasks().wakers.remove(&task);
        }
    }
}
