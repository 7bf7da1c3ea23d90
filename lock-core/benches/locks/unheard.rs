//! What waiters cost that are told nothing, since their server refuses subscriptions: each of a client of its
//! own, as in processes of their own. They look often at first, and at each poll bound (1 s) later.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use lock_core::Kind;

use crate::{Failure, cycle, median, support::Server, usage};

const WAITERS: [u32; 3] = [1, 16, 64];
const ROUNDS: u32 = 3;
/// For how long all wait before the lock is released.
const WAITS: [Duration; 2] = [SECOND, Duration::from_secs(6)];
/// The end of the wait in which commands are counted.
const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn run() -> Result<(), Failure> {
    let server = Server::start(&[]);
    server.ok(&["ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels"]);
    println!(
        "\nwaiters that hear nothing: commands in the last second of their wait, then one after the other"
    );
    println!("waiters   waited   commands/s   server us/s   hand-off p50");
    for waiters in WAITERS {
        for wait in WAITS {
            let (mut commands, mut server_us, mut gaps_us) = (0, 0.0, Vec::new());
            for _ in 0..ROUNDS {
                let round = round(&server, waiters, wait).await?;
                commands += round.0;
                server_us += round.1.as_secs_f64() * 1e6;
                gaps_us.extend(round.2);
            }
            let (rounds, gap_ms) = (f64::from(ROUNDS), median(gaps_us) / 1e3);
            let (commands, server_us) = (commands as f64 / rounds, server_us / rounds);
            println!("{waiters:>7} {wait:>8.0?} {commands:>12.0} {server_us:>13.0} {gap_ms:>11.1} ms");
        }
    }
    Ok(())
}

/// Commands and processor time of the server in the last second, and each hand-off in microseconds.
async fn round(server: &Server, waiters: u32, wait: Duration) -> Result<(u64, Duration, Vec<f64>), Failure> {
    let holder = cycle::connect(server).await?;
    let held = holder.lock(Kind::Reentrant, "unheard")?.acquire().await?;
    let url = server.url().replace("redis://", "redis://deaf:secret@");
    let clients = try_join_all((0..waiters).map(|_| lock_core::connect(&url))).await?;
    let released = Arc::new(Mutex::new(Instant::now()));
    let waiting: Vec<_> = clients
        .iter()
        .map(|client| {
            let (client, released) = (client.clone(), Arc::clone(&released));
            tokio::spawn(async move {
                let guard = client.lock(Kind::Reentrant, "unheard")?.acquire().await?;
                let now = Instant::now();
                let before = std::mem::replace(&mut *lock(&released), now);
                guard.release().await?;
                Ok::<_, Failure>(now.duration_since(before).as_secs_f64() * 1e6)
            })
        })
        .collect();
    let pid = usage::pid(server)?;
    let asked = || clients.iter().map(|client| client.stats().commands).sum::<u64>();
    tokio::time::sleep(wait - SECOND).await;
    let (commands, used) = (asked(), usage::cpu(pid)?);
    tokio::time::sleep(SECOND).await;
    let (commands, used) = (asked() - commands, usage::cpu(pid)?.saturating_sub(used));
    *lock(&released) = Instant::now();
    held.release().await?;
    let mut gaps_us = Vec::new();
    for waiter in waiting {
        gaps_us.push(waiter.await??);
    }
    for client in clients {
        client.close().await;
    }
    holder.close().await;
    Ok((commands, used, gaps_us))
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
