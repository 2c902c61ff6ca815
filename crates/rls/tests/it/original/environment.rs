//! The variables that the original knows.

use std::collections::BTreeSet;

use tollgate_rls::VARIABLES;
use tollgate_testkit::peers;

/// Not read by these names: what the variables of a mogrifier end with.
const ENDINGS: [&str; 3] = ["NAME", "PATTERN", "TAGS"];

/// Its settings are fields of structures whose tags name the variables, and Go keeps tags in the program.
#[test]
fn every_variable_of_the_original_is_known() {
    let test = "every_variable_of_the_original_is_known";
    let Some(program) = peers::find_or_skip(test, peers::ENVOY_RATELIMIT) else {
        return;
    };
    let bytes = std::fs::read(program).expect("the program can be read");
    let tag = b"envconfig:\"";
    let mut found = BTreeSet::new();
    for at in 0..bytes.len().saturating_sub(tag.len()) {
        if bytes[at..].starts_with(tag) {
            let name = bytes[at + tag.len()..].split(|byte| *byte == b'"').next();
            let name = std::str::from_utf8(name.expect("a quote ends it")).expect("text");
            found.insert(name.to_owned());
        }
    }
    assert!(found.len() > 100, "{found:?}");
    let known: BTreeSet<&str> = VARIABLES
        .iter()
        .flat_map(|(_, rows)| *rows)
        .map(|row| row.name)
        .chain(ENDINGS)
        .collect();
    let unknown: Vec<&String> = found
        .iter()
        .filter(|name| !known.contains(&***name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
