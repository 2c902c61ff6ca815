//! Bans: nothing passes for a time, and what was counted before counts afterwards.

use crate::algorithms::{KindMismatch, LimiterState, Record};
use crate::fixed_window::span_ms;
use crate::ledger::Ledger;
use crate::slot::{Method, Slot};
use crate::types::{Cost, Decision, Quota, Timestamp};

/// A ban on a limiter whose state outlives it. One that does not is [`LimiterState::Banned`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it ends, Unix milliseconds.
    pub until_ms: i64,
    /// What it covers: no other ban.
    pub beneath: Box<Slot>,
}

impl Slot {
    /// Lets nothing pass until a time in Unix milliseconds, instead of any ban before.
    ///
    /// # Errors
    /// As of any other change.
    pub fn ban(&mut self, until_ms: i64, now: Timestamp) -> Result<(), KindMismatch> {
        self.unban(now)?;
        let beneath = std::mem::replace(self, Slot::Small(None));
        *self = cover(beneath, until_ms);
        Ok(())
    }

    /// Ends a ban: the limiter goes on from what was counted before. False when there was none.
    ///
    /// # Errors
    /// As of any other change.
    pub fn unban(&mut self, now: Timestamp) -> Result<bool, KindMismatch> {
        self.settle(now)?;
        let banned = self.banned_until(now).is_some();
        match self {
            Slot::Ledger(Ledger::Ban(ban), _) => {
                *self = std::mem::replace(&mut *ban.beneath, Slot::Small(None));
                self.settle(now)?;
            }
            _ if banned => *self = Slot::Small(None),
            _ => {}
        }
        Ok(banned)
    }

    /// When the ban on it ends, Unix milliseconds; `None` when nothing is banned at this time.
    pub fn banned_until(&self, now: Timestamp) -> Option<i64> {
        let until_ms = match self {
            Slot::Small(Some(record)) if record.state == LimiterState::Banned => {
                record.expires_at_ms
            }
            Slot::Ledger(Ledger::Ban(ban), _) => ban.until_ms,
            _ => return None,
        };
        (now.millis() < until_ms).then_some(until_ms)
    }

    /// The answer while a ban lasts: to wait for its end, and for longer where the state beneath would deny then.
    pub(crate) fn banned(
        &mut self,
        method: Method,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Decision> {
        let wait = span_ms(now.millis(), self.banned_until(now)?);
        let beneath = match self {
            // The state of another algorithm says nothing to this one.
            Slot::Ledger(Ledger::Ban(ban), _) => {
                ban.beneath.decide(method, quota, cost, true, now).ok()
            }
            _ => None,
        };
        let beneath = beneath.map(|(decision, _)| decision);
        let retry_after = beneath.map_or(Some(0), |decision| decision.retry_after);
        Some(Decision {
            allowed: false,
            limit: quota.limit,
            remaining: 0,
            retry_after: retry_after.map(|longer| longer.max(wait)),
            reset_after: beneath.map_or(0, |decision| decision.reset_after).max(wait),
        })
    }

    /// Changes what is beneath a ban; `None` where there is none.
    pub(crate) fn beneath<T>(&mut self, change: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let Slot::Ledger(Ledger::Ban(ban), _) = self else {
            return None;
        };
        let mut beneath = std::mem::replace(&mut *ban.beneath, Slot::Small(None));
        let until_ms = ban.until_ms;
        let changed = change(&mut beneath);
        *self = cover(beneath, until_ms);
        Some(changed)
    }
}

/// A state under a ban; what does not outlive that is forgotten.
fn cover(beneath: Slot, until_ms: i64) -> Slot {
    let expires_at_ms = match &beneath {
        Slot::Small(record) => record.map(|record| record.expires_at_ms),
        Slot::Ledger(ledger, expires_at_ms) => (!ledger.is_empty()).then_some(*expires_at_ms),
    };
    match expires_at_ms.filter(|expires_at_ms| *expires_at_ms > until_ms) {
        Some(expires_at_ms) => {
            let beneath = Box::new(beneath);
            Slot::Ledger(Ledger::Ban(Ban { until_ms, beneath }), expires_at_ms)
        }
        None => Slot::Small(Some(Record {
            state: LimiterState::Banned,
            expires_at_ms: until_ms,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Act, AlgorithmKind, SlotRequest};

    const HOUR: Quota = Quota::new(10, 3_600_000_000_000);
    const WINDOW: Method = Method::Small(AlgorithmKind::FixedWindow);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn take(slot: &mut Slot, method: Method, cost: u64, now: i64) -> Decision {
        let decided = slot.decide(method, &HOUR, Cost(cost), false, at(now));
        decided.expect("own state").0
    }

    #[test]
    fn what_was_counted_before_a_ban_counts_afterwards() {
        for method in [WINDOW, Method::Log, Method::Small(AlgorithmKind::Gcra)] {
            let mut slot = Slot::Small(None);
            assert!(take(&mut slot, method, 8, 0).allowed);
            slot.ban(1_000, at(10)).expect("own state");
            let denied = take(&mut slot, method, 1, 20);
            assert_eq!(
                (denied.allowed, denied.retry_after),
                (false, Some(980_000_000))
            );
            // Nothing passes when the ban ends either.
            let long = take(&mut slot, method, 9, 20).retry_after;
            assert!(long > Some(980_000_000), "{long:?}");
            slot.ban(2_000, at(30)).expect("own state");
            assert_eq!(slot.banned_until(at(1_500)), Some(2_000));
            let mut ended = slot.clone();
            assert!(!take(&mut ended, method, 3, 2_000).allowed);
            assert!(take(&mut ended, method, 2, 2_000).allowed);
            assert_eq!(slot.unban(at(40)), Ok(true));
            assert!(!take(&mut slot, method, 3, 50).allowed);
            assert_eq!(slot.unban(at(60)), Ok(false));
        }
    }

    #[test]
    fn a_ban_that_outlives_the_state_is_all_that_is_kept() {
        let mut slot = Slot::Small(None);
        take(&mut slot, WINDOW, 8, 0);
        slot.ban(4_000_000, at(10)).expect("own state");
        assert!(matches!(slot, Slot::Small(Some(_))));
        assert!(take(&mut slot, WINDOW, 10, 4_000_000).allowed);
    }

    #[test]
    fn leases_and_reservations_end_beneath_a_ban() {
        let hold = |method, id, cost| SlotRequest {
            method,
            quota: HOUR,
            cost: Cost(cost),
            act: Act::Hold {
                id,
                ttl: HOUR.period,
            },
            slot: 0,
        };
        let mut places = Slot::Small(None);
        let lease = hold(Method::Concurrency, b"a", 1);
        assert!(places.act(&lease, at(0)).expect("fresh").0.allowed);
        places.ban(1_000, at(0)).expect("own state");
        assert!(!places.act(&lease, at(1)).expect("own").0.allowed);
        assert_eq!(places.release(b"a", at(2)), Ok(1));
        assert_eq!(
            (places.release(b"a", at(3)), places.banned_until(at(3))),
            (Ok(0), Some(1_000))
        );

        let mut budget = Slot::Small(None);
        assert!(
            budget
                .act(&hold(WINDOW, b"a", 8), at(0))
                .expect("fresh")
                .0
                .allowed
        );
        budget.ban(1_000, at(0)).expect("own state");
        let ended = budget.end(b"a", 3, at(1)).expect("own state");
        assert_eq!(ended.map(|ended| ended.released), Some(5));
        assert_eq!(budget.refund(WINDOW, &HOUR, 1, at(2)), Ok(true));
        assert_eq!(take(&mut budget, WINDOW, 0, 1_000).remaining, 8);
    }
}
