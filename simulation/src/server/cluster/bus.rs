//! What nodes of a cluster tell each other: that they are there, what they claim, who is silent; and what
//! follows from it.

use std::time::Duration;

use cluster_config::slot_of;

use crate::server::Server;
use crate::server::cluster::node::Cluster;
use crate::server::keys::keyspace::Expiry;
use crate::server::replication::links::Purpose;
use crate::server::reply::{Command, Reply, words};

const SECOND: Duration = Duration::from_secs(1);
/// A master that was restarted takes nothing for so long.
const WRITABLE_DELAY: Duration = Duration::from_secs(2);

struct Head {
    from: usize,
    epoch: u64,
    config_epoch: u64,
    master: Option<usize>,
    offset: u64,
    claims: String,
    silent: Vec<usize>,
    /// It keeps its clients from writing, since a replica takes over.
    is_paused: bool,
}

impl Head {
    fn write(cluster: &mut Cluster, offset: u64, is_paused: bool) -> Vec<String> {
        let claims = cluster.own_claims();
        let me = &cluster.nodes[cluster.me];
        let config = cluster.nodes[me.master.unwrap_or(cluster.me)].epoch;
        let silent = (cluster.nodes.iter().enumerate())
            .filter(|(_, node)| node.is_suspect || node.failed_at.is_some());
        let silent: Vec<String> = silent.map(|(at, _)| at.to_string()).collect();
        vec![
            cluster.me.to_string(),
            cluster.epoch.to_string(),
            config.to_string(),
            me.master.map_or("-".to_owned(), |master| master.to_string()),
            offset.to_string(),
            claims,
            silent.join(" "),
            u8::from(is_paused).to_string(),
        ]
    }

    fn read(words: &[Vec<u8>]) -> Option<Head> {
        let [from, epoch, config_epoch, master, offset, claims, silent, is_paused] = words else {
            return None;
        };
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        let number = |word: &[u8]| text(word).parse::<u64>().unwrap_or(0);
        Some(Head {
            from: number(from) as usize,
            epoch: number(epoch),
            config_epoch: number(config_epoch),
            master: text(master).parse().ok(),
            offset: number(offset),
            claims: text(claims),
            silent: text(silent).split_whitespace().filter_map(|at| at.parse().ok()).collect(),
            is_paused: is_paused == b"1",
        })
    }
}

impl Server {
    fn message(&mut self, kind: &str, about: &[&[u8]]) -> Command {
        let (offset, is_paused) = (self.stream.offset, self.paused.is_some());
        let mut message = words(&["BUS", kind]);
        if let Some(cluster) = &mut self.cluster {
            message.extend(Head::write(cluster, offset, is_paused).into_iter().map(String::into_bytes));
        }
        message.extend(about.iter().map(|word| word.to_vec()));
        message
    }

    pub(crate) fn tell_node(&mut self, to: usize, kind: &str, about: &[&[u8]]) {
        let link = self.cluster.as_ref().and_then(|cluster| cluster.nodes[to].link);
        if let Some(link) = link.filter(|link| self.is_up(Some(*link))) {
            let message = self.message(kind, about);
            self.say(link, &message);
        }
    }

    fn others(&self) -> Vec<usize> {
        let cluster = self.cluster.iter();
        cluster.flat_map(|cluster| (0..cluster.nodes.len()).filter(|at| *at != cluster.me)).collect()
    }

    pub(crate) fn tell_all_of(&mut self, kind: &str, about: &[&[u8]]) {
        self.others().into_iter().for_each(|to| self.tell_node(to, kind, about));
    }

    pub(crate) fn tell_all(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.forget_claims();
        }
        self.tell_all_of("PONG", &[]);
    }

    fn ping_node(&mut self, to: usize) {
        let now = self.now;
        self.tell_node(to, "PING", &[]);
        if let Some(cluster) = &mut self.cluster {
            cluster.nodes[to].pinged_since.get_or_insert(now);
        }
    }

    pub(crate) fn begin_bus(&mut self, to: usize) {
        self.ping_node(to);
    }

    pub(crate) fn keep_cluster(&mut self) {
        let Some(timeout) = self.settings.cluster.as_ref().map(|membership| membership.node_timeout) else {
            return;
        };
        let now = self.now;
        let since = |at: Duration| now.saturating_sub(at);
        for at in self.others() {
            let Some(cluster) = &mut self.cluster else { return };
            let node = &mut cluster.nodes[at];
            let half = timeout / 2;
            match node.link {
                None => {
                    node.dialled_at = now;
                    node.pinged_since.get_or_insert(now);
                    let to = node.address.clone();
                    let link = self.dial(Purpose::Bus(at), to);
                    self.cluster.as_mut().expect("it is one").nodes[at].link = Some(link);
                }
                // A connection that brings nothing back is made anew before its other end is found silent.
                Some(link)
                    if node.pinged_since.is_some_and(|at| since(at) > half)
                        && since(node.dialled_at) > timeout =>
                {
                    node.link = None;
                    self.hang_up(link);
                }
                Some(_) if node.pinged_since.is_none() && since(node.answered_at) > half => {
                    self.ping_node(at)
                }
                Some(_) => {}
            }
            let cluster = self.cluster.as_mut().expect("it is one");
            let node = &mut cluster.nodes[at];
            if node.pinged_since.is_some_and(|at| since(at) > timeout) && !node.is_suspect {
                node.is_suspect = true;
                self.look_whether_failed(at);
            }
        }
        let others = self.others();
        let Some(cluster) = &mut self.cluster else { return };
        if since(cluster.pinged_at) >= SECOND && !others.is_empty() {
            cluster.pinged_at = now;
            // Of five, the one that was heard longest ago.
            let drawn: Vec<usize> =
                (0..5).map(|_| others[self.dice.next() as usize % others.len()]).collect();
            let cluster = self.cluster.as_ref().expect("it is one");
            let free = drawn
                .into_iter()
                .filter(|at| cluster.nodes[*at].pinged_since.is_none() && cluster.nodes[*at].link.is_some());
            if let Some(at) = free.min_by_key(|at| cluster.nodes[*at].answered_at) {
                self.ping_node(at);
            }
        }
        self.go_on_taking_over();
        self.look_whether_it_serves();
    }

    /// A node that most masters find silent has failed; all are told.
    fn look_whether_failed(&mut self, at: usize) {
        let (now, timeout) = (self.now, self.node_timeout());
        let Some(cluster) = &mut self.cluster else { return };
        let own = usize::from(cluster.nodes[cluster.me].master.is_none());
        let needed = cluster.majority();
        let node = &mut cluster.nodes[at];
        node.reports.retain(|_, said| now.saturating_sub(*said) <= 2 * timeout);
        if node.is_suspect && node.failed_at.is_none() && node.reports.len() + own >= needed {
            node.failed_at = Some(now);
            self.tell_all_of("FAIL", &[at.to_string().as_bytes()]);
        }
    }

    pub(crate) fn node_timeout(&self) -> Duration {
        (self.settings.cluster.as_ref()).map_or(SECOND, |membership| membership.node_timeout)
    }

    /// Whether the cluster serves, as far as this node can see.
    pub(crate) fn look_whether_it_serves(&mut self) {
        let (now, timeout) = (self.now, self.node_timeout());
        let full = self.settings.cluster.as_ref().is_some_and(|membership| membership.full_coverage);
        let Some(cluster) = &mut self.cluster else { return };
        let is_master = cluster.nodes[cluster.me].master.is_none();
        if is_master && !cluster.is_ok && now.saturating_sub(cluster.began) < WRITABLE_DELAY {
            return;
        }
        let masters = cluster.masters();
        let gone = |at: &usize| cluster.nodes[*at].failed_at.is_some();
        let silent = |at: &&usize| cluster.nodes[**at].is_suspect || gone(at);
        let reached = masters.len() - masters.iter().filter(silent).count();
        let covered = !full || !masters.iter().any(gone) && cluster.is_covered();
        let enough = reached >= cluster.majority();
        if !enough {
            cluster.alone_at = Some(now);
        }
        let mut is_ok = covered && enough;
        if is_ok && !cluster.is_ok && is_master {
            let delay = timeout.clamp(SECOND / 2, 5 * SECOND);
            is_ok = cluster.alone_at.is_none_or(|at| now.saturating_sub(at) >= delay);
        }
        cluster.is_ok = is_ok;
    }

    pub(crate) fn hear_bus(&mut self, reply: Reply) {
        if let Some(message) = reply.into_command()
            && message.len() > 1
        {
            self.take_message(&message[1..]);
        }
    }

    pub(crate) fn lose_bus(&mut self, at: usize) {
        if let Some(cluster) = &mut self.cluster {
            cluster.nodes[at].link = None;
        }
    }

    /// A message of another node; an answer to it goes back where it came from.
    pub(crate) fn take_message(&mut self, message: &[Vec<u8>]) -> Option<Reply> {
        const HEAD: usize = 9;
        let (kind, about) = (message.first()?.clone(), message.get(HEAD..)?);
        let head = Head::read(&message[1..HEAD])?;
        let (now, from) = (self.now, head.from);
        let cluster = self.cluster.as_mut()?;
        cluster.epoch = cluster.epoch.max(head.epoch);
        cluster.nodes[from].offset = head.offset;
        match kind.as_slice() {
            b"PING" | b"PONG" => {
                if kind == b"PONG" {
                    self.is_alive(from);
                }
                self.take_claims(&head);
                self.take_reports(&head);
                self.note_pause(from, head.is_paused, head.offset);
                if kind == b"PING" {
                    let pong = self.message("PONG", &[]);
                    return Some(Reply::Array(pong.into_iter().map(Reply::Bulk).collect()));
                }
            }
            b"FAIL" => {
                let failed: usize = String::from_utf8_lossy(about.first()?).parse().ok()?;
                if failed != cluster.me {
                    cluster.nodes[failed].failed_at.get_or_insert(now);
                }
            }
            b"UPDATE" => {
                let [at, epoch, claims] = about else { return None };
                let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
                let (at, epoch): (usize, u64) = (text(at).parse().ok()?, text(epoch).parse().ok()?);
                if at != cluster.me && cluster.nodes[at].epoch < epoch {
                    cluster.nodes[at].epoch = epoch;
                    cluster.nodes[at].master = None;
                    self.give_slots(at, epoch, &text(claims));
                }
            }
            b"ASK" => self.vote_for(from, head.epoch, head.config_epoch, &head.claims, about.first()?),
            b"VOTE" => self.take_vote(from, head.epoch),
            b"HAND" => self.hand_over(from),
            b"PUBLISH" => _ = self.deliver(None, "publish", about.first()?, about.get(1)?),
            b"SPUBLISH" => _ = self.deliver(None, "spublish", about.first()?, about.get(1)?),
            _ => {}
        }
        None
    }

    fn is_alive(&mut self, at: usize) {
        let (now, timeout) = (self.now, self.node_timeout());
        let Some(cluster) = &mut self.cluster else { return };
        let owns = cluster.nodes[at].master.is_none() && cluster.has_slots(at);
        let node = &mut cluster.nodes[at];
        node.answered_at = now;
        node.pinged_since = None;
        node.is_suspect = false;
        // Of a master with slots only if nobody has taken them for a while.
        if node.failed_at.is_some_and(|at| !owns || now.saturating_sub(at) > 2 * timeout) {
            node.failed_at = None;
        }
    }

    fn take_reports(&mut self, head: &Head) {
        let now = self.now;
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.nodes[head.from].master.is_some() || !cluster.has_slots(head.from) {
            return;
        }
        for at in 0..cluster.nodes.len() {
            match head.silent.contains(&at) {
                true => _ = cluster.nodes[at].reports.insert(head.from, now),
                false => _ = cluster.nodes[at].reports.remove(&head.from),
            }
        }
        for at in head.silent.clone() {
            self.look_whether_failed(at);
        }
    }

    fn take_claims(&mut self, head: &Head) {
        let Some(cluster) = &mut self.cluster else { return };
        let (me, from) = (cluster.me, head.from);
        let node = &mut cluster.nodes[from];
        let same =
            node.claims == head.claims && node.master == head.master && node.epoch == head.config_epoch;
        if node.master != head.master {
            node.master = head.master;
            node.claims.clear();
        }
        if head.master.is_some() {
            return;
        }
        node.epoch = node.epoch.max(head.config_epoch);
        node.claims.clone_from(&head.claims);
        let newer = head.config_epoch;
        if !same {
            self.give_slots(from, newer, &head.claims);
        }
        let cluster = self.cluster.as_mut().expect("it is one");
        let looked = std::mem::replace(&mut cluster.nodes[from].seen, cluster.changes + 1);
        if same && looked == cluster.changes + 1 {
            return;
        }
        // One that does not know who has its slots now is told.
        let stale = Cluster::read_claims(&head.claims).filter_map(|slot| cluster.owner(slot));
        let mut stale = stale.filter(|owner| *owner != from && cluster.nodes[*owner].epoch > newer);
        if let Some(owner) = stale.next() {
            cluster.nodes[from].seen = 0;
            let (claims, epoch) = (cluster.claims_of(owner), cluster.nodes[owner].epoch);
            self.tell_node(
                from,
                "UPDATE",
                &[owner.to_string().as_bytes(), epoch.to_string().as_bytes(), claims.as_bytes()],
            );
            return;
        }
        // Two masters of one epoch: the one with the smaller name takes a new one.
        if cluster.nodes[me].master.is_none()
            && cluster.nodes[me].epoch == newer
            && cluster.nodes[me].id < cluster.nodes[from].id
        {
            cluster.epoch += 1;
            cluster.nodes[me].epoch = cluster.epoch;
        }
    }

    /// Takes over what a master claims, where its epoch is newer than that of who has it.
    fn give_slots(&mut self, to: usize, epoch: u64, claims: &str) {
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        let own_master = cluster.nodes[me].master.unwrap_or(me);
        let (mut lost, mut from_own) = (Vec::new(), false);
        for slot in Cluster::read_claims(claims) {
            let owner = cluster.owner(slot);
            let older = owner.is_none_or(|owner| owner != to && cluster.nodes[owner].epoch < epoch);
            if !older || cluster.is_importing(slot) {
                continue;
            }
            from_own |= owner == Some(own_master);
            if owner == Some(me) {
                cluster.end_migration(slot);
                lost.push(slot);
            }
            cluster.give(slot, to);
        }
        if from_own && !cluster.has_slots(own_master) && to != me {
            self.become_replica(to);
        } else if !lost.is_empty() {
            let gone: Vec<Vec<u8>> = self
                .keyspace
                .names()
                .filter(|name| lost.contains(&slot_of(name)))
                .map(<[u8]>::to_vec)
                .collect();
            if self.keyspace.expiry == Expiry::Deletes {
                gone.into_iter().for_each(|key| _ = self.keyspace.call("del", &[key]));
                self.propagate();
            }
        }
        self.drop_shard_channels(|name| lost.contains(&slot_of(name)));
    }

    pub(crate) fn become_replica(&mut self, of: usize) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.myself().master = Some(of);
        cluster.forget_claims();
        cluster.election = None;
        cluster.manual_failover = None;
        let master = cluster.nodes[of].address.clone();
        if self.master_address() != Some(&master) {
            self.paused = None;
            self.change_role();
            self.follow(master);
            self.resume_all();
        }
    }
}
