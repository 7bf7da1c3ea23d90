//! Keeps which compiler builds this crate and for what, so that a run can say what made it.

use std::{env, process::Command};

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        .unwrap_or_else(|_| "rustc of unknown version".into());
    let profile = env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=BENCH_RUSTC={version}");
    println!("cargo::rustc-env=BENCH_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
