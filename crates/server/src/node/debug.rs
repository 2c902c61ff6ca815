//! DEBUG: what test suites ask of a server.

use super::{NodeRunner, digest};
use crate::aof;
use crate::config::Key;
use crate::snapshot::LoadAs;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tollgate_commands::{CmdError, Reply, help_title};
use tollgate_containers::{glob, number};
use tollgate_engine::{Engine, NodeCx};
use tollgate_keyspace::DbIndex;
use tollgate_net::{fatal, threads};
use tollgate_persist::rdb;
use tollgate_wire::resp::Protocol;

/// Longest sleep, in seconds.
const LONGEST_SLEEP: f64 = 3_600.0;

pub(super) fn debug(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    if !runner.is_allowed(Key::EnableDebugCommand) {
        return Err(CmdError::DebugNotAllowed);
    }
    let name = cx.args.next()?.to_ascii_uppercase();
    let arguments = cx.args.rest();
    match (&name[..], arguments) {
        (b"HELP", []) => {
            help(cx);
            Ok(Reply::Written)
        }
        (b"SLEEP", [seconds]) => sleep(seconds),
        (b"REPLICATE", words @ [_, ..]) => {
            cx.engine.replicate(words);
            Ok(Reply::Ok)
        }
        (b"OBJECT", [key]) => object(cx, key),
        (b"DIGEST", []) => {
            let digest = digest::all(cx.engine, cx.now.millis());
            cx.out.simple(&digest);
            Ok(Reply::Written)
        }
        (b"DIGEST-VALUE", keys) => {
            cx.out.array(keys.len());
            for key in keys {
                let digest = digest::value(cx.engine, cx.session.db, key, cx.now.millis());
                cx.out.simple(&digest);
            }
            Ok(Reply::Written)
        }
        (b"POPULATE", [count, options @ ..]) if options.len() <= 2 => populate(cx, count, options),
        (b"PROTOCOL", [kind]) => protocol(cx, kind),
        (b"SET-DISABLE-DENY-SCRIPTS", [on]) => {
            cx.engine.allow_all_from_scripts(is_set(on));
            Ok(Reply::Ok)
        }
        (b"STRINGMATCH-LEN", [pattern, text]) => {
            Ok(Reply::flag(glob::matches(pattern, text, false)))
        }
        (b"ERROR", [text]) => Err(CmdError::line(text)),
        (b"RELOAD", options) if options.iter().all(|it| is_reload_option(it)) => {
            reload(runner, cx, options)
        }
        (b"LOADAOF", []) => load_log(runner, cx),
        (b"CHANGE-REPL-ID" | b"CONFIG-REWRITE-FORCE-ALL", []) => Ok(Reply::Ok),
        (b"SET-SKIP-CHECKSUM-VALIDATION", [on]) => {
            (cx.engine).set_limit("skip-checksum-validation", i64::from(is_set(on)));
            Ok(Reply::Ok)
        }
        // What these change of Redis' inside has no counterpart here.
        (b"QUICKLIST-PACKED-THRESHOLD", [_]) | (b"REPLYBUFFER", [_, _]) => Ok(Reply::Ok),
        _ => direct(runner, cx, &name, arguments),
    }
}

/// Sub-commands that tell the parts of the server what to do, and have no other reply.
fn direct(
    runner: &NodeRunner<'_>,
    cx: &NodeCx<'_>,
    name: &[u8],
    arguments: &[&[u8]],
) -> Result<Reply, CmdError> {
    match (name, arguments) {
        (b"SET-ACTIVE-EXPIRE", [on]) => {
            runner
                .shared
                .active_expire
                .store(is_set(on), Ordering::Relaxed);
            Ok(Reply::Ok)
        }
        (b"PAUSE-CRON", [on]) => {
            runner
                .shared
                .housekeeping
                .store(!is_set(on), Ordering::Relaxed);
            Ok(Reply::Ok)
        }
        (b"LOG", [text]) => {
            let text = String::from_utf8_lossy(text);
            (runner.shared.log).warning(format_args!("DEBUG LOG: {text}"));
            Ok(Reply::Ok)
        }
        (b"AOF-FLUSH-SLEEP", [micros]) => {
            let micros = number::parse_i64(micros).unwrap_or(0);
            runner
                .shared
                .aof
                .put_off_writing(micros.max(0).unsigned_abs());
            Ok(Reply::Ok)
        }
        (b"PANIC", []) => panic!("DEBUG PANIC"),
        (b"SEGFAULT", []) => {
            fatal::fault();
            Ok(Reply::Ok)
        }
        _ => Err(CmdError::subcommand_syntax(cx.args.all())),
    }
}

/// A number that is not 0, as Redis reads switches here.
fn is_set(word: &[u8]) -> bool {
    number::parse_i64(word).unwrap_or(0) != 0
}

fn sleep(seconds: &[u8]) -> Result<Reply, CmdError> {
    let text = std::str::from_utf8(seconds).unwrap_or_default();
    let seconds = text.parse::<f64>().unwrap_or(0.0);
    if seconds > 0.0 {
        // The thread stands still, and with it the connections it serves: that is what is asked for.
        threads::stand_still(Duration::from_secs_f64(seconds.min(LONGEST_SLEEP)));
    }
    Ok(Reply::Ok)
}

fn object(cx: &mut NodeCx<'_>, key: &[u8]) -> Result<Reply, CmdError> {
    let now = cx.now.millis();
    let db = cx.session.db;
    let compress = cx.engine.limits().rdb_compression() != 0;
    // At time 0 nothing has expired: an entry whose time is over is shown as long as it is there.
    let found = cx.engine.with_entry(db, key, 0, |entry| {
        format!(
            "Value at:0x0 refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
            entry.encoding().as_str(),
            rdb::serialized_len(entry.value(), compress),
            (now / 1_000 - entry.idle_secs(now) as i64) & 0xff_ffff,
            entry.idle_secs(now)
        )
    });
    let line = found.ok_or(CmdError::NoSuchKey)?;
    cx.out.simple(&line);
    Ok(Reply::Written)
}

/// Adds strings `prefix:number`, those that are missing. With a size each is cut, or filled with zero bytes, to so many.
fn populate(cx: &mut NodeCx<'_>, count: &[u8], options: &[&[u8]]) -> Result<Reply, CmdError> {
    let positive = |word| {
        let number = number::parse_i64(word).filter(|&number| number >= 0);
        number.ok_or(CmdError::NotPositive)
    };
    let count = positive(count)?;
    let size = options.get(1).map_or(Ok(0), |word| positive(word))?;
    if size > cx.engine.limits().proto_max_bulk_len() {
        return Err(CmdError::StringTooLong);
    }
    let prefix = options.first().copied().unwrap_or(b"key");
    for number in 0..count {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size as usize, 0);
        }
        let name = (cx.session.db, &key[..]);
        cx.engine.add_missing(cx.session.id, name, &value, cx.now);
    }
    Ok(Reply::Ok)
}

fn is_reload_option(word: &[u8]) -> bool {
    let known: [&[u8]; 3] = [b"MERGE", b"NOFLUSH", b"NOSAVE"];
    known.iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Writes the snapshot unless NOSAVE, forgets everything unless NOFLUSH, and reads the snapshot. What is there already is
/// an error unless MERGE: then the snapshot's values hold.
fn reload(
    runner: &NodeRunner<'_>,
    cx: &mut NodeCx<'_>,
    options: &[&[u8]],
) -> Result<Reply, CmdError> {
    let has = |option: &[u8]| options.iter().any(|it| it.eq_ignore_ascii_case(option));
    let shared = runner.shared;
    if !has(b"NOSAVE") && shared.snapshot.save(shared, cx.now).is_err() {
        return Err(CmdError::line("ERR"));
    }
    if !has(b"NOFLUSH") {
        forget_all(cx.engine);
    }
    let as_ = match has(b"MERGE") {
        true => LoadAs::Merged,
        false => LoadAs::Data,
    };
    shared
        .snapshot
        .load(shared, cx.now, as_)
        .map_err(|_| CmdError::err("Error trying to load the RDB dump, check server logs."))?;
    Ok(Reply::Ok)
}

/// Forgets all data and functions.
fn forget_all(engine: &Engine) {
    engine.for_each_shard(|shard| {
        for db in DbIndex::all() {
            shard.clear(db);
        }
    });
    engine.forget_functions();
}

/// Forgets everything and reads the append-only file.
fn load_log(runner: &NodeRunner<'_>, cx: &NodeCx<'_>) -> Result<Reply, CmdError> {
    if cx.in_transaction {
        // What is read is locked piece by piece.
        return Err(CmdError::err(
            "DEBUG LOADAOF is not allowed in transactions",
        ));
    }
    let shared = runner.shared;
    aof::reload(shared, || forget_all(cx.engine)).map_err(|reason| {
        shared.log.warning(format_args!("{reason}"));
        CmdError::err("Error trying to load the AOF files, check server logs.")
    })?;
    Ok(Reply::Ok)
}

/// One reply of each type.
fn protocol(cx: &mut NodeCx<'_>, kind: &[u8]) -> Result<Reply, CmdError> {
    // In a script, that of the script.
    let resp3 = cx.out.protocol() == Protocol::Resp3;
    let out = &mut *cx.out;
    match &kind.to_ascii_lowercase()[..] {
        b"string" => out.bulk(b"Hello World"),
        b"integer" => out.int(12_345),
        b"double" => out.double(3_141.0 / 1_000.0),
        b"bignum" => out.big_number(b"1234567999999999999999999999999999999"),
        b"null" => out.null(),
        b"array" => {
            out.array(3);
            (0..3).for_each(|n| out.int(n));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|n| out.int(n));
        }
        b"map" => {
            out.map(3);
            for n in 0..3 {
                out.int(n);
                out.bool(n == 1);
            }
        }
        b"attrib" => {
            if resp3 {
                out.raw(b"|1\r\n");
                out.bulk(b"key-popularity");
                out.array(2);
                out.bulk(b"key:123");
                out.int(90);
            }
            out.bulk(b"Some real reply following the attribute");
        }
        b"push" if !resp3 => {
            return Err(CmdError::err("RESP2 is not supported by this command"));
        }
        b"push" => {
            out.push(2);
            out.bulk(b"server-cpu-usage");
            out.int(42);
            out.bulk(b"Some real reply following the push reply");
        }
        b"true" => out.bool(true),
        b"false" => out.bool(false),
        b"verbatim" => out.verbatim("txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(CmdError::err(
                "Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(Reply::Written)
}

fn help(cx: &mut NodeCx<'_>) {
    let title = help_title(&cx.args);
    let lines = [
        title.as_str(),
        "AOF-FLUSH-SLEEP <microseconds>",
        "    Puts off each write of the append-only file.",
        "CHANGE-REPL-ID, CONFIG-REWRITE-FORCE-ALL,",
        "QUICKLIST-PACKED-THRESHOLD <size>, REPLYBUFFER <setting> <value>,",
        "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
        "    Answer OK: what they change of Redis has no counterpart here.",
        "DIGEST",
        "    Answers with a digest of all the data.",
        "DIGEST-VALUE <key> [<key> ...]",
        "    Answers with a digest of the value of each key.",
        "ERROR <string>",
        "    Answers with that error.",
        "LOADAOF",
        "    Writes what waits for the append-only file, forgets everything, and reads the file.",
        "LOG <message>",
        "    Writes the message to the log.",
        "OBJECT <key>",
        "    Describes the value of a key.",
        "PANIC",
        "    Ends the server as a mistake in it would.",
        "PAUSE-CRON <0|1>",
        "    Stops or continues the housekeeping: expiry, eviction ahead of need, sampling.",
        "POPULATE <count> [<prefix>] [<size>]",
        "    Adds <count> strings <prefix>:<number> (key:<number>), of <size> bytes each. Replicas are not told.",
        "PROTOCOL <type>",
        "    Answers with a value of that type.",
        "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
        "    Writes the snapshot, forgets everything, and reads the snapshot; MERGE: over what is there.",
        "SEGFAULT",
        "    Ends the server as a fault of memory in it would.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Stops or continues the removal of expired keys that nobody asks for.",
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "    Lets scripts call every command, or only those that are for scripts.",
        "SLEEP <seconds>",
        "    Stops the thread of the connection for so long.",
        "STRINGMATCH-LEN <pattern> <string>",
        "    Tells whether the pattern matches.",
        "HELP",
        "    Prints this help.",
    ];
    cx.out.array(lines.len());
    lines.iter().for_each(|line| cx.out.simple(line));
}
