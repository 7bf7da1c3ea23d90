//! Says a fault in the words of Chaos Mesh: its objects, or why it cannot be said.
//!
//! | fault | object |
//! |---|---|
//! | `kill` | PodChaos `pod-failure`, for as long as the fault lasts |
//! | `restart` | PodChaos `container-kill` (the data stay), or `pod-kill` with `data = "lose"` |
//! | `delay`, `loss` | NetworkChaos of that name |
//! | `cut`, `partition` | NetworkChaos `partition` |
//! | `clock` with `jump` | TimeChaos |
//! | `disk` | IOChaos `latency` on FSYNC |
//! | `stress` | StressChaos on the processor, among what the container may use |

use std::collections::BTreeMap;
use std::time::Duration;

use chaos::faults::{find, settings, stress};
use chaos::scenario::{FaultParty, FaultSite, FaultSpec, Settings};
use cluster_config::TopologyKind;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::objects::RUN;
use crate::servers::{CONTAINER, DATA_DIR};

/// Chaos Mesh heals by itself so long after a fault should have ended, should the part that made the object
/// be gone.
const HEALS_ITSELF_AFTER: Duration = Duration::from_secs(60);

/// Who carries a fault out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The harness: on clients, which are its own, by commands to servers, and by proxies before them.
    Harness,
    /// Objects of Chaos Mesh.
    ChaosMesh,
}

/// Who can carry out a fault on servers in pods.
pub fn carrier(fault: &FaultSpec, shape: TopologyKind) -> Result<Carrier, String> {
    let name = fault.fault.as_str();
    let kind = find(name).ok_or_else(|| format!("`{name}` is no fault of this build"))?;
    let no = |why: &str| Err(format!("`{name}` on `{}` cannot be said in Chaos Mesh: {why}", fault.on));
    if matches!(fault.when, chaos::scenario::FaultTrigger::OnMessage(_)) {
        return no("`when` watches messages, which pass no proxy here");
    }
    if let FaultSite::Parties(parties) = &fault.on {
        let clients = parties.iter().filter(|who| who.is_client()).count();
        return match name {
            _ if kind.by_command => Ok(Carrier::Harness),
            "clock" | "disk" if clients > 0 => no("it would hit the part's own pod, and the record with it"),
            _ if clients == parties.len() => Ok(Carrier::Harness),
            _ if clients > 0 => no("a list has either clients or servers"),
            "restart" if settings::time(&fault.with, "after").is_some_and(|after| !after.is_zero()) => {
                no("a pod comes back when Kubernetes starts it, not `after` a time")
            }
            "kill" | "restart" | "disk" | "stress" => Ok(Carrier::ChaosMesh),
            "clock" if fault.with.contains_key("drift") => {
                no("TimeChaos shifts a clock, and lets it run at its own speed")
            }
            "clock" => Ok(Carrier::ChaosMesh),
            _ => no("it has no such chaos"),
        };
    }
    // The proxies of a part stand where servers announce no addresses of their own.
    let announce = !matches!(shape, TopologyKind::Single | TopologyKind::Masters);
    if !announce && of_clients(&fault.on) {
        return Ok(Carrier::Harness);
    }
    if fault.on.everybody().any(|who| who.is_client() && *who != FaultParty::Clients) {
        return no("all clients of a part are in one pod; say `clients`");
    }
    match name {
        "delay" | "cut" | "partition" => Ok(Carrier::ChaosMesh),
        "loss" if settings::count(&fault.with, "burst").unwrap_or(1) > 1 => {
            no("NetworkChaos loses packets one by one, not in bursts")
        }
        "loss" => Ok(Carrier::ChaosMesh),
        "corrupt" => {
            no("NetworkChaos corrupts packets, which TCP finds and sends again; no byte arrives wrong")
        }
        _ => no("NetworkChaos has packets, not connections and messages"),
    }
}

fn of_clients(on: &FaultSite) -> bool {
    let servers = |side: &Vec<FaultParty>| side.iter().any(|who| !who.is_client());
    match on {
        FaultSite::Parties(_) => false,
        FaultSite::Link { from, to, .. } => !(servers(from) && servers(to)),
        FaultSite::Groups(groups) => groups.iter().filter(|&group| servers(group)).count() < 2,
    }
}

/// What is harmed, by the names of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultTarget {
    /// Each of these.
    Pods(Vec<String>),
    /// Packets from the one to the other.
    Links(Vec<(String, String)>),
}

/// One injection of a fault.
#[derive(Debug, Clone)]
pub struct FaultInjection<'a> {
    /// Its kind, one that [`carrier`] gives to Chaos Mesh.
    pub fault: &'a str,
    /// With which settings.
    pub with: &'a Settings,
    /// On whom.
    pub on: FaultTarget,
    /// How long; `None`: until its object is deleted.
    pub lasts: Option<Duration>,
}

/// The objects of one injection, in a namespace, the first of that name. `run` is the run that they belong
/// to.
pub fn objects(
    harm: &FaultInjection<'_>,
    namespace: &str,
    run: &str,
    name: &str,
) -> Result<Vec<(ApiResource, DynamicObject)>, String> {
    let of_pods = |names: &[String]| json!({"selector": {"pods": {namespace: names}}, "mode": "all"});
    let specs = match &harm.on {
        FaultTarget::Pods(names) => {
            let (kind, spec) = on_pods(harm)?;
            vec![(kind, joined(of_pods(names), spec))]
        }
        FaultTarget::Links(links) => {
            let action = on_packets(harm)?;
            let network = |(to, from): (Vec<String>, Vec<String>)| {
                let way = json!({"target": of_pods(&to), "direction": "to"});
                let spec = joined(joined(of_pods(&from), way), action.clone());
                ("NetworkChaos", spec)
            };
            by_receivers(links).into_iter().map(network).collect()
        }
    };
    let duration = harm.lasts.map(|lasts| ms(lasts + HEALS_ITSELF_AFTER));
    let named = (1..).zip(specs).map(|(number, (kind, mut spec))| {
        // A restart is over at once.
        if let Some(duration) = duration.as_ref().filter(|_| harm.fault != "restart") {
            spec["duration"] = json!(duration);
        }
        let resource = resource(kind);
        let mut object = DynamicObject::new(&format!("{name}-{number}"), &resource)
            .within(namespace)
            .data(json!({ "spec": spec }));
        object.metadata.labels = Some(BTreeMap::from([(RUN.to_owned(), run.to_owned())]));
        (resource, object)
    });
    Ok(named.collect())
}

/// A fault on pods: the kind of its object, and what the object does to them.
fn on_pods(harm: &FaultInjection<'_>) -> Result<(&'static str, Value), String> {
    let lost = settings::text(harm.with, "data") == Some("lose");
    Ok(match harm.fault {
        "kill" => ("PodChaos", json!({"action": "pod-failure"})),
        "restart" if lost => ("PodChaos", json!({"action": "pod-kill"})),
        "restart" => ("PodChaos", json!({"action": "container-kill", "containerNames": [CONTAINER]})),
        "clock" => {
            let jump_ns = settings::shift_ns(harm.with, "jump").unwrap_or_default();
            let spec = json!({
                "containerNames": [CONTAINER],
                "timeOffset": format!("{}ms", jump_ns / 1_000_000),
                "clockIds": ["CLOCK_REALTIME"],
            });
            ("TimeChaos", spec)
        }
        "disk" => {
            let spec = json!({
                "containerNames": [CONTAINER],
                "action": "latency",
                "delay": time(harm, "fsync"),
                "methods": ["FSYNC"],
                "percent": 100,
                "volumePath": DATA_DIR,
                "path": format!("{DATA_DIR}/**/*"),
            });
            ("IOChaos", spec)
        }
        "stress" => {
            let spec = json!({
                "containerNames": [CONTAINER],
                "stressors": {"cpu": {"workers": stress::count(harm.with), "load": 100}},
            });
            ("StressChaos", spec)
        }
        other => return Err(format!("`{other}` is none of Chaos Mesh's faults on pods")),
    })
}

fn on_packets(harm: &FaultInjection<'_>) -> Result<Value, String> {
    Ok(match harm.fault {
        "cut" | "partition" => json!({"action": "partition"}),
        "delay" => {
            let delay = json!({"latency": time(harm, "latency"), "jitter": time(harm, "jitter")});
            json!({"action": "delay", "delay": delay})
        }
        "loss" => {
            let per_cent = settings::share(harm.with, "rate").unwrap_or_default() * 100.0;
            json!({"action": "loss", "loss": {"loss": per_cent.to_string()}})
        }
        other => return Err(format!("`{other}` is none of Chaos Mesh's faults on links")),
    })
}

fn ms(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

fn time(harm: &FaultInjection<'_>, setting: &str) -> String {
    ms(settings::time(harm.with, setting).unwrap_or_default())
}

/// The fields of both; those of `more` win.
pub(crate) fn joined(mut spec: Value, more: Value) -> Value {
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

/// The kinds that faults are said in.
pub fn kinds() -> [ApiResource; 5] {
    ["PodChaos", "NetworkChaos", "TimeChaos", "IOChaos", "StressChaos"].map(resource)
}

fn resource(kind: &str) -> ApiResource {
    let version = GroupVersionKind::gvk("chaos-mesh.org", "v1alpha1", kind);
    ApiResource::from_gvk_with_plural(&version, &kind.to_lowercase())
}

/// Who sends to the same receivers shares an object: receivers, senders.
fn by_receivers(links: &[(String, String)]) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut receivers: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (from, to) in links {
        receivers.entry(from).or_default().push(to.clone());
    }
    let mut senders = BTreeMap::<_, Vec<String>>::new();
    for (from, to) in receivers {
        senders.entry(to).or_default().push(from.clone());
    }
    senders
}
