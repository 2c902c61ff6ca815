//! `README.md` of a run, in the order of the study's report: summary, overview, testbed, method, results per system, direct
//! comparison, analysis, recommendation, conclusion, appendix.

mod compare;
mod decide;
mod paper;
mod results;

use crate::record::{Cell, RunRecord};

use super::circumstances::{command, info_lines, run_rows, target_line};
use super::findings::{ScenarioFindings, scenarios};
use super::format::{count, printable, rate, seconds};
use super::html::thresholds;
use super::lang::recorded::in_language;
use super::lang::{Lang, Text, decision as d, mitigations as mi, page as t};
use super::{mitigations, verdict, words};

pub use compare::compare;

/// A document being written.
pub(super) struct Document<'a> {
    pub(super) out: String,
    pub(super) record: &'a RunRecord,
    pub(super) scenarios: Vec<ScenarioFindings<'a>>,
    pub(super) lang: Lang,
    section: u32,
}

/// The Markdown of a run.
pub(crate) fn run(record: &RunRecord, lang: Lang) -> String {
    let record = &*in_language(record, lang);
    let mut document = Document {
        out: format!("# {}\n\n", t::MD_TITLE.of(lang)),
        record,
        scenarios: scenarios(record),
        lang,
        section: 0,
    };
    document.facts();
    document.contents();
    document.summary();
    // Tests of a study offer no load, from which these parts follow.
    let loads = record.tests_of_study().is_none();
    if loads {
        document.overview();
    }
    document.testbed();
    document.method();
    if loads {
        document.details();
        document.mitigations();
    }
    document.paper();
    if loads {
        document.comparison();
    }
    document.analysis();
    if loads {
        document.recommendation();
        document.conclusion();
    }
    document.appendix();
    document.out
}

impl Document<'_> {
    pub(super) fn say(&self, text: Text) -> &'static str {
        text.of(self.lang)
    }

    pub(super) fn line(&mut self, line: &str) {
        push_line(&mut self.out, line);
    }

    /// A numbered heading of the study's kind.
    pub(super) fn section(&mut self, title: &str) {
        self.section += 1;
        let line = format!("\n## {}. {title}\n", self.section);
        self.line(&line);
    }

    pub(super) fn heading(&mut self, title: &str) {
        let line = format!("\n### {}\n", text(title));
        self.line(&line);
    }

    pub(super) fn table(&mut self, titles: &[&str], words: usize) {
        head(&mut self.out, titles, words);
    }

    pub(super) fn row(&mut self, fields: &[String]) {
        row(&mut self.out, fields);
    }

    fn facts(&mut self) {
        let (record, lang) = (self.record, self.lang);
        let manifest = &record.manifest;
        let run = t::TERMINAL_GRADE.with(
            lang,
            &[
                ("grade", words::grade(record.validity.grade, lang)),
                ("whole", words::whole(record.complete, lang)),
                ("profile", &record.profile.name),
            ],
        );
        let steps = || record.cells.iter().flat_map(|cell| &cell.steps);
        let modes: Vec<String> = self.scenarios.iter().map(|s| s.title(lang)).collect();
        let lengths = record.cells.iter().flat_map(Cell::lengths_s);
        let lengths = range(lengths, |s| seconds(s, lang));
        let loads = range(steps().map(|step| step.target_rps), rate);
        let mut facts = vec![(t::MD_TEST_DATE, manifest.started_at.clone())];
        facts.extend((!modes.is_empty()).then(|| (t::MD_MODE, modes.join("; "))));
        facts.extend(lengths.map(|text| (t::MD_STEP, text)));
        facts.extend(loads.map(|text| (t::MD_RANGE, format!("{text} RPS"))));
        facts.push((t::M_DURATION, seconds(manifest.duration_s, self.lang)));
        facts.push((t::MD_RUN, run));
        facts.push((t::M_COMMAND, command(&manifest.command_line)));
        for (name, value) in facts {
            quote(&mut self.out, name.of(lang), &value);
        }
    }

    fn contents(&mut self) {
        let title = format!("\n{}:\n", self.say(t::MD_CONTENTS));
        self.line(&title);
        for name in [
            t::MD_SUMMARY,
            t::MD_OVERVIEW,
            t::MD_TESTBED,
            t::MD_METHOD,
            t::CARD_LADDER,
            mi::CARD_MITIGATIONS,
            t::CARD_PAPER,
            t::MD_COMPARISON,
            t::MD_ANALYSIS,
            t::MD_RECOMMENDATION,
            t::MD_CONCLUSION,
            t::MD_APPENDIX,
        ] {
            if name == mi::CARD_MITIGATIONS && mitigations::of(self.record).is_none() {
                continue;
            }
            if name == t::CARD_PAPER && self.record.paper.is_none() {
                continue;
            }
            let of_loads = [
                t::MD_OVERVIEW,
                t::CARD_LADDER,
                t::MD_COMPARISON,
                t::MD_RECOMMENDATION,
                t::MD_CONCLUSION,
            ];
            if of_loads.contains(&name) && self.record.tests_of_study().is_some() {
                continue;
            }
            let line = format!("- {}", self.say(name));
            self.line(&line);
        }
    }

    fn overview(&mut self) {
        self.section(self.say(t::MD_OVERVIEW));
        let answered = [
            (t::MD_Q_MAX, t::MD_COMPARISON),
            (t::MD_Q_PATTERN, t::CARD_LADDER),
            (t::MD_Q_SAFE, t::MD_RECOMMENDATION),
            (t::MD_Q_BETTER, t::MD_CONCLUSION),
        ];
        self.table(
            &["#", self.say(t::MD_QUESTIONS), self.say(t::MD_ANSWERED)],
            3,
        );
        for (at, (question, answer)) in answered.into_iter().enumerate() {
            let fields = [
                (at + 1).to_string(),
                self.say(question).into(),
                self.say(answer).into(),
            ];
            self.row(&fields);
        }
    }

    fn testbed(&mut self) {
        self.section(self.say(t::MD_TESTBED));
        self.table(&[self.say(t::MD_COMPONENT), self.say(t::MD_SETTING)], 2);
        let record = self.record;
        for (name, value) in run_rows(record, self.lang) {
            self.row(&[name.into(), text(&value)]);
        }
        for target in &record.targets {
            self.row(&[text(&target.name), text(&target_line(target, self.lang))]);
        }
    }

    fn method(&mut self) {
        self.section(self.say(t::MD_METHOD));
        if self.record.tests_of_study().is_some() {
            let line = format!("{}\n", self.say(t::METHOD_TESTS));
            self.line(&line);
            return;
        }
        let line = format!("{}\n", self.say(t::METHOD_OPEN_LOOP));
        self.line(&line);
        if self.record.cells.iter().any(|cell| cell.load.closed_loop) {
            let line = format!("{}\n", self.say(t::METHOD_CLOSED_LOOP));
            self.line(&line);
        }
        let titles = [
            self.say(t::H_SCENARIO),
            self.say(t::MD_DISTRIBUTION),
            self.say(t::MD_KEYS),
        ];
        self.table(&titles, 2);
        let mut seen: Vec<&str> = Vec::new();
        for cell in &self.record.cells {
            let scenario = &cell.scenario;
            if !seen.contains(&scenario.name.as_str()) {
                seen.push(&scenario.name);
                let fields = [
                    text(&scenario.title),
                    text(&scenario.distribution),
                    count(scenario.keys),
                ];
                self.row(&fields);
            }
        }
        self.heading(self.say(t::MD_THRESHOLDS));
        let titles =
            [t::H_METRIC, t::H_GOOD, t::H_WARNING, t::H_CRITICAL].map(|title| self.say(title));
        self.table(&titles, 4);
        for fields in thresholds(&self.record.profile, self.lang) {
            self.row(&fields);
        }
        let line = format!("\n{}", self.say(t::METHOD_LEVELS));
        self.line(&line);
    }

    fn mitigations(&mut self) {
        let Some(found) = mitigations::of(self.record) else {
            return;
        };
        self.section(self.say(mi::CARD_MITIGATIONS));
        let line = text(&mitigations::intro(found, self.lang));
        self.line(&line);
        for (scenario, rows) in mitigations::by_scenario(found) {
            self.heading(&mitigations::title(self.record, scenario));
            let titles = mitigations::HEADS.map(|title| self.say(title));
            self.table(&titles, 1);
            for row in rows {
                let fields: Vec<String> = mitigations::fields(row, self.lang)
                    .iter()
                    .map(|field| text(field))
                    .collect();
                self.row(&fields);
            }
        }
    }

    fn conclusion(&mut self) {
        self.section(self.say(t::MD_CONCLUSION));
        for (at, sentence) in verdict::run(self.record, self.lang).iter().enumerate() {
            let line = format!("{}. {}", at + 1, text(sentence));
            self.line(&line);
        }
        self.decision();
    }

    fn appendix(&mut self) {
        self.section(self.say(t::MD_APPENDIX));
        self.heading(self.say(t::MD_ARTIFACTS));
        self.line(self.say(t::MD_FILES));
        self.heading(self.say(d::D_INFRASTRUCTURE));
        self.line(self.say(d::D_INFRASTRUCTURE_FILES));
        self.heading(self.say(t::MD_REPRODUCE));
        let line = format!(
            "```\n{}\n```",
            command(&self.record.manifest.command_line).replace("```", "` ` `")
        );
        self.line(&line);
        for target in &self.record.targets {
            let info = info_lines(target);
            if !info.is_empty() {
                let name = t::INFO_SERVER.with(self.lang, &[("target", &target.name)]);
                self.heading(&name);
                let block = info.join("\n").replace("```", "` ` `");
                self.line(&format!("```\n{block}\n```"));
            }
        }
        self.heading(self.say(t::CARD_GLOSSARY));
        for (term, meaning) in super::html::GLOSSARY {
            let line = format!("- **{}**: {}", self.say(term), self.say(meaning));
            self.line(&line);
        }
    }
}

/// `1.5 s` or `1.0 s – 2.0 s`; `None` without values.
fn range(values: impl Iterator<Item = f64>, show: impl Fn(f64) -> String) -> Option<String> {
    let ends =
        values
            .filter(|value| value.is_finite())
            .fold(None, |ends: Option<(f64, f64)>, v| {
                Some(ends.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
            });
    let (low, high) = ends?;
    let (low, high) = (show(low), show(high));
    Some(if low == high {
        low
    } else {
        format!("{low} – {high}")
    })
}

fn quote(out: &mut String, name: &str, value: &str) {
    push_line(out, &format!("> **{name}**: {}  ", text(value)));
}

/// Text that cannot break a table or start markup.
pub(super) fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in printable(raw).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '|' | '*' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Heading of a table; the first `words` columns stand left, the others right.
pub(super) fn head(out: &mut String, titles: &[&str], words: usize) {
    push_line(out, &format!("| {} |", titles.join(" | ")));
    let marks: Vec<&str> = (0..titles.len())
        .map(|at| if at < words { ":--" } else { "--:" })
        .collect();
    push_line(out, &format!("| {} |", marks.join(" | ")));
}

pub(super) fn row(out: &mut String, fields: &[String]) {
    push_line(out, &format!("| {} |", fields.join(" | ")));
}

pub(super) fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}
