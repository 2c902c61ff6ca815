//! DEBUG DIGEST and DEBUG DIGEST-VALUE: what data hold, in 40 hexadecimal digits, equal to Redis'.
//!
//! What has an order is mixed, each digest taken over what came before it; what has none is combined by exclusive or.

use tollgate_containers::stream::{Stream, StreamId};
use tollgate_engine::{Engine, sha1};
use tollgate_keyspace::{DbIndex, EntryRef, Object, ValueRef};
use tollgate_wire::resp::push_double;

/// What an expiry adds; not its time, which differs between a server and its replicas.
const EXPIRES: &[u8] = b"!!expire!!";

/// Numbers of types in the digests.
const STRING: u32 = 0;
const LIST: u32 = 1;
const SET: u32 = 2;
const SORTED_SET: u32 = 3;
const HASH: u32 = 4;
const STREAM: u32 = 6;
/// Redis' number for types of modules, which the limiters are.
const MODULE: u32 = 5;

#[derive(Default, Clone, Copy)]
struct Digest([u8; 20]);

impl Digest {
    fn combine(&mut self, bytes: &[u8]) {
        for (own, other) in self.0.iter_mut().zip(sha1(bytes)) {
            *own ^= other;
        }
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.combine(bytes);
        self.0 = sha1(&self.0);
    }

    fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The digest of the value of a key; zeros when there is none.
pub(super) fn value(engine: &Engine, db: DbIndex, key: &[u8], now_ms: i64) -> String {
    let mut digest = Digest::default();
    engine.with_entry(db, key, now_ms, |entry| add_value(&mut digest, entry));
    digest.hex()
}

/// The digest of all databases.
pub(super) fn all(engine: &Engine, now_ms: i64) -> String {
    let mut dbs: Vec<(bool, Digest)> = vec![Default::default(); DbIndex::all().count()];
    engine.for_each_shard(|shard| {
        for (db, (holds, sum)) in DbIndex::all().zip(&mut dbs) {
            let mut cursor = 0;
            loop {
                // A scan that removes what has expired may meet an entry twice: at this time nothing has.
                cursor = shard.scan(db, cursor, i64::MIN, &mut |key, entry| {
                    if entry.expires_at_ms().is_some_and(|at| now_ms > at) {
                        return;
                    }
                    let mut digest = Digest::default();
                    digest.mix(key);
                    add_value(&mut digest, entry);
                    *holds = true;
                    sum.combine(&digest.0);
                });
                if cursor == 0 {
                    break;
                }
            }
        }
    });
    let mut digest = Digest::default();
    for (number, (_, sum)) in (0u32..).zip(dbs).filter(|(_, (holds, _))| *holds) {
        digest.mix(&number.to_be_bytes());
        for (own, other) in digest.0.iter_mut().zip(sum.0) {
            *own ^= other;
        }
    }
    digest.hex()
}

fn add_value(digest: &mut Digest, entry: EntryRef<'_>) {
    let mut kind = |number: u32| digest.mix(&number.to_be_bytes());
    match entry.value() {
        ValueRef::Int(number) => {
            kind(STRING);
            digest.mix(number.to_string().as_bytes());
        }
        ValueRef::Bytes(bytes) => {
            kind(STRING);
            digest.mix(bytes);
        }
        ValueRef::Object(Object::List(list)) => {
            kind(LIST);
            list.iter().for_each(|element| digest.mix(element));
        }
        ValueRef::Object(Object::Set(set)) => {
            kind(SET);
            set.iter()
                .for_each(|member| member.with_bytes(|text| digest.combine(text)));
        }
        ValueRef::Object(Object::SortedSet(set)) => {
            kind(SORTED_SET);
            for (member, score) in set.iter() {
                let mut text = Vec::new();
                push_double(&mut text, score);
                add_pair(digest, member, &text);
            }
        }
        ValueRef::Object(Object::Hash(hash)) => {
            kind(HASH);
            hash.iter()
                .for_each(|field| add_pair(digest, field.name, field.value));
        }
        ValueRef::Object(Object::Stream(stream)) => {
            kind(STREAM);
            add_stream(digest, stream);
        }
        limiter @ (ValueRef::Limiter(_) | ValueRef::Object(Object::Ledger(_))) => {
            kind(MODULE);
            digest.mix(format!("{limiter:?}").as_bytes());
        }
    }
    if entry.expires_at_ms().is_some() {
        digest.combine(EXPIRES);
    }
}

fn add_pair(digest: &mut Digest, first: &[u8], second: &[u8]) {
    let mut pair = Digest::default();
    pair.mix(first);
    pair.mix(second);
    digest.combine(&pair.0);
}

fn add_stream(digest: &mut Digest, stream: &Stream) {
    for entry in stream.log().range(StreamId::MIN, StreamId::MAX) {
        digest.mix(format!("{}.{}", entry.id().ms, entry.id().seq).as_bytes());
        for (field, value) in entry.fields() {
            field.with_text(|text| digest.mix(text));
            value.with_text(|text| digest.mix(text));
        }
    }
}
