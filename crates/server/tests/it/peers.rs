//! The reference's own tools: redis-cli, redis-benchmark.

use std::process::{Command, Stdio};
use tollgate_testkit::{Server, peers};

/// What a program that must succeed prints.
pub(crate) fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}\n{error}");
    text
}

#[test]
fn redis_cli_connects_and_works() {
    let Some(cli) = peers::find_or_skip("redis_cli_connects_and_works", "redis-cli") else {
        return;
    };
    let server = Server::tollgate(&["--requirepass", "secret"]).unwrap();
    let port = server.addr().port().to_string();
    let call = |args: &[&str]| {
        let mut command = Command::new(&cli);
        command
            .args(["-p", &port, "--no-auth-warning", "-a", "secret"])
            .args(args);
        run(command)
    };
    assert_eq!(call(&["PING"]), "PONG\n");
    assert_eq!(call(&["SET", "key", "a value"]), "OK\n");
    assert_eq!(call(&["-3", "GET", "key"]), "a value\n");
    assert_eq!(call(&["-n", "3", "DBSIZE"]), "0\n");
    assert_eq!(
        call(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "key"]),
        "a value\n"
    );
    assert_eq!(call(&["--scan"]), "key\n");
    assert!(call(&["INFO", "server"]).contains("redis_version:"));
    assert!(call(&["COMMAND", "DOCS", "GET"]).contains("summary"));
}

#[test]
fn redis_benchmark_runs_to_the_end() {
    let Some(benchmark) = peers::find_or_skip("redis_benchmark_runs_to_the_end", "redis-benchmark")
    else {
        return;
    };
    let server = Server::tollgate(&["--threads", "2"]).unwrap();
    let mut command = Command::new(benchmark);
    command.args([
        "-p",
        &server.addr().port().to_string(),
        "-t",
        "set,get,incr",
        "-P",
        "16",
        "-n",
        "100000",
        "--csv",
    ]);
    let text = run(command);
    for name in ["\"SET\"", "\"GET\"", "\"INCR\""] {
        assert!(text.contains(name), "{text}");
    }
    let mut client = server.connect().unwrap();
    assert_eq!(
        client.line("GET counter:__rand_int__").unwrap().as_bytes(),
        Some(&b"100000"[..])
    );
}
