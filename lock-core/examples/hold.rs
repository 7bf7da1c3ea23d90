//! Holds a lock for a few seconds and says what happens to it.
//!
//! `cargo run --example hold -- redis://127.0.0.1:6379 orders 10`

// An example's output is what it is for.
#![allow(clippy::print_stdout)]

use std::{error::Error, time::Duration};

use lock_core::{Acquire, Client, ClientOptions, Kind, Target, TopologyKind, Wait};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: hold URL [NAME [SECONDS]]")?;
    let name = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let seconds = arguments.next().map_or(Ok(5), |seconds| seconds.parse())?;

    let target: Target = url.parse()?;
    let client = Client::connect(&target, ClientOptions::default()).await?;
    let kind = match target.topology_kind() {
        TopologyKind::Masters => Kind::Redlock,
        _ => Kind::Reentrant,
    };
    let wait = Wait::AtMost(Duration::from_secs(60));
    let guard = client.lock(kind, &name)?.acquire_with(Acquire::default().wait(wait)).await?;
    println!("{name} is held by {}", guard.owner());
    tokio::select! {
        reason = guard.lost() => println!("{name} is lost: {reason}"),
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {
            println!("{name} is released: {:?}", guard.release().await?);
        }
    }
    client.close().await;
    Ok(())
}
