//! Rust files that no `mod` reaches: they are not compiled, and their tests never run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Tree;
use super::source::Source;

pub(crate) fn check(tree: &Tree, metadata: &Value) -> Vec<String> {
    let sources: BTreeMap<&str, &Source> = tree
        .sources
        .iter()
        .map(|source| (source.path.as_str(), source))
        .collect();
    let mut reached = BTreeSet::new();
    let mut open: Vec<(String, bool)> = roots(tree, metadata)
        .into_iter()
        .map(|root| (root, true))
        .collect();
    while let Some((path, is_root)) = open.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        if let Some(source) = sources.get(path.as_str()) {
            let candidates = declared(source, is_root);
            open.extend(
                candidates
                    .into_iter()
                    .filter(|candidate| sources.contains_key(candidate.as_str()))
                    .map(|path| (path, false)),
            );
        }
    }
    sources
        .keys()
        .filter(|path| !reached.contains(**path))
        .map(|path| format!("{path}: no module declares this file, so it is never compiled: declare or remove it"))
        .collect()
}

/// Files that cargo compiles by themselves.
fn roots(tree: &Tree, metadata: &Value) -> Vec<String> {
    let mut roots = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let relative = target["src_path"]
                .as_str()
                .and_then(|path| Path::new(path).strip_prefix(&tree.root).ok());
            roots.extend(relative.map(|path| path.display().to_string()));
        }
    }
    // The fuzz targets lie outside the workspace; their manifest names each one.
    let manifest = std::fs::read_to_string(tree.root.join("fuzz/Cargo.toml")).unwrap_or_default();
    for line in manifest.lines() {
        if let Some(path) = line
            .trim()
            .strip_prefix("path = \"")
            .and_then(|rest| rest.strip_suffix('"'))
        {
            roots.push(format!("fuzz/{path}"));
        }
    }
    roots
}

/// Paths that the `mod name;` lines of a file may mean.
fn declared(source: &Source, is_root: bool) -> Vec<String> {
    let path = Path::new(&source.path);
    let dir = path.parent().unwrap_or(Path::new(""));
    let own_dir: PathBuf = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some(stem) if !is_root && stem != "mod" => dir.join(stem),
        _ => dir.to_path_buf(),
    };
    let mut found = Vec::new();
    for at in source.find("mod") {
        let rest = source.code[at + 3..].trim_start();
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if name.is_empty() || !rest[name.len()..].trim_start().starts_with(';') {
            continue;
        }
        found.push(own_dir.join(format!("{name}.rs")));
        found.push(own_dir.join(&name).join("mod.rs"));
        // #[path = "file.rs"] in the lines directly above.
        let above = &source.text[..at];
        if let Some((_, attribute)) = above.rsplit_once("#[path = \"")
            && let Some((file, between)) = attribute.split_once("\"]")
            && between
                .split_whitespace()
                .all(|word| matches!(word, "pub" | "pub(crate)"))
        {
            found.push(dir.join(file));
        }
    }
    found
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}
