//! The variables that the original knows.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use tollgate_rls::{Backend, Environment, VARIABLES};
use tollgate_testkit::peers;

use crate::support::config;

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

/// A variable of each type, and values that both are to read, or neither.
const VALUES: &[(&str, &[&str])] = &[
    (
        "REDIS_POOL_SIZE",
        &[
            "0x10",
            "1_0",
            "017",
            "0_7",
            "0b1",
            "0o7",
            "+1",
            "08",
            "1_",
            "_1",
            "1__0",
            "0x",
            "0x_1",
            "1.0",
            " 1",
            "1e3",
            "9223372036854775808",
            "ten",
        ],
    ),
    (
        "REDIS_TLS",
        &[
            "1", "t", "T", "TRUE", "True", "false", "F", "0", "yes", "tRUE", " true",
        ],
    ),
    (
        "REDIS_TIMEOUT",
        &[
            "1h30m",
            "20ms",
            "1.5s",
            ".5s",
            "1.s",
            "2000\u{b5}s",
            "2000\u{3bc}s",
            "2us",
            "+1s",
            "0",
            "1d",
            "10",
            "1 s",
            "s",
            ".s",
            "1e3s",
            "1s ",
        ],
    ),
    (
        "NEAR_LIMIT_RATIO",
        &[
            "0.8", ".5", "1.", "1e-1", "0,8", "0.7_5", "0._5", "0_", "1e", "half", " 1", "8e-1",
            "2", "-1", "-0", "NaN", "nan", "+NaN", "inf", "-Inf", "Infinity", "infinit", "1e38",
            "1e39",
        ],
    ),
    (
        "EXTRA_TAGS",
        &[
            "a:b", "a:b:c", "a", "a:b,", ",a:b", "a:b,,c:d", "a:,:b", ":", "::", " ", " a : b ",
        ],
    ),
];

/// The original ends at once where it cannot read a value, and says so.
#[test]
fn values_are_read_as_the_original_reads_them() {
    let test = "values_are_read_as_the_original_reads_them";
    let Some(program) = peers::find_or_skip(test, peers::ENVOY_RATELIMIT) else {
        return;
    };
    for (name, values) in VALUES {
        for value in *values {
            // It then finds no Redis, and ends.
            let ended = Command::new(&program)
                .env_clear()
                .envs([("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", "no place")])
                .env(name, value)
                .stdin(Stdio::null())
                .output()
                .expect("the program starts");
            let said = String::from_utf8_lossy(&ended.stderr);
            let takes = !said.contains("envconfig.Process: assigning");
            let environment = Environment::new(|asked: &str| match asked {
                "BACKEND_TYPE" => Some("redis".to_owned()),
                "REDIS_SOCKET_TYPE" => Some("tcp".to_owned()),
                asked => (asked == *name).then(|| (*value).to_owned()),
            });
            let mut config = config("/rules".into(), Backend::Embedded);
            let ours = environment.apply(&mut config, false);
            assert_eq!(
                ours.is_ok(),
                takes,
                "{name}={value}: {ours:?}, there {said}"
            );
        }
    }
}
