//! What was found out about capacity, for the terminal.

use super::TextStyle;
use super::format::{count, rate, significant};
use super::lang::recorded::{recorded, recorded_all};
use super::lang::{Lang, Text, found as f, sentences as s};
use super::table::plain;
use super::words;
use crate::record::attribution::cost_per_million;
use crate::record::capacity::{
    CapacityRecord, CapacitySource, GoalResult, Retention, RetentionClass, SearchEnd,
    StartInterval, ZoneBound, Zones,
};
use crate::record::recovery::RecoveryVariant;
use crate::record::{Cell, Grade, SearchGoal};

/// Intervals, zones, retention and hysteresis of a cell in a few lines; empty if nothing is known.
#[must_use]
pub(crate) fn capacity_lines(style: TextStyle, cell: &Cell) -> String {
    let (Some(found), lang) = (&cell.capacity, style.lang) else {
        return String::new();
    };
    let mut lines = Vec::new();
    if found.source == CapacitySource::Search {
        for goal in &found.goals {
            lines.push(goal_line(goal, lang));
            lines.extend(starts_line(goal, lang));
        }
        lines.push(search_line(found, lang));
    }
    lines.push(zone_line(found, lang));
    if found.non_monotone {
        let loads: Vec<String> = found.inverted_rps.iter().map(|load| rate(*load)).collect();
        lines.push(f::F_NOT_MONOTONE.with(lang, &[("loads", &loads.join("/s, "))]));
    }
    let retention = found.retention.as_ref();
    lines.extend(retention.and_then(|found| retention_line(found, lang)));
    if let Some(found) = &found.hysteresis {
        let text = match found.area_percent >= 0.0 {
            true => f::F_LOST,
            false => f::F_GAINED,
        };
        let percent = format!("{:.1}", found.area_percent.abs());
        lines.push(text.with(lang, &[("percent", &percent)]));
    }
    lines.extend(safe_cost(cell, lang));
    indented(style, &lines)
}

/// Verdicts of a recovery run in a few lines; empty if there was none.
#[must_use]
pub(crate) fn recovery_lines(style: TextStyle, cell: &Cell) -> String {
    indented(style, &recovery(cell, style.lang))
}

/// The knee, then what became of each kind of clients, then from where the system heals; empty without a recovery run.
pub(super) fn recovery(cell: &Cell, lang: Lang) -> Vec<String> {
    let Some(found) = &cell.recovery else {
        return Vec::new();
    };
    let knee = f::F_KNEE.with(
        lang,
        &[
            ("knee", &rate(found.knee_rps)),
            ("source", &recorded(&found.knee_source, lang)),
        ],
    );
    let variants = found.variants.iter();
    std::iter::once(knee)
        .chain(variants.map(|variant| variant_line(variant, lang)))
        .chain(
            found
                .healing
                .iter()
                .map(|healing| recorded(&healing.sentence, lang).into_owned()),
        )
        .collect()
}

fn indented(style: TextStyle, lines: &[String]) -> String {
    let line = |line: &String| format!("  {}", plain(style, line));
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The zones in a sentence, or why there are none.
pub(super) fn zone_line(found: &CapacityRecord, lang: Lang) -> String {
    match (&found.refused, &found.zones) {
        (Some(why), _) => f::F_REFUSED.with(lang, &[("why", &recorded(why, lang))]),
        (None, Some(zones)) => zones_sentence(zones, found, lang),
        (None, None) if found.non_monotone => f::F_NO_SAFE_HOLE.of(lang).into(),
        (None, None) => f::F_NO_SAFE.of(lang).into(),
    }
}

/// What bounds the safe load.
pub(super) fn why_safe(zones: &Zones) -> Text {
    match zones.decided_by {
        ZoneBound::Margin => f::F_WHY_MARGIN,
        ZoneBound::Healing => f::F_WHY_HEALING,
        ZoneBound::Cpu => f::F_WHY_CPU,
    }
}

/// From which load the system heals after an overload, or that this was not tried; `None` where nobody would look for it.
pub(super) fn healing(found: &CapacityRecord, lang: Lang) -> Option<String> {
    match &found.zones.as_ref()?.healing {
        Some(known) => Some(recorded(known, lang).into_owned()),
        None if found.source == CapacitySource::Search => {
            Some(f::F_HEALING_UNKNOWN.of(lang).into())
        }
        None => None,
    }
}

/// What is safe in the light of what earlier recoveries found, for the terminal; empty where these say nothing.
#[must_use]
pub(crate) fn healing_line(style: TextStyle, cell: &Cell) -> String {
    let known = cell.capacity.as_ref().filter(|found| {
        let zones = found.zones.as_ref();
        zones.is_some_and(|zones| zones.healing.is_some())
    });
    known.map_or_else(String::new, |found| {
        let line = format!("{}: {}", cell.title(), zone_line(found, style.lang));
        plain(style, &line)
    })
}

fn zones_sentence(zones: &Zones, found: &CapacityRecord, lang: Lang) -> String {
    let why = why_safe(zones);
    let upper = match found.shown_upper_rps() {
        Some(load) => f::F_TOO_MUCH.with(lang, &[("load", &rate(load))]),
        None => f::F_NONE_TOO_MUCH.of(lang).into(),
    };
    let trust = match zones.confidence {
        Grade::Valid => String::new(),
        grade => format!(
            " ({}: {})",
            words::grade(grade, lang),
            recorded_all(&zones.doubts, lang)
        ),
    };
    // A doubt that says so already is not said twice.
    let doubted = |known: &String| zones.doubts.contains(known);
    let healing = match &zones.healing {
        Some(known) if doubted(known) => String::new(),
        _ => healing(found, lang).map_or_else(String::new, |text| format!("; {text}")),
    };
    let trust = trust + &healing;
    f::F_SAFE.with(
        lang,
        &[
            ("safe", &rate(zones.safe_rps)),
            ("sustained", &rate(zones.sustained_rps)),
            ("why", why.of(lang)),
            ("upper", &upper),
            ("trust", &trust),
        ],
    )
}

/// What a million decisions cost at the cell's safe load; `None` without a price or without a safe load.
pub(super) fn safe_cost(cell: &Cell, lang: Lang) -> Option<String> {
    let safe = cell.capacity.as_ref()?.zones.as_ref()?.safe_rps;
    let mut prices = cell
        .steps
        .iter()
        .filter_map(|step| step.attribution.as_ref());
    let price = prices.find_map(|found| found.price_per_hour)?;
    let cost = significant(cost_per_million(price, safe)?);
    Some(f::F_SAFE_COST.with(lang, &[("cost", &cost), ("load", &rate(safe))]))
}

fn variant_line(variant: &RecoveryVariant, lang: Lang) -> String {
    let deadline = match variant.deadline_ms {
        Some(ms) => f::F_DEADLINE.with(lang, &[("ms", &format!("{ms:.0}"))]),
        None => f::F_NO_DEADLINE.of(lang).into(),
    };
    let drain = match variant.backlog_drain_s {
        Some(seconds) => f::F_DRAINED.with(lang, &[("seconds", &format!("{seconds:.0}"))]),
        None => f::F_NOT_DRAINED.of(lang).into(),
    };
    f::F_VARIANT.with(
        lang,
        &[
            ("retries", &variant.retries.to_string()),
            ("deadline", &deadline),
            ("verdict", words::recovery(variant.verdict, lang)),
            ("sentence", &recorded(&variant.sentence, lang)),
            ("drain", &drain),
            ("times", &format!("{:.2}", variant.amplification)),
            ("grade", words::grade(variant.validity.grade, lang)),
        ],
    )
}

fn goal_line(result: &GoalResult, lang: Lang) -> String {
    let (lower, upper) = (result.lower_rps.map(rate), result.upper_rps.map(rate));
    let sustains = match (&lower, &upper) {
        (Some(lower), Some(upper)) => {
            f::F_BETWEEN.with(lang, &[("lower", lower), ("upper", upper)])
        }
        (Some(lower), None) => f::F_AT_LEAST.with(lang, &[("lower", lower)]),
        (None, Some(upper)) => f::F_LESS_THAN.with(lang, &[("upper", upper)]),
        (None, None) => f::F_NOT_KNOWN.of(lang).into(),
    };
    let goodput = result
        .conditional_throughput_rps
        .map_or_else(String::new, |rps| {
            f::F_EXPECTED.with(lang, &[("goodput", &rate(rps))])
        });
    f::F_GOAL.with(
        lang,
        &[
            ("goal", &goal_name(&result.goal)),
            ("sustains", &sustains),
            ("goodput", &goodput),
            ("remark", &recorded(&result.remark, lang)),
        ],
    )
}

/// How reports call a goal: by its letters, as the field does.
pub(super) fn goal_name(goal: &SearchGoal) -> String {
    goal.name.to_uppercase()
}

/// What each of several starts held, and how far that is spread; `None` with one start.
pub(super) fn starts_line(result: &GoalResult, lang: Lang) -> Option<String> {
    result.starts.get(1)?;
    let held = |start: &StartInterval| match start.lower_rps {
        Some(rps) => format!("{}/s", rate(rps)),
        None => f::F_NOTHING.of(lang).to_owned(),
    };
    let each: Vec<String> = result.starts.iter().map(held).collect();
    let spread = result.over_starts.map_or_else(String::new, |over| {
        let mad = rate(over.mad);
        match over.low.zip(over.high) {
            Some((low, high)) => f::F_STARTS_SPREAD.with(
                lang,
                &[("low", &rate(low)), ("high", &rate(high)), ("mad", &mad)],
            ),
            None => f::F_STARTS_MAD.with(lang, &[("mad", &mad)]),
        }
    });
    let safe: Option<Vec<String>> = result
        .starts
        .iter()
        .map(|start| Some(format!("{}/s", rate(start.safe_rps?))))
        .collect();
    let safe = safe.map_or_else(String::new, |each| {
        f::F_STARTS_SAFE.with(lang, &[("each", &each.join(", "))])
    });
    let spread = spread + &safe;
    Some(f::F_STARTS.with(
        lang,
        &[
            ("goal", &goal_name(&result.goal)),
            ("n", &result.starts.len().to_string()),
            ("each", &each.join(", ")),
            (
                "median",
                &result.lower_rps.map_or_else(
                    || f::F_NOTHING.of(lang).to_owned(),
                    |rps| format!("{}/s", rate(rps)),
                ),
            ),
            ("spread", &spread),
        ],
    ))
}

fn search_line(found: &CapacityRecord, lang: Lang) -> String {
    let spoiled = found
        .trials
        .iter()
        .filter(|trial| !trial.validity.reasons.is_empty())
        .count();
    let how = match found.ended {
        SearchEnd::Done => f::F_ENDED,
        SearchEnd::BudgetSpent => f::F_NO_BUDGET,
        SearchEnd::TargetLost => f::F_TARGET_LOST,
        SearchEnd::Interrupted => f::F_INTERRUPTED,
    };
    f::F_TRIALS.with(
        lang,
        &[
            ("n", &count(found.trials.len() as u64)),
            ("spoiled", &count(spoiled as u64)),
            ("how", how.of(lang)),
            ("why", &recorded(&found.ended_because, lang)),
        ],
    )
}

fn retention_line(found: &Retention, lang: Lang) -> Option<String> {
    let class = match found.class? {
        RetentionClass::Graceful => s::GRACEFUL,
        RetentionClass::Degrading => s::DEGRADING,
        RetentionClass::Collapse => s::COLLAPSING,
    };
    let share = |share: f64| format!("{:.0}", share * 100.0);
    let kept = found.at_1_25.map_or_else(String::new, |kept| {
        f::F_KEPT.with(lang, &[("percent", &share(kept))])
    });
    let cliff = match found.cliff_margin {
        Some(margin) => f::F_CLIFF.with(lang, &[("percent", &share(margin))]),
        None => f::F_NO_CLIFF.of(lang).into(),
    };
    let warning = match found.early_warning {
        Some(warning) => f::F_WARNED.with(lang, &[("percent", &share(warning))]),
        None => f::F_NOT_WARNED.of(lang).into(),
    };
    Some(f::F_PAST_KNEE.with(
        lang,
        &[
            ("knee", &rate(found.knee_rps)),
            ("class", class.of(lang)),
            ("kept", &kept),
            ("cliff", &cliff),
            ("warning", &warning),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_load_is_safe_above_one_that_missed_the_goal_and_none_kept_it_is_not_said_then() {
        let mut found = CapacityRecord::default();
        assert_eq!(zone_line(&found, Lang::En), f::F_NO_SAFE.en);
        found.non_monotone = true;
        assert_eq!(zone_line(&found, Lang::En), f::F_NO_SAFE_HOLE.en);
    }
}
