//! Real client libraries and applications on them, each as a small program of `tests/clients`.

use crate::peers::run;
use std::process::Command;
use tollgate_testkit::{Server, peers};

/// Lets a program use a server of its own; it gets the port and the password and prints `ok` at its end.
fn works(mut command: Command, more: &[&str]) {
    let server = Server::tollgate(&["--requirepass", "secret", "--threads", "2"]).unwrap();
    command
        .arg(server.addr().port().to_string())
        .arg("secret")
        .args(more);
    let output = run(command);
    assert_eq!(output.lines().last(), Some("ok"), "{output}");
}

fn python(test: &str, program: &str) {
    let Some(python) = peers::python() else {
        return peers::skip(test, "the Python clients");
    };
    let mut command = Command::new(python);
    command.arg(peers::clients().join(program));
    works(command, &[]);
}

fn node(test: &str, program: &str, more: &[&str]) {
    let Some(modules) = peers::node_modules() else {
        return peers::skip(test, "the Node clients");
    };
    let Some(node) = peers::find_or_skip(test, "node") else {
        return;
    };
    let mut command = Command::new(node);
    command
        .env("NODE_PATH", modules)
        .arg(peers::clients().join(program));
    works(command, more);
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
