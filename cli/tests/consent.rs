//! Servers on this machine that lead to others: none beyond it is dialled that the user did not name.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};

use support::{Server, code, locklab, run, stderr};

/// A cluster of one node, which says that it is at an address elsewhere.
fn announced_elsewhere() -> (Server, String) {
    let announced = ["--cluster-enabled", "yes", "--cluster-announce-ip", "192.0.2.1"];
    let server = Server::start_with(&announced);
    server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    support::until("the cluster serves", || server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    let url = format!("redis-cluster://127.0.0.1:{}", server.port);
    (server, url)
}

/// Every command that takes a target and follows it.
fn refused(url: &str, locklab: impl Fn(&[&str]) -> Output) {
    let bench = ["bench", "--target", url, "--rounds", "1", "--duration", "100ms"];
    let naive = [&bench[..], &["--subject", "baseline:set-nx-px"]].concat();
    let part = [&bench[..], &["--part", "0/1"]].concat();
    let commands: [&[&str]; 7] = [
        &bench,
        &naive,
        &part,
        &["trace", url],
        &["doctor", url],
        &["chaos", "client-connections-dropped", "--target", url],
        &["audit", "lock-core:plain", "--target", url, "--no-bench"],
    ];
    for args in commands {
        let output = locklab(args);
        let said = stderr(&output);
        assert_eq!(code(&output), 64, "{args:?}: {said}");
        assert!(said.contains("is not on this machine"), "{args:?}: {said}");
        assert!(said.contains("--yes-this-is-mine"), "{args:?}: {said}");
    }
}

#[test]
fn a_cluster_leads_nobody_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, url) = announced_elsewhere();
    refused(&url, |args| run(dir.path(), args));
    // With consent it is dialled; nobody is there.
    let output = run(dir.path(), &["doctor", &url, "--yes-this-is-mine"]);
    assert_eq!(code(&output), 69, "{}", stderr(&output));
}

/// A client of a scenario is a process, which is told whom it may dial.
#[test]
fn a_driver_process_goes_by_the_same_consent() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, url) = announced_elsewhere();
    for subject in ["lock-core:plain", "baseline:set-nx-px"] {
        let mut driver = locklab(dir.path())
            .args(["driver", subject])
            .env("LOCKLAB_ONLY_NAMED_ADDRESSES", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = driver.stdin.take().unwrap();
        let hello = r#"{"id":1,"op":"hello","protocol":1,"target":"URL","client":"c1","seed":7}"#;
        writeln!(stdin, "{}", hello.replace("URL", &url)).unwrap();
        let acquire = r#"{"id":2,"op":"acquire","lock":"l","kind":"plain","wait_ms":0,"lease_ms":1000}"#;
        writeln!(stdin, "{acquire}").unwrap();
        let answers = BufReader::new(driver.stdout.take().unwrap());
        let said: Vec<_> = answers.lines().take(2).map(Result::unwrap).collect();
        let said = said.join("\n");
        drop(stdin);
        driver.wait().unwrap();
        assert!(said.contains("192.0.2.1 is not on this machine"), "{said}");
    }
}

/// The master has an address of the namespace's own network, so that nothing leaves the machine.
const FORWARDED: &str = r#"
ip link set lo up && ip addr add 10.1.2.3/32 dev lo || exit 99
redis-server --port 26390 --bind 10.1.2.3 --protected-mode no --save '' >/dev/null &
redis-server s.conf --sentinel >/dev/null &
until redis-cli -p 26391 sentinel master m | grep -q '^master$'; do sleep 0.05; done
"$@"
code=$?
echo "locks there: $(redis-cli -h 10.1.2.3 -p 26390 info commandstats | grep -c -e cmdstat_eval -e cmdstat_set:)" >&2
kill %1 %2; wait
exit $code
"#;

#[test]
fn sentinels_lead_nobody_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let sentinel = "port 26391\nbind 127.0.0.1\nprotected-mode no\nsentinel monitor m 10.1.2.3 26390 1\n";
    fs::write(dir.path().join("s.conf"), sentinel).unwrap();
    let in_namespace = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-rn", "bash", "-c", FORWARDED, "bash"]).args(args);
        command.current_dir(dir.path()).stdin(Stdio::null());
        command.output().unwrap()
    };
    if code(&in_namespace(&["true"])) != 0 {
        return support::skipped("no network namespace can be had here");
    }
    let own = env!("CARGO_BIN_EXE_locklab");
    refused("redis-sentinel://127.0.0.1:26391/m", |args| {
        let output = in_namespace(&[&[own], args].concat());
        let said = stderr(&output);
        assert!(said.contains("locks there: 0"), "{args:?}: {said}");
        output
    });
}

/// A node of a cluster that has all slots, by its own word, and sends a client that asks for a lock to an
/// address elsewhere.
const REDIRECTING: &str = r#"
import socketserver, sys
class Node(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                words.append(self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2].upper())
            self.wfile.write(answer(words, self.server.server_address[1]))
def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)
def answer(words, port):
    if words[:2] == [b"CLUSTER", b"SLOTS"]:
        return b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\na\r\n" % port
    if words[:2] == [b"CLUSTER", b"NODES"]:
        return bulk(sys.argv[2].encode().replace(b"PORT", b"%d" % port))
    if words[0] in (b"EVAL", b"EVALSHA"):
        return b"-%s 1 192.0.2.1:6379\r\n" % sys.argv[1].encode()
    if words[0] in (b"CLUSTER", b"INFO"):
        return bulk(b"role:master\r\ncluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:1\r\n")
    if words[0] in (b"CONFIG", b"COMMAND"):
        return b"*0\r\n"
    return {b"PING": b"+PONG\r\n", b"HELLO": b"-ERR unknown\r\n"}.get(words[0], b"+OK\r\n")
socketserver.ThreadingTCPServer.daemon_threads = True
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Node)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// What `locklab` makes of such a node, which ends with this.
fn redirected(how: &str, nodes: &str, args: &[&str]) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Command::new("python3");
    node.args(["-c", REDIRECTING, how, nodes]);
    let mut node = node.stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    let mut said = BufReader::new(node.stdout.take().unwrap());
    said.read_line(&mut port).unwrap();
    let url = format!("redis-cluster://127.0.0.1:{}", port.trim());
    let output = run(dir.path(), &[args, &[&url]].concat());
    node.kill().unwrap();
    node.wait().unwrap();
    (code(&output), stderr(&output))
}

#[test]
fn redirections_lead_nobody_elsewhere() {
    let nodes = "a 127.0.0.1:PORT@1,h myself,master - 0 0 1 connected 0-16383";
    for how in ["MOVED", "ASK"] {
        let (code, said) = redirected(how, nodes, &["trace"]);
        assert_eq!(code, 64, "{how}: {said}");
        assert!(said.contains("192.0.2.1 is not on this machine"), "{how}: {said}");
    }
}

#[test]
fn a_cluster_that_lists_no_masters_or_too_many_is_refused() {
    let many: Vec<String> =
        (0..20_000).map(|n| format!("{n} 127.0.0.1:PORT@1 master - 0 0 1 connected {n}")).collect();
    // As long as an argument may be.
    let many = &many.join("\n")[..120_000];
    for nodes in ["", "no line of a node", many] {
        let chaos = ["chaos", "client-connections-dropped", "--target"];
        let (code, said) = redirected("MOVED", nodes, &chaos);
        assert_eq!(code, 69, "{said}");
        assert!(said.contains("masters with slots"), "{said}");
    }
}
