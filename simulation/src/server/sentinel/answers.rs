//! What a sentinel learns: the answers to its PING and INFO, the votes of other sentinels, and what these say
//! of themselves and of the master.

use std::{collections::BTreeMap, time::Duration};

use crate::server::Server;
use crate::server::reply::Reply;
use crate::server::sentinel::state::{PendingQuestion, WatchedPeer};
use crate::server::settings::Address;

impl Server {
    pub(crate) fn hear_peer(&mut self, who: &WatchedPeer, reply: Reply) {
        let now = self.now;
        let Some(peer) = self.peer(who) else { return };
        match (peer.open.pop_front(), reply) {
            (Some(PendingQuestion::Ping), reply) => {
                peer.answered_at = now;
                let good = match &reply {
                    Reply::Status(_) => true,
                    Reply::Error(text) => text.starts_with("LOADING") || text.starts_with("MASTERDOWN"),
                    _ => false,
                };
                if good {
                    peer.well_at = now;
                    peer.pinged_since = None;
                }
            }
            (Some(PendingQuestion::Info), Reply::Bulk(text)) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                self.learn_from_info(who, &text);
            }
            (Some(PendingQuestion::IsDown), Reply::Array(parts)) => {
                if let [Reply::Int(down), Reply::Bulk(leader), Reply::Int(epoch)] = parts.as_slice() {
                    peer.said_at = now;
                    peer.finds_down = *down == 1;
                    if leader != b"*" {
                        let leader = String::from_utf8_lossy(leader).into_owned();
                        peer.voted = Some((leader, *epoch as u64));
                    }
                }
            }
            _ => {}
        }
    }

    fn learn_from_info(&mut self, who: &WatchedPeer, info: &str) {
        let now = self.now;
        let fields: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
        let field = |name: &str| fields.get(name).copied();
        let number = |name: &str| field(name).and_then(|text| text.parse::<i64>().ok());
        let Some(peer) = self.peer(who) else { return };
        peer.info_at = Some(now);
        peer.run_id = field("run_id").unwrap_or_default().to_owned();
        let is_replica = field("role") == Some("slave");
        if is_replica != peer.says_replica {
            peer.says_replica = is_replica;
            peer.role_since = now;
        }
        let follows = field("master_host").zip(field("master_port"));
        let follows = follows.map(|(host, port)| Address::of(host, port));
        if follows != peer.follows {
            peer.follows = follows;
            peer.follows_since = now;
        }
        peer.is_linked = field("master_link_status") == Some("up");
        let unlinked_s = number("master_link_down_since_seconds").unwrap_or(0);
        peer.unlinked = Duration::from_secs(unlinked_s.max(0) as u64);
        peer.offset = number("slave_repl_offset").unwrap_or(0).max(0) as u64;
        if *who == WatchedPeer::Master && !is_replica {
            self.meet_replicas(&fields);
        }
        self.look_at_role(who);
    }

    fn meet_replicas(&mut self, fields: &BTreeMap<&str, &str>) {
        for (name, value) in fields {
            let mut parts = value.split(['=', ',']);
            if name.starts_with("slave")
                && parts.next() == Some("ip")
                && let (Some(host), Some(port)) = (parts.next(), parts.nth(1))
            {
                let address = Address::of(host, port);
                let replica = WatchedPeer::Replica(address.clone());
                if self.peer(&replica).is_none() {
                    self.meet(replica, address);
                }
            }
        }
    }

    pub(crate) fn hear_hello(&mut self, reply: Reply) {
        if let Reply::Array(parts) = reply
            && let [Reply::Bulk(kind), _, Reply::Bulk(payload)] = parts.as_slice()
            && kind == b"message"
        {
            self.learn_from_hello(payload);
        }
    }

    /// What another sentinel says of itself and of the master.
    pub(crate) fn learn_from_hello(&mut self, hello: &[u8]) {
        let text = String::from_utf8_lossy(hello).into_owned();
        let parts: Vec<&str> = text.split(',').collect();
        let &[host, port, id, epoch, _, master_host, master_port, config_epoch] = parts.as_slice() else {
            return;
        };
        let now = self.now;
        let Some(sentinel) = &mut self.sentinel else { return };
        for peer in sentinel.peers.values_mut() {
            peer.heard_at = now;
        }
        if id == sentinel.id {
            return;
        }
        let who = WatchedPeer::Sentinel(id.to_owned());
        let is_new = !sentinel.peers.contains_key(&who);
        let rises = |known: &mut u64, text: &str| {
            let said = text.parse().unwrap_or(0);
            let rises = said > *known;
            *known = said.max(*known);
            rises
        };
        let is_new_epoch = rises(&mut sentinel.epoch, epoch);
        let master = Address::of(master_host, master_port);
        let is_switched =
            rises(&mut sentinel.config_epoch, config_epoch) && sentinel.master().address != master;
        if is_new {
            self.meet(who, Address::of(host, port));
        }
        if is_new_epoch {
            self.announce("+new-epoch", epoch);
        }
        if is_switched {
            self.switch_master(master);
        }
    }
}
