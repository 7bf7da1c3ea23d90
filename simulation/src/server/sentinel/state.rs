//! A sentinel: what it knows of a master, its replicas and the other sentinels, how it keeps in touch with
//! them, and what it says of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::server::Server;
use crate::server::command::unknown_part;
use crate::server::keys::number;
use crate::server::replication::links::{LinkId, Purpose};
use crate::server::reply::{Reply, words};
use crate::server::sentinel::failover::Failover;
use crate::server::settings::Address;

/// Where sentinels tell each other of themselves.
pub(crate) const HELLO: &[u8] = b"__sentinel__:hello";
const SECOND: Duration = Duration::from_secs(1);
const HELLO_PERIOD: Duration = Duration::from_secs(2);
pub(crate) const INFO_PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchedPeer {
    Master,
    Replica(Address),
    Sentinel(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingQuestion {
    Ping,
    Info,
    IsDown,
    Other,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) run_id: String,
    asks: Option<LinkId>,
    hears: Option<LinkId>,
    pub(crate) open: VecDeque<PendingQuestion>,
    dialled_at: Duration,
    /// Since when an answer to PING is awaited, when one was asked for last, and when it was good.
    pub(crate) pinged_since: Option<Duration>,
    pinged_at: Duration,
    pub(crate) answered_at: Duration,
    pub(crate) well_at: Duration,
    greeted_at: Duration,
    pub(crate) heard_at: Duration,
    pub(crate) down_since: Option<Duration>,
    /// From INFO: when, what it says to be, since when, and of whom it is a replica.
    pub(crate) info_at: Option<Duration>,
    pub(crate) says_replica: bool,
    pub(crate) role_since: Duration,
    pub(crate) follows: Option<Address>,
    pub(crate) follows_since: Duration,
    pub(crate) is_linked: bool,
    pub(crate) unlinked: Duration,
    pub(crate) offset: u64,
    /// Of a replica in a failover: it was told of its new master; it follows it.
    pub(crate) told_at: Option<Duration>,
    pub(crate) is_done: bool,
    /// Of a sentinel: it finds the master down, and whom it voted for; when it said so and was asked.
    pub(crate) finds_down: bool,
    pub(crate) voted: Option<(String, u64)>,
    pub(crate) said_at: Duration,
    pub(crate) asked_at: Duration,
}

/// The state of a sentinel, which outlives its process, as in its configuration file.
#[derive(Debug, Default)]
pub(crate) struct Sentinel {
    pub(crate) id: String,
    pub(crate) epoch: u64,
    pub(crate) config_epoch: u64,
    pub(crate) vote: Option<(String, u64)>,
    pub(crate) peers: BTreeMap<WatchedPeer, Peer>,
    pub(crate) is_objectively_down: bool,
    pub(crate) failover: Option<Failover>,
    /// When it last tried, or voted for another who does.
    pub(crate) tried_at: Option<Duration>,
}

impl Sentinel {
    pub(crate) fn master(&self) -> &Peer {
        &self.peers[&WatchedPeer::Master]
    }

    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Address, &Peer)> {
        self.peers.iter().filter_map(|(who, peer)| match who {
            WatchedPeer::Replica(address) => Some((address, peer)),
            _ => None,
        })
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = (&String, &Peer)> {
        self.peers.iter().filter_map(|(who, peer)| match who {
            WatchedPeer::Sentinel(id) => Some((id, peer)),
            _ => None,
        })
    }

    /// Whom clients are told: the promoted one as soon as it is master.
    fn current_master(&self) -> Address {
        self.failover.as_ref().and_then(Failover::promoted_master).unwrap_or(&self.master().address).clone()
    }
}

impl Server {
    pub(crate) fn start_sentinel(&mut self) {
        let Some(watch) = self.settings.watch.clone() else { return };
        let mut sentinel = self
            .sentinel
            .take()
            .unwrap_or_else(|| Sentinel { id: self.stream.run_id.clone(), ..Sentinel::default() });
        sentinel.failover = None;
        sentinel.is_objectively_down = false;
        let known = std::mem::take(&mut sentinel.peers);
        let mut known: Vec<(WatchedPeer, Address)> =
            known.into_iter().map(|(who, peer)| (who, peer.address)).collect();
        if known.is_empty() {
            known.push((WatchedPeer::Master, watch.master));
        }
        self.sentinel = Some(sentinel);
        known.into_iter().for_each(|(who, address)| self.meet(who, address));
    }

    /// Somebody new to watch, of whom nothing is known but the address.
    pub(crate) fn meet(&mut self, who: WatchedPeer, address: Address) {
        let now = self.now;
        let peer = Peer {
            address,
            // Silence counts from here on, also if no connection ever comes.
            pinged_since: Some(now),
            answered_at: now,
            well_at: now,
            heard_at: now,
            role_since: now,
            follows_since: now,
            says_replica: matches!(who, WatchedPeer::Replica(_)),
            ..Peer::default()
        };
        if let Some(sentinel) = &mut self.sentinel {
            sentinel.peers.insert(who, peer);
        }
    }

    /// Notes at a peer that something happens now.
    fn stamp(&mut self, who: &WatchedPeer, note: impl Fn(&mut Peer, Duration)) {
        let now = self.now;
        self.peer(who).into_iter().for_each(|peer| note(peer, now));
    }

    pub(crate) fn peer(&mut self, who: &WatchedPeer) -> Option<&mut Peer> {
        self.sentinel.as_mut()?.peers.get_mut(who)
    }

    pub(crate) fn forget(&mut self, who: &WatchedPeer) {
        let peer = self.sentinel.as_mut().and_then(|sentinel| sentinel.peers.remove(who));
        for link in peer.into_iter().flat_map(|peer| [peer.asks, peer.hears]).flatten() {
            self.hang_up(link);
        }
    }

    pub(crate) fn is_asked(&self, peer: &Peer) -> bool {
        self.is_up(peer.asks)
    }

    fn ask_peer(&mut self, who: &WatchedPeer, asked: PendingQuestion, command: &[&str]) {
        let Some(link) = self.peer(who).and_then(|peer| peer.asks) else { return };
        if self.is_up(Some(link)) {
            self.say(link, command);
            self.peer(who).expect("it was there").open.push_back(asked);
        }
    }

    pub(crate) fn tell_peer(&mut self, who: &WatchedPeer, command: &[&str]) {
        self.ask_peer(who, PendingQuestion::Other, command);
    }

    pub(crate) fn ask_whether_down(&mut self, who: &WatchedPeer, command: &[&str]) {
        self.ask_peer(who, PendingQuestion::IsDown, command);
        self.stamp(who, |peer, now| peer.asked_at = now);
    }

    pub(crate) fn begin_asking(&mut self, who: &WatchedPeer) {
        self.stamp(who, |peer, _| peer.open.clear());
        self.ping(who);
    }

    pub(crate) fn begin_hearing(&mut self, link: LinkId, who: &WatchedPeer) {
        self.say(link, &words(&["SUBSCRIBE", "__sentinel__:hello"]));
        self.stamp(who, |peer, now| peer.heard_at = now);
    }

    pub(crate) fn lose_peer(&mut self, link: LinkId, who: &WatchedPeer) {
        if let Some(peer) = self.peer(who) {
            if peer.asks == Some(link) {
                peer.asks = None;
                peer.open.clear();
            }
            if peer.hears == Some(link) {
                peer.hears = None;
            }
        }
    }

    fn ping(&mut self, who: &WatchedPeer) {
        self.ask_peer(who, PendingQuestion::Ping, &["PING"]);
        self.stamp(who, |peer, now| {
            peer.pinged_at = now;
            peer.pinged_since.get_or_insert(now);
        });
    }

    /// Dials who is not connected, and asks what is to be asked again.
    pub(crate) fn keep_in_touch(&mut self, who: &WatchedPeer) {
        if self.dial_again(who) {
            return;
        }
        let now = self.now;
        let watch = self.settings.watch.as_ref();
        let down_after = watch.map_or(SECOND, |watch| watch.down_after);
        let since = |at: Duration| now.saturating_sub(at);
        let Some(sentinel) = &self.sentinel else { return };
        let Some(peer) = sentinel.peers.get(who).filter(|peer| self.is_asked(peer)) else { return };
        let hurried = matches!(who, WatchedPeer::Replica(_))
            && (sentinel.is_objectively_down || sentinel.failover.is_some() || !peer.unlinked.is_zero());
        let info_period = if hurried { SECOND } else { INFO_PERIOD };
        let ping_period = down_after.min(SECOND);
        let wants_info = !matches!(who, WatchedPeer::Sentinel(_))
            && !peer.open.contains(&PendingQuestion::Info)
            && peer.info_at.is_none_or(|at| since(at) > info_period);
        let wants_ping = since(peer.answered_at) > ping_period && since(peer.pinged_at) > ping_period / 2;
        let wants_hello = since(peer.greeted_at) > HELLO_PERIOD;
        // A connection on which nothing comes back is given up before its other end is.
        let silent = |at: Duration| since(at) > down_after / 2;
        let stuck = peer.pinged_since.is_some_and(silent)
            && silent(peer.answered_at)
            && since(peer.dialled_at) > Duration::from_secs(15);
        let stuck = peer.asks.filter(|_| stuck);
        let deaf = since(peer.heard_at) > 3 * HELLO_PERIOD;
        let deaf = peer.hears.filter(|_| deaf);
        if let Some(link) = stuck.or(deaf) {
            self.hang_up(link);
            self.lose_peer(link, who);
        }
        if stuck.is_some() {
            return;
        }
        if wants_info {
            self.ask_peer(who, PendingQuestion::Info, &["INFO"]);
        }
        if wants_ping {
            self.ping(who);
        }
        if wants_hello {
            self.say_hello(who);
        }
    }

    /// Dials for the connections that lack, once a second at most; true if it did, or if nobody is there.
    fn dial_again(&mut self, who: &WatchedPeer) -> bool {
        let now = self.now;
        let Some(peer) = self.peer(who) else { return true };
        let lacks = peer.asks.is_none();
        let deaf = peer.hears.is_none() && !matches!(who, WatchedPeer::Sentinel(_));
        if !(lacks || deaf) || now.saturating_sub(peer.dialled_at) < SECOND {
            return false;
        }
        peer.dialled_at = now;
        let to = peer.address.clone();
        if lacks {
            // Its PING is the first that the connection will carry: silence counts from here.
            peer.pinged_at = now;
            peer.pinged_since.get_or_insert(now);
            let link = self.dial(Purpose::Asks(who.clone()), to.clone());
            self.peer(who).expect("it was there").asks = Some(link);
        }
        if deaf {
            let link = self.dial(Purpose::Hears(who.clone()), to);
            self.peer(who).expect("it was there").hears = Some(link);
        }
        true
    }

    pub(crate) fn say_hello(&mut self, who: &WatchedPeer) {
        let (Some(sentinel), Some(watch)) = (&self.sentinel, &self.settings.watch) else { return };
        let (own, master) = (&self.settings.address, sentinel.current_master());
        let hello = format!(
            "{},{},{},{},{},{},{},{}",
            own.host,
            own.port,
            sentinel.id,
            sentinel.epoch,
            watch.name,
            master.host,
            master.port,
            sentinel.config_epoch
        );
        self.ask_peer(who, PendingQuestion::Other, &["PUBLISH", "__sentinel__:hello", &hello]);
        self.stamp(who, |peer, now| peer.greeted_at = now);
    }

    pub(crate) fn announce(&mut self, event: &str, about: &str) {
        self.deliver(None, "publish", event.as_bytes(), about.as_bytes());
    }

    pub(crate) fn sentinel_command(&mut self, args: &[Vec<u8>]) -> Reply {
        let (Some(sentinel), Some(watch)) = (&self.sentinel, &self.settings.watch) else { return Reply::Nil };
        let (word, rest) = args.split_first().expect("a word");
        let word = word.to_ascii_lowercase();
        let named = rest.first().is_some_and(|name| name == watch.name.as_bytes());
        let unknown = || Reply::error("ERR No such master with that name");
        match (word.as_slice(), rest) {
            (b"get-master-addr-by-name", [_]) if !named => Reply::NilArray,
            (b"get-master-addr-by-name", [_]) => {
                let Address { host, port } = sentinel.current_master();
                Reply::texts([&host, &port.to_string()])
            }
            (b"is-master-down-by-addr", [host, port, epoch, id]) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let about = Address::of(&text(host), &text(port));
                self.say_whether_down(&about, number::whole(epoch).map_or(0, |epoch| epoch as u64), &text(id))
            }
            (b"master" | b"failover", [_]) if !named => unknown(),
            (b"master", [_]) => self.master_described(),
            (b"failover", [_]) => self.sentinel_failover(),
            _ => unknown_part("sentinel", &args[0]),
        }
    }

    fn master_described(&self) -> Reply {
        let (Some(sentinel), Some(watch)) = (&self.sentinel, &self.settings.watch) else { return Reply::Nil };
        let peer = sentinel.master();
        let flags = [
            (peer.down_since.is_some(), "s_down"),
            (sentinel.is_objectively_down, "o_down"),
            (true, "master"),
            (!self.is_up(peer.asks), "disconnected"),
        ];
        let flags = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag);
        let fields = [
            ("name", watch.name.clone()),
            ("ip", peer.address.host.clone()),
            ("port", peer.address.port.to_string()),
            ("runid", peer.run_id.clone()),
            ("flags", flags.collect::<Vec<_>>().join(",")),
            ("config-epoch", sentinel.config_epoch.to_string()),
            ("num-slaves", sentinel.replicas().count().to_string()),
            ("num-other-sentinels", sentinel.others().count().to_string()),
            ("quorum", watch.quorum.to_string()),
        ];
        let fields = fields.into_iter();
        Reply::Array(fields.flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect())
    }
}
