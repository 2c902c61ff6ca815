//! Real client libraries and applications on them, each as a small program of `tests/clients`.

use crate::peers::run;
use std::process::Command;
use tollgate_testkit::{Server, peers};

/// Lets a program use a server of its own; it gets the port and the password and prints `ok` at its end.
fn works(command: Command, more: &[&str]) {
    works_on(
        &["--requirepass", "secret", "--threads", "2"],
        command,
        more,
    );
}

/// As [`works`], on a server with these flags, among them the password.
fn works_on(flags: &[&str], mut command: Command, more: &[&str]) {
    let server = Server::tollgate(flags).unwrap();
    command
        .arg(server.addr().port().to_string())
        .arg("secret")
        .args(more);
    let output = run(command);
    assert_eq!(output.lines().last(), Some("ok"), "{output}");
}

fn python(test: &str, program: &str) {
    if let Some(command) = python_program(test, program) {
        works(command, &[]);
    }
}

fn python_program(test: &str, program: &str) -> Option<Command> {
    let Some(python) = peers::python() else {
        peers::skip(test, "the Python clients");
        return None;
    };
    let mut command = Command::new(python);
    command.arg(peers::clients().join(program));
    Some(command)
}

fn node(test: &str, program: &str, more: &[&str]) {
    if let Some(command) = node_program(test, program) {
        works(command, more);
    }
}

fn node_program(test: &str, program: &str) -> Option<Command> {
    let Some(modules) = peers::node_modules() else {
        peers::skip(test, "the Node clients");
        return None;
    };
    let mut command = Command::new(peers::find_or_skip(test, "node")?);
    command
        .env("NODE_PATH", modules)
        .arg(peers::clients().join(program));
    Some(command)
}

/// Flags of a cluster of one node.
const CLUSTER: &[&str] = &["--requirepass", "secret", "--cluster-enabled", "emulated"];

#[test]
fn redis_py_cluster() {
    if let Some(command) = python_program("redis_py_cluster", "redis_py_cluster.py") {
        works_on(CLUSTER, command, &[]);
    }
}

#[test]
fn ioredis_cluster() {
    for library in ["ioredis", "iovalkey"] {
        if let Some(command) = node_program("ioredis_cluster", "ioredis_cluster.js") {
            works_on(CLUSTER, command, &[library]);
        }
    }
}

#[test]
fn redis_py() {
    python("redis_py", "redis_py.py");
}

#[test]
fn celery() {
    python("celery", "celery_app.py");
}

#[test]
fn rq() {
    python("rq", "rq_jobs.py");
}

#[test]
fn django() {
    python("django", "django_cache.py");
}

#[test]
fn ioredis() {
    node("ioredis", "ioredis.js", &["ioredis"]);
}

#[test]
fn iovalkey() {
    node("iovalkey", "ioredis.js", &["iovalkey"]);
}

#[test]
fn valkey_glide() {
    node("valkey_glide", "glide.js", &[]);
}

#[test]
fn rate_limiter_flexible() {
    node("rate_limiter_flexible", "node_limiters.js", &[]);
}

#[test]
fn bullmq() {
    node("bullmq", "bullmq.js", &[]);
}

#[test]
fn jedis() {
    let Some(jars) = peers::jedis() else {
        return peers::skip("jedis", "jedis");
    };
    let Some(java) = peers::find_or_skip("jedis", "java") else {
        return;
    };
    let mut command = Command::new(java);
    command
        .arg("-cp")
        .arg(jars.join("*"))
        .arg(peers::clients().join("jedis/JedisProgram.java"));
    works(command, &[]);
}

#[test]
fn go_redis() {
    let Some(go) = peers::go() else {
        return peers::skip("go_redis", "go-redis");
    };
    let mut command = Command::new(go);
    command
        .current_dir(peers::clients().join("go"))
        .args(["run", "."]);
    works(command, &[]);
}
