//! Target URLs, good and bad: a target, or one clear message.
use lock_core::{Endpoint, Target, TopologyKind};
use proptest::prelude::*;

fn parse(url: &str) -> Target {
    url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refused(url: &str) -> String {
    url.parse::<Target>().expect_err(url).to_string()
}

fn tcp(host: &str, port: u16) -> Endpoint {
    // The enum is non-exhaustive as a whole, its variants are not.
    Endpoint::Tcp { host: host.to_owned(), port }
}

#[test]
fn each_scheme_has_its_shape() {
    assert_eq!(parse("redis://h").topology_kind(), TopologyKind::Single);
    assert_eq!(parse("rediss://h").topology_kind(), TopologyKind::Single);
    assert!(parse("rediss-cluster://h").tls());
    assert_eq!(parse("redis-cluster://a,b").topology_kind(), TopologyKind::Cluster);
    assert_eq!(parse("redlock://a,b,c").topology_kind(), TopologyKind::Masters);
    let sentinel = parse("redis-sentinel://a,b:1/my%2Fmaster/3");
    assert_eq!(sentinel.master_name(), Some("my/master"));
    assert_eq!(sentinel.database(), 3);
    assert_eq!(sentinel.endpoints(), [tcp("a", 26379), tcp("b", 1)]);
    assert_eq!(parse("redis+unix:///run/r.sock").endpoints(), [Endpoint::Unix("/run/r.sock".into())]);
}

/// URLs as other libraries take them, and what each of them is here.
#[test]
fn the_urls_of_other_libraries_are_read() {
    for (url, is) in [
        ("unix:///run/r.sock?db=3", "redis+unix:///run/r.sock?db=3"),
        ("redis+sentinel://a:1,b:2/m?db=1", "redis-sentinel://a:1,b:2/m/1"),
        ("redis+cluster://a:1", "redis-cluster://a:1"),
        ("rediss+cluster://a:1", "rediss-cluster://a:1"),
        ("redis://h:1?db=2&protocol=resp3", "redis://h:1/2"),
        ("redis-cluster://h:1?db=0&protocol=2", "redis-cluster://h:1"),
        ("redis-cluster://h:1/0", "redis-cluster://h:1"),
        ("valkey://h:1/2", "redis://h:1/2"),
        ("valkeys://h:1", "rediss://h:1"),
        ("redis+ssl://h:1", "rediss://h:1"),
        ("rediss://h:1/#insecure", "rediss://h:1?tls-insecure=true"),
        ("unix:///r?user=a&pass=b", "redis+unix://a:***@/r"),
        ("unix:///r?password=b", "redis+unix://:***@/r"),
        ("redis-socket://:b@/r?database=3", "redis+unix://:***@/r?db=3"),
        ("redis-sentinel://a:1,b:2/1#m", "redis-sentinel://a:1,b:2/m/1"),
        ("redis-sentinel://a:1?sentinelMasterId=m&database=1", "redis-sentinel://a:1/m/1"),
        ("REDISS-Sentinel://a:1/m", "rediss-sentinel://a:1/m"),
        ("Redis+Unix:///r", "redis+unix:///r"),
    ] {
        assert_eq!(parse(url).to_string(), is);
    }
    assert_eq!(parse("unix:///run/r.sock?db=3").database(), 3);
    for (url, says) in [
        ("redis://h/1?db=2", "again as db"),
        ("redis-cluster://h?db=2", "no databases"),
        ("redis://h?db=x", "0 to 65535"),
        ("redis://h?db=-1", "0 to 65535"),
        ("redis://h?protocol=4", "resp3"),
        ("redis://h?timeout=1s", "ClientOptions"),
        ("redis://h?user=a&username=b", "twice"),
        ("redis://h?user=a", "beside it"),
        ("redis://a:b@h?password=c", "and again"),
        ("redis://h#insecure", "with TLS"),
        ("rediss://h?tls-insecure=false#insecure", "twice"),
        ("redis://[fe80::1%25eth0]:1", "with a zone"),
        ("redis://h?master-name=m", "redis-sentinel://"),
        ("unix:///r?master-name=m", "redis-sentinel://"),
        ("redis-sentinel://h/0?master-name=m#n", "nowhere else"),
        ("redis-sentinel://h/m?master-name=x", "name is given twice"),
        ("redis-sentinel://h/m#x", "name is given twice"),
    ] {
        assert!(refused(url).contains(says), "{url}: {}", refused(url));
    }
}

#[test]
fn parts_are_checked_as_a_url_is() {
    let parts = |kind, endpoints: &[Endpoint]| Target::from_parts(kind, endpoints.to_vec());
    let socket = Endpoint::Unix("/run/r.sock".into());
    for (kind, endpoints, says) in [
        (TopologyKind::Single, vec![], "needs an address"),
        (TopologyKind::Single, vec![tcp("a", 1), tcp("b", 1)], "one address"),
        (TopologyKind::Masters, vec![tcp("a", 1), tcp("a", 1)], "given twice"),
        (TopologyKind::Cluster, vec![socket.clone()], "one server alone"),
        (TopologyKind::Single, vec![tcp("", 1)], "is missing"),
        (TopologyKind::Single, vec![tcp("a", 0)], "1 to 65535"),
        (TopologyKind::Single, vec![tcp("[::1]", 1)], "no host name"),
        (TopologyKind::Single, vec![Endpoint::Unix("r.sock".into())], "full path"),
    ] {
        let error = parts(kind, &endpoints).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    let secret = parts(TopologyKind::Sentinel, &[tcp("a", 1)]).expect("good parts");
    let secret = secret.with_master_name("m").with_password(Some("u"), "s3cr/t");
    let secret = secret.with_sentinel_password(None, "s3cr/t").with_tls();
    let shown = "rediss-sentinel://u:***@a:1/m?sentinel-password=***";
    assert_eq!(secret.to_string(), shown);
    assert_eq!(secret.password(), Some("s3cr/t"));
    let socket = parts(TopologyKind::Single, &[socket]).expect("good parts");
    assert_eq!(socket.to_string(), "redis+unix:///run/r.sock");
    assert_eq!(socket.with_database(3).to_string(), "redis+unix:///run/r.sock?db=3");
}

#[test]
fn ipv6_stands_in_brackets() {
    let target = parse("redis://[::1]:7000/2");
    assert_eq!(target.endpoints(), [tcp("::1", 7000)]);
    assert_eq!(target.to_string(), "redis://[::1]:7000/2");
    assert!(target.is_loopback());
}

#[test]
fn passwords_are_never_shown() {
    for url in [
        "redis://:s3cr%40t@h",
        "redis://bob:s3cr%40t@h:1/2",
        "redis://bob:s3cr@t@h",
        "redis+unix://:s3cr@/x",
        "redis-sentinel://h/m?sentinel-password=s3cr%40t",
        "redis-sentinel://:s3cr@h/m?replicas=1&sentinel-user=u&sentinel-password=s3cr",
    ] {
        let target = parse(url);
        for shown in [format!("{target}"), format!("{target:?}"), format!("{target:#?}")] {
            assert!(!shown.contains("s3cr"), "{shown}");
            assert!(shown.contains("***"), "{shown}");
        }
    }
    for url in [
        "redis://bob:s3cr%zz@h",
        "redis://bob:s3cr@h:x",
        "redis://bob:s3cr@",
        "redis://bob:s3cr@h/x",
        "redis://h?sentinel-password=s3cr",
        "redis-sentinel://h/m?sentinel-passwords3cr",
        "redis-sentinel://h/m?replicas=0s3cr&sentinel-password=s3cr",
    ] {
        assert!(!refused(url).contains("s3cr"), "{}", refused(url));
    }
    // The host was forgotten, and what stands where a port belongs is the password.
    for url in [
        "redis://bob:s3cr",
        "redis://:s3cr",
        "redis://bob:99s3cr/1",
        "redis://bob:s3:cr",
        "redis-sentinel://a:1,bob:s3cr/m",
        "rediss://bob:s3cr?tls-ca=/x",
        "redis://[::1]:s3cr",
        "redis://bob:1234567",
    ] {
        let said = refused(url);
        let hidden = ["s3", "cr", "bob", "99", "1234567"].iter().all(|part| !said.contains(part));
        assert!(hidden, "{url}: {said}");
    }
    assert!(refused("redis://bob:s3cr").contains("user:password@host"));
}

/// As base64 has a slash; and what else ends a part of a URL, before and behind it.
#[test]
fn no_message_has_a_part_of_a_password() {
    for password in [
        "s3cr/et",
        "s3cr?et",
        "s3cr#et",
        "/s3cret",
        "s3cr@et/x",
        "s3c,ret/x",
        "s3cret:1/2",
        "1/s3cret",
        "12345/7",
        "1/s3cret=%zz",
        "1?s3cret=1/",
        "1/?tls-ca=s3cret",
        "1/?s3cret=%zz",
        "1/?pubsub=s3cret",
        "1/?tls-insecure=s3cret",
        "1/?replicas=s3cret",
        "[s3cret/",
        "[::1]s3cret/",
        "s3c`ret/",
        "s3cret,s3cret/",
        "s3 cret/",
        "%zz/s3cret",
        "s3cret%",
        "s3cret\n/",
        "70000/s3cret",
        "s3cret://x/",
    ] {
        for scheme in [
            "redis",
            "rediss",
            "redis-sentinel",
            "redis-cluster",
            "redlock",
            "redis+unix",
            "s3cret",
            "s3cret@redis",
        ] {
            for host in ["h", "h:1/0", "h,h2/m", "", "h:x", "[", "/run/x", "h?x=1"] {
                let url = format!("{scheme}://bob:{password}@{host}");
                let shown = match url.parse::<Target>() {
                    Ok(target) => format!("{target} {target:?} {target:#?}"),
                    Err(error) => format!("{error} {error:?} {error:#?}"),
                };
                for part in ["s3c", "ret", "12345", "70000", "bob:1"] {
                    assert!(!shown.contains(part), "{url}: {shown}");
                }
            }
        }
    }
    for url in ["redis://bob:s3cr/et@host", "redis-sentinel://bob:1234/x@h/0"] {
        let message = refused(url);
        assert!(message.contains("/ as %2F"), "{message}");
    }
    assert_eq!(parse("redis://bob:s3cr%2Fet@host").password(), Some("s3cr/et"));
}

#[test]
fn loopback_means_every_address() {
    assert!(parse("redlock://localhost,127.0.0.9:1,[::1]").is_loopback());
    assert!(!parse("redlock://127.0.0.1,10.0.0.1").is_loopback());
    assert!(!parse("redis://example.org").is_loopback());
}

#[test]
fn a_bad_url_says_what_is_allowed() {
    for (url, says) in [
        ("127.0.0.1:6379", "redis-cluster://"),
        ("http://h", "redis-sentinel://"),
        ("redis://", "host:port"),
        ("redis://a,b", "one address"),
        ("redis://h:0", "1 to 65535"),
        ("redis://h:+1", "1 to 65535"),
        ("redis://h:70000", "1 to 65535"),
        ("redis://h/x", "database"),
        ("redis://::1", "[::1]"),
        ("redis://[::1", "bracket"),
        ("redis://[h]", "IPv6"),
        ("redis://h?replicas=0", "1 or more"),
        ("rediss://h?tls-ca=/a@b", "%40"),
        ("redis://bob@h", "password"),
        ("redis://bob:%4@h", "percent"),
        ("redis://h?data=1", "pubsub"),
        ("redis://h?sentinel-password=x", "redis-sentinel://"),
        ("redis-sentinel://h/m?sentinel-user=x", "beside it"),
        ("redis://h?pubsub", "name=value"),
        ("redis://h?pubsub=", "no value"),
        ("redis://h?pubsub=loud", "plain, sharded or both"),
        ("redis://h?pubsub=both&pubsub=both", "twice"),
        ("redis://h?tls-ca=/x", "rediss://"),
        ("rediss://h?tls-cert=/x", "together"),
        ("rediss://h?tls-insecure=yes", "true or false"),
        ("redis://h#x", "behind `#`"),
        ("redis://a b", "host name"),
        ("redis-sentinel://h", "master's name"),
        ("redis-cluster://h/1", "no databases"),
        ("redlock://a,b,a", "twice"),
        ("redlock://a,,b", "address is missing"),
        ("redis+unix://run/r", "full path"),
    ] {
        let message = refused(url);
        assert!(message.contains(says), "{url}: {message}");
    }
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,10}(\\.[a-z]{2,3})?",
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
    ]
}

proptest! {
    #[test]
    fn no_text_of_a_password_is_shown(password in "[A-Z/?#@:,%= `'\\[\\]]{4,12}", scheme in 0..3usize) {
        let scheme = ["redis", "redis-sentinel", "redis-cluster"][scheme];
        let url = format!("{scheme}://bob:{password}@h/m");
        let shown = match url.parse::<Target>() {
            Ok(target) => format!("{target:?}"),
            Err(error) => error.to_string(),
        };
        let runs = password.split(|c: char| !c.is_ascii_uppercase());
        for run in runs.filter(|run| run.len() > 3) {
            prop_assert!(!shown.contains(run), "{}", shown);
        }
    }

    #[test]
    fn display_of_a_passwordless_target_parses_to_itself(
        shape in 0..4usize, tls in any::<bool>(), hosts in prop::collection::btree_set(host(), 1..5),
        port in prop::option::of(1u16..), name in "[^/\\x00]{1,12}", database in any::<u16>(),
    ) {
        let scheme = [["redis", "rediss"], ["redis-sentinel", "rediss-sentinel"], ["redis-cluster", "rediss-cluster"],
            ["redlock", "redlocks"]][shape][usize::from(tls)];
        let addresses: Vec<_> = hosts.into_iter().take(if shape == 0 { 1 } else { 5 })
            .map(|host| port.map_or(host.clone(), |port| format!("{host}:{port}"))).collect();
        let mut encoded = String::new();
        name.bytes().for_each(|byte| encoded.push_str(&format!("%{byte:02x}")));
        let path = match shape { 0 => format!("/{database}"), 1 => format!("/{encoded}/{database}"), _ => String::new() };
        let target = parse(&format!("{scheme}://{}{path}", addresses.join(",")));
        prop_assert_eq!(parse(&target.to_string()), target.clone());
        if shape == 1 { prop_assert_eq!(target.master_name(), Some(name.as_str())); }
    }
}
