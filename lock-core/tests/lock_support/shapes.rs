//! Running servers of each topology, with a relay before each of them.

use std::time::Instant;

use lock_core::{AddressMap, Client, ClientOptions, Kind, slot};

use super::Relay;
use crate::support::{PATIENCE, Server, cluster::Cluster, sentinel::Group};

/// Running servers, each behind a relay.
pub struct Deployed {
    url: String,
    /// The servers that hold data, masters first.
    pub servers: Vec<Server>,
    /// One before each of them, in their order.
    pub relays: Vec<Relay>,
    masters: usize,
    sharded: bool,
    _sentinels: Vec<Server>,
}

impl Deployed {
    async fn new(url: String, servers: Vec<Server>, masters: usize) -> Self {
        let mut relays = Vec::new();
        for server in &servers {
            relays.push(Relay::start(server.address()).await);
        }
        Deployed { url, servers, relays, masters, sharded: false, _sentinels: Vec::new() }
    }

    pub async fn single() -> Self {
        let server = Server::start(&[]);
        Self::new(server.url(), vec![server], 1).await
    }

    pub async fn sentinel() -> Self {
        let group = Group::start(1);
        let mut deployed = Self::new(group.url(), group.data, 1).await;
        deployed._sentinels = group.sentinels;
        deployed
    }

    pub async fn cluster() -> Self {
        let cluster = Cluster::start(2, false);
        let mut deployed = Self::new(cluster.url(), cluster.nodes, 2).await;
        deployed.sharded = true;
        deployed
    }

    pub async fn masters(count: usize) -> Self {
        let servers: Vec<_> = (0..count).map(|_| Server::start(&[])).collect();
        let addresses: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
        Self::new(format!("redlock://{}", addresses.join(",")), servers, count).await
    }

    /// A client that reaches the servers through the relays. A busy machine may need more than one try.
    pub async fn client(&self, options: ClientOptions) -> Client {
        let map: AddressMap = self
            .servers
            .iter()
            .zip(&self.relays)
            .map(|(server, relay)| (("127.0.0.1".to_owned(), server.port), relay.address))
            .collect();
        let target = self.url.parse().expect("a good URL");
        let options = options.address_map(map);
        let until = Instant::now() + PATIENCE;
        loop {
            match Client::connect(&target, options.clone()).await {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < until, "it does not answer: {error}"),
            }
        }
    }

    /// Which servers decide over a name.
    pub fn deciders(&self, name: &str) -> Vec<usize> {
        if self.sharded {
            vec![usize::from(slot(name.as_bytes())) * self.masters / 16_384]
        } else {
            (0..self.masters).collect()
        }
    }

    /// A name that this master decides over.
    pub fn name_at(&self, master: usize) -> String {
        self.name_of("n", master)
    }

    /// As `name_at`, of names that begin with `word`.
    pub fn name_of(&self, word: &str, master: usize) -> String {
        (0..)
            .map(|number| format!("{word}{number}"))
            .find(|name| self.deciders(name).contains(&master))
            .expect("numbers do not end")
    }

    /// The kinds that live here.
    pub fn kinds(&self) -> &'static [Kind] {
        if self.masters > 1 && !self.sharded { &[Kind::Redlock] } else { Kind::ALL }
    }

    /// Waits until nobody holds `name`, and checks that nothing stays but tokens, and latches that end by
    /// themselves.
    pub fn only_latches_and_tokens_stay(&self, name: &str) {
        for index in self.deciders(name) {
            let server = &self.servers[index];
            server.wait_for(&["EXISTS", name], |answer| answer == "0");
            only_latches_and_tokens_stay(server);
        }
    }
}

/// Waits until nothing else is on the server: what a network held may come, and be undone, a moment later.
pub fn only_latches_and_tokens_stay(server: &Server) {
    let may_stay = |key: &str| key.contains("latch") || key.contains("token");
    let keys = server.wait_for(&["KEYS", "*"], |keys| keys.lines().all(may_stay));
    for key in keys.lines() {
        if key.contains("latch") {
            assert_ne!(server.call(&["PTTL", key]), "-1", "{key} stays for ever");
        }
    }
}
