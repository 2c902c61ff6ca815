//! `docs/commands.md` is generated and committed.

use std::path::Path;

use tollgate_commands::render_docs;

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
