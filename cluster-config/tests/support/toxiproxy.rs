//! Two servers of one API: ours, and the real Toxiproxy where it can be built.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use cluster_config::Toxiproxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{PATIENCE, eventually};

const MODULE: &str = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0";

/// A running server of the API.
pub(crate) enum Api {
    Ours(Toxiproxy),
    Real(RealToxiproxy),
}

impl Api {
    pub(crate) async fn ours() -> Api {
        let any = "127.0.0.1:0".parse().unwrap();
        Api::Ours(Toxiproxy::listen(any).await.unwrap())
    }

    /// Ours, and the real one if there is one.
    pub(crate) async fn both() -> Vec<Api> {
        let mut both = vec![Api::ours().await];
        both.extend(RealToxiproxy::start().await.map(Api::Real));
        both
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Api::Ours(_) => "ours",
            Api::Real(_) => "the real one",
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Api::Ours(toxiproxy) => toxiproxy.address(),
            Api::Real(real) => real.address,
        }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(self.address(), method, path, "test", body.as_bytes()).await
    }

    /// A new proxy's address.
    pub(crate) async fn proxy(&self, name: &str, upstream: SocketAddr) -> SocketAddr {
        let body = format!(r#"{{"name":"{name}","listen":"127.0.0.1:0","upstream":"{upstream}"}}"#);
        let answer = self.ask("POST", "/proxies", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let proxy: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        proxy["listen"].as_str().unwrap().parse().unwrap()
    }

    /// A new toxic named `t`.
    pub(crate) async fn toxic(&self, proxy: &str, kind: &str, rest: &str) {
        let body = format!(r#"{{"name":"t","type":"{kind}",{rest}}}"#);
        let answer = self.ask("POST", &format!("/proxies/{proxy}/toxics"), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

/// One request over a connection of its own.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, agent: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: {agent}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    };
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        content_type: header("content-type").unwrap_or_default(),
        body: body.to_owned(),
    }
}

/// The original, ended when dropped.
pub(crate) struct RealToxiproxy {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl RealToxiproxy {
    /// `None`, said loudly, on a machine that cannot build it.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(crate) async fn start() -> Option<RealToxiproxy> {
        let program = match tokio::task::spawn_blocking(build).await.unwrap() {
            Ok(program) => program,
            Err(why) => {
                eprintln!("SKIPPED: the comparison with the real Toxiproxy: {why}");
                return None;
            }
        };
        // A loopback address of its own: elsewhere another test could take the port before the program
        // listens.
        static STARTED: AtomicU8 = AtomicU8::new(0);
        let [.., high, low] = std::process::id().to_be_bytes();
        let count = STARTED.fetch_add(1, Ordering::Relaxed) % 100;
        let own = Ipv4Addr::new(127, 100 + count, high, low);
        let address = SocketAddr::from((own, 8474));
        let child = Command::new(program)
            .args(["-host", &own.to_string(), "-port", "8474"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let real = RealToxiproxy { child, address };
        eventually("the real Toxiproxy listens", async || TcpStream::connect(address).await.is_ok()).await;
        Some(real)
    }
}

impl Drop for RealToxiproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds it once into the target directory; later calls find it.
fn build() -> Result<PathBuf, String> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toxiproxy-2.12.0");
    let program = dir.join("server");
    if program.is_file() {
        return Ok(program);
    }
    // Built aside and moved, so that another test process never finds half a program.
    let aside = dir.join(format!("building-{}", std::process::id()));
    let output = Command::new("go")
        .args(["install", MODULE])
        .env("GOBIN", &aside)
        .output()
        .map_err(|error| format!("no Go toolchain: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::rename(aside.join("server"), &program).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_dir(&aside);
    Ok(program)
}
