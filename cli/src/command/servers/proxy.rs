//! `locklab proxy`: the fault proxy by itself, driven over Toxiproxy's HTTP API.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use cluster_config::Toxiproxy;

use crate::args::loopback;
use crate::cancel::Cancel;
use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the API listens; loopback only, since who reaches it can disturb what runs here
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8474", value_parser = loopback)]
    listen: SocketAddr,
    /// Proxies to begin with: a configuration file of Toxiproxy
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let config = options.config.as_ref().map(results::limits::read_text).transpose();
    let config = config.map_err(exit::input)?;
    let cancel = Cancel::listen()?;
    let toxiproxy = Toxiproxy::listen(options.listen).await.map_err(exit::missing)?;
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
