//! A driver of the lock `SET key value NX PX lease` on one Redis server, whose holder is told before the lease ends. Put your own library in
//! the place of its commands.

mod locklab;
mod resp;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use locklab::{About, Call, Ending, Granted, Lock};
use resp::Resp;
use tokio::task::JoinHandle;

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
        features: &["extend", "lost"],
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

struct Held {
    call: Call,
    value: String,
    told: Mutex<JoinHandle<()>>,
}

/// Tells the holder before its lease ends; `None`: it is over. A tenth of it is kept for a timer that is late.
fn tell(call: &Call, sent: Instant, lease: Duration) -> Option<JoinHandle<()>> {
    let left = (lease * 9 / 10).checked_sub(sent.elapsed())?;
    let call = call.clone();
    Some(tokio::spawn(async move {
        tokio::time::sleep(left).await;
        call.lost("the lease ends");
    }))
}

impl Lock for SetNxPx {
    type Held = Held;

    async fn acquire(&self, call: &Call) -> Result<Granted<Held>, Ending> {
        let began = Instant::now();
        let value = format!("{} {} {began:?}", self.1, call.owner);
        let lease = call.lease.unwrap_or_default();
        let lease_ms = lease.as_millis().to_string();
        loop {
            let sent = Instant::now();
            let set = ["SET", &call.lock, &value, "NX", "PX", &lease_ms];
            if self.0.command(&set).await? == "+OK" {
                if let Some(told) = tell(call, sent, lease) {
                    let (call, told) = (call.clone(), Mutex::new(told));
                    return Ok(Granted::sent(Held { call, value, told }, sent));
                }
                let delete = ["EVAL", DELETE, "1", &call.lock, &value];
                self.0.command(&delete).await?;
            }
            let left = call.left(began).ok_or(Ending::Busy)?;
            tokio::time::sleep(left.min(Duration::from_millis(10))).await;
        }
    }

    async fn release(&self, held: &Held) -> Result<(), Ending> {
        held.told.lock().unwrap().abort();
        let delete = ["EVAL", DELETE, "1", &held.call.lock, &held.value];
        mine(self.0.command(&delete).await?)
    }

    async fn extend(&self, held: &Held, lease: Duration) -> Result<(), Ending> {
        let (sent, ms) = (Instant::now(), lease.as_millis().to_string());
        let expire = ["EVAL", EXPIRE, "1", &held.call.lock, &held.value, &ms];
        mine(self.0.command(&expire).await?)?;
        let mut told = held.told.lock().unwrap();
        if told.is_finished() {
            return Err(Ending::NotHeld);
        }
        told.abort();
        *told = tell(&held.call, sent, lease).ok_or(Ending::NotHeld)?;
        Ok(())
    }
}

/// Whether the server did it.
fn mine(reply: String) -> Result<(), Ending> {
    match reply.as_str() {
        ":1" => Ok(()),
        _ => Err(Ending::NotHeld),
    }
}
