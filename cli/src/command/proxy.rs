//! `locklab proxy`: the fault proxy by itself, driven over Toxiproxy's HTTP API.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use clap::Args;
use cluster_config::Toxiproxy;

use crate::cancel::Cancel;
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// Flags of `proxy`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the API listens; loopback only
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8474", value_parser = loopback)]
    listen: SocketAddr,
    /// Proxies to begin with: a configuration file of Toxiproxy
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|_| format!("invalid address `{text}`; write HOST:PORT, e.g. 127.0.0.1:8474"))?;
    // Like clients of Toxiproxy, which mostly know the old kind of address only.
    let address = found
        .clone()
        .find(SocketAddr::is_ipv4)
        .or_else(|| found.next());
    match address {
        Some(address) if address.ip().is_loopback() => Ok(address),
        _ => Err(format!(
            "`{text}` is not a loopback address: anybody who reaches the API can disturb what runs here; use 127.0.0.1"
        )),
    }
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let config = options.config.as_ref().map(files::read).transpose();
    let config = config.map_err(exit::input)?;
    let cancel = Cancel::listen()?;
    let toxiproxy = Toxiproxy::listen(options.listen)
        .await
        .map_err(exit::missing)?;
    if let (Some(config), Some(path)) = (&config, &options.config) {
        toxiproxy
            .populate(config.as_bytes())
            .await
            .map_err(|error| exit::input(format!("{}: {error}", path.display())))?;
    }
    let address = toxiproxy.address();
    let document = serde_json::json!({"schema": 1, "listen": address.to_string()});
    terminal.answer(&document, || address.to_string())?;
    terminal.note("Toxiproxy's API is served until Ctrl-C");
    cancel.wanted().await;
    toxiproxy.stop().await;
    Ok(exit::AS_EXPECTED)
}
