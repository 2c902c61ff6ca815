//! Commands on fields that expire, as Redis 8 and Valkey 9 pass them on: times are absolute, and conditions that held, as well as
//! fields of which they did not, are left out. So what is sent is as long as the command, however large the hash is.

use tollgate_commands::Event;
use tollgate_keyspace::{Object, ValueRef};
use tollgate_wire::resp::Value;

use super::record::{Done, is_one_of};
use crate::cell::Cells;

/// What a command says of a field that has an expiry now, or has none any more.
const SET: Value = Value::Int(1);
/// What it says of one whose time was over when it came.
const DELETED: Value = Value::Int(2);

/// What became of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Gone,
    /// It is there, and expires at that time (Unix milliseconds), if at all.
    Stays(Option<i64>),
}

/// The place of the word FIELDS, and the words behind the number that follows it.
fn split<'a>(words: &[&'a [u8]]) -> Option<(usize, Vec<&'a [u8]>)> {
    let at = 2 + words
        .get(2..)?
        .iter()
        .position(|word| is_one_of(word, &[b"FIELDS"]))?;
    Some((at, words.get(at + 2..)?.to_vec()))
}

/// The field as it is now.
fn field<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H, name: &[u8]) -> Field {
    let found = done.entry(held, done.key(), |entry| match entry.value() {
        ValueRef::Object(Object::Hash(hash)) => hash.get(name).map(|field| field.expires_at_ms),
        _ => None,
    });
    found.flatten().map_or(Field::Gone, Field::Stays)
}

/// Adds a command that names fields behind their number; none when there are none.
fn add(done: &Done<'_>, head: &[&[u8]], per_field: usize, words: &[&[u8]]) {
    if words.is_empty() {
        return;
    }
    let count = (words.len() / per_field).to_string();
    let head = head.iter().copied();
    let number = [b"FIELDS" as &[u8], count.as_bytes()];
    let all: Vec<&[u8]> = head.chain(number).chain(words.iter().copied()).collect();
    done.add(&all);
}

/// Adds a command that names fields and nothing else.
fn add_plain(done: &Done<'_>, name: &[u8], words: &[&[u8]]) {
    if !words.is_empty() {
        let all: Vec<&[u8]> = [name, done.key().1]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        done.add(&all);
    }
}

fn add_expiry(done: &Done<'_>, at_ms: i64, names: &[&[u8]]) {
    let at = at_ms.to_string();
    add(
        done,
        &[b"HPEXPIREAT", done.key().1, at.as_bytes()],
        1,
        names,
    );
}

/// HEXPIRE and its kin, HPERSIST: what was done to each field is what was answered.
pub(super) fn record_expiry<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let Some((_, names)) = split(done.call.args) else {
        return;
    };
    let answers = done.replied();
    let those = |answer: Value| -> Vec<&[u8]> {
        let pairs = names.iter().zip(&answers);
        pairs
            .filter(|(_, said)| **said == answer)
            .map(|(name, _)| *name)
            .collect()
    };
    let set = those(SET);
    // A field may be named twice, and be gone since.
    match set.first().map(|name| field(done, held, name)) {
        Some(Field::Stays(Some(at_ms))) => add_expiry(done, at_ms, &set),
        Some(Field::Stays(None)) => add(done, &[b"HPERSIST", done.key().1], 1, &set),
        Some(Field::Gone) | None => {}
    }
    add_plain(done, b"HDEL", &those(DELETED));
}

/// HGETEX: what has become of the fields that it has found.
pub(super) fn record_hgetex<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let Some((at, names)) = split(done.call.args) else {
        return;
    };
    // Without an option it has only found that fields were past their time, and that is recorded.
    if at == 2 {
        return;
    }
    let answers = done.replied();
    let found = names.iter().zip(&answers);
    let found = found.filter(|(_, value)| !matches!(value, Value::Null));
    let (mut gone, mut stay, mut expiry) = (Vec::new(), Vec::new(), None);
    for (name, _) in found {
        match field(done, held, name) {
            Field::Gone => gone.push(*name),
            Field::Stays(at_ms) => {
                stay.push(*name);
                expiry = at_ms;
            }
        }
    }
    add_plain(done, b"HDEL", &gone);
    match expiry {
        Some(at_ms) => add_expiry(done, at_ms, &stay),
        None => add(done, &[b"HPERSIST", done.key().1], 1, &stay),
    }
}

/// HSETEX: HSET where no field expires, and HDEL where their time was over.
pub(super) fn record_hsetex<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let Some((at, pairs)) = split(done.call.args) else {
        return;
    };
    let key = done.key().1;
    // Its condition did not hold: it has only found that fields were past their time.
    if !(done.effects.touches()).any(|touch| touch.event == Event::HSet) {
        return;
    }
    let names: Vec<&[u8]> = pairs.iter().step_by(2).copied().collect();
    let states = names.iter().map(|name| field(done, held, name));
    let states: Vec<Field> = states.collect();
    let expiry = states.iter().find_map(|state| match state {
        Field::Stays(at_ms) => *at_ms,
        Field::Gone => None,
    });
    let keeps = (done.call.args[2..at].iter()).any(|word| is_one_of(word, &[b"KEEPTTL"]));
    match expiry {
        _ if states.contains(&Field::Gone) => add_plain(done, b"HDEL", &names),
        None => add_plain(done, b"HSET", &pairs),
        Some(_) if keeps => add(done, &[b"HSETEX", key, b"KEEPTTL"], 2, &pairs),
        Some(at_ms) => add_field(done, at_ms, &pairs),
    }
}

/// Adds fields and values, all of which expire at that time.
fn add_field(done: &Done<'_>, at_ms: i64, pairs: &[&[u8]]) {
    let at = at_ms.to_string();
    let head = [b"HSETEX" as &[u8], done.key().1, b"PXAT", at.as_bytes()];
    add(done, &head, 2, pairs);
}

/// HINCRBYFLOAT: the field as it is now, so that all copies have the same digits.
pub(super) fn record_field<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let replied = done.replied();
    let [value, ..] = &replied[..] else {
        return;
    };
    let pair = [done.word(2), super::record::value_bytes(value)];
    match field(done, held, pair[0]) {
        Field::Stays(Some(at_ms)) => add_field(done, at_ms, &pair),
        _ => add_plain(done, b"HSET", &pair),
    }
}
