//! The environment variables of ratelimit_bench's load script, for those who have them in scripts and CI files.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::args::RunArgs;
use super::values;
use crate::load::keys::Spreading;
use crate::load::schedule::Arrivals;

/// What they are, for the help.
pub(super) const VARIABLES: &str = "Environment (of ratelimit_bench's scripts; options go before it): DURATION and CONNECTIONS \
stand for --step and --connections; TARGET_URL, REQUEST_TYPE and RATE_LIMITER_TYPE for one http:// target in a closed loop: \
its address, its path (light, heavy) and its name; OUTPUT_FILE for --output-file.";

/// What the environment says in place of options that were not given.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Environment {
    step: Option<Duration>,
    connections: Option<u32>,
    output_file: Option<PathBuf>,
    target: Option<String>,
    /// The options that would say the same.
    words: Vec<String>,
    /// What was not used, and why.
    unused: Vec<String>,
}

impl Environment {
    /// Reads the variables by `env`; those whose option was `given` are left alone.
    ///
    /// # Errors
    /// If a value is none that the option takes.
    fn read(
        env: impl Fn(&str) -> Option<String>,
        given: impl Fn(&str) -> bool,
    ) -> Result<Environment, String> {
        let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let free = |name: &str, option: &str| set(name).filter(|_| !given(option));
        let mut found = Environment::default();
        if let Some(text) = free("DURATION", "step") {
            let step =
                values::positive_duration(&text).map_err(|why| format!("DURATION: {why}"))?;
            found.say("--step", &format!("{}s", step.as_secs_f64()));
            found.step = Some(step);
        }
        if let Some(text) = free("CONNECTIONS", "connections") {
            let number = text
                .trim()
                .parse()
                .ok()
                .filter(|n| (1..=10_000).contains(n));
            found.connections =
                Some(number.ok_or_else(|| {
                    format!("CONNECTIONS: '{text}' is not a number from 1 to 10000")
                })?);
            found.say("--connections", text.trim());
        }
        if let Some(text) = free("OUTPUT_FILE", "output_file") {
            found.say("--output-file", &text);
            found.output_file = Some(PathBuf::from(text));
        }
        match free("TARGET_URL", "targets") {
            Some(url) => {
                let (path, name) = (set("REQUEST_TYPE"), set("RATE_LIMITER_TYPE"));
                let target = target(&url, path.as_deref(), name.as_deref())?;
                found.say("--target", &target);
                found.words.extend(
                    ["--arrivals", "closed", "--keys", "1", "--dist", "single"].map(Into::into),
                );
                found.target = Some(target);
            }
            None => {
                for name in ["REQUEST_TYPE", "RATE_LIMITER_TYPE"] {
                    if set(name).is_some() {
                        found
                            .unused
                            .push(format!("{name} is not used: it describes TARGET_URL"));
                    }
                }
            }
        }
        Ok(found)
    }

    fn say(&mut self, option: &str, value: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
        let quoted = if value.chars().all(plain) {
            value.to_owned()
        } else {
            format!("'{}'", value.replace('\'', "'\\''"))
        };
        self.words.extend([option.to_owned(), quoted]);
    }

    /// The lines to print: the equivalent options, and what was not used.
    fn remarks(&self) -> Vec<String> {
        let mut lines = self.unused.clone();
        if !self.words.is_empty() {
            lines.push(format!(
                "from the environment: tollgate bench {}",
                self.words.join(" ")
            ));
        }
        lines
    }
}

/// `NAME=URL`, with the request type as the path of a URL that has none.
fn target(url: &str, path: Option<&str>, name: Option<&str>) -> Result<String, String> {
    let url = url.trim().trim_end_matches('/');
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!(
            "TARGET_URL: '{url}' is not a URL such as http://localhost:3001"
        ));
    };
    let path = match path.map(|path| path.trim().trim_start_matches('/')) {
        Some(path) if !rest.contains('/') => format!("/{path}"),
        // The scripts' own default.
        None if !rest.contains('/') => "/light".into(),
        _ => String::new(),
    };
    // Names of clusters have a colon there, which no file name should have.
    let name = name.unwrap_or("unknown").trim().replace([':', '='], "-");
    Ok(format!("{name}={scheme}://{rest}{path}"))
}

/// Fills in what the environment says for options that the command line left out; returns the lines to print.
///
/// # Errors
/// If a variable has a value that its option does not take.
pub(super) fn apply(args: &mut RunArgs, matches: &ArgMatches) -> Result<Vec<String>, String> {
    let given = |option: &str| matches.value_source(option) == Some(ValueSource::CommandLine);
    let only = given("only");
    let found = Environment::read(
        |name| std::env::var(name).ok(),
        |option| given(option) || (option == "targets" && only),
    )?;
    let remarks = found.remarks();
    args.step = found.step.or(args.step);
    if let Some(connections) = found.connections {
        args.connections = vec![connections];
    }
    args.output_file = found.output_file.or(args.output_file.take());
    if let Some(target) = found.target {
        args.targets.push(target);
        if !given("arrivals") && !given("ladder") {
            args.arrivals = Arrivals::Closed;
        }
        if !["scenario", "keys", "dist"].into_iter().any(given) {
            args.keys = Some(1);
            args.dist = Some(values::Dist {
                spreading: Spreading::Single,
                keys: None,
            });
        }
    }
    Ok(remarks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], given: &[&str]) -> Result<Environment, String> {
        Environment::read(
            |name| {
                let of = pairs.iter().find(|(key, _)| *key == name);
                of.map(|(_, value)| (*value).to_owned())
            },
            |option| given.contains(&option),
        )
    }

    #[test]
    fn the_scripts_variables_become_options() {
        let pairs = [
            ("DURATION", "30"),
            ("CONNECTIONS", "10"),
            ("REQUEST_TYPE", "heavy"),
            ("RATE_LIMITER_TYPE", "ioredis:cluster"),
            ("OUTPUT_FILE", "out file.json"),
            ("TARGET_URL", "http://localhost:3001/"),
        ];
        let found = read(&pairs, &[]).unwrap();
        assert_eq!(
            found.remarks(),
            [
                "from the environment: tollgate bench --step 30s --connections 10 --output-file 'out file.json' \
                 --target ioredis-cluster=http://localhost:3001/heavy --arrivals closed --keys 1 --dist single"
            ]
        );
        assert_eq!(found.step, Some(Duration::from_secs(30)));
        assert_eq!(found.connections, Some(10));
        let target = read(&[("TARGET_URL", "http://h:1/own")], &[])
            .unwrap()
            .target;
        assert_eq!(target.as_deref(), Some("unknown=http://h:1/own"));
    }

    #[test]
    fn options_go_before_the_environment() {
        let pairs = [("DURATION", "30"), ("CONNECTIONS", "10")];
        let found = read(&pairs, &["step", "connections"]).unwrap();
        assert_eq!(found, Environment::default());
        assert_eq!(read(&[("DURATION", " ")], &[]), Ok(Environment::default()));
    }

    #[test]
    fn wrong_values_are_named() {
        for (name, value) in [
            ("DURATION", "soon"),
            ("CONNECTIONS", "0"),
            ("TARGET_URL", "localhost"),
        ] {
            let why = read(&[(name, value)], &[]).unwrap_err();
            assert!(why.starts_with(name), "{why}");
        }
        let alone = read(&[("REQUEST_TYPE", "light")], &[]).unwrap();
        assert_eq!(
            alone.remarks(),
            ["REQUEST_TYPE is not used: it describes TARGET_URL"]
        );
    }
}
