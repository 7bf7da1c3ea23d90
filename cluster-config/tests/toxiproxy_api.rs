//! Toxiproxy's API, request by request: ours answers what the real one answers, and answers anything.

mod support;

use proptest::prelude::*;
use support::toxiproxy::{Answer, Api, ask};

/// A conversation in which every endpoint, status and error text of Toxiproxy 2.12 comes up.
const CONVERSATION: &str = include_str!("toxiproxy_requests.txt");

/// An answer without what differs from run to run: free ports, and which build it is.
fn plain(answer: Answer) -> Answer {
    let mut parts = answer.body.split("127.0.0.1:");
    let mut body = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        // Small ports are ones that a request named.
        let port = if digits > 3 { "PORT" } else { &part[..digits] };
        body.push_str("127.0.0.1:");
        body.push_str(port);
        body.push_str(&part[digits..]);
    }
    Answer { body: body.replace("\"git\"", "\"2.12.0\""), ..answer }
}

/// What an answer says, however it is written: JSON as values, and of a refused body or address that it was
/// refused, not in whose words.
fn meaning(answer: &Answer) -> (u16, &str, serde_json::Value) {
    let text = || serde_json::Value::from(answer.body.as_str());
    let mut said = serde_json::from_str(&answer.body).unwrap_or_else(|_| text());
    if let Some(error) = said.get_mut("error") {
        let text = error.as_str().unwrap_or_default().to_owned();
        if let Some((begin, _)) = text.split_once("bad request body: ") {
            *error = serde_json::Value::from(format!("{begin}bad request body"));
        } else if answer.status == 500 {
            *error = serde_json::Value::from("bad address");
        }
    }
    (answer.status, &answer.content_type, numbers(said))
}

/// 1 and 1.0 are the same to a client.
fn numbers(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(list) => list.into_iter().map(numbers).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, numbers(value))).collect(),
        value => value,
    }
}

async fn converse(api: &Api) -> Vec<(String, Answer)> {
    let mut said = Vec::new();
    let lines = CONVERSATION.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let mut words = line.splitn(3, ' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let answer = api.ask(method, path, words.next().unwrap_or_default()).await;
        said.push((line.to_owned(), plain(answer)));
    }
    said
}

#[tokio::test]
async fn every_request_is_answered_as_the_real_one_answers_it() {
    let both = Api::both().await;
    let ours = converse(&both[0]).await;
    assert!(ours.len() > 100, "{}", ours.len());
    for (request, answer) in &ours {
        assert!((200..600).contains(&answer.status), "{request}: {answer:?}");
    }
    let Some(real) = both.get(1) else {
        return;
    };
    let real = converse(real).await;
    let differing: Vec<String> = ours
        .iter()
        .zip(&real)
        .filter(|((_, ours), (_, real))| meaning(ours) != meaning(real))
        .map(|((request, ours), (_, real))| format!("{request}\n  ours {ours:?}\n  real {real:?}"))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[tokio::test]
async fn browsers_are_refused_and_taken_ports_are_told() {
    for api in Api::both().await {
        let browser = ask(api.address(), "GET", "/proxies", "Mozilla/5.0", b"").await;
        assert_eq!((browser.status, browser.body.as_str()), (403, "User agent not allowed\n"));
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let body = format!(r#"{{"name":"a","listen":"{address}","upstream":"127.0.0.1:1"}}"#);
        let answer = api.ask("POST", "/proxies", &body).await;
        assert_eq!(answer.status, 500, "{}", api.name());
        for part in [&format!("listen tcp {address}: bind: "), "ddress already in use"] {
            assert!(answer.body.contains(part), "{}: {}", api.name(), answer.body);
        }
        // Somewhere else at first, then where it cannot: that is remembered, and it is off.
        api.proxy("b", "127.0.0.1:1".parse().unwrap()).await;
        let body = format!(r#"{{"listen":"{address}"}}"#);
        assert_eq!(api.ask("POST", "/proxies/b", &body).await.status, 500);
        let now = api.ask("GET", "/proxies/b", "").await.body;
        assert!(now.contains(&format!("\"listen\":\"{address}\"")), "{}: {now}", api.name());
        assert!(now.contains("\"enabled\":false"), "{}: {now}", api.name());
        assert_eq!(api.ask("POST", "/reset", "").await.status, 500);
    }
}

#[tokio::test]
async fn nothing_listens_beyond_loopback() {
    let api = Api::ours().await;
    for listen in ["0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:1"] {
        let body = format!(r#"{{"name":"a","listen":"{listen}","upstream":"127.0.0.1:1"}}"#);
        let answer = api.ask("POST", "/proxies", &body).await;
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.body.contains("only loopback"), "{answer:?}");
    }
    let answer = api.ask("POST", "/proxies", r#"{"name":"a","upstream":"127.0.0.1:1"}"#).await;
    assert!(answer.body.contains("\"listen\":\"127.0.0.1:"), "{answer:?}");
    let refused = cluster_config::Toxiproxy::listen("0.0.0.0:0".parse().unwrap()).await;
    assert!(refused.unwrap_err().to_string().contains("loopback"));
}

/// Bodies that look like what the API takes, and some that do not.
fn body() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("\"a\"".to_owned()),
        Just("\"127.0.0.1:0\"".to_owned()),
        Just("\"latency\"".to_owned()),
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?[0-9]{1,20}(\\.[0-9]{1,3})?(e-?[0-9]{1,3})?",
        "\"\\PC{0,8}\"",
        "\\PC{0,6}",
    ];
    let key = prop_oneof![
        Just("name"),
        Just("listen"),
        Just("upstream"),
        Just("enabled"),
        Just("type"),
        Just("stream"),
        Just("toxicity"),
        Just("attributes"),
        Just("latency"),
        Just("bytes"),
    ];
    word.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|all| {
                let members: Vec<String> =
                    all.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

#[test]
fn whatever_is_asked_is_answered() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let api = runtime.block_on(Api::ours());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let method = prop::sample::select(vec!["GET", "POST", "PATCH", "DELETE", "PUT"]);
    let part = prop_oneof![
        Just("proxies".to_owned()),
        Just("a".to_owned()),
        Just("toxics".to_owned()),
        Just("populate".to_owned()),
        Just("reset".to_owned()),
        Just("latency_downstream".to_owned()),
        "[a-z%.0-9/]{0,6}",
    ];
    let path = prop::collection::vec(part, 1..5).prop_map(|parts| format!("/{}", parts.join("/")));
    let inputs = (method, path, body(), any::<Option<Vec<u8>>>());
    let outcome = runner.run(&inputs, |(method, path, text, bytes)| {
        let body = bytes.unwrap_or(text.into_bytes());
        // Most paths lead to a proxy: what is behind them should be reached as well.
        let proxy = r#"{"name":"a","listen":"127.0.0.1:0","upstream":"127.0.0.1:1"}"#;
        let made = runtime.block_on(api.ask("POST", "/proxies", proxy));
        prop_assert!(matches!(made.status, 201 | 409));
        let answer = runtime.block_on(ask(api.address(), method, &path, "test", &body));
        prop_assert!((200..600).contains(&answer.status));
        Ok(())
    });
    outcome.unwrap();
    let version = runtime.block_on(api.ask("GET", "/version", ""));
    assert_eq!(version.status, 200);
}
