//! Checks the dependencies: a licence that we cannot ship, a crate twice, a minimum Rust version that is not
//! true.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::Findings;

/// Licences that MIT OR Apache-2.0 programs may ship.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "CC0-1.0",
    "0BSD",
    // Of data: certificates of authorities, which no build for Linux has.
    "CDLA-Permissive-2.0",
];

/// Crates that stand twice in the tree, each with the reason why that cannot be helped now.
const TWICE: &[(&str, &str)] = &[
    ("base64", "bollard, below testcontainers, is one release behind pem, below rcgen"),
    ("getrandom", "ring stays on 0.2, which asks the kernel as the newer does"),
    ("hashbrown", "locked for an option of bollard's serde_with that is off; never built"),
    ("indexmap", "locked for an option of bollard's serde_with that is off; never built"),
    ("itertools", "prost, below bollard, and testcontainers are one release apart"),
    ("schemars", "locked for an option of bollard's serde_with that is off; never built"),
    ("nom", "below a part of rcgen that is not built"),
    ("syn", "proc macros are moving from 2 to 3; build time only"),
    ("synstructure", "locked for a feature of rcgen that is off; never built"),
    ("windows-sys", "below ring and others; not built here"),
    ("r-efi", "stateright, in tests only, is a version behind"),
    ("rand", "stateright, in tests only, is a version behind"),
    ("rand_chacha", "stateright, in tests only, is a version behind"),
    ("rand_core", "stateright, in tests only, is a version behind"),
];

/// Reads the locked tree; of every target, and with the workspace's default features, unless these arguments
/// of `cargo metadata` say otherwise.
pub(crate) fn metadata(root: &Path, arguments: &[String]) -> anyhow::Result<Metadata> {
    MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options([&["--locked".to_owned()], arguments].concat())
        .exec()
        .context("cargo metadata --locked failed; is Cargo.lock committed and current?")
}

/// Licences, duplicates and the minimum Rust version.
pub(crate) fn check(metadata: &Metadata) -> Findings {
    let mut findings = Findings::new();
    let members: Vec<_> = metadata.workspace_packages();
    let ours = members.iter().filter_map(|p| p.rust_version.clone()).min();
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if package.source.is_none() {
            continue;
        }
        versions.entry(name).or_default().push(package.version.to_string());
        match package.license.as_deref() {
            Some(expression) if may_ship(expression) => {}
            Some(expression) => findings.push(format!(
                "{name} {}: licence `{expression}` is not on the list in xtask/src/deps.rs",
                package.version
            )),
            None => findings.push(format!("{name} {}: no licence stated", package.version)),
        }
        if let (Some(ours), Some(theirs)) = (&ours, &package.rust_version)
            && theirs > ours
        {
            findings
                .push(format!("{name} {} needs Rust {theirs}, the workspace states {ours}", package.version));
        }
    }
    for (known, _) in TWICE {
        if versions.get(known).is_none_or(|versions| versions.len() < 2) {
            findings.push(format!(
                "{known} no longer stands in the tree twice; take its row out of xtask/src/deps.rs"
            ));
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !TWICE.iter().any(|(known, _)| *known == name) {
            findings.push(format!(
                "{name} stands in the tree {} times ({}); fix it or give the reason in xtask/src/deps.rs",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    findings
}

/// Whether an SPDX expression leaves us a licence to choose: every AND part needs one OR alternative of the
/// list.
fn may_ship(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    expression.split(" AND ").all(|part| part.split(" OR ").any(|licence| LICENCES.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::may_ship;

    #[test]
    fn one_alternative_of_each_part_is_enough() {
        assert!(may_ship("MIT OR Apache-2.0"));
        assert!(may_ship("MIT/Apache-2.0"));
        assert!(may_ship("GPL-3.0 OR MIT"));
        assert!(may_ship("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!may_ship("GPL-3.0"));
        assert!(!may_ship("MIT AND GPL-3.0"));
    }
}
