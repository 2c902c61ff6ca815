//! Rule files: what both take, what both refuse and in which words, and which files they read.

use tollgate_policy::Ruleset;

use super::decisions::of_rules;
use super::pair::{Pair, Store};
use super::program::{Ground, Kind, Program, is_there, wait_for};
use crate::support::{descriptor, request};

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Both take it, and print the same rules.
    Taken,
    /// Both refuse it in the same words.
    Refused,
    /// Both refuse it; the words of the original are those of its library for YAML.
    RefusedByParser,
    /// Only the original takes it; `docs/differences.md` says why.
    OnlyThere,
    /// Only we take it.
    OnlyHere,
}

use Fate::{OnlyHere, OnlyThere, Refused, RefusedByParser, Taken};

/// Descriptors of a domain `d`, each a file of its own.
const DESCRIPTORS: &[(Fate, &str)] = &[
    (Taken, "key: a"),
    (Taken, "key: a, rate_limit: "),
    (
        Taken,
        "key: a, value: b, rate_limit: {unit: Day, requests_per_unit: 5}",
    ),
    (
        Taken,
        "key: 5, value: 15, rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (
        Taken,
        "key: true, value: yes, rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (OnlyHere, "key: a, value: 1.5"),
    (Refused, "value: x"),
    (Refused, "key: ''"),
    (Refused, "key: "),
    (Refused, "key: ~"),
    (Refused, "key: a}, {key: a"),
    (Refused, "key: a, value: b}, {key: a, value: b"),
    (Refused, "key: a, value: b_c}, {key: a_b, value: c"),
    (Refused, "key: a, descriptors: [{key: b}, {key: b}]"),
    (Refused, "key: a, foo: 1"),
    (Refused, "Key: a"),
    (OnlyHere, "key: a, metadata: {a: b}"),
    (
        OnlyHere,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, algorithm: gcra}",
    ),
    (OnlyThere, "key: a, unit: day"),
    (
        OnlyThere,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}",
    ),
    (OnlyThere, "key: a, key: b"),
    (
        Refused,
        "key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: unknown, requests_per_unit: 1}",
    ),
    (Refused, "key: a, rate_limit: {requests_per_unit: 1}"),
    (Refused, "key: a, rate_limit: {}"),
    (RefusedByParser, "key: a, rate_limit: 5"),
    (RefusedByParser, "key: a, rate_limit: [{unit: day}]"),
    (Taken, "key: a, rate_limit: {unlimited: true}"),
    (
        Taken,
        "key: a, rate_limit: {unlimited: no, unit: day, requests_per_unit: 5}",
    ),
    (Refused, "key: a, rate_limit: {unlimited: true, unit: day}"),
    (
        OnlyThere,
        "key: a, rate_limit: {unlimited: true, unit: foo}",
    ),
    (OnlyThere, "key: a, rate_limit: {unit: day}"),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 0}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 4294967295}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 0x10}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 010}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 0o17}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 0b11}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1_000}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: +5}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: 08}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: -1}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: 5.0}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1e3}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: '5'}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: true}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: lots}",
    ),
    (
        Taken,
        "key: a, shadow_mode: yes, rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (
        Taken,
        "key: a, quota_mode: On, rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (
        Taken,
        "key: a, quota_mode: y, rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (
        Taken,
        "key: a, quota_mode: , rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (
        OnlyHere,
        "key: a, quota_mode: all, rate_limit: {unit: day, requests_per_unit: 5}",
    ),
    (RefusedByParser, "key: a, quota_mode: 1"),
    (RefusedByParser, "key: a, quota_mode: maybe"),
    (RefusedByParser, "key: a, shadow_mode: 'true'"),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, name: x, replaces: []}",
    ),
    (
        Taken,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: y}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ''}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, name: x, replaces: [{name: x}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [x]}",
    ),
    (
        RefusedByParser,
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: {name: x}}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: fortnight, name: x, replaces: [{name: x}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {replaces: [{name: ''}], unit: fortnight}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unlimited: true, unit: day, replaces: [{name: ''}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}",
    ),
    (
        Refused,
        "key: a, share_threshold: true, rate_limit: {unit: fortnight}",
    ),
    (
        Refused,
        "key: a, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}",
    ),
    (
        Refused,
        "key: a, rate_limit: {unit: fortnight}, descriptors: [{value: x}]",
    ),
    (RefusedByParser, "key: a, share_threshold: true"),
    (RefusedByParser, "key: a, value: b, share_threshold: true"),
    (
        Taken,
        "key: a, value: b*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}",
    ),
    (OnlyHere, "key: a, value: b*c, share_threshold: true"),
    (OnlyThere, "key: a*, share_threshold: true"),
    (
        Taken,
        "key: a*, rate_limit: {unit: day, requests_per_unit: 1}",
    ),
    (
        Taken,
        "key: a, rate_limit: &r {unit: day, requests_per_unit: 1}}, {key: b, rate_limit: *r",
    ),
    (
        Taken,
        "key: a, rate_limit: &r {unit: day, requests_per_unit: 1}}, {key: b, rate_limit: {<<: *r, requests_per_unit: 2}",
    ),
    (
        Taken,
        "key: a, rate_limit: &r {unit: day, requests_per_unit: 1}}, {key: b, rate_limit: {requests_per_unit: 2, <<: *r}",
    ),
    (
        Taken,
        "key: a, rate_limit: &r {unit: day, requests_per_unit: 1}}, {key: b, rate_limit: {<<: [{unit: hour}, *r]}",
    ),
];

/// Whole files.
const FILES: &[(Fate, &str)] = &[
    (Refused, ""),
    (Refused, "~\n"),
    (Refused, "descriptors: []\n"),
    (Refused, "domain: ''\n"),
    (Refused, "domain:\n"),
    (Refused, "domain: d\nfoo: 1\n"),
    (Refused, "Domain: d\n"),
    (Taken, "domain: d\n"),
    (Taken, "domain: 5\n"),
    (Taken, "domain: d\ndescriptors:\n"),
    (Taken, "domain: >\n  folded\n  text\n"),
    (Taken, "\u{feff}domain: d\r\ndescriptors:\r\n  - key: a\r\n"),
    (RefusedByParser, "just text\n"),
    (RefusedByParser, "- a\n"),
    (RefusedByParser, "domain: [a]\n"),
    (RefusedByParser, "domain: d\ndescriptors: {key: a}\n"),
    (RefusedByParser, "domain: d\ndescriptors: x\n"),
    (Refused, "domain: d\ndescriptors: [a]\n"),
    (RefusedByParser, "domain: [\n"),
    (RefusedByParser, "domain: d\n\tdescriptors: []\n"),
    (OnlyThere, "domain: d\n---\ndomain: e\n"),
];

/// What the original says of each file that it is given in turn.
struct Reader {
    ground: Ground,
    program: Program,
    loads: usize,
}

impl Reader {
    const GOOD: &str = "Successfully loaded new configuration";
    const BAD: &str = "Error loading new configuration: ";

    /// `Err` holds the words without the file's name.
    fn read(&mut self, text: &str) -> Result<(), String> {
        self.ground.write("file.yaml", text);
        self.loads += 1;
        let mut said = None;
        wait_for("word about the file", || {
            let log = self.program.log();
            let loads = log
                .lines()
                .filter(|line| line.contains(Self::GOOD) || line.contains(Self::BAD));
            said = loads.clone().nth(self.loads).map(str::to_owned);
            said.is_some()
        });
        let said = said.expect("waited for");
        match said.split_once(Self::BAD) {
            None => Ok(()),
            Some((_, words)) => {
                let words = words.trim_end_matches('"').replace("\\\"", "\"");
                Err(words.trim_start_matches("file.yaml: ").to_owned())
            }
        }
    }

    fn rules(&self) -> Vec<String> {
        let text = self.program.debug_text("/rlconfig");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

#[test]
fn files_are_taken_and_refused_as_by_the_original() {
    let test = "files_are_taken_and_refused_as_by_the_original";
    let Some(store) = super::pair::redis(test).filter(|_| is_there(test)) else {
        return;
    };
    let addr = store.addr().to_string();
    let env = [
        ("BACKEND_TYPE", "redis"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", &*addr),
    ];
    let ground = Ground::new(&[("file.yaml", "domain: first\n")]);
    let program = Program::start(Kind::Original, &ground, &env);
    let mut reader = Reader {
        ground,
        program,
        loads: 0,
    };
    let descriptors = DESCRIPTORS.iter().map(|(fate, text)| {
        let text = format!("domain: d\ndescriptors: [{{{text}}}]\n");
        (*fate, text)
    });
    let files = FILES.iter().map(|(fate, text)| (*fate, (*text).to_owned()));
    for (fate, text) in descriptors.chain(files) {
        let there = reader.read(&text);
        let here = Ruleset::load(&[("file.yaml", &text)]);
        let taken = match (&there, &here) {
            (Ok(()), Ok(rules)) => {
                let lines = rules.describe().into_iter().map(|line| line.text);
                assert_eq!(lines.collect::<Vec<_>>(), reader.rules(), "{text}");
                Taken
            }
            (Ok(()), Err(_)) => OnlyThere,
            (Err(_), Ok(_)) => OnlyHere,
            (Err(there), Err(here)) if *there == here.reason => Refused,
            (Err(_), Err(_)) => RefusedByParser,
        };
        assert_eq!(taken, fate, "{text}: {there:?} and {:?}", here.err());
    }
}

/// A file that is not valid leaves what was, and every file of the folder is read, whatever it is called.
#[tokio::test]
async fn rules_are_taken_up_as_by_the_original() {
    let test = "rules_are_taken_up_as_by_the_original";
    let rule = |domain: &str, requests: u32| {
        format!(
            "domain: {domain}\ndescriptors: [{{key: k, rate_limit: {{unit: year, requests_per_unit: {requests}}}}}]\n"
        )
    };
    for merge in ["false", "true"] {
        let ground = Ground::new(&[
            ("first", &rule("test", 5)),
            ("sub/second.yml", &rule("second", 6)),
            (".hidden.yaml", &rule("hidden", 7)),
            (".folder/third.yaml", &rule("third", 7)),
        ]);
        let env = [
            ("RUNTIME_IGNOREDOTFILES", merge),
            ("MERGE_DOMAIN_CONFIG", merge),
        ];
        let Some(mut pair) = Pair::start(test, Store::Embedded, &ground, &env).await else {
            return;
        };
        for (domain, limit) in [("test", 5), ("second", 6), ("hidden", 7), ("third", 7)] {
            let asked = tollgate_wire::rls::RateLimitRequest {
                domain: domain.to_owned(),
                ..request(vec![descriptor(&["k=a"])])
            };
            let response = pair.ask(&asked).await;
            let status = &response.statuses[0];
            let found = status
                .current_limit
                .as_ref()
                .map(|limit| limit.requests_per_unit);
            let read = limit < 7 || merge == "false";
            assert_eq!(found, read.then_some(limit), "{domain}");
        }
        let wait = |pair: &Pair, name: &str, value: u64| {
            for program in pair.both() {
                wait_for(name, || {
                    program
                        .statsd
                        .look(|seen| seen.counters.get(name) == Some(&value))
                });
            }
        };
        let (good, bad) = (
            "ratelimit.service.config_load_success",
            "ratelimit.service.config_load_error",
        );
        wait(&pair, good, 1);
        ground.write("bad.yaml", "domain: [\n");
        wait(&pair, bad, 1);
        let asked = request(vec![descriptor(&["k=b"])]);
        assert!(pair.ask(&asked).await.statuses[0].current_limit.is_some());
        // One domain in two files counts only where they are put together.
        ground.write("bad.yaml", &rule("test", 9).replace("key: k", "key: other"));
        let (name, count) = match merge {
            "true" => (good, 2),
            _ => (bad, 2),
        };
        wait(&pair, name, count);
        let asked = request(vec![descriptor(&["other=b"])]);
        let found = pair.ask(&asked).await.statuses[0].current_limit.is_some();
        assert_eq!(found, merge == "true");
        pair.compare_counters(of_rules);
    }
}
