//! Files exchanged with a real redis-server, both ways.

use std::fs;

use tollgate_testkit::peers::skip;
use tollgate_testkit::process::Server;
use tollgate_wire::resp::Value;

use super::{Plain, PlainValue, read, samples, write};

fn text(value: &Value) -> &[u8] {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => bytes,
        other => panic!("not a string: {other:?}"),
    }
}

#[test]
fn redis_server_loads_what_is_written_here() {
    let folder = tollgate_testkit::process::temp_dir().expect("a folder");
    fs::write(folder.join("dump.rdb"), write(&samples())).expect("a file");
    let flags = [
        "--dir",
        folder.to_str().expect("a path"),
        "--dbfilename",
        "dump.rdb",
    ];
    let Some(server) = Server::redis(&flags).expect("redis-server starts with the file") else {
        return skip("redis_server_loads_what_is_written_here", "redis-server");
    };
    let mut client = server.connect().expect("a connection");
    for key in samples() {
        client
            .call(&["SELECT", &key.db.to_string()])
            .expect("SELECT");
        let PlainValue::Bytes(expected) = &key.value else {
            let found = client.call(&[&b"EXISTS"[..], &key.key]).expect("EXISTS");
            assert_eq!(found, Value::Int(0), "limiters are no keys of redis-server");
            continue;
        };
        let found = client.call(&[&b"GET"[..], &key.key]).expect("GET");
        assert_eq!(text(&found), expected, "{:?}", key.key);
        let expiry = client
            .call(&[&b"PEXPIRETIME"[..], &key.key])
            .expect("PEXPIRETIME");
        assert_eq!(expiry, Value::Int(key.expires_at_ms.unwrap_or(-1)));
        let digits = std::str::from_utf8(expected)
            .ok()
            .and_then(|text| text.parse::<i64>().ok());
        if digits.is_some_and(|number| number.to_string().as_bytes() == *expected) {
            let encoding = client
                .call(&[&b"OBJECT"[..], b"ENCODING", &key.key])
                .expect("OBJECT");
            assert_eq!(text(&encoding), b"int");
        }
    }
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn what_redis_server_saves_is_read_here() {
    let folder = tollgate_testkit::process::temp_dir().expect("a folder");
    let flags = [
        "--dir",
        folder.to_str().expect("a path"),
        "--dbfilename",
        "dump.rdb",
    ];
    let Some(server) = Server::redis(&flags).expect("redis-server starts") else {
        return skip("what_redis_server_saves_is_read_here", "redis-server");
    };
    let mut client = server.connect().expect("a connection");
    let mut expected: Vec<_> = samples()
        .into_iter()
        .filter(|key| matches!(key.value, PlainValue::Bytes(_)))
        .collect();
    // Long repetitive strings are compressed.
    expected.push(Plain::string(
        15,
        b"compressed",
        &b"abcabcabd".repeat(5_000),
        Some(4_102_444_800_000),
    ));
    for key in &expected {
        let PlainValue::Bytes(bytes) = &key.value else {
            unreachable!("only strings were kept")
        };
        client
            .call(&["SELECT", &key.db.to_string()])
            .expect("SELECT");
        client.call(&[&b"SET"[..], &key.key, bytes]).expect("SET");
        if let Some(at) = key.expires_at_ms {
            client
                .call(&[&b"PEXPIREAT"[..], &key.key, at.to_string().as_bytes()])
                .expect("PEXPIREAT");
        }
    }
    assert_eq!(
        client.call(&["SAVE"]).expect("SAVE"),
        Value::Simple(b"OK".to_vec())
    );
    let file = fs::read(folder.join("dump.rdb")).expect("the file");
    assert!(
        file.len() < 100_000,
        "long strings are compressed in {} bytes",
        file.len()
    );
    let order = |key: &Plain| (key.db, key.key.clone());
    let mut found = read(&file).expect("a file of redis-server");
    found.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(found, expected);

    fs::remove_dir_all(folder).expect("the folder goes");
}
