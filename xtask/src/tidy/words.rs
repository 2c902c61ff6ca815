//! Calls that bypass a seam of the design, and words that mark unfinished work.

use super::floors::{FIRST_IMPURE_FLOOR, floor};
use super::source::Source;
use super::{Tree, floors};

/// A call that only some crates may make, outside tests.
struct Ban {
    call: &'static str,
    /// Crates that may make it.
    except: &'static [&'static str],
    instead: &'static str,
}

const CLOCKS: &[&str] = &["net", "rls", "bench", "testkit", "xtask"];
const THREADS: &[&str] = &["net", "rls", "bench", "testkit", "xtask"];

const BANS: &[Ban] = &[
    Ban {
        call: "Instant::now",
        except: CLOCKS,
        instead: "take `now` as a parameter; net's Clock is where time comes from",
    },
    Ban {
        call: "SystemTime::now",
        except: CLOCKS,
        instead: "take `now` as a parameter; net's Clock is where time comes from",
    },
    Ban {
        call: "thread::spawn",
        except: THREADS,
        instead: "use net's named threads",
    },
    Ban {
        call: "thread::sleep",
        except: THREADS,
        instead: "wait for an event, or on the event loop's timer",
    },
    Ban {
        call: "tokio::spawn",
        except: &["rls", "bench"],
        instead: "the data path has no async runtime",
    },
    Ban {
        call: "env::set_var",
        except: &[],
        instead: "the environment is read once at start; pass a value",
    },
    Ban {
        call: "process::exit",
        // The server ends itself when it cannot keep what `appendfsync always` has promised.
        except: &["tollgate", "xtask", "rls", "server"],
        instead: "return an error; the binary ends the process",
    },
    Ban {
        call: "RandomState",
        except: &["testkit", "xtask", "bench", "rls", "server", "tollgate"],
        instead: "hash with a seed that is passed in",
    },
    Ban {
        call: "static mut",
        except: &[],
        instead: "own the state, or use an atomic",
    },
    Ban {
        call: ".unwrap()",
        except: &["testkit", "xtask", "fuzz"],
        instead: "return the error, or `expect` with the invariant that rules it out",
    },
];

/// What the pure crates may not name at all, tests included only where they are files of their own.
const IMPURE_PATHS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
    "std::time::Instant",
    "std::time::SystemTime",
    "thread_local!",
];

/// Marks of unfinished work. Split so that this file does not find itself.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("HA", "CK:"),
    concat!("for", " now "),
];

/// Macros and attributes that stand in for work.
const STAND_INS: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("#[ig", "nore"),
];

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        calls(source, &mut findings);
        marks(source, &mut findings);
    }
    findings
}

fn calls(source: &Source, findings: &mut Vec<String>) {
    let name = source.crate_name();
    for ban in BANS.iter().filter(|ban| !ban.except.contains(&name)) {
        for at in source.find(ban.call).filter(|&at| !source.is_test(at)) {
            findings.push(format!(
                "{}:{}: {}: {}",
                source.path,
                source.line(at),
                ban.call,
                ban.instead
            ));
        }
    }
    if floor(name).is_some_and(|floor| floor < FIRST_IMPURE_FLOOR) {
        for path in IMPURE_PATHS {
            for at in source.find(path).filter(|&at| !source.is_test(at)) {
                let floor = floors::FIRST_IMPURE_FLOOR;
                findings.push(format!(
                    "{}:{}: {path}: crates below F{floor} are pure: pass in what is needed",
                    source.path,
                    source.line(at)
                ));
            }
        }
    }
}

fn marks(source: &Source, findings: &mut Vec<String>) {
    for mark in MARKS {
        let found = source.text.match_indices(mark).map(|(at, _)| at);
        // The same words in code mean something else.
        for at in found.filter(|&at| source.code[at..at + mark.len()].trim().is_empty()) {
            findings.push(format!(
                "{}:{}: {mark}: finish it, or open an issue",
                source.path,
                source.line(at)
            ));
        }
    }
    for stand_in in STAND_INS {
        for at in source.find(stand_in) {
            findings.push(format!(
                "{}:{}: {stand_in}: finish it",
                source.path,
                source.line(at)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{calls, marks};
    use crate::tidy::source::Source;

    fn findings(path: &str, text: &str) -> usize {
        let source = Source::new(path, text.to_owned());
        let mut findings = Vec::new();
        calls(&source, &mut findings);
        marks(&source, &mut findings);
        findings.len()
    }

    #[test]
    fn calls_are_banned_where_they_bypass_a_seam() {
        assert_eq!(
            findings("crates/engine/src/a.rs", "let t = Instant::now();"),
            1
        );
        assert_eq!(
            findings("crates/net/src/a.rs", "let t = Instant::now();"),
            0
        );
        assert_eq!(
            findings(
                "crates/engine/src/a.rs",
                "// Instant::now\nlet s = \"Instant::now\";"
            ),
            0
        );
        assert_eq!(
            findings(
                "crates/engine/src/a.rs",
                "#[cfg(test)] mod tests { fn a() { x.unwrap(); } }"
            ),
            0
        );
        assert_eq!(findings("crates/engine/src/a.rs", "x.unwrap();"), 1);
        assert_eq!(findings("crates/wire/src/a.rs", "use std::fs;"), 1);
        assert_eq!(findings("crates/server/src/a.rs", "use std::fs;"), 0);
    }

    #[test]
    fn unfinished_work_is_found_in_comments_too() {
        assert_eq!(
            findings("crates/net/src/a.rs", concat!("// TO", "DO later")),
            1
        );
        assert_eq!(findings("crates/net/src/a.rs", concat!("to", "do!()")), 1);
    }
}
