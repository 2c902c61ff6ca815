//! CL.THROTTLE, GCRA and THROTTLE against the arithmetic that their owners publish, on random histories of one key.

use proptest::prelude::*;
use tollgate_limiter::Timestamp;
use tollgate_limiter::cell::{Change, Throttle};
use tollgate_limiter::foreign::{Crab, RedisGcra};

const NANOS: i128 = 1_000_000_000;

/// A request: how long after the one before, and what it says.
#[derive(Clone, Copy, Debug)]
struct Step {
    advance: i64,
    max_burst: i64,
    count: i64,
    period_secs: i64,
    quantity: i64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        4 => Just(0i64),
        4 => 0..3_000_000_000i64,
        2 => (0..2_000i64).prop_map(|ms| ms * 1_000_000),
        1 => 0..200_000_000_000i64,
    ];
    let rates = prop_oneof![
        6 => (0..20i64, 1..40i64, 1..90i64),
        // No credit of more than 73 years, which THROTTLE and GCRA do not give.
        1 => (0..2_000i64, 1..5_000_000i64, 1..1_000_000i64),
    ];
    let quantity = prop_oneof![6 => Just(1i64), 2 => 0..6i64, 1 => 0..200i64];
    // Mostly one rate for all, as callers have it.
    (rates.clone(), any::<bool>()).prop_flat_map(move |one| {
        let ((max_burst, count, period_secs), changes) = one;
        let step = (advance.clone(), rates.clone(), quantity.clone());
        let step = step.prop_map(move |(advance, other, quantity)| {
            let (max_burst, count, period_secs) = match changes && quantity > 1 {
                true => other,
                false => (max_burst, count, period_secs),
            };
            Step {
                advance,
                max_burst,
                count,
                period_secs,
                quantity,
            }
        });
        prop::collection::vec(step, 1..60)
    })
}

/// Whether it is limited, what is left, when to come back, when all is there, and the time to store.
type Published = (bool, i128, i128, i128, Option<i128>);

/// redis-cell: nanoseconds per unit as a truncated double, the rest whole.
fn redis_cell(step: Step, stored: Option<i128>, now: i128) -> Option<Published> {
    let each = (step.period_secs as f64 * 1e9 / step.count as f64) as i64;
    let each = i128::from(each);
    if each == 0 {
        return None;
    }
    let tolerance = each * (i128::from(step.max_burst) + 1);
    let more = each * i128::from(step.quantity);
    let arrival = stored.unwrap_or(now);
    let next = now.max(arrival) + more;
    let early = next - tolerance - now;
    let limited = early > 0;
    let left = match limited {
        true => arrival - now,
        false => next - now,
    };
    let room = tolerance - left;
    let remaining = match room > -each {
        true => ((room / 1_000) as f64 / (each / 1_000) as f64) as i128,
        false => 0,
    };
    let seconds = |span: i128| span / NANOS + i128::from(span % NANOS / 1_000_000 > 0);
    let retry = match limited && more <= tolerance {
        true => seconds(early),
        false => -1,
    };
    let store = (!limited).then_some(next);
    Some((limited, remaining, retry, seconds(left), store))
}

/// Redis' GCRA: microseconds, of a clock that has milliseconds; waits are rounded up.
fn redis_gcra(step: Step, stored: Option<i128>, now: i128) -> Published {
    let now = now / 1_000_000 * 1_000;
    let each = (step.period_secs as f64 * 1e6 / step.count as f64 + 0.5).floor();
    let each = (each as i128).max(1);
    let tolerance = each * (i128::from(step.max_burst) + 1);
    let more = each * i128::from(step.quantity);
    let arrival = stored.map_or(now, |nanos| nanos / 1_000);
    let next = arrival.max(now) + more;
    let early = next - tolerance - now;
    let limited = early > 0;
    let left = if limited { arrival - now } else { next - now };
    let room = tolerance - left;
    let remaining = if room > -each { room / each } else { 0 };
    let seconds = |span: i128| (span + 999_999).div_euclid(1_000_000);
    let retry = match limited && more <= tolerance {
        true => seconds(early),
        false => -1,
    };
    let store = (!limited).then_some(next * 1_000);
    (limited, remaining, retry, seconds(left), store)
}

/// throttlecrab, by its own clock of nanoseconds. `docs/differences.md` tells what is not taken over: seconds are rounded up here,
/// a pause earns no second burst, and what is more than the burst is told -1.
fn throttlecrab(step: Step, stored: Option<i128>, now: i128) -> Published {
    let each = i128::from(step.period_secs) * NANOS / i128::from(step.count);
    let slack = each * (i128::from(step.max_burst) - 1);
    // It stores the time of the unit before.
    let arrival = stored.map_or(now - each, |stored| (stored - each).max(now - each));
    let next = arrival + each * i128::from(step.quantity);
    let early = next - slack - now;
    let limited = early > 0;
    let arrival = if limited { arrival } else { next };
    let remaining = ((now + slack - arrival) / each).max(0);
    let seconds = |span: i128| (span + NANOS - 1).div_euclid(NANOS);
    let retry = match limited {
        false => 0,
        true if step.quantity > step.max_burst => -1,
        true => seconds(early),
    };
    let until_full = seconds(arrival + each - now);
    let store = (!limited && step.quantity > 0).then_some(arrival + each);
    (limited, remaining, retry, until_full, store)
}

/// Of a time that has passed the store has nothing left.
fn kept(stored: Option<i128>, now: i128) -> Option<i128> {
    stored.filter(|&stored| stored > now)
}

fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(i64::try_from(nanos).expect("before the end of time"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn cl_throttle_answers_as_redis_cell_would(steps in steps()) {
        let (mut now, mut stored) = (1_795_338_001_250_000_000_i128, None);
        for step in steps {
            now += i128::from(step.advance);
            let Step { max_burst, count, period_secs, quantity, .. } = step;
            let throttle = Throttle { max_burst, count, period_secs, quantity };
            let ours = throttle.decide(kept(stored, now).map(at), at(now));
            let Some((limited, remaining, retry, reset, store)) = redis_cell(step, kept(stored, now), now) else {
                prop_assert!(ours.is_err());
                continue;
            };
            let (reply, change) = ours.expect("a rate");
            let told = (reply.limited, reply.limit, i128::from(reply.retry_after), i128::from(reply.reset_after));
            prop_assert_eq!(told, (limited, max_burst + 1, retry, reset), "{:?}", step);
            // Below a microsecond redis-cell divides by zero.
            if i128::from(period_secs) * 1_000_000 >= i128::from(count) {
                prop_assert_eq!(i128::from(reply.remaining), remaining, "{:?}", step);
            }
            if let Change::Store(tat) = change {
                prop_assert_eq!(store, Some(i128::from(tat.nanos())));
            }
            stored = store.or(stored);
        }
    }

    #[test]
    fn gcra_answers_as_redis_would(steps in steps()) {
        let (mut now, mut stored) = (1_795_338_001_250_000_000_i128, None);
        for step in steps {
            now += i128::from(step.advance);
            let step = Step { quantity: step.quantity.max(1), ..step };
            let gcra = RedisGcra {
                max_burst: step.max_burst.unsigned_abs(),
                tokens: step.count.unsigned_abs(),
                period_secs: step.period_secs as f64,
                cost: step.quantity.unsigned_abs(),
            };
            // Its entries go with the millisecond.
            let held = kept(stored, now / 1_000_000 * 1_000_000);
            let (reply, next) = gcra.decide(held.map(at), at(now)).expect("within its ranges");
            let (limited, remaining, retry, full, store) = redis_gcra(step, held, now);
            let told = [reply.limit, reply.remaining, reply.retry_after, reply.full_after].map(i128::from);
            prop_assert_eq!(
                (reply.limited, told),
                (limited, [i128::from(step.max_burst) + 1, remaining, retry, full]),
                "{:?}", step
            );
            prop_assert_eq!(next.map(|tat| i128::from(tat.nanos())), store);
            stored = store.or(stored);
        }
    }

    #[test]
    fn throttle_answers_as_throttlecrab_would(steps in steps()) {
        let (mut now, mut stored) = (1_795_338_001_250_000_000_i128, None);
        for step in steps {
            now += i128::from(step.advance);
            // Units of whole nanoseconds: throttlecrab rounds others down, which admits more than the rate.
            let count = step.count.unsigned_abs().next_power_of_two().min(512) as i64;
            let step = Step { max_burst: step.max_burst + 1, count, ..step };
            let Step { max_burst, count, period_secs, quantity, .. } = step;
            let crab = Crab { max_burst, count, period_secs, quantity };
            let held = kept(stored, now);
            let (reply, next) = crab.decide(held.map(at), at(now)).expect("positive");
            let (limited, remaining, retry, full, store) = throttlecrab(step, held, now);
            let told = [reply.limit, reply.remaining, reply.retry_after, reply.reset_after].map(i128::from);
            prop_assert_eq!(
                (reply.allowed, told),
                (!limited, [i128::from(max_burst), remaining, retry, full]),
                "{:?}", step
            );
            prop_assert_eq!(next.map(|tat| i128::from(tat.nanos())), store);
            stored = store.or(stored);
        }
    }
}
