//! Walking one collection: SSCAN, HSCAN and ZSCAN.

use tollgate_containers::glob;
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use super::scan::parse_cursor;
use crate::cx_object::ObjectKind;
use crate::{Args, CmdError, Cx, Reply};

/// Elements a call aims at, unless told otherwise.
const DEFAULT_COUNT: usize = 10;

/// One page of a scan: what is wanted, and where it goes.
pub(super) struct Page<'p> {
    /// Where the scan stands.
    pub(super) cursor: u64,
    /// Elements to aim at.
    pub(super) count: usize,
    /// Only names, no values.
    pub(super) only_names: bool,
    /// The time, Unix milliseconds.
    pub(super) now_ms: i64,
    pattern: Option<&'p [u8]>,
    /// The elements of the reply, one after another.
    pub(super) out: ReplyBuf,
    replies: usize,
}

impl Page<'_> {
    /// Adds an element of `parts` replies, written by `write`, if its name is wanted.
    pub(super) fn add(&mut self, name: &[u8], parts: usize, write: impl FnOnce(&mut ReplyBuf)) {
        let matches = |pattern| glob::matches(pattern, name, false);
        if self.pattern.is_none_or(matches) {
            self.replies += parts;
            write(&mut self.out);
        }
    }
}

/// Answers `key cursor [MATCH pattern] [COUNT count]`, and `[NOVALUES]` where the collection `may_omit_values`. `walk`
/// adds the elements to the page and returns the next cursor.
pub(super) fn scan_elements<T: ObjectKind>(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    may_omit_values: bool,
    walk: impl FnOnce(&T, &mut Page<'_>) -> u64,
) -> Result<Reply, CmdError> {
    let key: Key<'_> = args.key()?;
    let cursor = parse_cursor(args.next()?)?;
    let protocol = cx.out.protocol();
    let Some(seen) = cx.read_as::<T>(key)? else {
        cx.out.array(2);
        cx.out.bulk(b"0");
        cx.out.array(0);
        return Ok(Reply::Written);
    };
    let mut page = Page {
        cursor,
        count: DEFAULT_COUNT,
        only_names: false,
        now_ms: seen.now_ms,
        pattern: None,
        out: ReplyBuf::new(protocol),
        replies: 0,
    };
    while !args.is_empty() {
        if args.len() >= 2 && args.keyword("COUNT") {
            let wanted = usize::try_from(args.int()?).ok().filter(|n| *n > 0);
            page.count = wanted.ok_or(CmdError::Syntax)?;
        } else if args.len() >= 2 && args.keyword("MATCH") {
            page.pattern = Some(args.next()?).filter(|pattern| *pattern != b"*");
        } else if may_omit_values && args.keyword("NOVALUES") {
            page.only_names = true;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let next = walk(seen.value, &mut page);
    seen.out.array(2);
    seen.out.bulk(next.to_string().as_bytes());
    seen.out.array(page.replies);
    seen.out.raw(page.out.bytes());
    Ok(Reply::Written)
}
