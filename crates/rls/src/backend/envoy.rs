//! The counters of envoyproxy/ratelimit in a Redis that a fleet of it uses as well.
//!
//! Each limit is a key for each window of the clock, which grows with every request: `INCRBY key hits`, `EXPIRE key seconds`,
//! all of a request in one pipeline, as `fixed_cache_impl.go` has it. So a denied request counts too, each limit for itself,
//! and a limit of L admits L units in a window whoever asks, as long as the clocks of all who count agree on the window.

use redis::{Pipeline, RedisError, Value};
use smallvec::SmallVec;
use tollgate_limiter::calendar::Calendar;
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Act, AlgorithmKind, Decision, Method, Timestamp};
use tollgate_policy::{LimitCheck, Role};

use super::draws::Draws;
use super::link::{Connection, Link};
use super::stores::Places;
use super::waiting::Waiting;
use super::{BackendError, Decide, Decisions, cluster};
use crate::config::EnvoyCounters;

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// More hits than any limit has; what weighs more counts as this, so that no counter overflows.
const MAX_HITS: u64 = 1 << 32;

/// Gives units back, never below 0. Reads and writes at once, as the peer does for `is_negative_hits`. A second key names the
/// request, which may come twice.
const GIVE_BACK: &str = "local n = tonumber(redis.call('GET', KEYS[1]) or '0') \
                         local back = math.min(n, tonumber(ARGV[1])) \
                         if back <= 0 then return n end \
                         if KEYS[2] and not redis.call('SET', KEYS[2], '', 'NX', 'PX', 60000) then return n end \
                         return redis.call('DECRBY', KEYS[1], string.format('%.0f', back))";

/// The counters as one service thread sees them.
pub(crate) struct Envoy {
    clock: fn() -> Timestamp,
    settings: EnvoyCounters,
    main: Link,
    /// Of limits per second, where they have a Redis of their own.
    per_second: Option<Link>,
    waiting: Waiting,
    draws: Draws,
}

/// A check's counter in the window of now.
struct Counter {
    key: Vec<u8>,
    hits: u64,
    /// Seconds until the window ends.
    left: u64,
    /// How long the counter is kept, in seconds, and no less.
    keep: u64,
    per_second: bool,
}

/// What is asked of a counter.
#[derive(Clone, Copy)]
enum Question {
    /// What is there.
    Read,
    /// To grow by so much.
    Count(u64),
    /// To shrink by so much.
    GiveBack(u64),
}

impl Counter {
    fn of(check: &LimitCheck<'_>, now_secs: u64) -> Self {
        let (start, left, keep) = match check.method {
            // Months of the calendar: their counters are kept until they end.
            Method::Small(AlgorithmKind::Calendar(calendar)) => {
                let (start, end) = calendar_window(calendar, now_secs);
                (start, end - now_secs, end - now_secs)
            }
            _ => {
                let window = (check.quota.period / NANOS_PER_SEC).max(1);
                let gone = now_secs % window;
                (now_secs - gone, window - gone, window)
            }
        };
        let mut key = check.key.to_vec();
        key.extend_from_slice(start.to_string().as_bytes());
        Self {
            key,
            hits: check.cost.0.min(MAX_HITS),
            left,
            keep,
            per_second: check.is_per_second(),
        }
    }

    /// `once` is a key that names a request which may be sent twice.
    fn ask(
        &self,
        question: Question,
        expire_secs: u64,
        once: Option<&[u8]>,
        pipeline: &mut Pipeline,
    ) {
        let key = &*self.key;
        match question {
            Question::Read => {
                pipeline.cmd("GET").arg(key);
            }
            Question::Count(hits) => {
                pipeline.cmd("INCRBY").arg(key).arg(hits);
                pipeline.cmd("EXPIRE").arg(key).arg(expire_secs).ignore();
            }
            Question::GiveBack(hits) => {
                let keys = 1 + usize::from(once.is_some());
                let call = pipeline.cmd("EVAL").arg(GIVE_BACK).arg(keys).arg(key);
                call.arg(once).arg(hits);
            }
        }
    }

    /// `count` is what the counter holds once the check's hits are in it. What a denial tells as left was left before.
    fn decision(&self, check: &LimitCheck<'_>, count: u64) -> Decision {
        let limit = check.quota.limit;
        // What comes back always may.
        let allowed = count <= limit || check.role == Role::Refund;
        let to_end = self.left * NANOS_PER_SEC;
        Decision {
            allowed,
            limit,
            remaining: match allowed {
                true => limit.saturating_sub(count),
                false => limit.saturating_sub(count.saturating_sub(self.hits)),
            },
            retry_after: match allowed {
                true => Some(0),
                false => (self.hits <= limit).then_some(to_end),
            },
            reset_after: to_end,
        }
    }
}

impl Envoy {
    pub(super) fn new(places: &Places, settings: EnvoyCounters, clock: fn() -> Timestamp) -> Self {
        let (main, per_second) = places.links();
        Self {
            clock,
            settings,
            main,
            per_second,
            waiting: Waiting::default(),
            draws: Draws::new(),
        }
    }

    fn now_secs(&self) -> u64 {
        u64::try_from((self.clock)().millis() / 1_000).unwrap_or(0)
    }

    /// Lifetime of a counter: its window, and some time at random, so that not all go at once.
    fn expire_secs(&self, counter: &Counter) -> u64 {
        let jitter = match self.settings.expiry_jitter_max_secs {
            0 => 0,
            most => self.draws.below(most),
        };
        counter.keep + jitter
    }

    /// What the counters hold afterwards, in their order: those of the main store first, then those per second.
    async fn ask(
        &self,
        counters: &[Counter],
        question: impl Fn(usize) -> Question,
    ) -> Result<Vec<i64>, BackendError> {
        let mut counts = vec![0; counters.len()];
        let is_apart = |counter: &Counter| self.per_second.is_some() && counter.per_second;
        for (link, apart) in [(Some(&self.main), false), (self.per_second.as_ref(), true)] {
            let at = counters.iter().enumerate();
            let at: SmallVec<[usize; 4]> = at
                .filter(|(_, counter)| is_apart(counter) == apart)
                .map(|(at, _)| at)
                .collect();
            let Some(link) = link.filter(|_| !at.is_empty()) else {
                continue;
            };
            let connection = link.connection().await?;
            let asked = at.iter().map(|&at| (&counters[at], question(at)));
            let replies = self.ask_store(link, &connection, asked).await;
            let replies = replies.map_err(|error| BackendError::new(error.to_string()))?;
            if replies.len() != at.len() {
                return Err(BackendError::bad_reply());
            }
            for (at, reply) in at.into_iter().zip(&replies) {
                counts[at] = count_of(reply).ok_or_else(BackendError::bad_reply)?;
            }
        }
        Ok(counts)
    }

    async fn ask_store<'c>(
        &self,
        link: &Link,
        connection: &Connection,
        asked: impl Iterator<Item = (&'c Counter, Question)>,
    ) -> Result<Vec<Value>, RedisError> {
        if !connection.is_cluster() {
            let mut pipeline = redis::pipe();
            let mut counts = false;
            for (counter, question) in asked {
                counts |= matches!(question, Question::Count(1..));
                counter.ask(question, self.expire_secs(counter), None, &mut pipeline);
            }
            let replies = link.ask_all(connection, &pipeline).await?;
            if counts {
                link.replicated(connection).await?;
            }
            return Ok(replies);
        }
        // Each key has a slot of its own there.
        let pipelines = asked.map(|(counter, question)| {
            let mut pipeline = redis::pipe();
            let key = &*counter.key;
            let once = matches!(question, Question::GiveBack(_))
                .then(|| cluster::beside(key, &self.draws.once()));
            let expire_secs = self.expire_secs(counter);
            counter.ask(question, expire_secs, once.as_deref(), &mut pipeline);
            async move {
                if let Some(outage) = link.outage(connection, key) {
                    return Err(outage);
                }
                let replies = link.ask_all(connection, &pipeline).await;
                link.judge_node(connection, key, &replies);
                replies
            }
        });
        let replies = futures_util::future::try_join_all(pipelines).await?;
        Ok(replies.into_iter().flatten().collect())
    }

    /// Which counters the hits would take over their limit, so that only those count, where that is wanted.
    async fn over(
        &self,
        checks: &[LimitCheck<'_>],
        counters: &[Counter],
    ) -> Result<Option<Vec<bool>>, BackendError> {
        if !self.settings.stop_when_over {
            return Ok(None);
        }
        let before = self.ask(counters, |_| Question::Read).await?;
        let both = checks.iter().zip(counters).zip(&before);
        let over: Vec<bool> = both
            .map(|((check, counter), &before)| {
                let after = unsigned(before).saturating_add(counter.hits);
                check.role != Role::Refund && after > check.quota.limit
            })
            .collect();
        Ok(over.contains(&true).then_some(over))
    }
}

/// First second of the window, and the first after it; an hour, in times that no calendar reaches.
fn calendar_window(calendar: Calendar, now_secs: u64) -> (u64, u64) {
    let secs = |millis: i64| u64::try_from(millis / 1_000).ok();
    let now = Timestamp::from_secs(i64::try_from(now_secs).unwrap_or(i64::MAX));
    let window = calendar.window(now);
    let window = window.and_then(|(start, end)| Some((secs(start)?, secs(end)?)));
    window
        .filter(|(start, end)| (*start..*end).contains(&now_secs))
        .unwrap_or((now_secs, now_secs.saturating_add(3_600)))
}

/// The count of a reply; a counter that is not there holds nothing.
fn count_of(reply: &Value) -> Option<i64> {
    match reply {
        Value::Nil => Some(0),
        Value::Int(count) => Some(*count),
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

impl Decide for Envoy {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        let holds = |check: &LimitCheck<'_>| matches!(check.act, Act::Hold { .. });
        if checks.iter().any(holds) {
            return Err(no_reservations());
        }
        let _counted = self.waiting.enter()?;
        let now_secs = self.now_secs();
        let counters: Vec<Counter> = checks
            .iter()
            .map(|check| Counter::of(check, now_secs))
            .collect();
        let over = self.over(checks, &counters).await?;
        let question = |at: usize| {
            let (check, hits) = (&checks[at], counters[at].hits);
            match (check.act, check.role) {
                (Act::Peek, _) => Question::Read,
                (_, Role::Refund) => Question::GiveBack(hits),
                _ if over.as_ref().is_none_or(|over| over[at]) => Question::Count(hits),
                _ => Question::Count(0),
            }
        };
        let counts = self.ask(&counters, question).await?;
        let all = checks.iter().zip(&counters).zip(counts);
        let decisions = all.map(|((check, counter), count)| {
            let looked = match check.act {
                Act::Peek => counter.hits,
                _ => 0,
            };
            let count = unsigned(count).saturating_add(looked);
            counter.decision(check, count)
        });
        Ok(decisions.collect())
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        let back = LimitCheck {
            role: Role::Refund,
            act: Act::Take,
            ..*check
        };
        let made = self.decide(&[back]).await?;
        made.first().copied().ok_or_else(BackendError::bad_reply)
    }

    async fn end(
        &self,
        _: &LimitCheck<'_>,
        _: &[u8],
        _: u64,
    ) -> Result<Option<Ended>, BackendError> {
        Err(no_reservations())
    }

    async fn release(&self, _: &LimitCheck<'_>, _: &[u8]) -> Result<u64, BackendError> {
        Err(no_reservations())
    }

    fn counts_each(&self) -> bool {
        true
    }
}

fn no_reservations() -> BackendError {
    BackendError::new("counters of envoyproxy/ratelimit take no reservations")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_limiter::calendar::{CalendarUnit, Zone};
    use tollgate_limiter::{Cost, Quota};
    use tollgate_policy::{HotKey, OnError, Unit};

    fn check(key: &'static [u8], limit: u64, unit: Unit, hits: u64) -> LimitCheck<'static> {
        LimitCheck {
            key,
            method: Method::Small(AlgorithmKind::FixedWindowEpoch),
            quota: Quota::new(limit, unit.nanos()),
            cost: Cost(hits),
            role: Role::Enforced,
            act: Act::Take,
            descriptor: 0,
            on_error: OnError::DEFAULT,
            exact: false,
            predecessor: None,
            hot_key: HotKey::Exact,
        }
    }

    /// The times and keys of the peer's own tests (`fixed_cache_impl_test.go`).
    #[test]
    fn keys_and_commands_are_those_of_the_peer() {
        for (key, unit, now_secs, want) in [
            (
                &b"domain_key_value_"[..],
                Unit::Second,
                1_234,
                "domain_key_value_1234",
            ),
            (
                b"domain_key2_value2_subkey2_subvalue2_",
                Unit::Minute,
                1_234,
                "domain_key2_value2_subkey2_subvalue2_1200",
            ),
            (
                b"domain_key3_value3_",
                Unit::Hour,
                1_000_000,
                "domain_key3_value3_997200",
            ),
            (
                b"domain_key3_value3_subkey3_subvalue3_",
                Unit::Day,
                1_000_000,
                "domain_key3_value3_subkey3_subvalue3_950400",
            ),
            (b"d_w_", Unit::Week, 1_000_000, "d_w_604800"),
            (b"d_m_", Unit::Month, 1_767_225_600, "d_m_1765152000"),
            (b"d_y_", Unit::Year, 1_767_225_600, "d_y_1766016000"),
        ] {
            let counter = Counter::of(&check(key, 10, unit, 3), now_secs);
            assert_eq!(String::from_utf8_lossy(&counter.key), want);
            assert_eq!((counter.keep, counter.hits), (unit.secs(), 3));
            assert_eq!(counter.left, unit.secs() - now_secs % unit.secs());
            assert_eq!(counter.per_second, unit == Unit::Second);
        }
        let counter = Counter::of(&check(b"domain_key4_value4_", 15, Unit::Hour, 1), 1_000_000);
        let mut pipeline = redis::pipe();
        counter.ask(Question::Count(1), 3_600 + 7, None, &mut pipeline);
        let sent = String::from_utf8(pipeline.get_packed_pipeline()).expect("text");
        let words: Vec<&str> = sent
            .split("\r\n")
            .filter(|word| !word.starts_with(['*', '$']) && !word.is_empty())
            .collect();
        let key = "domain_key4_value4_997200";
        assert_eq!(words, ["INCRBY", key, "1", "EXPIRE", key, "3607"]);
    }

    #[test]
    fn over_is_what_is_above_the_limit_and_lasts_to_the_end_of_the_window() {
        let check = check(b"d_", 15, Unit::Hour, 2);
        let counter = Counter::of(&check, 1_000_000);
        let decision = |count| counter.decision(&check, count);
        let to_end = 800 * NANOS_PER_SEC;
        assert_eq!(
            decision(11),
            Decision {
                allowed: true,
                limit: 15,
                remaining: 4,
                retry_after: Some(0),
                reset_after: to_end,
            }
        );
        assert!(decision(15).allowed);
        for (count, left_before) in [(16, 1), (17, 0), (99, 0)] {
            let denied = decision(count);
            assert_eq!(
                (denied.allowed, denied.remaining, denied.retry_after),
                (false, left_before, Some(to_end))
            );
        }
        let never = LimitCheck {
            cost: Cost(u64::MAX),
            ..check
        };
        let counter = Counter::of(&never, 1_000_000);
        assert_eq!(counter.hits, MAX_HITS);
        assert_eq!(counter.decision(&never, MAX_HITS).retry_after, None);
        let back = LimitCheck {
            role: Role::Refund,
            ..check
        };
        assert!(counter.decision(&back, 99).allowed);
    }

    /// `USE_CALENDAR_MONTH_RATE_LIMIT`.
    #[test]
    fn months_may_be_those_of_the_calendar() {
        let month = AlgorithmKind::Calendar(Calendar {
            unit: CalendarUnit::Month,
            zone: Zone::UTC,
        });
        let check = LimitCheck {
            method: Method::Small(month),
            ..check(b"d_m_", 10, Unit::Month, 1)
        };
        // The last second of February 2028, and the next.
        for (now_secs, start, left) in [
            (1_835_481_599, "d_m_1832976000", 1),
            (1_835_481_600, "d_m_1835481600", 31 * 86_400),
        ] {
            let counter = Counter::of(&check, now_secs);
            assert_eq!(String::from_utf8_lossy(&counter.key), start);
            assert_eq!((counter.left, counter.keep), (left, left));
            let decision = counter.decision(&check, 1);
            assert_eq!(decision.reset_after, left * NANOS_PER_SEC);
        }
    }

    #[test]
    fn counts_are_read_from_any_reply_that_is_one() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!(count_of(&Value::Nil), Some(0));
        assert_eq!(count_of(&Value::Int(-3)), Some(-3));
        assert_eq!(count_of(&text("42")), Some(42));
        for bad in [text("4 2"), text(""), Value::Okay] {
            assert_eq!(count_of(&bad), None, "{bad:?}");
        }
    }
}
