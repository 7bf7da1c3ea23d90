//! A driver of the lock `SET key value NX PX lease` on one Redis server. Put your own library in the place of its commands.

mod locklab;
mod resp;

use std::time::{Duration, Instant};

use locklab::{About, Call, Ending, Granted, Lock};
use resp::Resp;

const DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXPIRE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

#[tokio::main]
async fn main() {
    let about = About {
        name: "set-nx-px",
        version: "1.0",
        kinds: &["plain"],
        topologies: &["single"],
        features: &["extend"],
    };
    locklab::serve(about, async |hello| {
        let server = Resp(hello.hosts[0].clone());
        let answer = server.command(&["PING"]).await;
        answer.map_err(|end| Ending::Unreachable(format!("{end:?}")))?;
        Ok(SetNxPx(server, hello.client))
    })
    .await;
}

struct SetNxPx(Resp, String);

impl Lock for SetNxPx {
    type Held = (String, String);

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let began = Instant::now();
        let value = format!("{} {} {began:?}", self.1, call.owner);
        let lease = call.lease.unwrap_or_default().as_millis().to_string();
        loop {
            let sent = Instant::now();
            let set = ["SET", &call.lock, &value, "NX", "PX", &lease];
            if self.0.command(&set).await? == "+OK" {
                return Ok(Granted::sent((call.lock.clone(), value), sent));
            }
            let left = call.left(began).ok_or(Ending::Busy)?;
            tokio::time::sleep(left.min(Duration::from_millis(10))).await;
        }
    }

    async fn release(&self, (lock, value): &Self::Held) -> Result<(), Ending> {
        mine(self.0.command(&["EVAL", DELETE, "1", lock, value]).await?)
    }

    async fn extend(&self, (lock, value): &Self::Held, lease: Duration) -> Result<(), Ending> {
        let lease = lease.as_millis().to_string();
        mine(
            self.0
                .command(&["EVAL", EXPIRE, "1", lock, value, &lease])
                .await?,
        )
    }
}

/// Whether the server did it.
fn mine(reply: String) -> Result<(), Ending> {
    match reply.as_str() {
        ":1" => Ok(()),
        _ => Err(Ending::NotHeld),
    }
}
