//! Maps from values to an axis, and the values on it that are worth a label.

use crate::report::format::short;

/// Most ticks on a linear axis.
const TICKS: f64 = 5.0;
/// Room left beside the loads of a drawing, as a share of their span.
const MARGIN: f64 = 0.03;

/// A map from values to one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// From 0 to a round number at or above `high`.
    pub(super) fn linear(high: f64) -> Self {
        let high = if high.is_finite() && high > 0.0 {
            high
        } else {
            1.0
        };
        let step = nice_step(high);
        Self {
            low: 0.0,
            high: (high / step).ceil() * step,
            log: false,
        }
    }

    /// From `low` to `high` without rounding; falls back to something drawable.
    pub(super) fn between(low: f64, high: f64) -> Self {
        if low.is_finite() && high.is_finite() && high > low {
            Self {
                low,
                high,
                log: false,
            }
        } else {
            let middle = if low.is_finite() { low } else { 0.0 };
            let half = (middle.abs() * 0.5).max(0.5);
            Self {
                low: middle - half,
                high: middle + half,
                log: false,
            }
        }
    }

    /// From a little below `low`, and not below 0, to a little above `high`.
    pub(super) fn around((low, high): (f64, f64)) -> Self {
        let margin = (high - low) * MARGIN;
        Self::between((low - margin).max(0.0), high + margin)
    }

    /// A logarithmic scale with some room around the positive values; one decade if there are none.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = usable.fold((f64::MAX, 0.0_f64), |(low, high), v| {
            (low.min(v), high.max(v))
        });
        if high <= 0.0 {
            return Self {
                low: 1.0,
                high: 10.0,
                log: true,
            };
        }
        let (low, high) = ((low / 1.4).max(f64::MIN_POSITIVE), (high * 1.6).min(1e300));
        Self {
            low,
            high: high.max(low * 4.0),
            log: true,
        }
    }

    /// 0 at the low end, 1 at the high end, not beyond.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            let value = value.max(self.low);
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Values worth a label, in order.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log {
            self.log_ticks()
        } else {
            self.linear_ticks()
        }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = nice_step(self.high - self.low);
        let first = (self.low / step - 1e-9).ceil();
        (0..=TICKS as i32 + 3)
            .map(|at| (first + f64::from(at)) * step)
            .filter(|tick| *tick <= self.high + step * 1e-6)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = match decades {
            d if d < 1.6 => &[1.0, 2.0, 5.0],
            d if d < 2.6 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let every = ((last - first) / 7).max(1);
        let mut out = Vec::new();
        for exponent in (first..=last).filter(|exponent| (exponent - first) % every == 0) {
            out.extend(factors.iter().map(|factor| factor * 10_f64.powi(exponent)));
        }
        out.retain(|tick| *tick >= self.low && *tick <= self.high);
        out
    }
}

/// A step of 1, 2, 2.5 or 5 times a power of ten, for about [`TICKS`] ticks.
fn nice_step(span: f64) -> f64 {
    let rough = span / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let lead = rough / power;
    let nice = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|nice| lead <= *nice * 1.0001)
        .unwrap_or(10.0);
    let step = nice * power;
    if step.is_finite() && step > 0.0 {
        step
    } else {
        1.0
    }
}

/// Rates on an axis.
pub(super) fn rate_tick(value: f64) -> String {
    short(value)
}

/// Microseconds on an axis.
pub(super) fn latency_tick(us: f64) -> String {
    match us {
        v if v < 999.5 => format!("{} µs", short(v)),
        v if v < 999_500.0 => format!("{} ms", short(v / 1e3)),
        v => format!("{} s", short(v / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_few() {
        let ticks = Scale::linear(30_000.0).ticks();
        assert_eq!(ticks, [0.0, 10_000.0, 20_000.0, 30_000.0]);
        let ticks = Scale::between(10_000.0, 30_000.0).ticks();
        assert_eq!(ticks, [10_000.0, 15_000.0, 20_000.0, 25_000.0, 30_000.0]);
        for high in [0.003, 1.0, 7.3, 99_999.0, 1e300] {
            let count = Scale::linear(high).ticks().len();
            assert!((2..=8).contains(&count), "{count} ticks up to {high}");
        }
    }

    #[test]
    fn log_ticks_cover_narrow_and_wide_ranges() {
        for values in [[900.0, 1_000.0], [1.0, 1e3], [10.0, 3.6e8], [1e-3, 1e18]] {
            let count = Scale::log(values.into_iter()).ticks().len();
            assert!((1..=9).contains(&count), "{count} ticks for {values:?}");
        }
    }
}
