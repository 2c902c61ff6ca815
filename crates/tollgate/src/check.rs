//! `tollgate check`: whether rules are valid.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::io::Write;
use std::path::PathBuf;
use tollgate_rls::LoadOptions;

const WORDS: &str = "\
Rules are YAML in the format of envoyproxy/ratelimit. In addition to unit and requests_per_unit, a rate_limit takes Tollgate's own keys: \
period and zone (5m, 7d, 1mo in Europe/Paris), algorithm and burst (gcra, token-bucket, leaky-bucket, fixed-window, sliding-window, \
sliding-log, calendar), concurrency and lease, limits (several, decided at once), on_error (what happens while the store is unavailable), \
inherit (what happens to counters when the limit changes), exact and hot_key. docs/rules.md describes each.

  domain: shop
  descriptors:
    - key: user
      rate_limit:
        on_error: open
        limits:
          - {unit: second, requests_per_unit: 10}
          - {period: 5m, requests_per_unit: 600, algorithm: token-bucket, burst: 50}";

pub(crate) fn command() -> Command {
    Command::new("check")
        .about("Check rate limit rules and report every mistake")
        .after_help(WORDS)
        .arg(rules_arg())
        .arg(
            Arg::new("counter-keys")
                .long("counter-keys")
                .value_name("KEYS")
                .value_parser(["own", "envoy"])
                .default_value("own")
                .help("Kind of counters that must be able to hold the limits, as with serve"),
        )
        .arg(
            Arg::new("merge-domains")
                .long("merge-domains")
                .action(ArgAction::SetTrue)
                .help("Files of one domain count together, as with MERGE_DOMAIN_CONFIG=true"),
        )
}

/// The rules that a command is about.
pub(crate) fn rules_arg() -> Arg {
    Arg::new("rules")
        .value_name("RULES")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("Directory of rule files (*.yaml, *.yml), or one file")
}

/// Prints a summary; what is wrong, a line each with file, line and reason, is the error.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Vec<String>> {
    let path = matches
        .get_one::<PathBuf>("rules")
        .ok_or_else(|| vec!["no rules given".to_owned()])?;
    let keys = matches.get_one::<String>("counter-keys");
    let options = LoadOptions {
        envoy_counters: keys.is_some_and(|keys| keys == "envoy"),
        merge_domains: matches.get_flag("merge-domains"),
    };
    let checked = tollgate_rls::check_rules(path, options);
    let rules = checked.map_err(|mistakes| {
        let lines = mistakes.iter().map(ToString::to_string);
        lines.collect::<Vec<_>>()
    })?;
    // Without a reader the exit code has to do.
    drop(writeln!(
        std::io::stdout(),
        "{}: valid, {}",
        path.display(),
        rules.summary()
    ));
    Ok(())
}
