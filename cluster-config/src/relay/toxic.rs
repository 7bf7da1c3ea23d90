//! What a Toxiproxy server can do for a link fault, or why it can do nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::LinkFault;

/// Nothing held lasts so long; it is well within the server's clock.
const A_YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

/// What is asked of the server for one fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Toxic {
    /// The proxy is switched off: connections end, new ones are refused.
    Off,
    /// A toxic of this type with these attributes.
    On(&'static str, Value),
}

impl Toxic {
    /// The toxic that does what the fault says.
    ///
    /// A cut is a latency that does not end within any run: bytes wait in order, nothing is closed, and all of them arrive when the toxic
    /// goes. The server's own `timeout` toxic throws bytes away and closes the connection in the end.
    pub(super) fn of(fault: &LinkFault) -> Result<Toxic, String> {
        Ok(match fault {
            LinkFault::Delay { latency, jitter } => {
                latency_of(millis_up(*latency), millis_up(*jitter))
            }
            LinkFault::Cut => latency_of(A_YEAR_MS, 0),
            LinkFault::Bandwidth { bytes_per_s } => {
                match (bytes_per_s / 1000, bytes_per_s % 1000) {
                    (1.., 0) => Toxic::On("bandwidth", json!({"rate": bytes_per_s / 1000})),
                    _ => {
                        return Err(format!(
                            "Toxiproxy counts bandwidth in whole kB/s from 1, and {bytes_per_s} B/s is none"
                        ));
                    }
                }
            }
            LinkFault::Refuse => Toxic::Off,
            LinkFault::CloseAfter { bytes } => Toxic::On("limit_data", json!({"bytes": bytes})),
            LinkFault::Slice { size, delay } => Toxic::On(
                "slicer",
                json!({"average_size": size, "size_variation": 0, "delay": delay.as_micros() as u64}),
            ),
            LinkFault::Reset => {
                return Err(
                    "Toxiproxy's reset_peer resets only connections that are opened later; those that exist end in order"
                        .to_owned(),
                );
            }
            LinkFault::Corrupt { .. } => return Err("Toxiproxy changes no bytes".to_owned()),
            LinkFault::Loss { .. } => {
                return Err("Toxiproxy works on streams and loses no packets".to_owned());
            }
            LinkFault::Hold { .. } | LinkFault::Drop { .. } => {
                return Err(
                    "Toxiproxy does not read what is said over a link, and cannot single out messages"
                        .to_owned(),
                );
            }
        })
    }
}

impl LinkFault {
    /// Whether a Toxiproxy server can do this fault as it is meant (see [`UpOptions::toxiproxy`](crate::UpOptions::toxiproxy)). There a
    /// bandwidth is each connection's own, which a server cannot share out over a link.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn by_toxiproxy(&self) -> Result<(), String> {
        Toxic::of(self).map(drop)
    }
}

fn latency_of(latency_ms: u64, jitter_ms: u64) -> Toxic {
    Toxic::On(
        "latency",
        json!({"latency": latency_ms, "jitter": jitter_ms}),
    )
}

/// Whole milliseconds, in which Toxiproxy counts: parts are rounded up.
fn millis_up(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000))
        .unwrap_or(A_YEAR_MS)
        .min(A_YEAR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_and_a_cut_outlasts_every_run() {
        let delay = LinkFault::Delay {
            latency: Duration::from_micros(1500),
            jitter: Duration::ZERO,
        };
        let attributes = json!({"latency": 2, "jitter": 0});
        assert_eq!(Toxic::of(&delay), Ok(Toxic::On("latency", attributes)));
        let Ok(Toxic::On("latency", attributes)) = Toxic::of(&LinkFault::Cut) else {
            panic!("a cut is a latency");
        };
        assert!(attributes["latency"].as_u64() > Some(24 * 3600 * 1000));
    }

    #[test]
    fn a_bandwidth_that_the_server_cannot_count_is_refused() {
        let rate = |bytes_per_s| LinkFault::Bandwidth { bytes_per_s }.by_toxiproxy();
        assert!(rate(64_000).is_ok());
        for odd in [0, 999, 1500] {
            assert!(rate(odd).unwrap_err().contains("kB/s"));
        }
    }
}
