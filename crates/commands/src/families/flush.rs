//! Databases as a whole.

use crate::{Args, CmdError, Cx, Reply};
use tollgate_containers::number;
use tollgate_keyspace::DbIndex;

pub(super) fn dbsize(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    let db = cx.db;
    let mut keys = 0;
    for index in 0..cx.walk.shard_count() {
        cx.walk
            .with_shard(index, &mut |shard| keys += shard.len(db));
    }
    Ok(Reply::count(keys))
}

pub(super) fn flushdb(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    mode(args)?;
    let db = cx.db;
    flush(cx, &[db])
}

pub(super) fn flushall(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    mode(args)?;
    let all: Vec<DbIndex> = DbIndex::all().collect();
    flush(cx, &all)
}

/// SWAPDB: every shard is held, so that nobody sees half of it.
pub(super) fn swapdb(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    if cx.limits.in_cluster() != 0 {
        return Err(CmdError::NoSwapInCluster);
    }
    let mut number = |error: CmdError| {
        let number = number::parse_i64(args.next()?).and_then(|n| i32::try_from(n).ok());
        number.ok_or(error)
    };
    let first = number(CmdError::InvalidFirstDb)?;
    let second = number(CmdError::InvalidSecondDb)?;
    let (first, second) = (cx.limits.database(first)?, cx.limits.database(second)?);
    cx.walk.with_all(&mut |_, shard| shard.swap(first, second));
    cx.effects.exchanged();
    Ok(Reply::Ok)
}

/// ASYNC and SYNC are accepted alike: entries are freed shard by shard either way.
fn mode(mut args: Args<'_>) -> Result<(), CmdError> {
    let said = args.keyword("ASYNC") || args.keyword("SYNC");
    if args.is_empty() || (said && args.is_empty()) {
        Ok(())
    } else {
        Err(CmdError::Syntax)
    }
}

/// Empties databases while every shard is held, so that nobody sees half of it.
fn flush(cx: &mut Cx<'_>, dbs: &[DbIndex]) -> Result<Reply, CmdError> {
    let mut removed = vec![0; dbs.len()];
    cx.walk.with_all(&mut |_, shard| {
        for (removed, db) in removed.iter_mut().zip(dbs) {
            *removed += shard.clear(*db);
        }
    });
    for (removed, db) in removed.into_iter().zip(dbs) {
        cx.effects.flush(*db, removed);
    }
    Ok(Reply::Ok)
}
