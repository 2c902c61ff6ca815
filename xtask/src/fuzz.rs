//! `fuzz`: builds the fuzz targets with coverage counters and runs each for a while.
//!
//! The compiler flags are those of cargo-fuzz without its sanitizer, which only a nightly compiler has: the pass that
//! places the counters is part of the stable one, so nothing needs to be installed but a C++ compiler for libFuzzer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::Failure;

/// Counters and traces that libFuzzer steers by.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The target that must fail.
const CANARY: &str = "canary";

/// Most time that it is given: it ends as soon as it has failed.
const CANARY_SECONDS: u32 = 60;

/// Memory of one target, MiB; more is a finding.
const MEMORY_MIB: u32 = 1024;

/// Time of one input, seconds; more is a finding.
const INPUT_SECONDS: u32 = 10;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut seconds = 60u32;
    let mut names = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--seconds" => seconds = rest.next().ok_or("--seconds needs a number")?.parse()?,
            flag if flag.starts_with('-') => {
                return Err("usage: cargo xtask fuzz [--seconds N] [TARGET...]".into());
            }
            name => names.push(name.to_owned()),
        }
    }
    let home = tollgate_testkit::repo_root().join("fuzz");
    let all = targets(&home)?;
    if names.is_empty() {
        names.clone_from(&all);
    }
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        return Err(format!("no target {unknown}; there are: {}", all.join(", ")).into());
    }
    let folder = build(&home)?;
    // Alone, since all others are worth nothing without it.
    if let Some(at) = names.iter().position(|name| name == CANARY) {
        fuzz(
            &home,
            &folder,
            &names.remove(at),
            seconds.max(CANARY_SECONDS),
        )?;
    }
    // Each target is one thread.
    let left = Mutex::new(names.iter());
    let next = || left.lock().expect("nobody panics").next();
    let run_some = || -> Result<(), String> {
        while let Some(name) = next() {
            fuzz(&home, &folder, name, seconds).map_err(|failure| failure.to_string())?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run_some)).collect();
        let ended = running.into_iter().map(|one| one.join().expect("no panic"));
        // All are waited for, whichever fails.
        ended.fold(Ok(()), Result::and)
    })?;
    Ok(())
}

/// Names of the targets, the canary first.
fn targets(home: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(home.join("targets"))? {
        let path = entry?.path();
        names.extend(
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
        );
    }
    names.sort_by_key(|name| (name != CANARY, name.clone()));
    Ok(names)
}

/// Builds all targets; returns the folder of the binaries.
fn build(home: &Path) -> Result<PathBuf, Failure> {
    let version = Command::new("rustc").arg("-vV").output()?;
    let version = String::from_utf8(version.stdout)?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc does not name its host")?;
    // Naming the target keeps the flags away from build scripts, which have no fuzzer to link.
    let status = tollgate_testkit::cargo()
        .args(["build", "--quiet", "--release", "--bins", "--target", host])
        .args([
            "--manifest-path",
            &home.join("Cargo.toml").display().to_string(),
        ])
        .args(["--target-dir", &home.join("target").display().to_string()])
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(
            "the fuzz targets do not build (libFuzzer needs a C++ compiler, apt: g++)".into(),
        );
    }
    Ok(home.join("target").join(host).join("release"))
}

fn fuzz(home: &Path, folder: &Path, name: &str, seconds: u32) -> Result<(), Failure> {
    let artifacts = home.join("artifacts").join(name);
    let corpus = home.join("corpus").join(name);
    fs::create_dir_all(&artifacts)?;
    if name == CANARY {
        // It must find its way without a corpus of earlier runs.
        fs::remove_dir_all(&corpus).ok();
    }
    fs::create_dir_all(&corpus)?;
    let mut command = Command::new(folder.join(name));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1")
        .arg(&corpus);
    let seeds = home.join("seeds").join(name);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    let output = command.stdin(Stdio::null()).output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let runs = log
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .unwrap_or("?")
        .trim();
    let covered = log
        .lines()
        .rev()
        .find_map(|line| line.split_once("cov: "))
        .and_then(|(_, rest)| rest.split(' ').next())
        .unwrap_or("?");
    match (name == CANARY, output.status.success()) {
        (false, true) => println!("{name:16} {runs} runs, {covered} edges, nothing found"),
        (true, false) => {
            println!("{name:16} found as it must be");
            fs::remove_dir_all(&artifacts)?;
        }
        (true, true) => {
            return Err(format!(
                "the canary was not found in {runs} runs: the coverage feedback does not work"
            )
            .into());
        }
        (false, false) => {
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            tail.iter().rev().for_each(|line| println!("{line}"));
            return Err(format!("{name} failed; its input is in {}", artifacts.display()).into());
        }
    }
    Ok(())
}
