//! The servers of one deployment: started, signalled, waited for and ended by name, listed in the registry.

use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::access::write_private;
use crate::baseline::System;
use crate::layout::PlannedNode;
use crate::provisioner::Runner;
use crate::registry::{self, Running};
use crate::{ClusterError, LinkTable, Party};

/// Longest wait for a process that was sent SIGKILL or SIGSTOP; the kernel needs milliseconds.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(10);

/// The servers of a deployment. Dropping it ends them, unless they were let go.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<PlannedNode>,
    /// `None`: somebody else runs them. There is nothing to end then, and nothing can be started.
    own: Option<OwnedServers>,
    /// What its servers are, if not Redis.
    pub(crate) system: Option<&'static dyn System>,
    /// Where the processes of its nodes are named, if their addresses do not tell who dials.
    links: Option<LinkTable>,
    /// Whether the servers outlive this value and this process.
    pub(crate) is_detached: bool,
}

#[derive(Debug)]
struct OwnedServers {
    runner: Box<dyn Runner>,
    record: Mutex<Running>,
}

impl Fleet {
    /// Makes the directories and the record; starts nothing yet.
    pub(crate) fn new(
        runner: Box<dyn Runner>,
        nodes: Vec<PlannedNode>,
        record: Running,
        links: Option<LinkTable>,
    ) -> Result<Fleet, ClusterError> {
        // The record comes first: a harness that dies from here on leaves nothing that no record leads to.
        registry::save(&record)?;
        if let Err(error) = registry::claim_dir(&record) {
            registry::forget(&record);
            return Err(error);
        }
        let system = record.topology.system();
        let record = Mutex::new(record);
        let fleet = Fleet {
            nodes,
            own: Some(OwnedServers { runner, record }),
            system,
            links: links.filter(|_| system.is_some()),
            is_detached: false,
        };
        for node in &fleet.nodes {
            let made = fs::create_dir_all(&node.dir)
                .and_then(|()| fs::create_dir_all(node.log.parent().unwrap_or(Path::new("."))))
                .and_then(|()| {
                    let conf = (node.conf_path.clone(), node.conf.clone());
                    let conf = Some(conf).filter(|_| node.conf_path != PathBuf::new());
                    node.files.iter().chain(&conf).try_for_each(|(path, text)| write_private(path, text))
                });
            made.map_err(|error| failed!("cannot write below {}: {error}", node.dir.display()))?;
        }
        Ok(fleet)
    }

    pub(crate) fn of_external(nodes: Vec<PlannedNode>) -> Fleet {
        Fleet { nodes, own: None, system: None, links: None, is_detached: false }
    }

    pub(crate) fn planned(&self, node: &str) -> Result<&PlannedNode, ClusterError> {
        self.nodes.iter().find(|planned| planned.name == node).ok_or_else(|| {
            let known: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            failed!("there is no node {node:?}; nodes are {}", known.join(", "))
        })
    }

    pub(crate) async fn spawn(&self, node: &str) -> Result<(), ClusterError> {
        let planned = self.planned(node)?;
        if self.pid(node).is_some() {
            bail!("{node} is running already");
        }
        let process = self.runner(node)?.start(planned).await?;
        if let (Some(links), Some(process)) = (&self.links, process) {
            links.name_process(Party::Node(node.to_owned()), process.pid);
        }
        self.update_record(|record| {
            for listed in &mut record.nodes {
                if listed.name == node {
                    listed.process = process;
                }
            }
        })
    }

    pub(crate) fn set_program(&self, node: &str, program: PathBuf) -> Result<(), ClusterError> {
        self.runner(node)?.set_program(node, program)
    }

    /// Whether the server of a node has ended by itself or by a signal; `None` while it runs.
    pub(crate) fn ended(&self, node: &str) -> Option<String> {
        self.own.as_ref()?.runner.ended(node)
    }

    pub(crate) fn pid(&self, node: &str) -> Option<u32> {
        self.own.as_ref()?.runner.pid(node)
    }

    pub(crate) fn is_down(&self, node: &str) -> bool {
        let own = self.own.as_ref();
        own.is_some_and(|own| own.runner.pid(node).is_none())
    }

    pub(crate) fn state(&self, node: &str) -> Option<char> {
        self.own.as_ref()?.runner.state(node)
    }

    fn runner(&self, node: &str) -> Result<&dyn Runner, ClusterError> {
        self.planned(node)?;
        match &self.own {
            Some(own) => Ok(&*own.runner),
            None => bail!(
                "{node} is somebody else's server: it is neither started nor stopped from here; give a command for it in [hooks]"
            ),
        }
    }

    fn running(&self, node: &str) -> Result<&dyn Runner, ClusterError> {
        let runner = self.runner(node)?;
        match runner.pid(node) {
            Some(_) => Ok(runner),
            None => bail!("{node} is not running"),
        }
    }

    pub(crate) async fn kill(&self, node: &str) -> Result<(), ClusterError> {
        self.running(node)?.kill(node).await?;
        let patience = Instant::now() + SIGNAL_PATIENCE;
        while self.pid(node).is_some() {
            if Instant::now() > patience {
                bail!("{node} is still there {SIGNAL_PATIENCE:?} after SIGKILL");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    pub(crate) fn pause(&self, node: &str) -> Result<(), ClusterError> {
        self.running(node)?.signal(node, Signal::SIGSTOP)?;
        let patience = Instant::now() + SIGNAL_PATIENCE;
        while self.state(node).is_some_and(|state| state != 'T') {
            if Instant::now() > patience {
                bail!("{node} still runs {SIGNAL_PATIENCE:?} after SIGSTOP");
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    pub(crate) fn resume(&self, node: &str) -> Result<(), ClusterError> {
        self.running(node)?.signal(node, Signal::SIGCONT)
    }

    /// Ends every server, waits until all are gone, removes data directories and the record; keeps logs.
    /// After an error the record stays, for the next start.
    pub(crate) fn end(&self) -> Result<(), ClusterError> {
        if let Some(own) = &self.own {
            own.runner.end()?;
            registry::forget(&own.record.lock().unwrap());
        }
        Ok(())
    }

    pub(crate) fn data(&self) -> Option<PathBuf> {
        Some(self.own.as_ref()?.record.lock().unwrap().data.clone())
    }

    pub(crate) fn update_record(&self, change: impl FnOnce(&mut Running)) -> Result<(), ClusterError> {
        let Some(own) = &self.own else { return Ok(()) };
        let mut record = own.record.lock().unwrap();
        change(&mut record);
        registry::save(&record)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if !self.is_detached {
            // Nobody is left to be told; what stays is listed in the record and swept at the next start.
            let _ = self.end();
        }
    }
}

/// Removes a node's data but not its identity: its configuration, and what a member knows of itself.
pub(crate) fn lose_data(node: &PlannedNode) -> std::io::Result<()> {
    for entry in fs::read_dir(&node.dir)? {
        let entry = entry?;
        let is_own = node.files.iter().any(|(path, _)| *path == entry.path());
        if is_own || entry.path() == node.conf_path {
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

pub(crate) fn log_tail(log: &Path) -> io::Result<String> {
    const TAIL: u64 = 64 << 10;
    let mut file = fs::File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut end = Vec::new();
    file.take(TAIL).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// The last lines of a log, indented, for an error message.
pub(crate) fn log_end(log: &Path) -> String {
    const LINES: usize = 12;
    let text = log_tail(log);
    match text {
        Err(error) => format!("its log {} cannot be read: {error}", log.display()),
        Ok(text) => {
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let end = &lines[lines.len().saturating_sub(LINES)..];
            format!("the end of its log ({}):\n    {}", log.display(), end.join("\n    "))
        }
    }
}
