//! OBJECT's sub-commands: a value's inner form.

use tollgate_keyspace::{Access, EntryRef, ValueRef};

use super::keys::generic;
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::exactly;
use crate::{Args, CmdError, Cx, Flags, Handler, Reply, Row, Run};

pub(super) const SUBS: &[Row] = &[
    object("OBJECT|ENCODING", encoding).docs("Returns how a value is kept.", "2.2.3", "O(1)"),
    object("OBJECT|FREQ", freq).docs(
        "Returns how often a key was used, under an LFU policy.",
        "4.0.0",
        "O(1)",
    ),
    generic(
        "OBJECT|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "6.2.0", "O(1)"),
    object("OBJECT|IDLETIME", idletime).docs(
        "Returns the seconds since a key was last used.",
        "2.2.3",
        "O(1)",
    ),
    object("OBJECT|REFCOUNT", refcount).docs(
        "Returns how many keys share a value.",
        "2.2.3",
        "O(1)",
    ),
];

const fn object(name: &'static str, run: Handler) -> Row {
    generic(name, exactly(3), Flags::READONLY, Run::Keys(run))
        .keys(const { &[KeySpec::at(2, KeyFlags::RO)] })
        .takes("key")
        .tips(&["nondeterministic_output"])
}

/// Redis shares integers below this among keys and then reports [`SHARED`] references.
const SHARED_INTEGERS: i64 = 10_000;
const SHARED: i64 = i32::MAX as i64;

/// Replies with what `show` says of the entry; null without the key.
fn tell(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    show: impl FnOnce(EntryRef<'_>) -> Result<Reply, CmdError>,
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    cx.inspect(key, show).unwrap_or(Ok(Reply::Null))
}

fn encoding(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |entry| Ok(Reply::Bulk(entry.encoding().as_str())))
}

fn freq(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let (access, now) = (cx.limits.access(), cx.now_ms());
    tell(cx, args, |entry| match access {
        Access::Time | Access::ChangeTime => Err(CmdError::LfuNotSelected),
        Access::Frequency { .. } => Ok(Reply::Int(entry.frequency(access, now).into())),
    })
}

fn idletime(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let (access, now) = (cx.limits.access(), cx.now_ms());
    tell(cx, args, |entry| match access {
        Access::Time | Access::ChangeTime => Ok(Reply::Int(entry.idle_secs(now) as i64)),
        Access::Frequency { .. } => Err(CmdError::LfuSelected),
    })
}

fn refcount(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    // Redis has no shared objects while each needs a record of its own uses.
    let shares = cx.limits.maxmemory() == 0 || !cx.limits.policy().orders_by_uses();
    tell(cx, args, |entry| match entry.value() {
        ValueRef::Int(0..SHARED_INTEGERS) if shares => Ok(Reply::Int(SHARED)),
        _ => Ok(Reply::Int(1)),
    })
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ];
    Ok(super::help(cx, &args, &lines))
}
