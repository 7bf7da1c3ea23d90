//! What each of several clients, at several distances from one server, gets of one lock.

use std::time::{Duration, Instant};

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Wait};

use super::Relay;
use crate::support::Server;

/// What one client got.
#[derive(Debug, Clone)]
pub struct Share {
    /// How far away it is: so long is a way from it to the server.
    pub distance: Duration,
    pub grants: u32,
    /// Of what it would have if all had the same; 1 is fair.
    pub fair: f64,
    pub longest_wait: Duration,
    /// Acquires that gave up.
    pub busy: u32,
    /// Of each grant when it came, and when its release was sent.
    pub holds: Vec<(Instant, Instant)>,
}

/// From each release to the next grant, where that is another client's.
pub fn hand_offs(shares: &[Share]) -> Vec<Duration> {
    let mut holds: Vec<_> = (shares.iter().enumerate())
        .flat_map(|(client, share)| share.holds.iter().map(move |&hold| (hold, client)))
        .collect();
    holds.sort();
    let pairs = holds.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    pairs.map(|pair| pair[1].0.0.saturating_duration_since(pair[0].0.1)).collect()
}

/// Lets one client at each distance, with so many tasks each, take the lock, keep it for `hold` and give it
/// back again and again.
pub async fn shares(
    server: &Server,
    kind: Kind,
    distances: &[Duration],
    tasks: u32,
    hold: Duration,
    run: Duration,
) -> Vec<Share> {
    let mut relays = Vec::new();
    let mut clients = Vec::new();
    for &distance in distances {
        let relay = Relay::start(server.address()).await;
        relay.delay(distance * 2);
        let url = match distance.is_zero() {
            true => server.url(),
            false => relay.url(),
        };
        let target = url.parse().expect("a good URL");
        let client = Client::connect(&target, ClientOptions::default()).await;
        let client = client.expect("it answers");
        // A connection that is dialled in the middle would count as a wait.
        let warm = client.lock(kind, "warm").expect("a good name");
        let guard = warm.acquire().await.expect("free");
        guard.release().await.expect("held");
        relays.push(relay);
        clients.push(client);
    }
    let name = format!("share:{kind}");
    let end = Instant::now() + run;
    let mut all = Vec::new();
    for client in &clients {
        let of_client: Vec<_> = (0..tasks)
            .map(|_| {
                let lock = client.lock(kind, &name).expect("a good name");
                tokio::spawn(async move {
                    let how = Acquire::default()
                        .wait(Wait::AtMost(Duration::from_secs(5)))
                        .lease(Lease::Fixed(Duration::from_secs(30)));
                    let (mut holds, mut busy, mut longest) = (Vec::new(), 0, Duration::ZERO);
                    while Instant::now() < end {
                        let asked_at = Instant::now();
                        let acquired = lock.acquire_with(how.clone()).await;
                        longest = longest.max(asked_at.elapsed());
                        match acquired {
                            Ok(guard) => {
                                let granted_at = Instant::now();
                                tokio::time::sleep(hold).await;
                                holds.push((granted_at, Instant::now()));
                                guard.release().await.expect("held");
                            }
                            Err(error) if error.kind() == ErrorKind::Busy => busy += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (holds, busy, longest)
                })
            })
            .collect();
        all.push(of_client);
    }
    let mut shares = Vec::new();
    for (&distance, of_client) in distances.iter().zip(all) {
        let mut share = Share {
            distance,
            grants: 0,
            fair: 0.0,
            longest_wait: Duration::ZERO,
            busy: 0,
            holds: Vec::new(),
        };
        for task in of_client {
            let (holds, busy, longest) = task.await.expect("no panic");
            share.holds.extend(holds);
            share.busy += busy;
            share.longest_wait = share.longest_wait.max(longest);
        }
        share.holds.retain(|(granted_at, _)| *granted_at < end);
        share.grants = u32::try_from(share.holds.len()).expect("a short run");
        shares.push(share);
    }
    let sum: u32 = shares.iter().map(|share| share.grants).sum();
    for share in &mut shares {
        share.fair = f64::from(share.grants) * distances.len() as f64 / f64::from(sum.max(1));
    }
    for client in clients {
        client.close().await;
    }
    shares
}
