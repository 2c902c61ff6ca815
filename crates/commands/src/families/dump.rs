//! DUMP, RESTORE and MIGRATE: single values as Redis stores them.

use tollgate_containers::number;
use tollgate_keyspace::{Access, Seed};
use tollgate_persist::rdb::{Shapes, dump_value_as, restore_unchecked, restore_value};

use super::keys::generic;
use super::{hash, list, set, zset};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly};
use crate::{
    Acl, Args, CmdError, Cx, Event, Family, Flags, Group, NodeCommand, Reply, Run, StoreLimits,
};

pub(super) static FAMILY: Family = Family {
    name: "Payloads",
    about: "Single values in the form in which Redis stores them; payloads go both ways between it and Tollgate.",
    rows: &[
        generic(
            "DUMP",
            exactly(2),
            Flags::READONLY.or(Flags::BULKY),
            Run::Keys(dump),
        )
        .keys(&[KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .takes("key")
        .tips(&["nondeterministic_output"])
        .docs(
            "Returns a value in the form that RESTORE takes.",
            "2.6.0",
            "O(N) in the bytes",
        ),
        generic(
            "MIGRATE",
            at_least(6),
            Flags::WRITE.or(Flags::MOVABLE_KEYS),
            Run::Node(NodeCommand::Migrate),
        )
        .acl(Group::Generic, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .keys(&[
            KeySpec::at(3, MOVED).found_by(single_key),
            KeySpec::all_behind("KEYS", -2, MOVED.or(KeyFlags::INCOMPLETE)),
        ])
        .takes(
            "host port <key | \"\"> destination-db timeout [COPY] [REPLACE] \
             [AUTH password | AUTH2 username password] [KEYS key [key ...]]",
        )
        .tips(&["nondeterministic_output"])
        .docs(
            "Moves keys to another server: each is here until it is there.",
            "2.6.0",
            "O(N) in the bytes, which are sent while the keys are locked",
        ),
        generic(
            "RESTORE",
            at_least(4),
            Flags::WRITE.or(Flags::DENYOOM),
            Run::Keys(restore),
        )
        .acl(Group::Generic, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .keys(&[KeySpec::at(1, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .takes("key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]")
        .docs(
            "Creates a key with a value that DUMP gave.",
            "2.6.0",
            "O(N) in the bytes, O(N*log(N)) for sorted sets",
        ),
        generic(
            "RESTORE-ASKING",
            at_least(4),
            Flags::WRITE.or(Flags::DENYOOM).or(Flags::ASKING),
            Run::Keys(restore),
        )
        .acl(Group::Server, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .keys(&[KeySpec::at(1, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .takes("key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]")
        .docs(
            "Does what RESTORE does, for tools that move slots between servers.",
            "3.0.0",
            "O(N) in the bytes, O(N*log(N)) for sorted sets",
        ),
    ],
};

/// What MIGRATE does to its keys.
const MOVED: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE);

/// The place of MIGRATE's one key; before `KEYS` an empty word stands there.
fn single_key(words: &[&[u8]]) -> Option<usize> {
    let several = || {
        words[4..]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(b"KEYS"))
    };
    let key = words.get(3)?;
    (!key.is_empty() || !several()).then_some(3)
}

/// What the limits say about the forms of collections that are read.
pub fn shapes(limits: &StoreLimits, seed: &Seed) -> Shapes {
    Shapes {
        hash: hash::hash_limits(limits, seed),
        set: set::set_limits(limits, seed),
        sorted_set: zset::limits(limits, seed),
        list: list::node_limit(limits),
    }
}

fn dump(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let compress = cx.limits.rdb_compression() != 0;
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Null);
    };
    let payload = dump_value_as(found.entry.value(), compress);
    found.out.bulk(&payload);
    Ok(Reply::Written)
}

/// How the key is created.
#[derive(Default)]
struct Options {
    replace: bool,
    /// The expiry is a time and not a duration.
    absolute: bool,
    idle_secs: Option<u64>,
    frequency: Option<u8>,
}

fn options(args: &mut Args<'_>) -> Result<Options, CmdError> {
    let mut options = Options::default();
    while !args.is_empty() {
        let more = args.len() > 1;
        if args.keyword("REPLACE") {
            options.replace = true;
        } else if args.keyword("ABSTTL") {
            options.absolute = true;
        } else if more && options.frequency.is_none() && args.keyword("IDLETIME") {
            let secs = u64::try_from(args.int()?);
            let wrong = "Invalid IDLETIME value, must be >= 0";
            options.idle_secs = Some(secs.map_err(|_| CmdError::err(wrong))?);
        } else if more && options.idle_secs.is_none() && args.keyword("FREQ") {
            let frequency = u8::try_from(args.int()?);
            let wrong = "Invalid FREQ value, must be >= 0 and <= 255";
            options.frequency = Some(frequency.map_err(|_| CmdError::err(wrong))?);
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok(options)
}

fn restore(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (ttl, payload) = (args.next()?, args.next()?);
    let options = options(&mut args)?;
    if !options.replace && cx.find(key).is_some() {
        return Err(CmdError::BusyKey);
    }
    let ttl = number::parse_i64(ttl).ok_or(CmdError::NotAnInteger)?;
    if ttl < 0 {
        return Err(CmdError::err("Invalid TTL value, must be >= 0"));
    }
    let read = match cx.limits.skips_checksums() {
        0 => restore_value,
        _ => restore_unchecked,
    };
    let value = read(payload, &shapes(cx.limits, cx.seed))
        .map_err(|error| CmdError::err(error.to_string()))?;
    let now = cx.now_ms();
    let expires_at_ms = match ttl {
        0 => None,
        _ if options.absolute => Some(ttl),
        _ => Some(ttl.wrapping_add(now)),
    };
    if expires_at_ms.is_some_and(|at| now > at && cx.has_passed(at)) {
        cx.delete(key);
        return Ok(Reply::Ok);
    }
    if options.replace {
        // So the key is a new one in any case.
        cx.discard(cx.db, key, now);
    }
    cx.set(key, value, expires_at_ms, Event::Restore);
    let access = cx.limits.access();
    if let Some(mut entry) = cx.shards.of(key).get_mut(cx.db, key, now) {
        match (access, options.idle_secs, options.frequency) {
            (Access::Time | Access::ChangeTime, Some(secs), _) => entry.set_idle_secs(secs, now),
            (Access::Frequency { .. }, _, Some(count)) => entry.set_frequency(count, now),
            _ => {}
        }
    }
    Ok(Reply::Ok)
}
