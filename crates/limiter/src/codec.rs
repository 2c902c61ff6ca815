//! States as bytes, for snapshots and journals: absolute times and counts, so that a reader's clock changes nothing.
//!
//! One byte says which state follows; numbers are little-endian, names have their length (u32) in front.

use crate::algorithms::{ALGORITHMS, AlgorithmKind, LimiterState, Record};
use crate::ban::Ban;
use crate::calendar::{Calendar, CalendarUnit, Zone};
use crate::holds::{HOLDS_MAX, Hold, Holds};
use crate::leases::{LEASES_MAX, Lease, Leases};
use crate::ledger::Ledger;
use crate::sliding_log::{ENTRIES_MAX, Hit, SlidingLog};
use crate::slot::Slot;
use crate::types::{PeriodMs, Quota, Timestamp};

const FIXED_WINDOW: u8 = 1;
const GCRA: u8 = 2;
/// A sliding window that does not say its period.
const SLIDING_WINDOW_1: u8 = 3;
const TOKEN_BUCKET: u8 = 4;
const LEAKY_BUCKET: u8 = 5;
const BANNED: u8 = 6;
const SLIDING_WINDOW: u8 = 7;
const LOG: u8 = 16;
const LEASES: u8 = 17;
/// Reservations that do not say how long their units count.
const HOLDS_1: u8 = 18;
const HOLDS: u8 = 19;
const BAN: u8 = 20;

/// Longest name of a lease or reservation, in bytes.
pub const ID_MAX: usize = 256;

/// Marks a reservation that nobody has ended.
const OPEN: u64 = u64::MAX;

/// A state of either form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// One that is small.
    State(LimiterState),
    /// One that grows.
    Ledger(Ledger),
}

/// Appends a small state.
pub fn write_state(state: LimiterState, out: &mut Vec<u8>) {
    let (code, words): (u8, [u64; 2]) = match state {
        LimiterState::SlidingWindow {
            previous,
            current,
            period,
        } => {
            out.push(SLIDING_WINDOW);
            // Periods are not negative.
            put(period.get().unwrap_or(0) as u64, out);
            [previous, current].iter().for_each(|&word| put(word, out));
            return;
        }
        LimiterState::FixedWindow { count } => (FIXED_WINDOW, [count, 0]),
        LimiterState::Gcra { tat } => (GCRA, [bits(tat), 0]),
        LimiterState::TokenBucket { full_at, part } => (TOKEN_BUCKET, [bits(full_at), part]),
        LimiterState::LeakyBucket { empty_at } => (LEAKY_BUCKET, [bits(empty_at), 0]),
        LimiterState::Banned => (BANNED, [0, 0]),
    };
    out.push(code);
    words.iter().for_each(|&word| put(word, out));
}

/// Appends a state that grows.
pub fn write_ledger(ledger: &Ledger, out: &mut Vec<u8>) {
    match ledger {
        Ledger::Log(log) => {
            out.push(LOG);
            put(log.hits().len() as u64, out);
            for hit in log.hits() {
                put(bits(hit.at), out);
                put(hit.cost, out);
            }
        }
        Ledger::Leases(leases) => {
            out.push(LEASES);
            put(leases.len() as u64, out);
            for (id, lease) in leases.iter() {
                name(id, out);
                put(lease.cost, out);
                put(bits(lease.expires_at), out);
            }
        }
        Ledger::Holds(holds) => {
            out.push(HOLDS);
            write_kind(holds.kind, out);
            let Quota {
                limit,
                period,
                burst,
            } = holds.quota;
            [limit, period, burst]
                .iter()
                .for_each(|&word| put(word, out));
            match holds.base {
                Some(record) => {
                    write_state(record.state, out);
                    put(record.expires_at_ms as u64, out);
                }
                None => out.push(0),
            }
            put(holds.len() as u64, out);
            for (id, hold) in holds.iter() {
                name(id, out);
                put(hold.amount, out);
                put(bits(hold.expires_at), out);
                put(hold.ended.unwrap_or(OPEN), out);
                put(bits(hold.counts_until), out);
            }
        }
        Ledger::Ban(ban) => {
            out.push(BAN);
            put(ban.until_ms as u64, out);
            match &*ban.beneath {
                Slot::Small(Some(record)) => {
                    put(record.expires_at_ms as u64, out);
                    write_state(record.state, out);
                }
                Slot::Ledger(ledger, expires_at_ms) => {
                    put(*expires_at_ms as u64, out);
                    write_ledger(ledger, out);
                }
                // Nobody bans nothing in this form.
                Slot::Small(None) => {}
            }
        }
    }
}

/// Reads what [`write_state`] or [`write_ledger`] has written; `None` unless it is exactly that.
pub fn read(bytes: &[u8]) -> Option<Stored> {
    let mut input = bytes;
    let stored = match take_byte(&mut input)? {
        BAN => Stored::Ledger(Ledger::Ban(read_ban(&mut input)?)),
        code => read_unbanned(code, &mut input)?,
    };
    input.is_empty().then_some(stored)
}

fn read_unbanned(code: u8, input: &mut &[u8]) -> Option<Stored> {
    Some(match code {
        LOG => Stored::Ledger(Ledger::Log(read_log(input)?)),
        LEASES => Stored::Ledger(Ledger::Leases(Box::new(read_leases(input)?))),
        HOLDS_1 | HOLDS => {
            Stored::Ledger(Ledger::Holds(Box::new(read_holds(input, code == HOLDS)?)))
        }
        code => Stored::State(read_state(code, input)?),
    })
}

fn read_ban(input: &mut &[u8]) -> Option<Ban> {
    let until_ms = take(input)? as i64;
    let expires_at_ms = take(input)? as i64;
    let code = take_byte(input)?;
    let beneath = match read_unbanned(code, input)? {
        Stored::State(LimiterState::Banned) => return None,
        Stored::State(state) => Slot::Small(Some(Record {
            state,
            expires_at_ms,
        })),
        Stored::Ledger(ledger) => Slot::Ledger(ledger, expires_at_ms),
    };
    let beneath = Box::new(beneath);
    Some(Ban { until_ms, beneath })
}

fn read_state(code: u8, input: &mut &[u8]) -> Option<LimiterState> {
    let period = match code {
        SLIDING_WINDOW => PeriodMs::new(i64::try_from(take(input)?).ok()?),
        _ => PeriodMs::UNKNOWN,
    };
    let (first, second) = (take(input)?, take(input)?);
    Some(match code {
        FIXED_WINDOW => LimiterState::FixedWindow { count: first },
        GCRA => LimiterState::Gcra { tat: time(first) },
        SLIDING_WINDOW | SLIDING_WINDOW_1 => LimiterState::SlidingWindow {
            previous: first,
            current: second,
            period,
        },
        TOKEN_BUCKET => LimiterState::TokenBucket {
            full_at: time(first),
            part: second,
        },
        LEAKY_BUCKET => LimiterState::LeakyBucket {
            empty_at: time(first),
        },
        BANNED => LimiterState::Banned,
        _ => return None,
    })
}

fn read_log(input: &mut &[u8]) -> Option<SlidingLog> {
    let count = count(input, ENTRIES_MAX)?;
    let hits: Option<Vec<Hit>> = (0..count)
        .map(|_| {
            let at = time(take(input)?);
            let cost = take(input)?;
            Some(Hit { at, cost })
        })
        .collect();
    let hits = hits?;
    let costs = hits.iter().map(|hit| hit.cost);
    sums_up(costs).then(|| SlidingLog::from_hits(hits))
}

fn read_leases(input: &mut &[u8]) -> Option<Leases> {
    let count = count(input, LEASES_MAX)?;
    let leases: Option<Vec<(Box<[u8]>, Lease)>> = (0..count)
        .map(|_| {
            let id = take_name(input)?;
            let cost = take(input)?;
            let expires_at = time(take(input)?);
            Some((id, Lease { cost, expires_at }))
        })
        .collect();
    let leases = leases?;
    let costs = leases.iter().map(|(_, lease)| lease.cost);
    sums_up(costs).then(|| Leases::from_leases(leases))
}

/// Whether the units of all can be counted together.
fn sums_up(mut costs: impl Iterator<Item = u64>) -> bool {
    costs.try_fold(0, u64::checked_add).is_some()
}

fn read_holds(input: &mut &[u8], says_until: bool) -> Option<Holds> {
    let kind = read_kind(input)?;
    let quota = Quota {
        limit: take(input)?,
        period: take(input)?,
        burst: take(input)?,
    };
    let base = match take_byte(input)? {
        0 => None,
        code => Some(Record {
            state: read_state(code, input)?,
            expires_at_ms: take(input)? as i64,
        }),
    };
    let count = count(input, HOLDS_MAX)?;
    let holds: Option<Vec<(Box<[u8]>, Hold)>> = (0..count)
        .map(|_| {
            let id = take_name(input)?;
            let amount = take(input)?;
            let expires_at = time(take(input)?);
            let ended = Some(take(input)?).filter(|&actual| actual != OPEN);
            let counts_until = match (says_until, base) {
                (true, _) => time(take(input)?),
                // As if they had been taken last.
                (false, Some(base)) => kind.counts_until(base, &quota),
                (false, None) => expires_at,
            };
            let hold = Hold {
                amount,
                expires_at,
                ended,
                counts_until,
            };
            Some((id, hold))
        })
        .collect();
    holds.map(|holds| Holds::from_holds(kind, quota, base, holds))
}

/// The algorithm by its name, with the calendar's unit and zone.
fn write_kind(kind: AlgorithmKind, out: &mut Vec<u8>) {
    name(kind.row().name.as_bytes(), out);
    if let AlgorithmKind::Calendar(calendar) = kind {
        name(calendar.unit.name().as_bytes(), out);
        name(calendar.zone.name().as_bytes(), out);
    }
}

fn read_kind(input: &mut &[u8]) -> Option<AlgorithmKind> {
    let word = take_name(input)?;
    let row = ALGORITHMS
        .iter()
        .find(|row| row.name.as_bytes() == &*word)?;
    Some(match row.kind {
        AlgorithmKind::Calendar(_) => AlgorithmKind::Calendar(Calendar {
            unit: CalendarUnit::by_name(&take_name(input)?)?,
            zone: Zone::by_name(&take_name(input)?)?,
        }),
        kind => kind,
    })
}

fn bits(time: Timestamp) -> u64 {
    time.nanos() as u64
}

fn time(bits: u64) -> Timestamp {
    Timestamp::from_nanos(bits as i64)
}

fn put(word: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn name(id: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(id.len() as u32).to_le_bytes());
    out.extend_from_slice(id);
}

fn take(input: &mut &[u8]) -> Option<u64> {
    let (word, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u64::from_le_bytes(*word))
}

fn take_byte(input: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = input.split_first()?;
    *input = rest;
    Some(byte)
}

fn take_name(input: &mut &[u8]) -> Option<Box<[u8]>> {
    let (len, rest) = input.split_first_chunk()?;
    let len = u32::from_le_bytes(*len) as usize;
    if len > ID_MAX {
        return None;
    }
    let (name, rest) = rest.split_at_checked(len)?;
    *input = rest;
    Some(name.into())
}

/// A number of entries, of which each takes at least 16 bytes of the input.
fn count(input: &mut &[u8], most: usize) -> Option<usize> {
    let count = usize::try_from(take(input)?).ok()?;
    (count <= most && count <= input.len() / 16).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Cost;

    fn samples() -> Vec<Stored> {
        let now = Timestamp::from_secs(1_700_000_000);
        let quota = Quota::new(10, 60_000_000_000);
        let mut log = SlidingLog::default();
        let mut leases = Leases::default();
        let kind = ALGORITHMS[3].kind;
        let mut holds = Holds::new(kind, quota, None);
        for (i, id) in [&b"a"[..], b"", b"longer name"].into_iter().enumerate() {
            log.decide(&quota, Cost(1), false, now.plus(i as u64));
            leases.acquire(id, 10, Cost(2), 1_000, now.plus(i as u64));
            holds
                .reserve(id, kind, &quota, Cost(2), 1_000, now)
                .expect("one algorithm");
        }
        holds.end(b"a", 1, now).expect("one algorithm");
        let mut all: Vec<Stored> = [
            LimiterState::FixedWindow { count: 7 },
            LimiterState::Gcra { tat: now },
            LimiterState::SlidingWindow {
                previous: 1,
                current: 2,
                period: PeriodMs::new(60_000),
            },
            LimiterState::SlidingWindow {
                previous: 1,
                current: 2,
                period: PeriodMs::UNKNOWN,
            },
            LimiterState::TokenBucket {
                full_at: now,
                part: 5,
            },
            LimiterState::LeakyBucket { empty_at: now },
            LimiterState::Banned,
        ]
        .map(Stored::State)
        .into();
        let mut banned = [
            Slot::Small(Some(Record {
                state: LimiterState::FixedWindow { count: 7 },
                expires_at_ms: i64::MAX,
            })),
            Slot::Ledger(Ledger::Log(log.clone()), i64::MAX),
        ];
        for slot in &mut banned {
            slot.ban(2_000_000_000_000, now).expect("own states");
        }
        all.extend(banned.map(|slot| match slot {
            Slot::Ledger(ledger, _) => Stored::Ledger(ledger),
            Slot::Small(_) => panic!("the state outlives the ban"),
        }));
        all.extend(
            [
                Ledger::Log(log),
                Ledger::Leases(Box::new(leases)),
                Ledger::Holds(Box::new(holds)),
                Ledger::Holds(Box::new(Holds::new(ALGORITHMS[6].kind, quota, None))),
            ]
            .map(Stored::Ledger),
        );
        all
    }

    fn write(stored: &Stored) -> Vec<u8> {
        let mut bytes = Vec::new();
        match stored {
            Stored::State(state) => write_state(*state, &mut bytes),
            Stored::Ledger(ledger) => write_ledger(ledger, &mut bytes),
        }
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        for stored in samples() {
            assert_eq!(read(&write(&stored)), Some(stored));
        }
    }

    #[test]
    fn a_sliding_window_of_an_earlier_version_does_not_say_its_period() {
        let bytes = [&[SLIDING_WINDOW_1][..], &[1; 8], &[2; 8]].concat();
        let want = LimiterState::SlidingWindow {
            previous: u64::from_le_bytes([1; 8]),
            current: u64::from_le_bytes([2; 8]),
            period: PeriodMs::UNKNOWN,
        };
        assert_eq!(read(&bytes), Some(Stored::State(want)));
    }

    #[test]
    fn units_that_cannot_be_summed_are_refused() {
        let now = Timestamp::from_secs(1);
        let log = |cost| {
            let hits = [u64::MAX - 5, cost].into_iter().zip(0..);
            let hits = hits.map(|(cost, at)| Hit {
                at: now.plus(at),
                cost,
            });
            Stored::Ledger(Ledger::Log(SlidingLog::from_hits(hits)))
        };
        let leases = |cost| {
            let lease = |cost| Lease {
                cost,
                expires_at: now,
            };
            let both = [
                (b"a".as_slice().into(), lease(u64::MAX - 5)),
                (b"b".as_slice().into(), lease(cost)),
            ];
            Stored::Ledger(Ledger::Leases(Box::new(Leases::from_leases(both))))
        };
        for (fits, stored) in [
            (true, log(5)),
            (false, log(6)),
            (true, leases(5)),
            (false, leases(6)),
        ] {
            assert_eq!(read(&write(&stored)).is_some(), fits);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for stored in samples() {
            let bytes = write(&stored);
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), None);
            }
            assert_eq!(read(&[&bytes[..], &[0]].concat()), None);
        }
        for bytes in [
            &[][..],
            &[99],
            &[LOG, 255, 255, 255, 255, 255, 255, 255, 255],
        ] {
            assert_eq!(read(bytes), None);
        }
    }
}
