//! The ladder row that every output shares: the same columns, the same rounding, in the terminal, in
//! Markdown and in HTML.

use crate::record::attribution::Role;
use crate::record::{Accuracy, Cell, Grade, Label, LatencySummary, Level, Step};

use super::findings::limits;
use super::format::{DASH, count, latency, ms, or_dash, percent, rate, significant};
use super::lang::{Lang, page as t};

/// One ladder row, ready to print. Latencies are response times in ms.
#[derive(Clone, Debug, Default)]
pub(crate) struct LadderRow {
    pub(crate) target: String,
    pub(crate) sent: String,
    pub(crate) done: String,
    pub(crate) goodput: String,
    pub(crate) fail_percent: String,
    pub(crate) mean_ms: String,
    pub(crate) p50_ms: String,
    pub(crate) p95_ms: String,
    pub(crate) p99_ms: String,
    pub(crate) p99_9_ms: String,
    pub(crate) max_ms: String,
    pub(crate) lag_p99_ms: String,
    pub(crate) generator_cpu: String,
    pub(crate) server_cpu: String,
    pub(crate) server_us_per_op: String,
    pub(crate) admit: String,
    /// Admitted too much and too little, percent.
    pub(crate) accuracy: String,
    pub(crate) success: String,
    pub(crate) failed: String,
    pub(crate) level: Level,
    pub(crate) label: Label,
    pub(crate) rule: String,
    pub(crate) grade: Grade,
}

impl LadderRow {
    /// The row of a step.
    pub(crate) fn of(step: &Step) -> Self {
        let all = step.response.all.as_ref();
        let of_all = |pick: fn(&LatencySummary) -> f64| or_dash(all, |l| ms(pick(l)));
        let server = step.server;
        Self {
            target: rate(step.target_rps),
            sent: rate(step.sent_rps),
            done: rate(step.completed_rps),
            goodput: rate(step.goodput_rps),
            fail_percent: percent(step.fail_percent()),
            mean_ms: of_all(|l| l.mean_us),
            p50_ms: of_all(|l| l.p50_us),
            p95_ms: of_all(|l| l.p95_us),
            p99_ms: of_all(|l| l.p99_us),
            p99_9_ms: of_all(|l| l.p99_9_us),
            max_ms: of_all(|l| l.max_us),
            lag_p99_ms: or_dash(step.send_lag.as_ref(), |lag| ms(lag.p99_us)),
            generator_cpu: or_dash(step.generator, |g| cpu(g.cpu_percent)),
            server_cpu: or_dash(server, |s| cpu(s.cpu_percent)),
            server_us_per_op: or_dash(server.and_then(|s| s.cpu_us_per_op), significant),
            admit: or_dash(step.admit_ratio(), |ratio| {
                if ratio.is_finite() {
                    format!("{ratio:.3}")
                } else {
                    DASH.into()
                }
            }),
            accuracy: or_dash(step.accuracy.as_ref(), |found| {
                let (over, under) = (found.over_admission_percent, found.under_admission_percent);
                match over + under {
                    0.0 => "0".into(),
                    _ => format!("{} / {}", percent(over), percent(under)),
                }
            }),
            success: count(step.allowed.saturating_add(step.denied)),
            failed: count(step.failures.total()),
            level: step.status.level,
            label: step.label,
            rule: step.status.rule.clone(),
            grade: step.validity.grade,
        }
    }
}

fn cpu(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.0} %")
    } else {
        DASH.into()
    }
}

/// `1,000 in 60.0 s`, or `500–8,000 in 60.0 s` where the limit followed the load.
pub(crate) fn limit_text(cell: &Cell, window_ms: u64, lang: Lang) -> String {
    let limit = match limits(cell) {
        Some((low, high)) if low < high => format!("{}–{}", count(low), count(high)),
        Some((limit, _)) => count(limit),
        None => DASH.into(),
    };
    let window = latency(window_ms as f64 * 1e3);
    t::LIMIT_IN.with(lang, &[("limit", &limit), ("window", &window)])
}

/// `97,000–103,000`: what might be admitted. The bounds keep to what each key's decisions say, so they cross where a limiter is
/// wrong in both directions.
pub(crate) fn allowed_text(found: &Accuracy) -> String {
    let (one, other) = (found.allowed_min, found.allowed_max);
    format!("{}–{}", count(one.min(other)), count(one.max(other)))
}

/// `timeout 12, refused 3`: the kinds that occurred; empty if none did.
pub(crate) fn failure_kinds(step: &Step) -> String {
    let kinds = step.failures.by_kind();
    let parts: Vec<String> = kinds
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(kind, number)| format!("{kind} {}", count(*number)))
        .collect();
    parts.join(", ")
}

/// CPU use of all stores behind a service, percent of one core; `None` where the target is the store itself, or none was watched.
pub(crate) fn store_behind(step: &Step) -> Option<f64> {
    let watched = &step.attribution.as_ref()?.processes;
    let is_there = |role: Role| watched.iter().any(|process| process.role == role);
    if !is_there(Role::Service) {
        return None;
    }
    let stores = watched.iter().filter(|process| process.role == Role::Store);
    let used = stores.filter_map(|store| store.cpu_percent);
    used.reduce(|all, one| all + one)
}

/// The shape of the load and the limit of a cell in one line, and whether generator and target shared a machine.
pub(crate) fn load_line(cell: &Cell, co_located: bool, lang: Lang) -> String {
    let load = &cell.load;
    let mut out = t::LOAD_LINE.with(
        lang,
        &[
            ("arrivals", &load.arrivals),
            ("connections", &load.connections.to_string()),
            ("depth", &load.pipeline_depth.to_string()),
            ("deadline", &significant(load.deadline_ms)),
        ],
    );
    if let Some(window) = cell.operation.window_ms {
        let window = latency(window as f64 * 1e3);
        out.push_str(&match cell.operation.limit {
            Some(limit) => {
                t::LOAD_LIMIT.with(lang, &[("limit", &count(limit)), ("window", &window)])
            }
            None => t::LOAD_WINDOW.with(lang, &[("window", &window)]),
        });
    }
    if let Some(capacity) = cell.probed_capacity_rps {
        out.push_str(&t::LOAD_PROBED.with(lang, &[("load", &rate(capacity))]));
    }
    if co_located {
        out.push_str(&format!(", {}", t::CO_LOCATED.of(lang)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Failures, ProcessUse};

    #[test]
    fn a_step_without_answers_prints_dashes() {
        let row = LadderRow::of(&Step {
            target_rps: 1_000.0,
            ..Step::default()
        });
        assert_eq!((row.p99_ms.as_str(), row.admit.as_str()), (DASH, DASH));
        assert_eq!(row.accuracy, DASH);
        assert_eq!(row.target, "1,000");
    }

    #[test]
    fn a_step_that_is_not_a_number_prints_dashes() {
        let broken = ProcessUse {
            cpu_percent: f64::NAN,
            cpu_us_per_op: Some(f64::INFINITY),
            ..ProcessUse::default()
        };
        let row = LadderRow::of(&Step {
            target_rps: f64::NAN,
            server: Some(broken),
            ..Step::default()
        });
        assert_eq!(row.target, DASH);
        assert_eq!(
            (row.server_cpu.as_str(), row.server_us_per_op.as_str()),
            (DASH, DASH)
        );
    }

    #[test]
    fn only_failures_that_occurred_are_listed() {
        let failures = Failures {
            timeout: 1_200,
            unsent: 3,
            ..Failures::default()
        };
        let step = Step {
            failures,
            ..Step::default()
        };
        assert_eq!(failure_kinds(&step), "timeout 1,200, unsent 3");
        assert_eq!(failure_kinds(&Step::default()), "");
    }
}
