//! Summary, analysis and recommendation: what the numbers are for.

use crate::record::{Accuracy, Cell, Step};

use super::super::advice::thresholds::{BENCH, PROD, rows};
use super::super::advice::{capacities, matrix, tiers};
use super::super::capacity::recovery;
use super::super::findings::{CellFindings, near, worst_stretch};
use super::super::format::{
    capitalized, latency, or_dash, percent, rate, ratio, seconds, significant,
};
use super::super::lang::{advice as a, decision as d, page as t};
use super::super::observations::retention_class;
use super::super::rows::{allowed_text, limit_text};
use super::super::{decision, failures, verdict, words};
use super::{Document, text};

impl Document<'_> {
    /// The verdict, and the rows of the study's executive summary for the best cell of every scenario.
    pub(super) fn summary(&mut self) {
        let title = format!("\n## {}\n", self.say(t::MD_SUMMARY));
        self.line(&title);
        for sentence in verdict::run(self.record, self.lang) {
            let line = format!("- {}", text(&sentence));
            self.line(&line);
        }
        let best: Vec<(String, &Cell)> = self
            .scenarios
            .iter()
            .filter_map(|scenario| Some((scenario.title(self.lang), scenario.ranked.first()?.cell)))
            .collect();
        if best.is_empty() {
            return;
        }
        self.heading(self.say(t::MD_KEY_METRICS));
        let heads: Vec<String> = best
            .iter()
            .map(|(scenario, cell)| format!("{}: {}", text(scenario), text(&cell.target)))
            .collect();
        let mut titles = vec![self.say(t::H_METRIC)];
        titles.extend(heads.iter().map(String::as_str));
        self.table(&titles, 1);
        let rows = [
            t::MD_RECOMMENDED_MAX,
            t::MD_STABILITY,
            t::MD_BREAKING,
            t::MD_OPTIMAL_P99,
            t::MD_ACCEPTABLE_P99,
            t::MD_FAILURE_PATTERN,
        ];
        let columns: Vec<[String; 6]> = best
            .iter()
            .map(|(_, cell)| self.key_metrics(cell))
            .collect();
        for (at, name) in rows.into_iter().enumerate() {
            let mut fields = vec![self.say(name).to_owned()];
            fields.extend(columns.iter().map(|column| column[at].clone()));
            self.row(&fields);
        }
        self.head_to_head();
    }

    /// The study's card of results for two systems: each figure with what its difference rests on.
    fn head_to_head(&mut self) {
        let rows = match self.record.mitigations {
            Some(_) => Vec::new(),
            None => decision::head_to_head(&self.scenarios, self.lang),
        };
        if rows.is_empty() {
            return;
        }
        self.heading(self.say(d::D_HEAD_TO_HEAD));
        let line = format!("{}\n", self.say(d::D_HEAD_INTRO));
        self.line(&line);
        let titles = [d::D_METRIC, d::D_OTHER, d::D_BEST, d::D_DIFFERENCE];
        let titles = titles.map(|title| self.say(title));
        self.table(&titles, 4);
        for fields in rows {
            self.row(&fields.map(|field| text(&field)));
        }
    }

    /// What to do at which load, the criteria with their winners, and the winner of all of them, if there is one.
    pub(super) fn decision(&mut self) {
        let (record, lang) = (self.record, self.lang);
        let scenarios = self.scenarios.clone();
        let advice = decision::advice(record, &scenarios, lang);
        if !advice.is_empty() {
            self.heading(self.say(d::D_DECISION));
            self.table(&[self.say(d::D_SITUATION), self.say(d::D_ANSWER)], 2);
            for one in advice {
                self.row(&[text(&one.situation), text(&one.answer)]);
            }
        }
        let Some(found) = decision::verdicts(record, &scenarios, lang) else {
            return;
        };
        self.heading(self.say(d::D_VERDICT));
        let line = format!("{}\n", self.say(d::D_VERDICT_INTRO));
        self.line(&line);
        let titles = [d::D_CRITERION, d::D_WINNER, d::D_MEASURED];
        self.table(&titles.map(|title| self.say(title)), 3);
        for fields in found.rows {
            self.row(&fields.map(|field| text(&field)));
        }
        let line = format!("\n**{}**", text(&found.overall));
        self.line(&line);
    }

    /// Threshold breach, recovery and cascading of every system.
    fn lessons(&mut self) {
        let Some(found) = decision::lessons(self.record, self.lang) else {
            return;
        };
        self.heading(self.say(d::D_LESSONS));
        let heads: Vec<&str> = found.heads.iter().map(String::as_str).collect();
        self.table(&heads, heads.len());
        for fields in found.rows {
            let fields: Vec<String> = fields.iter().map(|field| text(field)).collect();
            self.row(&fields);
        }
        for sentence in found.untried {
            self.line(&format!("\n{sentence}"));
        }
    }

    /// Failed requests by kind.
    fn failures(&mut self) {
        let rows = failures::rows(self.record);
        if rows.is_empty() {
            return;
        }
        self.heading(self.say(d::D_FAILURES));
        let heads = failures::heads(self.lang);
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        self.table(&heads, 1);
        for fields in rows {
            let fields: Vec<String> = fields.iter().map(|field| text(field)).collect();
            self.row(&fields);
        }
    }

    fn key_metrics(&self, cell: &Cell) -> [String; 6] {
        let found = CellFindings::of(cell);
        let with_failures = |step: &Step| {
            let (load, failed) = (rate(step.target_rps), percent(step.fail_percent()));
            t::MD_WITH_FAILURES.with(self.lang, &[("load", &load), ("percent", &failed)])
        };
        let at = |rps: Option<f64>| rps.and_then(|rps| near(cell, rps));
        let rows = cell.by_load();
        let up_to = |rps: f64| rows.iter().rev().find(|step| step.target_rps <= rps);
        let held = found.sustained_rps.and_then(up_to).copied();
        let p99 = |step: Option<&Step>| {
            let found = step.and_then(|step| Some((step, step.response.all.as_ref()?)));
            or_dash(found, |(step, all)| {
                let (value, load) = (latency(all.p99_us), rate(step.target_rps));
                t::MD_AT.with(self.lang, &[("value", &value), ("load", &load)])
            })
        };
        [
            or_dash(found.safe_rps, rate),
            or_dash(found.sustained_rps, |rps| match held {
                Some(step) if step.target_rps == rps => with_failures(step),
                _ => format!("{}/s", rate(rps)),
            }),
            or_dash(at(found.breaking_rps), with_failures),
            p99(cell.by_load().into_iter().find(|step| step.holds())),
            p99(held),
            or_dash(found.retention, |(times, kept)| {
                let class = self.say(retention_class(kept));
                format!("{class} ({} % @ {})", percent(kept * 100.0), ratio(times))
            }),
        ]
    }

    /// Accuracy, failure patterns, events and validity.
    pub(super) fn analysis(&mut self) {
        self.section(self.say(t::MD_ANALYSIS));
        self.failure_patterns();
        self.lessons();
        self.recoveries();
        self.failures();
        self.bottlenecks();
        self.accuracy();
        self.events();
        self.validity();
    }

    fn failure_patterns(&mut self) {
        let titles = [
            t::H_CELL,
            t::H_RETENTION,
            t::H_CLASS,
            t::H_CLIFF,
            t::H_WARNING_MARGIN,
        ]
        .map(|title| self.say(title));
        let mut rows = Vec::new();
        for cell in &self.record.cells {
            let found = CellFindings::of(cell);
            let Some((times, kept)) = found.retention else {
                continue;
            };
            let warning = found.sustained_rps.zip(found.first_warning_rps);
            rows.push([
                text(&cell.title()),
                format!("{} % @ {}", percent(kept * 100.0), ratio(times)),
                self.say(retention_class(kept)).to_owned(),
                or_dash(found.cliff_margin, |margin| {
                    format!("{} %", percent(margin * 100.0))
                }),
                or_dash(warning, |(held, first)| {
                    format!("{} %", percent((held / first - 1.0).max(0.0) * 100.0))
                }),
            ]);
        }
        if rows.is_empty() {
            return;
        }
        self.heading(self.say(t::MD_FAILURE_COMPARISON));
        self.table(&titles, 1);
        for fields in rows {
            self.row(&fields);
        }
    }

    /// Measured, and not inferred from steps that ran after one another.
    fn recoveries(&mut self) {
        let record = self.record;
        let mut told = false;
        for cell in record.cells.iter().filter(|cell| cell.recovery.is_some()) {
            match std::mem::replace(&mut told, true) {
                false => self.heading(self.say(t::MD_RECOVERY)),
                // Without it the name would belong to the list above.
                true => self.line(""),
            }
            let line = format!("{}:\n", text(&cell.title()));
            self.line(&line);
            for found in recovery(cell, self.lang) {
                let line = format!("- {}", text(&capitalized(&found)));
                self.line(&line);
            }
        }
    }

    fn bottlenecks(&mut self) {
        let mut lines = Vec::new();
        for cell in &self.record.cells {
            let steps = cell.by_load();
            let last = steps.iter().rev().find_map(|step| {
                let sentence = &step.attribution.as_ref()?.bottleneck.sentence;
                (!sentence.is_empty()).then_some((step.target_rps, sentence.as_str()))
            });
            lines.extend(last.map(|(rps, sentence)| {
                format!(
                    "- {} @ {}/s: {}",
                    text(&cell.title()),
                    rate(rps),
                    text(sentence)
                )
            }));
        }
        if lines.is_empty() {
            return;
        }
        self.heading(self.say(t::CARD_BOTTLENECK));
        for line in lines {
            self.line(&line);
        }
    }

    fn accuracy(&mut self) {
        let judged: Vec<(&Cell, &Accuracy)> = self
            .record
            .cells
            .iter()
            .filter_map(|cell| Some((cell, cell.accuracy.as_ref()?)))
            .collect();
        if judged.is_empty() {
            return;
        }
        self.heading(self.say(t::CARD_ACCURACY));
        let titles = [
            t::H_CELL,
            t::H_LIMIT,
            t::H_OFFERED,
            t::H_ADMITTED,
            t::H_ALLOWED,
            t::H_OVER_UNDER,
            t::H_WORST,
            t::H_FAIRNESS,
        ]
        .map(|title| self.say(title));
        self.table(&titles, 1);
        for (cell, found) in judged {
            let (over, under) = (found.over_admission_percent, found.under_admission_percent);
            self.row(&[
                text(&format!("{} ({})", cell.title(), found.algorithm)),
                limit_text(cell, found.window_ms, self.lang),
                rate(found.offered as f64),
                rate(found.admitted as f64),
                allowed_text(found),
                format!("{} / {}", percent(over), percent(under)),
                or_dash(worst_stretch(cell), |times| format!("{} L", ratio(times))),
                or_dash(found.fairness_jain, significant),
            ]);
        }
    }

    fn events(&mut self) {
        if self.record.events.is_empty() {
            return;
        }
        self.heading(self.say(t::CARD_EVENTS));
        for event in &self.record.events {
            let target = event.target.as_deref();
            let target = target.map_or(String::new(), |name| format!("{name}: "));
            let line = format!(
                "- {}: {}{}",
                seconds(event.offset_s, self.lang),
                text(&target),
                text(&event.text)
            );
            self.line(&line);
        }
    }

    fn validity(&mut self) {
        self.heading(self.say(t::CARD_VALIDITY));
        let (record, lang) = (self.record, self.lang);
        let grade = format!("**{}**", words::grade(record.validity.grade, lang));
        let why = record.partial_reason.as_deref();
        let why = why.map_or(String::new(), |why| format!(" ({})", text(why)));
        let line = t::RUN_IS.with(
            lang,
            &[
                ("grade", &grade),
                ("whole", words::whole(record.complete, lang)),
                ("why", &why),
            ],
        );
        self.line(&format!("{line}\n"));
        for reason in &record.validity.reasons {
            self.line(&format!("- {}", text(reason)));
        }
        for skipped in &record.skipped {
            let (name, why) = (text(&skipped.name), text(&skipped.reason));
            self.line(&format!(
                "- {}",
                t::NOT_MEASURED.with(lang, &[("name", &name), ("why", &why)])
            ));
        }
    }

    /// Capacity matrix, safe and red zones, and the thresholds to watch.
    pub(super) fn recommendation(&mut self) {
        self.section(self.say(t::MD_RECOMMENDATION));
        let lang = self.lang;
        let capacities = capacities(self.record);
        for capacity in &capacities {
            let cell = text(&capacity.cell.title());
            let (safe, held) = (rate(capacity.safe_rps), rate(capacity.sustained_rps));
            let safe = t::MD_SAFE_ZONE.with(lang, &[("safe", &safe), ("cell", &cell)]);
            let red = t::MD_RED_ZONE.with(lang, &[("load", &held), ("cell", &cell)]);
            self.line(&format!("- {safe} {red}"));
        }
        for scenario in &self.scenarios.clone() {
            // Strategies are ways to run one service, not services to choose from.
            let matrix = matrix::of(scenario).filter(|_| self.record.mitigations.is_none());
            let Some(matrix) = matrix else {
                continue;
            };
            let title = a::MATRIX_TITLE.with(lang, &[("scenario", &scenario.title(lang))]);
            self.heading(&title);
            let names: Vec<String> = matrix.systems.iter().map(|name| text(name)).collect();
            let mut titles = vec![self.say(a::MATRIX_LOAD)];
            titles.extend(names.iter().map(String::as_str));
            titles.push(self.say(a::MATRIX_DO));
            self.table(&titles, titles.len());
            for band in &matrix.bands {
                let mut fields = vec![band.title(lang)];
                let fit = |fit: &matrix::Fit| format!("{} {}", fit.sign(), fit.word().of(lang));
                fields.extend(band.fits.iter().map(fit));
                fields.push(text(&matrix.recommendation(band, lang)));
                self.row(&fields);
            }
        }
        if let Some(tiers) = tiers(&capacities, lang) {
            self.heading(self.say(a::TIERS_TITLE));
            for tier in tiers {
                self.line(&format!("- {}", text(&tier)));
            }
        }
        for capacity in &capacities {
            for (profile, thresholds) in [("prod", &PROD), ("bench", &BENCH)] {
                let target = text(&capacity.cell.target);
                let title = a::WATCH_TITLE.with(lang, &[("target", &target), ("profile", profile)]);
                self.line(&format!("\n### {title}\n"));
                let titles = [
                    t::H_METRIC,
                    t::H_GOOD,
                    t::H_WARNING,
                    t::H_CRITICAL,
                    t::H_ACTION,
                ]
                .map(|title| title.of(lang));
                self.table(&titles, 5);
                for fields in rows(thresholds, Some(capacity), lang) {
                    self.row(&fields);
                }
            }
        }
    }
}
