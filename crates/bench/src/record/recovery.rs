//! What a recovery run found: load below the knee, overload, and the same load as before again.

use serde::{Deserialize, Serialize};

use super::{Estimate, Grade, Second, Validity};

/// Recovery of one cell after overload, once per client variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryRecord {
    /// Load that the phases are shares of.
    pub knee_rps: f64,
    /// Where the knee comes from, in a sentence.
    pub knee_source: String,
    /// The three phases.
    pub phases: Vec<Phase>,
    /// So many good seconds in a row count as recovered.
    #[serde(default = "usual_stretch")]
    pub good_stretch_s: f64,
    /// One per combination of retries and deadline that was run.
    pub variants: Vec<RecoveryVariant>,
    /// From which loads the system comes back; `None` if that was not tried.
    #[serde(default)]
    pub healing: Option<Healing>,
}

impl RecoveryRecord {
    /// Which variant was hardest on the system: one from which it did not come back, of these the one with most retries.
    #[must_use]
    pub(crate) fn hardest(&self) -> Option<usize> {
        let variants = self.variants.iter().enumerate();
        let hardest = variants.max_by_key(|(_, variant)| {
            let metastable = variant.verdict == RecoveryVerdict::Metastable;
            (variant.verdict.stayed_down(), metastable, variant.retries)
        });
        hardest.map(|(at, _)| at)
    }

    /// What was found about healing, and what became of the clients that were hardest on the system.
    pub(crate) fn bounding(&self) -> Option<(&Healing, RecoveryVerdict)> {
        let hardest = &self.variants[self.hardest()?];
        Some((self.healing.as_ref()?, hardest.verdict))
    }
}

/// Length of the good stretch that counts as recovered, unless another is asked for.
pub(crate) const GOOD_STRETCH_S: f64 = 10.0;

/// Records of before this could be chosen.
fn usual_stretch() -> f64 {
    GOOD_STRETCH_S
}

/// The hidden capacity: the highest load from which a system comes back by itself after the overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Healing {
    /// That load; `None` if it came back from none of those tried.
    pub hidden_rps: Option<f64>,
    /// Times that the clients of these tries send a failed request again at most.
    pub retries: u32,
    /// Deadline of one attempt; `None` for clients that wait as long as the run lasts.
    pub deadline_ms: Option<f64>,
    /// The tries, in the order in which they were made; the load of the variants is not among them.
    pub tries: Vec<HealingTry>,
    /// What was found, in a sentence.
    pub sentence: String,
}

/// One load tried before and after the overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HealingTry {
    /// Load before and after the overload divided by the knee.
    pub of_knee: f64,
    /// That load.
    pub rate_rps: f64,
    /// What became of it.
    pub verdict: RecoveryVerdict,
    /// Whether the try may be believed.
    pub validity: Validity,
}

/// One phase of a recovery run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `before`, `overload` or `after`.
    pub name: String,
    /// Load divided by the knee.
    pub of_knee: f64,
    /// Offered load, without retries.
    pub rate_rps: f64,
    /// Start from the start of the run of the variant.
    pub start_s: f64,
    /// Length.
    pub length_s: f64,
}

/// What happened to clients that retry in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryVariant {
    /// Times that a failed request is sent again at most. A denial is an answer and is never sent again.
    pub retries: u32,
    /// Mean of the random wait before the first repetition; it doubles with each further one. 0 without retries.
    pub backoff_ms: f64,
    /// Deadline of one attempt; `None` for clients that wait as long as the run lasts.
    pub deadline_ms: Option<f64>,
    /// Start, seconds after the start of the run.
    pub offset_s: f64,
    /// Requests that clients wanted decided.
    pub planned: u64,
    /// Attempts written, repetitions included.
    pub sent: u64,
    /// Requests that got a right answer in time, at whichever attempt.
    pub good: u64,
    /// Requests that failed for good.
    pub failed: u64,
    /// Repetitions that came due.
    pub repeated: u64,
    /// Repetitions per request during the overload and after it, as a factor on the load: 1 means none.
    pub amplification: f64,
    /// One bucket per second.
    pub seconds: Vec<Second>,
    /// End of the overload to the start of the first good seconds in a row, as many as count as recovered; `None` if there were none.
    pub time_to_recover_s: Option<f64>,
    /// End of the overload to the first second at whose end no more requests were open than before the overload;
    /// `None` if that did not happen.
    pub backlog_drain_s: Option<f64>,
    /// Share of the requests left open by the bad seconds after the overload that waited in the clients for a connection;
    /// the rest was with the target. `None` without such a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_in_clients_percent: Option<f64>,
    /// What it comes to.
    pub verdict: RecoveryVerdict,
    /// The verdict in a sentence.
    pub sentence: String,
    /// Whether the run may be believed.
    pub validity: Validity,
    /// What became of it in each of several starts; empty with one. Everything else is that of the median start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<VariantStart>,
    /// Seconds to recover over the starts, if every one of them came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_starts: Option<Estimate>,
}

/// A variant in one of several starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VariantStart {
    /// Number of the start, from 1.
    pub start: u32,
    /// What it came to.
    pub verdict: RecoveryVerdict,
    /// As in the variant.
    pub time_to_recover_s: Option<f64>,
    /// As in the variant.
    pub backlog_drain_s: Option<f64>,
    /// Grade of this start.
    pub grade: Grade,
}

/// What a recovery run shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryVerdict {
    /// Good again after the overload.
    #[default]
    Recovered,
    /// Not good again at a load that it held before: the overload outlives its cause.
    Metastable,
    /// Not good again, but the generator was at its own limit meanwhile: what the target would have done is not known.
    GeneratorLimited,
    /// The overload did not hurt, so that nothing had to recover.
    Unharmed,
    /// Not good before the overload either: nothing follows.
    NotHealthyBefore,
    /// The run ended too early to tell.
    Unfinished,
}

impl RecoveryVerdict {
    /// Whether the system was well after the overload.
    #[must_use]
    pub(crate) fn healed(self) -> bool {
        matches!(self, Self::Recovered | Self::Unharmed)
    }

    /// Whether it was seen not to come back, whoever kept it down.
    #[must_use]
    pub(crate) fn stayed_down(self) -> bool {
        matches!(self, Self::Metastable | Self::GeneratorLimited)
    }
}
