//! RL.TOP: who asks most.

use tollgate_limiter::top::Hitter;

use super::rule::integer;
use super::units;
use crate::{Args, CmdError, Cx, Reply};

/// Rows of a reply when none are asked for.
const ROWS: usize = 10;
/// Most rows of a reply.
const ROWS_MAX: i64 = 1_000;

/// What is put in the place of the rest of a key that is too long.
const CUT: &[u8] = b"...";

/// By what keys are ranked.
#[derive(Clone, Copy)]
enum By {
    Total,
    Allowed,
    Denied,
}

impl By {
    fn parse(args: &mut Args<'_>) -> Result<By, CmdError> {
        let words = [
            ("TOTAL", By::Total),
            ("ALLOWED", By::Allowed),
            ("DENIED", By::Denied),
        ];
        let found = words.into_iter().find(|(word, _)| args.keyword(word));
        found.map(|(_, by)| by).ok_or(CmdError::Syntax)
    }

    fn of(self, hitter: &Hitter) -> u64 {
        match self {
            By::Total => hitter.counted(),
            By::Allowed => hitter.allowed,
            By::Denied => hitter.denied,
        }
    }
}

pub(super) fn top(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let (mut rows, mut by, mut reset) = (ROWS, By::Total, false);
    if args.peek().is_some_and(|word| !is_word(word)) {
        let count = integer(&mut args, 1, ROWS_MAX, CmdError::LimiterCountOutOfRange)?;
        rows = usize::try_from(count).unwrap_or(ROWS);
    }
    while !args.is_empty() {
        if args.keyword("BY") {
            by = By::parse(&mut args)?;
        } else if args.keyword("RESET") {
            reset = true;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let hitters = collect(cx, rows, by, reset);
    let out = &mut cx.out;
    out.array(hitters.len());
    for hitter in &hitters {
        out.array(4);
        match hitter.is_cut() {
            true => out.bulk(&[hitter.shown(), CUT].concat()),
            false => out.bulk(hitter.shown()),
        }
        out.int(units(hitter.allowed));
        out.int(units(hitter.denied));
        out.int(units(hitter.error));
    }
    Ok(Reply::Written)
}

fn is_word(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"BY") || word.eq_ignore_ascii_case(b"RESET")
}

/// The first of all shards. A key lives in one shard, so nothing is to be added up.
fn collect(cx: &mut Cx<'_>, rows: usize, by: By, reset: bool) -> Vec<Hitter> {
    let db = cx.db;
    let mut best: Vec<Hitter> = Vec::new();
    for index in 0..cx.walk.shard_count() {
        cx.walk.with_shard(index, &mut |shard| {
            best.extend(shard.hitters(db).filter(|of| by.of(of) > 0).cloned());
            if reset {
                shard.forget_hitters();
            }
        });
        if best.len() > 2 * rows {
            rank(&mut best, by);
            best.truncate(rows);
        }
    }
    rank(&mut best, by);
    best.truncate(rows);
    best
}

/// The larger first, equal ones by their keys.
fn rank(hitters: &mut [Hitter], by: By) {
    hitters.sort_unstable_by(|one, other| {
        let larger = by.of(other).cmp(&by.of(one));
        larger.then_with(|| one.shown().cmp(other.shown()))
    });
}
