//! How uses of an entry are recorded in the two clock bytes of its record, and which entry goes first when memory is
//! short.
//!
//! By time, the bytes are the second of the last use. By frequency, one byte counts uses on a logarithmic scale, as Redis
//! does: the larger the count, the less likely a use is to raise it, and it falls while the entry is not used. The other
//! byte is the minute of the last fall, so an entry that nobody met for more than four hours has fallen less than it
//! would in Redis.

use crate::record::{CLOCK_UNIT_MS, clock};

/// The count of a new entry: it has a chance to be used before it is the least used.
const COUNT_NEW: u8 = 5;

const MINUTE_MS: i64 = 60_000;

/// What is recorded of uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// When the last one was.
    #[default]
    Time,
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
            Access::Time => clock(now_ms),
            Access::Frequency { .. } => pack(minute(now_ms), COUNT_NEW),
        }
    }

    /// The clock bytes after a use; `random` decides whether a count rises.
    pub(crate) fn used(self, old: u16, now_ms: i64, random: u64) -> u16 {
        match self {
            Access::Time => clock(now_ms),
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
        let [count, then] = bits.to_le_bytes();
        let minutes = u32::from(minute(now_ms).wrapping_sub(then));
        let fallen = minutes.checked_div(decay_minutes).unwrap_or(0);
        count.saturating_sub(u8::try_from(fallen).unwrap_or(u8::MAX))
    }

    /// How much sooner than others an entry with these bytes goes: larger goes first.
    pub(crate) fn staleness(self, bits: u16, now_ms: i64) -> u64 {
        match self {
            Access::Time => u64::from(clock(now_ms).wrapping_sub(bits)),
            Access::Frequency { .. } => u64::from(u8::MAX - self.count(bits, now_ms)),
        }
    }
}

/// The clock bytes of an entry last used so many seconds ago.
pub(crate) fn idle_for(secs: u64, now_ms: i64) -> u16 {
    let most = u64::from(u16::MAX) * (CLOCK_UNIT_MS as u64 / 1000);
    clock(now_ms - secs.min(most) as i64 * 1000)
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
}
