//! Servers of a topology, started when the first figure of theirs is wanted.

use cluster_config::{Deployment, Process, Provisioner, Topology, TopologyKind, UpOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) struct Servers<'a> {
    runtime: &'a Runtime,
    kind: TopologyKind,
    /// With the directory of their files, which outlives them.
    up: Option<(Deployment, TempDir)>,
}

impl<'a> Servers<'a> {
    pub(crate) fn new(runtime: &'a Runtime, kind: TopologyKind) -> Self {
        let up = None;
        Servers { runtime, kind, up }
    }

    /// Where they listen; starts them at the first call.
    pub(crate) fn url(&mut self) -> String {
        let (up, _) = self.up.get_or_insert_with(|| {
            let dir = tempfile::tempdir().expect("a directory");
            let (topology, options) = (Topology::of(self.kind), UpOptions::new(dir.path()));
            let up = self.runtime.block_on(Process.up(&topology, &options));
            (up.expect("servers"), dir)
        });
        up.url()
    }

    /// Ends those that were started.
    pub(crate) fn down(self) {
        if let Some((up, _dir)) = self.up {
            self.runtime.block_on(up.down()).expect("servers that end");
        }
    }
}
