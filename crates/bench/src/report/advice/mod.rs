//! What to do with the numbers: capacity matrix, monitoring thresholds, Prometheus rules, a Grafana dashboard.

pub(crate) mod grafana;
pub(crate) mod matrix;
pub(crate) mod prometheus;
pub(crate) mod thresholds;

use crate::record::{Cell, Grade, MitigationRow, RunRecord, TargetKind};
use crate::target::strategy::Strategy;

use super::findings::CellFindings;
use super::format::rate;
use super::lang::{Lang, advice as t};

/// What one target was measured to hold, in the scenario in which it holds least.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capacity<'a> {
    /// Target, scenario and operation that bound it.
    pub(crate) cell: &'a Cell,
    /// Store or service.
    pub(crate) kind: TargetKind,
    /// Highest load that held.
    pub(crate) sustained_rps: f64,
    /// Load that keeps a margin.
    pub(crate) safe_rps: f64,
}

/// The capacity of every target that held anything: of its best operation in each scenario, the scenario with the least.
/// Whoever plans by it is right in every scenario that was measured.
pub(crate) fn capacities(record: &RunRecord) -> Vec<Capacity<'_>> {
    let mut out = Vec::new();
    let strategies = planned_strategies(record);
    let planned = |name: &str| match &strategies {
        Some((all, chosen)) => !all.contains(&name) || chosen.contains(&name),
        None => true,
    };
    for target in record.targets.iter().filter(|t| planned(&t.name)) {
        let mut best: Vec<(&str, Capacity<'_>)> = Vec::new();
        for cell in record
            .cells
            .iter()
            .filter(|cell| cell.target == target.name)
        {
            let found = CellFindings::of(cell);
            let (Some(sustained_rps), Some(safe_rps)) = (found.sustained_rps, found.safe_rps)
            else {
                continue;
            };
            let this = Capacity {
                cell,
                kind: target.kind,
                sustained_rps,
                safe_rps,
            };
            let scenario = cell.scenario.name.as_str();
            match best.iter_mut().find(|(name, _)| *name == scenario) {
                Some((_, held)) if held.sustained_rps >= sustained_rps => {}
                Some((_, held)) => *held = this,
                None => best.push((scenario, this)),
            }
        }
        let least = best
            .into_iter()
            .map(|(_, capacity)| capacity)
            .min_by(|a, b| a.sustained_rps.total_cmp(&b.sustained_rps));
        out.extend(least);
    }
    out
}

/// Strategies for hot keys are ways to run one service: it is planned with the one that asks the store each time, or with
/// the one of the highest goodput. Gives the names of all and of these; `None` where no strategies were compared.
fn planned_strategies(record: &RunRecord) -> Option<(Vec<&str>, Vec<&str>)> {
    let found = record.mitigations.as_ref()?;
    let all: Vec<&str> = found.rows.iter().map(|row| row.target.as_str()).collect();
    let exact = Strategy::Exact.to_string();
    let may_win = |row: &&MitigationRow| row.may_win() && row.validity.grade != Grade::Invalid;
    let best = found.rows.iter().filter(may_win).max_by(|a, b| {
        let of = |goodput: Option<f64>| goodput.unwrap_or(0.0);
        of(a.peak_goodput_rps).total_cmp(&of(b.peak_goodput_rps))
    });
    let best = best.map(|row| row.target.as_str());
    let exact = all.iter().copied().find(|name| *name == exact);
    let chosen = exact.into_iter().chain(best).collect();
    Some((all, chosen))
}

/// The study's three tiers, by the loads of the best system; `None` where none held anything.
pub(crate) fn tiers(capacities: &[Capacity<'_>], lang: Lang) -> Option<[String; 3]> {
    let most = |pick: fn(&Capacity<'_>) -> f64| capacities.iter().map(pick).max_by(f64::total_cmp);
    let (safe, held) = (most(|c| c.safe_rps)?, most(|c| c.sustained_rps)?);
    // Beyond a load that nothing was too high for, there is nothing to divide.
    let mut best = capacities.iter().filter(|c| c.sustained_rps == held);
    best.next()
        .filter(|c| CellFindings::of(c.cell).not_held_rps.is_some())?;
    let (safe, held) = (rate(safe), rate(held));
    Some([
        t::TIER_1.with(lang, &[("load", &safe)]),
        t::TIER_2.with(lang, &[("from", &safe), ("to", &held)]),
        t::TIER_3.with(lang, &[("from", &held)]),
    ])
}

/// The command that a store counts a cell's requests under in `INFO commandstats`, and so in `redis_commands_total`; `None` for
/// a service and for names that are no commands.
pub(crate) fn command_of(cell: &Cell) -> Option<String> {
    let name = cell.operation.name.to_ascii_lowercase();
    // Behind the command stands the algorithm of its script: evalsha:gcra.
    let name = name.split(':').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let word = !name.is_empty() && name.chars().all(plain);
    (word && !name.starts_with("grpc") && !name.starts_with("http")).then(|| name.to_owned())
}
