//! Compiles `shim/shim.c` into the shared object that the crate carries: who runs the program needs no compiler.

#![allow(missing_docs, clippy::print_stdout)]

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=shim/shim.c");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("shim.so");
    // Whoever can link Rust programs has a C compiler: the linker is called through it.
    let compiler = cc::Build::new().pic(true).opt_level(2).get_compiler();
    let done = compiler
        .to_command()
        .args(["-shared", "-Wall", "-Wno-nonnull-compare", "-o"])
        .arg(&out)
        .arg("shim/shim.c")
        .status();
    match done {
        Ok(status) if status.success() => {}
        other => panic!("shim/shim.c could not be compiled: {other:?}"),
    }
}
