//! Hashes: the table of their commands. Handlers are in `hash_read`, `hash_write` and, for fields that expire, in
//! `hash_expiry` and `hash_fields`.

use tollgate_containers::hash::HashLimits;
use tollgate_keyspace::Seed;

use super::{hash_expiry, hash_fields, hash_read, hash_write};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Arity, Family, Flags, Group, Handler, Row, Run, StoreLimits};

const READ: Flags = Flags::READONLY.or(Flags::FAST);
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);

const RO: KeySpec = KeySpec::at(1, KeyFlags::RO);
const RO_ACCESS: KeySpec = KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const RW_UPDATE: KeySpec = KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE));
const RW_ACCESS_UPDATE: KeySpec =
    KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE));

const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

const PER_FIELD: &str = "O(N) in the fields given";
const WHOLE: &str = "O(N) in the fields of the hash";
const FIELDS: &str = "key FIELDS numfields field [field ...]";

pub(super) static FAMILY: Family = Family {
    name: "Hashes",
    about: "Fields with values, each of which may have an expiry of its own.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    hash("HDEL", at_least(3), WRITE_FAST, hash_write::hdel)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .takes("key field [field ...]")
        .docs(
            "Deletes fields and counts those that existed.",
            "2.0.0",
            PER_FIELD,
        ),
    hash("HEXISTS", exactly(3), READ, hash_read::hexists)
        .keys(&[RO])
        .takes("key field")
        .docs("Tells whether a field exists.", "2.0.0", "O(1)"),
    expires("HEXPIRE", hash_expiry::hexpire)
        .takes("key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .docs(
            "Sets when fields expire, in seconds from now.",
            "7.4.0",
            PER_FIELD,
        ),
    expires("HEXPIREAT", hash_expiry::hexpireat)
        .takes("key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .docs(
            "Sets when fields expire, as a Unix time in seconds.",
            "7.4.0",
            PER_FIELD,
        ),
    tells("HEXPIRETIME", hash_expiry::hexpiretime).docs(
        "Returns when fields expire, as Unix times in seconds.",
        "7.4.0",
        PER_FIELD,
    ),
    hash("HGET", exactly(3), READ, hash_read::hget)
        .keys(&[RO_ACCESS])
        .takes("key field")
        .docs("Returns the value of a field.", "2.0.0", "O(1)"),
    hash("HGETALL", exactly(2), Flags::READONLY, hash_read::hgetall)
        .keys(&[RO_ACCESS])
        .takes("key")
        .docs("Returns all fields and their values.", "2.0.0", WHOLE)
        .tips(ANY_ORDER),
    hash("HGETDEL", at_least(5), WRITE_FAST, hash_fields::hgetdel)
        .keys(&[KeySpec::at(
            1,
            KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE),
        )])
        .takes(FIELDS)
        .docs(
            "Returns the values of fields and deletes them.",
            "8.0.0",
            PER_FIELD,
        ),
    hash("HGETEX", at_least(5), WRITE_FAST, hash_fields::hgetex)
        .keys(&[RW_ACCESS_UPDATE.notes("RW and UPDATE because it changes the TTL")])
        .takes(
            "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]",
        )
        .docs(
            "Returns the values of fields and sets or removes their expiry.",
            "8.0.0",
            PER_FIELD,
        ),
    hash("HINCRBY", exactly(4), GROWS, hash_write::hincrby)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key field increment")
        .docs("Adds a number to an integer in a field.", "2.0.0", "O(1)"),
    hash("HINCRBYFLOAT", exactly(4), GROWS, hash_write::hincrbyfloat)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key field increment")
        .docs("Adds a number to a number in a field.", "2.6.0", "O(1)"),
    hash("HKEYS", exactly(2), Flags::READONLY, hash_read::hkeys)
        .keys(&[RO_ACCESS])
        .takes("key")
        .docs("Returns the names of all fields.", "2.0.0", WHOLE)
        .tips(ANY_ORDER),
    hash("HLEN", exactly(2), READ, hash_read::hlen)
        .keys(&[RO])
        .takes("key")
        .docs("Returns the number of fields.", "2.0.0", "O(1)"),
    hash("HMGET", at_least(3), READ, hash_read::hmget)
        .keys(&[RO_ACCESS])
        .takes("key field [field ...]")
        .docs("Returns the values of several fields.", "2.0.0", PER_FIELD),
    hash("HMSET", at_least(4), GROWS, hash_write::hmset)
        .keys(&[RW_UPDATE])
        .takes("key field value [field value ...]")
        .docs("Sets fields.", "2.0.0", PER_FIELD)
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
    hash("HPERSIST", at_least(5), WRITE_FAST, hash_expiry::hpersist)
        .keys(&[RW_UPDATE])
        .takes(FIELDS)
        .docs("Removes the expiry of fields.", "7.4.0", PER_FIELD),
    expires("HPEXPIRE", hash_expiry::hpexpire)
        .takes("key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .docs(
            "Sets when fields expire, in milliseconds from now.",
            "7.4.0",
            PER_FIELD,
        ),
    expires("HPEXPIREAT", hash_expiry::hpexpireat)
        .takes("key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .docs(
            "Sets when fields expire, as a Unix time in milliseconds.",
            "7.4.0",
            PER_FIELD,
        ),
    tells("HPEXPIRETIME", hash_expiry::hpexpiretime).docs(
        "Returns when fields expire, as Unix times in milliseconds.",
        "7.4.0",
        PER_FIELD,
    ),
    tells("HPTTL", hash_expiry::hpttl)
        .docs(
            "Returns how long fields have to live, in milliseconds.",
            "7.4.0",
            PER_FIELD,
        )
        .tips(ANY_OUTPUT),
    hash(
        "HRANDFIELD",
        at_least(2),
        Flags::READONLY,
        hash_read::hrandfield,
    )
    .keys(&[RO_ACCESS])
    .takes("key [count [WITHVALUES]]")
    .docs(
        "Returns random fields; the same one more than once if the count is negative.",
        "6.2.0",
        "O(N) in the fields returned",
    )
    .tips(ANY_OUTPUT),
    hash("HSCAN", at_least(3), Flags::READONLY, hash_read::hscan)
        .keys(&[RO_ACCESS])
        .takes("key cursor [MATCH pattern] [COUNT count] [NOVALUES]")
        .docs(
            "Returns some fields and where to go on.",
            "2.8.0",
            "O(1) per call, O(N) for the whole hash",
        )
        .tips(ANY_OUTPUT),
    hash("HSET", at_least(4), GROWS, hash_write::hset)
        .keys(&[RW_UPDATE])
        .takes("key field value [field value ...]")
        .docs("Sets fields and counts the new ones.", "2.0.0", PER_FIELD),
    hash("HSETEX", at_least(6), GROWS, hash_fields::hsetex)
        .keys(&[RW_UPDATE])
        .takes(
            "key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value \
             [field value ...]",
        )
        .docs(
            "Sets fields if all or none of them exist, and when they expire.",
            "8.0.0",
            PER_FIELD,
        ),
    hash("HSETNX", exactly(4), GROWS, hash_write::hsetnx)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .takes("key field value")
        .docs("Sets a field that does not exist.", "2.0.0", "O(1)"),
    hash("HSTRLEN", exactly(3), READ, hash_read::hstrlen)
        .keys(&[RO])
        .takes("key field")
        .docs("Returns the length of a field's value.", "3.2.0", "O(1)"),
    tells("HTTL", hash_expiry::httl)
        .docs(
            "Returns how long fields have to live, in seconds.",
            "7.4.0",
            PER_FIELD,
        )
        .tips(ANY_OUTPUT),
    hash("HVALS", exactly(2), Flags::READONLY, hash_read::hvals)
        .keys(&[RO_ACCESS])
        .takes("key")
        .docs("Returns the values of all fields.", "2.0.0", WHOLE)
        .tips(ANY_ORDER),
];

const fn hash(name: &'static str, arity: Arity, flags: Flags, run: Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::Hash, Acl::HASH)
}

const fn expires(name: &'static str, run: Handler) -> Row {
    hash(name, at_least(6), WRITE_FAST, run).keys(&[RW_UPDATE])
}

const fn tells(name: &'static str, run: Handler) -> Row {
    hash(name, at_least(5), READ, run)
        .keys(&[RO_ACCESS])
        .takes(FIELDS)
}

/// What decides on the form of a hash.
pub(super) fn hash_limits(limits: &StoreLimits, seed: &Seed) -> HashLimits {
    HashLimits {
        max_entries: usize::try_from(limits.hash_max_listpack_entries()).unwrap_or(0),
        max_value: usize::try_from(limits.hash_max_listpack_value()).unwrap_or(0),
        seed: seed.of_collections(),
    }
}
