//! Writes to SQLite that a holder who was overtaken cannot make: the table remembers the greatest token that
//! wrote to a row, and the write itself compares. The same statement serves PostgreSQL.
//!
//! `cargo run -p lock-core --example fenced_write -- redis://127.0.0.1:6379`

use std::error::Error;

use rusqlite::{Connection, params};

pub(crate) const TABLE: &str =
    "CREATE TABLE balance (account TEXT PRIMARY KEY, amount INTEGER NOT NULL, token INTEGER NOT NULL)";

/// Writes under a token; false if a holder with an equal or a greater one has written since.
pub(crate) fn write(database: &Connection, account: &str, amount: i64, token: u64) -> rusqlite::Result<bool> {
    let token = i64::try_from(token).unwrap_or(i64::MAX);
    let written = database.execute(
        "INSERT INTO balance VALUES (?1, ?2, ?3) ON CONFLICT (account) DO UPDATE \
         SET amount = excluded.amount, token = excluded.token WHERE excluded.token > balance.token",
        params![account, amount, token],
    )?;
    Ok(written == 1)
}

#[tokio::main]
#[allow(dead_code, clippy::print_stdout, reason = "the test has a main of its own")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: fenced_write URL")?;
    let client = lock_core::connect(&url).await?;
    let database = Connection::open_in_memory()?;
    database.execute(TABLE, [])?;
    let guard = client.fenced("balance:alice")?.acquire().await?;
    println!("written: {}", write(&database, "alice", 100, guard.token())?);
    guard.release().await?;
    client.close().await;
    Ok(())
}
