//! The floor table against `cargo metadata`: a crate uses only lower floors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Failure;

/// Floor of every crate of the product.
const FLOORS: &[(&str, u8)] = &[
    ("wire", 0),
    ("containers", 0),
    ("limiter", 0),
    ("keyspace", 1),
    ("commands", 2),
    ("persist", 2),
    ("policy", 2),
    ("engine", 3),
    ("net", 3),
    ("server", 4),
    ("rls", 4),
    ("bench", 4),
    ("tollgate", 5),
];

/// Never shipped; no crate of the product uses them but in tests.
const TOOLS: &[&str] = &["testkit", "xtask"];

/// Edges within one floor that are meant.
const SAME_FLOOR: &[(&str, &str)] = &[("engine", "net"), ("commands", "persist")];

/// What a crate must not reach, through whatever path: the bench measures servers from outside.
const UNREACHABLE: &[(&str, &str)] = &[
    ("bench", "engine"),
    ("bench", "server"),
    ("bench", "net"),
    ("bench", "keyspace"),
];

/// Crates below this floor are pure: no threads, clock, sockets, files, async or global state.
pub(crate) const FIRST_IMPURE_FLOOR: u8 = 3;

/// What a pure crate must not use directly.
const IMPURE: &[&str] = &[
    "mio",
    "libc",
    "tokio",
    "parking_lot",
    "mlua",
    "mlua-sys",
    "tonic",
    "hyper",
    "axum",
    "redis",
    "indicatif",
    "clap",
    "rand",
    "getrandom",
];

/// Floor of a crate; tools have none.
pub(crate) fn floor(name: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|(_, floor)| *floor)
}

pub(crate) fn metadata() -> Result<Value, Failure> {
    let output = tollgate_testkit::cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A crate and what it is built with, by short names.
type Edges = BTreeMap<String, BTreeSet<String>>;

fn short(package: &str) -> &str {
    package.strip_prefix("tollgate-").unwrap_or(package)
}

/// Dependencies outside tests.
fn edges(metadata: &Value) -> Result<Edges, Failure> {
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata lists no packages")?;
    Ok(packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let used = dependencies
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| dependency["name"].as_str())
                .map(|name| short(name).to_owned());
            (
                short(package["name"].as_str().unwrap_or_default()).to_owned(),
                used.collect(),
            )
        })
        .collect())
}

pub(crate) fn check(metadata: &Value) -> Result<Vec<String>, Failure> {
    Ok(findings(&edges(metadata)?))
}

fn findings(edges: &Edges) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, used) in edges {
        if TOOLS.contains(&name.as_str()) {
            continue;
        }
        let Some(own) = floor(name) else {
            findings.push(format!("crate {name} has no floor: add it to the table in ARCHITECTURE.md and xtask/src/tidy/floors.rs"));
            continue;
        };
        for dependency in used {
            if TOOLS.contains(&dependency.as_str()) {
                findings.push(format!(
                    "{name} is shipped and uses the tool {dependency}: make it a dev-dependency"
                ));
            }
            if own < FIRST_IMPURE_FLOOR && IMPURE.contains(&dependency.as_str()) {
                findings.push(format!(
                    "{name} is pure and uses {dependency}: pass in what it would ask the system for"
                ));
            }
            let Some(other) = floor(dependency) else {
                continue;
            };
            if other >= own && !SAME_FLOOR.contains(&(name, dependency)) {
                findings.push(format!(
                    "{name} (F{own}) uses {dependency} (F{other}): a crate uses only lower floors"
                ));
            }
        }
    }
    for (from, to) in UNREACHABLE {
        if let Some(path) = path(edges, from, to) {
            findings.push(format!(
                "{from} must not link {to}, and does: {}",
                path.join(" -> ")
            ));
        }
    }
    findings
}

fn path(edges: &Edges, from: &str, to: &str) -> Option<Vec<String>> {
    edges.get(from)?.iter().find_map(|next| {
        let rest = if next == to {
            Some(vec![to.to_owned()])
        } else {
            path(edges, next, to)
        };
        rest.map(|rest| [vec![from.to_owned()], rest].concat())
    })
}

#[cfg(test)]
mod tests {
    use super::{Edges, findings};

    fn check(edges: &[(&str, &[&str])]) -> Vec<String> {
        let edges: Edges = edges
            .iter()
            .map(|(name, used)| {
                (
                    (*name).to_owned(),
                    used.iter().map(|used| (*used).to_owned()).collect(),
                )
            })
            .collect();
        findings(&edges)
    }

    #[test]
    fn crossings_are_found() {
        assert!(
            check(&[
                ("engine", &["net", "wire"]),
                ("xtask", &["testkit"]),
                ("testkit", &["wire"])
            ])
            .is_empty()
        );
        for (name, used) in [
            ("wire", "limiter"),
            ("keyspace", "commands"),
            ("net", "engine"),
            ("wire", "libc"),
            ("server", "testkit"),
            ("newcomer", "wire"),
        ] {
            assert_eq!(check(&[(name, &[used])]).len(), 1, "{name} -> {used}");
        }
        assert_eq!(
            check(&[("bench", &["policy"]), ("policy", &["keyspace"])]).len(),
            1,
            "a path through another crate counts"
        );
    }
}
