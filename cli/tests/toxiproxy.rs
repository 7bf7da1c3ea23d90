//! Scenarios whose faults on links are the work of a Toxiproxy server: `locklab proxy` is one, and stands for any other.
#![allow(missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use support::{code, locklab, run, stderr, stdout};

/// `locklab proxy` on a free port; ended when dropped.
struct Proxy(Child);

impl Proxy {
    fn start(dir: &Path) -> (Proxy, String) {
        let mut child = locklab(dir)
            .args(["proxy", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        let proxy = Proxy(child);
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").to_owned();
        (proxy, address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn scenario(dir: &Path, faults: &str) {
    let text = format!(
        "name = \"links\"\n[topology]\nkind = \"sentinel\"\n[load]\nclients = 2\nduration = \"3s\"\n{faults}\n[expect]\ncontract = \"clean\"\n"
    );
    std::fs::write(dir.join("links.toml"), text).unwrap();
}

#[test]
fn a_cut_by_toxiproxy_bites_heals_and_is_said_to_be_its_work() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (_proxy, address) = Proxy::start(dir);
    scenario(
        dir,
        "[[faults]]\nat = \"500ms\"\nfor = \"700ms\"\nfault = \"cut\"\non = \"client 1 <-> master\"\n\
         [[faults]]\nat = \"1500ms\"\nfor = \"500ms\"\nfault = \"delay\"\non = \"master -> replicas\"\nwith = { latency = \"50ms\" }\n",
    );
    let output = run(
        dir,
        &[
            "chaos",
            "links.toml",
            "--toxiproxy",
            &address,
            "--seed",
            "3",
            "--json",
        ],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let faults = told["scenarios"][0]["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 2);
    for fault in faults {
        assert_eq!(fault["bit"], true, "{fault}");
        assert!(fault["healed_ns"].is_u64(), "{fault}");
    }
    let kept = std::fs::read_to_string(dir.join(told["run"].as_str().unwrap()).join("run.json"));
    let said = format!("at {address}");
    assert!(kept.unwrap().contains(&said), "{said}");
}

#[test]
fn faults_that_a_toxiproxy_cannot_do_are_refused_with_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    scenario(
        dir,
        "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"reset\"\non = \"client 1 <-> master\"\n\
         [[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"loss\"\non = \"clients -> master\"\nwith = { rate = 0.5 }\n",
    );
    let output = run(
        dir,
        &["chaos", "links.toml", "--toxiproxy", "127.0.0.1:8474"],
    );
    assert_eq!(code(&output), 65);
    let said = stderr(&output);
    assert!(
        said.contains("links.toml:7:1: `reset` cannot be done over Toxiproxy"),
        "{said}"
    );
    assert!(said.contains("links.toml:12:1: `loss`"), "{said}");
    for (address, why) in [
        ("10.1.2.3:8474", "not on this machine"),
        ("nonsense", "127.0.0.1:8474"),
    ] {
        let output = run(dir, &["chaos", "links.toml", "--toxiproxy", address]);
        assert_eq!(code(&output), 64);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn without_a_toxiproxy_at_the_address_nothing_starts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    scenario(
        dir,
        "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"cut\"\non = \"client 1 <-> master\"\n",
    );
    let address = format!("127.0.0.1:{}", support::free_port());
    let output = run(dir, &["chaos", "links.toml", "--toxiproxy", &address]);
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("no Toxiproxy answers"),
        "{}",
        stderr(&output)
    );
}
