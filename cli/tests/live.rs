//! `--tui` as its user meets it: a message where there is no screen, and a terminal that is as it was after Ctrl-C.
#![allow(missing_docs)]

mod support;

use support::{code, run, stderr};

#[cfg(not(feature = "tui"))]
#[test]
fn a_build_without_the_screen_says_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["bench", "--tui"][..],
        &["chaos", "failover-async", "--tui"],
    ] {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 64, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("--features tui"),
            "{}",
            stderr(&output)
        );
        assert!(!dir.path().join("runs").exists(), "something was begun");
    }
}

#[cfg(feature = "tui")]
#[test]
fn without_a_terminal_there_is_no_screen() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["bench", "--tui"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    assert!(stderr(&output).contains("terminal"), "{}", stderr(&output));
    assert!(!dir.path().join("runs").exists(), "something was begun");
}

/// A process that ends with the test, also where that fails.
#[cfg(feature = "tui")]
struct Ended(std::process::Child);

#[cfg(feature = "tui")]
impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In a terminal that script(1) makes: the screen is drawn, and Ctrl-C ends the run in good order and gives the terminal back.
#[cfg(feature = "tui")]
#[test]
fn ctrl_c_ends_the_run_and_gives_the_terminal_back() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    const ENTER: &str = "\x1b[?1049h";
    const LEAVE: &str = "\x1b[?1049l";
    for what in [
        "bench --duration 60s --rounds 1",
        "chaos failover-async --seed 1",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let seen = dir.path().join("seen");
        let text =
            || String::from_utf8_lossy(&std::fs::read(&seen).unwrap_or_default()).into_owned();
        let script = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command"])
            .arg(format!(
                "stty rows 30 cols 100; exec {} {what} --tui --out kept",
                env!("CARGO_BIN_EXE_locklab")
            ))
            .arg(&seen)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("script runs");
        let mut script = Ended(script);
        // Single words: blanks are not drawn on a screen that is blank.
        support::until("the screen is drawn", || text().contains("second:"));
        support::until("somebody holds a lock", || {
            dir.path().join("kept").is_dir() && text().contains("holders")
        });
        let mut stdin = script.0.stdin.take().unwrap();
        stdin.write_all(b"\x03").unwrap();
        let status = script.0.wait().unwrap();
        let text = text();
        assert_eq!(status.code(), Some(130), "{what}: {text}");
        let (entered, left) = (text.find(ENTER).unwrap(), text.rfind(LEAVE).unwrap());
        assert!(entered < left, "{what}");
        // What was noted meanwhile is said afterwards, on the terminal as it was.
        assert!(text[left..].contains("seed "), "{what}: {}", &text[left..]);
    }
}
