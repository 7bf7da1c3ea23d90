//! Compiles `shim/shim.c` into the shared object that the crate carries (who runs the program needs no
//! compiler), and lists the scenario files that come with the program.

#![allow(missing_docs, clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    shim(&out.join("shim.so"));
    let controls = listed("scenarios/controls", "", true);
    let suite = listed("scenarios", "", false) + &controls;
    let soak = listed("scenarios/soak", "soak-", false);
    let baselines = listed("scenarios/baselines", "", false);
    let text = format!(
        "/// Every scenario of the suite by name, controls last.\npub static BUILTINS: &[Builtin] = &[{suite}];\n\
         /// Safe configurations under random faults, one per topology. They are no part of the suite: each
         /// seed is another run.\n\
         pub static SOAK: &[Builtin] = &[{soak}];\n\n\
         /// Scenarios of locks of other systems, on their servers. They are a part of the suite where such
         /// locks are built in ([`suite`]).\n\
         pub static BASELINES: &[Builtin] = &[{baselines}];\n"
    );
    std::fs::write(out.join("builtins.rs"), text).expect("the folder is ours");
}

/// The scenario files of a folder by name, as values of `Builtin`.
fn listed(folder: &str, prefix: &str, control: bool) -> String {
    println!("cargo::rerun-if-changed={folder}");
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let files = std::fs::read_dir(root.join(folder)).expect("it is in the tree");
    let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let mut text = String::new();
    for file in files {
        let stem = file.file_stem().expect("it has a name").to_string_lossy();
        let (name, path) = (format!("{prefix}{stem}"), format!("chaos/{folder}/{stem}.toml"));
        let _ = write!(
            text,
            "Builtin {{ name: {name:?}, path: {path:?}, text: include_str!({file:?}), control: {control} }}, "
        );
    }
    text
}

fn shim(out: &Path) {
    println!("cargo::rerun-if-changed=shim/shim.c");
    // A machine that links Rust programs has a C compiler: the linker is called through it.
    let compiler = cc::Build::new().pic(true).opt_level(2).get_compiler();
    let done = compiler
        .to_command()
        .args(["-shared", "-pthread", "-Wall", "-Wno-nonnull-compare", "-o"])
        .arg(out)
        .arg("shim/shim.c")
        .status();
    match done {
        Ok(status) if status.success() => {}
        other => panic!("shim/shim.c could not be compiled: {other:?}"),
    }
}
