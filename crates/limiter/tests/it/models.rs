//! Every row of the table against its oracle, on random histories.

use proptest::prelude::*;
use tollgate_limiter::sliding_log::SlidingLog;
use tollgate_limiter::{
    ALGORITHMS, AlgorithmKind, Cost, LimiterState, PeriodMs, Quota, Record, Timestamp,
};

/// One request of a history: how the clock moves (also back), and what it costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) advance: i64,
    pub(crate) cost: u64,
    pub(crate) peek: bool,
}

fn advance() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(0i64),
        6 => 0..400_000_000i64,
        2 => -300_000_000..0i64,
        1 => 0..10_000_000_000i64,
        1 => -10_000_000_000..0i64,
        1 => (0..2_000i64).prop_map(|ms| ms * 1_000_000),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![6 => Just(1u64), 3 => 0..5u64, 1 => 0..40u64];
    let step =
        (advance(), cost, prop::bool::weighted(0.1)).prop_map(|(advance, cost, peek)| Step {
            advance,
            cost,
            peek,
        });
    prop::collection::vec(step, 1..80)
}

pub(crate) fn quota() -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![8 => 1..12u64, 1 => Just(0u64), 2 => 1..2_000u64];
    let period = prop_oneof![
        Just(1_000_000_000u64),
        Just(60_000_000_000u64),
        1..3_000_000_000u64,
        1..5_000_000u64,
    ];
    let burst = prop_oneof![3 => Just(None), 1 => (0..20u64).prop_map(Some)];
    (limit, period, burst).prop_map(|(limit, period, burst)| {
        let quota = Quota::new(limit, period);
        burst.map_or(quota, |burst| quota.with_burst(burst))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn decisions_equal_the_model(quota in quota(), steps in steps(), start in 0..4_000_000_000_000_000_000i64) {
        for row in ALGORITHMS {
            let mut oracle = (row.oracle)();
            let mut record: Option<Record> = None;
            let mut now = start;
            for step in &steps {
                now += step.advance;
                let at = Timestamp::from_nanos(now);
                let (decision, next) = row.kind.decide(record, &quota, Cost(step.cost), at).expect("one algorithm");
                prop_assert_eq!(decision, oracle.decide(&quota, Cost(step.cost), at), "{} at {}", row.name, now);
                prop_assert!(decision.remaining <= decision.limit);
                prop_assert!(decision.allowed || next.is_none(), "a denied request changes nothing");
                prop_assert!(step.cost > 0 || next.is_none(), "a cost of zero changes nothing");
                record = next.or(record);
            }
        }
    }

    /// The promised wait is enough and not a unit of the algorithm's clock too long.
    #[test]
    fn a_wait_is_exact(quota in quota(), steps in steps(), start in 0..4_000_000_000_000_000_000i64) {
        for row in ALGORITHMS {
            let mut record: Option<Record> = None;
            let mut now = start;
            for step in &steps {
                now += step.advance;
                let at = Timestamp::from_nanos(now);
                let decide = |at| row.kind.decide(record, &quota, Cost(step.cost), at).expect("one algorithm");
                let (decision, next) = decide(at);
                match decision.retry_after {
                    Some(0) => prop_assert!(decision.allowed),
                    Some(wait) => {
                        let unit = match row.name {
                            "gcra" | "token-bucket" | "leaky-bucket" => 1,
                            _ => 1_000_000,
                        };
                        prop_assert!(decide(at.plus(wait)).0.allowed);
                        prop_assert!(!decide(at.plus(wait - unit)).0.allowed);
                    }
                    None => prop_assert!(step.cost > decision.limit),
                }
                record = next.or(record);
            }
        }
    }

    /// What the store may drop at the expiry no longer changes any decision.
    #[test]
    fn an_expired_record_is_worth_nothing(quota in quota(), steps in steps(), start in 0..4_000_000_000_000_000_000i64) {
        for row in ALGORITHMS {
            let mut record: Option<Record> = None;
            let mut now = start;
            for step in &steps {
                now += step.advance;
                let next = row.kind.decide(record, &quota, Cost(step.cost), Timestamp::from_nanos(now));
                record = next.expect("one algorithm").1.or(record);
            }
            if let Some(Record { expires_at_ms, .. }) = record {
                let end = Timestamp::from_millis(expires_at_ms);
                for cost in [0, 1, quota.limit, quota.burst] {
                    prop_assert_eq!(
                        row.kind.decide(record, &quota, Cost(cost), end),
                        row.kind.decide(None, &quota, Cost(cost), end)
                    );
                }
            }
        }
    }

    /// The promise of buckets in its own words: no interval holds more than the burst and what the rate earns in it.
    #[test]
    fn no_interval_holds_more_than_burst_and_rate(
        quota in quota(),
        gaps in prop::collection::vec(0..500_000_000i64, 1..60),
    ) {
        for kind in [AlgorithmKind::Gcra, AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
            let (mut record, mut now, mut hits) = (None, 0i64, Vec::<i64>::new());
            for gap in &gaps {
                now += gap;
                let (decision, next) =
                    kind.decide(record, &quota, Cost(1), Timestamp::from_nanos(now)).expect("one algorithm");
                record = next.or(record);
                if decision.allowed {
                    hits.push(now);
                }
            }
            for (i, first) in hits.iter().enumerate() {
                for (j, last) in hits.iter().enumerate().skip(i) {
                    let passed = (j - i + 1) as i128;
                    let span = i128::from(last - first);
                    let earned = span * i128::from(quota.limit) / i128::from(quota.period);
                    prop_assert!(passed <= i128::from(quota.burst) + earned);
                }
            }
        }
    }

    /// No input makes the arithmetic wrap or panic, and a denial never stores.
    #[test]
    fn every_input_is_answered(
        limit in any::<u64>(), period in any::<u64>(), burst in any::<u64>(), cost in any::<u64>(),
        now in any::<i64>(), expires_at_ms in any::<i64>(), count in any::<u64>(), tat in any::<i64>(),
    ) {
        let quota = Quota { limit, period, burst };
        let now = Timestamp::from_nanos(now);
        for row in ALGORITHMS {
            let time = Timestamp::from_nanos(tat);
            let state = match row.kind {
                AlgorithmKind::Gcra => LimiterState::Gcra { tat: time },
                AlgorithmKind::TokenBucket => LimiterState::TokenBucket { full_at: time, part: count },
                AlgorithmKind::LeakyBucket => LimiterState::LeakyBucket { empty_at: time },
                AlgorithmKind::SlidingWindow => LimiterState::SlidingWindow { previous: count, current: limit, period: PeriodMs::new(tat.unsigned_abs().cast_signed() >> 16) },
                _ => LimiterState::FixedWindow { count },
            };
            for record in [None, Some(Record { state, expires_at_ms }), Some(Record { state: LimiterState::Banned, expires_at_ms })] {
                row.kind.charge(record, &quota, cost, now).expect("one algorithm");
                if let Some(record) = record {
                    row.kind.refund(record, &quota, cost, now).expect("one algorithm");
                }
                let (decision, next) = row.kind.decide(record, &quota, Cost(cost), now).expect("one algorithm");
                prop_assert!(decision.remaining <= decision.limit);
                prop_assert_eq!(decision.allowed, decision.retry_after == Some(0));
                prop_assert!(decision.allowed || next.is_none());
                let banned = record.is_some_and(|record| record.state == LimiterState::Banned);
                if cost > decision.limit && !banned {
                    prop_assert_eq!(decision.retry_after, None);
                }
            }
        }
    }

    /// The log admits exactly what keeps every interval of one period at the limit, and its waits are exact.
    #[test]
    fn the_log_holds_every_interval(quota in quota(), steps in steps(), start in 0..4_000_000_000_000_000_000i64) {
        let mut log = SlidingLog::default();
        let (mut now, mut hits) = (start, Vec::<(i64, u64)>::new());
        for step in &steps {
            now += step.advance;
            // A clock that stepped back stands at the newest hit.
            let at = hits.last().map_or(now, |(newest, _)| now.max(*newest));
            let used = |at: i64| -> u64 {
                let young = hits.iter().filter(|(hit, _)| i128::from(at - hit) < i128::from(quota.period));
                young.map(|(_, cost)| cost).sum()
            };
            let fits = used(at) + step.cost <= quota.limit;
            let decision = log.decide(&quota, Cost(step.cost), step.peek, Timestamp::from_nanos(now));
            prop_assert_eq!(decision.allowed, fits);
            let after = used(at) + if fits { step.cost } else { 0 };
            prop_assert_eq!(decision.remaining, quota.limit.saturating_sub(after));
            match decision.retry_after {
                Some(0) => prop_assert!(fits),
                Some(wait) => {
                    let then = now + wait as i64;
                    prop_assert!(used(then.max(at)) + step.cost <= quota.limit);
                    prop_assert!(used((then - 1).max(at)) + step.cost > quota.limit);
                }
                None => prop_assert!(step.cost > quota.limit),
            }
            if fits && step.cost > 0 && !step.peek {
                hits.push((at, step.cost));
            }
        }
    }

    #[test]
    fn units_taken_in_advance_pass_whenever_they_are_spent(
        quota in quota(),
        steps in prop::collection::vec((0..400_000_000u64, 0..4u8, 1..30u64), 1..80),
        start in 0..4_000_000_000_000_000_000i64,
    ) {
        // Windows that begin with a hit begin when units are taken in advance, of which the model hears later.
        for row in ALGORITHMS.iter().filter(|row| row.kind != AlgorithmKind::FixedWindow) {
            let mut oracle = (row.oracle)();
            let mut record: Option<Record> = None;
            let mut now = Timestamp::from_nanos(start);
            // Until when they may be spent, and how many.
            let mut held: Vec<(Timestamp, u64)> = Vec::new();
            for &(advance, act, units) in &steps {
                // Often the last moment of what is held.
                let last = held.iter().map(|(until, _)| *until).min();
                now = match last {
                    Some(last) if advance % 4 == 0 && last >= now => last,
                    _ => now.plus(advance),
                };
                held.retain(|(until, units)| *until >= now && *units > 0);
                match (act, held.last_mut()) {
                    (0, _) => {
                        let (decision, next) = row.kind.decide(record, &quota, Cost(units), now).expect("own state");
                        if decision.allowed {
                            record = next.or(record);
                            prop_assert!(oracle.decide(&quota, Cost(units), now).allowed, "{}: a take", row.name);
                        }
                    }
                    (1, _) | (_, None) => {
                        let (advance, next) = row.kind.advance(record, &quota, units, now).expect("own state");
                        prop_assert!(advance.granted <= units);
                        prop_assert_eq!(advance.granted > 0, next.is_some());
                        record = next.or(record);
                        // What ends at a time is spent before it, and whole milliseconds are told.
                        let until = now.plus((advance.valid_for / 1_000_000 * 1_000_000).saturating_sub(1));
                        held.push((until, advance.granted));
                    }
                    (_, Some((_, left))) => {
                        let spent = units.min(*left);
                        *left -= spent;
                        prop_assert!(oracle.decide(&quota, Cost(spent), now).allowed, "{}: {} of those in advance", row.name, spent);
                    }
                }
            }
        }
    }
}
