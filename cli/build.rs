//! Sets `LOCKLAB_COMMIT` from the checkout that is being built, so that a kept run names the code that made
//! it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=../.git/index");
    println!("cargo::rerun-if-changed=build.rs");
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        // Not a checkout: an unpacked archive. The run then says so.
        return;
    };
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|out| !out.is_empty());
    let commit = String::from_utf8_lossy(&commit);
    println!("cargo::rustc-env=LOCKLAB_COMMIT={}{}", commit.trim(), if dirty { "-dirty" } else { "" });
}
