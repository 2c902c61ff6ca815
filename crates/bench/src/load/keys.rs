//! Which key a request names.

use super::rng::Rng;

/// How requests spread over the keys of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spreading {
    /// Every request names the first key.
    Single,
    /// Every key is equally likely.
    Uniform,
    /// Keys in turn.
    RoundRobin,
    /// `share` of the requests goes evenly to the first `hot` keys, the rest evenly to the others.
    Hot {
        /// Share of the hot keys, 0 to 1.
        share: f64,
        /// Number of hot keys.
        hot: u32,
    },
    /// Key `i` is drawn with weight `1 / (i + 1)^s`.
    Zipf {
        /// Exponent.
        s: f64,
    },
}

impl Spreading {
    /// As written on the command line.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Spreading::Single => "single".into(),
            Spreading::Uniform => "uniform".into(),
            Spreading::RoundRobin => "roundrobin".into(),
            Spreading::Hot { share, hot } => format!("hot:{share}:{hot}"),
            Spreading::Zipf { s } => format!("zipf:{s}"),
        }
    }

    /// The share of the requests that the most wanted of `keys` keys gets.
    #[must_use]
    pub fn top_share(&self, keys: u32) -> f64 {
        let keys = keys.max(1);
        match *self {
            Spreading::Single => 1.0,
            Spreading::Uniform | Spreading::RoundRobin => 1.0 / f64::from(keys),
            Spreading::Hot { share, hot } => {
                let hot = hot.clamp(1, keys);
                let cold = keys - hot;
                let cold_share = if cold == 0 {
                    0.0
                } else {
                    (1.0 - share) / f64::from(cold)
                };
                (share / f64::from(hot)).max(cold_share)
            }
            Spreading::Zipf { s } => {
                1.0 / (1..=keys).map(|rank| f64::from(rank).powf(-s)).sum::<f64>()
            }
        }
    }
}

impl std::str::FromStr for Spreading {
    type Err = String;

    fn from_str(text: &str) -> Result<Spreading, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Vec<&str> = parts.collect();
        match (name, numbers.as_slice()) {
            ("single", []) => Ok(Spreading::Single),
            ("uniform", []) => Ok(Spreading::Uniform),
            ("roundrobin", []) => Ok(Spreading::RoundRobin),
            ("hot", [share]) => hot(share, "1"),
            ("hot", [share, count]) => hot(share, count),
            ("zipf", [s]) => match s.parse::<f64>() {
                Ok(s) if s.is_finite() && s > 0.0 => Ok(Spreading::Zipf { s }),
                _ => Err(format!("'{text}': the zipf exponent is a number above 0")),
            },
            _ => Err(format!(
                "'{text}' is not a key distribution: give single, uniform, roundrobin, hot:SHARE[:KEYS] or zipf:S"
            )),
        }
    }
}

fn hot(share: &str, count: &str) -> Result<Spreading, String> {
    match (share.parse::<f64>(), count.parse::<u32>()) {
        (Ok(share), Ok(hot)) if (0.0..=1.0).contains(&share) && hot > 0 => {
            Ok(Spreading::Hot { share, hot })
        }
        _ => Err(format!(
            "'hot:{share}:{count}': the share is between 0 and 1 and there is at least one hot key"
        )),
    }
}

/// Draws key numbers `0..keys`.
#[derive(Clone, Debug)]
pub struct KeySampler {
    rng: Rng,
    keys: u32,
    spreading: Spreading,
    turn: u32,
    // Zipf: Walker's alias table, one draw per key number whatever the number of keys.
    alias: Vec<(f64, u32)>,
}

impl KeySampler {
    /// A sampler over `keys` keys (at least 1).
    #[must_use]
    pub fn new(spreading: Spreading, keys: u32, seed: u64) -> KeySampler {
        let keys = keys.max(1);
        let alias = match spreading {
            Spreading::Zipf { s } => {
                alias_table((1..=keys).map(|rank| f64::from(rank).powf(-s)).collect())
            }
            _ => Vec::new(),
        };
        // A different stream than the schedule's, which uses the seed as it is.
        KeySampler {
            rng: Rng::new(seed ^ 0x6b65_7973),
            keys,
            spreading,
            turn: 0,
            alias,
        }
    }

    /// The next key number.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        match self.spreading {
            Spreading::Single => 0,
            Spreading::Uniform => self.rng.below(self.keys),
            Spreading::RoundRobin => {
                let key = self.turn;
                self.turn = if key + 1 == self.keys { 0 } else { key + 1 };
                key
            }
            Spreading::Hot { share, hot } => {
                let hot = hot.min(self.keys);
                if hot == self.keys || self.rng.unit() < share {
                    self.rng.below(hot)
                } else {
                    hot + self.rng.below(self.keys - hot)
                }
            }
            Spreading::Zipf { .. } => {
                let slot = self.rng.below(self.keys);
                let (keep, other) = self.alias[slot as usize];
                if self.rng.unit() < keep { slot } else { other }
            }
        }
    }
}

fn alias_table(mut weights: Vec<f64>) -> Vec<(f64, u32)> {
    let count = weights.len();
    let mean = weights.iter().sum::<f64>() / count as f64;
    for weight in &mut weights {
        *weight /= mean;
    }
    let mut table: Vec<(f64, u32)> = (0..count as u32).map(|key| (1.0, key)).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..count as u32).partition(|&key| weights[key as usize] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        table[low as usize] = (weights[low as usize], high);
        weights[high as usize] -= 1.0 - weights[low as usize];
        if weights[high as usize] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(spreading: Spreading, keys: u32, draws: u32) -> Vec<u32> {
        let mut sampler = KeySampler::new(spreading, keys, 3);
        let mut counts = vec![0; keys as usize];
        for _ in 0..draws {
            counts[sampler.draw() as usize] += 1;
        }
        counts
    }

    #[test]
    fn shares_are_as_asked() {
        let hot = counts(Spreading::Hot { share: 0.9, hot: 1 }, 100, 100_000);
        assert!((89_500..90_500).contains(&hot[0]), "{}", hot[0]);
        assert!(hot[1..].iter().all(|&n| (50..160).contains(&n)));
        let uniform = counts(Spreading::Uniform, 100, 100_000);
        assert!(uniform.iter().all(|&n| (850..1_150).contains(&n)));
        assert!(
            counts(Spreading::RoundRobin, 7, 700)
                .iter()
                .all(|&n| n == 100)
        );
        assert_eq!(counts(Spreading::Single, 100, 50)[0], 50);
        let zipf = Spreading::Zipf { s: 1.0 };
        let drawn = counts(zipf, 100, 200_000);
        let expected = zipf.top_share(100) * 200_000.0;
        assert!(
            (f64::from(drawn[0]) - expected).abs() < 0.03 * expected,
            "{} {expected}",
            drawn[0]
        );
        assert!((f64::from(drawn[9]) - expected / 10.0).abs() < 0.1 * expected / 10.0);
    }

    #[test]
    fn more_hot_keys_than_keys_is_uniform() {
        let drawn = counts(
            Spreading::Hot {
                share: 0.2,
                hot: 50,
            },
            10,
            10_000,
        );
        assert!(drawn.iter().all(|&n| (800..1_200).contains(&n)));
    }

    #[test]
    fn words_are_read_back() {
        for word in ["single", "uniform", "roundrobin", "hot:0.9:1", "zipf:1.1"] {
            assert_eq!(word.parse::<Spreading>().unwrap().word(), word);
        }
        for bad in [
            "",
            "hot",
            "hot:2",
            "hot:0.5:0",
            "zipf:-1",
            "zipf:x",
            "single:1",
        ] {
            assert!(bad.parse::<Spreading>().is_err(), "{bad}");
        }
    }
}
