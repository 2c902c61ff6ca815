//! The migration checklist of the study (its section 8.5) as Markdown: what a run or Tollgate's own knowledge answers is filled in,
//! the rest is left open for whoever migrates.

mod systems;

pub(crate) use systems::System;

use crate::record::{Cell, Grade, RunRecord};

use super::advice::thresholds::{PROD, rows};
use super::advice::{Capacity, capacities};
use super::findings::{over_admission, scenarios};
use super::format::{DASH, latency, ms, or_dash, percent, rate, significant};
use super::lang::{Lang, Text, advice as t, page};
use super::markdown::{head, push_line, row, text};
use systems::{Facts, SETTINGS, TOPICS};

/// How many times the slowest usual answer a timeout should be.
const TIMEOUT_OF_P99_9: f64 = 3.0;

/// One line of the checklist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// True if a run answered it.
    pub(crate) done: bool,
    /// What is to be done, or was found.
    pub(crate) text: String,
}

/// A named part of the checklist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) items: Vec<Item>,
}

/// What the checklist is made from.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    /// System in use.
    pub from: System,
    /// System to move to.
    pub to: System,
    /// A run that measured one or both, if there is one.
    pub run: Option<&'a RunRecord>,
    /// Language of the text.
    pub lang: Lang,
}

impl<'a> Plan<'a> {
    fn names(&self) -> [(&'static str, &'static str); 2] {
        [("from", self.from.name()), ("to", self.to.name())]
    }

    fn say(&self, text: Text, more: &[(&str, &str)]) -> String {
        let names = self.names();
        text.with(self.lang, &[&names[..], more].concat())
    }

    fn cells(&self, system: System) -> Vec<&'a Cell> {
        let names = system.facts().targets;
        let all = self.run.map_or(&[][..], |run| run.cells.as_slice());
        all.iter()
            .filter(|cell| names.contains(&cell.target.as_str()) && !cell.steps.is_empty())
            .collect()
    }

    /// The measured capacity of a system: of its targets the one that holds most.
    fn capacity(&self, system: System) -> Option<Capacity<'a>> {
        let names = system.facts().targets;
        capacities(self.run?)
            .into_iter()
            .filter(|capacity| names.contains(&capacity.cell.target.as_str()))
            .max_by(|a, b| a.sustained_rps.total_cmp(&b.sustained_rps))
    }

    /// The checklist, in the four parts of the study.
    pub(crate) fn checklist(&self) -> Vec<Part> {
        let part = |title: Text, items: Vec<Item>| Part {
            title: title.of(self.lang),
            items,
        };
        let open = |text: Text| Item {
            done: false,
            text: self.say(
                text,
                &[("command", "tollgate bench report DIR --format prometheus")],
            ),
        };
        vec![
            part(
                t::MIGRATE_PREPARATION,
                vec![
                    open(t::BOX_COMPATIBILITY),
                    self.benchmark(),
                    open(t::BOX_DOCUMENTATION),
                    open(t::BOX_BACKUP),
                ],
            ),
            part(
                t::MIGRATE_CONFIGURATION,
                vec![
                    self.pool(),
                    self.timeouts(),
                    open(t::BOX_PERSISTENCE),
                    open(t::BOX_EVICTION),
                ],
            ),
            part(
                t::MIGRATE_DEPLOYMENT,
                vec![
                    open(t::BOX_MONITORING),
                    open(t::BOX_ROLLBACK),
                    open(t::BOX_CANARY),
                    open(t::BOX_ROLLOUT),
                ],
            ),
            part(
                t::MIGRATE_VALIDATION,
                vec![self.performance(), self.accuracy(), open(t::BOX_STABILITY)],
            ),
        ]
    }

    fn benchmark(&self) -> Item {
        let both = !self.cells(self.from).is_empty() && !self.cells(self.to).is_empty();
        match self.run {
            Some(run) if both && run.validity.grade == Grade::Invalid => Item {
                done: false,
                text: self.say(
                    t::BOX_BENCHMARK_INVALID,
                    &[("command", &self.benchmark_command())],
                ),
            },
            Some(run) if both => {
                let detail = format!(
                    "{} × {}, {}",
                    run.manifest.machine.cores,
                    run.manifest.machine.cpu_model,
                    run.manifest.started_at
                );
                Item {
                    done: run.complete,
                    text: self.say(t::BOX_BENCHMARK, &[("detail", &detail)]),
                }
            }
            _ => Item {
                done: false,
                text: self.say(
                    t::BOX_BENCHMARK_OPEN,
                    &[("command", &self.benchmark_command())],
                ),
            },
        }
    }

    /// The command that measures both side by side. A service is set beside a service.
    fn benchmark_command(&self) -> String {
        let systems = [self.from, self.to];
        let service = systems.contains(&System::EnvoyproxyRatelimit);
        let (mut started, mut running) = (Vec::new(), String::new());
        for system in systems {
            match (system, system.facts().targets) {
                // The bench starts none of these.
                (System::EnvoyproxyRatelimit, [name, ..]) => {
                    running = format!(" --target {name}=grpc://127.0.0.1:8081");
                }
                (System::Tollgate, [_, grpc, ..]) if service => started.push(*grpc),
                (System::Redis | System::Valkey, [.., name]) | (_, [name, ..]) => {
                    started.push(*name)
                }
                (_, []) => {}
            }
        }
        format!("tollgate bench --only {}{running}", started.join(","))
    }

    fn pool(&self) -> Item {
        let found = self.capacity(self.to).map(|capacity| {
            let load = &capacity.cell.load;
            let (connections, depth) = (
                load.connections.to_string(),
                load.pipeline_depth.to_string(),
            );
            self.say(
                t::BOX_POOL_MEASURED,
                &[("connections", &connections), ("depth", &depth)],
            )
        });
        self.filled(t::BOX_POOL, found, t::BOX_POOL_OPEN)
    }

    fn timeouts(&self) -> Item {
        let slowest = self.capacity(self.to).and_then(|capacity| {
            let step = safe_step(&capacity)?;
            Some((step.target_rps, step.response.all.as_ref()?.p99_9_us))
        });
        let found = slowest.map(|(rps, us)| {
            let values = [("load", &*rate(rps)), ("latency", &*latency(us))];
            self.say(t::BOX_TIMEOUTS_MEASURED, &values)
        });
        self.filled(t::BOX_TIMEOUTS, found, t::BOX_TIMEOUTS_OPEN)
    }

    fn performance(&self) -> Item {
        let found = self.capacity(self.to).map(|capacity| {
            self.say(
                t::BOX_PERFORMANCE_MEASURED,
                &[
                    ("sustained", &rate(capacity.sustained_rps)),
                    ("safe", &rate(capacity.safe_rps)),
                    ("cell", &capacity.cell.title()),
                ],
            )
        });
        // What a bench holds is an expectation; whether production meets it stays open.
        Item {
            done: false,
            ..self.filled(t::BOX_PERFORMANCE, found, t::BOX_PERFORMANCE_OPEN)
        }
    }

    fn accuracy(&self) -> Item {
        let worst = self
            .cells(self.to)
            .into_iter()
            .filter_map(over_admission)
            .max_by(f64::total_cmp);
        let detail = worst.map(|worst| {
            let text = if worst > 0.0 {
                t::BOX_ACCURACY_WRONG
            } else {
                t::BOX_ACCURACY_RIGHT
            };
            self.say(text, &[("percent", &percent(worst))])
        });
        Item {
            done: worst == Some(0.0),
            ..self.filled(t::BOX_ACCURACY, detail, t::BOX_ACCURACY_OPEN)
        }
    }

    fn filled(&self, outer: Text, found: Option<String>, open: Text) -> Item {
        let done = found.is_some();
        let detail = found.unwrap_or_else(|| self.say(open, &[]));
        Item {
            done,
            text: self.say(outer, &[("detail", &detail)]),
        }
    }

    /// When to go back.
    pub(crate) fn rollback(&self) -> Vec<String> {
        let capacity = self.capacity(self.to);
        // Where the run knows the P99 at the safe load, the bound is the first that lies clearly above it.
        let measured = capacity
            .as_ref()
            .and_then(safe_step)
            .and_then(|step| step.response.all.as_ref())
            .map(|all| all.p99_us * TIMEOUT_OF_P99_9);
        let bound = measured.map_or_else(|| "100 ms".to_owned(), |us| latency(us.max(1_000.0)));
        let mut out = vec![
            self.say(t::BACK_ERRORS, &[]),
            self.say(t::BACK_P99, &[("bound", &bound)]),
            self.say(t::BACK_DENIALS, &[]),
        ];
        out.extend(capacity.map(|c| self.say(t::BACK_LOAD, &[("safe", &rate(c.safe_rps))])));
        out.push(self.say(t::BACK_HOW, &[]));
        out
    }

    fn cutover(&self) -> Vec<String> {
        let how = self.to.facts().address.of(self.lang);
        [
            t::STEP_SHADOW,
            t::STEP_MIRROR,
            t::STEP_SWITCH_CLIENTS,
            t::STEP_WINDOW,
            t::STEP_WIDEN,
            t::STEP_RETIRE,
        ]
        .into_iter()
        .map(|step| self.say(step, &[("how", how)]))
        .collect()
    }

    /// The whole document. `command` is what made it.
    pub(crate) fn markdown(&self, command: &str) -> String {
        let lang = self.lang;
        let (from, to) = (self.from.facts(), self.to.facts());
        let mut out = format!("# {}\n\n", self.say(t::MIGRATE_TITLE, &[]));
        push_line(
            &mut out,
            &t::MIGRATE_MADE.with(lang, &[("command", command)]),
        );
        push_line(&mut out, &self.basis());
        push_line(&mut out, t::MIGRATE_BOX.of(lang));
        for part in self.checklist() {
            push_line(&mut out, &format!("\n## {}\n", part.title));
            for item in part.items {
                let mark = if item.done { "x" } else { " " };
                push_line(&mut out, &format!("- [{mark}] {}", text(&item.text)));
            }
        }
        self.measured(&mut out);
        push_line(
            &mut out,
            &format!("\n## {}\n", t::MIGRATE_DIFFERENCES.of(lang)),
        );
        self.two_columns(&mut out, t::COL_TOPIC, &TOPICS, (from, to), |facts, at| {
            facts.topics[at].of(lang)
        });
        push_line(
            &mut out,
            &format!("\n## {}\n", t::MIGRATE_SETTINGS.of(lang)),
        );
        self.two_columns(
            &mut out,
            t::COL_SETTING,
            &SETTINGS,
            (from, to),
            |facts, at| facts.settings[at],
        );
        push_line(&mut out, &format!("\n## {}\n", t::MIGRATE_CUTOVER.of(lang)));
        for (at, step) in self.cutover().iter().enumerate() {
            push_line(&mut out, &format!("{}. {step}", at + 1));
        }
        push_line(
            &mut out,
            &format!("\n## {}\n", t::MIGRATE_ROLLBACK.of(lang)),
        );
        for line in self.rollback() {
            push_line(&mut out, &format!("- {line}"));
        }
        push_line(
            &mut out,
            &format!("\n## {}\n", self.say(t::MIGRATE_THRESHOLDS, &[])),
        );
        thresholds(&mut out, self.capacity(self.to).as_ref(), lang);
        out
    }

    fn basis(&self) -> String {
        match self.run {
            Some(run) => t::MIGRATE_BASIS_RUN.with(
                self.lang,
                &[
                    ("date", &run.manifest.started_at),
                    ("grade", super::words::grade(run.validity.grade, self.lang)),
                ],
            ),
            None => t::MIGRATE_BASIS_NONE.of(self.lang).to_owned(),
        }
    }

    /// What the run measured of both systems, scenario by scenario.
    fn measured(&self, out: &mut String) {
        let Some(run) = self.run else { return };
        let names: Vec<&str> = [self.from, self.to]
            .iter()
            .flat_map(|system| system.facts().targets.iter().copied())
            .collect();
        let lang = self.lang;
        let mut rows = Vec::new();
        for scenario in scenarios(run) {
            for ranked in &scenario.ranked {
                if !names.contains(&ranked.cell.target.as_str()) {
                    continue;
                }
                let found = &ranked.findings;
                let all = ranked.common.and_then(|step| step.response.all.as_ref());
                rows.push([
                    text(&scenario.title(lang)),
                    text(&ranked.cell.target),
                    text(&ranked.cell.operation.title),
                    or_dash(found.sustained_rps, rate),
                    or_dash(found.safe_rps, rate),
                    or_dash(all, |all| ms(all.p99_us)),
                    or_dash(over_admission(ranked.cell), |over| {
                        format!("{} %", significant(over))
                    }),
                ]);
            }
        }
        if rows.is_empty() {
            return;
        }
        push_line(out, &format!("\n## {}\n", t::MIGRATE_MEASURED.of(lang)));
        let heads = [
            page::H_SCENARIO,
            page::H_TARGET,
            page::H_OPERATION,
            page::H_HELD,
            page::H_SAFE,
        ]
        .map(|head| head.of(lang));
        head(
            out,
            &[&heads[..], &["P99 ms", page::H_OVER.of(lang)]].concat(),
            3,
        );
        for fields in rows {
            row(out, &fields);
        }
    }

    fn two_columns(
        &self,
        out: &mut String,
        first: Text,
        names: &[Text],
        (from, to): (&'static Facts, &'static Facts),
        value: impl Fn(&'static Facts, usize) -> &'static str,
    ) {
        let lang = self.lang;
        let titles = [
            first.of(lang).to_owned(),
            t::COL_FROM.with(lang, &[("name", from.name)]),
            t::COL_TO.with(lang, &[("name", to.name)]),
        ];
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        head(out, &titles, 3);
        for (at, name) in names.iter().enumerate() {
            // Facts are our own text and hold code marks on purpose.
            let fields = [name.of(lang), value(from, at), value(to, at)]
                .map(|field| field.replace('|', "\\|"));
            row(out, &fields);
        }
    }
}

/// The row nearest below the safe load; where none was measured so low, the lowest that held.
fn safe_step<'a>(capacity: &Capacity<'a>) -> Option<&'a crate::record::Step> {
    let cell = capacity.cell;
    let below = cell
        .by_load()
        .into_iter()
        .rev()
        .find(|step| step.holds() && step.target_rps <= capacity.safe_rps);
    below.or_else(|| cell.by_load().into_iter().find(|step| step.holds()))
}

/// The alert table with the capacity filled in, as Markdown.
fn thresholds(out: &mut String, capacity: Option<&Capacity<'_>>, lang: Lang) {
    let heads = [
        page::H_METRIC,
        page::H_GOOD,
        page::H_WARNING,
        page::H_CRITICAL,
        page::H_ACTION,
    ];
    head(out, &heads.map(|head| head.of(lang)), 5);
    for fields in rows(&PROD, capacity, lang) {
        row(out, &fields.map(|field| field.replace('|', DASH)));
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_pair_of_systems_has_a_checklist_without_a_run() {
        for from in System::value_variants() {
            for to in System::value_variants() {
                for lang in [Lang::En, Lang::Vi] {
                    let plan = Plan {
                        from: *from,
                        to: *to,
                        run: None,
                        lang,
                    };
                    let text = plan.markdown("tollgate bench migrate");
                    assert!(text.contains("- [ ] ") && !text.contains("- [x]"), "{text}");
                    assert!(text.contains(from.name()) && text.contains(to.name()));
                    assert!(!text.contains('{') && !text.contains('}'), "{text}");
                }
            }
        }
    }
}
