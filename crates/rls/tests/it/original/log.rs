//! Lines of the log: their form, and which are written.

use std::collections::BTreeSet;

use super::pair::{Pair, Store};
use super::program::{Ground, Program, wait_for};

const GOOD: &str = "domain: test\ndescriptors: [{key: k}]\n";
const CHANGED: &str = "domain: test\ndescriptors: [{key: other}]\n";
const BAD: &str = "domain: test\ndescriptors: [{key: ''}]\n";

/// Whether it has said that rules are in force, or not valid.
fn has_said(program: &Program, words: [&str; 2]) -> bool {
    let log = program.log();
    words.iter().any(|words| log.contains(words))
}

const TAKEN: [&str; 2] = ["Successfully loaded new configuration", "rules loaded"];
const REFUSED: [&str; 2] = [
    "Error loading new configuration",
    "the rules stay as they were",
];

/// A line's names, and its level if it is of these words.
fn lines(program: &Program, words: [&str; 2]) -> BTreeSet<(Vec<String>, String)> {
    let log = program.log();
    let found = log
        .lines()
        .filter(|line| words.iter().any(|words| line.contains(words)));
    found
        .map(|line| {
            if line.starts_with('{') {
                let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
                let object = object.as_object().expect("an object");
                let level = object["level"].as_str().expect("a text").to_owned();
                return (object.keys().cloned().collect(), level);
            }
            let rest = line.strip_prefix("time=\"").expect("a time");
            let (_, rest) = rest.split_once("\" level=").expect("a level");
            let (level, message) = rest.split_once(" msg=\"").expect("a message");
            assert!(message.ends_with('"'), "{line}");
            (vec!["time".to_owned()], level.to_owned())
        })
        .collect()
}

#[tokio::test]
async fn the_log_has_the_forms_and_levels_of_the_original() {
    let test = "the_log_has_the_forms_and_levels_of_the_original";
    for (format, level, says_good) in [
        ("text", "info", true),
        ("json", "info", true),
        ("json", "warn", false),
        ("text", "error", false),
    ] {
        let ground = Ground::new(&[("rules.yaml", GOOD)]);
        let env = [("LOG_FORMAT", format), ("LOG_LEVEL", level)];
        let Some(pair) = Pair::start_each(test, Store::Embedded, &ground, &env, |_| env[1]).await
        else {
            return;
        };
        // Ours has no line for the rules of the start, which the one that it is ready stands for.
        ground.write("rules.yaml", CHANGED);
        for program in pair.both().into_iter().filter(|_| says_good) {
            wait_for("word of good rules", || has_said(program, TAKEN));
        }
        ground.write("rules.yaml", BAD);
        for program in pair.both() {
            wait_for("word of bad rules", || has_said(program, REFUSED));
        }
        for words in [TAKEN, REFUSED] {
            let [original, ours] = pair.both().map(|program| lines(program, words));
            assert_eq!(ours, original, "{format} {level} {words:?}");
            assert_eq!(ours.is_empty(), words == TAKEN && !says_good);
        }
    }
}
