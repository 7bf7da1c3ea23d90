//! What the features `tracing` and `metrics` tell of a hold that is waited for, renewed, lost and released.

#![cfg(all(feature = "tracing", feature = "metrics"))]

mod support;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Client, ClientOptions, Kind};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata as MetricData, SharedString, Unit};
use support::{PATIENCE, Server};
use tracing::{Event, Metadata, Subscriber, field::Field, span};

const MS: Duration = Duration::from_millis(1);

/// Every figure by its name and labels: of a histogram how often it was recorded, of a gauge the bits of its
/// value.
static FIGURES: LazyLock<Mutex<BTreeMap<String, Arc<AtomicU64>>>> = LazyLock::new(Mutex::default);

struct Figures;

struct Count(Arc<AtomicU64>);

impl metrics::HistogramFn for Count {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn figure(key: &Key) -> Arc<AtomicU64> {
    let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
    let name = key.name().to_owned() + &labels.collect::<String>();
    Arc::clone(FIGURES.lock().expect("no panic").entry(name).or_default())
}

impl metrics::Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &MetricData<'_>) -> Counter {
        Counter::from_arc(figure(key))
    }
    fn register_gauge(&self, key: &Key, _: &MetricData<'_>) -> Gauge {
        Gauge::from_arc(figure(key))
    }
    fn register_histogram(&self, key: &Key, _: &MetricData<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Count(figure(key))))
    }
}

/// Every span and event as a line: its name or message, and its fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Text<'a>(&'a mut String);

impl tracing::field::Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        *self.0 += &format!(" {field}={value:?}");
    }
}

impl Lines {
    fn add(&self, mut line: String, record: impl FnOnce(&mut Text<'_>)) {
        record(&mut Text(&mut line));
        self.0.lock().expect("no panic").push(line);
    }

    fn has(&self, begin: &str, part: &str) -> bool {
        let lines = self.0.lock().expect("no panic");
        lines.iter().any(|line| line.starts_with(begin) && line.contains(part))
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lock_core")
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.add(span.metadata().name().to_owned(), |text| span.record(text));
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        self.add("record".to_owned(), |text| values.record(text));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        self.add("event".to_owned(), |text| event.record(text));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_holds_renewals_and_losses_are_told() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).expect("the only one");
    metrics::set_global_recorder(Figures).map_err(|_| ()).expect("the only one");
    let server = Server::start(&[]);
    let options = ClientOptions::default().watchdog_lease(300 * MS);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "orders").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    let busy = lock.acquire_timeout(20 * MS).await;
    busy.expect_err("held");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.expect("given back") }
    });
    server.wait_for(&["PUBSUB", "CHANNELS"], |channels| channels.contains("orders"));
    tokio::time::sleep(200 * MS).await;
    guard.release().await.expect("held");
    let guard = waiter.await.expect("no panic");
    server.ok(&["DEL", "orders"]);
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told");
    drop(guard);
    // One that stands in a line at the server, alone.
    for kind in [Kind::Queued, Kind::Fair] {
        let alone = client.lock(kind, kind.name()).expect("a good name").acquire().await;
        alone.expect("free").release().await.expect("held");
    }
    client.close().await;
    let of = |name: &str| {
        let name = name.replace("KIND", "lock.kind=reentrant");
        let figures = FIGURES.lock().expect("no panic");
        figures.get(&name).map(|figure| figure.load(Ordering::Relaxed))
    };
    assert_eq!(of("lock.acquire.duration KIND outcome=granted"), Some(2));
    assert_eq!(of("lock.acquire.duration KIND outcome=busy"), Some(1));
    assert_eq!(of("lock.hold.duration KIND"), Some(2));
    assert_eq!(of("lock.handoffs KIND"), Some(1));
    assert_eq!(of("lock.hold.duration lock.kind=queued"), Some(1));
    assert_eq!(of("lock.handoffs lock.kind=queued"), None);
    assert_eq!(of("lock.handoffs lock.kind=fair"), None);
    assert_eq!(of("lock.losses KIND"), Some(1));
    assert_eq!(of("lock.held KIND"), Some(0.0_f64.to_bits()));
    let renewed = ["false", "true"].map(|late| of(&format!("lock.renewals KIND late={late}")));
    assert!(renewed.into_iter().flatten().sum::<u64>() > 0, "{renewed:?}");
    let of_lock = format!("server.address=\"{}\" lock.name=\"orders\"", server.address());
    assert!(lines.has("lock.acquire", &of_lock) && lines.has("lock.hold", &of_lock));
    assert!(lines.has("record", "error.type=\"busy\""));
    assert!(lines.has("lock.hold", "lock.handed_over=true"));
    assert!(lines.has("event", "renewed"));
    assert!(lines.has("event", "message=lost"));
    // What a server lacks is told with its cost and its remedy.
    server.ok(&["ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels"]);
    let url = server.url().replace("redis://", "redis://deaf:secret@");
    let client = lock_core::connect(&url).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "orders").expect("a good name");
    let held = lock.acquire().await.expect("free");
    let waits = tokio::spawn(async move { lock.acquire().await });
    let begin =
        format!("event message=a server lacks what locks need server.address=\"{}\"", server.address());
    let said = async {
        while !lines.has(&begin, "found=\"SUBSCRIBE redisson_lock__channel:{orders}") {
            tokio::time::sleep(10 * MS).await;
        }
    };
    tokio::time::timeout(PATIENCE, said).await.expect("told");
    assert!(lines.has(&begin, "cost=\"nobody is told") && lines.has(&begin, "remedy=\"allow the channels"));
    held.release().await.expect("held");
    drop(waits.await.expect("no panic").expect("given back"));
    client.close().await;
}
