//! Measures what one hop costs: nothing between, a plain copy loop, our proxy, the real Toxiproxy.
//!
//! The ways take turns within one run, so that a busy machine hits all alike; ratios within a round are what
//! counts, absolute figures are this machine's. Added latency is a way's own less the direct one's of the
//! same round.
#![allow(missing_docs)]
#![expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use support::toxiproxy::{Api, RealToxiproxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const ROUNDS: usize = 9;
const MESSAGE: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const LOADS: [(usize, usize, Duration); 4] = [
    (1, 1, Duration::from_millis(400)),
    (64, 1, Duration::from_millis(400)),
    (1, 32, Duration::from_millis(400)),
    (64, 32, Duration::from_millis(400)),
];

fn runtime(name: &str) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
        .unwrap()
}

/// What one way did under one load.
struct Figures {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

async fn echo(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                if stream.write_all(&bytes[..length]).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// What anybody would write: the yardstick.
async fn plain(listener: TcpListener, upstream: SocketAddr) {
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut server = TcpStream::connect(upstream).await.unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

async fn client(address: SocketAddr, pipeline: usize, lasts: Duration) -> Vec<u64> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let batch = MESSAGE.repeat(pipeline);
    let mut answer = vec![0; batch.len()];
    let mut took_ns = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        let sent = Instant::now();
        stream.write_all(&batch).await.unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        took_ns.push(sent.elapsed().as_nanos() as u64);
    }
    took_ns
}

async fn load(address: SocketAddr, connections: usize, pipeline: usize, lasts: Duration) -> Figures {
    let clients: Vec<_> = (0..connections).map(|_| tokio::spawn(client(address, pipeline, lasts))).collect();
    let mut all_ns = Vec::new();
    for client in clients {
        all_ns.extend(client.await.unwrap());
    }
    all_ns.sort_unstable();
    let at = |share: f64| all_ns[((all_ns.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    Figures {
        per_s: (all_ns.len() * pipeline) as f64 / lasts.as_secs_f64(),
        p50_us: at(0.5),
        p99_us: at(0.99),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One line per goal: the hop of ours against the other two ways.
fn goals(ways: &[(&str, SocketAddr)], alone: &[Vec<Figures>], busy: &[Vec<Figures>]) {
    let place = |name: &str| ways.iter().position(|(way, _)| *way == name);
    let (Some(ours), Some(plain)) = (place("ours"), place("plain copy")) else {
        return;
    };
    let ratio = |rounds: &[Vec<Figures>], figure: &dyn Fn(&[Figures]) -> f64| {
        median(rounds.iter().map(|round| figure(round)).collect())
    };
    let say = |name: &str, measured: f64, reached: bool, bound: &str| {
        let verdict = if reached { "reached" } else { "NOT reached" };
        println!("goal: {name}: {measured:.3}, {bound}: {verdict}");
    };
    let rate = ratio(busy, &|round| round[ours].per_s / round[plain].per_s);
    say("throughput at 64 connections against the plain copy's", rate, rate >= 0.95, "at least 0.95");
    if let Some(real) = place("Toxiproxy") {
        let p50 = |way: usize| {
            ratio(alone, &move |round: &[Figures]| {
                (round[way].p50_us - round[0].p50_us) / (round[real].p50_us - round[0].p50_us)
            })
        };
        let p99 = ratio(alone, &|round| {
            (round[ours].p99_us - round[0].p99_us) / (round[real].p99_us - round[0].p99_us)
        });
        let name = "added latency p50 at 1 connection against Toxiproxy's";
        say(name, p50(ours), p50(ours) <= 0.5, "at most 0.5");
        println!("      the plain copy's: {:.3}", p50(plain));
        let name = "added latency p99 at 1 connection against Toxiproxy's";
        say(name, p99, p99 <= 0.5, "at most 0.5");
    }
}

fn main() {
    let (servers, proxies, clients) = (runtime("echo"), runtime("proxy"), runtime("client"));
    let bind = |runtime: &Runtime| runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let listener = bind(&servers);
    let direct = listener.local_addr().unwrap();
    servers.spawn(echo(listener));
    let listener = bind(&proxies);
    let copied = listener.local_addr().unwrap();
    proxies.spawn(plain(listener, direct));
    let ours = proxies.block_on(Api::ours());
    let real = proxies.block_on(RealToxiproxy::start()).map(Api::Real);
    let mut ways = vec![("direct", direct), ("plain copy", copied)];
    for (name, api) in [("ours", Some(&ours)), ("Toxiproxy", real.as_ref())] {
        if let Some(api) = api {
            ways.push((name, proxies.block_on(api.proxy("bench", direct))));
        }
    }
    println!(
        "{:<11} {:>4} x {:<4} {:>12} {:>10} {:>10} {:>12} {:>12} {:>10}",
        "way", "conn", "pipe", "requests/s", "p50 us", "p99 us", "added p50", "added p99", "of plain"
    );
    let mut all = Vec::new();
    for (connections, pipeline, lasts) in LOADS {
        let mut rounds: Vec<Vec<Figures>> = Vec::new();
        for _ in 0..ROUNDS {
            let round = ways
                .iter()
                .map(|(_, address)| clients.block_on(load(*address, connections, pipeline, lasts)));
            rounds.push(round.collect());
        }
        for (place, (name, _)) in ways.iter().enumerate() {
            let over = |figure: fn(&[Figures], usize) -> f64| {
                median(rounds.iter().map(|round| figure(round, place)).collect())
            };
            println!(
                "{name:<11} {connections:>4} x {pipeline:<4} {:>12.0} {:>10.1} {:>10.1} {:>12.1} {:>12.1} {:>10.3}",
                over(|round, place| round[place].per_s),
                over(|round, place| round[place].p50_us),
                over(|round, place| round[place].p99_us),
                over(|round, place| round[place].p50_us - round[0].p50_us),
                over(|round, place| round[place].p99_us - round[0].p99_us),
                over(|round, place| round[place].per_s / round[1].per_s),
            );
        }
        all.push(rounds);
    }
    goals(&ways, &all[0], &all[1]);
}
