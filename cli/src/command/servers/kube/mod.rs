//! `locklab kube`: parts of a plan as Kubernetes objects, printed or applied.

use std::path::PathBuf;

use bench::target::parse_target;
use chaos::faults::find;
use chaos::scenario_source::ScenarioSource;
use chaos::target_servers::TargetServers;
use clap::{Args, Subcommand};
use kubernetes::objects::{objects, yaml};
use kubernetes::packed_run::pack;
use kubernetes::spec::{self, IMAGE, Spec, Storage, dns_label};

mod run;

use crate::exit;
use crate::terminal::Terminal;

/// The seed of a plan that is shared: the same on every machine.
const SEED: u64 = 1;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: KubeAction,
}

#[derive(Debug, Subcommand)]
enum KubeAction {
    /// Print the objects of a run as YAML; nothing is applied
    Render(KubeOptions),
    /// Apply them, show how the parts get on, bring the merged run home, and delete what was made; exits as
    /// chaos does
    Run(KubeOptions),
    /// Print a run as lines that `kube run` reads from a pod's log
    #[command(hide = true)]
    Pack { dir: PathBuf },
}

/// What is asked of Kubernetes.
#[derive(Debug, Args)]
pub(crate) struct KubeOptions {
    /// A scenario file, or the name of a built-in one
    scenario: String,
    /// Pods that share the plan
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    parts: u32,
    /// Run the scenario with seeds N … N+K−1, N by --seed or 1
    #[arg(long, default_value_t = 1, value_parser = crate::args::count, value_name = "K")]
    repeat: u32,
    /// Another lock in the scenario's place
    #[arg(long, value_name = "S")]
    subject: Option<String>,
    /// The namespace, which must exist; nothing outside of it is touched
    #[arg(long, default_value = "locklab", value_name = "NAME", value_parser = dns_label)]
    namespace: String,
    /// What the objects' names begin with [default: locklab- and the scenario's name]
    #[arg(long, value_name = "NAME", value_parser = dns_label)]
    name: Option<String>,
    /// The image that has locklab (see the Dockerfile)
    #[arg(long, default_value = IMAGE, value_name = "IMAGE")]
    image: String,
    /// `stateful-set`: every part has servers of its own in pods; `pod`: beside its clients, in its own pod,
    /// where every fault is the harness's own
    #[arg(long, default_value = "stateful-set", value_name = "WHERE", value_parser = ["stateful-set", "pod"])]
    servers: String,
    /// Somebody's own servers by URL, which all parts share
    #[arg(long, value_name = "URL", conflicts_with = "servers")]
    target: Option<String>,
    /// A fault that the target's owner allows
    #[arg(long, value_delimiter = ',', requires = "target", value_name = "FAULT[,FAULT]", value_parser = crate::target::fault_to_allow)]
    allow: Vec<String>,
    /// The servers of --target may be loaded; and `kube run` may make and delete objects in the namespace
    #[arg(long)]
    pub(super) yes_this_is_mine: bool,
    /// Where parts leave their runs: `volume`, a claim made for the run; claim:NAME, one that is there;
    /// s3://BUCKET/PREFIX
    #[arg(long, default_value = "volume", value_name = "WHERE")]
    storage: String,
    /// The class of the claim, which many pods must be able to mount at once
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// A Secret with rclone's variables for the bucket
    #[arg(long, value_name = "NAME")]
    storage_secret: Option<String>,
    /// Processors of each part
    #[arg(long, default_value = "1", value_name = "CPU")]
    cpu: String,
    /// Memory of each part
    #[arg(long, default_value = "1Gi", value_name = "SIZE")]
    memory: String,
}

impl KubeOptions {
    /// What is asked, with everything checked that can be without a cluster.
    pub(super) fn spec(&self, terminal: &Terminal) -> anyhow::Result<Spec> {
        let source = ScenarioSource::find(&self.scenario)?;
        let scenario = source.scenario.clone().map_err(exit::input)?;
        let name = match &self.name {
            Some(name) => name.clone(),
            None => dns_label(&format!("locklab-{}", scenario.name))
                .map_err(|why| exit::usage(format!("{why}; give another with --name")))?,
        };
        let storage =
            Storage::parse(&self.storage, self.storage_class.clone(), self.storage_secret.as_deref());
        let mut allow = self.allow.clone();
        let servers = match &self.target {
            Some(url) => {
                let target = parse_target(url)?;
                if target.is_loopback() {
                    return Err(exit::usage(format!(
                        "{target} is the loopback of each part, where no server is: give an address that pods reach"
                    )));
                }
                TargetServers::of(url, self.yes_this_is_mine)?;
                spec::Servers::Target { url: url.clone() }
            }
            None if self.servers == "pod" => spec::Servers::Pod,
            None => {
                // They are made for the run, so their owner allows what its scenario asks for.
                let faults = scenario.faults.iter().map(|fault| &fault.fault);
                allow =
                    faults.filter(|fault| find(fault).is_some_and(|kind| kind.by_command)).cloned().collect();
                allow.dedup();
                spec::Servers::StatefulSet
            }
        };
        let spec = Spec {
            name,
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            parts: self.parts,
            seed: terminal.common.seed.unwrap_or(SEED),
            repeat: self.repeat,
            subject: self.subject.clone(),
            text: source.text.clone(),
            scenario,
            servers,
            allow,
            storage: storage.map_err(exit::usage)?,
            cpu: self.cpu.clone(),
            memory: self.memory.clone(),
        };
        let refused = source.complaints(spec.refused());
        if refused.is_empty() { Ok(spec) } else { Err(exit::input(refused)) }
    }
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    match options.what {
        KubeAction::Render(asked) => {
            let objects = objects(&asked.spec(terminal)?);
            let values: Vec<_> = objects.iter().map(|object| &object.value).collect();
            let document = serde_json::json!({"schema": 1, "objects": values});
            terminal.answer_data(&document, || yaml(&objects).trim_end().to_owned())
        }
        KubeAction::Run(options) => run::run(options, terminal).await,
        KubeAction::Pack { dir } => {
            pack(&dir, |line| terminal.data(line)).map_err(exit::input)?;
            Ok(exit::AS_EXPECTED)
        }
    }
}
