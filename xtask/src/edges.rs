//! Finds dependencies between our crates that ARCHITECTURE.md does not allow.

use cargo_metadata::{DependencyKind, Metadata};

use crate::Findings;

/// Crate, what it may import, what its tests and benches may import besides.
const ALLOWED: &[(&str, &[&str], &[&str])] = &[
    ("lock-core", &[], &[]),
    ("cluster-config", &[], &[]),
    ("results", &[], &[]),
    ("bench", &["lock-core", "results"], &["cluster-config"]),
    ("chaos", &["bench", "cluster-config", "results"], &[]),
    ("kubernetes", &["chaos", "cluster-config", "results"], &[]),
    ("simulation", &["lock-core", "cluster-config", "results", "bench", "chaos"], &[]),
    ("cli", &["lock-core", "cluster-config", "results", "bench", "chaos", "kubernetes", "simulation"], &[]),
    ("xtask", &[], &[]),
];

/// Crates from elsewhere that one of ours must do without, and why.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("results", "tokio", "results is data in, data or text out"),
    ("results", "redis", "results asks no server"),
    ("lock-core", "anyhow", "only cli uses anyhow"),
    ("cluster-config", "anyhow", "only cli uses anyhow"),
    ("results", "anyhow", "only cli uses anyhow"),
    ("bench", "anyhow", "only cli uses anyhow"),
    ("chaos", "anyhow", "only cli uses anyhow"),
    ("kubernetes", "anyhow", "only cli uses anyhow"),
];

/// Every edge between our crates that is not in the table above.
pub(crate) fn check(metadata: &Metadata) -> Findings {
    let mut findings = Findings::new();
    let members = metadata.workspace_packages();
    for package in &members {
        let name = package.name.as_str();
        let Some((_, normal, dev)) = ALLOWED.iter().find(|(crate_name, ..)| *crate_name == name) else {
            findings.push(format!(
                "{name}: a new crate; give it a row in xtask/src/edges.rs and a paragraph in ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            let ours = members.iter().any(|member| member.name.as_str() == to);
            let in_tests = dependency.kind == DependencyKind::Development;
            if ours && !normal.contains(&to) && !(in_tests && dev.contains(&to)) {
                findings.push(format!("{name} imports {to}, which ARCHITECTURE.md forbids"));
            }
            if let Some((.., why)) =
                FORBIDDEN.iter().find(|(from, forbidden, _)| *from == name && *forbidden == to)
            {
                findings.push(format!("{name} imports {to}: {why}"));
            }
        }
    }
    findings
}
