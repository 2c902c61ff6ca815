//! Patterns of a real redis-server.

use std::collections::BTreeSet;

use tollgate_containers::glob::matches;
use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::Value;

use crate::Random;

fn texts(value: Value) -> BTreeSet<Vec<u8>> {
    let Value::Array(items) = value else {
        panic!("not an array: {value:?}")
    };
    items
        .into_iter()
        .map(|item| match item {
            Value::Bulk(text) => text,
            other => panic!("not a text: {other:?}"),
        })
        .collect()
}

fn pattern(random: &mut Random, pieces: &[&[u8]], most: usize) -> Vec<u8> {
    (0..random.below(most) + 1)
        .flat_map(|_| random.pick(pieces).to_vec())
        .collect()
}

/// All texts of up to three bytes of the alphabet.
fn all_keys(alphabet: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = vec![Vec::new()];
    for len in 1..=3 {
        let shorter: Vec<_> = keys
            .iter()
            .filter(|key| key.len() == len - 1)
            .cloned()
            .collect();
        keys.extend(
            shorter
                .iter()
                .flat_map(|key| alphabet.iter().map(|&b| [key.as_slice(), &[b]].concat())),
        );
    }
    keys
}

fn check_keys(client: &mut Client) {
    let keys = all_keys(b"ab-]^[\\*\xff\0");
    for key in &keys {
        client
            .call(&[b"SET".as_slice(), key, b"1"])
            .expect("a reply to SET");
    }
    let pieces: [&[u8]; 20] = [
        b"a",
        b"b",
        b"-",
        b"]",
        b"[",
        b"^",
        b"\\",
        b"*",
        b"*",
        b"?",
        b"[a",
        b"[^",
        b"[a-",
        b"[\\",
        b"]",
        b"\xff",
        b"\0",
        b"[a-b]",
        b"[^a]",
        b"[a-\xff]",
    ];
    let mut random = Random(1);
    for _ in 0..4000 {
        let pattern = pattern(&mut random, &pieces, 6);
        // A lone star is not matched at all but means all keys.
        if pattern == b"*" {
            continue;
        }
        let theirs = texts(
            client
                .call(&[b"KEYS".as_slice(), &pattern])
                .expect("a reply to KEYS"),
        );
        let ours = keys
            .iter()
            .filter(|key| matches(&pattern, key, false))
            .cloned()
            .collect();
        assert_eq!(theirs, ours, "{}", pattern.escape_ascii());
    }
}

/// The case-blind matcher is reached through the names of commands.
fn check_case(client: &mut Client) {
    let names = texts(client.line("COMMAND LIST").expect("a reply"));
    let pieces: [&[u8]; 16] = [
        b"G", b"e", b"T", b"s", b"S", b"R", b"*", b"*", b"?", b"[a-S]", b"[A-s]", b"[^G-t]",
        b"[gS]", b"\\G", b"[\\G]", b"p",
    ];
    let mut random = Random(2);
    for _ in 0..2000 {
        let pattern = pattern(&mut random, &pieces, 6);
        let call = [
            b"COMMAND".as_slice(),
            b"LIST",
            b"FILTERBY",
            b"PATTERN",
            &pattern,
        ];
        let theirs = texts(client.call(&call).expect("a reply"));
        let ours = names
            .iter()
            .filter(|name| matches(&pattern, name, true))
            .cloned()
            .collect();
        assert_eq!(theirs, ours, "{}", pattern.escape_ascii());
    }
}

#[test]
fn patterns_match_as_in_redis() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("patterns_match_as_in_redis", "redis-server");
    };
    let mut client = redis.connect().expect("redis-server listens");
    check_keys(&mut client);
    check_case(&mut client);
}
