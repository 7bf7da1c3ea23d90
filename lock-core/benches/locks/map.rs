//! What it costs to read a cluster's map: the answer of 200 nodes, 100 of them masters, from the bytes on the
//! wire to a map from slots to masters, with its slots in one piece each and in many.

use std::time::{Duration, Instant};

use redis::parse_redis_value;

use crate::{
    Failure,
    goals::{self, Bound},
    median,
};

/// The library's own file, which no path of its public interface reaches.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../src/topology/cluster/map.rs"]
mod cluster_map;

const MASTERS: u16 = 100;
const ROUNDS: usize = 101;
const MOST: Duration = Duration::from_millis(2);

pub(crate) fn run() -> Result<(), Failure> {
    println!("\nthe map of a cluster of {MASTERS} masters, each with a replica");
    // After many migrations a master has its slots in pieces.
    for pieces in [1, 10] {
        let (slots, info) = (slots(pieces), info());
        let asked = lock_core::Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 7_000 };
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let answers = [parse_redis_value(slots.as_bytes())?, parse_redis_value(info.as_bytes())?];
            let view = cluster_map::View::read(&answers, &asked).ok_or("no map")?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            assert_eq!(view.shards.len(), usize::from(MASTERS));
        }
        let name = format!("a map of {} nodes read, {pieces} ranges of slots each", 2 * MASTERS);
        goals::figure(&name, median(times), "ms", Bound::AtMost(MOST.as_secs_f64() * 1e3));
    }
    Ok(())
}

fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// As a node answers CLUSTER SLOTS: each range with its master and replica, in order of the slots.
fn slots(pieces: u16) -> String {
    let ranges = MASTERS * pieces;
    let node = |number: u16| {
        let id = text(&format!("{number:040x}"));
        format!("*4\r\n{}:{}\r\n{id}*0\r\n", text("127.0.0.1"), 7_000 + number)
    };
    let range = |place: u16| {
        let at = |place: u16| u32::from(place) * 16_384 / u32::from(ranges);
        let (from, to, master) = (at(place), at(place + 1) - 1, place % MASTERS);
        format!("*4\r\n:{from}\r\n:{to}\r\n{}{}", node(master), node(MASTERS + master))
    };
    format!("*{ranges}\r\n{}", (0..ranges).map(range).collect::<String>())
}

fn info() -> String {
    text("cluster_state:ok\r\ncluster_current_epoch:100\r\n")
}
