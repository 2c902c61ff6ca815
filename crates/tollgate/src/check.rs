//! `tollgate check`: whether rules are valid.

use clap::{Arg, ArgMatches, Command, value_parser};
use std::io::Write;
use std::path::PathBuf;
use tollgate_rls::LoadOptions;

pub(crate) fn command() -> Command {
    Command::new("check")
        .about("Check rate limit rules and report every mistake")
        .arg(rules_arg())
        .arg(
            Arg::new("counter-keys")
                .long("counter-keys")
                .value_name("KEYS")
                .value_parser(["own", "envoy"])
                .default_value("own")
                .help("Kind of counters that must be able to hold the limits, as with serve"),
        )
}

/// The rules that a command is about.
pub(crate) fn rules_arg() -> Arg {
    Arg::new("rules")
        .value_name("RULES")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("Directory of rule files, or one file")
}

/// Prints a summary; what is wrong, a line each with file, line and reason, is the error.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Vec<String>> {
    let path = matches
        .get_one::<PathBuf>("rules")
        .ok_or_else(|| vec!["no rules given".to_owned()])?;
    let keys = matches.get_one::<String>("counter-keys");
    let options = LoadOptions {
        envoy_counters: keys.is_some_and(|keys| keys == "envoy"),
        ..LoadOptions::default()
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
