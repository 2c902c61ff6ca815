//! `tollgate bench raw`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::record::samples::Reader;
use crate::report::files::SAMPLES;
use crate::report::{write_samples, write_samples_head};
use crate::run::console::Console;

/// Options of the print-out of single requests.
#[derive(Args, Debug)]
#[command(after_help = super::examples::RAW)]
pub struct RawArgs {
    /// A run made with --raw: its folder, or its samples.raw
    #[arg(value_name = "DIR", default_value = "results/latest")]
    pub run: PathBuf,
    /// Print this step alone, counted from 1 in the order in which they ran
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// File to write instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Prints or writes the requests. A file that was cut off is printed as far as it goes, and is an error.
pub(super) fn run(args: &RawArgs) -> Result<ExitCode, String> {
    let path = match args.run.is_dir() {
        true => args.run.join(SAMPLES),
        false => args.run.clone(),
    };
    let file = File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{}: there is none: a run keeps single requests when it is made with --raw",
            path.display()
        ),
        _ => format!("{}: {error}", path.display()),
    })?;
    let shown = args.out.as_deref().unwrap_or(Path::new("standard output"));
    let out: Box<dyn Write> = match &args.out {
        Some(to) => {
            Box::new(File::create(to).map_err(|error| format!("{}: {error}", to.display()))?)
        }
        None => Box::new(io::stdout().lock()),
    };
    let printed = print(BufReader::new(file), BufWriter::new(out), args.step);
    match printed {
        Ok(Printed { steps, .. }) if args.step.is_some_and(|step| step > steps) => Err(format!(
            "{}: there is no such step: it holds {steps}",
            path.display()
        )),
        Ok(Printed {
            damage: Some(why), ..
        }) => {
            Console::new(false).note(&format!("error: {}: {why}", path.display()));
            Ok(ExitCode::FAILURE)
        }
        Ok(_) => Ok(ExitCode::SUCCESS),
        // Who has seen enough closes the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("{}: {error}", shown.display())),
    }
}

/// What was printed.
struct Printed {
    steps: u64,
    /// Why the file ended early.
    damage: Option<String>,
}

/// Prints what can be read of `input`. Fails if `out` does.
fn print(input: impl io::Read, mut out: impl Write, only: Option<u64>) -> io::Result<Printed> {
    let mut printed = Printed {
        steps: 0,
        damage: None,
    };
    let mut reader = match Reader::new(input) {
        Ok(reader) => reader,
        Err(error) => {
            printed.damage = Some(error.to_string());
            return Ok(printed);
        }
    };
    write_samples_head(&mut out)?;
    while printed.damage.is_none() {
        match reader.next_block() {
            Ok(None) => break,
            Ok(Some(block)) => {
                printed.steps += 1;
                if only.is_none_or(|only| only == printed.steps) {
                    write_samples(&mut out, printed.steps, &block)?;
                }
                let step = printed.steps;
                let why =
                    format!("it ends, or is damaged, within step {step}: what is whole is printed");
                printed.damage = block.cut_off.then_some(why);
            }
            Err(error) => printed.damage = Some(error.to_string()),
        }
    }
    out.flush()?;
    Ok(printed)
}
