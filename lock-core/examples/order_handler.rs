//! An axum handler that works on one order at a time, whichever of many servers gets the request.
//!
//! `cargo run -p lock-core --example order_handler -- redis://127.0.0.1:6379`, then
//! `curl -X POST http://127.0.0.1:3000/orders/7`

use std::{error::Error, time::Duration};

use axum::{Router, extract::Path, extract::State, http::StatusCode, routing::post};
use lock_core::{Client, ErrorKind, Kind, LockError};

/// Who may not have the order in this time is told to try again.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn app(client: Client) -> Router {
    Router::new().route("/orders/{id}", post(ship)).with_state(client)
}

async fn ship(State(client): State<Client>, Path(id): Path<u64>) -> (StatusCode, String) {
    match ship_alone(&client, id).await {
        Ok(said) => (StatusCode::OK, said),
        Err(error) if error.kind() == ErrorKind::Busy => {
            (StatusCode::CONFLICT, format!("order {id} is worked on"))
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

async fn ship_alone(client: &Client, id: u64) -> Result<String, LockError> {
    let lock = client.lock(Kind::Plain, &format!("order:{id}"))?;
    let guard = lock.acquire_timeout(PATIENCE).await?;
    // Ends where the lock is lost. A client that hangs up drops this future, and the guard gives the lock
    // back.
    let work = async { format!("order {id} is shipped") };
    guard.hold_while(work).await
}

#[tokio::main]
#[allow(dead_code, reason = "the test has a main of its own")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: order_handler URL")?;
    let client = lock_core::connect(&url).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let told = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, app(client.clone())).with_graceful_shutdown(told).await?;
    client.close().await;
    Ok(())
}
