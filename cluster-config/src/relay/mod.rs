//! Faults on links inside a running Toxiproxy server.
//!
//! The embedded proxies go on telling links apart, which a Toxiproxy cannot: it sees a connection to one address, and not who dials. So each
//! connection that they accept is led through a proxy of its own at the server, made when it is first needed and used again when the
//! connection has ended. Which toxics are on it follows from who talks to whom over it.

mod client;
mod guard;
mod hop;
mod toxic;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use hyper::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::proxy::{ConnectionEnds, Direction, Traffic};
use crate::{ClusterError, LinkEffect, LinkFault, Party, ProcessId};
use client::Client;
pub use guard::LinkFaultGuard;
use guard::{Carrier, RelayGuard};
use hop::{Exit, Hop, ToxicKey};
use toxic::Toxic;

/// Every name of ours at the server begins so; then the process that owns it.
const PREFIX: &str = "locklab";
/// Where a proxy is to listen: on whichever port is free when it begins to.
const ANY_PORT: &str = "127.0.0.1:0";
/// Longest that taking our proxies away may hold up an end.
const CLOSE: Duration = Duration::from_secs(5);

/// The way through a Toxiproxy server.
#[derive(Debug)]
pub(crate) struct Relay {
    client: Client,
    version: String,
    /// What names of this deployment's proxies begin with.
    prefix: String,
    /// Where connections are carried, and requests are made.
    runtime: Handle,
    /// Held while the server is being changed, so that no connection slips between two changes.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Hops without a connection, by the address to which they lead.
    idle: BTreeMap<SocketAddr, Vec<Hop>>,
    /// Hops with one.
    busy: BTreeMap<u64, Busy>,
    faults: BTreeMap<u64, ActiveFault>,
}

/// A hop and the connection that it carries.
#[derive(Debug)]
struct Busy {
    hop: Hop,
    ends: Arc<ConnectionEnds>,
    node: SocketAddr,
    /// Counts what is received from the node before the server sees it.
    back: Arc<Traffic>,
}

impl Busy {
    /// Bytes that have entered the server in this direction.
    fn entered(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Out => self.ends.traffic().of(direction)[0],
            Direction::Back => self.back.of(direction)[0],
        }
    }

    fn affected(&self, key: &ToxicKey) -> u64 {
        let since = self.hop.toxics.get(key);
        since.map_or(0, |since| self.entered(key.1).saturating_sub(*since))
    }
}

/// A fault in force on one directed link.
#[derive(Debug)]
struct ActiveFault {
    from: Party,
    to: Party,
    toxic: Toxic,
    lifted: bool,
    /// Of connections that ended meanwhile, or that it ended.
    effect: LinkEffect,
}

impl ActiveFault {
    fn concerns(&self, dialler: &Party, node: &Party) -> Option<Direction> {
        if self.lifted {
            None
        } else if (&self.from, &self.to) == (dialler, node) {
            Some(Direction::Out)
        } else if (&self.from, &self.to) == (node, dialler) {
            Some(Direction::Back)
        } else {
            None
        }
    }
}

impl Relay {
    /// Asks the server who it is, removes what dead processes of ours left there, and tries one hop. Must run in the runtime that carries
    /// connections.
    pub(crate) async fn open(address: SocketAddr) -> Result<Relay, ClusterError> {
        static DEPLOYMENTS: AtomicU64 = AtomicU64::new(0);
        let client = Client { address };
        let version = client.ask(Method::GET, "/version", None).await?;
        let version = version["version"].as_str().unwrap_or_default().to_owned();
        sweep(client).await?;
        let own = ProcessId::own()
            .ok_or_else(|| ClusterError::new("this process does not find itself in /proc"))?;
        let number = DEPLOYMENTS.fetch_add(1, Ordering::Relaxed);
        let relay = Relay {
            client,
            version,
            prefix: format!("{PREFIX}-{}-{}-{number}-", own.pid, own.start_tick),
            runtime: Handle::current(),
            turn: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        };
        let tried = relay.try_one_hop().await;
        if tried.is_err() {
            relay.close().await;
        }
        tried.map(|()| relay)
    }

    /// A server in another network answers, but nobody here reaches its proxies.
    async fn try_one_hop(&self) -> Result<(), ClusterError> {
        // To the server itself, which is there for certain.
        let hop = self.make(self.client.address).await?;
        let reached = TcpStream::connect(hop.address).await;
        let address = hop.address;
        self.locked().idle.insert(self.client.address, vec![hop]);
        reached.map(drop).map_err(|error| {
            missing!(
                "Toxiproxy at {} says that it listens on {address}, and nobody does there: {error}; it must run in the network of this \
                 machine",
                self.client.address
            )
        })
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// `2.12.0 at 127.0.0.1:8474`.
    pub(crate) fn describe(&self) -> String {
        format!("{} at {}", self.version, self.client.address)
    }

    /// A way to a node for a new connection, with the toxics that its ends call for.
    pub(crate) async fn hop(
        self: &Arc<Relay>,
        ends: &Arc<ConnectionEnds>,
        node: SocketAddr,
    ) -> Result<HopLease, ClusterError> {
        let _turn = self.turn.lock().await;
        let idle = self.locked().idle.get_mut(&node).and_then(Vec::pop);
        let mut hop = match idle {
            Some(hop) => hop,
            None => self.make(node).await?,
        };
        // What is on it from the connection before affects this one from its first byte.
        hop.toxics.values_mut().for_each(|since| *since = 0);
        let back = Arc::<Traffic>::default();
        hop.exit.count_in(Arc::clone(&back));
        let id = {
            let mut state = self.locked();
            let id = state.next();
            let ends = Arc::clone(ends);
            let busy = Busy {
                hop,
                ends,
                node,
                back,
            };
            state.busy.insert(id, busy);
            id
        };
        let relay = Arc::clone(self);
        let lease = HopLease { relay, id };
        self.adjust(id, true).await?;
        Ok(lease)
    }

    async fn make(&self, node: SocketAddr) -> Result<Hop, ClusterError> {
        let exit = Exit::open(node)
            .await
            .map_err(|error| failed!("no free port on 127.0.0.1: {error}"))?;
        let name = format!("{}{}", self.prefix, self.locked().next());
        let wanted = json!({"name": name, "listen": ANY_PORT, "upstream": exit.address.to_string(), "enabled": true});
        let made = self
            .client
            .ask(Method::POST, "/proxies", Some(wanted))
            .await?;
        Ok(Hop {
            name,
            address: listens(&made)?,
            enabled: true,
            toxics: BTreeMap::new(),
            exit,
        })
    }

    /// Gives a hop the toxics that the faults in force call for, and takes the others away.
    async fn adjust(&self, id: u64, new: bool) -> Result<(), ClusterError> {
        let Some(change) = self.locked().change(id, new) else {
            return Ok(());
        };
        let proxy = format!("/proxies/{}", change.name);
        for key in change.gone {
            self.client
                .remove(&format!("{proxy}/toxics/{}", toxic_name(key)))
                .await?;
            self.locked().gone(id, key);
        }
        for (key, (kind, attributes)) in change.come {
            let toxic = json!({
                "name": toxic_name(key), "type": kind, "stream": stream(key.1), "toxicity": 1.0, "attributes": attributes,
            });
            self.client
                .ask(Method::POST, &format!("{proxy}/toxics"), Some(toxic))
                .await?;
            // Only now: a byte that came in before may have passed unharmed, and proves nothing.
            self.locked().came(id, key);
        }
        if let Some(enabled) = change.enabled {
            // Somebody else may have the port that it had.
            let wanted = match enabled {
                true => json!({"enabled": true, "listen": ANY_PORT}),
                false => json!({"enabled": false}),
            };
            let changed = self.client.ask(Method::POST, &proxy, Some(wanted)).await?;
            let address = listens(&changed)?;
            if let Some(busy) = self.locked().busy.get_mut(&id) {
                (busy.hop.enabled, busy.hop.address) = (enabled, address);
            }
        }
        Ok(())
    }

    async fn adjust_all(&self) -> Result<(), ClusterError> {
        let ids: Vec<u64> = self.locked().busy.keys().copied().collect();
        try_join_all(ids.into_iter().map(|id| self.adjust(id, false)))
            .await
            .map(drop)
    }

    /// Puts a fault on the bytes that flow over each of these links, on open connections and on later ones.
    pub(crate) async fn apply(
        self: &Arc<Relay>,
        links: Vec<(Party, Party)>,
        fault: &LinkFault,
    ) -> Result<Vec<LinkFaultGuard>, ClusterError> {
        let toxic = Toxic::of(fault).map_err(ClusterError::new)?;
        let relay = Arc::clone(self);
        self.run(async move {
            let _turn = relay.turn.lock().await;
            let mut guards = Vec::new();
            for (from, to) in links {
                let id = relay.locked().put(from, to, toxic.clone());
                guards.push(LinkFaultGuard(Carrier::There(RelayGuard {
                    relay: Arc::clone(&relay),
                    id,
                    lifted: false,
                })));
            }
            relay.adjust_all().await.map(|()| guards)
        })
        .await
    }

    /// Takes a fault away again; returns what it did in all.
    async fn lift(self: Arc<Relay>, id: u64) -> Result<LinkEffect, ClusterError> {
        let relay = Arc::clone(&self);
        self.run(async move {
            let _turn = relay.turn.lock().await;
            if let Some(fault) = relay.locked().faults.get_mut(&id) {
                fault.lifted = true;
            }
            let lifted = relay.adjust_all().await;
            let mut state = relay.locked();
            let effect = state.effect(id);
            if lifted.is_ok() {
                state.faults.remove(&id);
            }
            lifted.map(|()| effect)
        })
        .await
    }

    /// Follows when connections turn out to be somebody else's.
    pub(crate) fn renamed(self: &Arc<Relay>) {
        let relay = Arc::clone(self);
        self.runtime.spawn(async move {
            let _turn = relay.turn.lock().await;
            // A server that is gone is noticed when a link is harmed next.
            let _ = relay.adjust_all().await;
        });
    }

    /// Runs to its end, also if the caller stops waiting for it, where the sockets belong.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>> + Send + 'static,
    ) -> Result<T, ClusterError> {
        match self.runtime.spawn(work).await {
            Ok(result) => result,
            Err(error) => Err(failed!("talking to Toxiproxy: {error}")),
        }
    }

    /// Takes every proxy of this deployment away. Blocks the calling thread for at most a few seconds.
    pub(crate) fn close_now(self: &Arc<Relay>) {
        let relay = Arc::clone(self);
        let closing = std::thread::spawn(move || {
            let runtime = relay.runtime.clone();
            // What stays is swept by the next run that uses this server.
            let _ = runtime.block_on(async { tokio::time::timeout(CLOSE, relay.close()).await });
        });
        let _ = closing.join();
    }

    async fn close(&self) {
        let paths: Vec<String> = {
            let state = self.locked();
            let busy = state.busy.values().map(|busy| &busy.hop);
            let all = state.idle.values().flatten().chain(busy);
            all.map(|hop| format!("/proxies/{}", hop.name)).collect()
        };
        let _ = join_all(paths.iter().map(|path| self.client.remove(path))).await;
    }
}

/// What a hop lacks and has too much of.
struct Change {
    name: String,
    gone: Vec<ToxicKey>,
    come: Vec<(ToxicKey, (&'static str, Value))>,
    /// To be switched on or off.
    enabled: Option<bool>,
}

impl State {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn put(&mut self, from: Party, to: Party, toxic: Toxic) -> u64 {
        let id = self.next();
        let fault = ActiveFault {
            from,
            to,
            toxic,
            lifted: false,
            effect: LinkEffect::default(),
        };
        self.faults.insert(id, fault);
        id
    }

    fn change(&mut self, id: u64, new: bool) -> Option<Change> {
        let busy = self.busy.get(&id)?;
        let (dialler, node) = busy.ends.parties();
        let mut wanted = BTreeMap::new();
        let mut enabled = true;
        for (fault_id, fault) in &mut self.faults {
            let Some(direction) = fault.concerns(&dialler, &node) else {
                continue;
            };
            match &fault.toxic {
                Toxic::On(kind, attributes) => {
                    wanted.insert((*fault_id, direction), (*kind, attributes.clone()));
                }
                Toxic::Off => {
                    enabled = false;
                    // It ends an open connection once, and each new one.
                    if busy.hop.enabled || new {
                        fault.effect.connections += 1;
                    }
                }
            }
        }
        let present = &busy.hop.toxics;
        let gone = present.keys().filter(|key| !wanted.contains_key(key));
        Some(Change {
            name: busy.hop.name.clone(),
            gone: gone.copied().collect(),
            enabled: (busy.hop.enabled != enabled).then_some(enabled),
            come: wanted
                .into_iter()
                .filter(|(key, _)| !present.contains_key(key))
                .collect(),
        })
    }

    fn came(&mut self, id: u64, key: ToxicKey) {
        if let Some(busy) = self.busy.get_mut(&id) {
            let entered = busy.entered(key.1);
            busy.hop.toxics.insert(key, entered);
        }
    }

    fn gone(&mut self, id: u64, key: ToxicKey) {
        if let Some(busy) = self.busy.get_mut(&id) {
            let affected = busy.affected(&key);
            busy.hop.toxics.remove(&key);
            self.keep(key, affected);
        }
    }

    /// Remembers what a fault did to a connection that it does not concern any more.
    fn keep(&mut self, (fault, _): ToxicKey, bytes: u64) {
        if let Some(fault) = self.faults.get_mut(&fault)
            && bytes > 0
        {
            fault.effect.bytes += bytes;
            fault.effect.connections += 1;
        }
    }

    /// The connection has ended; its hop waits for the next.
    fn ended(&mut self, id: u64) {
        if let Some(busy) = self.busy.remove(&id) {
            for key in busy.hop.toxics.keys() {
                let affected = busy.affected(key);
                self.keep(*key, affected);
            }
            self.idle.entry(busy.node).or_default().push(busy.hop);
        }
    }

    fn effect(&self, id: u64) -> LinkEffect {
        let kept = self.faults.get(&id).map(|fault| fault.effect);
        let mut effect = kept.unwrap_or_default();
        for busy in self.busy.values() {
            for direction in [Direction::Out, Direction::Back] {
                let affected = busy.affected(&(id, direction));
                effect.bytes += affected;
                effect.connections += u64::from(affected > 0);
            }
        }
        effect
    }
}

#[derive(Debug)]
pub(crate) struct HopLease {
    relay: Arc<Relay>,
    id: u64,
}

impl HopLease {
    /// Where the server takes the connection.
    pub(crate) fn address(&self) -> SocketAddr {
        let state = self.relay.locked();
        let busy = state.busy.get(&self.id);
        busy.expect("it is busy until it is dropped").hop.address
    }
}

impl Drop for HopLease {
    fn drop(&mut self) {
        self.relay.locked().ended(self.id);
    }
}

/// The address of a proxy, from what the server says of it.
fn listens(proxy: &Value) -> Result<SocketAddr, ClusterError> {
    let listen = proxy["listen"].as_str().unwrap_or_default();
    listen
        .parse()
        .map_err(|_| failed!("Toxiproxy listens on {listen:?}, which is no address"))
}

fn toxic_name((fault, direction): ToxicKey) -> String {
    format!("{fault}-{}", stream(direction))
}

fn stream(direction: Direction) -> &'static str {
    match direction {
        Direction::Out => "upstream",
        Direction::Back => "downstream",
    }
}

/// Removes the proxies of processes that have ended without doing so themselves.
async fn sweep(client: Client) -> Result<(), ClusterError> {
    let all = client.ask(Method::GET, "/proxies", None).await?;
    for name in all.as_object().into_iter().flat_map(|all| all.keys()) {
        if owner(name).is_some_and(|owner| !owner.is_alive()) {
            client.remove(&format!("/proxies/{name}")).await?;
        }
    }
    Ok(())
}

/// The process that a name of ours carries.
fn owner(name: &str) -> Option<ProcessId> {
    ProcessId::read(name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_an_owner() {
        let own = owner("locklab-17-4711-0-3").unwrap();
        assert_eq!((own.pid, own.start_tick), (17, 4711));
        for other in ["redis", "locklab", "locklab-17", "locklab-x-1-0-1"] {
            assert!(owner(other).is_none(), "{other}");
        }
    }
}
