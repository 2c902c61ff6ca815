//! What a limiter key holds, whatever its algorithm: the one way to decide for callers that do not care which.

use crate::advance::Advance;
use crate::algorithms::{AlgorithmKind, KindMismatch, LimiterState, Record};
use crate::holds::{Ended, Holds};
use crate::leases::Leases;
use crate::ledger::Ledger;
use crate::sliding_log::SlidingLog;
use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// Any algorithm that decides by a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One whose state is small.
    Small(AlgorithmKind),
    /// The sliding log.
    Log,
    /// At most `limit` units in use at the same time, each under a lease; the quota's period is not looked at.
    Concurrency,
}

/// What a request does with the units of a limit that it passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act<'a> {
    /// Takes them.
    #[default]
    Take,
    /// Leaves them; the answer still counts for the others.
    Peek,
    /// Takes them under a name, and they come back by themselves when the time is up: a reservation, or a lease of
    /// [`Method::Concurrency`], which knows no other way to take.
    Hold {
        /// Its name; at most [`ID_MAX`](crate::codec::ID_MAX) bytes.
        id: &'a [u8],
        /// Its time.
        ttl: Nanos,
    },
}

impl Method {
    /// Its name in rules, reports and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Method::Small(kind) => kind.row().name,
            Method::Log => "sliding-log",
            Method::Concurrency => "concurrency",
        }
    }

    /// Whether units may pass at one instant beside those that a period earns: [`Quota::burst`] counts.
    pub const fn has_burst(self) -> bool {
        matches!(self, Method::Small(kind) if kind.is_bucket())
    }

    /// Most units that may pass at one instant.
    pub const fn capacity(self, quota: &Quota) -> u64 {
        match self.has_burst() {
            true => quota.burst,
            false => quota.limit,
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
        if let Some(denial) = self.banned(method, quota, cost, now) {
            return Ok((denial, false));
        }
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
            (Method::Log, Slot::Small(None)) => {
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
            (Method::Concurrency, Slot::Small(None)) if peek => {
                Ok((Leases::default().peek(quota.limit, cost, now), false))
            }
            (Method::Concurrency, Slot::Ledger(Ledger::Leases(leases), _)) if peek => {
                Ok((leases.peek(quota.limit, cost, now), false))
            }
            _ => Err(KindMismatch),
        }
    }

    /// Decides one request, whatever it does with what it takes.
    ///
    /// # Errors
    /// The key holds the state of another algorithm, or the algorithm knows no such act: logs take no reservations,
    /// leases have names.
    pub fn act(
        &mut self,
        request: &SlotRequest<'_>,
        now: Timestamp,
    ) -> Result<SlotDecision, KindMismatch> {
        let SlotRequest {
            method,
            quota,
            cost,
            act,
            ..
        } = request;
        match (method, *act) {
            (Method::Concurrency, Act::Hold { id, ttl }) => {
                self.acquire(quota.limit, id, *cost, ttl, now)
            }
            (Method::Small(kind), Act::Hold { id, ttl }) => {
                self.reserve(*kind, quota, id, *cost, ttl, now)
            }
            (Method::Log, Act::Hold { .. }) | (Method::Concurrency, Act::Take) => Err(KindMismatch),
            (method, act) => self.decide(*method, quota, *cost, act == Act::Peek, now),
        }
    }

    fn acquire(
        &mut self,
        limit: u64,
        id: &[u8],
        cost: Cost,
        ttl: Nanos,
        now: Timestamp,
    ) -> Result<SlotDecision, KindMismatch> {
        self.settle(now)?;
        let quota = Quota::new(limit, 1);
        if let Some(denial) = self.banned(Method::Concurrency, &quota, cost, now) {
            return Ok((denial, false));
        }
        match self {
            Slot::Small(None) => {
                let mut leases = Box::<Leases>::default();
                let decision = leases.acquire(id, limit, cost, ttl, now);
                let changed = !leases.is_empty();
                if let Some(at) = leases.expires_at() {
                    *self = Slot::Ledger(Ledger::Leases(leases), at.millis_ceil());
                }
                Ok((decision, changed))
            }
            Slot::Ledger(Ledger::Leases(leases), expires) => {
                let decision = leases.acquire(id, limit, cost, ttl, now);
                let changed = decision.allowed && cost.0 > 0;
                if changed {
                    *expires = leases.expires_at().map_or(0, Timestamp::millis_ceil);
                }
                Ok((decision, changed))
            }
            Slot::Small(Some(_)) | Slot::Ledger(..) => Err(KindMismatch),
        }
    }

    fn reserve(
        &mut self,
        kind: AlgorithmKind,
        quota: &Quota,
        id: &[u8],
        cost: Cost,
        ttl: Nanos,
        now: Timestamp,
    ) -> Result<SlotDecision, KindMismatch> {
        self.settle(now)?;
        if let Some(denial) = self.banned(Method::Small(kind), quota, cost, now) {
            return Ok((denial, false));
        }
        let known = match self {
            Slot::Ledger(Ledger::Holds(holds), _) => holds.len(),
            _ => 0,
        };
        let holds = self.holds(kind, quota)?;
        let reserved = holds.reserve(id, kind, quota, cost, ttl, now);
        let changed = holds.len() > known;
        let (expires_at_ms, empty, base) = (holds.expires_at_ms(), holds.is_empty(), holds.base);
        match self {
            _ if empty => *self = Slot::Small(base),
            Slot::Ledger(_, expires) if changed => *expires = expires_at_ms,
            _ => {}
        }
        Ok((reserved?, changed))
    }

    /// Ends a reservation with its actual cost; `None` when there is none of that name.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn end(
        &mut self,
        id: &[u8],
        actual: u64,
        now: Timestamp,
    ) -> Result<Option<Ended>, KindMismatch> {
        self.settle_ban(now);
        if let Some(ended) = self.beneath(|slot| slot.end(id, actual, now)) {
            return ended;
        }
        match self {
            Slot::Small(_) => Ok(None),
            Slot::Ledger(Ledger::Holds(holds), expires) => {
                let ended = holds.end(id, actual, now)?;
                *expires = holds.expires_at_ms();
                Ok(ended)
            }
            Slot::Ledger(..) => Err(KindMismatch),
        }
    }

    /// Gives a lease back; its units, 0 when it has expired or never was.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn release(&mut self, id: &[u8], now: Timestamp) -> Result<u64, KindMismatch> {
        self.settle_ban(now);
        if let Some(released) = self.beneath(|slot| slot.release(id, now)) {
            return released;
        }
        match self {
            Slot::Small(None) => Ok(0),
            Slot::Small(Some(record)) if record.state == LimiterState::Banned => Ok(0),
            Slot::Ledger(Ledger::Leases(leases), expires) => {
                let units = leases.release(id, now).unwrap_or(0);
                *expires = leases.expires_at().map_or(0, Timestamp::millis_ceil);
                Ok(units)
            }
            _ => Err(KindMismatch),
        }
    }

    /// Gives back up to `units`; true when something was. Of leases those go that would expire first, so that nobody
    /// who still holds one outlives it by another's return.
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
        if let Some(changed) = self.beneath(|slot| slot.refund(method, quota, units, now)) {
            return changed;
        }
        match (method, &mut *self) {
            (_, Slot::Small(None)) => Ok(false),
            (Method::Small(kind), Slot::Small(Some(record))) => {
                let next = kind.refund(*record, quota, units, now)?;
                let changed = next.is_some();
                *self = Slot::Small(next.or(Some(*record)));
                Ok(changed)
            }
            (Method::Small(kind), Slot::Ledger(Ledger::Holds(holds), _)) => {
                holds.refund(kind, quota, units, now)
            }
            (Method::Log, Slot::Ledger(Ledger::Log(log), _)) => Ok(log.refund(units) > 0),
            (Method::Concurrency, Slot::Ledger(Ledger::Leases(leases), expires)) => {
                let returned = leases.give_back(units, now);
                *expires = leases.expires_at().map_or(0, Timestamp::millis_ceil);
                Ok(returned > 0)
            }
            _ => Err(KindMismatch),
        }
    }

    /// As [`refund`](Self::refund), of units that were taken at a time, as far as those count still: of another window than the
    /// open ones none does, and of a bucket's those that have been earned since do not.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn refund_taken(
        &mut self,
        method: Method,
        quota: &Quota,
        units: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> Result<bool, KindMismatch> {
        self.settle(now)?;
        let taken = taken.min(now);
        if let Some(changed) =
            self.beneath(|slot| slot.refund_taken(method, quota, units, taken, now))
        {
            return changed;
        }
        match (method, &mut *self) {
            (Method::Small(kind), Slot::Small(Some(record))) => {
                let until = kind.until_of(*record, quota, units, taken);
                let next = kind.refund_held(*record, quota, units, until, now)?;
                let changed = next.is_some();
                *self = Slot::Small(next.or(Some(*record)));
                Ok(changed)
            }
            (Method::Small(kind), Slot::Ledger(Ledger::Holds(holds), _)) => {
                holds.refund_taken(kind, quota, units, taken, now)
            }
            (Method::Log, Slot::Ledger(Ledger::Log(_), _)) if taken.plus(quota.period) <= now => {
                Ok(false)
            }
            _ => self.refund(method, quota, units, now),
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
            let holds = Box::new(Holds::new(kind, *quota, record));
            *self = Slot::Ledger(Ledger::Holds(holds), 0);
        }
        match self {
            Slot::Ledger(Ledger::Holds(holds), _) => Ok(holds),
            _ => Err(KindMismatch),
        }
    }

    /// Takes up to `wanted` units in advance; see [`AlgorithmKind::advance`]. True when the slot has changed.
    ///
    /// # Errors
    /// The key holds the state of another algorithm, or the algorithm gives no units in advance: logs and leases.
    pub fn advance(
        &mut self,
        method: Method,
        quota: &Quota,
        wanted: u64,
        now: Timestamp,
    ) -> Result<(Advance, bool), KindMismatch> {
        let Method::Small(kind) = method else {
            return Err(KindMismatch);
        };
        self.settle(now)?;
        if let Some(decision) = self.banned(method, quota, Cost(1), now) {
            return Ok((Advance::none(decision), false));
        }
        match self {
            Slot::Small(record) => {
                let (advance, next) = kind.advance(*record, quota, wanted, now)?;
                *record = next.or(*record);
                Ok((advance, next.is_some()))
            }
            Slot::Ledger(Ledger::Holds(holds), expires) => {
                let (advance, next) = kind.advance(holds.base, quota, wanted, now)?;
                holds.base = next.or(holds.base);
                *expires = holds.expires_at_ms();
                Ok((advance, next.is_some()))
            }
            Slot::Ledger(..) => Err(KindMismatch),
        }
    }

    /// A ban that has ended counts as what it covered.
    fn settle_ban(&mut self, now: Timestamp) {
        match self {
            Slot::Small(Some(record))
                if record.state == LimiterState::Banned && now.millis() >= record.expires_at_ms =>
            {
                *self = Slot::Small(None);
            }
            Slot::Ledger(Ledger::Ban(ban), _) if now.millis() >= ban.until_ms => {
                *self = std::mem::replace(&mut *ban.beneath, Slot::Small(None));
            }
            _ => {}
        }
    }

    /// A ban that has ended, and a ledger whose reservations are all over, count as what they stand for.
    ///
    /// # Errors
    /// What reservations were taken from is the state of another algorithm.
    pub fn settle(&mut self, now: Timestamp) -> Result<(), KindMismatch> {
        self.settle_ban(now);
        if let Slot::Ledger(Ledger::Holds(holds), _) = self {
            holds.expire(now)?;
            if holds.is_empty() {
                *self = Slot::Small(holds.base);
            }
        }
        Ok(())
    }
}

fn log_expiry(log: &SlidingLog, quota: &Quota) -> i64 {
    log.expires_at(quota).map_or(0, Timestamp::millis_ceil)
}

/// One of several limits that are decided as one.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest<'a> {
    /// The algorithm.
    pub method: Method,
    /// The limit.
    pub quota: Quota,
    /// What the request weighs.
    pub cost: Cost,
    /// What it does with them.
    pub act: Act<'a>,
    /// Index of its slot.
    pub slot: usize,
}

/// Decides several limits as one: all take, or none does. Requests on one slot see what the earlier ones take. After a
/// denial the slots are as they were, and those who would have passed tell what is there.
///
/// # Errors
/// A slot holds the state of another algorithm; the index is that of the request.
pub fn decide_slots(
    requests: &[SlotRequest<'_>],
    slots: &mut [Slot],
    now: Timestamp,
) -> Result<(bool, Vec<SlotDecision>), (usize, KindMismatch)> {
    let before = slots.to_vec();
    let mut decided = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        let slot = &mut slots[request.slot];
        match slot.act(request, now) {
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
            if decision.allowed && request.act != Act::Peek {
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

    fn request(method: Method, cost: u64, slot: usize) -> SlotRequest<'static> {
        SlotRequest {
            method,
            quota: TEN,
            cost: Cost(cost),
            act: Act::Take,
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

    #[test]
    fn a_lease_is_taken_with_the_other_limits_or_not_at_all() {
        let now = Timestamp::from_secs(1);
        let mut slots = [Slot::Small(None), Slot::Small(None)];
        let mut take = |id: &[u8], cost| {
            let lease = SlotRequest {
                quota: Quota::new(2, 1),
                act: Act::Hold { id, ttl: 1_000 },
                ..request(Method::Concurrency, 1, 0)
            };
            let requests = [lease, request(Method::Log, cost, 1)];
            decide_slots(&requests, &mut slots, now)
                .expect("own states")
                .0
        };
        assert!(take(b"a", 4));
        assert!(!take(b"b", 7), "the log denies");
        assert!(take(b"c", 1), "and the lease was not taken");
        assert!(!take(b"d", 1), "two are in use");
        assert_eq!(slots[0].release(b"a", now), Ok(1));
        assert_eq!(slots[0].release(b"a", now), Ok(0));
        assert_eq!(slots[0].end(b"a", 1, now), Err(KindMismatch));
        let unnamed = request(Method::Concurrency, 1, 0);
        assert_eq!(
            slots[0].act(&unnamed, now),
            Err(KindMismatch),
            "leases have names"
        );
        let returned = slots[0].refund(Method::Concurrency, &TEN, 9, now);
        assert_eq!(returned, Ok(true));
        assert_eq!(slots[0].release(b"c", now), Ok(0));
    }

    #[test]
    fn a_reservation_that_is_denied_leaves_a_small_state() {
        let now = Timestamp::from_secs(1);
        let mut slot = Slot::Small(None);
        let reserve = |id, cost| SlotRequest {
            act: Act::Hold { id, ttl: 1_000 },
            ..request(Method::Small(AlgorithmKind::Gcra), cost, 0)
        };
        let denied = slot.act(&reserve(b"a", 11), now).expect("fresh");
        assert!(!denied.0.allowed && !denied.1);
        assert_eq!(slot, Slot::Small(None));
        assert!(slot.act(&reserve(b"a", 10), now).expect("fresh").1);
        let again = slot.act(&reserve(b"a", 10), now).expect("own");
        assert!(again.0.allowed && !again.1, "it has it already");
        let ended = slot.end(b"a", 4, now).expect("own").expect("reserved");
        assert_eq!((ended.actual, ended.released), (4, 6));
        assert_eq!(slot.end(b"b", 4, now), Ok(None));
        assert_eq!(slot.release(b"a", now), Err(KindMismatch));
    }
}
