//! How far replicas are behind, in time: when their master was where they are now.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{External, Role};
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How often each server is asked.
const EVERY: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(1);
/// So many positions of a master are remembered: ten minutes of them.
const REMEMBERED: usize = 12_000;

/// What was measured of replicas.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplicaLag {
    /// Lags in seconds, in order; empty where no replica was found.
    pub lags_s: Vec<f64>,
    /// The shortest time of a question to a master and its answer; `None`: none answered.
    pub rtt_s: Option<f64>,
    /// The most replicas that a master had at once.
    pub replicas: usize,
}

/// Where a server is in the stream of writes, and who follows it.
struct Position {
    asked: Instant,
    answered: Instant,
    offset: u64,
    replicas: Vec<SocketAddr>,
}

/// Connections that are kept, by server.
struct ServerConnections<'a> {
    servers: &'a External,
    open: BTreeMap<SocketAddr, MultiplexedConnection>,
}

impl ServerConnections<'_> {
    async fn position(&mut self, of: SocketAddr) -> Option<Position> {
        let mut connection = match self.open.remove(&of) {
            Some(open) => open,
            None => self.servers.connection(of, ANSWER).await.ok()?,
        };
        let asked = Instant::now();
        let mut question = redis::cmd("INFO");
        question.arg("replication");
        let info = timeout(ANSWER, question.query_async::<String>(&mut connection)).await;
        let info = info.ok()?.ok()?;
        self.open.insert(of, connection);
        parse(&info).map(|(offset, replicas)| Position { asked, answered: Instant::now(), offset, replicas })
    }
}

/// The offset of what a server has, and the addresses of its replicas.
fn parse(info: &str) -> Option<(u64, Vec<SocketAddr>)> {
    let field = |name: &str| {
        let mut values = info.lines().filter_map(|line| line.strip_prefix(name));
        values.next().map(str::trim)
    };
    let own = field("slave_repl_offset:").or_else(|| field("master_repl_offset:"))?;
    let replicas = info.lines().filter(|line| line.starts_with("slave"));
    let address = |line: &str| {
        let ip = line.split_once("ip=")?.1.split(',').next()?;
        let port = line.split_once("port=")?.1.split(',').next()?;
        Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
    };
    Some((own.parse().ok()?, replicas.filter_map(address).collect()))
}

/// How long ago the master was at the offset, in proportion; nought where it has not gone on since.
fn behind_s(positions: &VecDeque<(Instant, u64)>, offset: u64, now: Instant) -> f64 {
    let after = positions.partition_point(|(_, at)| *at <= offset);
    let Some(&(later, beyond)) = positions.get(after) else { return 0.0 };
    let Some(&(earlier, before)) = after.checked_sub(1).and_then(|at| positions.get(at)) else {
        return (now - later).as_secs_f64();
    };
    let share = (offset - before) as f64 / (beyond - before) as f64;
    (now - earlier).as_secs_f64() - share * (later - earlier).as_secs_f64()
}

/// Asks masters and their replicas for so long, or until it is cancelled. No server beyond this machine is
/// asked where all that were found are on it.
pub async fn measure_replica_lag(
    servers: &External,
    length: Duration,
    cancel: &watch::Receiver<bool>,
) -> ReplicaLag {
    let masters = servers.data_servers().into_iter();
    let masters = masters.filter(|one| one.1 == Role::Master).map(|one| one.0);
    let mut positions: BTreeMap<SocketAddr, VecDeque<(Instant, u64)>> =
        masters.map(|master| (master, VecDeque::new())).collect();
    let (mut asked, mut found) =
        (ServerConnections { servers, open: BTreeMap::new() }, ReplicaLag::default());
    let end = Instant::now() + length;
    while Instant::now() < end && !*cancel.borrow() {
        for (master, positions) in &mut positions {
            let Some(own) = asked.position(*master).await else { continue };
            let rtt_s = (own.answered - own.asked).as_secs_f64();
            found.rtt_s = Some(found.rtt_s.map_or(rtt_s, |least| least.min(rtt_s)));
            found.replicas = found.replicas.max(own.replicas.len());
            positions.push_back((own.answered, own.offset));
            if positions.len() > REMEMBERED {
                positions.pop_front();
            }
            let here = servers.is_loopback();
            for replica in own.replicas.into_iter().filter(|replica| !here || replica.ip().is_loopback()) {
                if let Some(theirs) = asked.position(replica).await {
                    found.lags_s.push(behind_s(positions, theirs.offset, theirs.asked));
                }
            }
        }
        sleep(EVERY).await;
    }
    found.lags_s.sort_unstable_by(f64::total_cmp);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_behind_by_the_time_since_its_master_was_there() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let positions = VecDeque::from([(at(0), 100), (at(100), 200), (at(200), 300)]);
        assert_eq!(behind_s(&positions, 300, at(210)), 0.0);
        assert!((behind_s(&positions, 150, at(210)) - 0.16).abs() < 1e-9);
        assert!((behind_s(&positions, 50, at(210)) - 0.21).abs() < 1e-9);
    }

    #[test]
    fn a_replica_counts_by_what_it_has() {
        let master = "role:master\r\nslave0:ip=127.0.0.1,port=7002,state=online,offset=9,lag=0\r\nmaster_repl_offset:10\r\n";
        let replica = "role:slave\r\nslave_repl_offset:9\r\nmaster_repl_offset:9\r\n";
        assert_eq!(parse(master), Some((10, vec![SocketAddr::from(([127, 0, 0, 1], 7002))])));
        assert_eq!(parse(replica), Some((9, vec![])));
    }
}
