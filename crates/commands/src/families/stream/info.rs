//! XINFO's sub-commands.

use tollgate_containers::stream::{Consumer, Group, Log, READ_UNKNOWN, Stream, StreamId};
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use super::{LOOKED_AT_2, RANDOM, ids, stream, write_entries, write_entry, write_id};
use crate::row::{at_least, exactly};
use crate::{Args, Arity, CmdError, Cx, Flags, Handler, Reply, Row, Run, Seen};

/// Entries and deliveries that FULL shows of each kind unless told otherwise.
const FULL_COUNT: i64 = 10;

pub(super) const SUBS: &[Row] = &[
    xinfo("XINFO|CONSUMERS", exactly(4), consumers)
        .takes("key group")
        .tips(RANDOM)
        .docs(
            "Describes the consumers of a group.",
            "5.0.0",
            "O(N) in the consumers",
        ),
    xinfo("XINFO|GROUPS", exactly(3), groups).takes("key").docs(
        "Describes the groups of a stream.",
        "5.0.0",
        "O(N) in the groups",
    ),
    stream(
        "XINFO|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    xinfo("XINFO|STREAM", at_least(3), describe)
        .takes("key [FULL [COUNT count]]")
        .docs("Describes a stream.", "5.0.0", "O(N) in its nodes"),
];

const fn xinfo(name: &'static str, arity: Arity, run: Handler) -> Row {
    stream(name, arity, Flags::READONLY, Run::Keys(run)).keys(LOOKED_AT_2)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ];
    Ok(super::super::help(cx, &args, &lines))
}

/// The stream, which must exist.
fn seen<'c>(cx: &'c mut Cx<'_>, key: Key<'c>) -> Result<Seen<'c, Stream>, CmdError> {
    cx.read_as::<Stream>(key)?.ok_or(CmdError::NoSuchKey)
}

fn consumers(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let seen = seen(cx, key)?;
    let name = args.next()?;
    let group = seen.value.groups().get(name);
    let group = group.ok_or_else(|| ids::no_group_of_key(key.bytes(), name))?;
    let out = seen.out;
    out.array(group.consumer_count());
    for consumer in group.consumers() {
        out.map(3);
        out.bulk(b"name");
        out.bulk(consumer.name());
        out.bulk(b"pending");
        out.int(consumer.pending_len() as i64);
        out.bulk(b"idle");
        out.int(seen.now_ms.saturating_sub(consumer.seen_ms).max(0));
    }
    Ok(Reply::Written)
}

fn groups(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = seen(cx, args.key()?)?;
    let (log, groups, out) = (seen.value.log(), seen.value.groups(), seen.out);
    out.array(groups.len());
    for (name, group) in groups.iter() {
        out.map(6);
        out.bulk(b"name");
        out.bulk(name);
        out.bulk(b"consumers");
        out.int(group.consumer_count() as i64);
        out.bulk(b"pending");
        out.int(group.pending_len() as i64);
        write_progress(out, log, group);
    }
    Ok(Reply::Written)
}

/// Writes how far a group has come.
fn write_progress(out: &mut ReplyBuf, log: &Log, group: &Group) {
    out.bulk(b"last-delivered-id");
    write_id(out, group.last_id);
    let read = Some(group.entries_read).filter(|&read| read != READ_UNKNOWN);
    for (name, number) in [("entries-read", read), ("lag", group.lag(log))] {
        out.bulk(name.as_bytes());
        match number {
            Some(number) => out.int(number),
            None => out.null(),
        }
    }
}

fn describe(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = seen(cx, args.key()?)?;
    let wrong = || CmdError::subcommand_syntax(args.all());
    let full = match args.rest() {
        [] => None,
        [full] if full.eq_ignore_ascii_case(b"FULL") => Some(FULL_COUNT),
        [full, count, number]
            if full.eq_ignore_ascii_case(b"FULL") && count.eq_ignore_ascii_case(b"COUNT") =>
        {
            let count = tollgate_containers::number::parse_i64(number);
            let count = count.ok_or(CmdError::NotAnInteger)?;
            Some(if count < 0 { FULL_COUNT } else { count })
        }
        _ => return Err(wrong()),
    };
    match full {
        None => brief(seen.value, seen.now_ms, seen.out),
        Some(count) => whole(seen.value, seen.now_ms, count as usize, seen.out),
    }
    Ok(Reply::Written)
}

fn write_log_state(log: &Log, out: &mut ReplyBuf) {
    let state = log.state();
    for (name, number) in [
        ("length", log.len()),
        ("radix-tree-keys", log.nodes().len()),
        ("radix-tree-nodes", log.radix_nodes()),
    ] {
        out.bulk(name.as_bytes());
        out.int(number as i64);
    }
    out.bulk(b"last-generated-id");
    write_id(out, state.last_id);
    out.bulk(b"max-deleted-entry-id");
    write_id(out, state.max_deleted_id);
    out.bulk(b"entries-added");
    out.int(state.entries_added as i64);
    out.bulk(b"recorded-first-entry-id");
    write_id(out, state.first_id);
}

/// Lines about producers.
const OF_PRODUCERS: usize = 6;

/// Number of lines, `others` beside those about producers, which a stream that never had any does not have, as in Redis 7.0.
fn lines(stream: &Stream, others: usize) -> usize {
    others + stream.producers().map_or(0, |_| OF_PRODUCERS)
}

fn write_producers(stream: &Stream, now_ms: i64, out: &mut ReplyBuf) {
    let Some(producers) = stream.producers() else {
        return;
    };
    let memory = producers.memory();
    let (names, own_ids) = producers.counts(now_ms);
    let lines: [(&str, u64); OF_PRODUCERS] = [
        ("idmp-duration", memory.duration_secs),
        ("idmp-maxsize", memory.most),
        ("pids-tracked", names as u64),
        ("iids-tracked", own_ids as u64),
        ("iids-added", producers.added),
        ("iids-duplicates", producers.duplicates),
    ];
    for (name, number) in lines {
        out.bulk(name.as_bytes());
        out.int(number as i64);
    }
}

fn brief(stream: &Stream, now_ms: i64, out: &mut ReplyBuf) {
    let log = stream.log();
    out.map(lines(stream, 10));
    write_log_state(log, out);
    write_producers(stream, now_ms, out);
    out.bulk(b"groups");
    out.int(stream.groups().len() as i64);
    for (name, entry) in [("first-entry", log.first()), ("last-entry", log.last())] {
        out.bulk(name.as_bytes());
        match entry {
            Some(entry) => write_entry(out, entry),
            None => out.null(),
        }
    }
}

/// Everything; of entries and deliveries the first `count` (0 = all).
fn whole(stream: &Stream, now_ms: i64, count: usize, out: &mut ReplyBuf) {
    let log = stream.log();
    out.map(lines(stream, 9));
    write_log_state(log, out);
    write_producers(stream, now_ms, out);
    out.bulk(b"entries");
    write_entries(out, log.range(StreamId::MIN, StreamId::MAX), count);
    out.bulk(b"groups");
    out.array(stream.groups().len());
    let most = if count == 0 { usize::MAX } else { count };
    for (name, group) in stream.groups().iter() {
        out.map(7);
        out.bulk(b"name");
        out.bulk(name);
        write_progress(out, log, group);
        out.bulk(b"pel-count");
        out.int(group.pending_len() as i64);
        out.bulk(b"pending");
        out.array(group.pending_len().min(most));
        for (id, pending) in group.pending_from(StreamId::MIN).take(most) {
            out.array(4);
            write_id(out, *id);
            out.bulk(group.name_of(pending.consumer));
            out.int(pending.delivered_ms);
            out.int(pending.count as i64);
        }
        out.bulk(b"consumers");
        out.array(group.consumer_count());
        for consumer in group.consumers() {
            write_consumer(group, consumer, most, out);
        }
    }
}

fn write_consumer(group: &Group, consumer: &Consumer, most: usize, out: &mut ReplyBuf) {
    out.map(4);
    out.bulk(b"name");
    out.bulk(consumer.name());
    out.bulk(b"seen-time");
    out.int(consumer.seen_ms);
    out.bulk(b"pel-count");
    out.int(consumer.pending_len() as i64);
    out.bulk(b"pending");
    out.array(consumer.pending_len().min(most));
    for id in consumer.pending_from(StreamId::MIN).take(most) {
        let delivery = group.pending(id);
        out.array(3);
        write_id(out, id);
        out.int(delivery.map_or(0, |pending| pending.delivered_ms));
        out.int(delivery.map_or(0, |pending| pending.count as i64));
    }
}
