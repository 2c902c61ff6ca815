//! A counter split over several keys, each with its part of the limit.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Act, Cost, Decision, Quota};
use tollgate_policy::{HotKey, LimitCheck};

use crate::backend::{BackendError, Checks, Decide, Decisions};

/// Asks one of a counter's keys, in turn; a single limit that is denied there asks the others too.
pub(super) struct Shards<'a, B> {
    pub(super) inner: B,
    pub(super) turn: &'a AtomicUsize,
}

/// How many keys a limit is split over: no more than it has units, so that each admits something.
fn count(check: &LimitCheck<'_>) -> usize {
    let HotKey::Shards { shards } = check.hot_key else {
        return 1;
    };
    let units = check.quota.limit.min(check.capacity()).max(1);
    // At most the largest number of shards.
    u64::from(shards).min(units) as usize
}

fn is_split(check: &LimitCheck<'_>) -> bool {
    matches!(check.hot_key, HotKey::Shards { .. })
}

/// The part of a limit that one of its keys has; the first ones have what is left over.
pub(super) fn part(check: &LimitCheck<'_>, shard: usize) -> Quota {
    let (count, shard) = (count(check) as u64, shard as u64);
    let of = |units: u64| units / count + u64::from(shard < units % count);
    Quota {
        limit: of(check.quota.limit),
        burst: of(check.quota.burst),
        ..check.quota
    }
}

fn key(check: &LimitCheck<'_>, shard: usize) -> Vec<u8> {
    let mut key = check.key.to_vec();
    key.extend_from_slice(format!("#{shard}").as_bytes());
    key
}

/// The shard of a name, on whatever service.
fn shard_of(check: &LimitCheck<'_>, id: &[u8]) -> usize {
    // Without a seed, so that all services agree.
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    (hasher.finish() % count(check) as u64) as usize
}

/// What one shard says, as the whole limit says it: the others are taken to stand as well.
fn scaled(check: &LimitCheck<'_>, decision: Decision) -> Decision {
    let whole = check.capacity();
    let part = u128::from(decision.limit.max(1));
    let remaining = u128::from(decision.remaining) * u128::from(whole) / part;
    Decision {
        limit: whole,
        // At most the whole.
        remaining: remaining.min(u128::from(whole)) as u64,
        ..decision
    }
}

impl<B: Decide> Shards<'_, B> {
    fn start(&self, check: &LimitCheck<'_>) -> usize {
        match check.act {
            Act::Hold { id, .. } => shard_of(check, id),
            _ => self.turn.fetch_add(1, Ordering::Relaxed) % count(check),
        }
    }

    async fn ask(
        &self,
        checks: &[LimitCheck<'_>],
        shards: &[usize],
    ) -> Result<Decisions, BackendError> {
        let keys: Vec<Vec<u8>> = checks
            .iter()
            .zip(shards)
            .map(|(check, &shard)| match is_split(check) {
                true => key(check, shard),
                false => Vec::new(),
            })
            .collect();
        let asked: Checks<'_> = checks
            .iter()
            .zip(shards.iter().zip(&keys))
            .map(|(check, (&shard, key))| match is_split(check) {
                true => LimitCheck {
                    key,
                    quota: part(check, shard),
                    ..*check
                },
                false => *check,
            })
            .collect();
        self.inner.decide(&asked).await
    }

    /// Asks the other shards one after another until one has room. What they deny is remembered below.
    async fn ask_others(
        &self,
        check: &LimitCheck<'_>,
        start: usize,
        first: Decision,
    ) -> Result<Decisions, BackendError> {
        let mut all = Decision {
            limit: check.capacity(),
            ..first
        };
        let count = count(check);
        for step in 1..count {
            let shard = (start + step) % count;
            let made = self.ask(std::slice::from_ref(check), &[shard]).await?;
            let Some(decision) = made.first().copied() else {
                return Ok(made);
            };
            if decision.allowed {
                return Ok(Decisions::from_slice(&[scaled(check, decision)]));
            }
            let waits = [all.retry_after, decision.retry_after];
            all.retry_after = waits.into_iter().flatten().min();
            all.remaining = all.remaining.saturating_add(decision.remaining);
            all.reset_after = all.reset_after.max(decision.reset_after);
        }
        Ok(Decisions::from_slice(&[all]))
    }
}

impl<B: Decide> Decide for Shards<'_, B> {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        if !checks.iter().any(is_split) {
            return self.inner.decide(checks).await;
        }
        let starts: Vec<usize> = checks.iter().map(|check| self.start(check)).collect();
        let mut made = self.ask(checks, &starts).await?;
        if let ([check], [first]) = (checks, &made[..])
            && !first.allowed
            && !matches!(check.act, Act::Hold { .. })
        {
            return self.ask_others(check, starts[0], *first).await;
        }
        for (check, decision) in checks.iter().zip(&mut made) {
            if is_split(check) {
                *decision = scaled(check, *decision);
            }
        }
        Ok(made)
    }

    /// Gives units back to the shards that miss the most.
    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        if !is_split(check) {
            return self.inner.refund(check).await;
        }
        let mut there = Vec::with_capacity(count(check));
        for shard in 0..count(check) {
            let key = key(check, shard);
            let look = LimitCheck {
                key: &key,
                quota: part(check, shard),
                cost: Cost(0),
                act: Act::Peek,
                ..*check
            };
            let made = self.inner.decide(&[look]).await?;
            let missing = made
                .first()
                .map_or(0, |made| made.limit.saturating_sub(made.remaining));
            there.push((missing, shard));
        }
        there.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = check.cost.0;
        let mut last = None;
        for (at, (missing, shard)) in there.into_iter().enumerate() {
            let back = left.min(missing);
            if back == 0 && at > 0 {
                break;
            }
            left -= back;
            let key = key(check, shard);
            let back = LimitCheck {
                key: &key,
                quota: part(check, shard),
                cost: Cost(back),
                ..*check
            };
            last = Some(self.inner.refund(&back).await?);
        }
        last.map(|decision| scaled(check, decision))
            .ok_or_else(|| BackendError::new("a limit without a key"))
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        if !is_split(check) {
            return self.inner.end(check, id, actual).await;
        }
        let shard = shard_of(check, id);
        let key = key(check, shard);
        let check = LimitCheck {
            key: &key,
            quota: part(check, shard),
            ..*check
        };
        self.inner.end(&check, id, actual).await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.inner.release(check, id).await
    }
}
