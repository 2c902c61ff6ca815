//! One line of the text protocol, cut into words.

use smallvec::SmallVec;

use super::request::{
    Classes, Crawler, Detail, Keys, Operation, Request, Retrieval, Stats, Style, Target,
};
use super::{KEY_MAX, Mode, Options};
use super::{meta, reply};
use super::{parse_i32, parse_u32, parse_u64};
use std::borrow::Cow;

/// Words of a line that are looked at one by one: no command but those that name many keys has more.
pub(super) const WORDS_MAX: usize = 24;

/// The words of a line.
pub(super) type Words<'a> = SmallVec<[&'a [u8]; WORDS_MAX]>;

/// A line as far as it can be judged without the data that may follow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A whole request.
    Whole(Request<'a>),
    /// A value of so many bytes follows, and a line end.
    Data(Target<'a>, usize),
    /// A value of so many bytes follows that nobody wants, and a line end; the answer to it.
    Ignored(Request<'a>, usize),
}

pub(super) fn refused(line: &'static str) -> Line<'static> {
    Line::Whole(Request::Refused { line: Some(line) })
}

/// What memcached answers to a line that it does not know.
fn unknown() -> Line<'static> {
    refused("ERROR")
}

/// As [`refused`], unless the client wants no answer.
fn refused_unless(quiet: bool, line: &'static str) -> Line<'static> {
    let line = (!quiet).then_some(line);
    Line::Whole(Request::Refused { line })
}

/// Splits a line at its blanks; true when it has more words than [`WORDS_MAX`].
pub(super) fn words(line: &[u8]) -> (Words<'_>, bool) {
    let mut rest = line.split(|&b| b == b' ').filter(|word| !word.is_empty());
    let words: Words<'_> = rest.by_ref().take(WORDS_MAX).collect();
    (words, rest.next().is_some())
}

/// Judges a line, without its end; items of more than `item_max` bytes are refused.
pub(super) fn judge(line: &[u8], item_max: usize) -> Line<'_> {
    let (words, more) = words(line);
    let Some(&name) = words.first().filter(|name| name.len() >= 2) else {
        return unknown();
    };
    match name {
        b"get" | b"gets" | b"gat" | b"gats" => retrieve(line, name, &words),
        // It is an old name of `get`.
        b"bget" => retrieve(line, b"get", &words),
        [b'm', _] => meta::judge(line, &words, more, item_max),
        _ if more => unknown(),
        b"set" => store(&words, Mode::Set, false, item_max),
        b"add" => store(&words, Mode::Add, false, item_max),
        b"replace" => store(&words, Mode::Replace, false, item_max),
        b"append" => store(&words, Mode::Append, false, item_max),
        b"prepend" => store(&words, Mode::Prepend, false, item_max),
        b"cas" => store(&words, Mode::Set, true, item_max),
        b"incr" => arithmetic(&words, false),
        b"decr" => arithmetic(&words, true),
        b"delete" => delete(&words),
        b"touch" => touch(&words),
        b"flush_all" => flush_all(&words),
        b"stats" => stats(&words),
        b"version" => Line::Whole(Request::Version),
        b"verbosity" => verbosity(&words),
        b"cache_memlimit" => memory_limit(&words),
        b"lru_crawler" => crawler(&words),
        b"quit" => Line::Whole(Request::Quit),
        b"shutdown" => refused("ERROR: shutdown not enabled"),
        // A browser, or who would have one send requests in his name.
        _ if words.last().is_some_and(|word| word.starts_with(b"HTTP/")) => {
            Line::Whole(Request::Quit)
        }
        _ => unknown(),
    }
}

/// Whether the client wants no answer: the last word says so.
fn is_quiet(words: &[&[u8]]) -> bool {
    words.last().is_some_and(|word| *word == b"noreply")
}

fn retrieve<'a>(line: &'a [u8], name: &[u8], words: &[&'a [u8]]) -> Line<'a> {
    if words.len() < 2 {
        return unknown();
    }
    let touches = name.starts_with(b"gat");
    let mut options = Options {
        style: match name.last() {
            Some(b's') => Style::TextCas,
            _ => Style::Text,
        },
        value: true,
        ..Options::default()
    };
    if touches {
        let Some(exptime) = parse_i32(words[1]) else {
            return refused("CLIENT_ERROR invalid exptime argument");
        };
        options.exptime = Some(exptime);
    }
    // The keys are all that stands behind the words before them.
    let last = words[usize::from(touches)];
    let end = last.as_ptr() as usize - line.as_ptr() as usize + last.len();
    let keys = Keys(&line[end..]);
    if !keys.fit() {
        return refused(reply::BAD_FORMAT);
    }
    Line::Whole(Request::Retrieve(Retrieval { keys, options }))
}

fn store<'a>(words: &[&'a [u8]], mode: Mode, compares: bool, item_max: usize) -> Line<'a> {
    let usual = 5 + usize::from(compares);
    if words.len() != usual && words.len() != usual + 1 {
        return unknown();
    }
    let quiet = is_quiet(words);
    let bad = || refused_unless(quiet, reply::BAD_FORMAT);
    let numbers = (
        parse_u32(words[2]),
        parse_i32(words[3]),
        parse_i32(words[4]),
    );
    let (Some(flags), Some(exptime), Some(len)) = numbers else {
        return bad();
    };
    let compare = match compares {
        true => parse_u64(words[5]),
        false => None,
    };
    let Some(len) = usize::try_from(len).ok().filter(|&len| len < LONGEST) else {
        return bad();
    };
    if words[1].len() > KEY_MAX || (compares && compare.is_none()) {
        return bad();
    }
    let key = Cow::Borrowed(words[1]);
    if !fits(len, words[1], flags, item_max) {
        let removes = mode == Mode::Set && !compares;
        let answer = Request::TooLarge {
            key,
            removes,
            quiet,
        };
        return Line::Ignored(answer, len);
    }
    let options = Options {
        style: Style::Text,
        mode,
        flags,
        exptime: Some(exptime),
        compare,
        quiet,
        item_max: item_max as u64,
        ..Options::default()
    };
    let target = Target {
        operation: Operation::Store,
        key,
        data: b"",
        options,
        flags: super::Flags::default(),
    };
    Line::Data(target, len)
}

/// Whether an item has a size that is allowed.
pub(super) fn fits(len: usize, key: &[u8], flags: u32, item_max: usize) -> bool {
    item_bytes(key.len(), len, flags) <= item_max
}

/// Bytes of an item as memcached counts them: with what it keeps beside key and value.
pub fn item_bytes(key: usize, value: usize, flags: u32) -> usize {
    value + key + ITEM_BESIDE + if flags == 0 { 0 } else { 4 }
}

/// Bytes that memcached keeps beside key, value and flags: its header, the unique number and the ends of key and value.
const ITEM_BESIDE: usize = 48 + 8 + 1 + 2;

/// Lengths from here on are refused: with the line end they would not fit 31 bits.
pub(super) const LONGEST: usize = i32::MAX as usize - 2;

fn item<'a>(operation: Operation, key: &'a [u8], options: Options) -> Line<'a> {
    Line::Whole(Request::Item(Target {
        operation,
        key: Cow::Borrowed(key),
        data: b"",
        options,
        flags: super::Flags::default(),
    }))
}

fn arithmetic<'a>(words: &[&'a [u8]], decrement: bool) -> Line<'a> {
    if !matches!(words.len(), 3 | 4) {
        return unknown();
    }
    let quiet = is_quiet(words);
    if words[1].len() > KEY_MAX {
        return refused_unless(quiet, reply::BAD_FORMAT);
    }
    let Some(delta) = parse_u64(words[2]) else {
        return refused_unless(quiet, "CLIENT_ERROR invalid numeric delta argument");
    };
    let options = Options {
        delta,
        decrement,
        quiet,
        ..Options::default()
    };
    item(Operation::Arithmetic, words[1], options)
}

fn delete<'a>(words: &[&'a [u8]]) -> Line<'a> {
    if !(2..=4).contains(&words.len()) {
        return unknown();
    }
    let quiet = words.len() > 2 && is_quiet(words);
    let is_valid = match words.len() {
        2 => true,
        3 => quiet || words[2] == b"0",
        _ => quiet && words[2] == b"0",
    };
    if !is_valid {
        let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
        return refused_unless(quiet, usage);
    }
    if words[1].len() > KEY_MAX {
        return refused_unless(quiet, reply::BAD_FORMAT);
    }
    let options = Options {
        quiet,
        ..Options::default()
    };
    item(Operation::Delete, words[1], options)
}

fn touch<'a>(words: &[&'a [u8]]) -> Line<'a> {
    if !matches!(words.len(), 3 | 4) {
        return unknown();
    }
    let quiet = is_quiet(words);
    if words[1].len() > KEY_MAX {
        return refused_unless(quiet, reply::BAD_FORMAT);
    }
    let Some(exptime) = parse_i32(words[2]) else {
        return refused_unless(quiet, "CLIENT_ERROR invalid exptime argument");
    };
    let options = Options {
        exptime: Some(exptime),
        quiet,
        ..Options::default()
    };
    item(Operation::Touch, words[1], options)
}

fn flush_all<'a>(words: &[&'a [u8]]) -> Line<'a> {
    if words.len() > 3 {
        return unknown();
    }
    let quiet = is_quiet(words);
    let delay = match words.len() - usize::from(quiet) {
        1 => Some(0),
        _ => parse_i32(words[1]),
    };
    match delay {
        Some(delay) => Line::Whole(Request::FlushAll { delay, quiet }),
        None => refused_unless(quiet, "CLIENT_ERROR invalid exptime argument"),
    }
}

fn verbosity<'a>(words: &[&'a [u8]]) -> Line<'a> {
    if !matches!(words.len(), 2 | 3) {
        return unknown();
    }
    let quiet = is_quiet(words);
    match parse_u32(words[1]) {
        Some(_) => Line::Whole(Request::Verbosity { quiet }),
        None => refused_unless(quiet, reply::BAD_FORMAT),
    }
}

/// Slab classes that memcached can have.
const CLASSES: u32 = 64;

fn dump<'a>(words: &[&'a [u8]]) -> Line<'a> {
    let &[class, limit, ..] = &words[2..] else {
        return refused("CLIENT_ERROR bad command line");
    };
    match (parse_u32(class), parse_u32(limit)) {
        (Some(class), Some(_)) if class >= CLASSES => refused("CLIENT_ERROR Illegal slab id"),
        (Some(class), Some(limit)) => Line::Whole(Request::Stats(Stats::Dump { class, limit })),
        _ => refused(reply::BAD_FORMAT),
    }
}

/// Most microseconds that the crawler may sleep.
const SLEEP_MAX: u32 = 1_000_000;

/// `noreply` is not known here.
fn crawler<'a>(words: &[&'a [u8]]) -> Line<'a> {
    let wanted = match *words {
        [_, b"enable"] => Crawler::Enable,
        [_, b"disable"] => Crawler::Disable,
        [_, what @ (b"sleep" | b"tocrawl"), number] => match parse_u32(number) {
            None => return refused(reply::BAD_FORMAT),
            Some(number) if what == b"sleep" && number > SLEEP_MAX => {
                return refused("CLIENT_ERROR sleep must be one second or less");
            }
            Some(_) => Crawler::Pace,
        },
        [_, b"crawl", classes] => Crawler::Crawl(self::classes(classes)),
        [_, b"metadump", classes] => Crawler::Metadump(self::classes(classes)),
        [_, b"mgdump", classes] => Crawler::Mgdump(self::classes(classes)),
        _ => return unknown(),
    };
    Line::Whole(Request::Crawler(wanted))
}

fn classes(word: &[u8]) -> Classes {
    let mut bits = 0;
    for class in word.split(|&b| b == b',').filter(|class| !class.is_empty()) {
        match parse_u32(class) {
            Some(class @ 1..CLASSES) => bits |= 1 << class,
            _ if word == b"all" => return Classes::All,
            _ if word == b"hash" => return Classes::Hash,
            _ => return Classes::Bad,
        }
    }
    Classes::Some { bits }
}

/// Least memory limit, in MiB.
const MEMORY_MIN: u32 = 8;
/// Above this number of MiB bytes are meant.
const MEMORY_MAX: u32 = 1_000_000_000;

fn memory_limit<'a>(words: &[&'a [u8]]) -> Line<'a> {
    if !matches!(words.len(), 2 | 3) {
        return unknown();
    }
    let quiet = is_quiet(words);
    match parse_u32(words[1]) {
        None => refused_unless(quiet, "ERROR"),
        Some(..MEMORY_MIN) => refused_unless(
            quiet,
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        ),
        Some(mebibytes @ ..=MEMORY_MAX) => Line::Whole(Request::MemoryLimit { mebibytes, quiet }),
        Some(_) => refused_unless(
            quiet,
            "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        ),
    }
}

fn stats<'a>(words: &[&'a [u8]]) -> Line<'a> {
    let wanted = match words.get(1).copied() {
        None => Stats::General,
        Some(b"settings") => Stats::Settings,
        Some(b"items") => Stats::Items,
        Some(b"slabs") => Stats::Slabs,
        Some(b"sizes") => Stats::Sizes,
        Some(b"conns") => Stats::Connections,
        Some(b"reset") => Stats::Reset,
        Some(b"cachedump") => return dump(words),
        Some(b"detail") => match words.get(2).and_then(|word| Detail::of(word)) {
            Some(detail) => Stats::Detail(detail),
            None => return refused("CLIENT_ERROR usage: stats detail on|off|dump"),
        },
        Some(_) => return unknown(),
    };
    Line::Whole(Request::Stats(wanted))
}
