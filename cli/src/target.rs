//! Somebody else's servers by URL, and which scenarios may run on them.

use chaos::faults::FAULTS;
use chaos::scenario_source::{MatrixServer, server_matrix};
use chaos::target_servers::TargetServers;

use crate::args::TargetConsent;
use crate::exit;
use crate::terminal::Terminal;

pub(super) const SERVERS: &str = "Servers";

/// Somebody's own servers in place of those that a scenario starts.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnServers {
    /// Your own servers by URL: nothing there is started or ended but by the scenario's hooks; keys lie under
    /// locklab:RUN: and are removed at the end
    #[arg(hide_short_help = true, help_heading = SERVERS, long, value_name = "URL", value_parser = crate::args::target_url)]
    pub(crate) target: Option<String>,
    #[command(flatten, next_help_heading = SERVERS)]
    mine: TargetConsent,
    /// A fault by command that you allow on a target that is not on this machine
    #[arg(hide_short_help = true, help_heading = SERVERS, long, value_delimiter = ',', requires = "target", value_name = "FAULT[,FAULT]", value_parser = fault_to_allow)]
    allow: Vec<String>,
    /// Run everything on each of these servers, one after the other (`locklab list servers`)
    #[arg(help_heading = SERVERS, long, value_delimiter = ',', conflicts_with = "target", value_name = "SERVER[,SERVER]")]
    pub(crate) server: Vec<String>,
}

impl OwnServers {
    /// What the target's URL says of its servers, without asking them; `None`: each scenario starts its own.
    pub(crate) fn servers(&self) -> anyhow::Result<Option<TargetServers>> {
        let Some(url) = &self.target else { return Ok(None) };
        let mut servers = TargetServers::of(url, self.mine.yes_this_is_mine)?;
        if let Some(path) = servers.unix_socket() {
            return Err(exit::usage(format!(
                "{}: faults need servers with addresses; `bench --target` takes sockets",
                path.display()
            )));
        }
        servers.allow.clone_from(&self.allow);
        Ok(Some(servers))
    }

    /// Refuses to run scenarios side by side on one target.
    pub(crate) fn check_jobs(&self, jobs: u32) -> anyhow::Result<()> {
        match self.target.is_some() && jobs > 1 {
            false => Ok(()),
            true => Err(exit::usage(
                "--jobs with --target: scenarios side by side would break each other's servers; run them one after the other",
            )),
        }
    }

    /// What everything is to be run on.
    pub(crate) fn matrix(&self) -> anyhow::Result<Vec<Option<MatrixServer>>> {
        server_matrix(&self.server).map_err(exit::missing)
    }
}

pub(crate) fn fault_to_allow(text: &str) -> Result<String, String> {
    // A fault by command on servers beyond this machine needs their owner's consent.
    let by_command = FAULTS.iter().filter(|kind| kind.by_command);
    let names: Vec<&str> = by_command.map(|kind| kind.name).collect();
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is nothing that can be allowed; {} can{}",
        names.join(", "),
        results::spelling::nearest(text, names.iter().copied())
    ))
}

/// Removes the keys of the run with this prefix; a failure becomes a warning that names what may remain.
pub(crate) async fn remove_keys(servers: &mut TargetServers, prefix: &str, terminal: &Terminal) {
    match servers.remove(prefix).await {
        Ok(None) => {}
        Ok(Some(removed)) => terminal.detail(&format!("{removed} keys of {prefix}* were removed")),
        Err(why) => terminal.warn(&format!(
            "keys of this run may have stayed on the target (remove {prefix}* and what contains it): {why}"
        )),
    }
}
