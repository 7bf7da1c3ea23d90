//! Servers as containers of a local engine, with the addresses, faults and clean-up of processes.
//!
//! | file | what it is for |
//! |---|---|
//! | `engine.rs` | finds an engine that answers |
//! | `image.rs` | an image, pulled or built from what is installed |
//! | `labels.rs` | which containers are ours |
//! | `runner.rs` | starts, signals and removes them |
//! | `reaper.rs` | removes them if this process is killed |

mod engine;
mod image;
mod labels;
mod reaper;
mod runner;

use async_trait::async_trait;

pub use engine::engine;
pub(crate) use labels::{any_running, remove_all};

use crate::process::{ProvisionerSettings, bring_up};
use crate::{ClusterError, Deployment, Provisioner, ProvisionerKind, Topology, UpOptions, sweep};
use engine::connect;
use runner::Containers;

/// Containers of this machine's engine (Docker, or what speaks its API), by way of testcontainers.
///
/// Containers are gone after [`Deployment::down`], after its drop, and within seconds after this process
/// ended in any way, unless detached: a small process of ours watches over them, and every start sweeps. An
/// image stays with the engine for the next time. [`Topology::image`] names another one.
#[derive(Debug, Default, Clone, Copy)]
pub struct Container;

#[async_trait]
impl Provisioner for Container {
    fn name(&self) -> &'static str {
        ProvisionerKind::Container.name()
    }

    async fn up(&self, topology: &Topology, options: &UpOptions) -> Result<Deployment, ClusterError> {
        topology.validate()?;
        let engine = engine::run(connect()).await?;
        if !engine.shares_network {
            bail!(
                "the engine runs in a virtual machine, whose network is not this machine's; take processes"
            );
        }
        if let Some(system) = topology.kind.system()
            && system.refuses_root()
            && engine.rootless
        {
            bail!("containers of `{}` need an engine that is not rootless; take processes", topology.kind);
        }
        // Blocks while the engine removes what dead owners left, which is rare.
        sweep()?;
        let (docker, wanted) = (engine.docker.clone(), topology.clone());
        let image = engine::run(async move {
            labels::sweep(&docker).await?;
            image::choose(&docker, &wanted).await
        })
        .await?;
        if let Some(server) = &image.made_of
            && topology.tls
            && !server.has_tls()
        {
            return Err(missing!(
                "{} was built without TLS; give another server or an image",
                server.path.display()
            ));
        }
        let settings = ProvisionerSettings {
            kind: ProvisionerKind::Container,
            server: None,
            version: image.made_of.as_ref().map(|server| server.version.clone()),
            image: Some(image.name.clone()),
            runner: Box::new(|record| Ok(Box::new(Containers::new(engine, image, record)?))),
        };
        bring_up(topology, options, settings).await
    }
}
