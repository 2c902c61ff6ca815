//! Against a real redis-server.

use tollgate_testkit::script::{Peer, Release, TcpExecutor, run_all};
use tollgate_testkit::{Server, peers};
use tollgate_wire::resp::Value;

fn redis(test: &str, flags: &[&str]) -> Option<Server> {
    let server = Server::redis(flags).expect("redis-server starts");
    if server.is_none() {
        peers::skip(test, "redis-server");
    }
    server
}

#[test]
fn every_script_holds_on_a_real_redis_server() {
    let Some(server) = redis("every_script_holds_on_a_real_redis_server", &[]) else {
        return;
    };
    run_all(&mut TcpExecutor::new(Peer::Redis, server.addr()));
}

/// The sections about what came after the reference, on servers that have it.
fn newer_sections_hold_on(name: &str) {
    let Some(program) = peers::find_where_packaged(name) else {
        return;
    };
    let server = Server::like_redis(&program, &[]).expect("the server starts");
    let release = Release::of(&mut server.connect().expect("it listens")).expect("its release");
    run_all(&mut TcpExecutor::new(Peer::Newer(release), server.addr()));
}

#[test]
fn newer_sections_hold_on_a_later_redis() {
    newer_sections_hold_on(peers::LATER_REDIS);
}

#[test]
fn newer_sections_hold_on_a_later_valkey() {
    newer_sections_hold_on(peers::LATER_VALKEY);
}

#[test]
fn a_server_takes_flags_and_ends_with_its_guard() {
    let Some(server) = redis(
        "a_server_takes_flags_and_ends_with_its_guard",
        &["--requirepass", "secret"],
    ) else {
        return;
    };
    let mut client = server.connect().expect("the server listens");
    assert_eq!(
        client.line("PING").expect("an answer"),
        Value::Error(b"NOAUTH Authentication required.".to_vec())
    );
    assert_eq!(
        client.line("AUTH secret").expect("an answer"),
        Value::Simple(b"OK".to_vec())
    );
    let (dir, addr) = (server.dir().to_path_buf(), server.addr());
    assert!(dir.is_dir());
    drop(server);
    assert!(!dir.exists());
    assert!(tollgate_testkit::Client::connect(addr).is_err());
    assert_eq!(client.until_closed().expect("the end is seen"), b"");
}
