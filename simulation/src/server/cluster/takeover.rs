//! How a replica of a cluster becomes master: by the masters' votes when its own has failed, or because
//! somebody asked for it.

use std::time::Duration;

use crate::server::Server;
use crate::server::cluster::node::Cluster;
use crate::server::reply::Reply;

const SECOND: Duration = Duration::from_secs(1);
/// Time limit of a manual failover; the master holds writes back for at most twice as long.
const MANUAL_FAILOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// A replica whose master was silent for longer than this plus ten timeouts has too old data to stand.
const PING_PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) struct Election {
    at: Duration,
    /// The epoch of its request for votes, once sent.
    epoch: Option<u64>,
    votes: Vec<usize>,
    is_forced: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct ManualFailover {
    until: Duration,
    /// The offset at which the paused master stopped, once that is known.
    stops_at: Option<u64>,
    may_begin: bool,
}

impl Server {
    /// Answers `CLUSTER FAILOVER`.
    pub(crate) fn cluster_failover(&mut self) -> Reply {
        let until = self.now + MANUAL_FAILOVER_TIMEOUT;
        let Some(cluster) = &mut self.cluster else { return Reply::Nil };
        let Some(master) = cluster.nodes[cluster.me].master else {
            return Reply::error("ERR You should send CLUSTER FAILOVER to a replica");
        };
        if cluster.nodes[master].failed_at.is_some() {
            return Reply::error("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE");
        }
        cluster.election = None;
        cluster.manual_failover = Some(ManualFailover { until, stops_at: None, may_begin: false });
        self.tell_node(master, "HAND", &[]);
        Reply::OK
    }

    pub(crate) fn hand_over(&mut self, to: usize) {
        let until = self.now + 2 * MANUAL_FAILOVER_TIMEOUT;
        if self.cluster.as_ref().is_some_and(|cluster| cluster.nodes[to].master == Some(cluster.me)) {
            self.paused = Some((until, true));
            self.tell_node(to, "PONG", &[]);
        }
    }

    /// Notes the offset at which the paused master stopped.
    pub(crate) fn note_pause(&mut self, from: usize, is_paused: bool, offset: u64) {
        let Some(cluster) = &mut self.cluster else { return };
        let own = cluster.nodes[cluster.me].master == Some(from);
        if let Some(manual) = cluster.manual_failover.as_mut().filter(|_| own && is_paused) {
            manual.stops_at.get_or_insert(offset);
        }
    }

    /// Takes the next step towards becoming master, if there is one.
    pub(crate) fn go_on_taking_over(&mut self) {
        let (now, offset, timeout) = (self.now, self.stream.offset, self.node_timeout());
        let since = |at: Duration| now.saturating_sub(at);
        let silence = self.silence_of_master();
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.manual_failover.as_ref().is_some_and(|manual| now > manual.until) {
            cluster.manual_failover = None;
        }
        if let Some(manual) = &mut cluster.manual_failover {
            manual.may_begin |= manual.stops_at.is_some_and(|stops_at| offset >= stops_at);
        }
        let me = cluster.me;
        let Some(master) = cluster.nodes[me].master else { return };
        let manual = cluster.manual_failover.as_ref().is_some_and(|manual| manual.may_begin);
        if !(cluster.nodes[master].failed_at.is_some() || manual) || !cluster.has_slots(master) {
            return;
        }
        if !manual && silence.saturating_sub(timeout) > PING_PERIOD + 10 * timeout {
            return;
        }
        let patience = (2 * timeout).max(2 * SECOND);
        let fresh = cluster
            .election
            .as_ref()
            .is_some_and(|election| now < election.at || since(election.at) <= 2 * patience);
        if !fresh {
            // Replicas of the same master with a larger offset come first.
            let ahead =
                (cluster.nodes.iter()).filter(|node| node.master == Some(master) && node.offset > offset);
            let rank = ahead.count() as u32;
            let delay = Duration::from_millis(500 + self.dice.next() % 500) + rank * SECOND;
            cluster.election = Some(Election {
                at: if manual { now } else { now + delay },
                epoch: None,
                votes: Vec::new(),
                is_forced: manual,
            });
            self.tell_all();
            return;
        }
        let needed = cluster.majority();
        let Some(election) = &mut cluster.election else { return };
        if now < election.at || since(election.at) > patience {
            return;
        }
        match election.epoch {
            None => {
                cluster.epoch += 1;
                election.epoch = Some(cluster.epoch);
                let forced: &[u8] = if election.is_forced { b"1" } else { b"0" };
                self.tell_all_of("ASK", &[forced]);
            }
            Some(epoch) if election.votes.len() >= needed => self.take_over(epoch),
            Some(_) => {}
        }
    }

    fn take_over(&mut self, epoch: u64) {
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        let Some(master) = cluster.nodes[me].master.take() else { return };
        cluster.nodes[me].epoch = epoch;
        let slots = cluster.claims_of(master);
        Cluster::read_claims(&slots).for_each(|slot| cluster.give(slot, me));
        cluster.election = None;
        cluster.manual_failover = None;
        self.lead();
        self.look_whether_it_serves();
        self.tell_all();
    }

    pub(crate) fn vote_for(
        &mut self,
        candidate: usize,
        epoch: u64,
        config_epoch: u64,
        claims: &str,
        forced: &[u8],
    ) {
        let (now, timeout) = (self.now, self.node_timeout());
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        let may_vote = cluster.nodes[me].master.is_none() && cluster.has_slots(me);
        let Some(master) = cluster.nodes[candidate].master.filter(|_| may_vote) else { return };
        let failed = cluster.nodes[master].failed_at.is_some() || forced == b"1";
        let lately = cluster.nodes[master].voted_at.is_some_and(|at| now.saturating_sub(at) < 2 * timeout);
        let outdated = Cluster::read_claims(claims)
            .filter_map(|slot| cluster.owner(slot))
            .any(|owner| cluster.nodes[owner].epoch > config_epoch);
        if epoch < cluster.epoch || cluster.voted_epoch == cluster.epoch || !failed || lately || outdated {
            return;
        }
        cluster.voted_epoch = cluster.epoch;
        cluster.nodes[master].voted_at = Some(now);
        self.tell_node(candidate, "VOTE", &[]);
    }

    pub(crate) fn take_vote(&mut self, from: usize, epoch: u64) {
        let Some(cluster) = &mut self.cluster else { return };
        let counts = cluster.nodes[from].master.is_none() && cluster.has_slots(from);
        if let Some(election) = cluster.election.as_mut().filter(|_| counts)
            && election.epoch.is_some_and(|own| epoch >= own)
            && !election.votes.contains(&from)
        {
            election.votes.push(from);
        }
    }
}
