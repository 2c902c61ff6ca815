//! The command line: `tollgate serve`, `tollgate check`, `tollgate replay` and `tollgate bench`.

mod allocator;
mod check;
mod replay;
mod serve;
mod words;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command};
use std::io::Write;
use std::process::ExitCode;
use tollgate_bench::cli::BenchArgs;
use tollgate_net::process::SmallPages;

#[global_allocator]
static ALLOCATOR: allocator::Mimalloc = allocator::Mimalloc;

fn command() -> Command {
    let bench = Command::new("bench").about("Measure what stores and rate limit services hold");
    Command::new("tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Choose a rate limit, enforce it, and know the load it holds")
        .subcommand_required(true)
        .subcommand(serve::command())
        .subcommand(check::command())
        .subcommand(replay::command())
        .subcommand(BenchArgs::augment_args(bench))
}

fn main() -> ExitCode {
    // Until the server is ready; before anything else touches memory.
    let small_pages = SmallPages::begin();
    let matches = match command().try_get_matches_from(words()) {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    match matches.subcommand() {
        Some(("serve", matches)) => match serve::run(matches, small_pages) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        Some(("check", matches)) => match check::run(matches) {
            Ok(()) => ExitCode::SUCCESS,
            Err(mistakes) => all(&mistakes),
        },
        Some(("replay", matches)) => match replay::run(matches) {
            Ok(code) => code,
            Err(mistakes) => all(&mistakes),
        },
        Some(("bench", matches)) => {
            // Not for the programs that it starts.
            drop(small_pages);
            bench(matches)
        }
        _ => fail("no such command"),
    }
}

/// The words that the program was given; those of `serve` as redis-server takes them.
fn words() -> Vec<std::ffi::OsString> {
    let given: Vec<_> = std::env::args_os().collect();
    let texts: Option<Vec<String>> = given
        .iter()
        .map(|word| word.to_str().map(str::to_owned))
        .collect();
    match texts {
        Some(mut texts) if texts.get(1).is_some_and(|word| word == "serve") => {
            let options = texts.split_off(2);
            let is_file = |word: &str| std::path::Path::new(word).is_file();
            texts.extend(words::gather(options, is_file));
            texts.into_iter().map(Into::into).collect()
        }
        _ => given,
    }
}

/// Runs the bench.
fn bench(matches: &ArgMatches) -> ExitCode {
    match BenchArgs::with_environment(matches) {
        Ok((args, remarks)) => {
            for remark in remarks {
                // Who does not hear it can still read the record.
                drop(writeln!(std::io::stderr(), "{remark}"));
            }
            tollgate_bench::cli::run(args)
        }
        Err(error) => usage(&error),
    }
}

/// Help and version go to standard output; a mistake is one line.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone away needs no help.
            drop(write!(std::io::stdout(), "{text}"));
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => fail(
            "say what to do: `tollgate serve`, `tollgate check`, `tollgate replay`, `tollgate bench`, or `tollgate --help`",
        ),
        _ => fail(&mistake(&text)),
    }
}

/// What is wrong, with what is missing or was meant, of an error as the command line's parser draws it.
fn mistake(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        // No word that begins with two hyphens is meant for a file's name.
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .collect::<Vec<_>>()
        .join(" ")
        .replace(" tip: ", "; ")
}

/// Every mistake is a line.
fn all(mistakes: &[String]) -> ExitCode {
    mistakes
        .iter()
        .fold(ExitCode::FAILURE, |_, mistake| fail(mistake))
}

fn fail(reason: &str) -> ExitCode {
    let line = reason.lines().collect::<Vec<_>>().join(" ");
    // Without standard error the exit code has to do.
    drop(writeln!(std::io::stderr(), "tollgate: {line}"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(args: &[&str]) -> String {
        let args = [&["tollgate"], args].concat();
        let error = command().try_get_matches_from(args).unwrap_err();
        mistake(&error.render().to_string())
    }

    #[test]
    fn a_mistake_says_what_is_missing_and_what_was_meant() {
        let (similar, missing) = (said(&["serve", "--prt", "1"]), said(&["check"]));
        assert_eq!(
            similar,
            "unexpected argument '--prt' found; a similar argument exists: '--port'"
        );
        assert_eq!(
            missing,
            "the following required arguments were not provided: <RULES>"
        );
        let negative = said(&["replay", "rules", "--at-most=-1"]);
        assert_eq!(
            negative,
            "invalid value '-1' for '--at-most <PERCENT>': it is not a percentage from 0 to 100"
        );
        let other = said(&["serv"]);
        assert_eq!(
            other,
            "unrecognized subcommand 'serv'; a similar subcommand exists: 'serve'"
        );
    }
}
