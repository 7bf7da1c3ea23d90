//! What a lock tells its operators: spans and events by a subscriber of `tracing`, figures by a recorder of
//! `metrics`. The recorder here prints them, where a service has an exporter.
//!
//! `cargo run -p lock-core --features tracing,metrics --example telemetry -- redis://127.0.0.1:6379`

use std::{error::Error, sync::Arc};

use lock_core::Kind;
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn};
use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing_subscriber::fmt::format::FmtSpan;

struct Printer;

struct Figure(Key);

impl Figure {
    #[allow(clippy::print_stdout, reason = "an example's output is what it is for")]
    fn print(&self, change: impl std::fmt::Display) {
        let labels = self.0.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        println!("{}{} {change}", self.0.name(), labels.collect::<String>());
    }
}

impl CounterFn for Figure {
    fn increment(&self, by: u64) {
        self.print(format_args!("+{by}"));
    }
    fn absolute(&self, value: u64) {
        self.print(value);
    }
}

impl GaugeFn for Figure {
    fn increment(&self, by: f64) {
        self.print(format_args!("+{by}"));
    }
    fn decrement(&self, by: f64) {
        self.print(format_args!("-{by}"));
    }
    fn set(&self, value: f64) {
        self.print(value);
    }
}

impl HistogramFn for Figure {
    fn record(&self, value: f64) {
        self.print(value);
    }
}

impl Recorder for Printer {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Figure(key.clone())))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Figure(key.clone())))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Figure(key.clone())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: telemetry URL")?;
    let seen = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
    seen.with_span_events(FmtSpan::NEW | FmtSpan::CLOSE).init();
    metrics::set_global_recorder(Printer).map_err(|_| "there is a recorder")?;
    let client = lock_core::connect(&url).await?;
    let orders = client.lock(Kind::Reentrant, "orders")?;
    let guard = orders.acquire().await?;
    // A second owner waits, and is handed the lock.
    let (second, released) = tokio::join!(orders.acquire(), guard.release());
    released?;
    second?.release().await?;
    client.close().await;
    Ok(())
}
