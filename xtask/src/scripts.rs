//! `scripts`: runs command scripts on a server started for them, or writes down its replies.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_testkit::Server;
use tollgate_testkit::script::{self, Peer, Release, Script, TcpExecutor};

use crate::Failure;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let (mut recording, mut tollgate, mut newer) = (false, false, None);
    let mut files = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--record" => recording = true,
            "--tollgate" => tollgate = true,
            "--server" => {
                newer = Some(args.next().ok_or("--server needs the path of a program")?);
            }
            flag if flag.starts_with('-') => {
                return Err(
                    format!("unknown flag {flag}: --record, --tollgate or --server").into(),
                );
            }
            file => files.push(PathBuf::from(file)),
        }
    }
    if files.is_empty() {
        files = script::list()?;
    }
    let (peer, server) = match (tollgate, newer) {
        (true, Some(_)) => return Err("--tollgate or --server, not both".into()),
        (true, None) => (Peer::Tollgate, Server::tollgate(&[])?),
        (false, Some(program)) => newer_server(Path::new(program))?,
        (false, None) => (
            Peer::Redis,
            Server::redis(&[])?
                .ok_or("redis-server is neither on PATH nor in .peers: cargo xtask peers")?,
        ),
    };
    let mut executor = TcpExecutor::new(peer, server.addr());
    if recording {
        record(&files, &mut executor)
    } else {
        compare(&files, &mut executor)
    }
}

/// A later server than the reference, to be asked about what came with it.
fn newer_server(program: &Path) -> Result<(Peer, Server), Failure> {
    let server = Server::like_redis(program, &[])
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let release = Release::of(&mut server.connect()?)?;
    println!("{}: {release}", program.display());
    Ok((Peer::Newer(release), server))
}

/// Records every file that can be recorded; one that cannot does not keep the others back.
fn record(files: &[PathBuf], executor: &mut TcpExecutor) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for file in files {
        match record_one(file, executor) {
            Ok(changed) => println!(
                "{}: {}",
                file.display(),
                if changed { "recorded" } else { "unchanged" }
            ),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n").into())
    }
}

fn record_one(file: &Path, executor: &mut TcpExecutor) -> Result<bool, Failure> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let recorded = script::record(file, &text, executor)?;
    let changed = recorded != text;
    if changed {
        fs::write(file, recorded)?;
    }
    Ok(changed)
}

fn compare(files: &[PathBuf], executor: &mut TcpExecutor) -> Result<(), Failure> {
    let mut failures = 0;
    for file in files {
        let script = Script::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let report = script::run(&script, executor);
        for failure in &report.failures {
            println!("{failure}");
        }
        for (section, reason) in &report.skipped {
            println!("{}: {section}: skipped: {reason}", file.display());
        }
        println!(
            "{}: {} steps, {} failed",
            file.display(),
            report.commands,
            report.failures.len()
        );
        failures += report.failures.len();
    }
    if failures > 0 {
        Err(format!("{failures} steps failed").into())
    } else {
        Ok(())
    }
}
