//! What a client says about servers that are set up badly for locks, and about one that says nothing.

mod support;

use lock_core::{
    Client, ClientOptions, Durability, ErrorKind, Kind,
    diagnostics::{Concern, ConcernKind, ServerReport, Severity},
};
use support::{
    Server,
    cluster::Cluster,
    proxy::{Passage, Proxy},
};

async fn client(url: &str, durability: Durability) -> Client {
    let target = url.parse().expect("a good URL");
    let options = ClientOptions::default().durability(durability);
    Client::connect(&target, options).await.expect("it answers")
}

fn kinds(concerns: &[Concern]) -> Vec<ConcernKind> {
    concerns.iter().map(|concern| concern.kind).collect()
}

#[tokio::test]
async fn a_server_that_forgets_and_evicts_is_said_to_be_dangerous_at_connect() {
    let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    let bad = client(&server.url(), Durability::None).await;
    let concerns = &bad.concerns();
    assert_eq!(kinds(concerns), [ConcernKind::Eviction, ConcernKind::Forgets], "{concerns:?}");
    for concern in concerns {
        assert_eq!(concern.severity, Severity::Danger);
        assert_eq!(concern.node, format!("127.0.0.1:{}", server.port));
    }
    let text = concerns[0].to_string();
    assert!(text.contains("volatile-ttl") && text.contains("CONFIG SET"), "{text}");

    for (setting, value) in
        [("maxmemory-policy", "noeviction"), ("appendonly", "yes"), ("appendfsync", "always")]
    {
        server.ok(&["CONFIG", "SET", setting, value]);
    }
    let good = client(&server.url(), Durability::None).await;
    assert_eq!(good.concerns(), [], "fixed");
    // What was found at connect stays; a survey asks anew.
    assert_eq!(bad.concerns().len(), 2);
    let reports = bad.survey().await;
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].concerns(Durability::None), []);
    assert_eq!(reports[0].role.as_deref(), Some("master"));
    let version = reports[0].version.as_deref();
    assert!(version.is_some_and(|version| version.starts_with("redis ")));
}

#[tokio::test]
async fn replicas_matter_where_durability_does_not_see_to_them() {
    let file = ["--appendonly", "yes", "--appendfsync", "always"];
    let master = Server::start(&file);
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    replica.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
    let careless = client(&master.url(), Durability::None).await;
    assert_eq!(kinds(&careless.concerns()), [ConcernKind::UnguardedFailover]);
    let told = client(&format!("{}?replicas=1", master.url()), Durability::WaitAll).await;
    assert_eq!(told.concerns(), []);
    let second = Server::start(&["--replicaof", "127.0.0.1", &port]);
    second.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
    let outgrown = client(&format!("{}?replicas=1", master.url()), Durability::WaitAll).await;
    assert_eq!(kinds(&outgrown.concerns()), [ConcernKind::Acknowledgements]);
    drop(second);
    master.wait_for(&["INFO", "replication"], |info| info.contains("connected_slaves:1"));
    master.ok(&["CONFIG", "SET", "min-replicas-to-write", "2"]);
    let refused = client(&master.url(), Durability::None).await;
    assert_eq!(kinds(&refused.concerns()), [ConcernKind::TooFewReplicas]);
    let astray = client(&replica.url(), Durability::None).await;
    assert_eq!(astray.concerns()[0].kind, ConcernKind::Replica);
}

/// An own user for locks mostly may read no configuration.
#[tokio::test]
async fn a_refused_question_is_unknown_and_no_error() {
    let server = Server::start(&[]);
    server.ok(&["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all", "-config", "-info"]);
    let url = format!("redis://app:s3cret@127.0.0.1:{}", server.port);
    let client = client(&url, Durability::None).await;
    assert_eq!(kinds(&client.concerns()), [ConcernKind::Unread]);
    let unread = &client.concerns()[0];
    assert!(unread.found.contains("maxmemory-policy"), "{unread}");
    assert!(unread.found.contains("permission") && unread.remedy.contains("+config|get"), "{unread}");
}

/// Of a proxy that answers otherwise, or ends connections, no right helps.
#[tokio::test]
async fn settings_that_a_proxy_keeps_back_are_no_missing_right() {
    let server = Server::start(&[]);
    for hangs_up in [false, true] {
        let proxy = Proxy::before(server.address(), move |words| match (&*words[0], hangs_up) {
            ("CONFIG", true) => Passage::HungUp,
            ("CONFIG", false) => Passage::Refused("ERR unknown command 'CONFIG'".to_owned()),
            _ => Passage::Forwarded,
        });
        let concerns = client(&proxy.url(), Durability::None).await.concerns();
        let unread = concerns.iter().find(|one| one.kind == ConcernKind::Unread).expect("said");
        assert!(!unread.why.contains("may not") && unread.remedy.contains("proxy"), "{unread}");
        let said = if hangs_up { "connection" } else { "unknown command" };
        assert!(unread.found.contains(said), "{unread}");
    }
}

#[tokio::test]
async fn a_server_without_scripts_is_no_place_for_locks() {
    let server = Server::start(&["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""]);
    let client = client(&server.url(), Durability::None).await;
    let concerns = client.concerns();
    let scripts = concerns.iter().find(|one| one.kind == ConcernKind::Scripts).expect("said");
    assert!(!scripts.to_string().contains("SCRIPT LOAD"), "{scripts}");
    let refused = client.lock(Kind::Reentrant, "n").expect("a good name").try_acquire().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Failed);
}

/// Locks go by their scripts' digests where texts are refused, if these can be loaded or are there.
#[tokio::test]
async fn a_user_without_eval_locks_by_digests() {
    let server = Server::start(&[]);
    let mut urls = Vec::new();
    for (name, rules) in [("loads", &["-eval"][..]), ("runs", &["-eval", "-script"])] {
        let user = ["ACL", "SETUSER", name, "on", ">s3cret", "~*", "&*", "+@all"];
        server.ok(&[&user[..], rules].concat());
        urls.push(format!("redis://{name}:s3cret@127.0.0.1:{}", server.port));
    }
    let taken = async |client: &Client| {
        let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
        lock.try_acquire().await?.expect("free").release().await
    };
    let scripts = |client: &Client| {
        let concerns = client.concerns();
        concerns.into_iter().find(|one| one.kind == ConcernKind::Scripts)
    };
    let runs = client(&urls[1], Durability::None).await;
    let concern = scripts(&runs).expect("none is loaded");
    assert!(concern.found.contains("SCRIPT LOAD") && concern.why.contains("other clients"), "{concern}");
    assert_eq!(taken(&runs).await.unwrap_err().kind(), ErrorKind::Failed);
    let loads = client(&urls[0], Durability::None).await;
    assert_eq!(scripts(&loads), None);
    taken(&loads).await.expect("by digests");
    taken(&runs).await.expect("they are there");
}

/// Such a user takes a lock, and loses it at the end of its lease.
#[tokio::test]
async fn a_user_who_may_not_renew_is_named() {
    let server = Server::start(&[]);
    for refused in ["pexpire", "hexists", "del"] {
        let (name, rule) = (format!("no-{refused}"), format!("-{refused}"));
        let words = ["ACL", "SETUSER", &name, "on", ">s3cret", "~*", "&*", "+@all", &rule];
        server.ok(&words);
        let url = format!("redis://{name}:s3cret@127.0.0.1:{}", server.port);
        let concerns = client(&url, Durability::None).await.concerns();
        let found = concerns.iter().find(|one| one.kind == ConcernKind::Scripts);
        let found = &found.expect("named").found;
        assert!(found.starts_with(&format!("{refused}: ")), "{found}");
    }
}

/// Each call of a lock is refused to a user who has other keys alone: the first one shows it, or a prefix.
#[tokio::test]
async fn keys_that_a_user_may_not_have_are_named() {
    let server = Server::start(&[]);
    let names = ["~other:*", "~redisson_*other:*", "~locklab_*other:*", "~{other:*"];
    let user = ["ACL", "SETUSER", "app", "on", ">s3cret", "&*", "+@all"];
    server.ok(&[&user[..], &names].concat());
    let url = format!("redis://app:s3cret@127.0.0.1:{}", server.port);
    let found = |concerns: &[Concern]| {
        let keys = concerns.iter().find(|concern| concern.kind == ConcernKind::Keys)?;
        assert!(keys.severity == Severity::Danger && keys.remedy.contains("~NAME*"), "{keys}");
        assert!(keys.remedy.contains("name_prefix") && keys.why.contains("30 s"), "{keys}");
        Some(keys.found.clone())
    };
    let app = client(&url, Durability::None).await;
    let other = app.lock(Kind::Queued, "other:1").expect("a good name").try_acquire().await;
    other.expect("allowed").expect("free").release().await.expect("held");
    assert_eq!(found(&app.concerns()), None);
    // Of which names its locks have nothing is known there.
    let unknown = app.survey().await[0].concerns(Durability::None);
    let unread = unknown.iter().find(|concern| concern.kind == ConcernKind::Unread).expect("said");
    assert!(unread.found.contains("keys") && unread.remedy.contains("~NAME*"), "{unread}");
    assert_eq!(found(&unknown), None);
    let refused = app.lock(Kind::Reentrant, "orders").expect("a good name").try_acquire().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Failed);
    let refused = found(&app.concerns()).expect("named");
    assert!(refused.contains(" of orders: NOPERM "), "{refused}");

    let prefixed = async |prefix| {
        let options = ClientOptions::default().name_prefix(prefix);
        let target = url.parse().expect("a good URL");
        let client = Client::connect(&target, options).await.expect("it answers");
        let surveyed = client.survey().await[0].concerns(Durability::None);
        assert_eq!(found(&client.concerns()), found(&surveyed));
        found(&surveyed)
    };
    assert_eq!(prefixed("other:").await, None);
    let refused = prefixed("orders:").await.expect("named");
    assert!(refused.contains(" of orders:locklab-survey, {orders:locklab-survey}:"), "{refused}");
    // A lock's own name is not enough.
    server.ok(&["ACL", "SETUSER", "app", "resetkeys", "~other:*", "~{other:*"]);
    let refused = prefixed("other:").await.expect("named");
    assert!(refused.contains(" of redisson_lock_queue:{other:locklab-survey}, locklab_queue:"), "{refused}");
}

/// Who takes locks without replicas does without it.
#[tokio::test]
async fn a_server_without_wait_is_named_to_who_waits_for_replicas() {
    let server = Server::start(&["--rename-command", "WAIT", ""]);
    for (durability, is_said) in [(Durability::None, false), (Durability::Wait(1), true)] {
        let concerns = client(&server.url(), durability).await.concerns();
        let found = concerns.iter().find(|one| one.kind == ConcernKind::Waits);
        assert_eq!(found.is_some(), is_said, "{concerns:?}");
    }
}

#[tokio::test]
async fn a_survey_names_every_master_also_the_silent() {
    let mut cluster = Cluster::start(2, false);
    let client = client(&cluster.url(), Durability::None).await;
    cluster.nodes[1].kill();
    let reports = client.survey().await;
    assert_eq!(reports.len(), 2, "{reports:?}");
    for report in reports {
        let silent = report.node.ends_with(&cluster.nodes[1].port.to_string());
        assert_eq!(report.silence.is_some(), silent, "{report:?}");
        let concerns = report.concerns(Durability::None);
        let expected = if silent { ConcernKind::Silent } else { ConcernKind::FullCoverage };
        assert!(kinds(&concerns).contains(&expected), "{concerns:?}");
    }
}

/// A server with nothing to complain of, but for what is set otherwise.
fn judged(replicas: u32, clustered: bool, otherwise: &[(&str, &str)]) -> Vec<ConcernKind> {
    let good = [
        ("appendfsync", "always"),
        ("appendonly", "yes"),
        ("cluster-require-full-coverage", "no"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("min-replicas-to-write", "0"),
        ("save", ""),
    ];
    let settings = good.iter().chain(otherwise);
    let mut report = ServerReport::default();
    report.node = "n1".to_owned();
    report.role = Some("master".to_owned());
    (report.replicas, report.clustered) = (Some(replicas), clustered);
    report.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    kinds(&report.concerns(Durability::None))
}

#[test]
fn each_setting_is_judged_with_those_it_depends_on() {
    use ConcernKind::*;
    assert_eq!(judged(0, false, &[]), []);
    let lru = ("maxmemory-policy", "allkeys-lru");
    assert_eq!(judged(0, false, &[lru]), [], "without a limit");
    assert_eq!(judged(0, false, &[lru, ("maxmemory", "100")]), [Eviction]);
    let no_file = ("appendonly", "no");
    assert_eq!(judged(0, false, &[no_file]), [Forgets]);
    assert_eq!(judged(0, false, &[no_file, ("save", "3600 1")]), [ForgetsLatest]);
    assert_eq!(judged(0, false, &[("appendfsync", "everysec")]), [ForgetsLatest]);
    assert_eq!(judged(1, false, &[]), [UnguardedFailover]);
    let down_after = |ms| (ServerReport::DOWN_AFTER, ms);
    assert_eq!(judged(0, false, &[down_after("29999")]), [EarlyFailover]);
    assert_eq!(judged(0, false, &[down_after("30000")]), []);
    let two = ("min-replicas-to-write", "2");
    assert_eq!(judged(2, false, &[two]), []);
    assert_eq!(judged(1, false, &[two]), [TooFewReplicas]);
    let whole = ("cluster-require-full-coverage", "yes");
    assert_eq!(judged(0, false, &[whole]), []);
    assert_eq!(judged(0, true, &[whole]), [FullCoverage]);
}

#[test]
fn a_replica_that_no_grant_waits_for_is_a_danger() {
    let said = |durability: &str, connected, given| {
        let mut report = ServerReport::default();
        (report.replicas, report.given_replicas) = (Some(connected), given);
        let concerns = report.concerns(durability.parse().expect("a durability"));
        let of_kind = |concern: &Concern| concern.kind == ConcernKind::Acknowledgements;
        concerns.into_iter().find(of_kind).map(|concern| (concern.severity, concern.found))
    };
    let few = "wait:all of 1 replicas, and 2 are connected".to_owned();
    assert_eq!(said("wait:all", 2, Some(1)), Some((Severity::Danger, few)));
    for durability in ["none", "wait:1", "waitaof:1"] {
        assert_eq!(said(durability, 2, Some(1)), None, "{durability}");
    }
    assert_eq!(said("wait:all", 1, Some(2)), None);
}

#[test]
fn what_cannot_be_read_is_said_to_be_unknown() {
    let concerns = ServerReport::default().concerns(Durability::None);
    assert_eq!(concerns.len(), 1);
    assert_eq!(concerns[0].kind, ConcernKind::Unread);
    assert!(!concerns[0].found.contains("cluster"), "{}", concerns[0]);
}
