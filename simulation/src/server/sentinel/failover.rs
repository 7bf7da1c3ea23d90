//! When a sentinel finds a master down, whom it votes for, and how the elected one makes a replica the
//! master.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use crate::server::Server;
use crate::server::reply::Reply;
use crate::server::sentinel::state::{INFO_PERIOD, Peer, Sentinel, WatchedPeer};
use crate::server::settings::{Address, Watch};

const SECOND: Duration = Duration::from_secs(1);
/// For how long another sentinel's word counts.
const WORD: Duration = Duration::from_secs(5);
const ELECTION: Duration = Duration::from_secs(10);
/// How long a replica that calls itself master is watched before it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// It waits for votes; or does not, since somebody asked for it.
    Votes,
    Chooses,
    Promotes(Address),
    Waits(Address),
    /// The chosen one is master; the others are told.
    Tells(Address),
}

#[derive(Debug, Clone)]
pub(crate) struct Failover {
    epoch: u64,
    step: Step,
    began: Duration,
    step_began: Duration,
    is_forced: bool,
}

impl Failover {
    pub(crate) fn promoted_master(&self) -> Option<&Address> {
        match &self.step {
            Step::Tells(promoted) => Some(promoted),
            _ => None,
        }
    }
}

impl Server {
    fn watched(&self) -> Option<(&Sentinel, &Watch)> {
        Some((self.sentinel.as_ref()?, self.settings.watch.as_ref()?))
    }

    fn about_master(&self) -> String {
        let (sentinel, watch) = self.watched().expect("it is a sentinel");
        let Address { host, port } = &sentinel.master().address;
        format!("master {} {host} {port}", watch.name)
    }

    fn about_replica(&self, Address { host, port }: &Address) -> String {
        let master = self.about_master();
        let master = master.strip_prefix("master ").unwrap_or(&master);
        format!("slave {host}:{port} {host} {port} @ {master}")
    }

    pub(crate) fn watch(&mut self) {
        let Some(sentinel) = &self.sentinel else { return };
        let all: Vec<WatchedPeer> = sentinel.peers.keys().cloned().collect();
        for who in all {
            self.keep_in_touch(&who);
            self.look_whether_down(&who);
            if who == WatchedPeer::Master {
                self.look_whether_all_find_it_down();
                if self.begins_failover() {
                    self.begin_failover(false);
                    self.ask_others(true);
                }
                self.go_on();
                self.ask_others(false);
            }
        }
    }

    fn look_whether_down(&mut self, who: &WatchedPeer) {
        let Some((sentinel, watch)) = self.watched() else { return };
        let Some(peer) = sentinel.peers.get(who) else { return };
        let since = |at: Duration| self.now.saturating_sub(at);
        let silence = match peer.pinged_since {
            Some(at) => since(at),
            None if !self.is_asked(peer) => since(peer.well_at),
            None => Duration::ZERO,
        };
        let demoted = *who == WatchedPeer::Master
            && peer.says_replica
            && since(peer.role_since) > watch.down_after + 2 * INFO_PERIOD;
        let is_down = silence > watch.down_after || demoted;
        if is_down == peer.down_since.is_some() {
            return;
        }
        let about = match who {
            WatchedPeer::Master => self.about_master(),
            WatchedPeer::Replica(address) => self.about_replica(address),
            WatchedPeer::Sentinel(id) => format!("sentinel {id}"),
        };
        let now = self.now;
        if let Some(peer) = self.peer(who) {
            peer.down_since = is_down.then_some(now);
            self.announce(if is_down { "+sdown" } else { "-sdown" }, &about);
        }
    }

    fn look_whether_all_find_it_down(&mut self) {
        let Some((sentinel, watch)) = self.watched() else { return };
        let others = sentinel.others().filter(|(_, peer)| peer.finds_down).count();
        let is_down = sentinel.master().down_since.is_some() && others + 1 >= watch.quorum;
        if is_down != sentinel.is_objectively_down {
            let about = self.about_master();
            let quorum = format!("{about} #quorum {}/{}", others + 1, watch.quorum);
            self.sentinel.as_mut().expect("it is one").is_objectively_down = is_down;
            match is_down {
                true => self.announce("+odown", &quorum),
                false => self.announce("-odown", &about),
            }
        }
    }

    /// Asks the other sentinels whether they find the master down too, and for their votes once it tries.
    fn ask_others(&mut self, at_once: bool) {
        let now = self.now;
        let Some(sentinel) = &mut self.sentinel else { return };
        let is_down = sentinel.master().down_since.is_some();
        let mut asked = Vec::new();
        let peers = sentinel.peers.iter_mut();
        for (who, peer) in peers.filter(|(who, _)| matches!(who, WatchedPeer::Sentinel(_))) {
            if now.saturating_sub(peer.said_at) > WORD {
                peer.finds_down = false;
                peer.voted = None;
            }
            let lately = now.saturating_sub(peer.said_at.max(peer.asked_at)) < SECOND;
            if is_down && (at_once || !lately) {
                asked.push(who.clone());
            }
        }
        if asked.is_empty() {
            return;
        }
        let Address { host, port } = sentinel.master().address.clone();
        let (epoch, port) = (sentinel.epoch.to_string(), port.to_string());
        let candidate = sentinel.failover.as_ref().map_or("*".to_owned(), |_| sentinel.id.clone());
        let question = ["SENTINEL", "is-master-down-by-addr", &host, &port, &epoch, &candidate];
        for who in asked {
            self.ask_whether_down(&who, &question);
        }
    }

    /// The answer to another sentinel that asks whether this one finds the master down, and for its vote.
    pub(crate) fn say_whether_down(&mut self, about: &Address, epoch: u64, candidate: &str) -> Reply {
        let Some((sentinel, _)) = self.watched() else { return Reply::Nil };
        let master = sentinel.master();
        let is_known = master.address == *about;
        let is_down = is_known && master.down_since.is_some();
        let (leader, leader_epoch) = match is_known && candidate != "*" {
            true => self.vote(candidate, epoch),
            false => ("*".to_owned(), 0),
        };
        Reply::Array(vec![Reply::Int(is_down.into()), Reply::text(leader), Reply::Int(leader_epoch as i64)])
    }

    fn vote(&mut self, candidate: &str, epoch: u64) -> (String, u64) {
        let (now, delay) = (self.now, Duration::from_millis(self.dice.next() % 1000));
        let Some(sentinel) = &mut self.sentinel else { return ("*".to_owned(), 0) };
        if epoch > sentinel.epoch {
            sentinel.epoch = epoch;
            self.announce("+new-epoch", &epoch.to_string());
        }
        let sentinel = self.sentinel.as_mut().expect("it is one");
        if sentinel.vote.as_ref().map_or(0, |(_, epoch)| *epoch) < epoch && sentinel.epoch <= epoch {
            sentinel.vote = Some((candidate.to_owned(), sentinel.epoch));
            if candidate != sentinel.id {
                // The other one is given time.
                sentinel.tried_at = Some(now + delay);
            }
            self.announce("+vote-for-leader", &format!("{candidate} {epoch}"));
        }
        let vote = self.sentinel.as_ref().and_then(|sentinel| sentinel.vote.clone());
        vote.unwrap_or_else(|| ("*".to_owned(), 0))
    }

    fn begins_failover(&self) -> bool {
        self.watched().is_some_and(|(sentinel, watch)| {
            let long_ago = |at: Duration| self.now.saturating_sub(at) >= 2 * watch.failover_timeout;
            sentinel.is_objectively_down
                && sentinel.failover.is_none()
                && sentinel.tried_at.is_none_or(long_ago)
        })
    }

    fn begin_failover(&mut self, is_forced: bool) {
        let (now, delay) = (self.now, Duration::from_millis(self.dice.next() % 1000));
        let about = self.about_master();
        let Some(sentinel) = &mut self.sentinel else { return };
        sentinel.epoch += 1;
        sentinel.tried_at = Some(now + delay);
        let epoch = sentinel.epoch;
        sentinel.failover =
            Some(Failover { epoch, step: Step::Votes, began: now + delay, step_began: now, is_forced });
        self.announce("+new-epoch", &epoch.to_string());
        self.announce("+try-failover", &about);
    }

    /// SENTINEL FAILOVER.
    pub(crate) fn sentinel_failover(&mut self) -> Reply {
        let Some((sentinel, _)) = self.watched() else { return Reply::Nil };
        if sentinel.failover.is_some() {
            return Reply::error("INPROG Failover already in progress");
        }
        if self.chosen().is_none() {
            return Reply::error("NOGOODSLAVE No suitable replica to promote");
        }
        self.begin_failover(true);
        Reply::OK
    }

    /// Who is elected in an epoch. It votes too, for who leads so far or for itself.
    fn leader(&mut self, epoch: u64) -> Option<String> {
        let (sentinel, watch) = self.watched()?;
        let voters = sentinel.others().count() + 1;
        let needed = (voters / 2 + 1).max(watch.quorum);
        let mut votes: BTreeMap<String, usize> = BTreeMap::new();
        for (_, peer) in sentinel.others() {
            if let Some((leader, of)) = &peer.voted
                && *of == sentinel.epoch
            {
                *votes.entry(leader.clone()).or_default() += 1;
            }
        }
        let first = |votes: &BTreeMap<String, usize>| {
            votes.iter().max_by_key(|(_, count)| **count).map(|(leader, count)| (leader.clone(), *count))
        };
        let candidate = first(&votes).map_or_else(|| sentinel.id.clone(), |(leader, _)| leader);
        let (own, of) = self.vote(&candidate, epoch);
        if of == epoch {
            *votes.entry(own).or_default() += 1;
        }
        first(&votes).filter(|(_, count)| *count >= needed).map(|(leader, _)| leader)
    }

    /// The replica that is to be master: one that is well, and has read most.
    fn chosen(&self) -> Option<Address> {
        let (sentinel, watch) = self.watched()?;
        let since = |at: Duration| self.now.saturating_sub(at);
        let down = sentinel.master().down_since;
        let info_age = if down.is_some() { 5 * SECOND } else { 3 * INFO_PERIOD };
        let unlinked = down.map_or(Duration::ZERO, since) + 10 * watch.down_after;
        let fits = |peer: &Peer| {
            peer.down_since.is_none()
                && self.is_asked(peer)
                && since(peer.well_at) <= 5 * SECOND
                && peer.info_at.is_some_and(|at| since(at) <= info_age)
                && peer.unlinked <= unlinked
        };
        let good = sentinel.replicas().filter(|(_, peer)| fits(peer));
        let best = good.min_by_key(|(_, peer)| (Reverse(peer.offset), peer.run_id.clone()));
        best.map(|(address, _)| address.clone())
    }

    /// Takes the next step of a failover, if it is time.
    fn go_on(&mut self) {
        let Some((sentinel, watch)) = self.watched() else { return };
        let Some(failover) = sentinel.failover.clone() else { return };
        let (id, timeout) = (sentinel.id.clone(), watch.failover_timeout);
        let lasts = self.now.saturating_sub(failover.step_began);
        match failover.step {
            Step::Votes => {
                let elected = self.leader(failover.epoch).is_some_and(|leader| leader == id);
                if elected || failover.is_forced {
                    self.announce("+elected-leader", &self.about_master());
                    self.enter(Step::Chooses);
                } else if self.now.saturating_sub(failover.began) > ELECTION.min(timeout) {
                    self.abort("-failover-abort-not-elected");
                }
            }
            Step::Chooses => match self.chosen() {
                None => self.abort("-failover-abort-no-good-slave"),
                Some(chosen) => {
                    self.announce("+selected-slave", &self.about_replica(&chosen));
                    self.enter(Step::Promotes(chosen));
                }
            },
            Step::Promotes(chosen) => {
                let who = WatchedPeer::Replica(chosen.clone());
                let connected = self.sentinel.as_ref().and_then(|sentinel| sentinel.peers.get(&who));
                if connected.is_some_and(|peer| self.is_asked(peer)) {
                    self.reconfigure(&who, None);
                    self.enter(Step::Waits(chosen));
                } else if lasts > timeout {
                    self.abort("-failover-abort-slave-timeout");
                }
            }
            // INFO tells when it is master.
            Step::Waits(_) if lasts > timeout => self.abort("-failover-abort-slave-timeout"),
            Step::Waits(_) => {}
            Step::Tells(promoted) => self.tell_replicas(&promoted, lasts > timeout),
        }
    }

    fn enter(&mut self, step: Step) {
        let now = self.now;
        if let Some(failover) = self.sentinel.as_mut().and_then(|sentinel| sentinel.failover.as_mut()) {
            failover.step = step;
            failover.step_began = now;
        }
    }

    fn abort(&mut self, event: &str) {
        let about = self.about_master();
        if let Some(sentinel) = &mut self.sentinel {
            sentinel.failover = None;
        }
        self.announce(event, &about);
    }

    /// Tells somebody whose replica it is, and to end clients' connections: they look anew.
    fn reconfigure(&mut self, who: &WatchedPeer, master: Option<&Address>) {
        let (host, port) = match master {
            None => ("NO".to_owned(), "ONE".to_owned()),
            Some(master) => (master.host.clone(), master.port.to_string()),
        };
        self.tell_peer(who, &["REPLICAOF", &host, &port]);
        self.tell_peer(who, &["CONFIG", "REWRITE"]);
        self.tell_peer(who, &["CLIENT", "KILL", "TYPE", "normal"]);
        self.tell_peer(who, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    }

    /// Tells the replicas of their new master, one by one; when all follow, or it is late, it is over.
    fn tell_replicas(&mut self, promoted: &Address, late: bool) {
        let (now, mut open, mut busy) = (self.now, Vec::new(), false);
        let Some(sentinel) = &self.sentinel else { return };
        for (address, peer) in sentinel.replicas().filter(|(address, _)| *address != promoted) {
            let told = peer.told_at.is_some_and(|at| now.saturating_sub(at) <= 10 * SECOND);
            if !peer.is_done && peer.down_since.is_none() {
                busy |= told;
                open.push((WatchedPeer::Replica(address.clone()), peer.told_at.is_some()));
            }
        }
        if open.is_empty() || late {
            for (who, _) in &open {
                self.reconfigure(who, Some(promoted));
            }
            self.announce("+failover-end", &self.about_master());
            self.switch_master(promoted.clone());
            return;
        }
        if let Some((who, _)) = open.iter().find(|(_, told)| !told).filter(|_| !busy) {
            self.reconfigure(who, Some(promoted));
            if let Some(peer) = self.peer(who) {
                peer.told_at = Some(now);
            }
        }
    }

    /// What INFO says of a role may be the next step, or wrong.
    pub(crate) fn look_at_role(&mut self, who: &WatchedPeer) {
        let now = self.now;
        let Some((sentinel, watch)) = self.watched() else { return };
        let (WatchedPeer::Replica(address), peer) = (who, &sentinel.peers[who]) else { return };
        let since = |at: Duration| now.saturating_sub(at);
        let master = sentinel.master();
        let sane = !master.says_replica
            && master.down_since.is_none()
            && master.info_at.is_some_and(|at| since(at) < 2 * INFO_PERIOD);
        let to = master.address.clone();
        match sentinel.failover.clone() {
            Some(failover) => match &failover.step {
                Step::Waits(promoted) if promoted == address && !peer.says_replica => {
                    let about = self.about_replica(address);
                    if let Some(sentinel) = &mut self.sentinel {
                        sentinel.config_epoch = failover.epoch;
                    }
                    self.announce("+promoted-slave", &about);
                    self.enter(Step::Tells(address.clone()));
                    let all: Vec<WatchedPeer> =
                        self.sentinel.iter().flat_map(|sentinel| sentinel.peers.keys().cloned()).collect();
                    all.iter().for_each(|who| self.say_hello(who));
                }
                Step::Tells(promoted) if peer.follows.as_ref() == Some(promoted) && peer.is_linked => {
                    if let Some(peer) = self.peer(who) {
                        peer.is_done = true;
                    }
                }
                _ => {}
            },
            None if !peer.says_replica => {
                if sane && since(peer.role_since) > PATIENCE && peer.down_since.is_none() {
                    self.reconfigure(who, Some(&to));
                }
            }
            None => {
                let elsewhere = peer.follows.as_ref().is_some_and(|follows| *follows != to);
                if elsewhere && sane && since(peer.follows_since) > watch.failover_timeout {
                    self.reconfigure(who, Some(&to));
                }
            }
        }
    }

    /// Watches another master from now on; the old one is among its replicas.
    pub(crate) fn switch_master(&mut self, master: Address) {
        let Some((sentinel, watch)) = self.watched() else { return };
        let old = sentinel.master().address.clone();
        let Address { host, port } = &old;
        let about = format!("{} {host} {port} {} {}", watch.name, master.host, master.port);
        let replicas = sentinel.replicas().map(|(address, _)| address.clone());
        let mut replicas: Vec<Address> = replicas.chain([old.clone()]).collect();
        replicas.retain(|address| *address != master);
        let known: Vec<WatchedPeer> =
            sentinel.peers.keys().filter(|who| !matches!(who, WatchedPeer::Sentinel(_))).cloned().collect();
        known.iter().for_each(|who| self.forget(who));
        self.announce("+switch-master", &about);
        self.meet(WatchedPeer::Master, master);
        for address in replicas {
            self.meet(WatchedPeer::Replica(address.clone()), address);
        }
        if let Some(sentinel) = &mut self.sentinel {
            sentinel.failover = None;
            sentinel.is_objectively_down = false;
            for peer in sentinel.peers.values_mut() {
                peer.finds_down = false;
            }
        }
    }
}
