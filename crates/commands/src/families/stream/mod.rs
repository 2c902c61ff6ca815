//! Streams: entries with growing IDs, and consumer groups.

mod append;
mod claim;
mod delete;
mod group;
mod ids;
mod info;
mod pending;
mod producers;
mod range;
mod read;
mod read_group;

use tollgate_containers::listpack::Element;
use tollgate_containers::stream::{Entry, StreamId};
use tollgate_wire::resp::ReplyBuf;

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Arity, Family, Flags, Group, Handler, Row, Run};

pub(super) static FAMILY: Family = Family {
    name: "Streams",
    about: "Entries with growing IDs, and consumer groups that share them out. A stream stays when its last entry goes.",
    rows: &[
        changes("XACK", at_least(4), FAST, group::xack, UPDATED)
            .takes("key group id [id ...]")
            .docs(
                "Acknowledges entries that were delivered to a group.",
                "5.0.0",
                "O(1) for each ID",
            ),
        changes("XACKDEL", at_least(6), FAST, delete::xackdel, RELEASED)
            .takes("key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]")
            .docs(
                "Acknowledges entries and deletes them, with what other groups know of them if asked.",
                "8.2.0",
                "O(1) for each ID, times the groups with DELREF and ACKED",
            ),
        changes("XADD", at_least(5), FAST.or(Flags::DENYOOM), append::xadd, ADDED)
            .takes(
                "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] \
                 <* | id> field value [field value ...]",
            )
            .tips(RANDOM)
            .docs(
                "Adds an entry, if asked only once for an ID of its producer, and trims the stream if asked.",
                "5.0.0",
                "O(1), and O(N) in the entries that are trimmed",
            ),
        changes("XAUTOCLAIM", at_least(6), FAST, claim::xautoclaim, DELETED)
            .takes("key group consumer min-idle-time start [COUNT count] [JUSTID]")
            .tips(RANDOM)
            .docs(
                "Gives a consumer the entries that others have held for long.",
                "6.2.0",
                "O(1) for a small COUNT",
            ),
        changes("XCFGSET", at_least(2), FAST, producers::xcfgset, UPDATED)
            .takes("key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]")
            .docs(
                "Sets how long and how many IDs of its producers a stream remembers, and forgets those it has.",
                "8.6.0",
                "O(N) in the IDs that are forgotten",
            ),
        changes("XCLAIM", at_least(6), FAST, claim::xclaim, UPDATED)
            .takes(
                "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] \
                 [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
            )
            .tips(RANDOM)
            .docs(
                "Gives a consumer entries that others hold.",
                "5.0.0",
                "O(log N) in the entries pending in the group",
            ),
        changes("XDEL", at_least(3), FAST, delete::xdel, DELETED)
            .takes("key id [id ...]")
            .docs("Deletes entries.", "5.0.0", "O(1) for each ID"),
        changes("XDELEX", at_least(5), FAST, delete::xdelex, DELETED)
            .takes("key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]")
            .docs(
                "Deletes entries, with what groups know of them if asked.",
                "8.2.0",
                "O(1) for each ID, times the groups with DELREF and ACKED",
            ),
        stream("XGROUP", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Stream, Acl::NONE)
            .docs("Holds the commands that change consumer groups.", "5.0.0", "as the sub-command")
            .subs(group::SUBS),
        changes("XIDMPRECORD", exactly(5), FAST.or(Flags::DENYOOM), producers::xidmprecord, UPDATED)
            .takes("key producer-id idempotent-id stream-id")
            .docs(
                "Records the ID of a producer for an entry that is there; for files and replicas.",
                "8.6.2",
                "O(log N) in the IDs of the producer",
            ),
        stream("XINFO", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Stream, Acl::NONE)
            .docs("Holds the commands that describe a stream.", "5.0.0", "as the sub-command")
            .subs(info::SUBS),
        reads("XLEN", exactly(2), FAST, range::xlen, &[KeySpec::at(1, KeyFlags::RO)])
            .takes("key")
            .docs("Returns the number of entries.", "5.0.0", "O(1)"),
        reads("XPENDING", at_least(3), Flags::NONE, pending::xpending, LOOKED_AT)
            .takes("key group [[IDLE min-idle-time] start end count [consumer]]")
            .tips(RANDOM)
            .docs(
                "Returns what was delivered to a group and is not acknowledged.",
                "5.0.0",
                "O(N) in the entries returned, or passed over by IDLE",
            ),
        reads("XRANGE", at_least(4), Flags::NONE, range::xrange, LOOKED_AT)
            .takes("key start end [COUNT count]")
            .docs(
                "Returns the entries between two IDs.",
                "5.0.0",
                "O(N) in the entries returned",
            ),
        reads("XREAD", at_least(4), WAITS, read::xread, const {
            &[KeySpec::first_half_behind("STREAMS", 1, OPTIONS, READ)]
        })
        .takes("[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]")
        .docs(
            "Returns the entries behind an ID of each stream; can wait for one.",
            "5.0.0",
            "O(N) in the entries returned",
        ),
        stream("XREADGROUP", at_least(7), Flags::WRITE.or(WAITS), Run::Keys(read_group::xreadgroup))
            .keys(const { &[KeySpec::first_half_behind("STREAMS", 4, OPTIONS, READ)] })
            .takes(
                "GROUP group consumer [COUNT count] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
            )
            .docs(
                "Returns entries as a consumer of a group; can wait for one, and take over what others have left.",
                "5.0.0",
                "O(N) in the entries returned, and with CLAIM in those that are pending",
            ),
        reads("XREVRANGE", at_least(4), Flags::NONE, range::xrevrange, LOOKED_AT)
            .takes("key end start [COUNT count]")
            .docs(
                "Returns the entries between two IDs, backwards.",
                "5.0.0",
                "O(N) in the entries returned",
            ),
        changes("XSETID", at_least(3), FAST.or(Flags::DENYOOM), append::xsetid, UPDATED)
            .takes("key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]")
            .docs("Sets the last ID of a stream.", "5.0.0", "O(1)"),
        changes("XTRIM", at_least(4), Flags::NONE, append::xtrim, DELETED)
            .takes("key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]")
            .tips(RANDOM)
            .docs(
                "Removes entries from the front.",
                "5.0.0",
                "O(N) in the entries removed",
            ),
    ],
};

const FAST: Flags = Flags::FAST;
const WAITS: Flags = Flags::BLOCKING.or(Flags::MOVABLE_KEYS);
const READ: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const LOOKED_AT: &[KeySpec] = &[KeySpec::at(1, READ)];
const LOOKED_AT_2: &[KeySpec] = &[KeySpec::at(2, READ)];
const UPDATED: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE))];
const DELETED: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::DELETE))];
const RELEASED: &[KeySpec] = &[KeySpec::at(
    1,
    KeyFlags::RW.or(KeyFlags::UPDATE).or(KeyFlags::DELETE),
)];
const ADDED: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE))
    .notes("UPDATE instead of INSERT because of the optional trimming feature")];
const RANDOM: &[&str] = &["nondeterministic_output"];

/// What may stand before STREAMS, and the words that follow each.
const OPTIONS: &[(&str, u8)] = &[("COUNT", 1), ("BLOCK", 1), ("GROUP", 2)];

const fn stream(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Stream, Acl::STREAM)
}

const fn changes(
    name: &'static str,
    arity: Arity,
    flags: Flags,
    run: Handler,
    keys: &'static [KeySpec],
) -> Row {
    stream(name, arity, flags.or(Flags::WRITE), Run::Keys(run)).keys(keys)
}

const fn reads(
    name: &'static str,
    arity: Arity,
    flags: Flags,
    run: Handler,
    keys: &'static [KeySpec],
) -> Row {
    stream(name, arity, flags.or(Flags::READONLY), Run::Keys(run)).keys(keys)
}

/// Writes an ID.
fn write_id(out: &mut ReplyBuf, id: StreamId) {
    out.bulk(id.write(&mut [0; StreamId::TEXT_LEN]));
}

fn write_element(out: &mut ReplyBuf, element: Element<'_>) {
    match element {
        Element::Int(int) => out.bulk_int(int),
        Element::Bytes(bytes) => out.bulk(bytes),
    }
}

/// Writes an entry: its ID, and fields and values in one list.
fn write_entry(out: &mut ReplyBuf, entry: Entry<'_>) {
    out.array(2);
    write_parts(out, entry);
}

/// Writes an entry, how long ago it was delivered, in milliseconds, and how often.
fn write_delivered(out: &mut ReplyBuf, entry: Entry<'_>, idle_ms: i64, count: u64) {
    out.array(4);
    write_parts(out, entry);
    out.int(idle_ms);
    out.int(i64::try_from(count).unwrap_or(i64::MAX));
}

fn write_parts(out: &mut ReplyBuf, entry: Entry<'_>) {
    write_id(out, entry.id());
    out.array(2 * entry.field_count());
    for (field, value) in entry.fields() {
        write_element(out, field);
        write_element(out, value);
    }
}

/// Writes up to `count` entries (0 = all) as a list.
fn write_entries<'a>(out: &mut ReplyBuf, entries: impl Iterator<Item = Entry<'a>>, count: usize) {
    let place = out.defer_array();
    let most = if count == 0 { usize::MAX } else { count };
    let mut written = 0;
    for entry in entries.take(most) {
        write_entry(out, entry);
        written += 1;
    }
    out.close_array(place, written);
}
