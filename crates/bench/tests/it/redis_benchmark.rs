//! The output of `bench redis` beside that of the real redis-benchmark.

use std::process::Command;

use clap::Parser;
use tollgate_bench::cli::RedisArgs;
use tollgate_testkit::{Server, peers};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: RedisArgs,
}

fn ours(words: &[&str], port: u16) -> Result<String, String> {
    let port = port.to_string();
    ours_at(&["-p", &port], words)
}

fn ours_at(address: &[&str], words: &[&str]) -> Result<String, String> {
    let words = ["bench", "--pin", "none"]
        .into_iter()
        .chain(address.iter().copied())
        .chain(words.iter().copied());
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    let mut text = String::new();
    tollgate_bench::redis::run(
        &line.args,
        &mut |line| {
            text.push_str(line);
            text.push('\n');
        },
        &mut |_| {},
    )?;
    Ok(text)
}

/// Words and punctuation with every number as `#`: rows whose count depends on the latencies are left out. redis-benchmark
/// counts in whole milliseconds, so a test that a fast machine ends within one prints its rate as `inf`.
fn shape(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    // The progress of a test stands before a carriage return on the line of its result.
    for line in text
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or(line))
        .map(|line| {
            line.replace("inf requests", "0 requests")
                .replace("\"inf\"", "\"0\"")
        })
    {
        if line.contains("milliseconds (cumulative count") {
            continue;
        }
        let mut shape = String::new();
        for c in line.trim_end().chars() {
            let digit = c.is_ascii_digit() || (c == '.' && shape.ends_with('#'));
            match (digit, shape.ends_with('#')) {
                (true, true) => {}
                (true, false) => shape.push('#'),
                _ => shape.push(c),
            }
        }
        // Columns of numbers are as wide as their numbers.
        lines.push(shape.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    lines.retain(|line| !line.is_empty());
    lines
}

#[test]
fn the_output_is_that_of_redis_benchmark() {
    let test = "the_output_is_that_of_redis_benchmark";
    let Some(program) = peers::find_or_skip(test, "redis-benchmark") else {
        return;
    };
    let Some(server) = Server::redis(&[]).unwrap() else {
        return peers::skip(test, "redis-server");
    };
    let port = server.addr().port();
    for words in [
        &["-n", "200", "-c", "5", "-q"][..],
        &[
            "-n",
            "200",
            "-c",
            "5",
            "--csv",
            "-t",
            "ping,set,lrange_100,mset",
        ],
        &["-n", "200", "-c", "5", "-t", "get", "-P", "4", "-d", "10"],
        &[
            "-n",
            "100",
            "-c",
            "5",
            "-q",
            "-r",
            "10",
            "set",
            "k:__rand_int__",
            "v",
        ],
        &["-n", "100", "-c", "5", "--csv", "-k", "0", "-t", "incr"],
    ] {
        let real = Command::new(&program)
            .args(["-p", &port.to_string()])
            .args(words)
            .output()
            .unwrap();
        let real = String::from_utf8_lossy(&real.stdout).into_owned();
        assert_eq!(
            shape(&ours(words, port).unwrap()),
            shape(&real),
            "{words:?}"
        );
    }
}

#[test]
fn wrong_options_are_errors() {
    for (words, says) in [
        (&["-t", "gett"][..], "not a test"),
        (&["-n", "0"], "0 is not in"),
        (&["-n", "many"], "invalid digit"),
        (&["-c", "2", "--threads", "3"], "cannot share"),
        (&["--cluster"], "--cluster is not supported"),
        (&["--tls"], "--tls is not supported"),
        (&["-x"], "give the command"),
        (&["-q", "--csv"], "cannot be used with"),
        (&["-c", "10000", "-P", "100000"], "give less of"),
        (&["-t", "ping", "-n", "1"], "cannot connect"),
    ] {
        let error = ours_at(&["-s", "/no/such/socket"], words).unwrap_err();
        assert!(error.contains(says), "{words:?}: {error}");
    }
}
