//! Results per system and the direct comparison.

use crate::record::Cell;

use super::super::findings::{CellFindings, Ranked, ScenarioFindings, over_admission};
use super::super::format::{ms, or_dash, percent, rate, significant};
use super::super::lang::{Lang, page as t};
use super::super::observations::observations;
use super::super::rows::LadderRow;
use super::super::words;
use super::{Document, text};

impl Document<'_> {
    /// One section per target with the ladders of the study's shape and observations below each.
    pub(super) fn details(&mut self) {
        let record = self.record;
        let mut targets: Vec<&str> = Vec::new();
        for cell in &record.cells {
            if !targets.contains(&cell.target.as_str()) {
                targets.push(&cell.target);
            }
        }
        for target in targets {
            let title = t::MD_DETAILS.with(self.lang, &[("target", &text(target))]);
            self.section(&title);
            let line = format!("{}\n", self.say(t::MD_LATENCY_NOTE));
            self.line(&line);
            for cell in record.cells.iter().filter(|cell| cell.target == target) {
                self.ladder(cell);
            }
        }
    }

    fn ladder(&mut self, cell: &Cell) {
        let found = CellFindings::of(cell);
        self.heading(&cell.title());
        let titles = [
            t::H_OFFERED_RPS,
            t::H_SENT,
            t::H_DONE,
            t::H_GOODPUT,
            t::H_SUCCESS,
            t::H_FAILED,
            t::H_FAIL,
            t::H_AVG,
        ]
        .map(|title| self.say(title));
        let more = [
            t::H_LAG,
            t::H_GEN_CPU,
            t::H_SERVER_CPU,
            t::H_US_PER_OP,
            t::H_ADMIT,
            t::H_OVER_UNDER,
            t::H_STATUS,
            t::H_LABEL,
            t::H_VALID,
        ]
        .map(|title| self.say(title));
        let titles = [&titles[..], &["P50", "P95", "P99", "P99.9"], &more].concat();
        self.table(&titles, 0);
        for step in cell.by_load() {
            let r = LadderRow::of(step);
            let status = format!("{} {}", r.level.icon(), words::level(r.level, self.lang));
            self.row(&[
                r.target,
                r.sent,
                r.done,
                r.goodput,
                r.success,
                r.failed,
                r.fail_percent,
                r.mean_ms,
                r.p50_ms,
                r.p95_ms,
                format!("**{}**", r.p99_ms),
                r.p99_9_ms,
                r.lag_p99_ms,
                r.generator_cpu,
                r.server_cpu,
                r.server_us_per_op,
                r.admit,
                r.accuracy,
                status,
                words::label(r.label, self.lang).into(),
                words::grade(r.grade, self.lang).into(),
            ]);
        }
        let line = format!("\n{}:\n", self.say(t::MD_OBSERVATIONS));
        self.line(&line);
        for observation in observations(cell, &found, self.lang) {
            let line = format!("- {}", text(&observation));
            self.line(&line);
        }
    }

    /// The study's tables 6.1 (throughput) and 6.2 (P99 at comparable load), per scenario.
    pub(super) fn comparison(&mut self) {
        self.section(self.say(t::MD_COMPARISON));
        let scenarios = self.scenarios.clone();
        for scenario in &scenarios {
            let lang = self.lang;
            self.heading(&scenario.title(lang));
            let line = format!("{}\n", scenario.intro(lang));
            self.line(&line);
            let titles = [
                t::H_TARGET,
                t::H_OPERATION,
                t::H_HELD,
                t::H_NOT_HELD,
                t::H_SAFE,
                t::H_PEAK,
            ]
            .map(|title| self.say(title));
            let more = [self.say(t::H_SERVER_CPU_OP), self.say(t::H_OVER)];
            self.table(&[&titles[..], &["P50 ms", "P99 ms"], &more].concat(), 2);
            for ranked in &scenario.ranked {
                self.row(&compared(scenario, ranked, self.lang));
            }
        }
    }
}

fn compared(scenario: &ScenarioFindings<'_>, ranked: &Ranked<'_>, lang: Lang) -> Vec<String> {
    let (cell, found) = (ranked.cell, &ranked.findings);
    let all = ranked.common.and_then(|step| step.response.all.as_ref());
    let cpu = ranked
        .common
        .and_then(|step| step.server)
        .and_then(|server| server.cpu_us_per_op);
    vec![
        text(&scenario.marked(&cell.target)),
        text(&cell.operation.title),
        format!("**{}**", found.held_text(lang)),
        or_dash(found.not_held_rps, rate),
        or_dash(found.safe_rps, rate),
        or_dash(found.peak_goodput_rps, rate),
        or_dash(all, |latency| ms(latency.p50_us)),
        or_dash(all, |latency| ms(latency.p99_us)),
        or_dash(cpu, significant),
        or_dash(over_admission(cell), |over| format!("{} %", percent(over))),
    ]
}
