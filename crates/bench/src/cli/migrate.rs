//! `tollgate bench migrate`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::report::Lang;
use crate::report::files::read_run;
use crate::report::migrate::{Plan, System};
use crate::run::console::Console;

/// Options of the migration checklist.
#[derive(Args, Debug)]
#[command(after_help = super::examples::MIGRATE)]
pub struct MigrateArgs {
    /// System in use
    #[arg(long)]
    pub from: System,
    /// System to move to
    #[arg(long)]
    pub to: System,
    /// Folder of a run that measured both (or one of them); without it every number is left open
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Language of the text
    #[arg(long, value_enum, default_value_t = Lang::En)]
    pub lang: Lang,
    /// File to write instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Prints or writes the checklist.
pub(super) fn run(args: &MigrateArgs) -> Result<ExitCode, String> {
    if args.from == args.to {
        return Err(format!(
            "{0} to {0} is not a migration: give two different systems",
            args.from.name()
        ));
    }
    let record = args
        .run
        .as_deref()
        .map(read_run)
        .transpose()
        .map_err(|error| error.to_string())?;
    let plan = Plan {
        from: args.from,
        to: args.to,
        run: record.as_ref(),
        lang: args.lang,
    };
    let command: Vec<String> = std::env::args().skip(1).collect();
    let text = plan.markdown(&format!("tollgate {}", command.join(" ").replace('`', "'")));
    match &args.out {
        Some(path) => {
            fs::write(path, &text).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => Console::new(false).line(text.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::{Parser, ValueEnum};

    use super::*;
    use crate::cli::args::RunArgs;
    use crate::cli::gather::{check_apart, check_names};
    use crate::target::url::TargetUrl;

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn the_command_that_measures_both_is_one_that_the_bench_takes() {
        let systems = System::value_variants();
        let pairs = systems
            .iter()
            .flat_map(|from| systems.iter().map(move |to| (*from, *to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let plan = Plan {
                from,
                to,
                run: None,
                lang: Lang::En,
            };
            let text = plan.markdown("");
            let (_, rest) = text.split_once("`tollgate bench --").unwrap();
            let (words, _) = rest.split_once('`').unwrap();
            let words = format!("bench --{words}");
            let args = Bench::try_parse_from(words.split(' ')).unwrap().run;
            check_names(&args.only).unwrap_or_else(|why| panic!("{words}: {why}"));
            let urls = args.targets.iter().map(|text| TargetUrl::parse(text));
            let urls: Vec<TargetUrl> = urls.collect::<Result<_, _>>().unwrap();
            check_apart(&args.only, &urls).unwrap();
            assert_eq!(args.only.len() + urls.len(), 2, "{words}");
        }
    }
}
