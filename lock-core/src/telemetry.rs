//! What the features `tracing` and `metrics` tell of acquires and holds; without them nothing here is more
//! than a call that is compiled away. The README has the table.

use std::{fmt::Display, time::Duration};

use crate::clock::Instant;
use crate::diagnostics::concern::Concern;
#[cfg(any(feature = "tracing", feature = "metrics"))]
use crate::error::LockError;

/// Which lock it is.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "figures have the kind alone"))]
pub(crate) struct LockLabels<'a> {
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
    pub(crate) servers: &'a str,
}

/// An acquire as a span, its end as figures: how long it waited, and what it came to.
#[cfg(any(feature = "tracing", feature = "metrics"))]
pub(crate) async fn observed<T>(
    lock: LockLabels<'_>,
    asked: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let began = Instant::now();
    #[cfg(feature = "tracing")]
    let (span, asked) = {
        let span = tracing::info_span!(
            "lock.acquire",
            db.system.name = "redis",
            server.address = lock.servers.split(' ').next(),
            lock.name = lock.name,
            lock.kind = lock.kind,
            error.type = tracing::field::Empty,
        );
        (span.clone(), tracing::Instrument::instrument(asked, span))
    };
    let ended = asked.await;
    let outcome = ended.as_ref().map_or_else(|error| error.code(), |_| "granted");
    #[cfg(feature = "metrics")]
    {
        let labels = [("lock.kind", lock.kind), ("outcome", outcome)];
        metrics::histogram!("lock.acquire.duration", &labels).record(began.elapsed().as_secs_f64());
    }
    #[cfg(feature = "tracing")]
    {
        let _entered = span.enter();
        let waited_s = began.elapsed().as_secs_f64();
        match &ended {
            Ok(_) => tracing::debug!(waited_s, "acquired"),
            Err(error) => {
                span.record("error.type", outcome);
                tracing::debug!(waited_s, %error, "not acquired");
            }
        }
    }
    ended
}

/// What is told of one hold.
#[derive(Debug, Default)]
pub(crate) struct HoldTelemetry {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

#[cfg(not(feature = "tracing"))]
const _: () = assert!(size_of::<HoldTelemetry>() == 0);

#[cfg_attr(
    not(any(feature = "tracing", feature = "metrics")),
    expect(unused_variables, clippy::unused_self, reason = "nobody is told")
)]
impl HoldTelemetry {
    /// It is held, having been waited for behind another if `handed_over`.
    pub(crate) fn held(&mut self, lock: LockLabels<'_>, token: Option<u64>, handed_over: bool) {
        #[cfg(feature = "tracing")]
        {
            self.span = Some(tracing::info_span!(
                "lock.hold",
                db.system.name = "redis",
                server.address = lock.servers.split(' ').next(),
                lock.name = lock.name,
                lock.kind = lock.kind,
                lock.token = token,
                lock.handed_over = handed_over,
            ));
        }
        #[cfg(feature = "metrics")]
        {
            let labels = [("lock.kind", lock.kind)];
            metrics::gauge!("lock.held", &labels).increment(1.0);
            if handed_over {
                metrics::counter!("lock.handoffs", &labels).increment(1);
            }
        }
    }

    /// A renewal was answered. It is late where less than `enough` was left until the lease's end.
    pub(crate) fn renewed(&self, lock: LockLabels<'_>, until: Instant, enough: Duration) {
        #[cfg(any(feature = "tracing", feature = "metrics"))]
        let left = until.saturating_duration_since(Instant::now());
        #[cfg(any(feature = "tracing", feature = "metrics"))]
        let late = left < enough;
        #[cfg(feature = "tracing")]
        if let Some(span) = &self.span {
            let left_s = left.as_secs_f64();
            span.in_scope(|| match late {
                true => tracing::warn!(left_s, "renewed late"),
                false => tracing::debug!(left_s, "renewed"),
            });
        }
        #[cfg(feature = "metrics")]
        {
            let late = if late { "true" } else { "false" };
            metrics::counter!("lock.renewals", &[("lock.kind", lock.kind), ("late", late)]).increment(1);
        }
    }

    /// It is held no more: released, or lost for a reason.
    pub(crate) fn ended(&mut self, lock: LockLabels<'_>, since: Instant, lost: Option<&dyn Display>) {
        #[cfg(feature = "tracing")]
        if let Some(span) = self.span.take() {
            let held_s = since.elapsed().as_secs_f64();
            span.in_scope(|| match lost {
                Some(reason) => tracing::warn!(held_s, %reason, "lost"),
                None => tracing::debug!(held_s, "released"),
            });
        }
        #[cfg(feature = "metrics")]
        {
            let labels = [("lock.kind", lock.kind)];
            metrics::gauge!("lock.held", &labels).decrement(1.0);
            metrics::histogram!("lock.hold.duration", &labels).record(since.elapsed().as_secs_f64());
            if lost.is_some() {
                metrics::counter!("lock.losses", &labels).increment(1);
            }
        }
    }
}

/// Something that the library needs of a server is missing there, and it goes on without it.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody is told"))]
pub(crate) fn degraded(concern: &Concern) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        server.address = concern.node,
        found = concern.found,
        cost = concern.why,
        remedy = concern.remedy,
        "a server lacks what locks need"
    );
}
