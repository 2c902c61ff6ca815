//! The whole store to a file and back.

use tollgate_engine::Loaded;
use tollgate_wire::resp::Value;

use super::{Client, NOW, engine};

/// Everything a client can see, in order.
fn seen(client: &mut Client) -> Vec<String> {
    let mut found = Vec::new();
    for db in 0..16 {
        client.session.db = tollgate_keyspace::DbIndex::new(db).expect("a database");
        let Value::Array(keys) = client.call(&["KEYS", "*"]) else {
            panic!("not a list")
        };
        for key in keys {
            let Value::Bulk(key) = key else {
                panic!("not a key")
            };
            let value = client.bytes(&[&b"GET"[..], &key]);
            let take = client.bytes(&[&b"RL.TAKE"[..], &key, b"FIXED", b"9", b"60000", b"PEEK"]);
            let cell = client.bytes(&[&b"CL.THROTTLE"[..], &key, b"9", b"10", b"60", b"0"]);
            let expiry = client.int(&[&b"PEXPIRETIME"[..], &key]);
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            found.push(format!(
                "{db} {} {expiry} {} {} {}",
                shown(&key),
                shown(&value),
                shown(&take),
                shown(&cell)
            ));
        }
    }
    found.sort();
    found
}

#[test]
fn what_was_saved_is_what_is_loaded() {
    let source = engine(64);
    let mut client = Client::new(&source);
    for number in 0..2_000 {
        client.call(&["SET", &format!("key:{number}"), &format!("value {number}")]);
        client.call(&[
            "SET",
            &format!("number:{number}"),
            &number.to_string(),
            "PX",
            &(1_000 + number).to_string(),
        ]);
    }
    client.call(&["RL.TAKE", "window", "FIXED", "9", "60000", "COST", "4"]);
    client.call(&["CL.THROTTLE", "bucket", "9", "10", "60", "3"]);
    client.call(&["SET", "gone", "x", "PX", "1"]);
    client.session.db = tollgate_keyspace::DbIndex::new(9).expect("a database");
    client.call(&["SET", "key:1", "in another database"]);
    client.call(&["RL.TAKE", "window", "FIXED", "9", "60000"]);

    client.now = NOW.plus(500_000_000);
    let mut file = Vec::new();
    source
        .save(&mut file, client.now, &mut |_| true)
        .expect("memory");
    let target = engine(8);
    let later = NOW.plus(1_500_000_000);
    let loaded = target.load(&mut &file[..], later).expect("a good file");
    // Of the numbers those that expire within the second between are left out.
    assert_eq!(
        loaded,
        Loaded {
            keys: 4_004 - 500,
            expired: 500,
            stream_db: None,
        }
    );
    let mut copy = Client::new(&target);
    (client.now, copy.now) = (later, later);
    let (copied, original) = (seen(&mut copy), seen(&mut client));
    for (copied, original) in copied.iter().zip(&original) {
        assert_eq!(copied, original);
    }
    assert_eq!(copied.len(), original.len());
}

#[test]
fn a_damaged_file_is_refused() {
    let source = engine(8);
    Client::new(&source).call(&["SET", "k", "v"]);
    let mut file = Vec::new();
    source.save(&mut file, NOW, &mut |_| true).expect("memory");
    let last = file.len() - 1;
    file[last] ^= 1;
    let error = engine(8)
        .load(&mut &file[..], NOW)
        .expect_err("a wrong checksum")
        .to_string();
    assert!(error.contains("damaged"), "{error}");
}

#[test]
fn nothing_goes_by_itself_while_data_are_read() {
    let engine = engine(4);
    let mut client = Client::new(&engine);
    client.call(&["SET", "key", "v", "PX", "10"]);
    client.call(&["HSET", "hash", "f", "v"]);
    client.call(&["HPEXPIRE", "hash", "10", "FIELDS", "1", "f"]);
    engine.set_limit("maxmemory", 1);
    engine.set_limit("maxmemory-policy", 3);
    engine.follow_memory_limits();
    let later = NOW.plus(1_000_000_000);
    engine.refuse_while_loading(true);
    assert_eq!(engine.expire_step(later, 1_000).removed, 0);
    assert!(!engine.make_room(later));
    let keys = |engine: &tollgate_engine::Engine| engine.database_sizes()[0].keys;
    assert_eq!(keys(&engine), 2);
    engine.refuse_while_loading(false);
    assert_eq!(engine.expire_step(later, 1_000).removed, 2);
    assert_eq!(keys(&engine), 0);
}
