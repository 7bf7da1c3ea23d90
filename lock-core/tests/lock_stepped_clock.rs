//! A queued lock's line while the server's clock steps: by an administrator's hand, or as a failover to a
//! server with another clock does it.
//!
//! All that a clock has written lies in the data, so its step by so much is the same as a step of all that by
//! as much the other way.

mod lock_support;
mod support;

use lock_core::Kind;
use lock_support::{
    lines::{listen, lock, minute, wait_for, waits},
    shapes::only_latches_and_tokens_stay,
};
use support::Server;

const LINE: &str = "locklab_queue:{q}";
const RANKS: &str = "locklab_queue_order:{q}";
const STEP_MS: i64 = 5000;

/// The server's clock goes so much forward, or back.
fn step(server: &Server, by_ms: i64) {
    const SCRIPT: &str = "
        local by = tonumber(ARGV[1])
        for _, client in ipairs(redis.call('zrange', KEYS[2], 0, -1)) do
            redis.call('zincrby', KEYS[2], string.format('%.0f', -by * 1000), client)
            local alive, rest = string.match(redis.call('hget', KEYS[1], client), '^(%d+)( .+)$')
            redis.call('hset', KEYS[1], client, string.format('%.0f%s', alive - by, rest))
        end
        for _, key in ipairs(KEYS) do
            redis.call('pexpire', key, redis.call('pttl', key) - by)
        end";
    let by_ms = by_ms.to_string();
    server.ok(&["EVAL", SCRIPT, "3", LINE, RANKS, "q", &by_ms]);
}

fn now_ms(server: &Server) -> i64 {
    let time = server.ok(&["TIME"]);
    let parts: Vec<i64> = time.lines().map(|part| part.parse().expect("a number")).collect();
    parts[0] * 1000 + parts[1] / 1000
}

/// Two wait while the clock steps, and a newcomer comes at once after that. As soon as the waiters have been
/// heard again, the line is in the order in which they came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_newcomer_passes_those_who_wait_when_the_clock_steps() {
    for by_ms in [-STEP_MS, STEP_MS] {
        let server = Server::start(&[]);
        let holder = lock(&server, Kind::Queued).await;
        let guard = holder.acquire_with(minute()).await.expect("free");
        let mut order = Vec::new();
        for places in 1..=2 {
            let lock = lock(&server, Kind::Queued).await;
            order.push(wait_for(&lock));
            waits(&server, Kind::Queued, places);
            listen(&server, Kind::Queued, places);
        }
        let before = server.ok(&["ZRANGE", RANKS, "0", "-1"]);
        // One who died a moment before: it seems alive for a moment more, and not for the step besides.
        let dead = format!("{} 1 60000 dead:1", now_ms(&server) + 2000);
        server.ok(&["HSET", LINE, "dead", &dead]);
        server.ok(&["ZADD", RANKS, "1", "dead"]);
        step(&server, by_ms);
        let newcomer = lock(&server, Kind::Queued).await;
        order.push(wait_for(&newcomer));
        waits(&server, Kind::Queued, 4);
        server
            .wait_for(&["ZRANGE", RANKS, "0", "-1"], |ranks| ranks.starts_with(&format!("dead\n{before}\n")));
        // Each has been heard by the clock of now.
        let now = now_ms(&server);
        for client in before.lines() {
            server.wait_for(&["HGET", LINE, client], |entry| {
                let alive = entry.split(' ').next().and_then(|ms| ms.parse::<i64>().ok());
                alive.is_some_and(|alive| (now..now + STEP_MS).contains(&alive))
            });
        }
        let entry = server.ok(&["HGET", LINE, "dead"]);
        let alive: i64 = entry.split(' ').next().expect("a word").parse().expect("ms");
        assert!(alive < now_ms(&server) + 2000, "{by_ms}: {alive} is far away");
        server.ok(&["HDEL", LINE, "dead"]);
        server.ok(&["ZREM", RANKS, "dead"]);
        let mut guard = guard;
        while !order.is_empty() {
            guard.release().await.expect("held");
            guard = order.remove(0).await.expect("no panic").expect("its turn");
            assert!(order.iter().all(|next| !next.is_finished()), "{by_ms}: overtaken");
        }
        guard.release().await.expect("held");
        only_latches_and_tokens_stay(&server);
    }
}
