//! Listens to servers by MONITOR, a connection to each that is opened again whenever it ends, and says what
//! may have happened in between.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{External, MonitorLine, MonitorStream, TopologyKind};
use redis::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::watch::sources::key_reads::{KeyReads, KeyState, WantedKey};
use crate::watch::watcher::Watcher;

/// Lines of one piece that goes from a connection to the watcher.
const PIECE: usize = 64 << 10;
/// A listener that is to end goes on until nothing has come for so long, and for [`END`] at most.
const SILENCE: Duration = Duration::from_millis(20);
const END: Duration = Duration::from_secs(1);
/// Keys of one server that wait to be read.
const KEYS: usize = 64;
/// A connection that has ended is opened again after this, again and again.
const REOPEN: Duration = Duration::from_millis(20);
/// A server whose connection ends so soon after its last line may have died before it answered that command.
const UNANSWERED: Duration = Duration::from_millis(100);

/// What a server says of itself by INFO.
#[derive(Debug, Clone)]
pub(crate) struct ServerInfo {
    pub(crate) at: Instant,
    run_id: String,
    pub(crate) is_master: bool,
    /// It was one at the look before the last.
    was_master: bool,
    pub(crate) cpu_s: f64,
    pub(crate) commands: u64,
    /// No command has run since it started by which a lock is given back.
    has_released_nothing: bool,
    /// It started with no key of those that it had.
    has_started_empty: bool,
    /// What it has run is in a file, but for what its machine lost.
    has_append_only_file: bool,
}

impl ServerInfo {
    pub(crate) async fn of(servers: &External, address: SocketAddr) -> Result<ServerInfo, String> {
        let info = match servers.ask_server(address, &["INFO", "everything"]).await? {
            Value::BulkString(info) => ServerInfo::parse(&String::from_utf8_lossy(&info)),
            _ => None,
        };
        info.ok_or_else(|| "INFO says something else".to_owned())
    }

    fn parse(info: &str) -> Option<ServerInfo> {
        let field = |name: &str| crate::faults::field(info, name);
        let number = |name: &str| field(name)?.parse::<f64>().ok();
        let releases = [
            "del", "unlink", "getdel", "delex", "delifeq", "hdel", "hincrby", "zrem", "decr", "exec", "eval",
            "evalsha", "fcall", "expire", "pexpire", "set", "flushall", "flushdb",
        ];
        let has_run = |name: &&str| field(&format!("cmdstat_{name}")).is_some();
        let empty = [("aof_enabled", "0"), ("rdb_last_load_keys_loaded", "0"), ("loading", "0")];
        let is_master = field("role") == Some("master");
        Some(ServerInfo {
            at: Instant::now(),
            run_id: field("run_id")?.to_owned(),
            is_master,
            was_master: is_master,
            cpu_s: number("used_cpu_user")? + number("used_cpu_sys")?,
            commands: number("total_commands_processed")? as u64,
            has_released_nothing: !releases.iter().any(has_run),
            // While it reads its append-only file it says that it has none.
            has_started_empty: empty.iter().all(|(name, value)| field(name) == Some(value)),
            has_append_only_file: field("aof_enabled") == Some("1") || field("loading") == Some("1"),
        })
    }
}

/// What comes of one server.
enum ListenerEvent {
    /// Lines, and what a key held at the place of the last of them.
    Lines(Vec<u8>, Option<KeyState>),
    Closed,
    Reopened(Option<ServerInfo>),
    /// It was to stop.
    Stopped,
}

/// A server that is listened to.
pub(crate) struct Source {
    pub(crate) address: SocketAddr,
    /// Its connection is open.
    pub(crate) listens: bool,
    /// Its connection is opened again when it ends.
    is_followed: bool,
    /// Nobody is to listen to it any more.
    is_left: bool,
    pub(crate) info: Option<ServerInfo>,
    /// The time of its last line, and when its last lines came.
    last_us: u64,
    heard: Option<Instant>,
    /// Takes keys that are to be read there.
    wanted: mpsc::Sender<WantedKey>,
    /// Once it is dropped, the listener ends.
    life: Option<oneshot::Sender<()>>,
}

impl Source {
    fn new(
        address: SocketAddr,
        listens: bool,
        info: Option<ServerInfo>,
        wanted: mpsc::Sender<WantedKey>,
        life: Option<oneshot::Sender<()>>,
    ) -> Self {
        let (is_followed, is_left, last_us, heard) = (true, false, 0, None);
        Self { address, listens, is_followed, is_left, info, last_us, heard, wanted, life }
    }

    /// The server was looked at. One that was started anew shows that when its connection is opened again,
    /// and one that is promoted ends its connections in that moment: the look before that one tells what it
    /// was.
    pub(crate) fn looked(&mut self, mut now: ServerInfo) {
        let before = self.info.as_ref();
        if before.is_none_or(|before| before.run_id == now.run_id) {
            now.was_master = before.is_some_and(|before| before.is_master);
            self.info = Some(now);
        }
    }
}

/// The beginning of listening to a server.
pub(crate) struct OpenedListener {
    /// `None`: it does not answer yet.
    pub(crate) stream: Option<MonitorStream>,
    info: Option<ServerInfo>,
}

impl OpenedListener {
    /// Connects to a server.
    ///
    /// # Errors
    /// It does not let this user listen.
    pub(crate) async fn open(servers: &External, address: SocketAddr) -> io::Result<OpenedListener> {
        let stream = match servers.monitor(address).await {
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => return Err(why),
            stream => stream.ok(),
        };
        Ok(OpenedListener { stream, info: ServerInfo::of(servers, address).await.ok() })
    }
}

/// The connections that are listened to, and what came of them so far.
pub(crate) struct Listeners {
    pub(crate) watcher: Watcher,
    pub(crate) sources: Vec<Source>,
    send: mpsc::Sender<(usize, ListenerEvent)>,
    pieces: mpsc::Receiver<(usize, ListenerEvent)>,
    /// The servers as lines of MONITOR call them: a master's lines at a replica are seen at the master.
    pub(crate) masters: Vec<String>,
    /// Replicas are watched: what comes over their connections to masters, which end at these ports, is an
    /// effect. Other lines are of clients, as at a replica that was promoted.
    link_ports: BTreeSet<u16>,
    /// Servers of one group are single masters.
    is_alone: bool,
}

impl Listeners {
    pub(crate) fn new(watcher: Watcher, kind: TopologyKind) -> Self {
        let (send, pieces) = mpsc::channel(64);
        Self {
            watcher,
            sources: Vec::new(),
            send,
            pieces,
            masters: Vec::new(),
            link_ports: BTreeSet::new(),
            is_alone: matches!(kind, TopologyKind::Single | TopologyKind::Masters),
        }
    }

    /// The servers whose lines are taken now or once they can be reached.
    pub(crate) fn followed(&self) -> Vec<SocketAddr> {
        let followed = self.sources.iter().filter(|source| source.is_followed && !source.is_left);
        followed.map(|source| source.address).collect()
    }

    /// Replicas are watched, whose connections to masters end at these ports or at those that are known.
    pub(crate) fn watch_links(&mut self, ports: BTreeSet<u16>) {
        if !ports.is_subset(&self.link_ports) {
            self.link_ports.extend(ports);
            // What came over a new connection before was passed over.
            (0..self.sources.len()).for_each(|place| self.watcher.gap(place));
        }
    }

    /// Listens to some servers no longer, and says to which.
    pub(crate) fn leave(&mut self, is_gone: impl Fn(&Source) -> bool) -> Vec<SocketAddr> {
        let mut gone = Vec::new();
        for (place, source) in self.sources.iter_mut().enumerate() {
            if !source.is_left && is_gone(source) {
                (source.is_left, source.life) = (true, None);
                self.watcher.gap(place);
                gone.push(source.address);
            }
        }
        gone
    }

    /// Takes what a server says from now on, or once it can be reached: whether it can be now.
    pub(crate) fn add(&mut self, servers: &External, address: SocketAddr, opened: OpenedListener) -> bool {
        let OpenedListener { stream, info } = opened;
        let known = self.sources.iter().position(|source| source.address == address && !source.is_left);
        let place = known.unwrap_or(self.sources.len());
        let ((wanted, keys), (life, is_over)) = (mpsc::channel(KEYS), oneshot::channel());
        if let Some(info) = &info
            && info.is_master
            && !info.has_released_nothing
        {
            // A new shard may have given back what had moved to it.
            self.watcher.gap(place);
        }
        let listens = stream.is_some();
        let source = Source::new(address, listens, info, wanted, Some(life));
        match known {
            Some(known) => self.sources[known] = source,
            None => self.sources.push(source),
        }
        let (send, reads) = (self.send.clone(), KeyReads::of(servers.clone(), address, keys));
        let listener = Listener { place, send, is_over, reads };
        tokio::spawn(listener.run(servers.clone(), address, stream));
        listens
    }

    /// Takes what comes until `end`; gives the place of a server whose connection ended or opened again.
    pub(crate) async fn next(&mut self, end: Instant) -> Option<usize> {
        let (place, piece) = timeout_at(end, self.pieces.recv()).await.ok()??;
        self.take(place, piece)
    }

    fn take(&mut self, place: usize, piece: ListenerEvent) -> Option<usize> {
        let source = &mut self.sources[place];
        match piece {
            ListenerEvent::Lines(..) if source.is_left => return None,
            ListenerEvent::Lines(lines, key) => {
                source.heard = Some(Instant::now());
                for text in lines.split(|byte| *byte == b'\n') {
                    let Some(line) = MonitorLine::parse(text) else { continue };
                    let is_of = |master: &String| master.as_bytes() == line.client;
                    source.last_us = source.last_us.max(line.time_us);
                    let is_passed_over = match self.link_ports.is_empty() {
                        true => self.masters.iter().any(is_of),
                        false => !port_of(line.client).is_some_and(|port| self.link_ports.contains(&port)),
                    };
                    if !is_passed_over {
                        self.watcher.line(place, &line);
                    }
                }
                let last_us = source.last_us;
                for key in self.watcher.wanted_keys() {
                    // A server that answers slowly is asked for less.
                    let _ = self.sources[key.source].wanted.try_send(key);
                }
                key.into_iter().for_each(|state| self.watcher.key_state(state, last_us));
                return None;
            }
            ListenerEvent::Closed => {
                source.listens = false;
                let last_us = source.last_us;
                let is_just_now = source.heard.is_some_and(|heard| heard.elapsed() < UNANSWERED);
                if is_just_now && source.info.as_ref().is_none_or(|info| info.is_master) {
                    // It died, or ends its connections as one that is replaced does. If it goes on all the
                    // same, nothing is known of its locks.
                    self.watcher.unanswered(place, last_us);
                }
                self.watcher.disconnected(place);
            }
            ListenerEvent::Stopped => (source.listens, source.is_followed) = (false, false),
            ListenerEvent::Reopened(info) => {
                source.listens = true;
                let before = std::mem::replace(&mut source.info, info.clone());
                self.reopened(place, before.as_ref(), info.as_ref());
            }
        }
        Some(place)
    }

    /// Nobody listened to a server for a while: what may have happened to its locks.
    fn reopened(&mut self, place: usize, before: Option<&ServerInfo>, now: Option<&ServerInfo>) {
        let (Some(before), Some(now)) = (before, now) else { return self.watcher.gap(place) };
        let went_on = before.run_id == now.run_id;
        match went_on {
            // No lock is given back at a replica; one that is promoted ends its connections then.
            true if !before.was_master => {
                // The master before a promoted one may be silent, and not dead.
                for (other, source) in self.sources.iter().enumerate().filter(|_| now.is_master) {
                    let is_master = source.info.as_ref().is_some_and(|info| info.is_master);
                    if other != place && source.listens && is_master {
                        self.watcher.unanswered(other, source.last_us);
                    }
                }
            }
            false if !now.is_master => {}
            // What is gone from a file of all commands was given back, in a line that nobody saw.
            _ if went_on || !now.has_released_nothing || now.has_append_only_file => self.watcher.gap(place),
            _ if now.has_started_empty && self.is_alone => self.watcher.lost(place),
            _ => {}
        }
    }

    /// Ends all connections; what came until then is taken.
    pub(crate) async fn stop(&mut self) {
        self.sources.iter_mut().for_each(|source| source.life = None);
        let end = Instant::now() + 2 * END;
        while self.sources.iter().any(|source| source.is_followed)
            && let Ok(Some((place, piece))) = timeout_at(end, self.pieces.recv()).await
        {
            self.take(place, piece);
        }
    }
}

/// The port of a client as MONITOR shows it.
fn port_of(client: &[u8]) -> Option<u16> {
    let begin = client.iter().rposition(|byte| *byte == b':')? + 1;
    std::str::from_utf8(&client[begin..]).ok()?.parse().ok()
}

/// Passes on what one server says.
struct Listener {
    place: usize,
    send: mpsc::Sender<(usize, ListenerEvent)>,
    is_over: oneshot::Receiver<()>,
    reads: KeyReads,
}

impl Listener {
    /// `false`: nobody takes it any more.
    async fn pass(&self, piece: ListenerEvent) -> bool {
        self.send.send((self.place, piece)).await.is_ok()
    }

    /// Goes on until it is to stop, with a new connection for each that ends.
    async fn run(mut self, servers: External, address: SocketAddr, mut stream: Option<MonitorStream>) {
        loop {
            if let Some(stream) = stream.take() {
                if self.pass_lines(stream).await {
                    break;
                }
                if !self.pass(ListenerEvent::Closed).await {
                    return;
                }
            }
            let reopened = async {
                loop {
                    sleep(REOPEN).await;
                    if let Ok(stream) = servers.monitor(address).await {
                        return (stream, ServerInfo::of(&servers, address).await.ok());
                    }
                }
            };
            let (again, info) = tokio::select! {
                reopened = reopened => reopened,
                _ = &mut self.is_over => break,
            };
            stream = Some(again);
            if !self.pass(ListenerEvent::Reopened(info)).await {
                return;
            }
        }
        self.pass(ListenerEvent::Stopped).await;
    }

    /// Passes lines on until the connection ends or it is to stop: then what the server has sent by that time
    /// too. Whether it is to stop.
    async fn pass_lines(&mut self, mut stream: MonitorStream) -> bool {
        let (mut line, mut lines, mut begin) = (Vec::new(), Vec::with_capacity(PIECE), 0);
        let mut stops_at: Option<Instant> = None;
        loop {
            let more = match stops_at {
                None => tokio::select! {
                    more = stream.next(&mut line) => more.unwrap_or(false),
                    _ = &mut self.is_over => {
                        stops_at = Some(Instant::now() + END);
                        true
                    }
                },
                Some(end) => {
                    let more = timeout(SILENCE, stream.next(&mut line)).await;
                    Instant::now() < end && matches!(more, Ok(Ok(true)))
                }
            };
            lines.extend_from_slice(&line);
            line.clear();
            let (mut state, is_whole) = (None, lines.ends_with(b"\n"));
            if is_whole {
                state = self.reads.read_at(&lines[begin..]).await;
                begin = lines.len();
            }
            let is_piece = state.is_some() || !stream.has_more() || lines.len() >= PIECE;
            if !more || is_whole && is_piece {
                begin = 0;
                if !self.pass(ListenerEvent::Lines(std::mem::take(&mut lines), state)).await {
                    return true;
                }
            }
            if !more {
                return stops_at.is_some();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::lock::lock_state::WatchOptions;

    fn source(info: Option<ServerInfo>) -> Source {
        Source::new(SocketAddr::from(([127, 0, 0, 1], 1)), true, info, mpsc::channel(1).0, None)
    }

    fn info(run_id: &str, role: &str) -> ServerInfo {
        let info = "used_cpu_user:1\nused_cpu_sys:1\ntotal_commands_processed:1";
        ServerInfo::parse(&format!("run_id:{run_id}\nrole:{role}\n{info}")).unwrap()
    }

    #[test]
    fn a_server_that_still_reads_its_file_has_not_started_empty() {
        for (loading, is_empty) in [(0, true), (1, false)] {
            let said = format!("master\naof_enabled:0\nrdb_last_load_keys_loaded:0\nloading:{loading}");
            assert_eq!(info("1", &said).has_started_empty, is_empty, "{said}");
        }
    }

    /// A release, which deletes the key if it is there.
    const RELEASE: [&str; 2] = [
        "127.0.0.1:5001] \"EVALSHA\" \"bb\" \"1\" \"order:1\" \"token-of-one-1\"",
        "lua] \"get\" \"order:1\"",
    ];

    /// A lock is granted and given back, granted once more, and granted to another by the server that comes
    /// after.
    fn findings(
        kind: TopologyKind,
        after_ms: u32,
        came_after: impl Fn(&mut Listeners) -> usize,
    ) -> Vec<String> {
        let mut listeners = Listeners::new(Watcher::new(WatchOptions::default()), kind);
        listeners.sources.extend([source(Some(info("1", "master"))), source(Some(info("2", "slave")))]);
        let say = |listeners: &mut Listeners, place, ms: u32, lines: &[&str]| {
            let line = |line: &&str| format!("17000000{:02}.{:03}000 [0 {line}\n", ms / 1000, ms % 1000);
            let text: String = lines.iter().map(line).collect();
            listeners.take(place, ListenerEvent::Lines(text.into_bytes(), None));
        };
        let take = |port, owner| {
            [
                format!("127.0.0.1:{port}] \"EVALSHA\" \"aa\" \"1\" \"order:1\" \"{owner}\" \"60000\""),
                "lua] \"exists\" \"order:1\"".to_owned(),
                format!("lua] \"set\" \"order:1\" \"{owner}\" \"px\" \"60000\""),
            ]
        };
        let [one, two] = [take(5001, "token-of-one-1"), take(5002, "token-of-two-2")];
        let [one, two] = [&one, &two].map(|lines| lines.each_ref().map(String::as_str));
        say(&mut listeners, 0, 0, &one);
        say(&mut listeners, 0, 10, &RELEASE);
        say(&mut listeners, 0, 10, &["lua] \"del\" \"order:1\""]);
        say(&mut listeners, 0, 1_000, &one);
        say(&mut listeners, 0, 1_000 + after_ms, &["127.0.0.1:5003] \"PING\""]);
        let place = came_after(&mut listeners);
        say(&mut listeners, place, 3_000, &two);
        say(&mut listeners, place, 3_010, &["127.0.0.1:5002] \"DEL\" \"order:1\""]);
        let seen = listeners.watcher.finish().report;
        assert_eq!(seen.locks[0].grants, 3, "{seen:?}");
        let found = seen.findings.into_iter().map(|one| one.kind);
        found.filter(|kind| kind != "release-without-owner-check").collect()
    }

    #[tokio::test]
    async fn a_grant_that_may_not_have_been_answered_accuses_nobody() {
        let restarted = |listeners: &mut Listeners| {
            listeners.take(0, ListenerEvent::Closed);
            listeners.take(0, ListenerEvent::Reopened(Some(info("3", "master"))));
            0
        };
        let failed_over = |listeners: &mut Listeners| {
            listeners.take(0, ListenerEvent::Closed);
            1
        };
        // The old master is only silent; the new one ends its connections when it is promoted.
        let promoted = |listeners: &mut Listeners| {
            listeners.take(1, ListenerEvent::Closed);
            listeners.take(1, ListenerEvent::Reopened(Some(info("2", "master"))));
            1
        };
        let lost = ["overlap", "lost-by-server"].map(str::to_owned).to_vec();
        for after_ms in [1, 100] {
            let expected = if after_ms == 1 { Vec::new() } else { lost.clone() };
            assert_eq!(findings(TopologyKind::Single, after_ms, restarted), expected);
            assert_eq!(findings(TopologyKind::Sentinel, after_ms, failed_over), expected);
            assert_eq!(findings(TopologyKind::Sentinel, after_ms, promoted), expected);
        }
    }

    #[tokio::test]
    async fn a_release_of_the_moment_in_which_a_server_dies_accuses_nobody() {
        let after = |said: &str, repeats: &[&str]| {
            findings(TopologyKind::Single, 100, |listeners| {
                let said = format!("master{said}");
                listeners.take(0, ListenerEvent::Closed);
                listeners.take(0, ListenerEvent::Reopened(Some(info("3", &said))));
                let line = |line: &&str| format!("1700000002.500000 [0 {line}\n");
                let lines: String = repeats.iter().map(line).collect();
                listeners.take(0, ListenerEvent::Lines(lines.into_bytes(), None));
                0
            })
        };
        // It finds nothing to release: the one that nobody saw had been done.
        assert_eq!(after("", &RELEASE), Vec::<String>::new());
        assert_eq!(after("", &[]), ["overlap", "lost-by-server"]);
        assert_eq!(after("\naof_enabled:1", &[]), Vec::<String>::new());
    }

    #[tokio::test]
    async fn what_waits_at_the_end_of_a_watch_is_taken() {
        let watcher = Watcher::new(WatchOptions::default());
        let mut listeners = Listeners::new(watcher, TopologyKind::Single);
        listeners.sources.push(source(None));
        let line = b"1700000000.000001 [0 127.0.0.1:5000] \"SET\" \"order:1\" \"v\" \"NX\"\n";
        let lines = || ListenerEvent::Lines(line.to_vec(), None);
        for piece in [lines(), lines(), ListenerEvent::Stopped] {
            listeners.send.send((0, piece)).await.unwrap();
        }
        listeners.stop().await;
        assert_eq!(listeners.watcher.commands(), 2);
    }
}
