//! The script for every act on a real redis-server: it decides exactly as slots do, whatever came before.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::{
    Act, AlgorithmKind, Cost, Ledger, Method, Quota, Slot, SlotRequest, Timestamp, decide_slots,
    lua,
};
use tollgate_wire::resp::Value;

use crate::redis::Redis;

const SECOND: u64 = 1_000_000_000;
/// Times and spans of the scripts are whole microseconds.
const START_US: i64 = 1_767_225_600_250_000;

/// The limits: each stands on its own key, and increments are whole microseconds.
fn limits() -> Vec<(Method, Quota)> {
    let ten = Quota::new(10, 10 * SECOND);
    let berlin = Calendar {
        unit: CalendarUnit::Day,
        zone: Zone::by_name(b"Europe/Berlin").expect("a zone"),
    };
    [
        AlgorithmKind::FixedWindow,
        AlgorithmKind::FixedWindowEpoch,
        AlgorithmKind::Gcra,
        AlgorithmKind::SlidingWindow,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
        AlgorithmKind::Calendar(berlin),
    ]
    .map(Method::Small)
    .into_iter()
    .map(|method| (method, ten.with_burst(7)))
    .chain([(Method::Log, ten), (Method::Concurrency, ten)])
    .collect()
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Checks of several limits: which, cost, act (0 take, 1 look, 2 hold).
    Decide([(usize, u64, u8); 3], usize),
    Refund(usize, u64),
    End(usize, u64),
    Release(usize),
}

/// How far the clock moves in microseconds, the name that is used, and what is done.
type Step = (i64, usize, Deed);

fn step() -> impl Strategy<Value = Step> {
    let limit = 0..9usize;
    let check = (limit.clone(), 0..13u64, 0..3u8);
    let deed = prop_oneof![
        6 => (check.clone(), check.clone(), check, 1..4usize)
            .prop_map(|(a, b, c, many)| Deed::Decide([a, b, c], many)),
        2 => (limit.clone(), 0..9u64).prop_map(|(limit, units)| Deed::Refund(limit, units)),
        2 => (limit.clone(), 0..30u64).prop_map(|(limit, actual)| Deed::End(limit, actual)),
        1 => limit.prop_map(Deed::Release),
    ];
    let advance = prop_oneof![3 => 0..400_000i64, 1 => 0..6_000_000i64, 1 => -2_000_000..0i64];
    (advance, 0..4usize, deed)
}

struct Both<'a> {
    redis: &'a mut Redis,
    round: usize,
    slots: Vec<Slot>,
    limits: Vec<(Method, Quota)>,
}

impl Both<'_> {
    fn script(&mut self, keys: &[usize], now_us: i64, words: &[lua::Word]) -> Value {
        let mut command: Vec<Box<[u8]>> = vec![b"EVAL".as_slice().into()];
        command.push(lua::GENERAL.as_bytes().into());
        command.push(keys.len().to_string().into_bytes().into());
        for key in keys {
            let key = format!("g:{}:{key}", self.round);
            command.push(key.into_bytes().into());
        }
        command.push(now_us.to_string().into_bytes().into());
        command.extend_from_slice(words);
        let words: Vec<&[u8]> = command.iter().map(|word| &**word).collect();
        self.redis.call(&words)
    }

    fn ints(reply: &Value) -> Option<Vec<i64>> {
        match reply {
            Value::Array(items) => Some(items.iter().filter_map(Value::as_int).collect()),
            _ => None,
        }
    }

    /// Runs a deed on both. What changes nothing is not stored, though time may have settled the slot it was tried on.
    fn run(&mut self, now_us: i64, name: usize, deed: Deed) {
        let now = Timestamp::from_micros(now_us);
        let id = format!("name{name}");
        let before = self.slots.clone();
        let keep = |slots: &mut Vec<Slot>, at: usize, changed: bool| {
            if !changed {
                slots[at] = before[at].clone();
            }
        };
        match deed {
            Deed::Decide(checks, many) => self.decide(&checks[..many], now, now_us, &id),
            Deed::Refund(at, units) => {
                let (method, quota) = self.limits[at];
                let slot = &mut self.slots[at];
                let want = slot.refund(method, &quota, units, now).and_then(|changed| {
                    Ok((slot.decide(method, &quota, Cost(0), true, now)?.0, changed))
                });
                keep(&mut self.slots, at, want.is_ok_and(|(_, changed)| changed));
                let want = want.map(|(made, _)| made);
                let mut words: Vec<lua::Word> = vec![lua::REFUND.as_bytes().into()];
                words.extend(lua::check_words(
                    method,
                    &quota,
                    Cost(units),
                    Act::Take,
                    now,
                ));
                let reply = self.script(&[at], now_us, &words);
                let got = Self::ints(&reply).and_then(|ints| lua::decision(&ints));
                assert_eq!(got, want.ok(), "{method:?} {deed:?} {reply:?}");
            }
            Deed::End(at, actual) => {
                let want = self.slots[at].end(id.as_bytes(), actual, now);
                let changed = matches!(want, Ok(Some(ended)) if !ended.before);
                keep(&mut self.slots, at, changed);
                let want = want.ok().map(|ended| {
                    ended.map_or(vec![], |ended| {
                        [ended.actual, ended.released, u64::from(ended.before)]
                            .map(|n| n as i64)
                            .to_vec()
                    })
                });
                let words = lua::end_words(id.as_bytes(), actual);
                let reply = self.script(&[at], now_us, &words);
                assert_eq!(Self::ints(&reply), want, "{at} {deed:?} {reply:?}");
            }
            Deed::Release(at) => {
                let want = self.slots[at].release(id.as_bytes(), now).ok();
                keep(&mut self.slots, at, want > Some(0));
                let words = lua::release_words(id.as_bytes());
                let reply = self.script(&[at], now_us, &words);
                let got = Self::ints(&reply);
                assert_eq!(got, want.map(|units| vec![units as i64]), "{reply:?}");
            }
        }
    }

    fn decide(&mut self, checks: &[(usize, u64, u8)], now: Timestamp, now_us: i64, id: &str) {
        let mut requests = Vec::new();
        for &(at, cost, act) in checks {
            let (method, quota) = self.limits[at];
            let hold = Act::Hold {
                id: id.as_bytes(),
                ttl: 3 * SECOND,
            };
            let act = match (method, act) {
                (_, 1) => Act::Peek,
                (Method::Concurrency, _) => hold,
                (Method::Small(_), 2) => hold,
                _ => Act::Take,
            };
            requests.push(SlotRequest {
                method,
                quota,
                cost: Cost(cost),
                act,
                slot: at,
            });
        }
        let mut words: Vec<lua::Word> = vec![lua::DECIDE.as_bytes().into()];
        for request in &requests {
            let SlotRequest {
                method,
                quota,
                cost,
                act,
                ..
            } = request;
            words.extend(lua::check_words(*method, quota, *cost, *act, now));
        }
        let before = self.slots.clone();
        let want = decide_slots(&requests, &mut self.slots, now).expect("own states");
        for (at, before) in before.into_iter().enumerate() {
            let mut tried = requests.iter().zip(&want.1);
            if !tried.any(|(request, (_, changed))| request.slot == at && *changed) {
                self.slots[at] = before;
            }
        }
        let keys: Vec<usize> = checks.iter().map(|check| check.0).collect();
        let reply = self.script(&keys, now_us, &words);
        let ints = Self::ints(&reply).unwrap_or_default();
        let got: Vec<_> = ints.chunks(lua::REPLY_LEN).map(lua::decision).collect();
        let want: Vec<_> = want.1.iter().map(|(made, _)| Some(*made)).collect();
        assert_eq!(got, want, "{requests:?} {reply:?}");
    }
}

#[test]
fn one_script_does_all_that_slots_do() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
    );
    let histories = prop::collection::vec(step(), 1..60);
    for round in 0..150 {
        let steps = histories.new_tree(&mut runner).expect("steps").current();
        let limits = limits();
        let mut both = Both {
            redis: &mut redis,
            round,
            slots: vec![Slot::Small(None); limits.len()],
            limits,
        };
        let mut now_us = START_US;
        for (advance, name, deed) in steps {
            now_us += advance;
            // A key that says nothing goes.
            for slot in &mut both.slots {
                let gone = match slot {
                    Slot::Ledger(Ledger::Leases(leases), _) => leases.is_empty(),
                    Slot::Ledger(Ledger::Log(log), _) => log.is_empty(),
                    _ => false,
                };
                if gone {
                    *slot = Slot::Small(None);
                }
            }
            both.run(now_us, name, deed);
        }
    }
}
