//! What is written is what is read.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_containers::hash::{Hash, Keep};
use tollgate_keyspace::{DbIndex, Object, Value};
use tollgate_limiter::{LimiterState, Timestamp};

use tollgate_persist::rdb::{Dialect, Draft, Options, Reader, Shapes, Writer};

use super::{Plain, PlainValue, read, samples, write, write_drafts};

#[test]
fn every_form_of_key_comes_back() {
    assert_eq!(read(&write(&samples())).expect("a good file"), samples());
}

#[test]
fn an_empty_store_is_a_file_too() {
    assert_eq!(read(&write(&[])).expect("a good file"), []);
}

#[test]
fn drafts_make_the_same_file() {
    for entries in [1, 3, 1_000] {
        let file = write_drafts(&samples(), entries, Options::default());
        assert!(file == write(&samples()), "{entries} entries at a time");
    }
    // Databases may take turns.
    let mut mixed = samples();
    mixed.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(
        read(&write_drafts(&mixed, 2, Options::default())).expect("a good file"),
        mixed
    );
}

#[test]
fn without_compression_and_checksum_it_is_the_same_content() {
    let plain = Options {
        compress: false,
        checksum: false,
        ..Options::default()
    };
    let file = write_drafts(&samples(), 2, plain);
    assert!(file.len() > write(&samples()).len());
    assert!(file.ends_with(&[0xFF, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(read(&file).expect("a good file"), samples());
    // A wrong checksum counts only when it is looked at.
    let mut file = write(&samples());
    *file.last_mut().expect("bytes") ^= 1;
    assert!(read(&file).is_err());
    let mut source = &file[..];
    let mut reader = Reader::new(&mut source).expect("a header").unchecked();
    while reader.next().expect("a good file").is_some() {}
}

/// A source that gives one byte at a time.
struct Slow<'a>(&'a [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.0.len().min(buffer.len()).min(1);
        buffer[..len].copy_from_slice(&self.0[..len]);
        self.0 = &self.0[len..];
        Ok(len)
    }
}

#[test]
fn pieces_of_any_size_read_alike() {
    let keys: Vec<_> = samples()
        .into_iter()
        .filter(|key| key.key != b"long")
        .collect();
    let file = write(&keys);
    let mut source = Slow(&file);
    let mut reader = Reader::new(&mut source).expect("a header");
    let mut found = Vec::new();
    while let Some(entry) = reader.next().expect("a good file") {
        found.push(Plain::from(entry));
    }
    assert_eq!(found, keys);
}

fn value() -> impl Strategy<Value = PlainValue> {
    prop_oneof![
        vec(any::<u8>(), 0..100).prop_map(PlainValue::Bytes),
        any::<i64>().prop_map(|number| PlainValue::Bytes(number.to_string().into_bytes())),
        any::<u64>().prop_map(|count| PlainValue::Limiter(LimiterState::FixedWindow { count })),
        any::<i64>().prop_map(|nanos| PlainValue::Limiter(LimiterState::Gcra {
            tat: Timestamp::from_nanos(nanos)
        })),
    ]
}

proptest! {
    #[test]
    fn any_keys_come_back(
        mut keys in vec((0usize..16, vec(any::<u8>(), 0..40), value(), proptest::option::of(0i64..i64::MAX)), 0..40)
    ) {
        keys.sort_by_key(|(db, ..)| *db);
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(db, key, value, expires_at_ms)| Plain { db, key, value, expires_at_ms })
            .collect();
        prop_assert_eq!(read(&write(&keys)).expect("a good file"), keys);
    }
}

/// Redis and Valkey each have a form of their own for hashes whose fields expire, and refuse the other one's.
#[test]
fn hashes_whose_fields_expire_are_written_for_redis_and_for_valkey() {
    let limits = Shapes::default().hash;
    for fields in [2, 2_000] {
        let mut hash = Hash::default();
        for number in 0..fields {
            let name = format!("f{number}");
            hash.set(name.as_bytes(), b"value", Keep::Nothing, &limits);
        }
        hash.set_expiry(b"f0", Some(4_102_444_800_123));
        let value = Value::Object(Box::new(Object::Hash(hash)));
        let files = [Dialect::Redis, Dialect::Valkey].map(|dialect| {
            let mut file = Vec::new();
            let options = Options {
                dialect,
                ..Options::default()
            };
            let mut writer = Writer::new(&mut file, &[], options).expect("memory");
            writer.database(DbIndex::ZERO, 2, 0).expect("memory");
            let mut draft = Draft::new(dialect);
            draft.add(DbIndex::ZERO, b"drafted", value.as_ref(), None, 0);
            writer.append(&draft).expect("memory");
            writer.entry(b"hash", value.as_ref(), None).expect("memory");
            writer.finish().expect("memory");
            file
        });
        assert!(files[0].starts_with(b"REDIS0010"));
        assert!(files[1].starts_with(b"VALKEY080"));
        for file in files {
            let mut source = &file[..];
            let mut reader = Reader::new(&mut source).expect("a header");
            for key in [&b"drafted"[..], b"hash"] {
                let entry = reader.next().expect("a good file").expect("an entry");
                assert_eq!((&entry.key[..], &entry.value), (key, &value));
            }
            assert!(reader.next().expect("a good file").is_none());
        }
    }
}
