//! Drives a server of Toxiproxy's API with the crate toxiproxy_rust, through every call that the crate has.
//!
//! `drive-by-toxiproxy-rust API UPSTREAM`: UPSTREAM sends back what it receives. Ends with a panic where
//! something is not as it should be.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use toxiproxy_rust::client::Client;
use toxiproxy_rust::proxy::ProxyPack;

/// Far beyond what an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    let mut args = std::env::args().skip(1);
    let api = args.next().expect("the API's address");
    let upstream = args.next().expect("the upstream's address");

    let client = Client::new(&api);
    assert!(client.is_running());
    assert!(client.version().expect("a version").contains("version"));
    let pack = |name: &str| ProxyPack::new(name.into(), "127.0.0.1:0".into(), upstream.clone());
    let made = client.populate(vec![pack("one"), pack("two")]);
    assert_eq!(made.expect("both are made").len(), 2);
    assert_eq!(client.all().expect("all").len(), 2);
    assert!(client.find_proxy("three").is_err());

    let proxy = client.find_proxy("one").expect("it is there");
    let listen: SocketAddr = proxy.proxy_pack.listen.parse().expect("an address");
    assert!(says(listen));

    proxy.with_down(|| assert!(!says(listen))).expect("it is switched off and on");
    assert!(says(listen));
    proxy.disable().expect("it is switched off");
    assert!(!says(listen));
    proxy.enable().expect("it is switched on");

    let began = Instant::now();
    let late = proxy.with_latency("downstream".into(), 200, 0, 1.0);
    late.apply(|| assert!(says(listen))).expect("the toxic comes and goes");
    assert!(began.elapsed() >= Duration::from_millis(200));

    let limited = proxy.with_limit_data("downstream".into(), 2, 1.0);
    limited.apply(|| assert!(!says(listen))).expect("the toxic comes and goes");
    let ends = proxy.with_timeout("upstream".into(), 50, 1.0);
    ends.apply(|| assert!(!says(listen))).expect("the toxic comes and goes");

    proxy
        .with_bandwidth("upstream".into(), 1000, 1.0)
        .with_slow_close("downstream".into(), 1, 1.0)
        .with_slicer("upstream".into(), 2, 1, 0, 1.0);
    assert_eq!(proxy.toxics().expect("toxics").len(), 3);
    assert!(says(listen));
    proxy.delete_all_toxics().expect("they go");
    assert_eq!(proxy.toxics().expect("toxics").len(), 0);

    proxy.with_latency("upstream".into(), 1, 0, 1.0);
    proxy.disable().expect("it is switched off");
    let proxy = client.find_and_reset_proxy("one").expect("it is as new");
    assert_eq!(proxy.toxics().expect("toxics").len(), 0);
    client.reset().expect("all are as new");
    assert!(says(listen));
    proxy.delete().expect("it goes");
    assert_eq!(client.all().expect("all").len(), 1);
}

/// Whether a word comes back whole over a connection of its own.
fn says(proxy: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(proxy) else {
        return false;
    };
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut back = [0; 4];
    stream.write_all(b"word").is_ok() && stream.read_exact(&mut back).is_ok() && &back == b"word"
}
