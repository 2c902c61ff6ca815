//! XADD, XTRIM, XSETID.

use tollgate_containers::stream::{
    AppendError, NewId, NodeLimits, Stream, StreamId, Trim, Trimming,
};

use super::ids::{self, References};
use super::producers::{self, Once};
use super::write_id;
use crate::{Args, Change, CmdError, Create, Cx, Event, Origin, Reply, StoreLimits};

/// Most entries that approximate trimming without a limit removes at once, in nodes of the usual size.
const NODES_AT_ONCE: i64 = 100;
/// The same when nodes have no limit, and the most in any case.
const ENTRIES_AT_ONCE: i64 = 10_000;
const ENTRIES_AT_ONCE_MAX: i64 = 1_000_000;

/// What XADD and XTRIM have in common.
#[derive(Default)]
struct Options {
    create_not: bool,
    references: References,
    trimming: Option<Trimming>,
}

/// The options as they are read.
#[derive(Default)]
struct Reading {
    create_not: bool,
    references: References,
    keep: Option<Trim>,
    approximate: bool,
    limit: Option<i64>,
}

impl Reading {
    /// Takes an option that both commands have.
    fn option(&mut self, args: &mut Args<'_>) -> Result<bool, CmdError> {
        // A last word is never taken for an option that wants a value.
        let more = args.len() > 1;
        let by_length = more && args.keyword("MAXLEN");
        if by_length || (more && args.keyword("MINID")) {
            self.threshold(args, by_length)?;
        } else if more && args.keyword("LIMIT") {
            let limit = args.int()?;
            if limit < 0 {
                return Err(CmdError::err("The LIMIT argument must be >= 0."));
            }
            self.limit = Some(limit);
        } else if let Some(references) = References::option(args) {
            self.references = references;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn threshold(&mut self, args: &mut Args<'_>, by_length: bool) -> Result<(), CmdError> {
        if self.keep.is_some() {
            return Err(CmdError::err(
                "syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        self.approximate = args.len() > 1 && args.keyword("~");
        if !self.approximate && args.len() > 1 {
            args.keyword("=");
        }
        self.keep = Some(if by_length {
            let most = args.int()?;
            if most < 0 {
                return Err(CmdError::err("The MAXLEN argument must be >= 0."));
            }
            Trim::MaxLen(most as u64)
        } else {
            Trim::MinId(ids::id(args.next()?)?)
        });
        Ok(())
    }

    fn finish(self, cx: &Cx<'_>) -> Result<Options, CmdError> {
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit != 0) {
            return Err(CmdError::err(
                "syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        let obeys = !matches!(cx.origin, Origin::Replay | Origin::Replica);
        if obeys && self.limit.is_some() && !self.approximate {
            return Err(CmdError::err(
                "syntax error, LIMIT cannot be used without the special ~ option",
            ));
        }
        let limit = match self.limit {
            _ if !obeys || !self.approximate => 0,
            Some(limit) => limit,
            None => match cx
                .limits
                .stream_node_max_entries()
                .saturating_mul(NODES_AT_ONCE)
            {
                ..=0 => ENTRIES_AT_ONCE,
                limit => limit.min(ENTRIES_AT_ONCE_MAX),
            },
        };
        let approximate = self.approximate;
        Ok(Options {
            create_not: self.create_not,
            references: self.references,
            trimming: self.keep.map(|keep| Trimming {
                keep,
                approximate,
                limit: limit as u64,
            }),
        })
    }
}

pub(super) fn xadd(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut reading = Reading::default();
    let mut once = None;
    let id = loop {
        if args.peek() == Some(b"*") {
            args.next()?;
            break NewId::Auto;
        } else if args.keyword("NOMKSTREAM") {
            reading.create_not = true;
        } else if args.is_empty() {
            // Only options: Redis finds no ID and then too few words.
            break NewId::Auto;
        } else if let Some(option) = Once::option(&mut args, once.is_some())? {
            once = Some(option);
        } else if !reading.option(&mut args)? {
            let id = new_id(args.next()?)?;
            // A master that knows the option sends the ID that it has given.
            if once.is_some() && !matches!(cx.origin, Origin::Replay | Origin::Replica) {
                return Err(CmdError::err(
                    "syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
                ));
            }
            break id;
        }
    };
    let options = reading.finish(cx)?;
    let words = args.rest();
    if words.len() < 2 || words.len() % 2 == 1 {
        return Err(CmdError::Arity("xadd"));
    }
    if id == NewId::Exact(StreamId::MIN) {
        return Err(CmdError::err(
            "The ID specified in XADD must be greater than 0-0",
        ));
    }
    let create = if options.create_not {
        Create::No
    } else {
        Create::Yes
    };
    let added = cx.change::<Stream, _>(key, create, |change| {
        producers::begin(change);
        // What a master has added is none that is repeated, whatever the clock here says.
        let asks = once.filter(|_| !matches!(id, NewId::Exact(_)));
        if let Some(id) = asks.and_then(|once| once.repeated(change, words)) {
            write_id(change.out, id);
            return Ok(Reply::Written);
        }
        let limits = node_limits(change.limits);
        let added = change
            .value
            .log_mut()
            .append(id, change.now_ms, words, limits);
        let id = added.map_err(refused)?;
        change.touched(Event::XAdd);
        if let Some(once) = once {
            once.remember(change, words, id);
        }
        if let Some(how) = &options.trimming
            && trim(change, how, options.references) > 0
        {
            change.note(Event::XTrim);
        }
        write_id(change.out, id);
        Ok(Reply::Written)
    })?;
    Ok(added.unwrap_or(Reply::Null))
}

fn new_id(word: &[u8]) -> Result<NewId, CmdError> {
    match StreamId::parse_open(word) {
        Some(ms) => Ok(NewId::Millis(ms)),
        None => ids::id(word).map(NewId::Exact),
    }
}

fn node_limits(limits: &StoreLimits) -> NodeLimits {
    let size = |limit: i64| usize::try_from(limit).unwrap_or(0);
    NodeLimits {
        bytes: size(limits.stream_node_max_bytes()),
        entries: size(limits.stream_node_max_entries()),
    }
}

fn refused(error: AppendError) -> CmdError {
    CmdError::err(match error {
        AppendError::Exhausted => {
            "The stream has exhausted the last possible ID, unable to add more items"
        }
        AppendError::NotAbove => {
            "The ID specified in XADD is equal or smaller than the target stream top item"
        }
        AppendError::TooLarge => "Elements are too large to be stored",
    })
}

/// Removes entries from the front, and what groups know of them as `references` says; how many.
fn trim(change: &mut Change<'_, Stream>, how: &Trimming, references: References) -> u64 {
    let (log, groups) = change.value.all_mut();
    match references {
        References::Keep => log.trim(how),
        References::Delete => log.trim_if(how, &mut |id| {
            groups.acknowledge_everywhere(id);
            true
        }),
        References::Acknowledged => log.trim_if(how, &mut |id| groups.are_done_with(id)),
    }
}

pub(super) fn xtrim(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut reading = Reading::default();
    while !args.is_empty() {
        if !reading.option(&mut args)? {
            return Err(CmdError::Syntax);
        }
    }
    let has_strategy = reading.keep.is_some();
    let options = reading.finish_for_xtrim(cx, has_strategy)?;
    let Some(how) = options.trimming else {
        return Err(CmdError::Syntax);
    };
    let removed = cx.change::<Stream, _>(key, Create::No, |change| {
        let removed = trim(change, &how, options.references);
        if removed > 0 {
            change.touched(Event::XTrim);
            change.count_more(removed - 1);
        }
        Ok(removed)
    })?;
    Ok(Reply::Int(removed.unwrap_or(0) as i64))
}

impl Reading {
    /// As [`Reading::finish`], where a strategy must be given.
    fn finish_for_xtrim(self, cx: &Cx<'_>, has_strategy: bool) -> Result<Options, CmdError> {
        if !has_strategy && self.limit.unwrap_or(0) == 0 {
            return Err(CmdError::err(
                "syntax error, XTRIM must be called with a trimming strategy",
            ));
        }
        self.finish(cx)
    }
}

pub(super) fn xsetid(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let id = ids::id(args.next()?)?;
    let (mut added, mut max_deleted) = (None, None);
    while !args.is_empty() {
        let more = args.len() > 1;
        if more && args.keyword("ENTRIESADDED") {
            let count = args.int()?;
            added = Some(
                u64::try_from(count)
                    .map_err(|_| CmdError::err("entries_added must be positive"))?,
            );
        } else if more && args.keyword("MAXDELETEDID") {
            let deleted = ids::id(args.next()?)?;
            if id < deleted {
                return Err(CmdError::err(
                    "The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
            max_deleted = Some(deleted).filter(|id| !id.is_zero()).or(max_deleted);
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let set = cx.change::<Stream, _>(key, Create::No, |change| {
        let log = change.value.log();
        if log.last().is_some_and(|last| id < last.id()) {
            return Err(CmdError::err(
                "The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| !log.is_empty() && (log.len() as u64) > added) {
            return Err(CmdError::err(
                "The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
        change.value.log_mut().set_last_id(id, added, max_deleted);
        change.touched(Event::XSetId);
        Ok(Reply::Ok)
    })?;
    set.ok_or(CmdError::NoSuchKey)
}
