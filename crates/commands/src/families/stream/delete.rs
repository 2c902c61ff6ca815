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

/// Reads `[KEEPREF | DELREF | ACKED] IDS numids id ...`. What is no ID is an error only where there is a stream.
fn deletion<'a>(args: &mut Args<'a>) -> Result<(References, &'a [&'a [u8]]), CmdError> {
    let (mut references, mut found) = (References::default(), None);
    while !args.is_empty() {
        if let Some(option) = References::option(args) {
            references = option;
        } else if found.is_none() && args.len() > 1 && args.keyword("IDS") {
            let count = number::parse_i64(args.next()?).filter(|&count| count > 0);
            let count =
                count.ok_or_else(|| CmdError::err("Number of IDs must be a positive integer"))?;
            let words = usize::try_from(count).ok();
            let words = words.and_then(|count| args.take(count)).ok_or_else(|| {
                CmdError::err("The `numids` parameter must match the number of arguments")
            })?;
            found = Some(words);
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok((references, found.ok_or(CmdError::Syntax)?))
}

/// Deletes one entry if `references` lets it go. Groups may hold what is gone already; that is held, too.
fn delete(log: &mut Log, groups: &mut Groups, id: StreamId, references: References) -> i64 {
    match references {
        References::Keep => {}
        References::Delete => {
            groups.acknowledge_everywhere(id);
        }
        References::Acknowledged if !groups.are_done_with(id) => return HELD,
        References::Acknowledged => {}
    }
    match log.delete(id) {
        true => DELETED,
        false => ABSENT,
    }
}

pub(super) fn xdelex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    cx.find_as::<Stream>(key)?;
    let (references, words) = deletion(&mut args)?;
    let results = cx.change::<Stream, _>(key, Create::No, |change| {
        let ids = ids::ids(words)?;
        let (log, groups) = change.value.all_mut();
        // References that go without an entry are a change that replicas must see, though nobody is told of it.
        let mut loose = 0;
        let results: Vec<i64> = ids
            .iter()
            .map(|&id| {
                let is_loose = references == References::Delete && log.get(id).is_none();
                loose += u64::from(is_loose && groups.is_pending(id));
                delete(log, groups, id, references)
            })
            .collect();
        let deleted = results.iter().filter(|&&result| result == DELETED).count();
        if deleted > 0 {
            change.touched(Event::XDel);
            change.count_more(deleted as u64 - 1);
        }
        change.count_more(loose);
        Ok(results)
    })?;
    write_results(cx, results, words.len())
}

pub(super) fn xackdel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = args.next()?;
    cx.find_as::<Stream>(key)?;
    let (references, words) = deletion(&mut args)?;
    let results = cx.change::<Stream, _>(key, Create::No, |change| {
        if change.value.groups().get(name).is_none() {
            return Ok(vec![ABSENT; words.len()]);
        }
        let ids = ids::ids(words)?;
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
    write_results(cx, results, words.len())
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
