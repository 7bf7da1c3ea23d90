//! The password of a target is in nothing that locklab writes or says, whatever a driver or a server repeats.
#![allow(missing_docs)]

mod support;

use std::path::Path;

use bench::target::parse_target;
use support::{Server, locklab, run};

/// As it is, and as it stands in the URL.
const PASSWORD: &str = "hunter@2/x y";
const ENCODED: &str = "hunter%402%2Fx%20y";

/// It repeats its target on standard error, in its name, in errors and in the names of grants, plain and in
/// other ways to write it.
const ECHO: &str = r#"
import json, sys, urllib.parse
n = 0
for line in sys.stdin:
    q = json.loads(line)
    answer = {}
    if q["op"] == "hello":
        target = q["target"]
        words = target.split("@")[0].split(":")[-1]
        ways = [target, urllib.parse.unquote(words), json.dumps(urllib.parse.unquote(words)), urllib.parse.quote(words)]
        print("\n".join(ways), file=sys.stderr, flush=True)
        answer = {"ok": {"protocol": 1, "name": target, "version": ways[1], "language": "p", "kinds": ["plain"], "topologies": ["single"]}}
    elif q["op"] == "acquire":
        n += 1
        answer = {"failed": {"error": "cannot reach " + ways[n % 4]}} if n % 3 == 0 else {"ok": {"grant": "%s#%d" % (target, n)}}
    elif q["op"] in ("release", "bye"):
        answer = {"ok": {}}
    else:
        answer = {"unknown": {"error": ways[1]}}
    print(json.dumps({"id": q["id"], **answer}), flush=True)
"#;

/// It says what it was asked, and never answers.
const SILENT: &str =
    "import sys, time\nprint(sys.stdin.readline(), file=sys.stderr, flush=True)\ntime.sleep(120)\n";

/// It fails as most libraries do.
const FAILING: &str = "import json, sys\nprint('cannot reach ' + json.loads(sys.stdin.readline())['target'], file=sys.stderr)\nsys.exit(1)\n";

const SCENARIO: &str = "name = \"short\"\n[topology]\nkind = \"single\"\n[lock]\nlease = \"1s\"\nwait = \"100ms\"\n\
    [load]\nclients = 2\nduration = \"600ms\"\nhold = \"5ms\"\n";

fn guarded() -> (Server, String) {
    let server = Server::start();
    server.cli(&["CONFIG", "SET", "requirepass", PASSWORD]);
    let url = format!("redis://default:{ENCODED}@127.0.0.1:{}", server.port);
    (server, url)
}

/// Everything below a directory in which a form of the password stands.
fn leaks(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(leaks(&entry.path()));
        } else {
            let text = std::fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&text).into_owned();
            if text.contains("hunter") {
                found.push(format!("{}: {text}", entry.path().display()));
            }
        }
    }
    found
}

/// Runs `locklab` with a driver on a guarded server, and looks for the password in all that it leaves and
/// says.
fn says_nothing(driver: &str, args: &[&str]) -> String {
    let (dir, (_server, url)) = (tempfile::tempdir().unwrap(), guarded());
    std::fs::write(dir.path().join("d.py"), driver).unwrap();
    std::fs::write(dir.path().join("short.toml"), SCENARIO).unwrap();
    let args: Vec<&str> = args.iter().map(|arg| if *arg == "URL" { &*url } else { arg }).collect();
    let output = run(dir.path(), &args);
    let said = format!("{}{}", support::stdout(&output), support::stderr(&output));
    assert!(!said.contains("hunter"), "{said}");
    assert_eq!(leaks(dir.path()), [""; 0], "{said}");
    said
}

#[test]
fn what_a_driver_repeats_is_not_kept_by_a_scenario() {
    let lock = ["--subject", "exec:python3 d.py"];
    let chaos = ["chaos", "short.toml", "--target", "URL", "--out", "kept"];
    let said = says_nothing(ECHO, &[&chaos[..], &lock].concat());
    assert!(said.contains("short"), "{said}");
    let said = says_nothing(FAILING, &[&chaos[..], &lock, &["--json"]].concat());
    assert!(said.contains("***"), "the driver's words are quoted: {said}");
}

#[test]
fn what_a_driver_repeats_is_not_kept_by_a_benchmark() {
    let bench = ["bench", "--target", "URL", "--subject", "exec:python3 d.py"];
    let short = ["--duration", "300ms", "--warmup", "0", "--rounds", "1", "--tasks", "2"];
    says_nothing(ECHO, &[&bench[..], &short, &["--out", "kept"]].concat());
}

#[test]
fn what_a_driver_repeats_is_not_in_a_report_of_conformity() {
    let conform = ["conform", "python3 d.py", "--target", "URL", "--patience", "2s"];
    let files = ["--junit", "c.xml", "--out", "kept"];
    for driver in [ECHO, FAILING] {
        let said = says_nothing(driver, &[&conform[..], &files].concat());
        assert!(said.contains("***"), "{said}");
    }
}

#[test]
fn a_driver_that_never_answers_hello_is_quoted_without_its_target() {
    let lock = ["--subject", "exec:python3 d.py"];
    let chaos = ["chaos", "short.toml", "--target", "URL", "--out", "kept"];
    let said = says_nothing(SILENT, &[&chaos[..], &lock].concat());
    assert!(said.contains("never answered"), "{said}");
    assert!(said.contains(r#""op":"hello""#), "{said}");
}

#[test]
fn a_wrong_argument_is_said_without_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("redis://default:{ENCODED}@127.0.0.1:1");
    std::fs::write(dir.path().join("url"), &url).unwrap();
    for args in [
        &["bench", "--target", &url, "--tasks", &url][..],
        &["lock", &url, "x", "--wait", "0", "--", "true"],
        &["chaos", &url],
        &["conform", "false", "--target", &url],
        &["trace", &url],
        &["trace", "@url"],
        &["doctor", &url],
        &[&url],
    ] {
        let output = run(dir.path(), args);
        let said = format!("{}{}", support::stdout(&output), support::stderr(&output));
        assert!(!said.contains("hunter"), "{said}");
        assert_ne!(support::code(&output), 0, "{said}");
    }
    let mut lock = locklab(dir.path());
    let lock = lock.args(["lock", "x", "--wait", "0"]);
    let output = lock.env("LOCKLAB_TARGET", &url).output().unwrap();
    assert!(!support::stderr(&output).contains("hunter"));
}

#[test]
fn a_target_with_a_password_is_not_repeated() {
    let refused = |url: &str| parse_target(url).expect_err("a bad URL").to_string();
    for url in ["redis://bob:s3cr/et@h", "s3cret@h", "redis://bob:s3 cret@h/x"] {
        let said = refused(url);
        assert!(!said.contains("s3") && !said.contains("cret"), "{said}");
        assert!(said.contains("%2F"), "{said}");
    }
    // The host was forgotten.
    for url in ["redis://bob:s3cret", "redis://bob:s3cret/1", "redis://h:1,bob:s3cret", "redis://bob:s3:cret"]
    {
        let said = refused(url);
        assert!(!said.contains("s3cret") && !said.contains("bob"), "{said}");
    }
    assert!(refused("redis://h/x").contains("redis://h/x"));
}
