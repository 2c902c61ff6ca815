//! Checks and chores of the repository: `cargo xtask <task>`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its user"
)]

mod agreement;
mod benchmarks;
mod compatibility;
mod fuzz;
mod peers;
mod runs;
mod scripts;
mod services;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  benchmarks [generator]                      run redis-benchmark on redis-server and Tollgate, and our generator beside others, write docs/benchmarks.md
  benchmarks services                         compare the rate limit service with a peer, write docs/benchmarks-services.md
  benchmarks runs [--quick] [--missing] [PART...]
                                              perform the bench's own runs, 12 minutes, keep them under docs/benchmarks
  compatibility                               run the scripts on redis-server and Tollgate, write docs/compatibility.md
  fuzz [--seconds N] [TARGET...]              run the fuzz targets, 60 seconds each unless told otherwise
  peers                                       find or install redis-server, memcached, envoy, client libraries
  scripts [--record] [--tollgate | --server PROGRAM] [FILE...]
                                              compare command scripts with redis-server (or tollgate serve, or what is newer
                                              with a later server), or record its replies
  tidy [--quick]                              floors, lengths, banned calls, files outside the module tree; unless quick, tests that never run
";

/// What went wrong, for a human.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((task, rest)) => match task.as_str() {
            "benchmarks" => benchmarks::run(rest),
            "compatibility" => compatibility::run(rest),
            "fuzz" => fuzz::run(rest),
            "peers" => peers::run(rest),
            "scripts" => scripts::run(rest),
            "tidy" => tidy::run(rest),
            _ => Err(USAGE.into()),
        },
        None => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
