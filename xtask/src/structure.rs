//! Checks how a crate's files are named and how they import each other: vague names, circles, commands that
//! use another command's file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Findings;
use crate::files::{below, shown};

/// What a crate may still have: names that say nothing, files in a circle. A row is lowered with the tree,
/// never raised.
type Limit = (&'static str, usize, usize);

const LIMITS: &[Limit] = &[
    ("lock-core", 1, 5),
    ("cluster-config", 0, 4),
    ("results", 1, 5),
    ("bench", 0, 3),
    ("chaos", 0, 4),
    ("simulation", 0, 4),
    ("kubernetes", 0, 4),
    ("cli", 0, 4),
    ("xtask", 0, 1),
];

/// How often a file of a command of `cli` may use another command's file.
const USES_OF_ANOTHER_COMMAND: usize = 0;

/// Words that alone do not say what a type or a module is: participles, pronouns, particles, everyday nouns.
const VAGUE: &str = include_str!("../vague-names.txt");

/// A module's path within its crate.
type Module = Vec<String>;

/// Each module that a file of the crate is: the file, and the text before its tests.
type Modules = BTreeMap<Module, (String, String)>;

pub(crate) fn check(root: &Path) -> Findings {
    beyond(root, LIMITS, USES_OF_ANOTHER_COMMAND)
}

fn beyond(root: &Path, limits: &[Limit], most_uses: usize) -> Findings {
    let mut findings = Findings::new();
    for &(name, most_names, most_files) in limits {
        let modules = modules(root, name);
        let names = vague_names(&modules);
        if names.len() > most_names {
            let (count, names) = (names.len(), names.join(", "));
            findings.push(format!(
                "{name}: {count} names say nothing by themselves and {most_names} may be left; name the new one after the thing: {names}"
            ));
        }
        for circle in circles(&modules).iter().filter(|circle| circle.len() > most_files.max(1)) {
            let (count, files) = (circle.len(), circle.join(", "));
            findings.push(format!(
                "{name}: {count} files import each other in a circle, at most {most_files} may: {files}"
            ));
        }
    }
    let uses = uses_of_another_command(&modules(root, "cli"));
    if uses.len() > most_uses {
        findings.push(format!(
            "cli: a command's file uses another command's {} times, at most {most_uses} may be left; \
             move what they share into a file of its own: {}",
            uses.len(),
            uses.join(", ")
        ));
    }
    findings
}

fn modules(root: &Path, name: &str) -> Modules {
    let src = root.join(name).join("src");
    let files = below(&src, "rs").into_iter();
    let module = |path: &Path| -> Module {
        let path = path.strip_prefix(&src).unwrap_or(path).with_extension("");
        let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
        let mut parts: Module = parts.collect();
        if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            parts.pop();
        }
        parts
    };
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().lines();
        let code: Vec<&str> = code.filter(|line| !line.trim_start().starts_with("//")).collect();
        (module(&path), (shown(root, &path), code.join("\n")))
    };
    files.map(read).collect()
}

fn vague_names(modules: &Modules) -> Vec<String> {
    let is_vague = |name: &str| VAGUE.split_whitespace().any(|word| word == name);
    let mut names = Vec::new();
    for (module, (path, text)) in modules {
        for line in text.lines() {
            let item = line.trim_start();
            let item = match item.strip_prefix("pub").unwrap_or(item).strip_prefix('(') {
                Some(scoped) => scoped.split_once(')').map_or(item, |(_, item)| item),
                None => item.strip_prefix("pub").unwrap_or(item),
            };
            let mut words = item.split(|c: char| !is_of_a_name(c)).filter(|word| !word.is_empty());
            if let (Some("struct" | "enum" | "trait"), Some(name)) = (words.next(), words.next())
                && is_vague(name)
            {
                names.push(format!("{name} in {path}"));
            }
        }
        let stem = module.last().map(String::as_str).unwrap_or_default();
        let mut first = stem.chars();
        let capitalised = first.next().map(|c| c.to_ascii_uppercase().to_string() + first.as_str());
        if capitalised.is_some_and(|name| is_vague(&name)) {
            names.push(format!("module {path}"));
        }
    }
    names
}

/// Files that reach each other by their imports, the largest circle of each.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let imports: BTreeMap<&Module, BTreeSet<&Module>> = modules
        .iter()
        .map(|(module, (_, text))| {
            let targets = imported(module, text).into_iter().filter_map(|mut path| {
                while !path.is_empty() && !modules.contains_key(&path) {
                    path.pop();
                }
                modules.get_key_value(&path).map(|(target, _)| target)
            });
            let others = targets.filter(|target| !target.is_empty() && *target != module);
            (module, others.collect())
        })
        .collect();
    let reached = |from| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(imports[module].iter().filter(|target| reached.insert(**target)));
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (*module, reached(module))).collect();
    let circle = |module: &Module| -> Vec<String> {
        let back = |target: &&&Module| reached[**target].contains(module);
        let circle = reached[module].iter().filter(back);
        circle.map(|module| modules[*module].0.clone()).collect()
    };
    let all: BTreeSet<Vec<String>> = modules.keys().map(circle).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// Files beside the command whose file they use, unless they are that command's own. A command is a file, or
/// a folder with its parts, in the folder of its group.
fn uses_of_another_command(modules: &Modules) -> Vec<String> {
    let arguments = modules.get(&vec!["args".to_owned()]);
    let arguments = arguments.map_or("", |(_, text)| text);
    let is_command = |name: &&String| arguments.contains(&format!("command::{name}::Options"));
    let command = |path: &Module| {
        let names = path.strip_prefix(&["command".to_owned()])?;
        names.iter().take(2).find(is_command).cloned()
    };
    let mut uses = BTreeSet::new();
    for (module, (path, text)) in modules {
        for target in imported(module, text) {
            if let Some(other) = command(&target)
                && command(module).as_ref() != Some(&other)
            {
                uses.insert(format!("{path} uses {other}"));
            }
        }
    }
    uses.into_iter().collect()
}

/// The paths that follow `crate::` and `super::`, from the crate's root.
fn imported(module: &Module, text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for (root, mut base) in
        [("crate::", Module::new()), ("super::", module[..module.len().saturating_sub(1)].to_vec())]
    {
        for (at, _) in text.match_indices(root) {
            if !text[..at].ends_with(|c| is_of_a_name(c) || c == ':') {
                let mut rest = &text[at + root.len()..];
                let depth = base.len();
                while let Some(further) = rest.strip_prefix("super::") {
                    (rest, _) = (further, base.pop());
                }
                use_tree(rest, &base, &mut found);
                base = module[..depth.min(module.len())].to_vec();
            }
        }
    }
    found
}

/// Reads one tree of a `use`, such as `a::{b, c::D}`, and gives what follows it.
fn use_tree<'a>(text: &'a str, base: &Module, found: &mut Vec<Module>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = use_tree(rest, base, found);
            rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let (name, rest) = text.split_at(text.find(|c| !is_of_a_name(c)).unwrap_or(text.len()));
    let mut path = base.clone();
    path.extend((!name.is_empty()).then(|| name.to_owned()));
    match rest.strip_prefix("::") {
        Some(further) if !name.is_empty() => use_tree(further, &path, found),
        _ => {
            found.push(path);
            rest
        }
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> String {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, text).expect("it is written");
        }
        beyond(root.path(), &[("xtask", 0, 0)], 0).join("\n")
    }

    #[test]
    fn a_name_that_says_nothing_is_found_and_a_longer_one_or_a_comment_is_not() {
        let bad = [("xtask/src/place.rs", "pub(crate) struct Seen;\nenum Word {}\n")];
        let found = findings(&bad);
        for name in ["Seen in", "Word in", "module xtask/src/place.rs"] {
            assert!(found.contains(name), "{name}: {found}");
        }
        let good = [("xtask/src/queue_place.rs", "// struct Seen\npub struct LastSeen;\n")];
        assert_eq!(findings(&good), "");
    }

    #[test]
    fn files_that_import_each_other_are_a_circle_and_one_way_is_none() {
        let a = ("xtask/src/a.rs", "use crate::{x::Y, b::{C as D, E}};");
        let b = ("xtask/src/b/mod.rs", "mod c;");
        let back = ("xtask/src/b/c.rs", "use super::super::a::Z;");
        let found = findings(&[a, b, ("xtask/src/b/mod.rs", "use super::a;")]);
        assert!(found.contains("2 files import each other"), "{found}");
        assert_eq!(findings(&[a, b, back]), "", "c is not imported by b");
        assert_eq!(findings(&[a, b, ("xtask/src/b/mod.rs", "// crate::a\n")]), "");
    }

    #[test]
    fn a_command_may_use_its_own_parts_and_no_other_command() {
        let args = ("cli/src/args.rs", "A(command::up::Options), B(command::down::Options)");
        let parts = ("cli/src/command/servers/up/part.rs", "use super::x;\nuse crate::shared::y;");
        assert_eq!(findings(&[args, parts]), "");
        let other = ("cli/src/command/servers/up/deep.rs", "use crate::command::servers::{x, down::z};");
        let found = findings(&[args, parts, other]);
        assert!(found.contains("deep.rs uses down"), "{found}");
    }
}
