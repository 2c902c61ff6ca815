//! `docs/rules.md` says what is so.

use tollgate_limiter::{ALGORITHMS, Method};
use tollgate_policy::{Fallback, HotKey, Ruleset};

#[test]
fn the_page_of_rules_names_every_algorithm_and_its_example_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (_, rest) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let rules = Ruleset::load(&[("docs/rules.md", example)]).expect("a valid example");
    assert_eq!(rules.limit_count(), 1);
    for row in ALGORITHMS {
        let line = format!("| `{}` | {} |", row.name, row.docs);
        assert!(page.contains(&line), "{line}");
    }
    let others = [Method::Log, Method::Concurrency].map(Method::name);
    let modes = Fallback::ALL.map(Fallback::name);
    for name in others.iter().chain(&modes) {
        assert!(page.contains(&format!("| `{name}`")), "{name}");
    }
    let (_, strategies) = page.split_once("## `hot_key`").expect("the strategies");
    for name in HotKey::NAMES {
        let forms = [format!("| `{name}` |"), format!("| `{{strategy: {name},")];
        assert!(forms.iter().any(|form| strategies.contains(form)), "{name}");
    }
}
