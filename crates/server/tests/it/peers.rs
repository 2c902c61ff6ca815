//! Real clients: redis-cli, redis-benchmark, redis-py, ioredis.

use std::process::{Command, Stdio};
use tollgate_testkit::{Server, peers, repo_root};

fn run(mut command: Command) -> String {
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

#[test]
fn redis_py_connects_and_works() {
    let Some(python) = peers::python() else {
        return peers::skip("redis_py_connects_and_works", "redis-py");
    };
    client_program(Command::new(python), "redis_py.py");
}

#[test]
fn ioredis_connects_and_works() {
    let test = "ioredis_connects_and_works";
    let Some(modules) = peers::node_modules() else {
        return peers::skip(test, "ioredis");
    };
    let Some(node) = peers::find_or_skip(test, "node") else {
        return;
    };
    let mut command = Command::new(node);
    command.env("NODE_PATH", modules);
    client_program(command, "ioredis.js");
}

/// Runs a program of `tests/clients`, which gets the port and the password and prints `ok` at its end.
fn client_program(mut command: Command, name: &str) {
    let server = Server::tollgate(&["--requirepass", "secret"]).unwrap();
    command
        .arg(repo_root().join("tests/clients").join(name))
        .arg(server.addr().port().to_string())
        .arg("secret");
    assert_eq!(run(command).lines().last(), Some("ok"));
}
