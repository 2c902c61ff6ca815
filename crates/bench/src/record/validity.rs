//! May a number be believed? Rules that a program checks, so that nobody has to trust the author.

use serde::{Deserialize, Serialize};

/// Least share of the planned requests that must have been sent for a valid step, percent.
pub(crate) const SENT_PERCENT_MIN: f64 = 99.5;
/// Below this share a valid step becomes indicative, percent: half the allowed shortfall.
pub(crate) const SENT_PERCENT_INDICATIVE: f64 = 99.75;
/// Send lag (P99) that is always tolerated.
pub(crate) const LAG_P99_FLOOR_US: f64 = 1_000.0;
/// Send lag (P99) tolerated as a share of the response P99.
pub(crate) const LAG_OF_P99: f64 = 0.10;
/// Generator CPU above which the generator, not the target, may be what was measured.
pub(crate) const GENERATOR_CPU_PERCENT_MAX: f64 = 90.0;
/// Generator CPU above which a step is indicative. Higher than half the limit: up to here the
/// send lag shows directly whether the generator kept its schedule.
pub(crate) const GENERATOR_CPU_PERCENT_INDICATIVE: f64 = 75.0;
/// Time the generator's thread waited for a core, percent of the step.
pub(crate) const RUN_QUEUE_WAIT_PERCENT_MAX: f64 = 5.0;
/// Time stolen by the hypervisor, percent.
pub(crate) const STEAL_PERCENT_MAX: f64 = 2.0;
/// Calibrated ceiling over offered load below which a step is indicative.
pub(crate) const HEADROOM_MIN: f64 = 1.5;
/// Fewest answers from which a 99th percentile means anything.
pub(crate) const ANSWERS_MIN: u64 = 1_000;

/// How far a result may be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// All rules hold.
    #[default]
    Valid,
    /// Good for orientation: a rule is close to its bound.
    Indicative,
    /// The number may describe the generator or the machine and not the target.
    Invalid,
}

impl Grade {
    /// The word printed in tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Indicative => "indicative",
            Self::Invalid => "invalid",
        }
    }

    /// The grade of a figure that several measurements decide, such as a median: less than half of them may be spoiled.
    pub(crate) fn of_several(grades: impl Iterator<Item = Grade>) -> Grade {
        let (mut of, mut invalid, mut doubtful) = (0, 0, 0);
        for grade in grades {
            of += 1;
            invalid += usize::from(grade == Self::Invalid);
            doubtful += usize::from(grade == Self::Indicative);
        }
        match of {
            0 => Self::Valid,
            of if 2 * invalid >= of => Self::Invalid,
            of if 2 * (invalid + doubtful) >= of => Self::Indicative,
            _ => Self::Valid,
        }
    }
}

/// A grade and why it is not better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The worst grade of all rules.
    pub grade: Grade,
    /// One sentence per broken rule; the first is one that the grade comes from.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Lowers the grade to at least `grade` and says why. A reason is kept once.
    pub fn lower(&mut self, grade: Grade, reason: impl Into<String>) {
        let reason = reason.into();
        let known = self.reasons.iter().position(|told| *told == reason);
        if grade > self.grade {
            self.grade = grade;
            known.map(|at| self.reasons.remove(at));
            self.reasons.insert(0, reason);
        } else if known.is_none() {
            self.reasons.push(reason);
        }
    }

    /// Takes over why the first load that was not held is doubtful. What was held below it was held all the same; how
    /// much more would have been stays open.
    pub(crate) fn leave_open(&mut self, load_rps: f64, why: &str) {
        let text = format!(
            "the limit may lie higher, because at {load_rps:.0}/s, the first load that was not held, {why}"
        );
        self.lower(Grade::Indicative, text);
    }

    /// Takes over the grade and reasons of a part, each reason with the part's name in front.
    pub(crate) fn absorb(&mut self, part: &str, other: &Validity) {
        self.grade = self.grade.max(other.grade);
        for reason in &other.reasons {
            self.lower(other.grade, format!("{part}: {reason}"));
        }
    }
}

/// What the rules look at. `None` is "not measured here" and breaks no rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// Requests the schedule held.
    pub planned: u64,
    /// Requests written in time by the generator.
    pub sent: u64,
    /// Requests that had no connection left to go over, or lost it before their answer.
    pub refused: u64,
    /// Answers in time.
    pub answers: u64,
    /// True if the target pushed back (full pipelines, timeouts): then unsent requests and lag are its
    /// doing, and count as its failures instead.
    pub target_saturated: bool,
    /// P99 of the send lag.
    pub lag_p99_us: Option<f64>,
    /// P99 of the part of the lag that is the generator's own, from the intended time to when it took the request up. It
    /// counts even where the target pushed back.
    pub own_lag_p99_us: Option<f64>,
    /// P99 of the response time.
    pub response_p99_us: Option<f64>,
    /// CPU of the busiest generator thread, percent of one core.
    pub generator_cpu_percent: Option<f64>,
    /// Time that thread waited for a core, percent of the step.
    pub run_queue_wait_percent: Option<f64>,
    /// Time stolen by the hypervisor, percent.
    pub steal_percent: Option<f64>,
    /// Calibrated ceiling over offered load.
    pub headroom: Option<f64>,
    /// Admissions above what a right limiter could have made, percent.
    pub over_admission_percent: Option<f64>,
    /// Admissions missing to what a right limiter would have made, percent.
    pub under_admission_percent: Option<f64>,
}

/// Grades a step.
pub(crate) fn judge(evidence: &Evidence) -> Validity {
    let mut validity = Validity::default();
    if !evidence.target_saturated {
        judge_schedule(evidence, &mut validity);
    }
    judge_lag(evidence, &mut validity);
    judge_machine(evidence, &mut validity);
    judge_accuracy(evidence, &mut validity);
    if let Some(headroom) = evidence
        .headroom
        .filter(|headroom| *headroom < HEADROOM_MIN)
    {
        let text =
            format!("the generator's own ceiling is only {headroom:.2} times the offered load");
        validity.lower(Grade::Indicative, text);
    }
    if evidence.answers > 0 && evidence.answers < ANSWERS_MIN {
        let text = format!("only {} answers: too few for a P99", evidence.answers);
        validity.lower(Grade::Indicative, text);
    }
    validity
}

/// Did the generator send what the schedule held?
fn judge_schedule(evidence: &Evidence, validity: &mut Validity) {
    if evidence.planned > 0 {
        let sent = evidence.sent as f64 / evidence.planned as f64 * 100.0;
        if sent < SENT_PERCENT_INDICATIVE {
            let grade = worse_below(sent, SENT_PERCENT_MIN);
            // Where there was no connection to send over, the generator did not fall behind.
            let possible = evidence.planned.saturating_sub(evidence.refused);
            let text = match evidence.sent >= possible {
                true => {
                    format!("connections were lost when {sent:.2} % of the schedule was sent")
                }
                false => format!("the generator sent only {sent:.2} % of its schedule"),
            };
            validity.lower(grade, text);
        }
    }
}

/// Did it send when the schedule said?
fn judge_lag(evidence: &Evidence, validity: &mut Validity) {
    let lag = if evidence.target_saturated {
        evidence.own_lag_p99_us
    } else {
        evidence.lag_p99_us.or(evidence.own_lag_p99_us)
    };
    // Without an answer there is no response time to compare with.
    let p99 = evidence.response_p99_us.unwrap_or(0.0);
    if let Some(lag) = lag {
        let bound = LAG_P99_FLOOR_US.max(LAG_OF_P99 * p99);
        if lag > bound / 2.0 {
            let (lag_ms, bound_ms) = (lag / 1e3, bound / 1e3);
            let text =
                format!("P99 of the send lag is {lag_ms:.2} ms, tolerated are {bound_ms:.2} ms");
            validity.lower(worse_above(lag, bound), text);
        }
    }
}

/// Had the generator the machine it needs?
fn judge_machine(evidence: &Evidence, validity: &mut Validity) {
    let rules = [
        (
            evidence.generator_cpu_percent,
            GENERATOR_CPU_PERCENT_INDICATIVE,
            GENERATOR_CPU_PERCENT_MAX,
            "the generator used",
            "of its core",
        ),
        (
            evidence.run_queue_wait_percent,
            RUN_QUEUE_WAIT_PERCENT_MAX / 2.0,
            RUN_QUEUE_WAIT_PERCENT_MAX,
            "the generator waited for a core",
            "of the time",
        ),
        (
            evidence.steal_percent,
            STEAL_PERCENT_MAX / 2.0,
            STEAL_PERCENT_MAX,
            "the hypervisor took away",
            "of the CPU time",
        ),
    ];
    for (value, indicative, invalid, what, of) in rules {
        if let Some(value) = value.filter(|value| *value > indicative) {
            validity.lower(
                worse_above(value, invalid),
                format!("{what} {value:.1} % {of}"),
            );
        }
    }
}

/// Was the answer right? A limiter that admits too much is fast because it is wrong.
fn judge_accuracy(evidence: &Evidence, validity: &mut Validity) {
    if let Some(over) = evidence.over_admission_percent.filter(|over| *over > 0.0) {
        let text = format!(
            "{over:.2} % more was admitted than the limit allows, so its speed does not count"
        );
        validity.lower(Grade::Invalid, text);
    }
    if let Some(under) = evidence
        .under_admission_percent
        .filter(|under| *under > 0.0)
    {
        let text = format!("{under:.2} % of what the limit allows was denied");
        validity.lower(Grade::Indicative, text);
    }
}

fn worse_above(value: f64, bound: f64) -> Grade {
    if value > bound {
        Grade::Invalid
    } else {
        Grade::Indicative
    }
}

fn worse_below(value: f64, bound: f64) -> Grade {
    if value < bound {
        Grade::Invalid
    } else {
        Grade::Indicative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Evidence {
        Evidence {
            planned: 10_000,
            sent: 10_000,
            refused: 0,
            answers: 10_000,
            lag_p99_us: Some(60.0),
            response_p99_us: Some(900.0),
            generator_cpu_percent: Some(31.0),
            run_queue_wait_percent: Some(0.4),
            steal_percent: Some(0.0),
            headroom: Some(4.0),
            own_lag_p99_us: Some(40.0),
            over_admission_percent: Some(0.0),
            under_admission_percent: Some(0.0),
            target_saturated: false,
        }
    }

    #[test]
    fn a_healthy_step_is_valid() {
        assert_eq!(judge(&healthy()), Validity::default());
        assert_eq!(judge(&Evidence::default()).grade, Grade::Valid);
    }

    #[test]
    fn each_rule_lowers_the_grade() {
        let grade = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = healthy();
            change(&mut evidence);
            let validity = judge(&evidence);
            assert_eq!(
                validity.reasons.len(),
                usize::from(validity.grade != Grade::Valid)
            );
            validity.grade
        };
        assert_eq!(grade(&|e| e.sent = 9_960), Grade::Indicative);
        assert_eq!(grade(&|e| e.sent = 9_940), Grade::Invalid);
        assert_eq!(grade(&|e| e.lag_p99_us = Some(600.0)), Grade::Indicative);
        assert_eq!(grade(&|e| e.lag_p99_us = Some(1_100.0)), Grade::Invalid);
        assert_eq!(
            grade(&|e| e.generator_cpu_percent = Some(80.0)),
            Grade::Indicative
        );
        assert_eq!(
            grade(&|e| e.generator_cpu_percent = Some(95.0)),
            Grade::Invalid
        );
        assert_eq!(
            grade(&|e| e.run_queue_wait_percent = Some(6.0)),
            Grade::Invalid
        );
        assert_eq!(grade(&|e| e.steal_percent = Some(1.5)), Grade::Indicative);
        assert_eq!(grade(&|e| e.headroom = Some(1.2)), Grade::Indicative);
        assert_eq!(grade(&|e| e.answers = 20), Grade::Indicative);
        assert_eq!(
            grade(&|e| e.over_admission_percent = Some(0.01)),
            Grade::Invalid
        );
        assert_eq!(
            grade(&|e| e.under_admission_percent = Some(3.0)),
            Grade::Indicative
        );
    }

    #[test]
    fn the_first_reason_is_one_that_the_grade_comes_from() {
        let mut validity = Validity::default();
        validity.lower(Grade::Indicative, "a little late");
        validity.lower(Grade::Invalid, "far too late");
        validity.lower(Grade::Indicative, "busy");
        assert_eq!(validity.reasons, ["far too late", "a little late", "busy"]);
        // What was told already is told as what it has become.
        validity.grade = Grade::Indicative;
        validity.lower(Grade::Invalid, "busy");
        assert_eq!(validity.reasons, ["busy", "far too late", "a little late"]);
    }

    #[test]
    fn a_slow_target_is_not_blamed_on_the_generator() {
        let evidence = Evidence {
            sent: 5_000,
            target_saturated: true,
            lag_p99_us: Some(900_000.0),
            ..healthy()
        };
        assert_eq!(judge(&evidence).grade, Grade::Valid);
    }

    #[test]
    fn a_target_that_died_is_not_blamed_on_the_generator() {
        let told = |sent: u64, refused: u64| {
            let evidence = Evidence {
                sent,
                refused,
                ..healthy()
            };
            let validity = judge(&evidence);
            assert_eq!(validity.grade, Grade::Invalid);
            validity.reasons.concat()
        };
        assert_eq!(
            told(6_500, 3_510),
            "connections were lost when 65.00 % of the schedule was sent"
        );
        assert_eq!(
            told(6_500, 1_000),
            "the generator sent only 65.00 % of its schedule"
        );
    }

    #[test]
    fn a_late_generator_cannot_hide_behind_a_slow_target() {
        let evidence = Evidence {
            target_saturated: true,
            own_lag_p99_us: Some(290_000.0),
            response_p99_us: Some(300_000.0),
            ..healthy()
        };
        let validity = judge(&evidence);
        assert_eq!(validity.grade, Grade::Invalid);
        assert!(
            validity.reasons[0].contains("lag"),
            "{:?}",
            validity.reasons
        );
    }

    #[test]
    fn a_long_p99_tolerates_more_lag() {
        let evidence = Evidence {
            lag_p99_us: Some(4_000.0),
            response_p99_us: Some(100_000.0),
            ..healthy()
        };
        assert_eq!(judge(&evidence).grade, Grade::Valid);
    }
}
