//! What stands around the examples in the library's documentation: a server, a client of it, and a runtime.

#[path = "mod.rs"]
pub mod support;

use std::error::Error;

use lock_core::Client;
pub use support::Server;

/// Runs an example to its end; it panics where that fails.
pub fn run(example: impl AsyncFnOnce(Server, Client) -> Result<(), Box<dyn Error>>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ended = runtime.block_on(async {
        let server = Server::start(&[]);
        let client = lock_core::connect(&server.url()).await?;
        example(server, client).await
    });
    ended.expect("it does what it says");
}
