//! Two systems head to head in each scenario.

use crate::record::{
    Cell, Grade, LatencySummary, Level, RateStatistics, STARTS_FOR_A_CLAIM, StartSample, Step,
};

use super::super::findings::{
    Advantage, CellFindings, Ranked, ScenarioFindings, advantage, near, over_starts,
};
use super::super::format::{DASH, latency, or_dash, percent, rate, ratio, significant};
use super::super::lang::{Lang, Text, decision as t};
use super::super::observations::retention_class;
use super::super::words::grade;

/// The best of a scenario, and the best other system that may be set against it.
pub(crate) struct Rivals<'a> {
    pub(crate) scenario: &'a ScenarioFindings<'a>,
    pub(crate) best: &'a Ranked<'a>,
    pub(crate) other: &'a Ranked<'a>,
}

/// The two of a scenario; `None` where there is no second system that kept its limits and was set up alike.
pub(crate) fn rivals<'a>(scenario: &'a ScenarioFindings<'a>) -> Option<Rivals<'a>> {
    let mut right = scenario.ranked.iter().filter(|r| !r.findings.over_admits);
    let best = right.next()?;
    let target = best.cell.target.as_str();
    let other = right.find(|other| {
        let alike = || scenario.differences(target, &other.cell.target).is_empty();
        other.cell.target != target && (scenario.unequal_allowed || alike())
    })?;
    Some(Rivals {
        scenario,
        best,
        other,
    })
}

impl Rivals<'_> {
    /// What is known of the loads that the two hold. Of ladders that enough starts climbed, what each start of the best held
    /// stands against what was too much for each start of the other: the difference is at least that.
    pub(crate) fn held(&self) -> Advantage {
        let found = advantage(&self.best.findings, &self.other.findings);
        if !matches!(found, Advantage::Between(..) | Advantage::AtLeast(_)) {
            return found;
        }
        let held = each_start(self.best.cell).map(|starts| starts.map(|(held, _)| held).collect());
        let above =
            each_start(self.other.cell).and_then(|starts| starts.map(|(_, above)| above).collect());
        let both = held.zip(above);
        let climbed =
            both.and_then(|(held, above): (Vec<f64>, Vec<f64>)| over_starts(&above, &held));
        climbed
            .filter(|found| matches!(found, Advantage::Shown { .. }))
            .unwrap_or(found)
    }

    /// Whether the best is shown to hold more.
    pub(crate) fn holds_more(&self) -> bool {
        matches!(self.held(), Advantage::Shown { .. })
    }

    /// The load at which both were measured: the rows near it may lie a little apart. `None` where one has none.
    pub(crate) fn common_text(&self) -> Option<String> {
        let (best, other) = (self.best.common?.target_rps, self.other.common?.target_rps);
        let (low, high) = (rate(best.min(other)), rate(best.max(other)));
        Some(match low == high {
            true => low,
            false => format!("{low}–{high}"),
        })
    }

    /// Starts behind the cells: the smaller number.
    pub(crate) fn n(&self) -> u32 {
        self.best.cell.starts().min(self.other.cell.starts())
    }

    /// A figure of every start of both at the load that all ran.
    fn of_starts(&self, pick: fn(&StartSample) -> Option<f64>) -> [Vec<f64>; 2] {
        [self.best, self.other].map(|ranked| {
            let load = ranked.common.map(|step| step.target_rps);
            load.map_or_else(Vec::new, |load| samples(ranked.cell, load, pick))
        })
    }

    /// What the starts say about a figure at that load of which less is better: `Some(true)` that the best one's is lower,
    /// `Some(false)` that the other's is; `None` that neither is shown.
    pub(crate) fn lower(&self, pick: fn(&StartSample) -> Option<f64>) -> Option<(bool, Advantage)> {
        let [best, other] = self.of_starts(pick);
        let shown =
            |found: Option<Advantage>| found.filter(|f| matches!(f, Advantage::Shown { .. }));
        // A figure of which less is better is lower where the other's is higher.
        let of_best = shown(over_starts(&best, &other)).map(|found| (true, found));
        of_best.or_else(|| shown(over_starts(&other, &best)).map(|found| (false, found)))
    }
}

/// The load that each start of a ladder held, and the lowest that was too much for it, if a row that may be believed shows one;
/// `None` where a search found the load, or the starts were not kept one by one.
fn each_start(cell: &Cell) -> Option<impl Iterator<Item = (f64, Option<f64>)>> {
    let found = cell.statistics.as_ref().filter(|_| !cell.is_searched())?;
    let mut rates: Vec<&RateStatistics> = found.rates.iter().collect();
    rates.sort_by(|a, b| a.target_rps.total_cmp(&b.target_rps));
    let mut out = Vec::new();
    for start in 1..=found.starts {
        let (mut held, mut above) = (0.0, None);
        for rate in &rates {
            let sample = rate.starts.iter().find(|sample| sample.start == start)?;
            if sample.level? <= Level::NearLimit {
                held = rate.target_rps;
                continue;
            }
            above = (sample.grade != Grade::Invalid).then_some(rate.target_rps);
            break;
        }
        out.push((held, above));
    }
    Some(out.into_iter())
}

fn samples(cell: &Cell, load: f64, pick: fn(&StartSample) -> Option<f64>) -> Vec<f64> {
    let rates = cell.statistics.iter().flat_map(|found| &found.rates);
    let at = rates
        .filter(|rate| (rate.target_rps - load).abs() <= load * 1e-6)
        .flat_map(|rate| &rate.starts);
    at.filter_map(pick).collect()
}

/// The study's card of results, for two systems of each scenario: what, the one, the other, and what is shown of the difference.
pub(crate) fn head_to_head(scenarios: &[ScenarioFindings<'_>], lang: Lang) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for pair in scenarios.iter().filter_map(rivals) {
        let title = pair.scenario.title(lang);
        let name =
            |text: Text, more: &str| text.with(lang, &[("scenario", &title), ("load", more)]);
        let sides = |of: &dyn Fn(&Ranked<'_>) -> String| {
            [pair.other, pair.best].map(|ranked| format!("{}: {}", ranked.cell.target, of(ranked)))
        };
        let [a, b] = sides(&|ranked| or_dash(ranked.findings.sustained_rps, rate));
        rows.push([name(t::D_MAX, ""), a, b, gain(&pair, lang)]);
        let [a, b] = sides(&|ranked| or_dash(ranked.findings.safe_rps, rate));
        rows.push([name(t::D_SAFE, ""), a, b, safe_gain(&pair, lang)]);
        if let Some(load) = pair.common_text() {
            let p99 = |ranked: &Ranked<'_>| or_dash(ranked.common, |step| p99_of(step, lang));
            let [a, b] = sides(&p99);
            rows.push([name(t::D_P99, &load), a, b, faster(&pair, lang)]);
        }
        let past = |ranked: &&Ranked<'_>| ranked.findings.retention.is_some();
        if [pair.other, pair.best].iter().any(past) {
            let pattern = |ranked: &Ranked<'_>| failure(&ranked.findings, lang);
            let [a, b] = sides(&pattern);
            rows.push([name(t::D_PATTERN, ""), a, b, DASH.into()]);
        }
    }
    rows
}

/// The latencies of a row that may be believed.
fn believed(step: Option<&Step>) -> Option<&LatencySummary> {
    let step = step.filter(|step| step.validity.grade != Grade::Invalid)?;
    step.response.all.as_ref()
}

/// The P99 of a row, and that it is not to be believed where that is so.
fn p99_of(step: &Step, lang: Lang) -> String {
    let text = or_dash(step.response.all.as_ref(), |all| latency(all.p99_us));
    match step.validity.grade {
        Grade::Invalid => format!("{text} ({})", grade(Grade::Invalid, lang)),
        _ => text,
    }
}

/// `graceful (96 % @ 1.1×)`: what is left past the limit.
pub(super) fn failure(found: &CellFindings, lang: Lang) -> String {
    or_dash(found.retention, |(times, kept)| {
        let class = retention_class(kept).of(lang);
        format!("{class} ({} % @ {})", percent(kept * 100.0), ratio(times))
    })
}

/// By how much the best holds more, with what that rests on.
fn gain(pair: &Rivals<'_>, lang: Lang) -> String {
    let n = pair.n().to_string();
    let more = |factor: f64| percent((factor - 1.0) * 100.0);
    match pair.held() {
        Advantage::Shown {
            ratio: factor,
            within: (low, high),
            n,
            p,
        } => gain_text(pair).with(
            lang,
            &[
                ("percent", &more(factor)),
                ("low", &significant(low)),
                ("high", &significant(high)),
                ("n", &n.to_string()),
                ("p", &format!("{p:.3}")),
            ],
        ),
        Advantage::Between(low, high) => t::D_GAIN_BETWEEN.with(
            lang,
            &[("low", &more(low)), ("high", &more(high)), ("n", &n)],
        ),
        Advantage::AtLeast(low) => t::D_GAIN_LEAST.with(lang, &[("low", &more(low)), ("n", &n)]),
        Advantage::NotShown | Advantage::Open => t::D_NOT_SHOWN.with(lang, &[("n", &n)]),
    }
}

/// Rungs of ladders show how much it is at least.
fn gain_text(pair: &Rivals<'_>) -> Text {
    match pair.best.cell.is_searched() {
        true => t::D_GAIN_SHOWN,
        false => t::D_GAIN_SHOWN_LEAST,
    }
}

/// The safe loads follow from what was held, and are claimed where that is.
fn safe_gain(pair: &Rivals<'_>, lang: Lang) -> String {
    let safe = pair
        .best
        .findings
        .safe_rps
        .zip(pair.other.findings.safe_rps);
    match safe.filter(|(_, other)| *other > 0.0) {
        Some((best, other)) if pair.holds_more() => {
            let more = percent((best / other - 1.0) * 100.0);
            t::D_GAIN.with(lang, &[("percent", &more)])
        }
        _ => DASH.into(),
    }
}

/// By how much one's P99 is lower, with what that rests on; without enough starts what the merged rows say, as an indication.
fn faster(pair: &Rivals<'_>, lang: Lang) -> String {
    let n = pair.n().to_string();
    if let Some((
        best,
        Advantage::Shown {
            ratio: factor,
            within: (low, high),
            n,
            p,
        },
    )) = pair.lower(|start| start.p99_us)
    {
        let side = if best { pair.best } else { pair.other };
        return t::D_LOWER_SHOWN.with(
            lang,
            &[
                ("name", side.cell.target.as_str()),
                ("times", &ratio(factor)),
                ("low", &significant(low)),
                ("high", &significant(high)),
                ("n", &n.to_string()),
                ("p", &format!("{p:.3}")),
            ],
        );
    }
    if pair.n() >= STARTS_FOR_A_CLAIM {
        return t::D_NOT_SHOWN.with(lang, &[("n", &n)]);
    }
    let both = believed(pair.best.common).zip(believed(pair.other.common));
    or_dash(
        both.filter(|(best, other)| best.p99_us > 0.0 && other.p99_us > 0.0),
        |(best, other)| {
            let times = other.p99_us / best.p99_us;
            let (lower, times) = match times >= 1.0 {
                true => (pair.best, times),
                false => (pair.other, 1.0 / times),
            };
            let name = lower.cell.target.as_str();
            t::D_TIMES_INDICATED.with(lang, &[("name", name), ("times", &ratio(times)), ("n", &n)])
        },
    )
}

/// The row of a cell at its highest load held, for the latency there.
pub(crate) fn at_the_knee<'a>(cell: &'a Cell, found: &CellFindings) -> Option<&'a Step> {
    near(cell, found.sustained_rps?)
}
