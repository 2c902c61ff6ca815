//! XDEL, XDELEX, XACKDEL.

use tollgate_containers::number;
use tollgate_containers::stream::{Groups, Log, Stream, StreamId};

use super::ids::{self, References};
use crate::{Args, CmdError, Create, Cx, Event, Reply};

/// No such entry.
const ABSENT: i64 = -1;
/// The entry is deleted.
const DELETED: i64 = 1;
/// Some group has not had it, or not acknowledged it.
const HELD: i64 = 2;

pub(super) fn xdel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let deleted = cx.change::<Stream, _>(key, Create::No, |change| {
        let ids = ids::ids(args.rest())?;
        let log = change.value.log_mut();
        let deleted = ids.iter().filter(|&&id| log.delete(id)).count();
        if deleted > 0 {
            change.touched(Event::XDel);
            change.count_more(deleted as u64 - 1);
        }
        Ok(deleted)
    })?;
    Ok(Reply::count(deleted.unwrap_or(0)))
}

/// Reads `[KEEPREF | DELREF | ACKED] IDS numids id ...`.
fn deletion(args: &mut Args<'_>) -> Result<(References, Vec<StreamId>), CmdError> {
    let (mut references, mut found) = (References::default(), None);
    while !args.is_empty() {
        if let Some(option) = References::option(args) {
            references = option;
        } else if found.is_none() && args.len() > 1 && args.keyword("IDS") {
            let count = number::parse_i64(args.next()?).filter(|&count| count > 0);
            let count =
                count.ok_or_else(|| CmdError::err("Number of IDs must be a positive integer"))?;
            let words = usize::try_from(count)
                .ok()
                .and_then(|count| args.rest().get(..count));
            let words = words.ok_or_else(|| {
                CmdError::err("The `numids` parameter must match the number of arguments")
            })?;
            found = Some(ids::ids(words)?);
            for _ in words {
                args.next()?;
            }
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok((references, found.ok_or(CmdError::Syntax)?))
}

/// Deletes one entry if `references` lets it go.
fn delete(log: &mut Log, groups: &mut Groups, id: StreamId, references: References) -> i64 {
    if log.get(id).is_none() {
        return ABSENT;
    }
    match references {
        References::Keep => {}
        References::Delete => {
            groups.acknowledge_everywhere(id);
        }
        References::Acknowledged if !groups.are_done_with(id) => return HELD,
        References::Acknowledged => {}
    }
    log.delete(id);
    DELETED
}

pub(super) fn xdelex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (references, ids) = deletion(&mut args)?;
    let results = cx.change::<Stream, _>(key, Create::No, |change| {
        let (log, groups) = change.value.all_mut();
        let results: Vec<i64> = ids
            .iter()
            .map(|&id| delete(log, groups, id, references))
            .collect();
        let deleted = results.iter().filter(|&&result| result == DELETED).count();
        if deleted > 0 {
            change.touched(Event::XDel);
            change.count_more(deleted as u64 - 1);
        }
        Ok(results)
    })?;
    write_results(cx, results, ids.len())
}

pub(super) fn xackdel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = args.next()?;
    let (references, ids) = deletion(&mut args)?;
    let results = cx.change::<Stream, _>(key, Create::No, |change| {
        let (log, groups) = change.value.all_mut();
        let before = log.len();
        let mut acknowledged = 0;
        let mut results = Vec::with_capacity(ids.len());
        for &id in &ids {
            let pending = groups
                .get_mut(name)
                .is_some_and(|mut group| group.acknowledge(id));
            acknowledged += u64::from(pending);
            // What is pending and gone already needs no deleting.
            results.push(match pending {
                true => delete(log, groups, id, references).abs(),
                false => ABSENT,
            });
        }
        let deleted = before > log.len();
        if deleted {
            change.touched(Event::XDel);
        }
        change.count_more(acknowledged - u64::from(deleted));
        Ok(results)
    })?;
    write_results(cx, results, ids.len())
}

/// One result for each ID; none was found where there is no key.
fn write_results(
    cx: &mut Cx<'_>,
    results: Option<Vec<i64>>,
    count: usize,
) -> Result<Reply, CmdError> {
    let results = results.unwrap_or_else(|| vec![ABSENT; count]);
    cx.out.array(results.len());
    results.iter().for_each(|&result| cx.out.int(result));
    Ok(Reply::Written)
}
