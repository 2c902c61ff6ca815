//! Does a system come back after overload, and how soon?

use crate::record::attribution::ProcessAttribution;
use crate::record::recovery::{GOOD_STRETCH_S, Phase, RecoveryVerdict};
use crate::record::validity::GENERATOR_CPU_PERCENT_MAX;
use crate::record::{Profile, Second};

/// P99 after the overload, as a factor on the P99 before it, up to which a second is as good as before.
const LIKE_BEFORE: f64 = 1.5;
/// Lengths of buckets are compared with this tolerance.
const EPSILON_S: f64 = 1e-6;

/// What a second must keep to be good, and how long it must stay so.
#[derive(Clone, Copy, Debug)]
pub struct Standard<'a> {
    /// Thresholds.
    pub profile: &'a Profile,
    /// Length of the good stretch that counts as recovered.
    pub good_stretch_s: f64,
}

impl<'a> From<&'a Profile> for Standard<'a> {
    fn from(profile: &'a Profile) -> Self {
        Standard {
            profile,
            good_stretch_s: GOOD_STRETCH_S,
        }
    }
}

/// What the seconds of a recovery run say.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// End of the overload to the start of the first good stretch.
    pub time_to_recover_s: Option<f64>,
    /// End of the overload to the end of the first second with no more open requests than before.
    pub backlog_drain_s: Option<f64>,
    /// What it comes to.
    pub verdict: RecoveryVerdict,
    /// In a sentence.
    pub sentence: String,
}

/// What is known of a run after its overload besides its seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aftermath {
    /// Load that the overload was a multiple of.
    pub knee_rps: f64,
    /// What clients asked for, repetitions included.
    pub wanted_rps: f64,
    /// Requests that the connections can have under way.
    pub on_wire: u64,
    /// Share of the open requests of the bad seconds that waited in the clients for a connection.
    pub waited_in_clients: Option<f64>,
    /// CPU of the generator's thread after the overload, percent of one core.
    pub generator_percent: Option<f64>,
}

impl Judgement {
    /// The judgement of a run that stayed broken with what kept it so. A generator that was at its own limit meanwhile is a
    /// slow client and not a slow target: then nothing is said of the target.
    #[must_use]
    pub(crate) fn explained(mut self, phases: &[Phase; 3], found: &Aftermath) -> Judgement {
        if self.verdict != RecoveryVerdict::Metastable {
            return self;
        }
        let [_, _, after] = phases;
        let full = |percent: &f64| *percent > GENERATOR_CPU_PERCENT_MAX;
        if let Some(percent) = found.generator_percent.filter(full) {
            self.verdict = RecoveryVerdict::GeneratorLimited;
            self.sentence = format!(
                "not good again within {:.0} s at {:.0}/s, but the generator used {percent:.0} % of its core meanwhile: \
                 what the target would have done is not known",
                after.length_s, after.rate_rps
            );
            return self;
        }
        if found.wanted_rps > after.rate_rps {
            let than = match found.wanted_rps > found.knee_rps {
                true => "more",
                false => "less",
            };
            self.sentence.push_str(&format!(
                "; repetitions included, clients asked {:.0}/s of it, {than} than its knee of {:.0}/s",
                found.wanted_rps, found.knee_rps
            ));
        }
        if let Some(share) = found.waited_in_clients {
            self.sentence.push_str(&format!(
                "; at most {} requests were with the target at a time, {:.0} % of the open ones waited in the clients",
                found.on_wire,
                share * 100.0
            ));
        }
        self
    }
}

/// CPU of the generator's busiest thread in `phase`, percent of one core: the process' use in the seconds of the phase, of
/// which the thread has the share that it has of the whole step. `None` where the process was not sampled.
#[must_use]
pub(crate) fn generator_percent(generator: &ProcessAttribution, phase: &Phase) -> Option<f64> {
    let within = |at: usize| {
        let at_s = at as f64;
        at_s >= phase.start_s - EPSILON_S
            && at_s + 1.0 <= phase.start_s + phase.length_s + EPSILON_S
    };
    let seconds = generator.cpu_percent_by_second.iter().enumerate();
    let used: Vec<f64> = seconds
        .filter(|(at, _)| within(*at))
        .map(|(_, used)| *used)
        .collect();
    let mean = used.iter().sum::<f64>() / used.len() as f64;
    let share = match (&generator.busiest_thread, generator.cpu_percent) {
        (Some(thread), Some(all)) if all > 0.0 => (thread.cpu_percent / all).min(1.0),
        _ => 1.0,
    };
    (!used.is_empty()).then_some(mean * share)
}

/// Judges a run whose phases are before, overload and after. A run that ends within good seconds, too few of them, tells
/// nothing. It is metastable if it ends broken: with failures, or with a median far above the one before. A second is good if its failures are Good by `profile`
/// and its P99 is Good, or not much above the median P99 of the seconds before the overload.
#[must_use]
pub fn judge<'a>(
    standard: impl Into<Standard<'a>>,
    phases: &[Phase; 3],
    seconds: &[Second],
    whole: bool,
) -> Judgement {
    let Standard {
        profile,
        good_stretch_s,
    } = standard.into();
    let [before, overload, after] = phases;
    let within = |phase: &Phase| -> Vec<&Second> {
        let end = phase.start_s + phase.length_s;
        seconds
            .iter()
            .filter(|s| {
                s.at_s >= phase.start_s - EPSILON_S && s.at_s + s.length_s <= end + EPSILON_S
            })
            .collect()
    };
    let (quiet, hot, healing) = (within(before), within(overload), within(after));
    let end_s = overload.start_s + overload.length_s;
    let usual = median(quiet.iter().filter_map(|s| s.p99_us));
    let bound_us = (profile.p99_ms.good * 1e3).max(usual.map_or(0.0, |p99| p99 * LIKE_BEFORE));
    let answered = |second: &&Second| {
        let fails = second.failed as f64 * 100.0;
        fails <= profile.fail_percent.good * second.planned.max(1) as f64 && second.good > 0
    };
    let good =
        |second: &&Second| answered(second) && second.p99_us.is_some_and(|p99| p99 <= bound_us);
    // A P99 above its bound beside a median as before is a hiccup of the machine and not a state of the system.
    let usual_p50 = median(quiet.iter().filter_map(|s| s.p50_us));
    let slow = |second: &&Second| match (second.p50_us, usual_p50) {
        (Some(p50), Some(usual)) => p50 > usual * LIKE_BEFORE,
        _ => true,
    };
    let broken = |second: &&Second| !good(second) && (!answered(second) || slow(second));
    let open_before = quiet.iter().map(|second| second.in_flight).max();
    let drained = healing
        .iter()
        .find(|second| open_before.is_some_and(|open| second.in_flight <= open));
    let recovered = first_stretch(&healing, good_stretch_s, good);
    let fine_before = healthy(profile, &quiet, usual);
    let verdict = if !fine_before {
        RecoveryVerdict::NotHealthyBefore
    } else if hot.iter().all(good) && healing.iter().all(good) && whole && !healing.is_empty() {
        RecoveryVerdict::Unharmed
    } else if recovered.is_some() {
        RecoveryVerdict::Recovered
    } else if whole && stays_broken(&healing, good_stretch_s, broken) {
        RecoveryVerdict::Metastable
    } else {
        RecoveryVerdict::Unfinished
    };
    let time_to_recover_s = recovered
        .filter(|_| verdict.healed())
        .map(|at| (at - end_s).max(0.0));
    Judgement {
        sentence: sentence(verdict, time_to_recover_s, phases, (whole, good_stretch_s)),
        backlog_drain_s: drained.map(|second| second.at_s + second.length_s - end_s),
        time_to_recover_s,
        verdict,
    }
}

/// Start of the first stretch of good seconds that is long enough.
fn first_stretch(
    seconds: &[&Second],
    stretch_s: f64,
    good: impl Fn(&&Second) -> bool,
) -> Option<f64> {
    let mut start = None;
    for second in seconds {
        if !good(second) {
            start = None;
            continue;
        }
        let from = *start.get_or_insert(second.at_s);
        if second.at_s + second.length_s - from >= stretch_s - EPSILON_S {
            return Some(from);
        }
    }
    None
}

/// Whether a system is still broken at the end of its run: the last second is, and so are most of the last `stretch_s`.
/// A system that came back and has a bad second now and then is not.
fn stays_broken(healing: &[&Second], stretch_s: f64, broken: impl Fn(&&Second) -> bool) -> bool {
    let Some(last) = healing.last().filter(|last| broken(last)) else {
        return false;
    };
    let from_s = last.at_s + last.length_s - stretch_s - EPSILON_S;
    let end: Vec<&&Second> = healing.iter().filter(|s| s.at_s >= from_s).collect();
    let count = end.iter().filter(|second| broken(second)).count();
    2 * count > end.len()
}

/// Share of the requests open at the ends of the bad seconds after an overload that no connection had taken yet: they waited
/// in the clients, of which `on_wire` can be under way. `None` without a bad second.
#[must_use]
pub(crate) fn waited_in_clients(
    profile: &Profile,
    after: &Phase,
    seconds: &[Second],
    on_wire: u64,
) -> Option<f64> {
    let bad = |second: &&Second| {
        second.at_s >= after.start_s - EPSILON_S
            && second.at_s < after.start_s + after.length_s - EPSILON_S
            && second.failed as f64 * 100.0
                > profile.fail_percent.good * second.planned.max(1) as f64
    };
    let open = || seconds.iter().filter(bad).map(|second| second.in_flight);
    let all: u64 = open().sum();
    let waiting: u64 = open().map(|open| open.saturating_sub(on_wire)).sum();
    (all > 0).then(|| waiting as f64 / all as f64)
}

/// Whether the load before the overload was held at all: nothing Critical over the whole phase.
fn healthy(profile: &Profile, quiet: &[&Second], usual_p99_us: Option<f64>) -> bool {
    let sum = |field: fn(&Second) -> u64| quiet.iter().map(|second| field(second)).sum::<u64>();
    let fail_percent = sum(|s| s.failed) as f64 * 100.0 / sum(|s| s.planned).max(1) as f64;
    let p99_held = usual_p99_us.is_some_and(|p99| p99 <= profile.p99_ms.critical * 1e3);
    p99_held && fail_percent <= profile.fail_percent.critical
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn sentence(
    verdict: RecoveryVerdict,
    recover_s: Option<f64>,
    phases: &[Phase; 3],
    (whole, stretch_s): (bool, f64),
) -> String {
    let [before, overload, after] = phases;
    let (same, hot) = (after.rate_rps, overload.rate_rps);
    match verdict {
        RecoveryVerdict::Recovered => format!(
            "good again at {same:.0}/s {:.0} s after {:.0} s at {hot:.0}/s",
            recover_s.unwrap_or_default(),
            overload.length_s
        ),
        RecoveryVerdict::Metastable | RecoveryVerdict::GeneratorLimited => format!(
            "not good again within {:.0} s at {same:.0}/s, a load that it held before the {:.0} s at {hot:.0}/s",
            after.length_s, overload.length_s
        ),
        RecoveryVerdict::Unharmed => {
            format!("good throughout, also at {hot:.0}/s: nothing had to recover")
        }
        RecoveryVerdict::NotHealthyBefore => format!(
            "{:.0}/s was not held before the overload, so that nothing follows",
            before.rate_rps
        ),
        RecoveryVerdict::Unfinished if whole => format!(
            "not broken any more at {same:.0}/s, but {stretch_s:.0} good seconds in a row were not seen within {:.0} s",
            after.length_s
        ),
        RecoveryVerdict::Unfinished => format!(
            "the run ended before {stretch_s:.0} good seconds in a row were seen, or could be missed"
        ),
    }
}
