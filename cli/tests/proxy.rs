//! `locklab proxy` as a user sees it: it serves Toxiproxy's API, reads its configuration file, stays on
//! loopback, ends clean.
#![allow(missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use nix::sys::signal::Signal;
use support::{Server, code, free_port, locklab, run, signal, stderr};

fn ask(address: &str, request: &str) -> String {
    ask_as(address, request, &format!("Host: {address}"))
}

fn ask_as(address: &str, request: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{request} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_proxy_of_the_configuration_file_carries_redis_until_ctrl_c() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let port = free_port();
    let config = format!(
        "[{{\"name\":\"redis\",\"listen\":\"127.0.0.1:{port}\",\"upstream\":\"127.0.0.1:{}\",\"enabled\":true}}]",
        server.port
    );
    std::fs::write(dir.path().join("toxiproxy.json"), config).unwrap();
    let mut child = locklab(dir.path())
        .args(["proxy", "--listen", "127.0.0.1:0", "--config", "toxiproxy.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim_end();
    assert!(ask(address, "GET /version").contains("\"version\":\"2.12.0\""));
    assert!(ask(address, "GET /proxies/redis").contains(&format!("127.0.0.1:{port}")));
    // A page in a browser may be led here by a name of its own.
    for header in [
        "Host: evil.example",
        "Host: localhost\r\nOrigin: https://evil.example",
        "Host: localhost\r\nOrigin: null",
        "Host: localhost\r\nSec-Fetch-Site: cross-site",
    ] {
        let answer = ask_as(address, "GET /proxies", header);
        assert!(answer.starts_with("HTTP/1.1 403"), "{header}: {answer}");
    }
    for header in
        ["Host: localhost:1", "Host: [::1]\r\nOrigin: http://127.0.0.1:1\r\nSec-Fetch-Site: same-origin"]
    {
        let answer = ask_as(address, "GET /proxies", header);
        assert!(answer.starts_with("HTTP/1.1 200"), "{header}: {answer}");
    }
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    client.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(client.read(&mut pong).unwrap_or(0), 0);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let refused = run(dir.path(), &["proxy", "--listen", "0.0.0.0:8474"]);
    assert_eq!(code(&refused), 64);
    assert!(stderr(&refused).contains("loopback"), "{}", stderr(&refused));
    let listen = ["proxy", "--listen", "127.0.0.1:0", "--config"];
    let with = |file| run(dir.path(), &[&listen[..], &[file]].concat());
    let missing = with("nowhere.json");
    assert_eq!(code(&missing), 65, "{}", stderr(&missing));
    std::fs::write(dir.path().join("bad.json"), "[{\"upstream\":\"127.0.0.1:1\"}]").unwrap();
    let bad = with("bad.json");
    assert_eq!(code(&bad), 65);
    assert!(stderr(&bad).contains("bad.json: missing required field: name at proxy 1"), "{}", stderr(&bad));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let busy = run(dir.path(), &["proxy", "--listen", &address]);
    assert_eq!(code(&busy), 69, "{}", stderr(&busy));
}
