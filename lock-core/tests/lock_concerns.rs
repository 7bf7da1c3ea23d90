//! What a client says about servers that are set up badly for locks, and about one that says nothing.

mod support;

use lock_core::{
    Client, ClientOptions, Durability,
    diagnostics::{Concern, ConcernKind, Severity},
};
use support::{Server, cluster::Cluster};

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
    let found = &client.concerns()[0].found;
    assert!(found.contains("maxmemory-policy"), "{found}");
}

#[tokio::test]
async fn a_server_without_scripts_is_no_place_for_locks() {
    let server = Server::start(&["--rename-command", "EVAL", ""]);
    let client = client(&server.url(), Durability::None).await;
    assert!(kinds(&client.concerns()).contains(&ConcernKind::Scripts));
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
