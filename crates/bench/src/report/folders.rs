//! One folder for each system and scenario, as studies 000 and 001 keep their results.

use crate::record::{Cell, RunRecord, TargetKind, TargetRecord, directory_stamp};

/// The parts of a run by folder: `{deployment}-{backend}/{scenario}_{YYYYMMDD_HHMMSS}`, each a record of its own.
pub(super) fn folders(record: &RunRecord) -> Vec<(String, RunRecord)> {
    let mut out: Vec<(String, RunRecord)> = Vec::new();
    for cell in &record.cells {
        let name = name(record, cell);
        match out.iter_mut().find(|(known, _)| *known == name) {
            Some((_, part)) => part.cells.push(cell.clone()),
            None => out.push((name, part_of(record, cell))),
        }
    }
    for (_, part) in &mut out {
        part.settle();
    }
    out
}

fn name(record: &RunRecord, cell: &Cell) -> String {
    let target = record.targets.iter().find(|one| one.name == cell.target);
    let stamp = directory_stamp(record.manifest.started_unix_s);
    let scenario = plain(&cell.scenario.name, '_');
    format!(
        "{}-{}/{scenario}_{stamp}",
        deployment(target),
        plain(&cell.target, '-')
    )
}

/// The word of the studies for where a system runs: all that is measured here is one node.
fn deployment(target: Option<&TargetRecord>) -> &'static str {
    match target.map(|target| target.kind) {
        Some(TargetKind::Service) => "service",
        _ => "single-node",
    }
}

fn part_of(record: &RunRecord, cell: &Cell) -> RunRecord {
    let mut part = RunRecord {
        cells: vec![cell.clone()],
        targets: record
            .targets
            .iter()
            .filter(|one| one.name == cell.target)
            .cloned()
            .collect(),
        skipped: Vec::new(),
        // Tables of all systems side by side are those of the whole run.
        paper: None,
        mitigations: None,
        ..record.clone()
    };
    let own = |target: &Option<String>| target.as_ref().is_none_or(|name| *name == cell.target);
    part.events.retain(|event| own(&event.target));
    part
}

/// Letters, digits and points; everything else becomes `between`.
fn plain(text: &str, between: char) -> String {
    let one = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            between
        }
    };
    let name: String = text.chars().map(one).collect();
    // No part of a path may lead upwards.
    name.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture;

    #[test]
    fn every_cell_of_a_run_lies_in_the_folder_of_its_system_and_scenario() {
        let mut record = fixture::run();
        record.cells[0].target = "../evil".into();
        let found = folders(&record);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.contains(&"single-node-tollgate/hundred_keys_20261121_031500"),
            "{names:?}"
        );
        assert!(names.iter().all(|name| !name.contains("..")), "{names:?}");
        let cells: usize = found.iter().map(|(_, part)| part.cells.len()).sum();
        assert_eq!(cells, record.cells.len());
        for (name, part) in &found {
            assert!(part.targets.len() <= 1, "{name}");
        }
    }
}
