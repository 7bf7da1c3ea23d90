//! A run in lines of a pod's log comes back as it was; what is torn, too large or leads elsewhere is told.

use std::fs;
use std::path::Path;

use kubernetes::packed_run::{pack, unpack};

fn packed(dir: &Path) -> String {
    let mut log = String::from("merged: /results/merged\n");
    pack(dir, |line| {
        log.push_str(line);
        log.push('\n');
    })
    .expect("a directory");
    log
}

#[test]
fn a_run_comes_back_as_it_was_and_a_torn_log_is_told() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("00")).unwrap();
    fs::write(from.path().join("run.json"), "{}").unwrap();
    fs::write(from.path().join("00/history.jsonl"), "line\n".repeat(1000)).unwrap();
    let log = packed(from.path());
    assert_eq!(unpack(&log, to.path()), Ok(Vec::new()));
    assert_eq!(fs::read_to_string(to.path().join("00/history.jsonl")).unwrap(), "line\n".repeat(1000));
    let lines: Vec<&str> = log.lines().collect();
    assert!(unpack(&lines[..2].join("\n"), to.path()).is_err_and(|why| why.contains("after 1 files")));
    let without_one = [lines[1], lines[3]].join("\n");
    assert!(unpack(&without_one, to.path()).is_err_and(|why| why.contains("1 of 2 files")));
}

#[test]
fn a_path_that_leads_out_of_the_run_is_refused() {
    let to = tempfile::tempdir().unwrap();
    for path in ["../x", "/etc/x", "a/../../x", ""] {
        let log = format!("locklab-pack {}\n", serde_json::json!({"file": [path, ""]}));
        assert!(unpack(&log, to.path()).is_err_and(|why| why.contains("leads out of the run")), "{path}");
    }
}

#[test]
fn what_no_log_holds_stays_and_is_named() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("run.json"), "{}").unwrap();
    let mut noise = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    })
    .take(8 << 20)
    .collect();
    fs::write(from.path().join("history.jsonl.zst"), noise).unwrap();
    assert_eq!(unpack(&packed(from.path()), to.path()), Ok(vec!["history.jsonl.zst".to_owned()]));
}
