//! Why lock-core has a topology layer of its own: three things that the client of redis-rs does, tried on
//! real servers. Ends with 1 as soon as one of them is no longer true, so that ARCHITECTURE.md can be thought
//! over.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::cluster::ClusterClientBuilder;
use redis::{Value, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let all = [
        ("it takes a push for a reply", push_for_reply().await?),
        ("it sends again what may have run", resends().await?),
        ("it stops for good when a master dies", stops().await?),
    ];
    for (what, holds) in &all {
        println!("{what}: {}", if *holds { "still true" } else { "NO LONGER TRUE" });
    }
    match all.iter().all(|(_, holds)| *holds) {
        true => Ok(()),
        false => std::process::exit(1),
    }
}

/// A server that is ended when this is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    async fn start(announced: Option<u16>) -> Outcome<Self> {
        let port = free_port().await?;
        let folder = std::env::temp_dir().join(format!("why-not-redis-rs-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        command.arg(folder).args(["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]);
        if let Some(announced) = announced {
            command.args(["--cluster-announce-port", &announced.to_string()]);
        }
        let child = command.stdout(Stdio::null()).spawn()?;
        let server = Server { child, port };
        while server.ask(&["PING"]).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }

    async fn ask(&self, parts: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        cmd(parts[0]).arg(&parts[1..]).query_async(&mut connection).await
    }

    async fn wait_for(&self, parts: &[&str], word: &str) -> Outcome<()> {
        let until = Instant::now() + Duration::from_secs(20);
        while !format!("{:?}", self.ask(parts).await).contains(word) {
            if Instant::now() > until {
                return Err(format!("{parts:?} of {} never says {word}", self.port).into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let name = format!("why-not-redis-rs-{}-{}", std::process::id(), self.port);
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(name));
    }
}

/// The port of the cluster's bus, 10,000 above, is one too.
async fn free_port() -> Outcome<u16> {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        if port < 55_000 {
            return Ok(port);
        }
    }
}

/// Answers a command with a push that nobody asked for in front of the reply, as a server does when the slot
/// of a sharded channel moves.
async fn push_for_reply() -> Outcome<bool> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut bytes = [0; 4096];
        loop {
            let read = stream.read(&mut bytes).await?;
            let asked = String::from_utf8_lossy(&bytes[..read]).into_owned();
            if read == 0 {
                return std::io::Result::Ok(());
            }
            let reply = if asked.contains("HELLO") {
                "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned() + &"+OK\r\n".repeat(asked.matches("SETINFO").count())
            } else if asked.contains("GET") {
                ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n$5\r\nright\r\n".to_owned()
            } else {
                "+OK\r\n".repeat(asked.matches("SETINFO").count().max(1))
            };
            stream.write_all(reply.as_bytes()).await?;
        }
    });
    let client = redis::Client::open(format!("redis://{address}/?protocol=resp3"))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let reply: Value = cmd("GET").arg("a").query_async(&mut connection).await?;
    Ok(reply != Value::BulkString(b"right".to_vec()))
}

/// A cluster of one node, whose connections are cut behind every tenth INCR, before its reply.
async fn resends() -> Outcome<bool> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy = listener.local_addr()?.port();
    let server = Server::start(Some(proxy)).await?;
    server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await?;
    server.wait_for(&["CLUSTER", "INFO"], "cluster_state:ok").await?;
    let (to, seen) = (server.port, Arc::new(AtomicU64::new(0)));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(cutting(client, to, Arc::clone(&seen)));
        }
    });
    let client = ClusterClientBuilder::new(vec![format!("redis://127.0.0.1:{proxy}")]).build()?;
    let mut connection = client.get_async_connection().await?;
    let asked = 200_i64;
    for _ in 0..asked {
        let _: redis::RedisResult<i64> = cmd("INCR").arg("n").query_async(&mut connection).await;
    }
    let ran = server.ask(&["GET", "n"]).await?;
    let ran: i64 = redis::from_redis_value(ran)?;
    println!("  {asked} times asked for, {ran} times done");
    Ok(ran > asked)
}

async fn cutting(mut client: TcpStream, to: u16, seen: Arc<AtomicU64>) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", to)).await?;
    let (mut asked, mut answered) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                server.write_all(&asked[..read]).await?;
                let is_incr = asked[..read].windows(4).any(|word| word == b"INCR");
                if is_incr && seen.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
                    server.read(&mut answered).await?;
                    return Ok(());
                }
            }
            read = server.read(&mut answered) => match read? {
                0 => return Ok(()),
                read => client.write_all(&answered[..read]).await?,
            },
        }
    }
}

/// 128 tasks on a cluster of three masters, of which the first, which has a replica, is killed.
async fn stops() -> Outcome<bool> {
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(Server::start(None).await?);
    }
    let first = nodes[0].port.to_string();
    for node in &nodes[1..] {
        node.ask(&["CLUSTER", "MEET", "127.0.0.1", &first]).await?;
    }
    for node in &nodes {
        node.wait_for(&["CLUSTER", "INFO"], "cluster_known_nodes:4").await?;
    }
    for (node, range) in nodes.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
        node.ask(&["CLUSTER", "ADDSLOTSRANGE", range[0], range[1]]).await?;
    }
    let id: String = redis::from_redis_value(nodes[0].ask(&["CLUSTER", "MYID"]).await?)?;
    while nodes[3].ask(&["CLUSTER", "REPLICATE", &id]).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
    for node in &nodes {
        node.wait_for(&["CLUSTER", "INFO"], "cluster_state:ok").await?;
    }
    nodes[3].wait_for(&["INFO", "replication"], "master_link_status:up").await?;
    let urls: Vec<_> = nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port)).collect();
    let client = ClusterClientBuilder::new(urls).build()?;
    let connection = client.get_async_connection().await?;
    let done: Vec<_> = (0..128).map(|_| Arc::new(AtomicU64::new(0))).collect();
    for (number, done) in done.iter().enumerate() {
        let (mut connection, done) = (connection.clone(), Arc::clone(done));
        tokio::spawn(async move {
            loop {
                let key = format!("{number}:{}", done.load(Ordering::Relaxed) % 100);
                let _: redis::RedisResult<i64> = cmd("INCR").arg(key).query_async(&mut connection).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    sleep(Duration::from_secs(2)).await;
    drop(nodes.remove(0));
    let replaced = nodes[2].wait_for(&["ROLE"], "master");
    timeout(Duration::from_secs(30), replaced).await??;
    // What goes on does so within this time.
    sleep(Duration::from_secs(15)).await;
    let before: Vec<_> = done.iter().map(|done| done.load(Ordering::Relaxed)).collect();
    sleep(Duration::from_secs(10)).await;
    let stopped =
        done.iter().zip(before).filter(|(done, before)| done.load(Ordering::Relaxed) == *before).count();
    println!("  {stopped} of 128 tasks have done nothing for 10 s, 15 s after the replica took over");
    Ok(stopped > 0)
}
