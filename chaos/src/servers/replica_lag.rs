//! How far replicas are behind, in time: when their master was where they are now.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{Deployment, Dial, External, Role};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use results::run::ReplicaLag;
use tokio::time::{Instant, sleep};

/// How often each server is asked, of up to ten; of more as much more seldom.
const EVERY: Duration = Duration::from_millis(100);
const ANSWER: Duration = Duration::from_secs(1);
/// So many positions of a master are remembered: ten minutes of them.
const REMEMBERED: usize = 12_000;

/// Where a server is in the stream of writes, and who follows it.
struct Position {
    asked: Instant,
    answered: Instant,
    is_master: bool,
    /// The stream: a master and its replicas say the same of it, until one of these is promoted.
    replication_id: String,
    offset: u64,
    replicas: Vec<SocketAddr>,
}

/// Asks servers again and again where they are, and keeps what that says of replicas. It only reads.
#[derive(Default)]
pub struct ReplicaLagSampler {
    servers: Vec<(Dial, Option<MultiplexedConnection>)>,
    /// Where replicas are asked, too, that masters name.
    found: Option<External>,
    streams: BTreeMap<String, VecDeque<(Instant, u64)>>,
    /// When a replica was found so many seconds behind, in this order.
    pub(crate) lags: Vec<(std::time::Instant, f64)>,
    /// The shortest time of a question to a master and its answer; `None`: none answered.
    pub(crate) rtt_s: Option<f64>,
    /// The most replicas that a master had at once.
    pub(crate) replicas: usize,
}

impl ReplicaLagSampler {
    /// Of a deployment's masters and replicas, past its proxies. Without a replica nobody is asked.
    pub(crate) fn of_deployment(deployment: &Deployment) -> Self {
        let is_asked = deployment.topology().kind.is_redis()
            && deployment.nodes().iter().any(|node| node.role == Role::Replica);
        let data = deployment.nodes().iter().filter(|node| is_asked && node.role != Role::Sentinel);
        Self { servers: data.map(|node| (node.dial.clone(), None)).collect(), ..Self::default() }
    }

    /// Of somebody's masters, and the replicas that these name. No server beyond this machine is asked where
    /// all that were found are on it.
    pub(crate) fn of_external(servers: &External) -> Self {
        let data = servers.data_servers().into_iter().map(|(address, _)| (servers.dial(address), None));
        Self { servers: data.collect(), found: Some(servers.clone()), ..Self::default() }
    }

    /// Samples until this is dropped.
    pub(crate) async fn sample(&mut self) -> ! {
        loop {
            let round = self.ask().await;
            self.take(&round);
            sleep(EVERY.max(EVERY / 10 * self.servers.len() as u32)).await;
        }
    }

    /// All at the same time, since the answers of one round are compared.
    async fn ask(&mut self) -> Vec<Position> {
        let answers = self.servers.iter_mut().map(|(server, open)| async {
            let mut connection = match open.take() {
                Some(open) => open,
                None => server.connection(ANSWER).await.ok()?,
            };
            let asked = Instant::now();
            let mut question = redis::cmd("INFO");
            let info = question.arg("replication").query_async::<String>(&mut connection).await;
            // An error with a code is the server's answer: the connection is in order.
            *open = info.as_ref().err().is_none_or(|error| error.code().is_some()).then_some(connection);
            parse(&info.ok()?, asked)
        });
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// A replica counts where its master answered, too: during an outage it is behind nobody.
    fn take(&mut self, round: &[Position]) {
        for master in round.iter().filter(|one| one.is_master) {
            let rtt_s = (master.answered - master.asked).as_secs_f64();
            self.rtt_s = Some(self.rtt_s.map_or(rtt_s, |least| least.min(rtt_s)));
            self.replicas = self.replicas.max(master.replicas.len());
            let positions = self.streams.entry(master.replication_id.clone()).or_default();
            positions.push_back((master.answered, master.offset));
            if positions.len() > REMEMBERED {
                positions.pop_front();
            }
            let Some(servers) = &self.found else { continue };
            let here = servers.is_loopback();
            for named in master.replicas.iter().filter(|named| !here || named.ip().is_loopback()) {
                if self.servers.iter().all(|(known, _)| known.address != *named) {
                    self.servers.push((servers.dial(*named), None));
                }
            }
        }
        for replica in round.iter().filter(|one| !one.is_master) {
            let follows = |one: &Position| one.is_master && one.replication_id == replica.replication_id;
            if round.iter().any(follows) {
                let lag_s = behind_s(&self.streams[&replica.replication_id], replica.offset, replica.asked);
                // No lag is shorter than the way of a message.
                self.lags.push((replica.answered.into_std(), lag_s.max(self.rtt_s.unwrap_or(0.0))));
            }
        }
    }
}

/// How lags in seconds are spread; `None` of none.
pub(crate) fn spread(lags_s: impl IntoIterator<Item = f64>) -> Option<ReplicaLag> {
    let mut lags_s = Vec::from_iter(lags_s);
    lags_s.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| Some((lags_s.get((lags_s.len() as f64 * share) as usize)? * 1e9) as u64);
    Some(ReplicaLag { samples: lags_s.len() as u64, p50_ns: at(0.5)?, p99_ns: at(0.99)? })
}

/// What a server says of itself and of its replicas, just now.
fn parse(info: &str, asked: Instant) -> Option<Position> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let replicas = info.lines().filter(|line| line.starts_with("slave"));
    let address = |line: &str| {
        let ip = line.split_once("ip=")?.1.split(',').next()?;
        let port = line.split_once("port=")?.1.split(',').next()?;
        Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
    };
    Some(Position {
        asked,
        answered: Instant::now(),
        is_master: field("role:")? == "master",
        replication_id: field("master_replid:")?.to_owned(),
        offset: field("slave_repl_offset:").or_else(|| field("master_repl_offset:"))?.parse().ok()?,
        replicas: replicas.filter_map(address).collect(),
    })
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
    fn a_replica_counts_while_its_master_answers() {
        let info = |role: &str, id: &str, rest: &str| {
            let said = format!("role:{role}\r\nmaster_replid:{id}\r\nmaster_replid2:0\r\n{rest}\r\n");
            parse(&said, Instant::now()).expect("it says where it is")
        };
        let follower = "slave0:ip=127.0.0.1,port=7002,state=online,offset=9,lag=0\r\nmaster_repl_offset:10";
        let mut sampler = ReplicaLagSampler::default();
        let behind = || info("slave", "a", "slave_repl_offset:9\r\nmaster_repl_offset:10");
        sampler.take(&[info("master", "a", follower), behind(), info("slave", "b", "master_repl_offset:1")]);
        assert_eq!((sampler.lags.len(), sampler.replicas, sampler.rtt_s.is_some()), (1, 1, true));
        sampler.take(&[behind()]);
        assert_eq!(sampler.lags.len(), 1, "its master was asked in vain");
        let lags_s = spread((1..=100).map(f64::from)).expect("of a hundred");
        assert_eq!(lags_s, ReplicaLag { samples: 100, p50_ns: 51_000_000_000, p99_ns: 100_000_000_000 });
        assert_eq!(spread([]), None);
    }
}
