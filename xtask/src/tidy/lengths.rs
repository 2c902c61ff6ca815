//! Lengths of files and functions, with a counted list of exceptions that only shrinks.

use std::collections::BTreeMap;

use super::Tree;
use super::source::Source;
use crate::Failure;

/// Most lines of a Rust file.
const MAX_FILE_LINES: usize = 800;

/// Most lines of a function, from `fn` to its closing brace.
const MAX_FUNCTION_LINES: usize = 70;

/// The same in tests, where a function may be a table of cases.
const MAX_TEST_LINES: usize = 120;

/// `path lines` or `path::function lines` per line: what is longer, and how long exactly.
const ALLOWLIST: &str = "xtask/src/tidy/lengths.allow";

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, Failure> {
    let list = std::fs::read_to_string(tree.root.join(ALLOWLIST))
        .map_err(|error| format!("{ALLOWLIST}: {error}"))?;
    let mut allowed = BTreeMap::new();
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, count) = line
            .rsplit_once(' ')
            .ok_or_else(|| format!("{ALLOWLIST}: not `name lines`: {line}"))?;
        allowed.insert(
            name.to_owned(),
            count
                .parse::<usize>()
                .map_err(|error| format!("{ALLOWLIST}: {line}: {error}"))?,
        );
    }
    let mut findings = Vec::new();
    for source in &tree.sources {
        let lines = source.text.lines().count();
        judge(
            &mut findings,
            &mut allowed,
            &source.path,
            lines,
            MAX_FILE_LINES,
            "split the file by meaning",
        );
        for (name, lines, max) in functions(source) {
            judge(
                &mut findings,
                &mut allowed,
                &format!("{}::{name}", source.path),
                lines,
                max,
                "give its parts names of their own",
            );
        }
    }
    findings.extend(
        allowed
            .keys()
            .map(|name| format!("{ALLOWLIST}: {name} is short enough or gone: remove its line")),
    );
    Ok(findings)
}

fn judge(
    findings: &mut Vec<String>,
    allowed: &mut BTreeMap<String, usize>,
    name: &str,
    lines: usize,
    max: usize,
    remedy: &str,
) {
    if lines <= max {
        return;
    }
    match allowed.remove(name) {
        None => findings.push(format!("{name}: {lines} lines, at most {max}: {remedy}")),
        Some(limit) if lines > limit => findings.push(format!(
            "{name}: grew from {limit} to {lines} lines: {remedy}"
        )),
        Some(limit) if lines < limit => findings.push(format!(
            "{ALLOWLIST}: {name} has shrunk from {limit} to {lines} lines: write that down"
        )),
        Some(_) => {}
    }
}

/// Names and lengths of the functions of a file, and how long each may be.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for at in source.find("fn") {
        let rest = source.code[at + 2..].trim_start();
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        // A function pointer type has no name.
        if name.is_empty() {
            continue;
        }
        if let Some(body) = source.body(at) {
            let max = if source.is_test(at) {
                MAX_TEST_LINES
            } else {
                MAX_FUNCTION_LINES
            };
            found.push((name, source.line(body.end - 1) - source.line(at) + 1, max));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{MAX_FUNCTION_LINES, functions};
    use crate::tidy::source::Source;

    #[test]
    fn functions_are_measured_from_name_to_brace() {
        let text = "trait T { fn a(&self) -> [u8; 4]; }\nfn b(f: fn(u8)) {\n  if x { y }\n}\nimpl X { fn c<F>(f: F) -> [u8; 2]\nwhere F: A {\n} }\n";
        let source = Source::new("a.rs", text.to_owned());
        assert_eq!(
            functions(&source),
            [
                ("b".to_owned(), 3, MAX_FUNCTION_LINES),
                ("c".to_owned(), 3, MAX_FUNCTION_LINES)
            ]
        );
    }
}
