//! Values of every type and encoding: read and written here, and exchanged with a real redis-server.

use std::fs;

use proptest::prelude::*;
use tollgate_containers::hash::{Hash, Keep};
use tollgate_keyspace::{Object, Value, ValueRef};
use tollgate_limiter::{LimiterState, Timestamp};
use tollgate_persist::rdb::{
    PayloadError, Reader, Shapes, dump_value, restore_body, restore_value,
};
use tollgate_testkit::client::Client;
use tollgate_testkit::peers::skip;
use tollgate_testkit::process::{Server, temp_dir};
use tollgate_wire::resp::Value as Resp;

/// Fills a server with a key of every type and encoding, and returns the keys.
fn fill(client: &mut Client) -> Vec<String> {
    let words = |count: usize, word: &dyn Fn(usize) -> String| {
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    };
    let long = "v".repeat(100);
    let mut commands = vec![
        "SET int 12345".to_owned(),
        "SET big 1234567890123456789".to_owned(),
        "SET negative -129".to_owned(),
        "SET empty \"\"".to_owned(),
        "SET short abc".to_owned(),
        format!("SET compressed {}", "abcabcabd".repeat(500)),
        "RPUSH list a 1 -1 70000 12345678901234567890 \"\"".to_owned(),
        format!("RPUSH nodes {}", words(3000, &|at| format!("element{at}"))),
        format!("RPUSH large {} {} x", "y".repeat(20_000), long),
        "SADD ints 3 1 2".to_owned(),
        "SADD ints32 100000 -100000 1".to_owned(),
        "SADD ints64 9223372036854775807 -9223372036854775808".to_owned(),
        "SADD set a b 5".to_owned(),
        format!("SADD members {}", words(700, &|at| at.to_string())),
        "HSET hash f v g 1 \"\" \"\"".to_owned(),
        format!("HSET fields f {long}"),
        format!("HSET many {}", words(600, &|at| format!("f{at} {at}"))),
        "ZADD zset 1 a 1.5 b -inf c inf d -0 e 3 f 1e300 g 0.1 h 123456789012345680000 i"
            .to_owned(),
        format!("ZADD tree 1.25 {long} 0.1 b -5 c"),
        format!("ZADD ranks {}", words(300, &|at| format!("{at} m{at}"))),
        "XADD stream 1-1 f v g w".to_owned(),
        "XADD stream 2-0 f 5 g -5".to_owned(),
        "XADD stream 3-0 other x".to_owned(),
        "XADD stream 4-0 f a g b".to_owned(),
        "XDEL stream 2-0".to_owned(),
        "XGROUP CREATE stream g 0".to_owned(),
        "XGROUP CREATE stream h $".to_owned(),
        "XGROUP CREATECONSUMER stream g idle".to_owned(),
        "XREADGROUP GROUP g bob COUNT 2 STREAMS stream >".to_owned(),
        "XREADGROUP GROUP g ann COUNT 1 STREAMS stream >".to_owned(),
        "XGROUP CREATE nothing g 0 MKSTREAM".to_owned(),
    ];
    commands.extend((1..400).map(|at| format!("XADD log {at} field {at} name value{at}")));
    let keys = [
        "int",
        "big",
        "negative",
        "empty",
        "short",
        "compressed",
        "list",
        "nodes",
        "large",
        "ints",
        "ints32",
        "ints64",
        "set",
        "members",
        "hash",
        "fields",
        "many",
        "zset",
        "tree",
        "ranks",
        "stream",
        "nothing",
        "log",
    ];
    for command in commands {
        let reply = client.line(&command).expect("an answer");
        assert!(!matches!(reply, Resp::Error(_)), "{command}: {reply:?}");
    }
    keys.map(str::to_owned).to_vec()
}

fn bulk(reply: Resp) -> Vec<u8> {
    match reply {
        Resp::Bulk(bytes) | Resp::Simple(bytes) => bytes,
        other => panic!("not a string: {other:?}"),
    }
}

/// What redis-server says of the content of a key, and how it keeps it.
fn content(client: &mut Client, key: &str) -> (Vec<u8>, Vec<u8>) {
    let digest = match client.call(&["DEBUG", "DIGEST-VALUE", key]).expect("DEBUG") {
        Resp::Array(digests) => bulk(digests.into_iter().next().expect("a digest")),
        other => panic!("no digest: {other:?}"),
    };
    let encoding = bulk(client.call(&["OBJECT", "ENCODING", key]).expect("OBJECT"));
    (digest, encoding)
}

/// A real redis-server, which tells digests.
fn redis(name: &str, flags: &[&str]) -> Option<(Server, Client)> {
    let flags = [&["--enable-debug-command", "yes"][..], flags].concat();
    let Some(server) = Server::redis(&flags).expect("redis-server starts") else {
        skip(name, "redis-server");
        return None;
    };
    let client = server.connect().expect("a connection");
    Some((server, client))
}

#[test]
fn payloads_go_both_ways() {
    let Some((_server, mut client)) = redis("payloads_go_both_ways", &[]) else {
        return;
    };
    for key in fill(&mut client) {
        let theirs = bulk(client.call(&["DUMP", &key]).expect("DUMP"));
        let value = restore_value(&theirs, &Shapes::default()).expect(&key);
        let ours = dump_value(value.as_ref());
        let again = restore_value(&ours, &Shapes::default()).expect(&key);
        assert_eq!(again, value, "{key}");
        let copy = format!("{key}-copy");
        let restored = client
            .call(&[b"RESTORE", copy.as_bytes(), b"0", &ours])
            .expect("RESTORE");
        assert_eq!(restored, Resp::Simple(b"OK".to_vec()), "{key}");
        assert_eq!(
            content(&mut client, &copy),
            content(&mut client, &key),
            "{key}"
        );
        // How strings are compressed and the order in a hash table are the writer's affair; nothing else is.
        let plain = [
            "int", "big", "negative", "empty", "short", "ints", "nothing",
        ];
        assert!(theirs == ours || !plain.contains(&&*key), "{key}");
    }
}

#[test]
fn files_of_redis_server_are_read() {
    let folder = temp_dir().expect("a folder");
    let path = folder.to_str().expect("a path");
    let flags = ["--dir", path, "--dbfilename", "dump.rdb"];
    let Some((_server, mut client)) = redis("files_of_redis_server_are_read", &flags) else {
        return;
    };
    let keys = fill(&mut client);
    client.call(&["SAVE"]).expect("SAVE");
    let file = fs::read(folder.join("dump.rdb")).expect("the file");
    let mut source = &file[..];
    let mut reader = Reader::new(&mut source).expect("a file");
    let mut found = 0;
    while let Some(entry) = reader.next().expect("a whole file") {
        let key = String::from_utf8(entry.key).expect("text");
        let theirs = bulk(client.call(&["DUMP", &key]).expect("DUMP"));
        let value = restore_value(&theirs, &Shapes::default()).expect(&key);
        assert_eq!(entry.value, value, "{key}");
        found += 1;
    }
    assert_eq!(found, keys.len());
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn limiters_have_payloads_of_their_own() {
    for state in [
        LimiterState::FixedWindow { count: 7 },
        LimiterState::Gcra {
            tat: Timestamp::from_nanos(-5),
        },
    ] {
        let payload = dump_value(ValueRef::Limiter(state));
        let value = restore_value(&payload, &Shapes::default());
        assert_eq!(value, Ok(Value::Limiter(state)));
    }
}

#[test]
fn footers_are_checked() {
    let payload = dump_value(ValueRef::Bytes(b"text"));
    for at in 0..payload.len() {
        let mut wrong = payload.clone();
        wrong[at] ^= 1;
        let cut = restore_value(&payload[..at], &Shapes::default());
        let flipped = restore_value(&wrong, &Shapes::default());
        assert_eq!(
            (cut, flipped),
            (Err(PayloadError::Footer), Err(PayloadError::Footer))
        );
    }
}

/// A payload whose footer is right.
fn sealed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// CRC-64 by Jones, a bit at a time.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            (crc >> 1)
                ^ if crc & 1 == 1 {
                    0x95AC_9329_AC4B_C9B5
                } else {
                    0
                }
        })
    })
}

fn restored(body: &[u8]) -> Result<Value, PayloadError> {
    restore_value(&sealed(body, 10), &Shapes::default())
}

/// The same content as this body of another encoding.
fn same(old: &[u8], new: &[u8]) {
    let (old, new) = (restored(old), restored(new));
    assert!(new.is_ok(), "{new:?}");
    assert_eq!(old, new);
}

#[test]
fn older_and_newer_encodings_are_read() {
    let ziplist =
        b"\x14\x00\x00\x00\x10\x00\x00\x00\x04\x00\x00\x01a\x03\xf2\x02\x01b\x03\xfe\x05\xff";
    let mut ziplist = ziplist.to_vec();
    ziplist[0] = ziplist.len() as u8;
    ziplist[4] = ziplist.len() as u8 - 4;
    let packed = |kind: u8, bytes: &[u8]| [&[kind, bytes.len() as u8][..], bytes].concat();
    let listpack = b"\x12\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x05\x01\xff";
    let mut listpack = listpack.to_vec();
    listpack[0] = listpack.len() as u8;
    // A list of a, 1, b, 5; a hash a = 1, b = 5; a sorted set a 1, b 5.
    let list = b"\x01\x04\x01a\xc0\x01\x01b\xc0\x05";
    same(&packed(10, &ziplist), list);
    same(&[&[14, 1][..], &packed(0, &ziplist)[1..]].concat(), list);
    same(
        &[&[18, 2, 2][..], &packed(0, &listpack)[1..], &[1, 1, b'z']].concat(),
        b"\x01\x05\x01a\x011\x01b\x015\x01z",
    );
    let hash = b"\x04\x02\x01a\x011\x01b\x015";
    same(&packed(13, &ziplist), hash);
    same(&packed(16, &listpack), hash);
    same(b"\x09\x0d\x02\x01a\x01\x001\x01b\x01\x015x\xff", hash);
    let zset = b"\x03\x02\x01a\x011\x01b\x015";
    same(&packed(12, &ziplist), zset);
    same(&packed(17, &listpack), zset);
    same(
        b"\x03\x02\x01a\x011\x01b\xfe",
        b"\x05\x02\x01a\0\0\0\0\0\0\xf0\x3f\x01b\0\0\0\0\0\0\xf0\x7f",
    );
    same(&packed(20, &listpack), b"\x02\x04\x01a\x011\x01b\x015");
}

#[test]
fn hashes_keep_the_expiries_of_their_fields() {
    let at = 4_102_444_800_000_i64;
    let expiries = |value: &Value| match value {
        Value::Object(object) => match &**object {
            Object::Hash(hash) => ["a", "b", "c"]
                .map(|name| hash.get(name.as_bytes()).expect("a field").expires_at_ms),
            _ => panic!("no hash"),
        },
        _ => panic!("no collection"),
    };
    // As 7.4 writes them: the first expiry, then for each field the distance from it and one.
    let mut body = vec![24];
    body.extend_from_slice(&at.to_le_bytes());
    body.extend_from_slice(b"\x03\x00\x01a\x011\x01\x01b\x012\x0b\x01c\x013");
    let value = restored(&body).expect("a hash");
    assert_eq!(expiries(&value), [None, Some(at), Some(at + 10)]);
    let payload = dump_value(value.as_ref());
    assert_eq!(
        payload[payload.len() - 10..][..2],
        [12, 0],
        "the version that knows them"
    );
    assert_eq!(
        restore_value(&payload, &Shapes::default()).as_ref(),
        Ok(&value)
    );
    // The same in a hash too large to be compact.
    let mut shapes = Shapes::default();
    shapes.hash.max_entries = 1;
    let large = restore_value(&payload, &shapes).expect("a hash");
    assert_eq!(
        restore_value(&dump_value(large.as_ref()), &shapes),
        Ok(value)
    );
    // As the release candidates wrote them.
    let mut body = vec![22, 3, 0];
    body.extend_from_slice(b"\x01a\x011\x81");
    body.extend_from_slice(&(at as u64).to_be_bytes());
    body.extend_from_slice(b"\x01b\x012\x81");
    body.extend_from_slice(&(at as u64 + 10).to_be_bytes());
    body.extend_from_slice(b"\x01c\x013");
    let value = restored(&body).expect("a hash");
    assert_eq!(expiries(&value), [None, Some(at), Some(at + 10)]);
}

/// What DUMP of Redis 8.6.3 gives of a stream of two entries and three IDs of two producers.
#[test]
fn streams_keep_the_ids_of_producers_byte_for_byte() {
    let hex = "1a0110000003a352944000000000000000000129290000000f0002010001010181660200010201000100018176020401 \
         02010101dfff028176020401ff0281000003a3529440010081000003a352944000010000020032070201700201628100 \
         0003a35294400001016181000003a35294400100017101c00181000003a3529440000103000d00c178efa87c7f4b3d";
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let payload: Vec<u8> = digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(pair, 16).expect("a byte")
        })
        .collect();
    let value = restore_value(&payload, &Shapes::default()).expect("a stream");
    assert_eq!(dump_value(value.as_ref()), payload);
    let Value::Object(object) = &value else {
        panic!("no collection");
    };
    let Object::Stream(stream) = &**object else {
        panic!("no stream");
    };
    let producers = stream.producers().expect("producers");
    let memory = producers.memory();
    assert_eq!((memory.duration_secs, memory.most), (50, 7));
    assert_eq!((producers.counts(0), producers.added), ((2, 3), 3));
    // A stream of Redis 8.6 without any is as one of Redis 7.0.
    let plain =
        restored(b"\x1a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x64\x40\x64\x00\x00\x00");
    assert_eq!(dump_value(plain.expect("a stream").as_ref())[0], 19);
}

#[test]
fn hostile_bodies_are_refused() {
    for body in [
        &b""[..],
        b"\xff",
        b"\x01\x00",
        b"\x04\x00",
        b"\x0e\x00",
        b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x02\x02\x01a\x01a",
        b"\x04\x02\x01a\x01b\x01a\x01c",
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
        b"\x03\x01\x01a\xfd",
        b"\x03\x01\x01a\x01x",
        b"\x0b\x0a\x02\0\0\0\x02\0\0\0\x01\0",
        b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x01\0",
        b"\x12\x01\x03\x01a",
        b"\x10\x07\x07\0\0\0\0\0\xff",
        b"\x13\x01\x03abc",
        b"\x13\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x13\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01g\x00\x00\x00\x01",
        // A stream that remembers for no time, as many as never, and a producer twice.
        b"\x1a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00",
        b"\x1a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x67\x11\x00\x00\x00",
        b"\x1a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x05\x02\x01p\x01\x011\x01\x01\x01p\x01\x012\x01\x01\x00\x00",
        b"\x06\x00",
        b"\xc8\x03\0\0\0\0\0\0\0\0",
    ] {
        assert_eq!(
            restored(body),
            Err(PayloadError::Value),
            "{}",
            body.escape_ascii()
        );
    }
    assert_eq!(
        restore_value(&sealed(b"\0\x01a", 14), &Shapes::default()),
        Err(PayloadError::Footer)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_body_ends_in_an_answer(kind in 0..27_u8, tail in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = restored(&[&[kind][..], &tail].concat()) {
            let again = restore_value(&dump_value(value.as_ref()), &Shapes::default());
            prop_assert_eq!(again, Ok(value));
        }
    }
}

/// Every byte of every seed of the fuzzer, changed in a few ways: each gives an answer, and what is read can be written.
#[test]
fn damaged_bodies_end_in_an_answer() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/dump_payload");
    let shapes = Shapes::default();
    for seed in fs::read_dir(seeds).expect("the seeds") {
        let body = fs::read(seed.expect("a seed").path()).expect("its bytes");
        assert!(restore_body(&body, &shapes).is_ok());
        for at in 0..body.len() {
            for change in [1, 2, 4, 16, 64, 128, 0x7F, 0xFF] {
                let mut damaged = body.clone();
                damaged[at] ^= change;
                if let Ok(value) = restore_body(&damaged, &shapes) {
                    let again = restore_value(&dump_value(value.as_ref()), &shapes);
                    assert_eq!(again.as_ref(), Ok(&value), "{}", damaged.escape_ascii());
                }
            }
        }
    }
}

/// Texts of every kind that compression meets, by a simple generator.
fn texts() -> Vec<Vec<u8>> {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut texts = vec![
        b"a".repeat(21),
        b"a".repeat(300),
        b"abcabcabd".repeat(500),
        b"#!lua name=l\nredis.register_function('f', function(keys, args) return redis.call('GET', keys[1]) end)"
            .to_vec(),
    ];
    for kinds in [1, 2, 3, 6, 20, 64] {
        for len in (16..60).chain([100, 263, 264, 265, 266, 267, 500, 2_000, 20_000]) {
            texts.push((0..len).map(|_| b'a' + random(kinds) as u8).collect());
            // Words that come again near and far.
            let mut text = Vec::new();
            while text.len() < len {
                let word = random(kinds * 4).to_string().repeat(1 + random(9) as usize);
                text.extend_from_slice(word.as_bytes());
            }
            text.truncate(len);
            text.push(b'x');
            texts.push(text);
        }
    }
    texts
}

#[test]
fn strings_are_dumped_byte_for_byte_as_redis_server_dumps_them() {
    let Some(server) = Server::redis(&[]).expect("redis-server starts") else {
        return skip(
            "strings_are_dumped_byte_for_byte_as_redis_server_dumps_them",
            "redis-server",
        );
    };
    let mut client = server.connect().expect("a connection");
    for text in texts() {
        client.call(&[&b"SET"[..], b"k", &text]).expect("SET");
        let theirs = bulk(client.call(&["DUMP", "k"]).expect("DUMP"));
        let ours = dump_value(ValueRef::Bytes(&text));
        assert!(
            ours == theirs,
            "{}:\n  redis-server: {}\n  here:         {}",
            text.escape_ascii(),
            theirs.escape_ascii(),
            ours.escape_ascii()
        );
    }
}

/// Valkey went its own way behind version 11: the bytes are those of valkey-server 9.1.
#[test]
fn hashes_of_valkey_keep_the_expiries_of_their_fields() {
    let payload = b"\x16\x03\x01a\xc0\x01\x7b\x40\x94\x52\xa3\x03\x00\x00\x01b\xc0\x02\
        \xff\xff\xff\xff\xff\xff\xff\xff\x01c\x03xyz\x00\x40\x94\x52\xa3\x03\x00\x00\
        \x50\x00\x16\xce\x35\xc0\x6c\x73\xac\xa4";
    let value = restore_value(payload, &Shapes::default()).expect("a hash");
    let mut hash = Hash::default();
    let limits = Shapes::default().hash;
    for (name, value, at_ms) in [
        (b"a", &b"1"[..], Some(4_000_000_000_123)),
        (b"b", b"2", None),
        (b"c", b"xyz", Some(4_000_000_000_000)),
    ] {
        hash.set(name, value, Keep::Nothing, &limits);
        hash.set_expiry(name, at_ms);
    }
    assert_eq!(value, Value::Object(Box::new(Object::Hash(hash))));
    // The same in a file, without a checksum.
    let body = &payload[1..payload.len() - 10];
    let file = [b"VALKEY080\x16\x01h", body, b"\xff\0\0\0\0\0\0\0\0"].concat();
    let mut source = &file[..];
    let mut reader = Reader::new(&mut source).expect("a file");
    let entry = reader.next().expect("an entry").expect("one");
    assert_eq!((entry.key, entry.value), (b"h".to_vec(), value));
    assert!(reader.next().expect("a whole file").is_none());
    // The number means something else in files of Redis.
    assert!(
        restore_value(
            &sealed(&payload[..payload.len() - 10], 12),
            &Shapes::default()
        )
        .is_err()
    );
}
