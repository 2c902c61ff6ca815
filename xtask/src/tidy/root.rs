//! Files that lie where they should not: strangers in the root, build products, recordings of sessions.

use super::Tree;

/// All that may lie in the root.
const ROOT_FILES: &[&str] = &[
    ".dockerignore",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "deny.toml",
    "rust-toolchain.toml",
    "rustfmt.toml",
];

/// All folders that may lie in the root.
const ROOT_FOLDERS: &[&str] = &[
    ".cargo", ".ci", ".github", "bench", "contrib", "crates", "deploy", "docs", "examples", "fuzz",
    "tests", "xtask",
];

/// Files that are always products of a run.
const PRODUCTS: &[&str] = &[".rdb", ".aof", ".orig", ".rej", ".swp", ".profraw", ".log"];

/// Largest file that may be committed, bytes.
const MAX_FILE: u64 = 2 * 1024 * 1024;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in &tree.files {
        match file.split_once('/') {
            None if !ROOT_FILES.contains(&file.as_str()) => {
                findings.push(format!("{file}: does not belong in the root"))
            }
            Some((folder, _)) if !ROOT_FOLDERS.contains(&folder) => {
                findings.push(format!("{file}: the root has no folder {folder}"))
            }
            _ => {}
        }
        let example = file.starts_with("docs/");
        if !example && PRODUCTS.iter().any(|suffix| file.ends_with(suffix)) {
            findings.push(format!("{file}: is made by a run; do not commit it"));
        }
        if std::fs::metadata(tree.root.join(file)).is_ok_and(|metadata| metadata.len() > MAX_FILE) {
            findings.push(format!("{file}: is larger than {MAX_FILE} bytes"));
        }
    }
    findings
}
