//! Rules by chance: both are given the same files one after the other, and the same requests under each.

use tollgate_policy::Ruleset;
use tollgate_wire::rls::rate_limit_descriptor::RateLimitOverride;
use tollgate_wire::rls::{RateLimitRequest, UInt64Value};

use super::decisions::{Seeded, YEAR, of_rules};
use super::pair::{Pair, Store};
use super::program::{Ground, Program, wait_for};
use crate::support::{descriptor, request};

/// None with an underscore, by which the original takes one key for another.
const KEYS: [&str; 5] = ["a", "b", "ab", "c", "k.1"];
/// The original that is installed knows patterns with one star, at their end.
const VALUES: [&str; 7] = ["x", "y", "b_c", "x*", "*", "xy*", "1.2.3.4"];
const ASKED: [&str; 14] = [
    "", "x", "y", "b_c", "xz", "xyz", "xxx", "zz", "1.2.3.4", "a:b|c", "x.y", "ü", " x", "_",
];
const NAMES: [&str; 3] = ["one", "two", "three"];
const MONTH: u64 = 30 * 86_400;

/// True once in so many times.
fn once_in(seeded: &mut Seeded, times: usize) -> bool {
    seeded.below(times) == 0
}

/// Descriptors of a level as a list of YAML, all on one line.
fn level(seeded: &mut Seeded, depth: usize) -> String {
    let rules: Vec<String> = (0..=seeded.below(4)).map(|_| rule(seeded, depth)).collect();
    format!("[{}]", rules.join(", "))
}

fn rule(seeded: &mut Seeded, depth: usize) -> String {
    let mut fields = match once_in(seeded, 60) {
        true => vec!["key: ''".to_owned()],
        false => vec![format!("key: '{}'", seeded.one_of(&KEYS))],
    };
    let mut wildcard = false;
    if !once_in(seeded, 3) {
        let value = seeded.one_of(&VALUES);
        wildcard = value.contains('*');
        fields.push(format!("value: '{value}'"));
    }
    if !once_in(seeded, 4) {
        fields.push(format!("rate_limit: {{{}}}", limit(seeded)));
    }
    for flag in [
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
    ] {
        if once_in(seeded, 6) {
            fields.push(format!("{flag}: {}", !once_in(seeded, 5)));
        }
    }
    if wildcard && once_in(seeded, 2) {
        fields.push("share_threshold: true".to_owned());
    }
    if once_in(seeded, 80) {
        fields.push("limit: 1".to_owned());
    }
    if depth > 0 && once_in(seeded, 2) {
        fields.push(format!("descriptors: {}", level(seeded, depth - 1)));
    }
    format!("{{{}}}", fields.join(", "))
}

fn limit(seeded: &mut Seeded) -> String {
    let name = match once_in(seeded, 2) {
        true => format!(", name: {}", seeded.one_of(&NAMES)),
        false => String::new(),
    };
    let replaces = match once_in(seeded, 5) {
        true => format!(", replaces: [{{name: {}}}]", seeded.one_of(&NAMES)),
        false => String::new(),
    };
    let unit = seeded.one_of(&["year", "Year", "month", "YEAR"]);
    let rate = match seeded.below(40) {
        0 => "unit: fortnight, requests_per_unit: 1".to_owned(),
        1 => "unit: year, unlimited: true".to_owned(),
        2..=5 => "unlimited: true".to_owned(),
        _ => format!(
            "unit: {unit}, requests_per_unit: {}",
            seeded.one_of(&[0, 1, 2, 3, 5, 8, 20, 4_294_967_295_u32])
        ),
    };
    format!("{rate}{name}{replaces}")
}

fn asked(seeded: &mut Seeded) -> RateLimitRequest {
    let descriptors = (0..=seeded.below(3)).map(|_| {
        let pairs: Vec<String> = (0..=seeded.below(3))
            .map(|_| format!("{}={}", seeded.one_of(&KEYS), seeded.one_of(&ASKED)))
            .collect();
        let pairs: Vec<&str> = pairs.iter().map(|pair| &**pair).collect();
        let mut made = descriptor(&pairs);
        if once_in(seeded, 5) {
            let value = seeded.one_of(&[0, 1, 2, 9]);
            made.hits_addend = Some(UInt64Value { value });
        }
        if once_in(seeded, 15) {
            made.limit = Some(RateLimitOverride {
                requests_per_unit: seeded.one_of(&[0, 2, 9]),
                unit: 6,
            });
        }
        made
    });
    let descriptors = descriptors.collect();
    RateLimitRequest {
        hits_addend: seeded.one_of(&[0, 0, 1, 2]),
        ..request(descriptors)
    }
}

/// Both have read so many files.
fn wait_until_read(pair: &Pair, files: u64) {
    let read = |program: &Program| {
        program.statsd.look(|seen| {
            let of = |name| seen.counters.get(name).copied().unwrap_or(0);
            of("ratelimit.service.config_load_success") + of("ratelimit.service.config_load_error")
        })
    };
    for program in pair.both() {
        wait_for("word about the file", || read(program) == files);
    }
}

/// What the original said last of a file that it did not take.
fn refused_with(pair: &Pair) -> Option<String> {
    let log = pair.original.log();
    let (_, words) = log.rsplit_once("Error loading new configuration: ")?;
    let words = words.lines().next()?.trim_end_matches('"');
    let words = words.replace("\\\"", "\"");
    Some(words.trim_start_matches("rules.yaml: ").to_owned())
}

fn rules_of(program: &Program) -> Vec<String> {
    let text = program.debug_text("/rlconfig");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

const LOCAL_CACHE: (&str, &str) = ("LOCAL_CACHE_SIZE_IN_BYTES", "1048576");

/// Files in a run of the tests. `TOLLGATE_CHANCE=seed,files` asks for others.
const FILES: u64 = 12;

async fn both_agree_by_chance(test: &str, seed: u64, env: &[(&str, &str)]) {
    let told = std::env::var("TOLLGATE_CHANCE").ok();
    let told = told.as_deref().and_then(|told| told.split_once(','));
    let (seed, files) = match told {
        Some((more, files)) => {
            let more: u64 = more.parse().expect("a seed");
            (seed + 100 * more, files.parse().expect("a number of files"))
        }
        None => (seed, FILES),
    };
    let ground = Ground::new(&[("rules.yaml", "domain: test\n")]);
    let mut all = vec![("EXPIRATION_JITTER_MAX_SECONDS", "0")];
    all.extend(env);
    let Some(mut pair) = Pair::start(test, Store::SharedKeys, &ground, &all).await else {
        return;
    };
    let mut seeded = Seeded(seed);
    let mut refused = 0;
    for file in 0..files {
        let text = format!("domain: test\ndescriptors: {}\n", level(&mut seeded, 2));
        ground.write("rules.yaml", &text);
        wait_until_read(&pair, file + 2);
        if let Err(error) = Ruleset::load(&[("rules.yaml", &text)]) {
            assert_eq!(refused_with(&pair), Some(error.reason), "{text}");
            refused += 1;
        }
        let [original, ours] = pair.both().map(rules_of);
        assert_eq!(ours, original, "{text}");
        for _ in 0..40 {
            let mut request = asked(&mut seeded);
            if env.contains(&LOCAL_CACHE) {
                // There the original denies by the counter alone, whatever the limit that an override, or another file, asks for.
                for descriptor in &mut request.descriptors {
                    descriptor.limit = None;
                    let entries = descriptor.entries.iter_mut();
                    entries.for_each(|entry| entry.value.push_str(&format!("-{file}")));
                }
            }
            pair.ask(&request).await;
        }
    }
    assert!((1..files).contains(&refused), "{refused} refused");
    pair.compare_stores(MONTH..=YEAR);
    pair.compare_counters(of_rules);
}

#[tokio::test]
async fn rules_by_chance_are_those_of_the_original() {
    let test = "rules_by_chance_are_those_of_the_original";
    both_agree_by_chance(test, 30, &[]).await;
}

#[tokio::test]
async fn rules_by_chance_are_told_as_by_the_original() {
    let test = "rules_by_chance_are_told_as_by_the_original";
    let env = [
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
        ("RESPONSE_DYNAMIC_METADATA", "true"),
        ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true"),
    ];
    both_agree_by_chance(test, 31, &env).await;
}

#[tokio::test]
async fn rules_by_chance_are_cached_as_by_the_original() {
    let test = "rules_by_chance_are_cached_as_by_the_original";
    let env = [LOCAL_CACHE, ("NEAR_LIMIT_RATIO", "0.5")];
    both_agree_by_chance(test, 32, &env).await;
}

#[tokio::test]
async fn rules_by_chance_deny_nothing_in_the_modes_of_the_original() {
    let test = "rules_by_chance_deny_nothing_in_the_modes_of_the_original";
    let told = ("RESPONSE_DYNAMIC_METADATA", "true");
    both_agree_by_chance(test, 33, &[told, ("SHADOW_MODE", "true")]).await;
    both_agree_by_chance(test, 34, &[told, ("QUOTA_MODE", "true")]).await;
}
