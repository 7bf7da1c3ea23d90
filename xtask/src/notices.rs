//! Writes the licences of what an archive of the program contains: each crate below it, and the texts that
//! its licence asks to be handed on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, Metadata, PackageId};

/// The page of notices for the package of this name, with its default features and these. Crates that have
/// the same text share it.
pub(crate) fn page(metadata: &Metadata, package: &str) -> anyhow::Result<String> {
    let resolve = metadata.resolve.as_ref().context("cargo resolved nothing")?;
    let root = metadata
        .workspace_packages()
        .into_iter()
        .find(|member| *member.name == *package)
        .with_context(|| format!("the workspace has no package `{package}`"))?;
    let mut shipped: BTreeSet<&PackageId> = BTreeSet::new();
    let mut next = vec![&root.id];
    while let Some(id) = next.pop() {
        if !shipped.insert(id) {
            continue;
        }
        let node =
            resolve.nodes.iter().find(|node| node.id == *id).context("a package is not in cargo's tree")?;
        next.extend(node.deps.iter().filter_map(|dep| {
            // A build script's crate may bring sources that are compiled in, as Lua's are.
            let shipped = dep.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development);
            shipped.then_some(&dep.pkg)
        }));
    }
    let members: BTreeSet<&PackageId> = metadata.workspace_members.iter().collect();
    let mut crates = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in shipped.into_iter().filter(|id| !members.contains(*id)) {
        let package = &metadata[id];
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("see its licence file below");
        writeln!(crates, "{name}: {licence}")?;
        let dir = package.manifest_path.parent().context("a manifest without a directory")?;
        let mut files: Vec<_> = fs::read_dir(dir)
            .with_context(|| format!("the sources of {name}"))?
            .filter_map(Result::ok)
            .filter(|entry| is_licence(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect();
        files.sort();
        for file in files {
            if let Ok(text) = fs::read_to_string(&file) {
                texts.entry(text.trim().to_owned()).or_default().push(name.clone());
            }
        }
    }
    let mut page = format!("What this program contains beside its own code.\n\n{crates}");
    for (text, names) in texts {
        let rule = "-".repeat(80);
        write!(page, "\n{rule}\n{}\n\n{text}\n", names.join(", "))?;
    }
    Ok(page)
}

fn is_licence(file: &str) -> bool {
    let name = file.to_ascii_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|start| name.starts_with(start))
}
