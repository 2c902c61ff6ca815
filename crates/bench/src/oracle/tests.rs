//! The oracles against the limiter crate's own algorithms in virtual time: a right limiter is never accused, whatever the
//! delays, and a wrong one is caught.

use tollgate_limiter::sliding_log::SlidingLog;
use tollgate_limiter::{AlgorithmKind, Cost, Decision as Answer, Quota, Record, Timestamp};

use super::*;
use crate::load::decisions::{NEVER, Said};
use crate::load::rng::Rng;
use crate::record::RetryAfter;

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
/// A moment in 2026, in the middle of a second.
const UNIX_NS: i64 = 1_790_000_000_400_000_000;

/// How a limiter in virtual time misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Its limit is this much too high.
    Surplus(u64),
    /// It forgets the key at this time.
    Amnesty(u64),
    /// It charges every request this often.
    Cost(u64),
    /// Its window is this share of the right one, in percent.
    WindowPercent(u64),
    /// It denies one request in this many unasked.
    Moods(u64),
}

/// A limiter under test: an algorithm of the limiter crate, with its record of one key.
struct Limiter {
    kind: Option<AlgorithmKind>,
    record: Option<Record>,
    log: SlidingLog,
    quota: Quota,
    fault: Fault,
    asked: u64,
}

impl Limiter {
    /// `kind` of `None` is the sliding log.
    fn new(kind: Option<AlgorithmKind>, rule: Rule, fault: Fault) -> Limiter {
        let (mut limit, mut period) = (rule.limit, rule.window_s * SECOND);
        match fault {
            Fault::Surplus(more) => limit += more,
            Fault::WindowPercent(percent) => period = period * percent / 100,
            _ => {}
        }
        Limiter {
            kind,
            record: None,
            log: SlidingLog::default(),
            quota: Quota::new(limit, period),
            fault,
            asked: 0,
        }
    }

    fn decide(&mut self, at: u64) -> Answer {
        self.asked += 1;
        if matches!(self.fault, Fault::Moods(every) if self.asked.is_multiple_of(every)) {
            let (record, log) = (self.record, self.log.clone());
            let mut answer = self.answer(at);
            (self.record, self.log) = (record, log);
            answer.allowed = false;
            return answer;
        }
        self.answer(at)
    }

    fn answer(&mut self, at: u64) -> Answer {
        let now = Timestamp::from_nanos(UNIX_NS + at as i64);
        if matches!(self.fault, Fault::Amnesty(time) if at >= time) {
            self.record = None;
            self.log = SlidingLog::default();
            self.fault = Fault::None;
        }
        let cost = Cost(match self.fault {
            Fault::Cost(cost) => cost,
            _ => 1,
        });
        let Some(kind) = self.kind else {
            return self.log.decide(&self.quota, cost, false, now);
        };
        let live = self
            .record
            .filter(|record| now.millis() < record.expires_at_ms);
        let (answer, store) = kind.decide(live, &self.quota, cost, now).unwrap();
        self.record = store.or(live);
        answer
    }
}

/// What is asked: when, and with which delays.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    rate: f64,
    /// First request.
    from_ns: u64,
    length_ns: u64,
    /// Longest time from send to decision and from decision to answer.
    delay_ns: u64,
    /// Share of answers that never arrive.
    lost: f64,
    seed: u64,
}

/// Runs one key through `limiter` and hands what the generator saw to the oracle.
fn judged(promise: &Promise<'_>, mut limiter: Limiter, traffic: Traffic) -> Accuracy {
    let mut rng = Rng::new(traffic.seed);
    let mut sends = Vec::new();
    let mut at = traffic.from_ns as f64;
    while at < (traffic.from_ns + traffic.length_ns) as f64 {
        sends.push(at as u64);
        at += rng.exponential() * 1e9 / traffic.rate;
    }
    let delay = |rng: &mut Rng| (rng.unit() * traffic.delay_ns as f64) as u64;
    let mut order: Vec<(u64, u64)> = sends
        .iter()
        .map(|sent| (sent + delay(&mut rng), *sent))
        .collect();
    order.sort_unstable();
    let mut answers: Vec<Decision> = order
        .into_iter()
        .map(|(decided, sent)| {
            let lost = rng.unit() < traffic.lost;
            if lost && rng.unit() < 0.5 {
                // It never reached the limiter.
                return Decision::new(0, sent, NEVER, Said::Unknown);
            }
            let answer = limiter.decide(decided);
            let received = decided + delay(&mut rng);
            let said = match (lost, answer.allowed) {
                (true, _) => Said::Unknown,
                (false, true) => Said::Admitted,
                (false, false) => Said::Denied,
            };
            let promise = (said == Said::Denied).then(|| answer.retry_after_ms() as u64);
            Decision::new(0, sent, received, said).promising(promise)
        })
        .collect();
    answers.sort_by_key(|answer| answer.received_ns);
    let mut log = DecisionLog::new(1);
    let mut key = KeyTally {
        first_sent_ns: sends[0],
        ..KeyTally::default()
    };
    for answer in answers {
        key.sent += 1;
        match answer.said {
            Said::Admitted => key.admitted += 1,
            Said::Denied => key.denied += 1,
            Said::Unknown => {}
        }
        if answer.said != Said::Unknown {
            key.last_received_ns = answer.received_ns;
        }
        log.push(answer);
    }
    let seen = Seen {
        keys: &[key],
        decisions: &log,
        spreading: Spreading::Single,
        prefix: "k",
    };
    judge(promise, &seen).unwrap()
}

/// Name of the promise and the limiter that keeps it.
fn pairs() -> [(&'static str, Option<AlgorithmKind>); 7] {
    [
        ("fixed-window", Some(AlgorithmKind::FixedWindow)),
        ("fixed-window-epoch", Some(AlgorithmKind::FixedWindowEpoch)),
        ("sliding-window", Some(AlgorithmKind::SlidingWindow)),
        ("sliding-log", None),
        ("token-bucket", Some(AlgorithmKind::TokenBucket)),
        ("leaky-bucket", Some(AlgorithmKind::LeakyBucket)),
        ("gcra", Some(AlgorithmKind::Gcra)),
    ]
}

fn promise(algorithm: &str, rule: Rule) -> Promise<'_> {
    let windows = Windows::named(algorithm, rule, Some(UNIX_NS), 3_600 * SECOND).unwrap();
    Promise {
        algorithm,
        rule,
        windows,
    }
}

#[test]
fn a_right_limiter_is_never_accused() {
    let mut rng = Rng::new(11);
    for case in 0..60 {
        let rule = Rule {
            limit: 1 + u64::from(rng.below(150)),
            window_s: 1 + u64::from(rng.below(3)),
        };
        let saturation = 0.2 + 4.0 * rng.unit();
        let traffic = Traffic {
            rate: saturation * rule.limit as f64 / rule.window_s as f64,
            from_ns: 2 * MILLI,
            length_ns: rule.window_s * SECOND / 2 * u64::from(1 + rng.below(12)),
            delay_ns: [0, MILLI, 30 * MILLI, 700 * MILLI][rng.below(4) as usize],
            lost: [0.0, 0.0, 0.03][rng.below(3) as usize],
            seed: case,
        };
        for (name, kind) in pairs() {
            let limiter = Limiter::new(kind, rule, Fault::None);
            let found = judged(&promise(name, rule), limiter, traffic);
            let exact = found.exact.expect("every decision was judged");
            assert_eq!(
                (found.over_admitted, found.under_admitted),
                (0, 0),
                "{name} {rule:?} {traffic:?} {found:?}"
            );
            assert_eq!(exact.decisions, found.offered);
            assert!(found.allowed_min <= found.admitted + found.unknown);
            assert!(found.admitted <= found.allowed_max);
            assert!(found.allowed_min <= found.allowed_max);
            let kept = found.retry_after.unwrap_or_default();
            assert_eq!(
                (kept.too_long, kept.too_short),
                (0, 0),
                "{name} {rule:?} {traffic:?} {kept:?}"
            );
        }
    }
}

/// A limit that asks for more than twice what passes, over several windows.
const RULE: Rule = Rule {
    limit: 800,
    window_s: 4,
};

fn busy(seed: u64) -> Traffic {
    Traffic {
        rate: 700.0,
        from_ns: 2 * MILLI,
        length_ns: 15 * SECOND,
        delay_ns: MILLI,
        lost: 0.0,
        seed,
    }
}

fn each(fault: Fault, check: impl Fn(&str, &Accuracy)) {
    for (name, kind) in pairs() {
        for seed in 0..3 {
            let limiter = Limiter::new(kind, RULE, fault);
            check(name, &judged(&promise(name, RULE), limiter, busy(seed)));
        }
    }
}

#[test]
fn one_percent_too_many_is_caught() {
    each(Fault::Surplus(RULE.limit / 100), |name, found| {
        assert!(found.over_admitted > 0, "{name} {found:?}");
        assert!(!found.never_over() && found.allowed_max < found.admitted);
    });
}

#[test]
fn a_forgotten_key_is_caught() {
    // In the middle of the third window, when the limit has been used up.
    each(Fault::Amnesty(11 * SECOND), |name, found| {
        assert!(found.over_admitted > RULE.limit / 2, "{name} {found:?}");
    });
}

#[test]
fn double_charging_is_caught() {
    each(Fault::Cost(2), |name, found| {
        assert!(
            found.under_admitted > RULE.limit / 2 && found.over_admitted == 0,
            "{name} {found:?}"
        );
        assert!(found.under_admission_percent > 0.0);
        assert!(found.allowed_min > found.admitted);
    });
}

#[test]
fn denials_out_of_turn_are_caught_where_the_sum_is_right() {
    // Every window is asked for more than three times what passes, so the sums of fixed windows reach their limits.
    each(Fault::Moods(3), |name, found| {
        assert!(found.under_admitted > RULE.limit / 20, "{name} {found:?}");
        assert_eq!(found.over_admitted, 0, "{name} {found:?}");
    });
    let limiter = Limiter::new(Some(AlgorithmKind::FixedWindow), RULE, Fault::Moods(3));
    let found = judged(&promise("fixed-window", RULE), limiter, busy(0));
    assert!(found.admitted.is_multiple_of(RULE.limit), "{found:?}");
}

#[test]
fn a_wrong_window_is_caught() {
    each(Fault::WindowPercent(50), |name, found| {
        assert!(found.over_admitted > RULE.limit / 2, "{name} {found:?}");
    });
    each(Fault::WindowPercent(200), |name, found| {
        assert!(found.under_admitted > RULE.limit / 2, "{name} {found:?}");
    });
    each(Fault::WindowPercent(95), |name, found| {
        assert!(found.over_admitted > 0, "{name} {found:?}");
    });
}

#[test]
fn the_burst_at_a_boundary_is_caught_where_it_is_not_promised() {
    // Requests begin half a second before a boundary of the epoch's windows.
    let boundary = (4 - UNIX_NS.rem_euclid(4 * SECOND as i64) / SECOND as i64) as u64 * SECOND;
    let traffic = Traffic {
        rate: 4_000.0,
        from_ns: boundary - SECOND,
        length_ns: 2 * SECOND,
        ..busy(5)
    };
    let epoch = || Limiter::new(Some(AlgorithmKind::FixedWindowEpoch), RULE, Fault::None);
    for name in [
        "fixed-window",
        "sliding-window",
        "sliding-log",
        "token-bucket",
        "gcra",
    ] {
        let found = judged(&promise(name, RULE), epoch(), traffic);
        assert!(found.over_admitted > RULE.limit / 2, "{name} {found:?}");
    }
    let found = judged(&promise("fixed-window-epoch", RULE), epoch(), traffic);
    assert_eq!((found.over_admitted, found.under_admitted), (0, 0));
    // It keeps its promise, and the fullest window shows what the promise is worth.
    assert_eq!(found.worst_window_of_limit(), Some(2.0));
}

#[test]
fn a_step_longer_than_the_window_is_judged_in_every_window() {
    // Quiet first, so that the counts alone would leave room for the surplus that follows.
    let mut limiter = Limiter::new(Some(AlgorithmKind::FixedWindow), RULE, Fault::Surplus(40));
    limiter.decide(0);
    let traffic = Traffic {
        from_ns: 9 * SECOND,
        length_ns: 3 * SECOND,
        ..busy(1)
    };
    let found = judged(&promise("fixed-window", RULE), limiter, traffic);
    assert_eq!(found.over_admitted, 40, "{found:?}");
    assert_eq!(
        (found.allowed_min, found.allowed_max),
        (RULE.limit, RULE.limit)
    );
    assert_eq!(found.worst_window_admitted, Some(RULE.limit + 40));
}

#[test]
fn a_log_without_room_accuses_nobody_of_what_it_did_not_keep() {
    let mut log = DecisionLog::with_room(1, 100);
    let mut key = KeyTally {
        first_sent_ns: 1,
        ..KeyTally::default()
    };
    let rule = Rule {
        limit: 150,
        window_s: 1,
    };
    for index in 0..400_u64 {
        let sent = index * MILLI;
        let said = if index < 150 {
            Said::Admitted
        } else {
            Said::Denied
        };
        log.push(Decision::new(0, sent, sent + 10, said));
        key.sent += 1;
        key.admitted += u32::from(said == Said::Admitted);
        key.denied += u32::from(said == Said::Denied);
        key.last_received_ns = sent + 10;
    }
    for (name, _) in pairs() {
        let seen = Seen {
            keys: &[key],
            decisions: &log,
            spreading: Spreading::Single,
            prefix: "k",
        };
        let found = judge(&promise(name, rule), &seen).unwrap();
        assert_eq!(found.exact.unwrap().left_out, 300);
        if name == "fixed-window" {
            assert_eq!((found.over_admitted, found.under_admitted), (0, 0));
        }
    }
}

#[test]
fn promised_waits_are_compared_with_what_came() {
    let rule = Rule {
        limit: 20,
        window_s: 1,
    };
    let traffic = Traffic {
        rate: 100.0,
        length_ns: 6 * SECOND,
        ..busy(3)
    };
    let of = |kind, fault| -> RetryAfter {
        let limiter = Limiter::new(kind, rule, fault);
        let found = judged(&promise("fixed-window", rule), limiter, traffic);
        found.retry_after.unwrap()
    };
    let right = of(Some(AlgorithmKind::FixedWindow), Fault::None);
    assert!(
        right.checked > 100 && right.kept == right.checked,
        "{right:?}"
    );
    // The key is forgotten while denials still promise the end of the window.
    let early = of(
        Some(AlgorithmKind::FixedWindow),
        Fault::Amnesty(2 * SECOND + 500 * MILLI),
    );
    assert!(
        early.too_long > 5 && early.worst_too_long_ms > 50.0,
        "{early:?}"
    );
}

fn tally(sent: u32, admitted: u32, denied: u32, length_ns: u64) -> KeyTally {
    KeyTally {
        sent,
        admitted,
        denied,
        errors: 0,
        first_sent_ns: 50 * MILLI,
        last_received_ns: 50 * MILLI + length_ns,
    }
}

fn by_counts(keys: &[KeyTally], spreading: Spreading) -> Option<Accuracy> {
    let rule = Rule {
        limit: 100,
        window_s: 10,
    };
    let decisions = DecisionLog::with_room(keys.len() as u32, 0);
    let seen = Seen {
        keys,
        decisions: &decisions,
        spreading,
        prefix: "k",
    };
    judge(&promise("fixed-window", rule), &seen)
}

#[test]
fn bounds_follow_the_interval() {
    let rule = Rule {
        limit: 100,
        window_s: 10,
    };
    let most = |name, last| promise(name, rule).most(0, last * SECOND);
    assert_eq!(
        (most("fixed-window", 9), most("fixed-window", 10)),
        (100, 200)
    );
    assert_eq!(
        (most("sliding-log", 9), most("sliding-log", 10)),
        (100, 200)
    );
    assert_eq!(
        most("gcra", 5),
        151,
        "a little more for the grain of clocks"
    );
    // 400 ms after a multiple of ten seconds.
    assert_eq!(
        (
            most("fixed-window-epoch", 9),
            most("fixed-window-epoch", 11)
        ),
        (100, 200)
    );
    let unknown = Windows::named("fixed-window-epoch", rule, None, SECOND);
    assert_eq!(unknown, Some(Windows::Somewhere));
    assert_eq!(Windows::named("", rule, None, SECOND), None);
    let fewest = |offered| promise("fixed-window", rule).fewest(offered);
    assert_eq!((fewest(40), fewest(400)), (40, 100));
}

#[test]
fn one_request_too_many_is_seen_and_not_hidden_by_another_key() {
    let keys = [tally(500, 100, 400, SECOND), tally(500, 101, 399, SECOND)];
    let found = by_counts(&keys, Spreading::Uniform).unwrap();
    assert_eq!((found.over_admitted, found.admitted), (1, 201));
    assert_eq!((found.allowed_max, found.exact), (200, None));
    assert_eq!(found.worst_window_key.as_deref(), Some("k1"));
    let keys = [tally(500, 90, 410, SECOND), tally(500, 101, 399, SECOND)];
    let found = by_counts(&keys, Spreading::Uniform).unwrap();
    assert_eq!(
        (found.over_admission_percent, found.under_admission_percent),
        (0.5, 5.0)
    );
    let least = found.fairness_min_of_mean.unwrap();
    assert!((least - 90.0 / 95.5).abs() < 1e-9 && found.fairness_jain.unwrap() < 1.0);
    assert_eq!(
        by_counts(&keys, Spreading::Single).unwrap().fairness_jain,
        None
    );
}

#[test]
fn lost_answers_speak_for_the_limiter() {
    let found = by_counts(&[tally(500, 95, 400, SECOND)], Spreading::Single).unwrap();
    assert_eq!((found.unknown, found.under_admitted), (5, 0));
    assert!(found.never_over());
    assert!(by_counts(&[KeyTally::default()], Spreading::Single).is_none());
}
