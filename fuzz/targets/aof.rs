//! Append-only files and their manifests: whatever they hold, reading ends with commands or with one clear error, also when it
//! comes in small pieces, and what was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Read;
use tollgate_persist::aof::{Manifest, Records, RecordsError};
use tollgate_wire::resp::write_command;

/// Gives one byte at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(1);
        self.0.read(&mut into[..most])
    }
}

type Command = Vec<Vec<u8>>;

/// The commands, and where and how the file ends if it does not end behind a command.
fn read(source: impl Read, before: &[u8]) -> (Vec<Command>, Option<(bool, u64)>) {
    let mut records = Records::new(source, before.to_vec(), 0);
    let mut commands = Vec::new();
    loop {
        match records.next() {
            Ok(Some(record)) => commands.push(record.words().map(<[u8]>::to_vec).collect()),
            Ok(None) => return (commands, None),
            Err(RecordsError::Io(error)) => panic!("memory can be read: {error}"),
            Err(RecordsError::Torn { offset }) => return (commands, Some((true, offset))),
            Err(RecordsError::Malformed { offset, .. }) => {
                return (commands, Some((false, offset)));
            }
        }
    }
}

fn read_records(data: &[u8]) {
    let (commands, end) = read(data, &[]);
    assert_eq!(read(Slow(data), &[]), (commands.clone(), end));
    let (before, rest) = data.split_at(data.len() / 2);
    assert_eq!(read(rest, before), (commands.clone(), end));
    if let Some((true, offset)) = end {
        let kept = usize::try_from(offset).expect("it lies in the file");
        assert_eq!(
            read(&data[..kept], &[]),
            (commands.clone(), None),
            "a torn end can be cut off"
        );
    }
    let mut file = Vec::new();
    for command in &commands {
        assert!(!command.is_empty());
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        write_command(&mut file, &words);
    }
    assert_eq!(read(&file[..], &[]), (commands, None));
}

fn read_manifest(data: &[u8]) {
    match Manifest::parse(data) {
        Ok(mut manifest) => {
            let again = |manifest: &Manifest| Manifest::parse(manifest.to_text().as_bytes());
            if !manifest.is_empty() {
                assert_eq!(again(&manifest).expect("an own text is whole"), manifest);
            }
            manifest.add_incr("appendonly.aof");
            assert_eq!(again(&manifest).expect("an own text is whole"), manifest);
            manifest.renew("appendonly.aof", ".rdb");
            assert_eq!(again(&manifest).expect("an own text is whole"), manifest);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|data: &[u8]| {
    read_records(data);
    read_manifest(data);
});
