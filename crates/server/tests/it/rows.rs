//! What the table says of every command, against what redis-server says.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::Value;

use crate::harness::Local;

/// Fields that follow a newer version than the reference.
const NEWER: &[(&str, usize)] = &[("zrank", 1), ("zrevrank", 1)];
/// Fields of COMMAND INFO: those that are sets, and the sub-commands.
const SETS: [usize; 3] = [2, 6, 7];
const SUBS: usize = 9;

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("a list is expected, not {other:?}"),
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("a text")).into_owned()
}

/// The fields of every command and sub-command, by its name.
fn commands(client: &mut Client) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    let mut add = |entries: Vec<Value>| {
        let mut inner = Vec::new();
        for entry in entries {
            let mut fields = list(entry);
            inner.extend(list(fields.split_off(SUBS).remove(0)));
            for at in SETS {
                let mut names: Vec<String> = list(fields[at].clone()).iter().map(text).collect();
                names.sort();
                let names = names.into_iter().map(|name| Value::Bulk(name.into()));
                fields[at] = Value::Array(names.collect());
            }
            all.insert(text(&fields[0]), fields);
        }
        inner
    };
    let inner = add(list(client.line("COMMAND").unwrap()));
    add(inner);
    all
}

#[test]
fn every_row_says_what_redis_says() {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("every_row_says_what_redis_says", "redis-server");
    };
    let server = Local::start(&[]);
    let ours = commands(&mut server.connect());
    let theirs = commands(&mut redis.connect().unwrap());
    let mut wrong = Vec::new();
    for (name, fields) in &ours {
        let Some(known) = theirs.get(name) else {
            continue;
        };
        for (at, (own, reference)) in fields.iter().zip(known).enumerate() {
            if own != reference && !NEWER.contains(&(name, at)) {
                wrong.push(format!("{name}, field {at}: {own:?}, not {reference:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_of_redis_is_here() {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("every_command_of_redis_is_here", "redis-server");
    };
    let server = Local::start(&[]);
    let ours = commands(&mut server.connect());
    let theirs = commands(&mut redis.connect().unwrap());
    let absent: Vec<&str> = theirs
        .keys()
        .filter(|name| !ours.contains_key(*name))
        .map(String::as_str)
        .collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn every_category_has_the_commands_of_redis() {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("every_category_has_the_commands_of_redis", "redis-server");
    };
    let server = Local::start(&[]);
    let (mut own, mut reference) = (server.connect(), redis.connect().unwrap());
    let ours: BTreeSet<String> = commands(&mut own).into_keys().collect();
    let theirs: BTreeSet<String> = commands(&mut reference).into_keys().collect();
    let names = |client: &mut Client, line: &str| -> BTreeSet<String> {
        list(client.line(line).unwrap()).iter().map(text).collect()
    };
    for category in names(&mut reference, "ACL CAT") {
        let line = format!("ACL CAT {category}");
        let known = |names: BTreeSet<String>| -> Vec<String> {
            let both = |name: &String| ours.contains(name) && theirs.contains(name);
            names.into_iter().filter(both).collect()
        };
        let listed = known(names(&mut own, &line));
        assert_eq!(listed, known(names(&mut reference, &line)), "{category}");
    }
}
