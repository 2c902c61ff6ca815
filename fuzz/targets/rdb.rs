//! Snapshot files: whatever they hold, reading ends with keys or with one clear error, and what was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_keyspace::{DbIndex, Value};
use tollgate_persist::rdb::{Options, RdbError, Reader, Writer};

/// A key as the comparison sees it.
type Key = (DbIndex, Vec<u8>, Value, Option<i64>);

fn read(mut file: &[u8]) -> Result<Vec<Key>, RdbError> {
    let mut reader = Reader::new(&mut file)?;
    let mut keys = Vec::new();
    while let Some(entry) = reader.next()? {
        keys.push((entry.db, entry.key, entry.value, entry.expires_at_ms));
    }
    Ok(keys)
}

fn write(keys: &[Key]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &[], Options::default()).expect("memory takes every byte");
    let mut current = None;
    for (db, key, value, expires_at_ms) in keys {
        if current != Some(*db) {
            current = Some(*db);
            writer
                .database(*db, keys.len(), 0)
                .expect("memory takes every byte");
        }
        writer
            .entry(key, value.as_ref(), *expires_at_ms)
            .expect("memory takes every byte");
    }
    writer.finish().expect("memory takes every byte");
    file
}

fuzz_target!(|data: &[u8]| match read(data) {
    Ok(keys) => assert_eq!(read(&write(&keys)).expect("an own file is whole"), keys),
    Err(error) => assert!(!error.to_string().contains('\n'), "unclear: {error}"),
});
