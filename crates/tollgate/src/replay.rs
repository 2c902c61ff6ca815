//! `tollgate replay`: what rules would have done to recorded requests.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::check::rules_arg;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tollgate_rls::{
    DEFAULT_MAX_REQUESTS, DescriptorTemplate, LoadOptions, Recording, RecordingError, Replay,
    Ruleset, Shape, check_rules,
};

/// Exit code where more was denied than may be; that of a gate that failed.
const TOO_MUCH: u8 = 2;

const ABOUT: &str = "Run recorded requests through rules: who would have been denied, and which limits would have fitted";

const LINES: &str = "\
Each line is JSON or a line of an access log: the common and combined formats of Apache and nginx, or Envoy's default format. If the first \
line of a file names columns, one of them the time, the lines below it are rows (CSV, also with semicolons or tabs). Gzipped files \
are unpacked.

JSON with `descriptors` (and `domain`, `hitsAddend`) is a request as POST /json takes it, plus a `time`. For other lines, \
--descriptor says what a service would have been asked, in terms of their fields: columns, JSON fields with dots for nested objects, or those of an access \
log: method, uri, path, status, user_agent, remote_addr, remote_user, referer, x_forwarded_for, request_id, authority. A `duration` (seconds) \
says when a request frees its place under a concurrency limit; without one, it does when its lease expires. Lines that are not requests, or \
requests that a service would not answer, are skipped.

What other limits would have denied is reported for each limit as if it were the only one.

  tollgate replay rules --descriptor user={remote_user} access.log
  tollgate replay rules --descriptor user={jwt.sub},path={path} access.log.*.gz
  tollgate replay new-rules --against rules --at-most 0.1 requests.json";

pub(crate) fn command() -> Command {
    Command::new("replay")
        .about(ABOUT)
        .after_help(LINES)
        .arg(rules_arg())
        .arg(
            Arg::new("recordings")
                .value_name("FILE")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .help("Recorded requests, one per line [default: standard input]"),
        )
        .arg(
            Arg::new("descriptor")
                .long("descriptor")
                .value_name("KEY={FIELD},...")
                .action(ArgAction::Append)
                .value_parser(value_parser!(DescriptorTemplate))
                .help("Descriptor of every request whose line has these fields; repeatable"),
        )
        .arg(
            Arg::new("domain")
                .long("domain")
                .value_name("DOMAIN")
                .help("Domain of requests that name none [default: the domain of the rules, if there is only one]"),
        )
        .arg(
            Arg::new("time")
                .long("time")
                .value_name("FIELD")
                .help("JSON field or column with the time [default: time, timestamp, @timestamp, ts, start_time, time_local or time_iso8601]"),
        )
        .arg(
            Arg::new("against")
                .long("against")
                .value_name("RULES")
                .value_parser(value_parser!(PathBuf))
                .help("Other rules to compare with, such as those in force: which requests are newly denied or allowed"),
        )
        .arg(
            Arg::new("at-most")
                .long("at-most")
                .value_name("PERCENT")
                .value_parser(percent)
                .help("Exit with 2 when more than this percentage of the requests is denied"),
        )
        .arg(
            Arg::new("max-requests")
                .long("max-requests")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .help(format!("Most requests to read [default: {DEFAULT_MAX_REQUESTS}]")),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON object"),
        )
}

/// Prints what came of it. What is wrong, a line each, is the error.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Vec<String>> {
    let one = |error: String| vec![error];
    let rules = rules(matches.get_one::<PathBuf>("rules"))?;
    let against = match matches.get_one::<PathBuf>("against") {
        Some(path) => Some(self::rules(Some(path))?),
        None => None,
    };
    let all: Vec<&Ruleset> = std::iter::once(&rules).chain(&against).collect();
    let recording = recording(matches, &all).map_err(one)?;
    let replay =
        |rules| tollgate_rls::replay(rules, &recording).map_err(|error| one(error.to_string()));
    let replayed = replay(&rules)?;
    let difference = match &against {
        Some(against) => Some(replayed.difference(&replay(against)?, &recording)),
        None => None,
    };
    let text = match matches.get_flag("json") {
        true => replayed.json(difference.as_ref()),
        false => match &difference {
            Some(difference) => format!("{replayed}{difference}"),
            None => replayed.to_string(),
        },
    };
    // Without a reader the exit code has to do.
    drop(io::stdout().write_all(text.as_bytes()));
    Ok(verdict(matches, &replayed))
}

fn verdict(matches: &ArgMatches, replayed: &Replay) -> ExitCode {
    match matches.get_one::<f64>("at-most") {
        Some(most) if replayed.denied_percent() > *most => ExitCode::from(TOO_MUCH),
        _ => ExitCode::SUCCESS,
    }
}

fn rules(path: Option<&PathBuf>) -> Result<Ruleset, Vec<String>> {
    let path = path.ok_or_else(|| vec!["no rules given".to_owned()])?;
    check_rules(path, LoadOptions::default())
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

/// What is recorded, of which every one of the rules decides. Those that are asked for are the first.
fn recording<'r>(matches: &ArgMatches, rules: &[&'r Ruleset]) -> Result<Recording<'r>, String> {
    let domain = matches.get_one::<String>("domain").cloned();
    let templates = matches.get_many::<DescriptorTemplate>("descriptor");
    let shape = Shape {
        domain: domain.or_else(|| rules.first()?.only_domain().map(str::to_owned)),
        descriptors: templates.into_iter().flatten().cloned().collect(),
        time: matches.get_one::<String>("time").cloned(),
    };
    let most = matches.get_one::<u32>("max-requests");
    let most = most.copied().unwrap_or(DEFAULT_MAX_REQUESTS);
    let mut recording = Recording::new(shape, rules, most);
    let named = |name: &Path, error: RecordingError| match error {
        RecordingError::TooManyRequests(_) => {
            format!("{}: {error}; --max-requests reads more", name.display())
        }
        error => format!("{}: {error}", name.display()),
    };
    let stdin = Path::new("standard input");
    let files = matches.get_many::<PathBuf>("recordings");
    match files {
        None => {
            let read = recording.read("standard input", io::stdin().lock());
            read.map_err(|error| named(stdin, error))?;
        }
        Some(files) => {
            for path in files {
                let file =
                    File::open(path).map_err(|error| named(path, RecordingError::Read(error)))?;
                let read = recording.read(&path.display().to_string(), BufReader::new(file));
                read.map_err(|error| named(path, error))?;
            }
        }
    }
    recording.finish().map_err(|error| error.to_string())?;
    Ok(recording)
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse();
    let percent = number
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "it is not a percentage from 0 to 100".to_owned())
}
