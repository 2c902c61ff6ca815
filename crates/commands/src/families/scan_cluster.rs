//! CLUSTERSCAN: walking the keys of a cluster.
//!
//! A cursor is `fingerprint-{tag}-place`. The tag sends it to the node that serves its slot. From there the node walks the
//! slots that it serves without a gap, in one scan. The fingerprint says whose scan it is and at which slot it ends; the place
//! means something to that node only, and any other begins again at the slot. What follows the last of those slots is a cursor
//! for the next one, with the fingerprint 0.
//!
//! Source: <https://valkey.io/commands/clusterscan/>

use std::ops::RangeInclusive;

use tollgate_containers::number;
use tollgate_keyspace::{SLOTS, TypeName, slot_of};

use super::scan::{self, Filter};
use crate::{Args, CmdError, Cx, Reply};

/// The last slot.
const LAST: u16 = SLOTS - 1;

/// Between the number of a node, in hex, and the slot at which its scan ends.
const SEPARATOR: u8 = b'z';

/// Where a scan is to go on.
enum Cursor<'a> {
    Start,
    At {
        fingerprint: &'a [u8],
        /// With its braces.
        tag: &'a [u8],
        place: &'a [u8],
    },
}

pub(super) fn clusterscan(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let Some(cluster) = cx.walk.cluster() else {
        return Err(CmdError::NoCluster);
    };
    let mine = format!("{:x}", cluster.fingerprint());
    let cursor = parse(args.next()?)?;
    let (mut filter, mut only) = (Filter::default(), None);
    let mut count = scan::DEFAULT_COUNT;
    while !args.is_empty() {
        if args.len() < 2 {
            return Err(CmdError::Syntax);
        } else if args.keyword("SLOT") {
            if only.replace(slot(args.next()?)?).is_some() {
                return Err(CmdError::err("SLOT option can only be specified once"));
            }
        } else if !scan::option(&mut args, &mut filter, &mut count)? {
            return Err(CmdError::Syntax);
        }
    }
    check_type(&filter)?;
    let matched = filter.pattern.and_then(slot_of_pattern);
    let Cursor::At {
        fingerprint,
        tag,
        place,
    } = cursor
    else {
        let apart = only.is_some_and(|only| matched.is_some_and(|matched| matched != only));
        let first = only.or(matched).unwrap_or(0);
        return Ok(write_next(cx, (!apart).then_some(first)));
    };
    let here = slot_of(tag);
    if only.is_some_and(|only| only != here) {
        return Err(CmdError::err("Cursor slot mismatch"));
    }
    if let Some(matched) = matched
        && matched != here
    {
        let ahead = only.is_none() && matched > here;
        return Ok(write_next(cx, ahead.then_some(matched)));
    }
    let (from, ends_at) = resumed(fingerprint, &mine, place).unwrap_or((0, LAST));
    let alone = only.or(matched).is_some();
    let served_to = cx.walk.cluster().map_or(here, |node| node.served_to(here));
    // A slot that has come since is not walked now: some of its keys may be behind already.
    let end = if alone { here } else { ends_at.min(served_to) };
    let slots = here..=end.max(here);
    walk(cx, (tag, &mine), (from, count), filter, (slots, alone))
}

/// Where the scan of this node stood, and the slot at which it ends, if a cursor is its own.
fn resumed(fingerprint: &[u8], mine: &str, place: &[u8]) -> Option<(u64, u16)> {
    let end = fingerprint.strip_prefix(mine.as_bytes())?;
    let end = slot(end.strip_prefix(&[SEPARATOR])?).ok()?;
    let from = str::from_utf8(place).ok()?.parse().ok()?;
    Some((from, end))
}

/// Writes a page of the keys in `slots`; `alone`: nothing follows them.
fn walk<'a>(
    cx: &mut Cx<'_>,
    (tag, mine): (&[u8], &str),
    (from, count): (u64, usize),
    mut filter: Filter<'a>,
    (slots, alone): (RangeInclusive<u16>, bool),
) -> Result<Reply, CmdError> {
    let end = *slots.end();
    filter.slots = Some(slots);
    let page = scan::page(cx, from, count, &filter);
    let mut next = Vec::new();
    match page.next {
        0 if alone || end == LAST => next.push(b'0'),
        0 => next = start_of(end + 1),
        at => {
            let separator = char::from(SEPARATOR);
            next.extend(format!("{mine}{separator}{end}-").into_bytes());
            next.extend(tag);
            next.extend(format!("-{at}").into_bytes());
        }
    }
    Ok(page.write(&next, cx.out))
}

/// Writes that no key is returned and a slot is next, or none.
fn write_next(cx: &mut Cx<'_>, slot: Option<u16>) -> Reply {
    let next = slot.map_or(b"0".to_vec(), start_of);
    cx.out.array(2);
    cx.out.bulk(&next);
    cx.out.array(0);
    Reply::Written
}

fn parse(word: &[u8]) -> Result<Cursor<'_>, CmdError> {
    if word == b"0" {
        return Ok(Cursor::Start);
    }
    let invalid = || CmdError::err("Invalid cursor");
    let split = |bytes: &[u8], at: u8| bytes.iter().position(|&byte| byte == at);
    let dash = split(word, b'-').ok_or_else(invalid)?;
    let (fingerprint, rest) = word.split_at(dash);
    let rest = rest.strip_prefix(b"-{").ok_or_else(invalid)?;
    let close = split(rest, b'}').ok_or_else(invalid)?;
    let (tag, rest) = rest.split_at(close);
    let place = rest.strip_prefix(b"}-").ok_or_else(invalid)?;
    let digits = !place.is_empty() && place.iter().all(u8::is_ascii_digit);
    let named = fingerprint.iter().all(u8::is_ascii_alphanumeric);
    if tag.is_empty() || fingerprint.is_empty() || !named || !digits {
        return Err(invalid());
    }
    Ok(Cursor::At {
        fingerprint,
        tag: &word[dash + 1..dash + 1 + close + 2],
        place,
    })
}

fn slot(word: &[u8]) -> Result<u16, CmdError> {
    number::parse_i64(word)
        .and_then(|slot| u16::try_from(slot).ok())
        .filter(|slot| *slot < SLOTS)
        .ok_or(CmdError::BadSlot)
}

fn check_type(filter: &Filter<'_>) -> Result<(), CmdError> {
    let Some(name) = filter.type_name else {
        return Ok(());
    };
    let is = |known: &TypeName| name.eq_ignore_ascii_case(known.as_str().as_bytes());
    match TypeName::ALL.iter().any(is) {
        true => Ok(()),
        false => Err(CmdError::err([b"unknown type name '", name, b"'"].concat())),
    }
}

/// The slot of all keys that a pattern can match, if its tag or the whole of it is no pattern.
fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let open = pattern.iter().position(|&byte| byte == b'{');
    let tag = open.and_then(|open| {
        let tag = &pattern[open + 1..];
        let close = tag.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &pattern[..open + 1 + close])
    });
    let decides = tag.unwrap_or(pattern);
    (!decides.iter().any(special)).then(|| slot_of(pattern))
}

/// The cursor at which the scan of a slot begins.
fn start_of(slot: u16) -> Vec<u8> {
    [b"0-{", &tag_of(slot)[..], b"}-0"].concat()
}

/// The shortest tag of a slot, and the first of those: each slot has one of at most three letters and digits.
fn tag_of(slot: u16) -> Vec<u8> {
    let letters = || (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z');
    let one = letters().map(|a| vec![a]);
    let two = letters().flat_map(|a| letters().map(move |b| vec![a, b]));
    let three =
        letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| vec![a, b, c])));
    let mut all = one.chain(two).chain(three);
    all.find(|tag| slot_of(tag) == slot).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        for slot in [0, 1, 2, 50, 51, 100, 8_192, 16_000, LAST] {
            assert_eq!(slot_of(&tag_of(slot)), slot);
        }
        let known = [
            (0, "06S"),
            (1, "Qi"),
            (50, "4ZG"),
            (8_192, "8YG"),
            (LAST, "6ZJ"),
        ];
        for (slot, tag) in known {
            assert_eq!(tag_of(slot), tag.as_bytes());
        }
    }

    #[test]
    fn a_pattern_has_a_slot_if_nothing_in_it_decides_otherwise() {
        for (pattern, slot) in [
            ("key", Some(slot_of(b"key"))),
            ("{06S}*", Some(0)),
            ("a{06S}:?", Some(0)),
            ("*{06S}", None),
            ("{0*}a", None),
            ("{}a*", None),
            ("a*", None),
        ] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), slot, "{pattern}");
        }
    }
}
