//! Tests in the source against tests that run: a test outside the module tree, or behind a wrong `cfg`, passes by never running.

use std::collections::BTreeMap;

use super::Tree;
use super::source::Source;
use crate::Failure;

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, Failure> {
    let output = tollgate_testkit::cargo()
        .args([
            "test",
            "--workspace",
            "--quiet",
            "--",
            "--list",
            "--format",
            "terse",
        ])
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "cargo test --list failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let running = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter_map(|path| path.rsplit("::").next());
    let mut count: BTreeMap<&str, isize> = BTreeMap::new();
    for name in running {
        *count.entry(name).or_default() += 1;
    }
    let mut findings = Vec::new();
    for source in tree
        .sources
        .iter()
        .filter(|source| !source.path.starts_with("fuzz/"))
    {
        for name in tests(source) {
            let left = count.entry(name).or_default();
            *left -= 1;
            if *left < 0 {
                findings.push(format!(
                    "{}: {name} is a #[test] that never runs",
                    source.path
                ));
            }
        }
    }
    Ok(findings)
}

/// Names of the functions marked as tests, those inside `proptest!` included.
fn tests(source: &Source) -> Vec<&str> {
    let attributes = ["#[test]", "#[tokio::test]", "#[tokio::test("];
    let mut names = Vec::new();
    for attribute in attributes {
        for at in source.find(attribute) {
            let Some((_, rest)) = source.code[at..].split_once("fn ") else {
                continue;
            };
            let rest = rest.trim_start();
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            names.push(&rest[..end]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::tests;
    use crate::tidy::source::Source;

    #[test]
    fn tests_are_found_by_their_attribute() {
        let text = "#[test]\nfn a() {}\n// #[test]\nfn b() {}\nproptest! { #[test]\n#[other]\nfn c(x in 0..1) {} }";
        assert_eq!(tests(&Source::new("a.rs", text.to_owned())), ["a", "c"]);
    }
}
