//! XGROUP's sub-commands, XACK.

use tollgate_containers::stream::{Group, READ_UNKNOWN, Stream, StreamId};

use super::{ids, producers, stream};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly};
use crate::{Args, Arity, Change, CmdError, Create, Cx, Event, Flags, Handler, Reply, Row, Run};

const INSERTED: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW.or(KeyFlags::INSERT))];
const UPDATED: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW.or(KeyFlags::UPDATE))];
const DELETED: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW.or(KeyFlags::DELETE))];
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);

pub(super) const SUBS: &[Row] = &[
    xgroup("XGROUP|CREATE", at_least(5), GROWS, create, INSERTED)
        .takes("key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]")
        .docs("Creates a consumer group.", "5.0.0", "O(1)"),
    xgroup(
        "XGROUP|CREATECONSUMER",
        exactly(5),
        GROWS,
        create_consumer,
        INSERTED,
    )
    .takes("key group consumer")
    .docs("Creates a consumer in a group.", "6.2.0", "O(1)"),
    xgroup(
        "XGROUP|DELCONSUMER",
        exactly(5),
        Flags::WRITE,
        delete_consumer,
        DELETED,
    )
    .takes("key group consumer")
    .docs(
        "Removes a consumer with what it has not acknowledged.",
        "5.0.0",
        "O(N) in the entries pending",
    ),
    xgroup("XGROUP|DESTROY", exactly(4), Flags::WRITE, destroy, DELETED)
        .takes("key group")
        .docs(
            "Removes a consumer group.",
            "5.0.0",
            "O(N) in the entries pending",
        ),
    stream(
        "XGROUP|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    xgroup("XGROUP|SETID", at_least(5), Flags::WRITE, set_id, UPDATED)
        .takes("key group <id | $> [ENTRIESREAD entries-read]")
        .docs(
            "Sets the last ID that was delivered to a group.",
            "5.0.0",
            "O(1)",
        ),
];

const fn xgroup(
    name: &'static str,
    arity: Arity,
    flags: Flags,
    run: Handler,
    keys: &'static [KeySpec],
) -> Row {
    stream(name, arity, flags, Run::Keys(run)).keys(keys)
}

fn syntax(args: &Args<'_>) -> CmdError {
    CmdError::subcommand_syntax(args.all())
}

/// The command cannot make the key.
fn no_key() -> CmdError {
    CmdError::err(
        "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
         to create an empty stream automatically.",
    )
}

/// What may stand behind the ID.
struct Options {
    make_stream: bool,
    entries_read: i64,
}

fn options(args: &mut Args<'_>, creates: bool) -> Result<Options, CmdError> {
    let mut options = Options {
        make_stream: false,
        entries_read: READ_UNKNOWN,
    };
    while !args.is_empty() {
        if creates && args.keyword("MKSTREAM") {
            options.make_stream = true;
        } else if args.len() > 1 && args.keyword("ENTRIESREAD") {
            options.entries_read = args.int()?;
            if options.entries_read < 0 && options.entries_read != READ_UNKNOWN {
                return Err(CmdError::err(
                    "value for ENTRIESREAD must be positive or -1",
                ));
            }
        } else {
            return Err(syntax(args));
        }
    }
    Ok(options)
}

fn create(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (name, id) = (args.next()?, args.next()?);
    let options = options(&mut args, true)?;
    let make = if options.make_stream {
        Create::Yes
    } else {
        Create::No
    };
    let too_many = args.all().len() > 8;
    let created = cx.change::<Stream, _>(key, make, |change| {
        if too_many {
            return Err(syntax(&args));
        }
        producers::begin(change);
        let id = match id {
            b"$" => change.value.log().last_id(),
            _ => ids::id(id)?,
        };
        let group = Group::new(id, options.entries_read);
        if !change.value.groups_mut().add(name, group) {
            return Err(CmdError::GroupExists);
        }
        change.touched(Event::XGroupCreate);
        Ok(Reply::Ok)
    })?;
    created.ok_or_else(no_key)
}

/// Changes a stream that must exist.
fn existing(
    cx: &mut Cx<'_>,
    args: &mut Args<'_>,
    f: impl FnOnce(&mut Change<'_, Stream>, &[u8], &[u8]) -> Result<Reply, CmdError>,
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = args.next()?;
    let changed = cx.change::<Stream, _>(key, Create::No, |change| f(change, key.bytes(), name))?;
    changed.ok_or_else(no_key)
}

fn set_id(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let mut behind_id = args.clone();
    for _ in 0..3 {
        behind_id.next()?;
    }
    let options = options(&mut behind_id, false)?;
    let too_many = args.all().len() > 7;
    let id = args.all()[4];
    let words = args.clone();
    existing(cx, &mut args, |change, key, name| {
        let (log, groups) = change.value.parts_mut();
        let mut group = groups
            .get_mut(name)
            .ok_or_else(|| ids::no_group_of_key(key, name))?;
        if too_many {
            return Err(syntax(&words));
        }
        group.last_id = match id {
            b"$" => log.last_id(),
            _ => ids::id_or_end(id, 0)?,
        };
        group.entries_read = options.entries_read;
        drop(group);
        change.touched(Event::XGroupSetId);
        Ok(Reply::Ok)
    })
}

fn destroy(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    existing(cx, &mut args, |change, _, name| {
        let removed = change.value.groups_mut().remove(name);
        if removed {
            change.touched(Event::XGroupDestroy);
        }
        Ok(Reply::flag(removed))
    })
}

fn create_consumer(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let consumer = args.all()[4];
    existing(cx, &mut args, |change, key, name| {
        let now = change.now_ms;
        let mut group = change
            .value
            .groups_mut()
            .get_mut(name)
            .ok_or_else(|| ids::no_group_of_key(key, name))?;
        let created = group.add_consumer(consumer, now).is_some();
        drop(group);
        if created {
            change.touched(Event::XGroupCreateConsumer);
        }
        Ok(Reply::flag(created))
    })
}

fn delete_consumer(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let consumer = args.all()[4];
    existing(cx, &mut args, |change, key, name| {
        let mut group = change
            .value
            .groups_mut()
            .get_mut(name)
            .ok_or_else(|| ids::no_group_of_key(key, name))?;
        let removed = group.remove_consumer(consumer);
        drop(group);
        if removed.is_some() {
            change.touched(Event::XGroupDelConsumer);
        }
        Ok(Reply::count(removed.unwrap_or(0)))
    })
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ];
    Ok(super::super::help(cx, &args, &lines))
}

pub(super) fn xack(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = args.next()?;
    if cx.look(key, |_| ()).is_none() {
        return Ok(Reply::Int(0));
    }
    let acknowledged = cx.change::<Stream, _>(key, Create::No, |change| {
        let Some(mut group) = change.value.groups_mut().get_mut(name) else {
            return Ok(0);
        };
        let ids: Vec<StreamId> = ids::ids(args.rest())?;
        let count = ids.iter().filter(|&&id| group.acknowledge(id)).count();
        drop(group);
        change.count_more(count as u64);
        Ok(count)
    })?;
    Ok(Reply::count(acknowledged.unwrap_or(0)))
}
