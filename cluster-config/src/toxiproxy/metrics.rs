//! Bytes carried by each proxy, as text for Prometheus under Toxiproxy's names.

use std::fmt::Write;

use super::proxy::Proxy;
use crate::proxy::Traffic;

/// Bytes received and sent, per proxy and direction. The original counts a connection when it ends, this one as it goes.
pub(super) fn page<'p>(proxies: impl Iterator<Item = &'p Proxy>) -> String {
    let proxies: Vec<&Proxy> = proxies.collect();
    let mut page = String::new();
    for (name, which) in [("received", 0), ("sent", 1)] {
        let metric = format!("toxiproxy_proxy_{name}_bytes_total");
        let _ = writeln!(page, "# HELP {metric} \n# TYPE {metric} counter");
        type Counts = fn(&Traffic) -> [u64; 2];
        let directions: [(_, Counts); 2] =
            [("downstream", Traffic::back), ("upstream", Traffic::out)];
        for (direction, counts) in directions {
            for proxy in &proxies {
                let _ = writeln!(
                    page,
                    "{metric}{{direction=\"{direction}\",listener={},proxy={},upstream={}}} {}",
                    label(&proxy.listen),
                    label(&proxy.name),
                    label(&proxy.upstream),
                    counts(&proxy.traffic)[which]
                );
            }
        }
    }
    page
}

fn label(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}
