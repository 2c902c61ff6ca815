//! `CL.THROTTLE`: the arithmetic, rounding and texts of redis-cell.
//!
//! Where redis-cell panics or leaves its ranges this code answers instead: rates of zero or less are the
//! "zero rates" error, products saturate, an increment below a microsecond still divides exactly, and a
//! negative quantity (a refund) gives back at most what was taken.

use std::fmt;

use crate::types::Timestamp;

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// The arguments after the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Units that may pass at one instant beyond the first.
    pub max_burst: i64,
    /// Units earned per period.
    pub count: i64,
    /// Length of the period in seconds.
    pub period_secs: i64,
    /// What the request weighs; negative gives back.
    pub quantity: i64,
}

/// The five integers of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether the request is refused (1) or may pass (0).
    pub limited: bool,
    /// `max_burst + 1`.
    pub limit: i64,
    /// Units that could still pass now.
    pub remaining: i64,
    /// Seconds to wait; -1 when the request passed or can never pass.
    pub retry_after: i64,
    /// Seconds until all units are there again.
    pub reset_after: i64,
}

/// What is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// This theoretical arrival time; the entry may go when it has passed.
    Store(Timestamp),
}

/// Why there is no decision. `Display` is the whole reply line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellError {
    /// The rate is zero (or less).
    ZeroRate,
    /// An argument is not an integer.
    NotAnInteger(String),
    /// Too few or too many arguments.
    Usage,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell error: Store error: ")?;
        match self {
            Self::ZeroRate => f.write_str("Zero rates are not supported"),
            Self::NotAnInteger(text) => write!(f, "Couldn't parse as integer: {text}"),
            Self::Usage => f.write_str(
                "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]",
            ),
        }
    }
}

impl std::error::Error for CellError {}

impl Throttle {
    /// Reads the words after the key.
    ///
    /// # Errors
    /// [`CellError::Usage`] for other than three or four words, [`CellError::NotAnInteger`] for the first bad one.
    pub fn parse(words: &[&[u8]]) -> Result<Self, CellError> {
        let (max_burst, count, period, quantity) = match *words {
            [max_burst, count, period] => (max_burst, count, period, None),
            [max_burst, count, period, quantity] => (max_burst, count, period, Some(quantity)),
            _ => return Err(CellError::Usage),
        };
        Ok(Self {
            max_burst: integer(max_burst)?,
            count: integer(count)?,
            period_secs: integer(period)?,
            quantity: quantity.map_or(Ok(1), integer)?,
        })
    }

    /// Decides one request on the stored theoretical arrival time.
    ///
    /// # Errors
    /// [`CellError::ZeroRate`] when the time per unit is zero or negative.
    pub fn decide(
        &self,
        tat: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(Reply, Change), CellError> {
        let increment = self.increment();
        if increment <= 0 {
            return Err(CellError::ZeroRate);
        }
        let limit = self.max_burst.saturating_add(1);
        let tolerance = increment * i128::from(limit);
        let asked = increment * i128::from(self.quantity);
        let now = i128::from(now.nanos());
        // A time in the past is what an expired entry would say.
        let stored = tat.map_or(now, |tat| i128::from(tat.nanos()).max(now));
        let new = (stored + asked).max(now);
        let over = new - tolerance - now;
        let storable = i64::try_from(new).ok();
        let (limited, retry, ttl) = match storable {
            Some(_) if over <= 0 => (false, None, new - now),
            Some(_) => (true, (asked <= tolerance).then_some(over), stored - now),
            None => (true, None, stored - now),
        };
        let reply = Reply {
            limited,
            limit,
            remaining: remaining(tolerance - ttl, increment),
            retry_after: retry.map_or(-1, seconds),
            reset_after: seconds(ttl),
        };
        let change = match storable {
            Some(new) if !limited && i128::from(new) != stored => {
                Change::Store(Timestamp::from_nanos(new))
            }
            _ => Change::Keep,
        };
        Ok((reply, change))
    }

    /// Nanoseconds per unit, divided as a double and truncated, as redis-cell does.
    fn increment(&self) -> i128 {
        if self.count <= 0 || self.period_secs <= 0 {
            return 0;
        }
        let period = (i128::from(self.period_secs) * NANOS_PER_SEC) as f64;
        i128::from((period / self.count as f64) as i64)
    }
}

/// Rust's own integer syntax, as redis-cell reads it: an optional sign and digits.
fn integer(word: &[u8]) -> Result<i64, CellError> {
    std::str::from_utf8(word)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| CellError::NotAnInteger(String::from_utf8_lossy(word).into_owned()))
}

/// Units in the free time, from whole microseconds where the increment has any.
fn remaining(free: i128, increment: i128) -> i64 {
    if free <= -increment {
        return 0;
    }
    let micros = increment / 1_000;
    let units = match micros {
        0 => free / increment,
        _ => ((free / 1_000) as f64 / micros as f64) as i128,
    };
    saturate(units)
}

/// Truncated, plus one when whole milliseconds are left over.
fn seconds(nanos: i128) -> i64 {
    let millis = nanos % NANOS_PER_SEC / 1_000_000;
    saturate(nanos / NANOS_PER_SEC + i128::from(millis > 0))
}

fn saturate(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(state: &mut Option<Timestamp>, throttle: Throttle, now: Timestamp) -> Reply {
        let (reply, change) = throttle.decide(*state, now).expect("a rate above zero");
        if let Change::Store(tat) = change {
            *state = Some(tat);
        }
        reply
    }

    /// The vector redis-cell ships: time (ms), quantity, then limited, remaining, reset and retry (ms).
    const VECTOR: [(i64, i64, bool, i64, i64, i64); 15] = [
        (0, 6, true, 5, 0, -1),
        (0, 1, false, 4, 1_000, -1),
        (0, 1, false, 3, 2_000, -1),
        (0, 1, false, 2, 3_000, -1),
        (0, 1, false, 1, 4_000, -1),
        (0, 1, false, 0, 5_000, -1),
        (0, 1, true, 0, 5_000, 1_000),
        (3_000, 1, false, 2, 3_000, -1),
        (3_100, 1, false, 1, 3_900, -1),
        (4_000, 1, false, 1, 4_000, -1),
        (8_000, 1, false, 4, 1_000, -1),
        (9_500, 1, false, 4, 1_000, -1),
        (9_500, 0, false, 4, 1_000, -1),
        (9_500, 2, false, 2, 3_000, -1),
        (9_500, 5, true, 2, 3_000, 3_000),
    ];

    #[test]
    fn the_conformance_vector_holds() {
        let start = 1_700_000_000_000;
        let mut state = None;
        for (row, (at, quantity, limited, remaining, reset, retry)) in
            VECTOR.into_iter().enumerate()
        {
            let throttle = Throttle {
                max_burst: 4,
                count: 1,
                period_secs: 1,
                quantity,
            };
            let reply = apply(&mut state, throttle, Timestamp::from_millis(start + at));
            let secs = |ms: i64| if ms < 0 { ms } else { (ms + 999) / 1_000 };
            let want = Reply {
                limited,
                limit: 5,
                remaining,
                retry_after: secs(retry),
                reset_after: secs(reset),
            };
            assert_eq!(reply, want, "row {row}");
        }
    }

    #[test]
    fn only_whole_milliseconds_round_a_second_up() {
        assert_eq!(seconds(0), 0);
        assert_eq!(seconds(999_999), 0);
        assert_eq!(seconds(1_000_000), 1);
        assert_eq!(seconds(2_000_000_000), 2);
        assert_eq!(seconds(2_000_999_999), 2);
        assert_eq!(seconds(2_001_000_000), 3);
    }

    #[test]
    fn a_refund_gives_back_at_most_what_was_taken() {
        let now = Timestamp::from_secs(10);
        let mut state = None;
        let throttle = |quantity| Throttle {
            max_burst: 4,
            count: 1,
            period_secs: 1,
            quantity,
        };
        assert_eq!(apply(&mut state, throttle(3), now).remaining, 2);
        assert_eq!(apply(&mut state, throttle(-1), now).remaining, 3);
        let back = apply(&mut state, throttle(-100), now);
        assert_eq!(
            (back.limited, back.remaining, back.reset_after),
            (false, 5, 0)
        );
        assert_eq!(apply(&mut state, throttle(5), now).remaining, 0);
        assert!(apply(&mut state, throttle(1), now).limited);
    }

    #[test]
    fn a_peek_on_a_fresh_key_stores_nothing() {
        let throttle = Throttle {
            max_burst: 4,
            count: 1,
            period_secs: 1,
            quantity: 0,
        };
        let (reply, change) = throttle
            .decide(None, Timestamp::from_secs(1))
            .expect("a rate above zero");
        assert_eq!(change, Change::Keep);
        let want = Reply {
            limited: false,
            limit: 5,
            remaining: 5,
            retry_after: -1,
            reset_after: 0,
        };
        assert_eq!(reply, want);
    }

    #[test]
    fn rates_above_a_million_per_second_count_what_remains() {
        let throttle = Throttle {
            max_burst: 9,
            count: 10_000_000,
            period_secs: 1,
            quantity: 4,
        };
        let (reply, _) = throttle
            .decide(None, Timestamp::from_secs(1))
            .expect("a rate above zero");
        assert_eq!(reply.remaining, 6);
    }

    #[test]
    fn texts_are_those_of_redis_cell() {
        let words = |text: &'static str| text.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        let error = |text| {
            Throttle::parse(&words(text))
                .expect_err("bad words")
                .to_string()
        };
        assert_eq!(
            error("1 2 x"),
            "Cell error: Store error: Couldn't parse as integer: x"
        );
        assert_eq!(
            error("1 2"),
            "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
        );
        for zero in [
            "1 0 60",
            "1 1 0",
            "1 -1 60",
            "1 1 -60",
            "1 9223372036854775807 1",
        ] {
            let throttle = Throttle::parse(&words(zero)).expect("integers");
            let error = throttle
                .decide(None, Timestamp::default())
                .expect_err("no rate");
            assert_eq!(
                error.to_string(),
                "Cell error: Store error: Zero rates are not supported"
            );
        }
    }

    #[test]
    fn no_input_leaves_the_ranges() {
        let extremes = [
            i64::MIN,
            i64::MIN + 1,
            -1,
            0,
            1,
            1 << 40,
            i64::MAX - 1,
            i64::MAX,
        ];
        for max_burst in extremes {
            for quantity in extremes {
                for count in [1, 3, i64::MAX] {
                    for period_secs in [1, i64::MAX] {
                        let throttle = Throttle {
                            max_burst,
                            count,
                            period_secs,
                            quantity,
                        };
                        for now in [i64::MIN, 0, i64::MAX] {
                            for tat in [None, Some(i64::MIN), Some(i64::MAX)] {
                                let tat = tat.map(Timestamp::from_nanos);
                                if let Ok((reply, change)) =
                                    throttle.decide(tat, Timestamp::from_nanos(now))
                                {
                                    assert!(reply.reset_after >= 0);
                                    assert!(!reply.limited || change == Change::Keep);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
