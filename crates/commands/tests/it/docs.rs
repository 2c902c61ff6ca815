//! `docs/commands.md` is generated and committed; `docs/limiters.md` describes every limiter command.

use std::path::Path;

use tollgate_commands::{families, render_docs};
use tollgate_limiter::ALGORITHMS;

#[test]
fn the_committed_docs_are_those_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let rendered = render_docs();
    if std::env::var_os("TOLLGATE_REGENERATE").is_some() {
        std::fs::write(&path, &rendered).expect("docs/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == rendered,
        "docs/commands.md is stale: run TOLLGATE_REGENERATE=1 cargo test -p tollgate-commands"
    );
}

#[test]
fn the_page_of_limiters_has_every_command_and_algorithm() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/limiters.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let family = families()
        .iter()
        .find(|family| family.name == "Rate limiting");
    for row in family.expect("a family").rows {
        assert!(page.contains(row.name), "{}", row.name);
    }
    for row in ALGORITHMS {
        assert!(page.contains(&format!("| `{} ", row.word)), "{}", row.word);
    }
}
