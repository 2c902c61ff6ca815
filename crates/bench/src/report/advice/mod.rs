//! What to do with the numbers: capacity matrix, monitoring thresholds, Prometheus rules, a Grafana dashboard.

pub(crate) mod grafana;
pub(crate) mod matrix;
pub(crate) mod prometheus;
pub(crate) mod thresholds;

use crate::record::{Cell, RunRecord, TargetKind};

use super::findings::CellFindings;

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
    for target in &record.targets {
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

/// The command that a store counts a cell's requests under in `INFO commandstats`, and so in `redis_commands_total`; `None` for
/// a service and for names that are no commands.
pub(crate) fn command_of(cell: &Cell) -> Option<String> {
    let name = cell.operation.name.to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let word = !name.is_empty() && name.chars().all(plain);
    (word && !name.starts_with("grpc") && !name.starts_with("http")).then_some(name)
}
