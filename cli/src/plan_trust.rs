//! `--trust-plan`: programs that a plan from elsewhere names are run only with its user's consent.

use chaos::kept_plan::{KeptPlan, programs};
use clap::Args;

use crate::exit;
use crate::terminal::Terminal;

/// Flags of commands that run a kept plan again.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Run the programs that the plan names, although it was not made on this machine
    #[arg(long)]
    trust_plan: bool,
}

impl TrustArgs {
    /// Refuses plans from elsewhere that name programs, unless their user trusts them; says which they are.
    pub(crate) fn check(&self, kept: &[KeptPlan], terminal: &Terminal) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for kept in kept.iter().filter(|kept| !kept.is_own) {
            let name = &kept.plan.name;
            let named = programs(&kept.plan)?;
            found.extend(named.into_iter().map(|what| format!("  {name}: {what}")));
        }
        found.dedup();
        if found.is_empty() {
            return Ok(());
        }
        let found = found.join("\n");
        if self.trust_plan {
            terminal.warn(&format!("from a plan that was not made on this machine:\n{found}"));
            return Ok(());
        }
        Err(exit::usage(format!(
            "this plan was not made on this machine, or was changed since, and it would run with your rights:\n{found}\nadd --trust-plan if you know where it comes from"
        )))
    }
}
