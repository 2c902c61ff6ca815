//! Levels, labels and grades in the language of the report.

use crate::record::attribution::Role;
use crate::record::paper::{Colour, Judgement};
use crate::record::recovery::RecoveryVerdict;
use crate::record::{ComparisonRow, Grade, Label, Level, Metric, Noise, TrendRow, Verdict};
use crate::statistics::Size;
use crate::stored::told_p;

use super::format::{DASH, rate, significant};
use super::lang::{Lang, found as f, page as t, stored as s};

/// The word of a grade.
pub(crate) fn grade(grade: Grade, lang: Lang) -> &'static str {
    match grade {
        Grade::Valid => t::GRADE_VALID,
        Grade::Indicative => t::GRADE_INDICATIVE,
        Grade::Invalid => t::GRADE_INVALID,
    }
    .of(lang)
}

/// `text`, marked where it is about something invalid.
pub(crate) fn marked(text: String, grade: Grade, lang: Lang) -> String {
    match grade {
        Grade::Invalid => format!("{text} ({})", self::grade(grade, lang)),
        Grade::Indicative | Grade::Valid => text,
    }
}

/// The words for what a recovery run shows.
pub(crate) fn recovery(verdict: RecoveryVerdict, lang: Lang) -> &'static str {
    match verdict {
        RecoveryVerdict::Recovered => f::F_RECOVERED,
        RecoveryVerdict::Metastable => f::F_METASTABLE,
        RecoveryVerdict::GeneratorLimited => f::F_GENERATOR_LIMITED,
        RecoveryVerdict::Unharmed => f::F_UNHARMED,
        RecoveryVerdict::NotHealthyBefore => f::F_NOT_HEALTHY,
        RecoveryVerdict::Unfinished => f::F_UNFINISHED,
    }
    .of(lang)
}

/// The word for a phase of a recovery run, by its name in the record.
pub(crate) fn phase(name: &str, lang: Lang) -> &str {
    match name {
        "before" => f::F_BEFORE.of(lang),
        "overload" => f::F_OVERLOAD.of(lang),
        "after" => f::F_AFTER.of(lang),
        other => other,
    }
}

/// The word of a process's role.
pub(crate) fn role(role: Role, lang: Lang) -> &'static str {
    match role {
        Role::Generator => f::F_GENERATOR,
        Role::Service => f::F_SERVICE,
        Role::Proxy => f::F_PROXY,
        Role::Store => f::F_STORE,
        Role::Other => f::F_OTHER,
    }
    .of(lang)
}

/// The word of a level.
pub(crate) fn level(level: Level, lang: Lang) -> &'static str {
    match level {
        Level::Ok => t::LEVEL_OK,
        Level::NearLimit => t::LEVEL_NEAR_LIMIT,
        Level::Degraded => t::LEVEL_DEGRADED,
        Level::Failed => t::LEVEL_FAILED,
        Level::Collapsed => t::LEVEL_COLLAPSED,
    }
    .of(lang)
}

/// The words of a label.
pub(crate) fn label(label: Label, lang: Lang) -> &'static str {
    match label {
        Label::Excellent => t::LABEL_EXCELLENT,
        Label::Good => t::LABEL_GOOD,
        Label::StableLimit => t::LABEL_STABLE_LIMIT,
        Label::NearLimit => t::LABEL_NEAR_LIMIT,
        Label::Degraded => t::LABEL_DEGRADED,
        Label::Failed => t::LABEL_FAILED,
        Label::Collapsed => t::LABEL_COLLAPSED,
        Label::Dead => t::LABEL_DEAD,
    }
    .of(lang)
}

/// `complete` or `partial`.
pub(crate) fn whole(complete: bool, lang: Lang) -> &'static str {
    if complete { t::COMPLETE } else { t::PARTIAL }.of(lang)
}

/// The word of a comparison's verdict.
pub(crate) fn verdict(verdict: Verdict, lang: Lang) -> &'static str {
    match verdict {
        Verdict::Better => s::V_BETTER,
        Verdict::Worse => s::V_WORSE,
        Verdict::Same => s::V_SAME,
        Verdict::Unclear => s::V_UNCLEAR,
        Verdict::TooFew => s::V_TOO_FEW,
    }
    .of(lang)
}

/// The word of a figure's noise.
pub(crate) fn noise(noise: Noise, lang: Lang) -> &'static str {
    match noise {
        Noise::Unknown => s::N_UNKNOWN,
        Noise::Stable => s::N_STABLE,
        Noise::Variable => s::N_VARIABLE,
        Noise::Unstable => s::N_UNSTABLE,
    }
    .of(lang)
}

/// The word of an effect's size.
pub(crate) fn effect(size: Size, lang: Lang) -> &'static str {
    match size {
        Size::Negligible => s::E_NEGLIGIBLE,
        Size::Small => s::E_SMALL,
        Size::Medium => s::E_MEDIUM,
        Size::Large => s::E_LARGE,
    }
    .of(lang)
}

/// Where a row of stored runs stands, in a sentence: at one load, or under the goal of a search.
pub(crate) fn place(target_rps: Option<f64>, goal: Option<&str>, lang: Lang) -> String {
    match target_rps {
        Some(rps) => s::S_AT_LOAD.with(lang, &[("load", &rate(rps))]),
        None => s::S_UNDER_GOAL.with(lang, &[("goal", goal.unwrap_or(DASH))]),
    }
}

/// The same in a column of loads.
pub(crate) fn load(target_rps: Option<f64>, goal: Option<&str>) -> String {
    target_rps.map_or_else(|| goal.unwrap_or(DASH).to_owned(), rate)
}

/// What a compared row says. The record holds the English sentence.
pub(crate) fn difference(row: &ComparisonRow, lang: Lang) -> String {
    let (Some(ratio), false) = (row.ratio_b_over_a, lang == Lang::En) else {
        return row.sentence.clone();
    };
    let (a, b) = if row.target_a == row.target_b {
        ("A", "B")
    } else {
        (row.target_a.as_str(), row.target_b.as_str())
    };
    let interval = row
        .ratio_ci
        .map_or_else(String::new, |(low, high)| format!(" [{low:.3}, {high:.3}]"));
    let p = row
        .test
        .map_or_else(String::new, |test| format!(", p = {:.3}", test.p));
    s::S_SENTENCE.with(
        lang,
        &[
            ("scenario", &row.scenario),
            ("place", &place(row.target_rps, row.goal.as_deref(), lang)),
            ("figure", row.metric.name()),
            ("a", a),
            ("b", b),
            ("ratio", &format!("{ratio:.3}")),
            ("interval", &interval),
            ("p", &p),
            ("n", &format!("{}/{}", row.a.n, row.b.n)),
            ("verdict", verdict(row.verdict, lang)),
        ],
    )
}

/// What a row's course over stored runs says. The record holds the English sentence.
pub(crate) fn course(row: &TrendRow, lang: Lang) -> String {
    let (Some(slope), Some(p), false) = (row.slope_percent_per_run, row.p, lang == Lang::En) else {
        return row.sentence.clone();
    };
    s::S_COURSE.with(
        lang,
        &[
            ("target", &row.target),
            ("operation", &row.operation),
            ("scenario", &row.scenario),
            ("place", &place(row.target_rps, row.goal.as_deref(), lang)),
            ("figure", row.metric.name()),
            ("slope", &format!("{slope:+.1}")),
            ("n", &row.points.len().to_string()),
            ("p", &told_p(p)),
            ("noise", noise(row.noise, lang)),
        ],
    )
}

/// What a row's course over stored runs allows to say, in a word or two.
pub(crate) fn trend(row: &TrendRow, lang: Lang) -> &'static str {
    let text = match crate::stored::trend_verdict(row) {
        Verdict::Better => s::V_BETTER,
        Verdict::Worse => s::V_WORSE,
        Verdict::TooFew => s::S_TREND_FEW,
        Verdict::Same | Verdict::Unclear => s::S_TREND_NONE,
    };
    text.of(lang)
}

/// Reasons of a tip that are told; the record has all of them.
const REASONS_TOLD: usize = 2;

/// The first of several reasons, and how many more there are.
pub(crate) fn some_reasons(reasons: &[String], lang: Lang) -> String {
    let told = &reasons[..reasons.len().min(REASONS_TOLD)];
    let left = reasons.len() - told.len();
    let more = (left > 0).then(|| t::REASONS_MORE.with(lang, &[("n", &left.to_string())]));
    let parts: Vec<String> = told.iter().cloned().chain(more).collect();
    parts.join("; ")
}

/// Heading of a column of verdicts.
pub(crate) fn verdict_head(lang: Lang) -> &'static str {
    s::S_VERDICT.of(lang)
}

/// What a trial of a search was for, as its record says it.
pub(crate) fn purpose(recorded: &str, lang: Lang) -> &str {
    let texts = [
        t::TRIAL_RANGE,
        t::TRIAL_NARROW,
        t::TRIAL_CONFIRM,
        t::TRIAL_ABOVE,
        t::TRIAL_CHECK,
        t::TRIAL_UP,
        t::TRIAL_DOWN,
    ];
    let known = texts.into_iter().find(|text| text.en == recorded);
    known.map_or(recorded, |text| text.of(lang))
}

/// A value of a metric with its unit.
pub(crate) fn figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::GoodputRps | Metric::HeldRps => format!("{}/s", rate(value)),
        _ => format!("{} {}", significant(value), metric.unit()),
    }
}

/// `goodput /s`; a latency by its name alone, because each of its figures has a unit.
pub(crate) fn with_unit(metric: Metric) -> String {
    match metric {
        Metric::P50Us | Metric::P99Us => metric.name().to_owned(),
        _ => format!("{} {}", metric.name(), metric.unit()),
    }
}

/// Of which cell and load a trend is, and of which figure.
pub(crate) fn trend_title(row: &TrendRow, lang: Lang) -> String {
    format!(
        "{} · {} · {} {}: {}",
        row.target,
        row.operation,
        row.scenario,
        place(row.target_rps, row.goal.as_deref(), lang),
        with_unit(row.metric)
    )
}

/// Which runs a trend goes over.
pub(crate) fn trends_intro(started_at: &[String], runs: &str, lang: Lang) -> String {
    let ends = started_at.first().zip(started_at.last());
    ends.map_or_else(String::new, |(first, last)| {
        s::S_TREND_INTRO.with(lang, &[("n", runs), ("first", first), ("last", last)])
    })
}

/// A study's row by its own thresholds, e.g. `Warning (avg, p95)`.
pub(crate) fn judgement(found: &Judgement, lang: Lang) -> String {
    let colour = match found.colour {
        Colour::Good => s::J_GOOD,
        Colour::Warning => s::J_WARNING,
        Colour::Critical => s::J_CRITICAL,
    }
    .of(lang);
    if found.metrics.is_empty() {
        colour.to_owned()
    } else {
        format!("{colour} ({})", found.metrics.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The English words are those that the record itself uses.
    #[test]
    fn english_words_agree_with_the_record() {
        for grade in [Grade::Valid, Grade::Indicative, Grade::Invalid] {
            assert_eq!(super::grade(grade, Lang::En), grade.word());
        }
        for level in [
            Level::Ok,
            Level::NearLimit,
            Level::Degraded,
            Level::Failed,
            Level::Collapsed,
        ] {
            assert_eq!(super::level(level, Lang::En), level.word());
        }
        for label in [
            Label::Excellent,
            Label::Good,
            Label::StableLimit,
            Label::NearLimit,
            Label::Degraded,
            Label::Failed,
            Label::Collapsed,
            Label::Dead,
        ] {
            assert_eq!(super::label(label, Lang::En), label.words());
        }
        for verdict in [
            Verdict::Better,
            Verdict::Worse,
            Verdict::Same,
            Verdict::Unclear,
            Verdict::TooFew,
        ] {
            assert_eq!(super::verdict(verdict, Lang::En), verdict.word());
        }
        for noise in [
            Noise::Unknown,
            Noise::Stable,
            Noise::Variable,
            Noise::Unstable,
        ] {
            assert_eq!(super::noise(noise, Lang::En), noise.word());
        }
        for size in [Size::Negligible, Size::Small, Size::Medium, Size::Large] {
            assert_eq!(effect(size, Lang::En), size.word());
        }
        for colour in [Colour::Good, Colour::Warning, Colour::Critical] {
            let found = Judgement {
                colour,
                metrics: vec!["p99".into()],
            };
            assert_eq!(judgement(&found, Lang::En), found.words());
        }
    }
}
