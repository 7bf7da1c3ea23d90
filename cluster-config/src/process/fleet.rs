//! The servers of one deployment: started, signalled, waited for and ended by name, and listed in the registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::access::write_private;
use crate::layout::PlannedNode;
use crate::registry::{self, Record};
use crate::runner::Runner;
use crate::{ClusterError, TopologyKind};

/// Longest wait for a process that was sent SIGKILL or SIGSTOP; the kernel needs milliseconds.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(10);

/// The servers of a deployment. Dropping it ends them, unless they were let go.
#[derive(Debug)]
pub(crate) struct Fleet {
    runner: Box<dyn Runner>,
    nodes: Vec<PlannedNode>,
    record: Mutex<Record>,
    let_go: AtomicBool,
    /// Somebody else runs them.
    of_others: bool,
}

impl Fleet {
    /// Makes the directories and the record; starts nothing yet.
    pub(crate) fn new(
        runner: Box<dyn Runner>,
        nodes: Vec<PlannedNode>,
        record: Record,
    ) -> Result<Fleet, ClusterError> {
        // The record comes first: whoever dies from here on leaves nothing that no record leads to.
        registry::save(&record)?;
        if let Err(error) = registry::claim_dir(&record) {
            registry::forget(&record);
            return Err(error);
        }
        let fleet = Fleet {
            runner,
            nodes,
            record: Mutex::new(record),
            let_go: AtomicBool::new(false),
            of_others: false,
        };
        for node in &fleet.nodes {
            let made = fs::create_dir_all(&node.dir)
                .and_then(|()| fs::create_dir_all(node.log.parent().unwrap_or(Path::new("."))))
                .and_then(|()| write_private(&node.conf_path, &node.conf));
            made.map_err(|error| {
                ClusterError::new(format!(
                    "cannot write below {}: {error}",
                    node.dir.display()
                ))
            })?;
        }
        Ok(fleet)
    }

    /// Servers that somebody else runs: there is nothing to end, and nothing can be started.
    pub(crate) fn of_others(
        runner: Box<dyn Runner>,
        nodes: Vec<PlannedNode>,
    ) -> Result<Fleet, ClusterError> {
        let record = registry::new_record(
            TopologyKind::Single,
            String::new(),
            String::new(),
            false,
            ("external", None),
            (PathBuf::new(), PathBuf::new()),
            Vec::new(),
        )?;
        Ok(Fleet {
            runner,
            nodes,
            record: Mutex::new(record),
            let_go: AtomicBool::new(true),
            of_others: true,
        })
    }

    pub(crate) fn planned(&self, node: &str) -> Result<&PlannedNode, ClusterError> {
        self.nodes
            .iter()
            .find(|planned| planned.name == node)
            .ok_or_else(|| {
                let known: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
                ClusterError::new(format!(
                    "there is no node {node:?}; nodes are {}",
                    known.join(", ")
                ))
            })
    }

    pub(crate) fn nodes(&self) -> &[PlannedNode] {
        &self.nodes
    }

    /// Starts the server of a node that is not running.
    pub(crate) async fn spawn(&self, node: &str) -> Result<(), ClusterError> {
        let planned = self.planned(node)?;
        if self.pid(node).is_some() {
            return Err(ClusterError::new(format!("{node} is running already")));
        }
        let process = self.runner.start(planned).await?;
        self.update_record(|record| {
            for listed in &mut record.nodes {
                if listed.name == node {
                    listed.process = process;
                }
            }
        })
    }

    /// Whether the server of a node has ended by itself or by a signal; `None` while it runs.
    pub(crate) fn ended(&self, node: &str) -> Option<String> {
        self.runner.ended(node)
    }

    pub(crate) fn pid(&self, node: &str) -> Option<u32> {
        self.runner.pid(node)
    }

    pub(crate) fn state(&self, node: &str) -> Option<char> {
        self.runner.state(node)
    }

    fn must_run(&self, node: &str) -> Result<(), ClusterError> {
        self.planned(node)?;
        if self.of_others {
            // Says why not, whatever is asked.
            return self.runner.signal(node, Signal::SIGCONT);
        }
        match self.pid(node) {
            Some(_) => Ok(()),
            None => Err(ClusterError::new(format!("{node} is not running"))),
        }
    }

    /// SIGKILL; returns when the process is gone.
    pub(crate) async fn kill(&self, node: &str) -> Result<(), ClusterError> {
        self.must_run(node)?;
        self.runner.kill(node).await?;
        let patience = Instant::now() + SIGNAL_PATIENCE;
        while self.pid(node).is_some() {
            if Instant::now() > patience {
                return Err(ClusterError::new(format!(
                    "{node} is still there {SIGNAL_PATIENCE:?} after SIGKILL"
                )));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// SIGSTOP; returns when the process has stopped.
    pub(crate) fn pause(&self, node: &str) -> Result<(), ClusterError> {
        self.must_run(node)?;
        self.runner.signal(node, Signal::SIGSTOP)?;
        let patience = Instant::now() + SIGNAL_PATIENCE;
        while self.state(node).is_some_and(|state| state != 'T') {
            if Instant::now() > patience {
                return Err(ClusterError::new(format!(
                    "{node} still runs {SIGNAL_PATIENCE:?} after SIGSTOP"
                )));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn resume(&self, node: &str) -> Result<(), ClusterError> {
        self.must_run(node)?;
        self.runner.signal(node, Signal::SIGCONT)
    }

    /// Takes a running server off its network, or puts it back.
    pub(crate) async fn plug(&self, node: &str, in_again: bool) -> Result<(), ClusterError> {
        self.must_run(node)?;
        self.runner.plug(node, in_again).await
    }

    /// From now on the servers outlive this value and this process.
    pub(crate) fn let_go(&self) {
        self.let_go.store(true, Ordering::Relaxed);
    }

    /// Ends every server, waits until all are gone, removes data directories and the record; keeps logs.
    ///
    /// After an error the record stays, so that the next start can finish the work.
    pub(crate) fn end(&self) -> Result<(), ClusterError> {
        self.runner.end()?;
        registry::forget(&self.record.lock().unwrap());
        Ok(())
    }

    /// Where the servers' data is.
    pub(crate) fn data(&self) -> PathBuf {
        self.record.lock().unwrap().data.clone()
    }

    /// Changes what others see of this deployment.
    pub(crate) fn update_record(
        &self,
        change: impl FnOnce(&mut Record),
    ) -> Result<(), ClusterError> {
        let mut record = self.record.lock().unwrap();
        change(&mut record);
        registry::save(&record)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if !self.let_go.load(Ordering::Relaxed) {
            // Nobody is left to be told; what stays is listed in the record and swept at the next start.
            let _ = self.end();
        }
    }
}

/// Removes a node's data but not its identity: configuration stays, and so does what a cluster member knows of itself.
pub(crate) fn lose_data(node: &PlannedNode) -> std::io::Result<()> {
    for entry in fs::read_dir(&node.dir)? {
        let entry = entry?;
        if entry.path() == node.conf_path || entry.file_name() == "nodes.conf" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The last lines of a log, indented, for an error message.
pub(crate) fn log_end(log: &Path) -> String {
    const LINES: usize = 12;
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match text {
        Err(error) => format!("its log {} cannot be read: {error}", log.display()),
        Ok(text) => {
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.trim().is_empty())
                .collect();
            let end = &lines[lines.len().saturating_sub(LINES)..];
            format!(
                "the end of its log ({}):\n    {}",
                log.display(),
                end.join("\n    ")
            )
        }
    }
}
