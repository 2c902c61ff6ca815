//! What a limiter key holds, whatever its algorithm: the one way to decide for callers that do not care which.

use crate::algorithms::{AlgorithmKind, KindMismatch, LimiterState, Record};
use crate::holds::Holds;
use crate::ledger::Ledger;
use crate::sliding_log::SlidingLog;
use crate::types::{Cost, Decision, Quota, Timestamp};

/// Any algorithm that decides by a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One whose state is small.
    Small(AlgorithmKind),
    /// The sliding log.
    Log,
}

impl Method {
    /// Its name in rules, reports and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Method::Small(kind) => kind.row().name,
            Method::Log => "sliding-log",
        }
    }
}

/// What a limiter key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A small state, or none.
    Small(Option<Record>),
    /// One that grows. Its entry expires at this time in Unix milliseconds.
    Ledger(Ledger, i64),
}

/// A decision, and whether the slot has changed and must be stored.
pub type SlotDecision = (Decision, bool);

impl Slot {
    /// Decides one request. A look leaves the slot as it is.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn decide(
        &mut self,
        method: Method,
        quota: &Quota,
        cost: Cost,
        peek: bool,
        now: Timestamp,
    ) -> Result<SlotDecision, KindMismatch> {
        self.settle(now)?;
        match (method, &mut *self) {
            (Method::Small(kind), Slot::Small(record)) => {
                let (decision, next) = kind.decide(*record, quota, cost, now)?;
                let next = next.filter(|_| !peek);
                *record = next.or(*record);
                Ok((decision, next.is_some()))
            }
            (Method::Small(kind), Slot::Ledger(Ledger::Holds(holds), expires)) => {
                let (decision, next) = kind.decide(holds.base, quota, cost, now)?;
                let next = next.filter(|_| !peek);
                holds.base = next.or(holds.base);
                *expires = holds.expires_at_ms();
                Ok((decision, next.is_some()))
            }
            (Method::Log, Slot::Small(record)) => {
                if let Some(ban) = record.filter(|record| record.state == LimiterState::Banned) {
                    let kind = AlgorithmKind::FixedWindow;
                    return Ok((kind.decide(Some(ban), quota, cost, now)?.0, false));
                }
                if record.is_some() {
                    return Err(KindMismatch);
                }
                let mut log = SlidingLog::default();
                let decision = log.decide(quota, cost, peek, now);
                let changed = !log.is_empty();
                if changed {
                    let expires = log_expiry(&log, quota);
                    *self = Slot::Ledger(Ledger::Log(log), expires);
                }
                Ok((decision, changed))
            }
            (Method::Log, Slot::Ledger(Ledger::Log(log), expires)) => {
                let decision = log.decide(quota, cost, peek, now);
                let changed = decision.allowed && !peek && cost.0 > 0;
                if changed {
                    *expires = log_expiry(log, quota);
                }
                Ok((decision, changed))
            }
            _ => Err(KindMismatch),
        }
    }

    /// Gives back up to `units`; true when something was.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn refund(
        &mut self,
        method: Method,
        quota: &Quota,
        units: u64,
        now: Timestamp,
    ) -> Result<bool, KindMismatch> {
        self.settle(now)?;
        match (method, &mut *self) {
            (_, Slot::Small(None)) => Ok(false),
            (Method::Small(kind), Slot::Small(Some(record))) => {
                let next = kind.refund(*record, quota, units, now)?;
                let changed = next.is_some();
                *self = Slot::Small(next.or(Some(*record)));
                Ok(changed)
            }
            (Method::Small(kind), Slot::Ledger(Ledger::Holds(holds), _)) => {
                let Some(record) = holds.base else {
                    return Ok(false);
                };
                let next = kind.refund(record, quota, units, now)?;
                holds.base = next.or(holds.base);
                Ok(next.is_some())
            }
            (Method::Log, Slot::Ledger(Ledger::Log(log), _)) => Ok(log.refund(units) > 0),
            _ => Err(KindMismatch),
        }
    }

    /// The reservations on this key, made if there are none yet.
    ///
    /// # Errors
    /// The key holds a log or leases.
    pub fn holds(
        &mut self,
        kind: AlgorithmKind,
        quota: &Quota,
    ) -> Result<&mut Holds, KindMismatch> {
        if let Slot::Small(record) = *self {
            let holds = Holds::new(kind, *quota, record);
            *self = Slot::Ledger(Ledger::Holds(holds), 0);
        }
        match self {
            Slot::Ledger(Ledger::Holds(holds), _) => Ok(holds),
            _ => Err(KindMismatch),
        }
    }

    /// Whether nothing passes at this time because the key is banned.
    pub fn is_banned(&self, now: Timestamp) -> bool {
        matches!(self, Slot::Small(Some(record))
            if record.state == LimiterState::Banned && now.millis() < record.expires_at_ms)
    }

    /// A ban that has ended, and a ledger whose reservations are all over, count as what they stand for.
    fn settle(&mut self, now: Timestamp) -> Result<(), KindMismatch> {
        match self {
            Slot::Small(Some(record))
                if record.state == LimiterState::Banned && now.millis() >= record.expires_at_ms =>
            {
                *self = Slot::Small(None);
            }
            Slot::Ledger(Ledger::Holds(holds), _) => {
                holds.expire(now)?;
                if holds.is_empty() {
                    *self = Slot::Small(holds.base);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn log_expiry(log: &SlidingLog, quota: &Quota) -> i64 {
    log.expires_at(quota).map_or(0, Timestamp::millis_ceil)
}

/// One of several limits that are decided as one.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest {
    /// The algorithm.
    pub method: Method,
    /// The limit.
    pub quota: Quota,
    /// What the request weighs.
    pub cost: Cost,
    /// Looks without taking; its answer still counts for the others.
    pub peek: bool,
    /// Index of its slot.
    pub slot: usize,
}

/// Decides several limits as one: all take, or none does. Requests on one slot see what the earlier ones take. After a
/// denial the slots are as they were, and those who would have passed tell what is there.
///
/// # Errors
/// A slot holds the state of another algorithm; the index is that of the request.
pub fn decide_slots(
    requests: &[SlotRequest],
    slots: &mut [Slot],
    now: Timestamp,
) -> Result<(bool, Vec<SlotDecision>), (usize, KindMismatch)> {
    let before = slots.to_vec();
    let mut decided = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        let slot = &mut slots[request.slot];
        let decision = slot.decide(
            request.method,
            &request.quota,
            request.cost,
            request.peek,
            now,
        );
        match decision {
            Ok(decision) => decided.push(decision),
            Err(mismatch) => {
                slots.clone_from_slice(&before);
                return Err((at, mismatch));
            }
        }
    }
    let passed = decided.iter().all(|(decision, _)| decision.allowed);
    if !passed {
        slots.clone_from_slice(&before);
        for (at, request) in requests.iter().enumerate() {
            let (decision, changed) = &mut decided[at];
            *changed = false;
            if decision.allowed && !request.peek {
                let slot = &mut slots[request.slot];
                let untouched = slot.decide(request.method, &request.quota, Cost(0), true, now);
                *decision = untouched.map_err(|mismatch| (at, mismatch))?.0;
            }
        }
    }
    Ok((passed, decided))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Quota = Quota::new(10, 1_000_000_000);

    fn request(method: Method, cost: u64, slot: usize) -> SlotRequest {
        SlotRequest {
            method,
            quota: TEN,
            cost: Cost(cost),
            peek: false,
            slot,
        }
    }

    #[test]
    fn a_denial_leaves_logs_and_windows_as_they_were() {
        let now = Timestamp::from_secs(1);
        let window = Method::Small(AlgorithmKind::FixedWindow);
        let mut slots = [Slot::Small(None), Slot::Small(None)];
        let take = |slots: &mut [Slot], cost| {
            let requests = [request(window, 1, 0), request(Method::Log, cost, 1)];
            decide_slots(&requests, slots, now).expect("own states")
        };
        assert!(take(&mut slots, 6).0);
        let before = slots.clone();
        let (passed, decided) = take(&mut slots, 6);
        assert!(!passed);
        assert_eq!(slots, before);
        assert_eq!((decided[0].0.allowed, decided[0].0.remaining), (true, 9));
        assert_eq!((decided[1].0.allowed, decided[1].0.remaining), (false, 4));
    }

    #[test]
    fn a_key_of_another_algorithm_is_named() {
        let now = Timestamp::from_secs(1);
        let mut slots = [Slot::Small(None)];
        let first = [request(Method::Log, 1, 0)];
        decide_slots(&first, &mut slots, now).expect("fresh");
        let before = slots.clone();
        let second = [
            request(Method::Log, 1, 0),
            request(Method::Small(AlgorithmKind::Gcra), 1, 0),
        ];
        assert_eq!(
            decide_slots(&second, &mut slots, now),
            Err((1, KindMismatch))
        );
        assert_eq!(slots, before);
    }

    #[test]
    fn reservations_share_the_state_of_takes() {
        let now = Timestamp::from_secs(1);
        let kind = AlgorithmKind::SlidingWindow;
        let method = Method::Small(kind);
        let mut slot = Slot::Small(None);
        slot.decide(method, &TEN, Cost(4), false, now)
            .expect("fresh");
        let holds = slot.holds(kind, &TEN).expect("small");
        assert!(
            !holds
                .reserve(b"a", kind, &TEN, Cost(7), 1_000, now)
                .expect("own")
                .allowed
        );
        assert!(
            holds
                .reserve(b"a", kind, &TEN, Cost(5), 1_000, now)
                .expect("own")
                .allowed
        );
        let (decision, _) = slot.decide(method, &TEN, Cost(1), false, now).expect("own");
        assert_eq!((decision.allowed, decision.remaining), (true, 0));
        // The reservation's time is up: its units are back, and the state is small again.
        let later = now.plus(1_000);
        assert_eq!(
            slot.decide(method, &TEN, Cost(0), true, later)
                .expect("own")
                .0
                .remaining,
            5
        );
        assert!(matches!(slot, Slot::Small(Some(_))));
    }
}
