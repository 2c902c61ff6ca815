//! Capacity matrix: which of the measured systems carries which band of load.

use super::super::findings::ScenarioFindings;
use super::super::format::rate;
use super::super::lang::{Lang, Text, advice as t};

/// Bands that a matrix may have.
const BANDS_MAX: usize = 8;
/// Two edges closer than this are one.
const SAME_EDGE: f64 = 0.05;
/// Share of the safe load up to which a system is far from its limit.
const COMFORTABLE: f64 = 0.5;

/// How a system stands to a band of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The band ends below half of the safe load.
    Comfortable,
    /// The band ends at or below the safe load.
    Safe,
    /// The band ends at or below what was held.
    NearLimit,
    /// No row that may be believed lies so high, or it held there too: what it does is not known.
    Unknown,
    /// More than one node was measured to hold.
    Beyond,
}

impl Fit {
    /// The word of the matrix.
    pub(crate) fn word(self) -> Text {
        match self {
            Self::Comfortable => t::FIT_COMFORTABLE,
            Self::Safe => t::FIT_SAFE,
            Self::NearLimit => t::FIT_NEAR_LIMIT,
            Self::Unknown => t::FIT_UNKNOWN,
            Self::Beyond => t::FIT_BEYOND,
        }
    }

    /// A sign that reads without colour.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Comfortable | Self::Safe => "✓",
            Self::NearLimit => "⚠",
            Self::Unknown => "?",
            Self::Beyond => "✗",
        }
    }
}

/// The matrix of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    /// Names of the systems, best first.
    pub(crate) systems: Vec<String>,
    /// Bands from low to high load.
    pub(crate) bands: Vec<Band>,
    /// Whether one system may be preferred to another: they were set up alike.
    pub(crate) may_choose: bool,
}

/// One band of load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    /// Lower end.
    pub(crate) from_rps: f64,
    /// Upper end; `None` for the last.
    pub(crate) to_rps: Option<f64>,
    /// One per system.
    pub(crate) fits: Vec<Fit>,
}

/// One system: its name and what it was measured to hold.
struct System {
    name: String,
    safe_rps: f64,
    sustained_rps: f64,
    /// Whether a load was shown to be too much for it.
    bounded: bool,
}

/// The matrix of a scenario, with each target's best operation; `None` if nothing was held.
pub(crate) fn of(scenario: &ScenarioFindings<'_>) -> Option<Matrix> {
    let mut systems: Vec<System> = Vec::new();
    for ranked in &scenario.ranked {
        let (cell, found) = (ranked.cell, &ranked.findings);
        if let (Some(safe_rps), Some(sustained_rps)) = (found.safe_rps, found.sustained_rps)
            && systems.iter().all(|known| known.name != cell.target)
        {
            systems.push(System {
                name: cell.target.clone(),
                safe_rps,
                sustained_rps,
                bounded: found.not_held_rps.is_some(),
            });
        }
    }
    let edges = edges(&systems);
    if edges.is_empty() {
        return None;
    }
    let starts = std::iter::once(0.0).chain(edges.iter().copied());
    let ends = edges.iter().copied().map(Some).chain([None]);
    let bands = starts
        .zip(ends)
        .map(|(from_rps, to_rps)| Band {
            from_rps,
            to_rps,
            fits: systems.iter().map(|system| fit(system, to_rps)).collect(),
        })
        .collect();
    Some(Matrix {
        systems: systems.into_iter().map(|system| system.name).collect(),
        bands,
        may_choose: scenario.may_rank(),
    })
}

/// Ends of the bands: half the least safe load, then every safe and sustained load.
fn edges(systems: &[System]) -> Vec<f64> {
    let least = systems
        .iter()
        .map(|system| system.safe_rps)
        .min_by(f64::total_cmp);
    let mut all: Vec<f64> = systems
        .iter()
        .flat_map(|system| [system.safe_rps, system.sustained_rps])
        .chain(least.map(|least| least * COMFORTABLE))
        .filter(|edge| edge.is_finite() && *edge > 0.0)
        .map(f64::floor)
        .collect();
    all.sort_by(f64::total_cmp);
    // The lower of two close edges stays: a band may promise less than was measured, never more.
    all.dedup_by(|next, kept| *next <= *kept * (1.0 + SAME_EDGE));
    all.truncate(BANDS_MAX - 1);
    all
}

fn fit(system: &System, to_rps: Option<f64>) -> Fit {
    match to_rps {
        Some(to) if to <= system.safe_rps * COMFORTABLE => Fit::Comfortable,
        Some(to) if to <= system.safe_rps => Fit::Safe,
        Some(to) if to <= system.sustained_rps => Fit::NearLimit,
        _ if !system.bounded => Fit::Unknown,
        _ => Fit::Beyond,
    }
}

impl Band {
    /// `up to 10,000`, `10,000 – 15,000`, `above 25,000`.
    pub(crate) fn title(&self, lang: Lang) -> String {
        match self.to_rps {
            Some(to) if self.from_rps == 0.0 => t::BAND_UP_TO.with(lang, &[("to", &rate(to))]),
            Some(to) => format!("{} – {}", rate(self.from_rps), rate(to)),
            None => t::BAND_ABOVE.with(lang, &[("from", &rate(self.from_rps))]),
        }
    }
}

impl Matrix {
    /// What to do in a band. The system that holds least and still fits is named first, because it is enough.
    pub(crate) fn recommendation(&self, band: &Band, lang: Lang) -> String {
        let names = |fit: fn(Fit) -> bool| -> Vec<&str> {
            let pairs = self.systems.iter().zip(&band.fits);
            pairs
                .filter(|(_, found)| fit(**found))
                .map(|(name, _)| name.as_str())
                .collect()
        };
        if !self.may_choose {
            return t::DO_UNLIKE.of(lang).to_owned();
        }
        let comfortable = names(|fit| fit == Fit::Comfortable);
        let safe = names(|fit| fit <= Fit::Safe);
        let near = names(|fit| fit == Fit::NearLimit);
        if let Some(enough) = comfortable.last() {
            t::DO_ENOUGH.with(lang, &[("name", enough)])
        } else if near.is_empty()
            && let Some(enough) = safe.last()
        {
            t::DO_MONITOR.with(lang, &[("name", enough)])
        } else if let Some(better) = safe.last() {
            t::DO_MOVE.with(lang, &[("name", better), ("from", &near.join(", "))])
        } else if !near.is_empty() {
            t::DO_ADD.with(lang, &[("names", &near.join(", "))])
        } else if band.fits.contains(&Fit::Unknown) {
            let unknown = names(|fit| fit == Fit::Unknown);
            t::DO_UNKNOWN.with(lang, &[("names", &unknown.join(", "))])
        } else {
            self.shard(lang)
        }
    }

    fn shard(&self, lang: Lang) -> String {
        let name = self.systems.first().map_or("", String::as_str);
        t::DO_SHARD.with(lang, &[("name", name)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(name: &str, safe_rps: f64, sustained_rps: f64) -> System {
        System {
            name: name.into(),
            safe_rps,
            sustained_rps,
            bounded: true,
        }
    }

    #[test]
    fn what_no_row_shows_is_not_beyond() {
        let open = System {
            bounded: false,
            ..system("open", 850.0, 1_000.0)
        };
        assert_eq!(fit(&open, Some(900.0)), Fit::NearLimit);
        assert_eq!(fit(&open, None), Fit::Unknown);
        let matrix = Matrix {
            systems: vec!["open".into(), "closed".into()],
            bands: Vec::new(),
            may_choose: true,
        };
        let band = Band {
            from_rps: 1_000.0,
            to_rps: None,
            fits: vec![Fit::Unknown, Fit::Beyond],
        };
        let told = matrix.recommendation(&band, Lang::En);
        assert!(told.starts_with("not known of open"), "{told}");
    }

    /// The study's own figures give bands like the study's table.
    #[test]
    fn bands_follow_what_was_measured() {
        let systems = [
            system("dragonfly", 20_000.0, 22_500.0),
            system("redis", 15_000.0, 17_500.0),
        ];
        let ends = edges(&systems);
        assert_eq!(ends, [7_500.0, 15_000.0, 17_500.0, 20_000.0, 22_500.0]);
        let fits: Vec<[Fit; 2]> = ends
            .iter()
            .map(|end| [fit(&systems[0], Some(*end)), fit(&systems[1], Some(*end))])
            .collect();
        assert_eq!(fits[0], [Fit::Comfortable, Fit::Comfortable]);
        assert_eq!(fits[1], [Fit::Safe, Fit::Safe]);
        assert_eq!(fits[2], [Fit::Safe, Fit::NearLimit]);
        assert_eq!(fits[4], [Fit::NearLimit, Fit::Beyond]);
        assert_eq!(fit(&systems[0], None), Fit::Beyond);
    }

    #[test]
    fn a_band_never_promises_more_than_was_measured() {
        let close = [
            system("a", 10_000.0, 10_300.0),
            system("b", 10_200.0, 12_000.0),
        ];
        for end in edges(&close) {
            for system in &close {
                let found = fit(system, Some(end));
                assert!(found != Fit::Safe || end <= system.safe_rps);
            }
        }
    }

    #[test]
    fn the_least_system_that_is_enough_is_named() {
        let matrix = Matrix {
            systems: vec!["big".into(), "small".into()],
            bands: Vec::new(),
            may_choose: true,
        };
        let band = |fits: [Fit; 2]| Band {
            from_rps: 1.0,
            to_rps: Some(2.0),
            fits: fits.to_vec(),
        };
        let say = |fits| matrix.recommendation(&band(fits), Lang::En);
        assert!(say([Fit::Comfortable, Fit::Comfortable]).starts_with("small"));
        assert!(say([Fit::Safe, Fit::NearLimit]).contains("big"));
        assert!(say([Fit::Beyond, Fit::Beyond]).contains("nodes"));
        let unlike = Matrix {
            may_choose: false,
            ..matrix.clone()
        };
        let text = unlike.recommendation(&band([Fit::Comfortable, Fit::Safe]), Lang::En);
        assert!(text.starts_with("no choice"), "{text}");
    }
}
