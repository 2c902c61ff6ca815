//! Each strategy's bound (`docs/rules.md`), in virtual time: several services, one simulated store, loads that differ.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::task::yield_now;
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{
    Act, AlgorithmKind, Cost, Decision, Method, Quota, Slot, SlotRequest, Timestamp, decide_slots,
};
use tollgate_policy::{HotKey, Inherit, LimitCheck, OnError, Predecessor, Role};

use super::{HotKeys, Strategies};
use crate::backend::{BackendError, Decide, Decisions};

pub(super) const MILLI: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MILLI;
pub(super) const EPOCH: i64 = 1_767_225_600_000_000_000;
pub(super) const WINDOW: Method = Method::Small(AlgorithmKind::FixedWindowEpoch);
pub(super) const BUCKET: Method = Method::Small(AlgorithmKind::TokenBucket);
const SERVICES: u64 = 3;
pub(super) const LIMIT: u64 = 100;

thread_local! {
    pub(super) static NOW: Cell<i64> = const { Cell::new(EPOCH) };
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_nanos(NOW.get())
}

pub(super) fn advance(nanos: u64) {
    NOW.set(NOW.get() + nanos as i64);
}

/// A store that decides by the limiter's own states, and can be away.
#[derive(Default)]
pub(super) struct Store {
    slots: RefCell<HashMap<Vec<u8>, Slot>>,
    pub(super) asked: Cell<u64>,
    away: Cell<bool>,
    /// It waits once before each answer, so that others come in between.
    pub(super) slow: Cell<bool>,
    /// The same, when it has decided.
    pub(super) late: Cell<bool>,
}

impl Store {
    /// A counter that is new goes on from the one before.
    fn carry_over(&self, check: &LimitCheck<'_>) {
        let Some(from) = &check.predecessor else {
            return;
        };
        let mut all = self.slots.borrow_mut();
        if all.contains_key(check.key) {
            return;
        }
        let Some(mut before) = all.remove(from.key) else {
            return;
        };
        let left = before.decide(from.method, &from.quota, Cost(0), true, now());
        let left = left.expect("own").0.remaining;
        let used = from.way.used(left, from.quota.limit, check.quota.limit);
        let mut heir = Slot::Small(None);
        heir.decide(check.method, &check.quota, Cost(used), false, now())
            .expect("new");
        all.insert(check.key.to_vec(), heir);
    }

    fn count(&self, checks: &[LimitCheck<'_>]) -> Decisions {
        checks.iter().for_each(|check| self.carry_over(check));
        let mut all = self.slots.borrow_mut();
        let mut keys: Vec<&[u8]> = Vec::new();
        for check in checks {
            if !keys.contains(&check.key) {
                keys.push(check.key);
            }
        }
        let mut slots: Vec<Slot> = keys
            .iter()
            .map(|&key| all.get(key).cloned().unwrap_or(Slot::Small(None)))
            .collect();
        let requests: Vec<SlotRequest<'_>> = checks
            .iter()
            .map(|check| SlotRequest {
                method: check.method,
                quota: check.quota,
                cost: check.cost,
                act: check.act,
                slot: keys.iter().position(|key| *key == check.key).expect("it"),
            })
            .collect();
        let (_, decided) = decide_slots(&requests, &mut slots, now()).expect("own states");
        for (key, slot) in keys.iter().zip(slots) {
            all.insert(key.to_vec(), slot);
        }
        decided.into_iter().map(|(decision, _)| decision).collect()
    }
}

impl Decide for Rc<Store> {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        self.asked.set(self.asked.get() + 1);
        if self.slow.get() {
            yield_now().await;
        }
        if self.away.get() {
            return Err(BackendError::new("away"));
        }
        let decided = self.count(checks);
        if self.late.get() {
            yield_now().await;
        }
        Ok(decided)
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        let mut all = self.slots.borrow_mut();
        let slot = all.entry(check.key.to_vec()).or_insert(Slot::Small(None));
        let (method, quota) = (check.method, check.quota);
        slot.refund(method, &quota, check.cost.0, now())
            .expect("own");
        let there = slot.decide(method, &quota, Cost(0), true, now());
        Ok(there.expect("own").0)
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        let mut all = self.slots.borrow_mut();
        let slot = all.entry(check.key.to_vec()).or_insert(Slot::Small(None));
        Ok(slot.end(id, actual, now()).expect("own"))
    }

    async fn release(&self, _: &LimitCheck<'_>, _: &[u8]) -> Result<u64, BackendError> {
        Ok(0)
    }
}

pub(super) type Service = Strategies<Rc<Store>>;

pub(super) fn services(store: &Rc<Store>, count: u64) -> Vec<Service> {
    (0..count)
        .map(|_| Strategies::new(store.clone(), HotKeys::new(), now))
        .collect()
}

pub(super) fn check(method: Method, hot_key: HotKey, cost: u64) -> LimitCheck<'static> {
    LimitCheck {
        key: b"hot",
        method,
        quota: Quota::new(LIMIT, SECOND),
        cost: Cost(cost),
        role: Role::Enforced,
        act: Act::Take,
        descriptor: 0,
        on_error: OnError::DEFAULT,
        hot_key,
        exact: false,
        predecessor: None,
    }
}

pub(super) async fn ask(service: &Service, check: &LimitCheck<'_>) -> Decision {
    let made = service.decide(std::slice::from_ref(check)).await;
    made.expect("decided")[0]
}

/// Numbers that look drawn and are the same each time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Units admitted in each second of a load, and the most that one service admitted in any 50 ms.
struct Load {
    seconds: Vec<u64>,
    most_in_interval: u64,
    offered: u64,
    asked: u64,
}

const INTERVAL: u64 = 50 * MILLI;
const SECONDS: usize = 4;

/// Requests at drawn moments to drawn services, `mean_gap_us` apart, beside the writing every few milliseconds.
async fn load(
    method: Method,
    hot_key: HotKey,
    most_cost: u64,
    mean_gap_us: u64,
    seed: u64,
) -> Load {
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let services = services(&store, SERVICES);
    let mut dice = Dice(seed);
    let mut seconds = vec![0; SECONDS];
    let mut intervals: HashMap<(usize, i64), u64> = HashMap::new();
    let mut offered = 0;
    let mut next_write = EPOCH;
    let writes = matches!(hot_key, HotKey::WriteBehind { .. });
    loop {
        advance(dice.below(2 * mean_gap_us * 1_000) + 1);
        let at = NOW.get() - EPOCH;
        let second = (at / SECOND as i64) as usize;
        if second >= SECONDS {
            break;
        }
        if writes && NOW.get() >= next_write {
            for service in &services {
                service.write(false).await;
            }
            next_write = NOW.get() + 5 * MILLI as i64;
        }
        // One service is busier than the others.
        let index = dice.below(SERVICES + 2).min(SERVICES - 1) as usize;
        let cost = dice.below(most_cost) + 1;
        offered += 1;
        if ask(&services[index], &check(method, hot_key, cost))
            .await
            .allowed
        {
            seconds[second] += cost;
            *intervals.entry((index, at / INTERVAL as i64)).or_default() += cost;
        }
    }
    Load {
        seconds,
        most_in_interval: intervals.values().copied().max().unwrap_or(0),
        offered,
        asked: store.asked.get(),
    }
}

/// The windows of a load admit between `LIMIT - under` and `LIMIT + over` units; the bucket in all its time.
async fn hold(hot_key: HotKey, most_cost: u64, under: u64, over: u64) {
    for seed in 1..=3 {
        let run = load(WINDOW, hot_key, most_cost, 1_000, seed).await;
        for &units in &run.seconds {
            assert!(
                units <= LIMIT + over,
                "{hot_key:?} {seed}: {:?}",
                run.seconds
            );
            assert!(
                units + under >= LIMIT,
                "{hot_key:?} {seed}: {:?}",
                run.seconds
            );
        }
        assert!(run.asked < run.offered, "{hot_key:?}");
        let run = load(BUCKET, hot_key, most_cost, 1_000, seed).await;
        let all: u64 = run.seconds.iter().sum();
        let earned = LIMIT * (SECONDS as u64 + 1);
        assert!(
            all <= earned + over,
            "{hot_key:?} {seed}: {:?}",
            run.seconds
        );
    }
}

#[tokio::test]
async fn the_denial_cache_is_exact() {
    hold(HotKey::DenialCache, 1, 0, 0).await;
    hold(HotKey::DenialCache, 7, 6, 0).await;
}

#[tokio::test]
async fn local_shares_never_admit_more() {
    let hot_key = HotKey::Local {
        share_ppm: 200_000,
        services: SERVICES as u32,
    };
    // Each service is busy enough to use up its share.
    hold(hot_key, 1, 0, 0).await;
    // Services that idle leave theirs.
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let alone = &services(&store, 1)[0];
    let mut admitted = 0;
    for _ in 0..300 {
        admitted += u64::from(ask(alone, &check(WINDOW, hot_key, 1)).await.allowed);
    }
    assert_eq!(admitted, LIMIT - (SERVICES - 1) * LIMIT / 5);
    assert_eq!(store.asked.get(), LIMIT * 2 / 5 + 1);
}

#[tokio::test]
async fn shards_hold_the_limit_whatever_it_leaves_over() {
    for shards in [2, 7] {
        hold(HotKey::Shards { shards }, 1, 0, 0).await;
    }
    hold(HotKey::Shards { shards: 7 }, 5, 7 * 4, 0).await;
    let parts: u64 = (0..64)
        .map(|at| super::shards::part(&check(WINDOW, HotKey::Shards { shards: 64 }, 1), at).limit)
        .sum();
    assert_eq!(parts, LIMIT);
}

#[tokio::test]
async fn samples_are_off_by_less_than_they_stand_for() {
    for one_in in [2, 5, 10] {
        let n = u64::from(one_in);
        let hot_key = HotKey::Probabilistic { one_in };
        hold(hot_key, 1, (SERVICES + 1) * (n - 1), SERVICES * (n - 1)).await;
        let w = 3;
        hold(hot_key, w, (SERVICES + 1) * (n * w - 1), SERVICES * (n - 1)).await;
    }
}

#[tokio::test]
async fn batches_never_admit_too_much() {
    for size in [2, 5, 10] {
        let n = u64::from(size);
        hold(HotKey::Batch { size }, 1, (SERVICES + 1) * (n - 1), 0).await;
        let w = 3;
        hold(HotKey::Batch { size }, w, (SERVICES + 1) * (n * w - 1), 0).await;
    }
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let alone = &services(&store, 1)[0];
    let mine = check(WINDOW, HotKey::Batch { size: 10 }, 1);
    let mut admitted = 0;
    for _ in 0..LIMIT {
        admitted += u64::from(ask(alone, &mine).await.allowed);
    }
    assert!(LIMIT.is_multiple_of(10) && admitted == LIMIT, "{admitted}");
    assert_eq!(store.asked.get(), LIMIT / 10);
}

#[tokio::test]
async fn write_behind_is_off_by_what_passes_between_two_writings() {
    let hot_key = HotKey::WriteBehind { interval: INTERVAL };
    for seed in 1..=3 {
        for mean_gap_us in [200, 1_000, 4_000] {
            let run = load(WINDOW, hot_key, 1, mean_gap_us, seed).await;
            // Two intervals of the clock touch each of a service's own, and it may run a tick longer.
            let between = (2 * run.most_in_interval).min(LIMIT);
            let over = (SERVICES - 1) * between;
            let mut all = 0;
            for (at, &units) in run.seconds.iter().enumerate() {
                all += units;
                assert!(
                    units <= LIMIT + over,
                    "{seed} {mean_gap_us}: {:?}",
                    run.seconds
                );
                // What one window admitted too much is charged to the next.
                let most = LIMIT * (at as u64 + 1) + over;
                assert!(all <= most, "{seed} {mean_gap_us}: {:?}", run.seconds);
            }
            if mean_gap_us == 1_000 {
                assert!(
                    10 * run.asked < 4 * run.offered,
                    "{} of {}",
                    run.asked,
                    run.offered
                );
            }
        }
    }
    // A service alone admits exactly the limit.
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let alone = &services(&store, 1)[0];
    let mut admitted = 0;
    for _ in 0..900 {
        advance(MILLI);
        admitted += u64::from(ask(alone, &check(WINDOW, hot_key, 1)).await.allowed);
        alone.write(false).await;
    }
    assert_eq!(admitted, LIMIT);
    assert!(store.asked.get() < 60, "{}", store.asked.get());
}

#[tokio::test]
async fn a_sum_that_cannot_be_written_is_tried_again_and_counted() {
    let hot_key = HotKey::WriteBehind { interval: INTERVAL };
    let store = Rc::new(Store::default());
    let all = services(&store, 1);
    let service = &all[0];
    let day = LimitCheck {
        quota: Quota::new(LIMIT, 86_400 * SECOND),
        ..check(WINDOW, hot_key, 1)
    };
    for _ in 0..10 {
        assert!(ask(service, &day).await.allowed);
    }
    assert_eq!(store.asked.get(), 1);
    store.away.set(true);
    advance(INTERVAL);
    service.write(false).await;
    // The copy is no longer trusted: the rule's `on_error` decides.
    assert!(service.decide(&[day]).await.is_err());
    assert!(
        service
            .metrics()
            .contains("tollgate_hot_key_flush_errors_total 1")
    );
    assert!(
        service
            .metrics()
            .contains("tollgate_hot_key_pending_units 9")
    );
    store.away.set(false);
    advance(SECOND);
    service.write(false).await;
    let left = ask(service, &day).await.remaining;
    assert_eq!(left, LIMIT - 11);
    let exact = LimitCheck {
        hot_key: HotKey::Exact,
        act: Act::Peek,
        cost: Cost(0),
        ..day
    };
    assert_eq!(service.settle().await, 0);
    assert_eq!(ask(service, &exact).await.remaining, LIMIT - 11);
}

/// What passed and is not written when the limit changes counts for the limit that goes on from it.
#[tokio::test]
async fn what_is_not_written_is_carried_over() {
    let store = Rc::new(Store::default());
    let service = services(&store, 1).pop().expect("one");
    let behind = HotKey::WriteBehind { interval: SECOND };
    let old = check(WINDOW, behind, 1);
    for _ in 0..60 {
        assert!(service.decide(&[old]).await.expect("there")[0].allowed);
    }
    let heir = LimitCheck {
        key: b"heir",
        predecessor: Some(Predecessor {
            key: old.key,
            method: old.method,
            quota: old.quota,
            way: Inherit::AsIs,
            generation: 1,
        }),
        ..old
    };
    let mut passed = 0;
    while service.decide(&[heir]).await.expect("there")[0].allowed {
        passed += 1;
    }
    assert_eq!(passed, LIMIT - 60);
}

#[tokio::test]
async fn what_is_left_at_the_end_is_written_or_counted_as_lost() {
    let hot_key = HotKey::WriteBehind { interval: INTERVAL };
    let store = Rc::new(Store::default());
    let all = services(&store, 1);
    for _ in 0..5 {
        ask(&all[0], &check(WINDOW, hot_key, 1)).await;
    }
    store.away.set(true);
    assert_eq!(all[0].settle().await, 4);
    assert!(
        all[0]
            .metrics()
            .contains("tollgate_hot_key_lost_units_total 4")
    );
}

/// A request that one limit denies takes nothing of the others, whatever their strategies.
#[tokio::test]
async fn a_denial_takes_nothing_by_any_strategy() {
    let strategies = [
        HotKey::Local {
            share_ppm: 300_000,
            services: 3,
        },
        HotKey::Shards { shards: 4 },
        HotKey::WriteBehind { interval: INTERVAL },
        HotKey::Probabilistic { one_in: 4 },
        HotKey::Batch { size: 4 },
        HotKey::DenialCache,
    ];
    for hot_key in strategies {
        NOW.set(EPOCH);
        let store = Rc::new(Store::default());
        let service = &services(&store, 1)[0];
        let mine = check(WINDOW, hot_key, 1);
        let closed = LimitCheck {
            key: b"closed",
            quota: Quota::new(0, SECOND),
            hot_key: HotKey::Exact,
            ..mine
        };
        assert!(ask(service, &mine).await.allowed);
        for _ in 0..2 * LIMIT {
            let made = service.decide(&[mine, closed]).await.expect("decided");
            assert!(!made[1].allowed);
        }
        // A question nobody waits for takes nothing either.
        store.slow.set(true);
        for _ in 0..2 * LIMIT {
            let both = [mine, closed];
            let asking = service.decide(&both);
            assert!(futures_util::FutureExt::now_or_never(asking).is_none());
        }
        store.slow.set(false);
        let mut admitted = 1;
        for _ in 0..2 * LIMIT {
            admitted += u64::from(ask(service, &mine).await.allowed);
        }
        let idle = match hot_key {
            HotKey::Local { .. } => 2 * LIMIT * 3 / 10,
            HotKey::Probabilistic { .. } | HotKey::Batch { .. } => 2 * 3,
            _ => 0,
        };
        assert!(
            admitted <= LIMIT + 3 && admitted + idle >= LIMIT,
            "{hot_key:?}: {admitted}"
        );
        // What is given back can be taken again.
        let back = LimitCheck {
            cost: Cost(10),
            ..mine
        };
        service.refund(&back).await.expect("given back");
        let again = ask(service, &back).await;
        assert!(
            again.allowed
                || matches!(
                    hot_key,
                    HotKey::Shards { .. } | HotKey::Probabilistic { .. } | HotKey::Batch { .. }
                ),
            "{hot_key:?}: {again:?}"
        );
    }
}

/// A limit that changes forgets what was denied by the old one.
#[tokio::test]
async fn a_denial_is_not_remembered_past_a_change_of_the_limit() {
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let service = &services(&store, 1)[0];
    let whole = check(WINDOW, HotKey::DenialCache, LIMIT);
    assert!(ask(service, &whole).await.allowed);
    let one = check(WINDOW, HotKey::DenialCache, 1);
    for _ in 0..10 {
        assert!(!ask(service, &one).await.allowed);
    }
    assert_eq!(store.asked.get(), 2);
    let raised = LimitCheck {
        quota: Quota::new(LIMIT + 1, SECOND),
        ..one
    };
    assert!(ask(service, &raised).await.allowed);
}
