//! What a server's name means to clients: it comes back under another address, or its name resolves to
//! another server, or to none.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster_config::{Data, ProvisionerKind, Topology, TopologyKind};
use tokio::net::TcpStream;

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, Proof, Servers, SettingKind, SettingSpec, settings};
use crate::scenario::{FaultParty, FaultSite, Settings};
use crate::servers::names::{Names, named};

pub(crate) const NEW_ADDRESS: FaultKind = FaultKind {
    name: "new-address",
    about: "SIGKILL and start again under another address, with its data; its name, by which clients know it, follows; once",
    settings: &[SettingSpec::optional("after", SettingKind::Duration)
        .about("how much later its name follows; default 0s")],
    one_shot: true,
    recovers: true,
    ..RESOLVING
};

pub(crate) const RESOLVE: FaultKind = FaultKind {
    name: "resolve",
    about: "the server's name, by which clients know it, resolves to another server, or to none, until `for` ends; connections stay",
    settings: &[SettingSpec::optional("to", SettingKind::Node(Servers::Data))
        .about("the server, such as n2; default: none")],
    fault: &Resolve,
    ..RESOLVING
};

const RESOLVING: FaultKind = FaultKind { needs_names: true, allowed, ..FaultKind::of(&NewAddress) };

fn allowed(topology: &Topology, on: &FaultSite, with: &Settings) -> Result<(), String> {
    let by_url = matches!(topology.kind, TopologyKind::Single | TopologyKind::Masters);
    if !by_url || topology.tls || topology.provisioner != ProvisionerKind::Process {
        return Err(
            "clients know servers by name on `single` and `masters`, without TLS and not in containers: other servers announce addresses, \
             which clients follow"
                .to_owned(),
        );
    }
    let Some(to) = settings::text(with, "to") else { return Ok(()) };
    match on.everybody().any(|who| *who == FaultParty::Node(to.to_owned())) {
        false => Ok(()),
        true => Err(format!(
            "`to` is \"{to}\"; allowed is another node of this topology: {}",
            crate::scenario::data_nodes(topology).join(", ")
        )),
    }
}

impl<'a> TargetContext<'a> {
    fn names(self) -> Result<&'a Arc<Names>, FaultError> {
        self.world.names.as_ref().ok_or_else(|| failed!("clients know {} by its address", self.target))
    }

    fn point(self, address: Option<std::net::IpAddr>) -> Result<(), FaultError> {
        let (names, node) = (self.names()?, self.node()?);
        names.point(node, address).map_err(|error| failed!("the clients' hosts file: {error}"))
    }
}

struct NewAddress;

impl OnEach for NewAddress {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let (node, deployment, names) = (at.node()?, at.deployment(), at.names()?);
        let port = deployment.node(node)?.address.port();
        let before = names.address(node);
        let after = names.next_address(node);
        let (Some(before), Some(after)) = (before, after) else {
            return Err(failed!("{node} has no other address"));
        };
        names.listen(deployment, node, after).await?;
        deployment.kill(node).await?;
        at.point(None)?;
        deployment.start(node, Data::Keep).await?;
        let answers = async |ip| TcpStream::connect(SocketAddr::new(ip, port)).await.is_ok();
        let (old, new) = (answers(before).await, answers(after).await);
        tokio::time::sleep(at.time("after").unwrap_or_default()).await;
        at.point(Some(after))?;
        Ok(proof!(
            new && !old,
            "{node} was at {before} for its clients, which {} now, and is at {after}, which {}",
            if old { "answers" } else { "refuses" },
            if new { "answers" } else { "refuses" },
        ))
    }
}

struct Resolve;

struct Resolving {
    lookups_before: u64,
    means: String,
}

impl OnEach for Resolve {
    type Kept = Resolving;

    async fn harm(at: TargetContext<'_>) -> Result<Resolving, FaultError> {
        let names = at.names()?;
        let (address, means) = match at.text("to") {
            Some(to) => (names.address(to), format!("resolves to {to}")),
            None => (None, "does not resolve".to_owned()),
        };
        at.point(address)?;
        Ok(Resolving { lookups_before: names.lookups(), means })
    }

    fn undo_now(at: TargetContext<'_>, _: &Resolving) -> Result<(), FaultError> {
        at.point(at.names()?.address(at.node()?))
    }
}

impl Evidence for Resolving {
    fn proof(&self, at: TargetContext<'_>) -> Proof {
        let lookups = at.names().map_or(0, |names| names.lookups());
        let node = at.node().unwrap_or_default();
        let asked = lookups > self.lookups_before;
        proof!(
            asked,
            "{} {}; {} looked a name up",
            named(node),
            self.means,
            if asked { "clients" } else { "no client" }
        )
    }

    fn comes_late(&self) -> bool {
        true
    }
}
