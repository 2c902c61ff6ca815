//! Damaged files are errors, never panics, and never cost more memory than they have bytes.

use proptest::prelude::*;
use tollgate_persist::rdb::RdbError;

use super::{Plain, read, samples, write};

fn error(file: &[u8]) -> String {
    read(file).expect_err("a damaged file").to_string()
}

#[test]
fn every_cut_is_noticed() {
    let keys: Vec<_> = samples()
        .into_iter()
        .filter(|key| key.key != b"long")
        .collect();
    let file = write(&keys);
    for len in 0..file.len() {
        match read(&file[..len]) {
            Err(RdbError::NotRdb) => assert!(len < 9),
            Err(RdbError::Truncated { offset }) => assert_eq!(offset, len as u64),
            other => panic!("cut at {len}: {other:?}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let file = write(&[
        Plain::string(0, b"key", b"value", Some(1)),
        Plain::string(3, b"n", b"70000", None),
    ]);
    let undamaged = read(&file).expect("a good file");
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(keys) = read(&damaged) {
                // An older version without a checksum at the end is the one accepted change.
                assert!(at < 9 && keys == undamaged, "byte {at} bit {bit}: {keys:?}");
            }
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        error(b""),
        "not an RDB file: it does not begin with REDIS or VALKEY and a version"
    );
    assert_eq!(
        error(b"REDIS00x0"),
        "not an RDB file: it does not begin with REDIS or VALKEY and a version"
    );
    // A newer version is an error (fact 115).
    assert_eq!(
        error(b"REDIS0099"),
        "RDB version 99; versions 1 to 13 of Redis and 80 of Valkey can be read"
    );
    for (header, found) in [("VALKEY012", 12), ("REDIS0080", 80), ("VALKEY081", 81)] {
        let begin = format!("RDB version {found};");
        assert!(error(header.as_bytes()).starts_with(&begin), "{header}");
    }
    assert_eq!(
        error(b"REDIS0010\x07\x03bag\x00"),
        "key 'bag' holds a module's value, a type that is not supported"
    );
    assert_eq!(
        error(b"REDIS0010\x06\x01\nx"),
        "key '\\n' holds a module's value, a type that is not supported"
    );
    assert_eq!(error(b"REDIS0010\x1e\x01k"), "an unknown type at byte 12");
    assert_eq!(
        error(b"REDIS0010\xfe\x10"),
        "a database number above 15 at byte 11"
    );
    assert_eq!(
        error(b"REDIS0010\x00\xc5"),
        "an unknown form of a string at byte 11"
    );
    assert_eq!(
        error(b"REDIS0010\x00\xc3\x01\x09\x20"),
        "a damaged compressed string at byte 14"
    );
    let mut file = write(&[]);
    let last = file.len() - 1;
    file[last] ^= 1;
    assert!(error(&file).ends_with(": the file is damaged"));
}

#[test]
fn a_length_alone_allocates_nothing() {
    // 512 MiB promised, three bytes there; more promised than may be; a compressed string that promises too much.
    assert!(matches!(
        read(b"REDIS0010\x00\x80\x20\x00\x00\x00abc"),
        Err(RdbError::Truncated { .. })
    ));
    // 600 MiB, as `proto-max-bulk-len` may allow.
    assert!(matches!(
        read(b"REDIS0010\x00\x80\x25\x80\x00\x00abc"),
        Err(RdbError::Truncated { .. })
    ));
    assert!(matches!(
        read(b"REDIS0010\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xffabc"),
        Err(RdbError::Corrupt { .. })
    ));
    assert!(matches!(
        read(b"REDIS0010\x00\xc3\x01\x80\x20\x00\x00\x00\x00"),
        Err(RdbError::Corrupt { .. })
    ));
}

#[test]
fn limiters_are_checked() {
    for field in [
        &b"short"[..],
        &[0; 18],
        &[16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let mut file = b"REDIS0010\xfa\x10tollgate-limiter".to_vec();
        file.push(field.len() as u8);
        file.extend_from_slice(field);
        assert!(
            error(&file).starts_with("a malformed rate limiter"),
            "{field:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_answer(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut file = b"REDIS0010".to_vec();
        file.extend_from_slice(&tail);
        // Keys before the damage may be read; what matters is that it ends.
        prop_assert!(read(&file).is_err() || tail.contains(&255));
    }
}
