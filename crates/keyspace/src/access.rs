//! How uses of an entry are recorded in the two clock bytes of its record, and which entry goes first when memory is
//! short.
//!
//! By time, the bytes are the second of the last use, or, where that is hours ago, the span of [`SPAN`] seconds that it was
//! in. By frequency, one byte counts uses on a logarithmic scale, as Redis does: the larger the count, the less likely a
//! use is to raise it, and it falls while the entry is not used. The other byte is the minute of the last fall.
//!
//! Seconds and minutes wrap after hours, so every entry is looked at now and then ([`Access::aged`]), in time for a second
//! to become a span, and a count to fall.

/// The clock bytes hold a span, and no second.
const OLD: u16 = 1 << 15;
/// Seconds, and spans, before their number begins anew.
const ROUND: u16 = OLD - 1;
/// Seconds of a span.
const SPAN: i64 = 128;
/// From so many seconds on a time is noted as a span: a quarter of the time after which seconds begin anew.
const OLD_AFTER: u64 = 1 << 13;
/// Longest time without use that is told, in seconds: 40 days, before spans begin anew.
const IDLE_MAX: u64 = 40 * 86_400;
/// Threads read the clock at different times, so an entry may have been used a little later than now: by so many seconds
/// at most.
const AHEAD_MAX: u16 = 64;

/// The count of a new entry: it has a chance to be used before it is the least used.
const COUNT_NEW: u8 = 5;

const MINUTE_MS: i64 = 60_000;

/// What is recorded of uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// When the last one was.
    #[default]
    Time,
    /// When the last one was that was to change the entry.
    ChangeTime,
    /// How many there were.
    Frequency {
        /// How hard it is to raise a high count (`lfu-log-factor`).
        log_factor: u32,
        /// Minutes without use after which a count falls by one; 0 = never (`lfu-decay-time`).
        decay_minutes: u32,
    },
}

impl Access {
    /// The clock bytes of a new entry.
    pub(crate) fn fresh(self, now_ms: i64) -> u16 {
        match self {
            Access::Time | Access::ChangeTime => used_at(now_ms),
            Access::Frequency { .. } => pack(minute(now_ms), COUNT_NEW),
        }
    }

    /// The clock bytes after a use; `random` decides whether a count rises.
    pub(crate) fn used(self, old: u16, now_ms: i64, random: u64) -> u16 {
        match self {
            Access::Time | Access::ChangeTime => used_at(now_ms),
            Access::Frequency { log_factor, .. } => {
                let count = self.count(old, now_ms);
                pack(minute(now_ms), raised(count, log_factor, random))
            }
        }
    }

    /// The count of uses as it has fallen until now; 0 by time.
    pub(crate) fn count(self, bits: u16, now_ms: i64) -> u8 {
        let Access::Frequency { decay_minutes, .. } = self else {
            return 0;
        };
        let [count, _] = bits.to_le_bytes();
        count.saturating_sub(falls(bits, decay_minutes, now_ms))
    }

    /// The clock bytes of an entry that nobody has used meanwhile. To be asked of every entry once in two hours or so.
    pub(crate) fn aged(self, bits: u16, now_ms: i64) -> u16 {
        match self {
            Access::Time | Access::ChangeTime => match idle(bits, now_ms) {
                secs if bits & OLD == 0 && secs >= OLD_AFTER || secs > IDLE_MAX => {
                    idle_for(secs, now_ms)
                }
                _ => bits,
            },
            Access::Frequency { decay_minutes, .. } => {
                let [count, then] = bits.to_le_bytes();
                let falls = falls(bits, decay_minutes, now_ms);
                // Less than the byte holds, of which so many minutes have passed.
                let passed = falls.wrapping_mul(decay_minutes as u8);
                pack(then.wrapping_add(passed), count.saturating_sub(falls))
            }
        }
    }

    /// How much sooner than others an entry with these bytes goes: larger goes first.
    pub(crate) fn staleness(self, bits: u16, now_ms: i64) -> u64 {
        match self {
            Access::Time | Access::ChangeTime => idle(bits, now_ms),
            Access::Frequency { .. } => u64::from(u8::MAX - self.count(bits, now_ms)),
        }
    }
}

/// The clock bytes of an entry that is used now.
#[inline]
pub(crate) fn used_at(now_ms: i64) -> u16 {
    now_ms.div_euclid(1000) as u16 & ROUND
}

/// Seconds since the last use of an entry whose uses are recorded by time.
pub(crate) fn idle(bits: u16, now_ms: i64) -> u64 {
    let now = now_ms.div_euclid(1000);
    let since = |now: i64| (now as u16).wrapping_sub(bits) & ROUND;
    if bits & OLD != 0 {
        return u64::from(since(now.div_euclid(SPAN))) * SPAN as u64;
    }
    match since(now) {
        ahead if ahead > ROUND - AHEAD_MAX => 0,
        secs => secs.into(),
    }
}

/// The clock bytes of an entry last used so many seconds ago.
pub(crate) fn idle_for(secs: u64, now_ms: i64) -> u16 {
    let last = now_ms.div_euclid(1000) - secs.min(IDLE_MAX) as i64;
    match secs {
        ..OLD_AFTER => last as u16 & ROUND,
        _ => last.div_euclid(SPAN) as u16 | OLD,
    }
}

/// By how much a count falls.
fn falls(bits: u16, decay_minutes: u32, now_ms: i64) -> u8 {
    let [_, then] = bits.to_le_bytes();
    let minutes = match minute(now_ms).wrapping_sub(then) {
        // Another thread's clock is in the next one already.
        u8::MAX => 0,
        minutes => u32::from(minutes),
    };
    // No more than the minutes, which fit a byte.
    minutes.checked_div(decay_minutes).unwrap_or(0) as u8
}

/// The clock bytes of an entry with that count of uses.
pub(crate) fn counted(count: u8, now_ms: i64) -> u16 {
    pack(minute(now_ms), count)
}

fn minute(now_ms: i64) -> u8 {
    now_ms.div_euclid(MINUTE_MS) as u8
}

fn pack(minute: u8, count: u8) -> u16 {
    u16::from_le_bytes([count, minute])
}

/// The count after one more use.
fn raised(count: u8, log_factor: u32, random: u64) -> u8 {
    let above = f64::from(count.saturating_sub(COUNT_NEW));
    let chance = 1.0 / (above * f64::from(log_factor) + 1.0);
    // 53 random bits: a number from 0 to below 1.
    let dice = (random >> 11) as f64 / (1u64 << 53) as f64;
    if dice < chance {
        count.saturating_add(1)
    } else {
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LFU: Access = Access::Frequency {
        log_factor: 10,
        decay_minutes: 1,
    };

    #[test]
    fn counts_rise_ever_more_slowly() {
        let mut bits = LFU.fresh(0);
        assert_eq!(LFU.count(bits, 0), 5);
        let mut random = 7u64;
        let mut after = Vec::new();
        for uses in 1..=100_000u32 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            bits = LFU.used(bits, 0, random);
            if uses.is_power_of_two() {
                after.push(LFU.count(bits, 0));
            }
        }
        assert!(after.is_sorted());
        let most = LFU.count(bits, 0);
        // The table in redis.conf: 100,000 hits at factor 10 give about 142.
        assert!((110..175).contains(&most), "{most}");
    }

    #[test]
    fn counts_fall_with_time() {
        let bits = counted(100, 0);
        assert_eq!(LFU.count(bits, 59_999), 100);
        assert_eq!(LFU.count(bits, 10 * MINUTE_MS), 90);
        assert_eq!(LFU.count(bits, 200 * MINUTE_MS), 0);
        let never = Access::Frequency {
            log_factor: 10,
            decay_minutes: 0,
        };
        assert_eq!(never.count(bits, 200 * MINUTE_MS), 100);
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let time = Access::Time;
        let (old, new) = (time.fresh(0), time.fresh(90_000));
        assert!(time.staleness(old, 100_000) > time.staleness(new, 100_000));
        let (rare, often) = (counted(1, 0), counted(200, 0));
        assert!(LFU.staleness(rare, 0) > LFU.staleness(often, 0));
        assert_eq!(time.staleness(idle_for(500, 1_000_000), 1_000_000), 500);
    }

    /// Looks at an entry every two hours, as it is done; calls `look` with its bytes and the seconds passed.
    fn ages(
        access: Access,
        start_ms: i64,
        mut bits: u16,
        days: i64,
        mut look: impl FnMut(u16, i64),
    ) {
        for secs in (0..days * 86_400).step_by(600) {
            let now_ms = start_ms + secs * 1_000;
            if secs % 7_200 == 0 {
                bits = access.aged(bits, now_ms);
            }
            look(bits, secs);
        }
    }

    #[test]
    fn what_was_not_used_for_days_is_known_to_be_so() {
        for start_ms in [0, 1_799_999_999_999, 1_800_000_123_456] {
            let bits = Access::Time.fresh(start_ms);
            ages(Access::Time, start_ms, bits, 100, |bits, secs| {
                let told = idle(bits, start_ms + secs * 1_000);
                let known = secs.min(IDLE_MAX as i64);
                let near = known - SPAN..=known + 7_200 + SPAN;
                match secs < OLD_AFTER as i64 {
                    true => assert_eq!(told, secs as u64),
                    false => assert!(near.contains(&(told as i64)), "{told} for {secs}"),
                }
            });
        }
        let now_ms = 1_800_000_000_000;
        for secs in [0, 1, 8_191, 8_192, 100_000, 3_000_000] {
            let told = idle(idle_for(secs, now_ms), now_ms);
            assert!(told.abs_diff(secs) < SPAN as u64, "{told} for {secs}");
        }
        assert!(idle(idle_for(u64::MAX, now_ms), now_ms) <= IDLE_MAX + SPAN as u64);
    }

    #[test]
    fn what_a_thread_with_a_later_clock_has_used_is_not_old() {
        let bits = Access::Time.fresh(1_800_000_000_001);
        assert_eq!(Access::Time.staleness(bits, 1_799_999_999_999), 0);
        let next_minute = 1_800_000_000_000;
        let bits = counted(100, next_minute);
        assert_eq!(LFU.count(bits, next_minute - 1), 100);
        let bits = LFU.used(bits, next_minute - 1, u64::MAX);
        assert_eq!(LFU.count(bits, next_minute), 99);
    }

    #[test]
    fn counts_fall_for_days() {
        let slow = Access::Frequency {
            log_factor: 10,
            decay_minutes: 45,
        };
        for start_ms in [0, 1_800_000_123_456] {
            ages(slow, start_ms, counted(200, start_ms), 8, |bits, secs| {
                let minutes = (start_ms + secs * 1_000) / MINUTE_MS - start_ms / MINUTE_MS;
                let left = 200 - (minutes / 45).min(200);
                assert_eq!(i64::from(slow.count(bits, start_ms + secs * 1_000)), left);
            });
        }
    }
}
