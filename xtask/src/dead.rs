//! Finds the files that no other file names: sources without a `mod`, scripts and templates never included.

use std::path::Path;

use crate::Findings;
use crate::files::{below, shown, sources};

/// Extensions of files that must be named by some source file.
const INCLUDED: &[&str] = &["lua", "conf", "html", "txt", "sh", "yml", "toml", "budget"];

/// Sources without a `mod` and data files that nothing includes.
pub(crate) fn check(root: &Path) -> Findings {
    let mut findings = Findings::new();
    let sources = sources(root);
    let texts: Vec<String> =
        sources.iter().map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
    for path in &sources {
        let in_src = path.components().any(|part| part.as_os_str() == "src");
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if !in_src || matches!(stem.as_ref(), "lib" | "main") {
            continue;
        }
        let module = if stem == "mod" {
            let parent = path.parent().and_then(Path::file_name);
            parent.unwrap_or_default().to_string_lossy().into_owned()
        } else {
            stem.into_owned()
        };
        let declared = format!("mod {module};");
        let inline = format!("mod {module} {{");
        if !texts.iter().any(|text| text.contains(&declared) || text.contains(&inline)) {
            findings.push(format!("{}: no `mod {module};` anywhere", shown(root, path)));
        }
    }
    let scripts = ["lock-core/scripts", "cluster-config/conf", "kubernetes/src/scripts"];
    for dir in scripts.into_iter().chain(["results/templates", "cli/help", "cli/templates"]) {
        let files = INCLUDED.iter();
        for path in files.flat_map(|ending| below(&root.join(dir), ending)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // By its whole name, or as a word of a macro that adds the ending.
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let word = format!("\"{stem}\"");
            let named = |text: &String| text.contains(&*name) || text.contains(&word);
            if !texts.iter().any(named) {
                findings.push(format!("{}: no source file names it", shown(root, &path)));
            }
        }
    }
    findings
}
