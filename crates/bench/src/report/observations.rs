//! Observations about one ladder, each from a rule over its rows.

use crate::record::capacity::Trial;
use crate::record::{Cell, Step};

use super::anomalies;
use super::capacity::{healing, starts_line, why_safe};
use super::findings::CellFindings;
use super::format::{capitalized, latency, or_dash, percent, rate, significant};
use super::lang::{Lang, Text, sentences as t};
use super::rows::failure_kinds;

/// Rows that were measured again of which each is told with its reason.
const REPEATS_TOLD_MAX: usize = 3;
/// From this share of the peak goodput on, a target past its limit degrades gracefully.
const GRACEFUL: f64 = 0.9;
/// Below this share it collapses.
const COLLAPSE: f64 = 0.5;
/// Share of the sustained load up to which queueing alone explains little latency.
const QUEUE_UP_TO: f64 = 0.7;
/// Mean response over that of a single queue from which another cause is likely.
const QUEUE_TIMES: f64 = 4.0;

/// The observations about a ladder, in the order of its story, then the remarks made during the run.
pub(crate) fn observations(cell: &Cell, found: &CellFindings, lang: Lang) -> Vec<String> {
    let steps = cell.by_load();
    let mut out = Vec::new();
    out.extend(found.sustained_rps.map(|sustained| {
        let safe = or_dash(found.safe_rps, rate);
        let zones = cell
            .capacity
            .as_ref()
            .and_then(|found| found.zones.as_ref())
            .filter(|zones| Some(zones.safe_rps) == found.safe_rps);
        let why = zones.map_or_else(String::new, |zones| {
            t::SAFE_BECAUSE.with(lang, &[("why", why_safe(zones).of(lang))])
        });
        t::SUSTAINED.with(
            lang,
            &[("load", &rate(sustained)), ("safe", &safe), ("why", &why)],
        )
    }));
    let capacity = cell.capacity.as_ref();
    let healing = capacity.and_then(|found| healing(found, lang));
    out.extend(healing.map(|text| format!("{}.", capitalized(&text))));
    let goals = cell.capacity.iter().flat_map(|found| &found.goals);
    out.extend(goals.filter_map(|goal| Some(capitalized(&starts_line(goal, lang)?))));
    out.extend(contrary_row(cell, &steps, found, lang));
    out.extend(early_warning(found, lang));
    out.extend(
        found
            .peak_goodput_rps
            .map(|peak| t::PEAK.with(lang, &[("load", &rate(peak))])),
    );
    out.extend(past_the_limit(&steps, found, lang));
    out.extend(
        found
            .doubtful_rps
            .map(|rps| t::DOUBTFUL_ROW.with(lang, &[("load", &rate(rps))])),
    );
    out.extend(anomalies::sentences(cell, &found.anomalies_rps, lang));
    out.extend(beyond_a_queue(&steps, found, lang));
    out.extend(
        steps
            .first()
            .and_then(|step| allow_against_deny(step, lang)),
    );
    out.extend(cell.notes.iter().map(|note| capitalized(note)));
    out.extend(step_notes(&steps, lang));
    out
}

/// Says which trials decided where the row of the sustained load is another one that did not hold. Records of before the
/// deciding trial became the row have such rows.
fn contrary_row(cell: &Cell, steps: &[&Step], found: &CellFindings, lang: Lang) -> Option<String> {
    let capacity = cell.capacity.as_ref()?;
    let goal = &capacity.goals.first()?.goal;
    let load = found.sustained_rps?;
    let row = steps.iter().find(|step| step.target_rps == load)?;
    let at_load = |trial: &&Trial| trial.load_rps == load && trial.decides(goal);
    let deciding: Vec<&Trial> = capacity.trials.iter().filter(at_load).collect();
    if row.holds() || deciding.is_empty() {
        return None;
    }
    let held = deciding.iter().filter(|trial| trial.held()).count();
    Some(t::CONTRARY_ROW.with(
        lang,
        &[
            ("load", &rate(load)),
            ("held", &held.to_string()),
            ("n", &deciding.len().to_string()),
        ],
    ))
}

/// What the steps note, each text once with the loads that it belongs to.
fn step_notes(steps: &[&Step], lang: Lang) -> Vec<String> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    let repeated = repeats(steps, lang);
    for step in steps {
        let told = |note: &&String| repeated.is_none() || !says_again(note, lang);
        for note in step.notes.iter().filter(told) {
            let at = rate(step.target_rps);
            match found.iter_mut().find(|(known, _)| known == note) {
                Some((_, loads)) if loads.last() == Some(&at) => {}
                Some((_, loads)) => loads.push(at),
                None => found.push((note, vec![at])),
            }
        }
    }
    let line = |(note, loads): (&str, Vec<String>)| {
        t::AT_LOAD.with(lang, &[("load", &loads.join("/s, ")), ("note", note)])
    };
    found.into_iter().map(line).chain(repeated).collect()
}

/// Whether a note says that a row was measured again.
fn says_again(note: &str, lang: Lang) -> bool {
    note.contains(t::AGAIN_BECAUSE.of(lang))
}

/// Where rows were measured again, in one line, if that would take many: the reasons stand in the record.
fn repeats(steps: &[&Step], lang: Lang) -> Option<String> {
    let again = |step: &&Step| {
        let notes = step.notes.iter();
        (
            step.target_rps,
            notes.filter(|note| says_again(note, lang)).count(),
        )
    };
    let found = steps.iter().map(again).filter(|(_, times)| *times > 0);
    let found: Vec<(f64, usize)> = found.collect();
    let all: usize = found.iter().map(|(_, times)| times).sum();
    let loads = found
        .iter()
        .map(|(rps, times)| format!("{}/s ({times}×)", rate(*rps)));
    let loads = loads.collect::<Vec<_>>().join(", ");
    (all > REPEATS_TOLD_MAX).then(|| t::MEASURED_AGAIN.with(lang, &[("loads", &loads)]))
}

/// How much load lies between the first row that is not ok and the limit.
fn early_warning(found: &CellFindings, lang: Lang) -> Option<String> {
    let (sustained, warning) = (found.sustained_rps?, found.first_warning_rps?);
    (warning < sustained).then(|| {
        let margin = percent((sustained / warning - 1.0) * 100.0);
        t::EARLY_WARNING.with(lang, &[("load", &rate(warning)), ("margin", &margin)])
    })
}

fn past_the_limit(steps: &[&Step], found: &CellFindings, lang: Lang) -> Vec<String> {
    let mut out = Vec::new();
    let breaking = steps
        .iter()
        .find(|step| Some(step.target_rps) == found.breaking_rps);
    out.extend(breaking.map(|step| {
        let (at, failed) = (rate(step.target_rps), percent(step.fail_percent()));
        let kinds = failure_kinds(step);
        t::BREAKING.with(
            lang,
            &[("load", &at), ("percent", &failed), ("kinds", &kinds)],
        )
    }));
    out.extend(
        found
            .cliff_margin
            .filter(|margin| *margin > 0.0)
            .map(|margin| t::COLLAPSE_AT.with(lang, &[("percent", &percent(margin * 100.0))])),
    );
    out.extend(found.retention.map(|(over, kept)| {
        let class = retention_class(kept).of(lang);
        let (over, kept) = (significant(over), percent(kept * 100.0));
        t::PAST_LIMIT.with(
            lang,
            &[("times", &over), ("percent", &kept), ("class", class)],
        )
    }));
    out
}

/// Graceful, degrading or collapse, by the share of the peak goodput that remains.
pub(crate) fn retention_class(kept: f64) -> Text {
    match kept {
        kept if kept >= GRACEFUL => t::GRACEFUL,
        kept if kept >= COLLAPSE => t::DEGRADING,
        _ => t::COLLAPSING,
    }
}

/// Says where the mean response is far above that of a single queue (M/D/1) at the same utilisation, for the highest
/// row under [`QUEUE_UP_TO`] of the sustained load: then something else adds latency.
fn beyond_a_queue(steps: &[&Step], found: &CellFindings, lang: Lang) -> Option<String> {
    let sustained = found.sustained_rps?;
    let floor = steps.first()?.service.all.as_ref()?.p50_us;
    let step = steps
        .iter()
        .rev()
        .find(|step| step.holds() && step.target_rps <= sustained * QUEUE_UP_TO)?;
    let mean = step.response.all.as_ref()?.mean_us;
    let used = step.target_rps / sustained;
    let expected = floor * (1.0 + used / (2.0 * (1.0 - used)));
    let times = mean / expected;
    (times.is_finite() && times > QUEUE_TIMES).then(|| {
        t::MEAN_BEYOND_QUEUE.with(
            lang,
            &[
                ("load", &rate(step.target_rps)),
                ("percent", &percent(used * 100.0)),
                ("mean", &latency(mean)),
                ("times", &significant(times)),
                ("service", &latency(floor)),
            ],
        )
    })
}

fn allow_against_deny(step: &Step, lang: Lang) -> Option<String> {
    let allow = latency(step.response.allow.as_ref()?.p50_us);
    let deny = latency(step.response.deny.as_ref()?.p50_us);
    Some(t::ALLOW_AGAINST_DENY.with(lang, &[("allow", &allow), ("deny", &deny)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Level;
    use crate::record::capacity::{CapacityRecord, GoalResult};

    #[test]
    fn a_row_that_contradicts_the_search_is_named_with_what_decided() {
        let trial = |held: bool| Trial {
            load_rps: 500.0,
            duration_s: 1.0,
            purpose: "confirm".into(),
            kept: vec![held],
            counted: true,
            ..Trial::default()
        };
        let mut cell = Cell {
            steps: vec![Step {
                target_rps: 500.0,
                ..Step::default()
            }],
            capacity: Some(CapacityRecord {
                goals: vec![GoalResult::default()],
                trials: vec![trial(true), trial(false), trial(true)],
                ..CapacityRecord::default()
            }),
            ..Cell::default()
        };
        let found = CellFindings {
            sustained_rps: Some(500.0),
            ..CellFindings::default()
        };
        let said = |cell: &Cell| contrary_row(cell, &cell.by_load(), &found, Lang::En);
        assert_eq!(said(&cell), None);
        cell.steps[0].status.level = Level::Degraded;
        let text = said(&cell).unwrap();
        assert!(text.contains("500/s") && text.contains("2 of 3"), "{text}");
    }

    #[test]
    fn many_repeated_rows_are_told_in_one_line() {
        let step = |target_rps: f64, times: usize| Step {
            target_rps,
            notes: (1..=times)
                .map(|start| format!("start {start}: measured again, because a door was open"))
                .chain(["the kettle whistled".into()])
                .collect(),
            ..Step::default()
        };
        let few = [step(1_000.0, 1), step(2_000.0, 2)];
        let told = |steps: &[Step]| step_notes(&steps.iter().collect::<Vec<_>>(), Lang::En);
        assert_eq!(told(&few).len(), 3, "{:?}", told(&few));
        let many = told(&[step(1_000.0, 1), step(2_000.0, 3)]);
        assert_eq!(many[0], "At 1,000/s, 2,000/s: the kettle whistled");
        assert!(
            many[1].ends_with("1,000/s (1×), 2,000/s (3×)"),
            "{}",
            many[1]
        );
        assert_eq!(many.len(), 2);
    }
}
