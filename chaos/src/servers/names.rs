//! Servers by name: the clients' processes find them by a hosts file of their own, in which a name can mean
//! another address, or none.
//!
//! Each process has the file in the place of the system's, by a mount namespace of its own, and a resolver
//! that asks nobody else. So it reaches every program that reads that file, in any language. A library that
//! keeps what it has read for long sees a change late: Go for 5 s, Java for 30 s, Netty for ever.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster_config::{Deployment, Role};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// The file is written in one piece and never gets shorter: nobody reads half of it.
const BYTES: usize = 4096;

/// Files that stand in the place of the system's: names are in the first, and nobody else is asked.
const FILES: [(&str, &str); 3] = [
    ("/etc/hosts", ""),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
];

/// Clients know servers by addresses of 127.0.2.0/24, then 127.0.3.0/24, beside all others.
const FIRST_PLACE: u8 = 2;

/// The names of a run's servers.
#[derive(Debug)]
pub struct Names {
    hosts: File,
    /// What starts a program where the file is in its place.
    within: Vec<String>,
    servers: Mutex<BTreeMap<String, Server>>,
    opened: Inotify,
    lookups: AtomicU64,
}

#[derive(Debug)]
struct Server {
    real: SocketAddr,
    /// At which of its addresses clients reach it.
    place: u8,
    means: Option<IpAddr>,
}

impl Server {
    fn address(&self) -> IpAddr {
        match self.real.ip() {
            IpAddr::V4(ip) => Ipv4Addr::new(127, 0, self.place, ip.octets()[3]).into(),
            other @ IpAddr::V6(_) => other,
        }
    }
}

impl Names {
    /// Gives every server of a deployment an address that is only for clients, and a name for it; the files
    /// lie in `dir`.
    ///
    /// # Errors
    /// The kernel gives the clients no mount namespace, or a server does not listen there.
    pub async fn new(deployment: &Deployment, dir: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("names of servers: {error}");
        let dir = std::path::absolute(dir.join("etc")).map_err(failed)?;
        let within = within(&dir).map_err(failed)?;
        let opened = Inotify::init(InitFlags::IN_NONBLOCK).map_err(|error| failed(error.into()))?;
        let hosts = dir.join("hosts");
        opened.add_watch(&hosts, AddWatchFlags::IN_OPEN).map_err(|error| failed(error.into()))?;
        let servers = deployment.nodes().iter();
        let servers = servers.filter(|node| node.role != Role::Sentinel);
        let servers = servers.map(|node| {
            let server = Server { real: node.address, place: FIRST_PLACE, means: None };
            (node.name.clone(), server)
        });
        let names = Self {
            hosts: File::options().write(true).open(hosts).map_err(failed)?,
            within,
            servers: Mutex::new(servers.collect()),
            opened,
            lookups: AtomicU64::new(0),
        };
        for node in deployment.nodes() {
            if let Some(address) = names.address(&node.name) {
                names.listen(deployment, &node.name, address).await.map_err(|error| error.to_string())?;
                names.point(&node.name, Some(address)).map_err(failed)?;
            }
        }
        names.lookups();
        Ok(names)
    }

    pub(crate) fn within(&self) -> &[String] {
        &self.within
    }

    /// The deployment's URL with names in the place of addresses.
    pub(crate) fn url(&self, deployment: &Deployment) -> String {
        let mut url = deployment.url();
        for node in deployment.nodes() {
            let (host, port) = (named(&node.name), node.announced.port());
            url = url.replace(&node.announced.to_string(), &format!("{host}:{port}"));
        }
        url
    }

    pub(crate) fn address(&self, node: &str) -> Option<IpAddr> {
        self.servers().get(node).map(Server::address)
    }

    pub(crate) fn next_address(&self, node: &str) -> Option<IpAddr> {
        let mut servers = self.servers();
        let server = servers.get_mut(node)?;
        server.place = server.place.checked_add(1)?;
        Some(server.address())
    }

    /// Lets a server listen at `address` for its clients and at its own, also after a restart.
    pub(crate) async fn listen(
        &self,
        deployment: &Deployment,
        node: &str,
        address: IpAddr,
    ) -> Result<(), cluster_config::ClusterError> {
        let real = deployment.node(node)?.address.ip();
        deployment.command(node, &["CONFIG", "SET", "bind", &format!("{real} {address}")]).await?;
        deployment.command(node, &["CONFIG", "REWRITE"]).await.map(drop)
    }

    /// Lets the name of a server mean `address` from now on, or none.
    pub(crate) fn point(&self, node: &str, address: Option<IpAddr>) -> io::Result<()> {
        let mut servers = self.servers();
        if let Some(server) = servers.get_mut(node) {
            server.means = address;
        }
        let lines = servers.iter().filter_map(|(node, server)| {
            let address = server.means?;
            Some(format!("{address} {}\n", named(node)))
        });
        let text = format!("127.0.0.1 localhost\n{}", lines.collect::<String>());
        let text = format!("{text}{}", "\n".repeat(BYTES.saturating_sub(text.len())));
        self.hosts.write_all_at(text.as_bytes(), 0)
    }

    /// Grows when clients have read the file. It is no count: the kernel makes one of several in a row.
    pub(crate) fn lookups(&self) -> u64 {
        let events = self.opened.read_events().map_or(0, |events| events.len());
        let events = events as u64;
        self.lookups.fetch_add(events, Ordering::Relaxed) + events
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No resolver outside knows such a name.
pub fn named(node: &str) -> String {
    format!("{node}.locklab.invalid")
}

/// Writes the files, and says by which words a program finds them in their places.
fn within(dir: &Path) -> io::Result<Vec<String>> {
    fs::create_dir_all(dir)?;
    let mut script = String::new();
    for (place, text) in FILES {
        let own: PathBuf = dir.join(Path::new(place).file_name().unwrap_or_default());
        let text = match text {
            "" => "\n".repeat(BYTES),
            text => text.to_owned(),
        };
        fs::write(&own, text)?;
        if Path::new(place).exists() {
            let own = own.display().to_string();
            let words = ["mount", "--bind", &own, place].map(shell_words::quote);
            script.push_str(&format!("{} && ", words.join(" ")));
        }
    }
    script.push_str("exec \"$@\"");
    let words = ["unshare", "--user", "--map-root-user", "--mount", "--"];
    let words = words.into_iter().chain(["sh", "-c", &script, "sh"]);
    let words: Vec<String> = words.map(str::to_owned).collect();
    let tried = Command::new(&words[0]).args(&words[1..]).arg("true").output()?;
    if tried.status.success() {
        return Ok(words);
    }
    let said = String::from_utf8_lossy(&tried.stderr);
    Err(io::Error::other(format!(
        "this kernel gives no mount namespace to a program ({}); it may after: sysctl kernel.apparmor_restrict_unprivileged_userns=0 \
         kernel.unprivileged_userns_clone=1",
        said.trim()
    )))
}
