//! Which key a request names.

use super::rng::Rng;
use super::trace::Trace;

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
    /// Keys near the middle one are wanted most: weights of a normal distribution.
    Gaussian {
        /// Standard deviation in keys; `None` is a sixth of the keys.
        sd: Option<f64>,
    },
    /// The newest key is wanted most, older ones with weight `1 / age^s`; after `every` requests another key is the
    /// newest.
    Latest {
        /// Exponent.
        s: f64,
        /// Requests for which a key is the newest.
        every: u32,
    },
    /// As [`Spreading::Hot`], and after `every` requests the next keys are the hot ones.
    Hotspot {
        /// Share of the hot keys, 0 to 1.
        share: f64,
        /// Number of hot keys.
        hot: u32,
        /// Requests for which they are hot.
        every: u32,
    },
    /// The keys of a trace, in its order.
    Trace(&'static Trace),
}

/// Exponent of `latest` where none is given: YCSB's.
const LATEST_S: f64 = 0.99;
/// Requests for which a key is the newest, or hot, where no number is given.
const MOVES_EVERY: u32 = 1_000;
/// Most requests that are drawn to learn how a moving distribution falls on the keys.
const LOOKAHEAD_MAX: u64 = 4_000_000;

impl Spreading {
    /// As written on the command line.
    #[must_use]
    pub(crate) fn word(&self) -> String {
        match self {
            Spreading::Single => "single".into(),
            Spreading::Uniform => "uniform".into(),
            Spreading::RoundRobin => "roundrobin".into(),
            Spreading::Hot { share, hot } => format!("hot:{share}:{hot}"),
            Spreading::Zipf { s } => format!("zipf:{s}"),
            Spreading::Gaussian { sd: None } => "gaussian".into(),
            Spreading::Gaussian { sd: Some(sd) } => format!("gaussian:{sd}"),
            Spreading::Latest { s, every } => format!("latest:{s}:{every}"),
            Spreading::Hotspot { share, hot, every } => format!("hotspot:{share}:{hot}:{every}"),
            Spreading::Trace(trace) => format!("trace:{}", trace.name()),
        }
    }

    /// Whether the keys wanted most change while requests are made.
    #[must_use]
    pub(crate) fn moves(&self) -> bool {
        matches!(
            self,
            Spreading::Latest { .. } | Spreading::Hotspot { .. } | Spreading::Trace(_)
        )
    }

    /// The share that the most wanted key gets of the first `draws` requests of a step with `seed`.
    #[must_use]
    pub(crate) fn top_share_of(&self, keys: u32, draws: u64, seed: u64) -> f64 {
        if !self.moves() {
            return self.top_share(keys);
        }
        let draws = draws.clamp(1, LOOKAHEAD_MAX);
        let counts = KeySampler::new(*self, keys, seed).counts(draws);
        let most = counts.iter().max().copied().unwrap_or(0);
        most as f64 / draws as f64
    }

    /// The share of the requests that the most wanted of `keys` keys gets.
    #[must_use]
    pub(crate) fn top_share(&self, keys: u32) -> f64 {
        let keys = keys.max(1);
        match *self {
            Spreading::Single => 1.0,
            Spreading::Uniform | Spreading::RoundRobin => 1.0 / f64::from(keys),
            Spreading::Hot { share, hot } => {
                let hot = hot.clamp(1, keys);
                match keys - hot {
                    // The rest has no keys of its own.
                    0 => 1.0 / f64::from(keys),
                    cold => (share / f64::from(hot)).max((1.0 - share) / f64::from(cold)),
                }
            }
            Spreading::Zipf { s } => {
                1.0 / (1..=keys).map(|rank| f64::from(rank).powf(-s)).sum::<f64>()
            }
            Spreading::Gaussian { sd } => {
                let weights = gaussian_weights(sd, keys);
                // The middle key has weight 1.
                1.0 / weights.iter().sum::<f64>()
            }
            // In the long run every key is the wanted one in turn.
            Spreading::Latest { .. } | Spreading::Hotspot { .. } | Spreading::Trace(_) => {
                1.0 / f64::from(keys)
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
            ("gaussian", []) => Ok(Spreading::Gaussian { sd: None }),
            ("gaussian", [sd]) => Ok(Spreading::Gaussian {
                sd: Some(above_zero(text, sd)?),
            }),
            ("latest", []) => latest(text, &LATEST_S.to_string(), MOVES_EVERY),
            ("latest", [s]) => latest(text, s, MOVES_EVERY),
            ("latest", [s, every]) => latest(text, s, count(text, every)?),
            ("hotspot" | "hotspot-moving", [share]) => hotspot(text, hot(share, "1")?, MOVES_EVERY),
            ("hotspot" | "hotspot-moving", [share, keys]) => {
                hotspot(text, hot(share, keys)?, MOVES_EVERY)
            }
            ("hotspot" | "hotspot-moving", [share, keys, every]) => {
                hotspot(text, hot(share, keys)?, count(text, every)?)
            }
            ("trace", [_, ..]) => Trace::load(&text["trace:".len()..]).map(Spreading::Trace),
            _ => Err(format!(
                "'{text}' is not a key distribution: give {SPREADINGS}"
            )),
        }
    }
}

/// What may be given.
pub(crate) const SPREADINGS: &str = "single, uniform, roundrobin, hot:SHARE[:KEYS], zipf:S, gaussian[:SD], latest[:S[:EVERY]], hotspot:SHARE[:KEYS[:EVERY]] or trace:FILE";

fn above_zero(text: &str, number: &str) -> Result<f64, String> {
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("'{text}': '{number}' is not a number above 0")),
    }
}

fn count(text: &str, number: &str) -> Result<u32, String> {
    match number.parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!(
            "'{text}': '{number}' is not a number of requests above 0"
        )),
    }
}

fn latest(text: &str, s: &str, every: u32) -> Result<Spreading, String> {
    let s = above_zero(text, s)?;
    Ok(Spreading::Latest { s, every })
}

/// A hot set that moves.
fn hotspot(text: &str, still: Spreading, every: u32) -> Result<Spreading, String> {
    match still {
        Spreading::Hot { share, hot } => Ok(Spreading::Hotspot { share, hot, every }),
        _ => Err(format!("'{text}' is not a moving hot set")),
    }
}

/// Weights of all keys, the middle one 1.
fn gaussian_weights(sd: Option<f64>, keys: u32) -> Vec<f64> {
    let sd = sd.unwrap_or(f64::from(keys) / 6.0);
    let middle = f64::from(keys / 2);
    let weight = |key: u32| (-((f64::from(key) - middle) / sd).powi(2) / 2.0).exp();
    (0..keys).map(weight).collect()
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
pub(crate) struct KeySampler {
    rng: Rng,
    keys: u32,
    spreading: Spreading,
    turn: u32,
    drawn: u64,
    // Zipf, gaussian, latest: Walker's alias table, one draw per key number whatever the number of keys.
    alias: Vec<(f64, u32)>,
}

impl KeySampler {
    /// A sampler over `keys` keys (at least 1).
    #[must_use]
    pub(crate) fn new(spreading: Spreading, keys: u32, seed: u64) -> KeySampler {
        let keys = keys.max(1);
        let alias = match spreading {
            Spreading::Zipf { s } | Spreading::Latest { s, .. } => {
                alias_table((1..=keys).map(|rank| f64::from(rank).powf(-s)).collect())
            }
            Spreading::Gaussian { sd } => alias_table(gaussian_weights(sd, keys)),
            _ => Vec::new(),
        };
        // A different stream than the schedule's, which uses the seed as it is.
        KeySampler {
            rng: Rng::new(seed ^ 0x6b65_7973),
            keys,
            spreading,
            turn: 0,
            drawn: 0,
            alias,
        }
    }

    /// The next key number.
    #[inline]
    pub(crate) fn draw(&mut self) -> u32 {
        match self.spreading {
            Spreading::Single => 0,
            Spreading::Uniform => self.rng.below(self.keys),
            Spreading::RoundRobin => {
                let key = self.turn;
                self.turn = if key + 1 == self.keys { 0 } else { key + 1 };
                key
            }
            Spreading::Hot { share, hot } => self.hot(share, hot),
            Spreading::Zipf { .. } | Spreading::Gaussian { .. } => self.weighted(),
            Spreading::Latest { every, .. } => {
                let newest = self.place(every, 1);
                let age = self.weighted();
                // Below twice the number of keys, which is at most a million.
                (newest + self.keys - age) % self.keys
            }
            Spreading::Hotspot { share, hot, every } => {
                let from = self.place(every, hot.min(self.keys));
                (from + self.hot(share, hot)) % self.keys
            }
            Spreading::Trace(trace) => {
                let number = self.drawn;
                self.drawn += 1;
                trace.key(number).min(self.keys - 1)
            }
        }
    }

    /// Requests that each key gets of the next `draws`.
    #[must_use]
    pub(crate) fn counts(mut self, draws: u64) -> Vec<u64> {
        let mut counts = vec![0; self.keys as usize];
        for _ in 0..draws {
            counts[self.draw() as usize] += 1;
        }
        counts
    }

    fn hot(&mut self, share: f64, hot: u32) -> u32 {
        let hot = hot.min(self.keys);
        if hot == self.keys || self.rng.unit() < share {
            self.rng.below(hot)
        } else {
            hot + self.rng.below(self.keys - hot)
        }
    }

    fn weighted(&mut self) -> u32 {
        let slot = self.rng.below(self.keys);
        let (keep, other) = self.alias[slot as usize];
        if self.rng.unit() < keep { slot } else { other }
    }

    /// Where a place is that moves on by `width` keys after `every` requests; counts one request.
    fn place(&mut self, every: u32, width: u32) -> u32 {
        let moves = self.drawn / u64::from(every.max(1));
        self.drawn += 1;
        ((moves % u64::from(self.keys)) * u64::from(width) % u64::from(self.keys)) as u32
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
        let all_hot = Spreading::Hot { share: 0.5, hot: 9 };
        assert_eq!((all_hot.top_share(1), all_hot.top_share(4)), (1.0, 0.25));
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

    /// Pearson's chi square over keys whose expected counts are large enough, and its degrees of freedom.
    fn chi_square(counts: &[u32], shares: &[f64]) -> (f64, f64) {
        let draws: f64 = counts.iter().map(|n| f64::from(*n)).sum();
        let cells: Vec<f64> = counts
            .iter()
            .zip(shares)
            .map(|(n, share)| (f64::from(*n), share * draws))
            .filter(|(_, expected)| *expected >= 5.0)
            .map(|(n, expected)| (n - expected).powi(2) / expected)
            .collect();
        (cells.iter().sum(), cells.len() as f64 - 1.0)
    }

    #[test]
    fn shapes_fit_their_weights() {
        let keys = 101;
        let normed = |weights: Vec<f64>| {
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(|w| w / sum).collect::<Vec<_>>()
        };
        let zipf = normed((1..=keys).map(|rank| f64::from(rank).powf(-1.2)).collect());
        let mut hot = vec![0.3 / 99.0; 101];
        hot[..2].fill(0.35);
        for (spreading, shares) in [
            (Spreading::Uniform, vec![1.0 / 101.0; 101]),
            (Spreading::Zipf { s: 1.2 }, zipf),
            (Spreading::Hot { share: 0.7, hot: 2 }, hot),
            (
                Spreading::Gaussian { sd: Some(12.0) },
                normed(gaussian_weights(Some(12.0), keys)),
            ),
            (
                Spreading::Gaussian { sd: None },
                normed(gaussian_weights(None, keys)),
            ),
        ] {
            let drawn = counts(spreading, keys, 200_000);
            let (chi, freedom) = chi_square(&drawn, &shares);
            // Five standard deviations of the chi square distribution: never by chance, always for a wrong shape.
            let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
            assert!(chi < bound, "{}: {chi} of {bound}", spreading.word());
            let (wrong, _) = chi_square(&drawn, &vec![1.0 / 90.0; 101]);
            assert!(wrong > bound, "{}", spreading.word());
            let top = shares.iter().copied().fold(0.0, f64::max);
            assert!(
                (spreading.top_share(keys) - top).abs() < 1e-9,
                "{}",
                spreading.word()
            );
        }
    }

    #[test]
    fn places_move_on() {
        let every = 1_000;
        let mut sampler = KeySampler::new(
            Spreading::Hotspot {
                share: 0.9,
                hot: 2,
                every,
            },
            10,
            3,
        );
        for round in 0..7_u32 {
            let mut seen = [0_u32; 10];
            for _ in 0..every {
                seen[sampler.draw() as usize] += 1;
            }
            let hot = (round * 2 % 10) as usize;
            assert!(seen[hot] + seen[hot + 1] > 850, "round {round}: {seen:?}");
        }
        let mut sampler = KeySampler::new(Spreading::Latest { s: 2.0, every }, 10, 3);
        for round in 0..12 {
            let mut seen = [0_u32; 10];
            for _ in 0..every {
                seen[sampler.draw() as usize] += 1;
            }
            let newest = round % 10;
            assert!(seen[newest] > 550, "round {round}: {seen:?}");
            assert!(seen[(newest + 9) % 10] > 100, "round {round}: {seen:?}");
        }
        let moving = Spreading::Hotspot {
            share: 1.0,
            hot: 1,
            every,
        };
        assert_eq!(moving.top_share_of(10, 500, 1), 1.0);
        assert_eq!(moving.top_share_of(10, 10_000, 1), 0.1);
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
        for word in [
            "single",
            "uniform",
            "roundrobin",
            "hot:0.9:1",
            "zipf:1.1",
            "gaussian",
            "gaussian:7.5",
            "latest:0.99:1000",
            "hotspot:0.8:2:500",
        ] {
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
            "gaussian:0",
            "gaussian:inf",
            "latest:0",
            "latest:1:0",
            "hotspot",
            "hotspot:2",
            "hotspot:0.5:1:x",
            "trace",
            "trace:/no/such/file",
        ] {
            assert!(bad.parse::<Spreading>().is_err(), "{bad}");
        }
    }
}
