//! The promises of the topology layer against real servers.
mod cluster;
mod sentinel;
mod single;

#[path = "../../../tests/support/mod.rs"]
pub(crate) mod support;

use std::{sync::Arc, time::Duration};

use super::{ChannelName, NodeError, Request, Route, Script, ServerReply, Subscription, WaitFor, connect};
use crate::{ClientOptions, Durability, Target, clock::Instant, machine::ClientRuntime};

static INCR: Script = Script::new("incr", "return redis.call('incr', KEYS[1])");

fn options() -> ClientOptions {
    ClientOptions {
        response_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(5),
        ..ClientOptions::default()
    }
}

async fn route(url: &str) -> Arc<Route> {
    let target: Target = url.parse().expect("a good URL");
    let runtime = ClientRuntime::current().expect("a runtime");
    let routes = connect(&target, &options(), None, &runtime).await;
    routes.expect("a server answers").remove(0)
}

/// A script that counts calls in the key: a repeated or lost execution shows.
fn incr(key: &str) -> Request {
    Request::new(&INCR).key(key)
}

fn incr_and_wait(key: &str) -> Request {
    let mut request = incr(key);
    request.wait = Some(WaitFor { durability: Durability::Wait(1), timeout: Duration::from_secs(5) });
    request
}

fn within(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

fn number(sent: &ServerReply) -> i64 {
    match sent.value {
        redis::Value::Int(number) => number,
        ref other => panic!("{other:?} is no number"),
    }
}

/// Sends until it succeeds. What was lost in between is counted by nobody.
async fn eventually(route: &Arc<Route>, request: &Request) -> ServerReply {
    let until = Instant::now() + support::PATIENCE;
    loop {
        match route.send(request, within(5000)).await {
            Ok(sent) => return sent,
            Err(error) => assert!(Instant::now() < until, "still failing: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ready(subscription: &mut Subscription) {
    tokio::time::timeout(support::PATIENCE, subscription.ready())
        .await
        .expect("the subscription is acknowledged");
}

async fn hint(subscription: &mut Subscription) {
    tokio::time::timeout(support::PATIENCE, subscription.hint()).await.expect("a hint comes");
}

fn no_hint_waiting(subscription: &mut Subscription) -> bool {
    use futures_util::FutureExt;
    subscription.hint().now_or_never().is_none()
}

async fn error(route: &Arc<Route>, request: &Request, ms: u64) -> NodeError {
    route.send(request, within(ms)).await.expect_err("no answer can come")
}
