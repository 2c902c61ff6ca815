//! RDB files: written and read back, damaged, and exchanged with redis-server.

mod damaged;
mod payloads;
mod peers;
mod round_trip;

use tollgate_containers::Str;
use tollgate_keyspace::{DbIndex, Value, ValueRef};
use tollgate_persist::rdb::{Draft, Entry, Options, RdbError, Reader, Writer};

/// A key in plain types, to compare.
#[derive(Debug, Clone, PartialEq)]
struct Plain {
    db: usize,
    key: Vec<u8>,
    value: PlainValue,
    expires_at_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
enum PlainValue {
    Bytes(Vec<u8>),
    Limiter(tollgate_limiter::LimiterState),
}

impl Plain {
    fn string(db: usize, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) -> Plain {
        Plain {
            db,
            key: key.to_vec(),
            value: PlainValue::Bytes(value.to_vec()),
            expires_at_ms,
        }
    }

    fn owned(&self) -> Value {
        match &self.value {
            PlainValue::Bytes(bytes) => Value::from_bytes(bytes),
            PlainValue::Limiter(state) => Value::Limiter(*state),
        }
    }
}

impl From<Entry> for Plain {
    fn from(entry: Entry) -> Plain {
        let value = match entry.value.as_ref() {
            ValueRef::Int(number) => PlainValue::Bytes(number.to_string().into_bytes()),
            ValueRef::Bytes(bytes) => PlainValue::Bytes(bytes.to_vec()),
            ValueRef::Limiter(state) => PlainValue::Limiter(state),
            ValueRef::Object(_) => unreachable!("the tests of this file write none"),
        };
        Plain {
            db: entry.db.get(),
            key: entry.key,
            value,
            expires_at_ms: entry.expires_at_ms,
        }
    }
}

/// The file of these keys, which are sorted by database.
fn write(keys: &[Plain]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(
        &mut file,
        &[("redis-ver", "7.0.15"), ("ctime", "1700000000")],
        Options::default(),
    )
    .expect("memory");
    let mut current = None;
    for key in keys {
        if current != Some(key.db) {
            current = Some(key.db);
            let of_db = keys.iter().filter(|other| other.db == key.db);
            let expiring = of_db
                .clone()
                .filter(|other| other.expires_at_ms.is_some())
                .count();
            let db = DbIndex::new(key.db).expect("a database");
            writer
                .database(db, of_db.count(), expiring)
                .expect("memory");
        }
        writer
            .entry(&key.key, key.owned().as_ref(), key.expires_at_ms)
            .expect("memory");
    }
    writer.finish().expect("memory");
    file
}

/// The same by way of drafts of so many entries.
fn write_drafts(keys: &[Plain], entries: usize, options: Options) -> Vec<u8> {
    let mut file = Vec::new();
    let about = [("redis-ver", "7.0.15"), ("ctime", "1700000000")];
    let mut writer = Writer::new(&mut file, &about, options).expect("memory");
    let sizes = DbIndex::all().map(|db| {
        let of_db = keys.iter().filter(|key| key.db == db.get());
        let expiring = of_db.clone().filter(|key| key.expires_at_ms.is_some());
        (db, of_db.clone().count(), expiring.count())
    });
    writer.announce(sizes.collect());
    let mut draft = Draft::new(options.dialect);
    for keys in keys.chunks(entries) {
        for key in keys {
            let db = DbIndex::new(key.db).expect("a database");
            draft.add(db, &key.key, key.owned().as_ref(), key.expires_at_ms, 0);
        }
        assert_eq!(draft.entries(), keys.len());
        writer.append(&draft).expect("memory");
        draft.clear(0);
    }
    writer.finish().expect("memory");
    file
}

/// The keys of a file.
fn read(mut file: &[u8]) -> Result<Vec<Plain>, RdbError> {
    let mut reader = Reader::new(&mut file)?;
    let mut keys = Vec::new();
    while let Some(entry) = reader.next()? {
        keys.push(entry.into());
    }
    Ok(keys)
}

/// Keys of every form.
fn samples() -> Vec<Plain> {
    use tollgate_limiter::{LimiterState, Timestamp};
    let mut keys = vec![
        Plain::string(0, b"", b"", None),
        Plain::string(0, b"plain", b"some text", None),
        Plain::string(0, b"expires", b"x", Some(4_102_444_800_123)),
        Plain::string(0, b"not canonical", b"007", None),
        Plain::string(
            0,
            b"binary \0\r\n\xff",
            &(0..=255).collect::<Vec<u8>>(),
            None,
        ),
        Plain::string(0, b"medium", &[b'm'; 300], None),
        Plain::string(0, b"long", &vec![b'l'; 200_000], None),
    ];
    for number in [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        32_767,
        32_768,
        -32_769,
        i64::from(i32::MAX),
        1 << 31,
        i64::MAX,
        i64::MIN,
    ] {
        let text = number.to_string();
        keys.push(Plain::string(
            0,
            format!("n{text}").as_bytes(),
            text.as_bytes(),
            None,
        ));
    }
    for (key, state, expires_at_ms) in [
        (
            &b"window"[..],
            LimiterState::FixedWindow { count: u64::MAX },
            Some(4_102_444_800_000),
        ),
        (
            b"bucket",
            LimiterState::Gcra {
                tat: Timestamp::from_nanos(i64::MAX),
            },
            Some(9_223_372_036_855),
        ),
        (b"for ever", LimiterState::FixedWindow { count: 3 }, None),
    ] {
        keys.push(Plain {
            db: 0,
            key: key.to_vec(),
            value: PlainValue::Limiter(state),
            expires_at_ms,
        });
    }
    keys.push(Plain::string(15, b"plain", b"in the last database", None));
    let state = LimiterState::Gcra {
        tat: Timestamp::from_nanos(-5),
    };
    keys.push(Plain {
        db: 15,
        key: b"past".to_vec(),
        value: PlainValue::Limiter(state),
        expires_at_ms: Some(0),
    });
    keys
}

#[test]
fn strings_do_not_change_their_form() {
    // The owned value is what keyspace stores: a canonical integer becomes one, nothing else does.
    assert!(matches!(Value::from_bytes(b"12"), Value::Int(12)));
    assert!(
        matches!(Value::from_bytes(b"012"), Value::Str(text) if text.as_slice() == Str::from_slice(b"012").as_slice())
    );
}
