//! What stored recovery runs know of targets whose capacity was searched: from which load they heal after an overload.

use std::fs;
use std::path::{Path, PathBuf};

use super::read::{StoredRun, read_runs};
use super::same_machine;
use crate::record::recovery::{RecoveryRecord, RecoveryVerdict};
use crate::record::{Cell, Grade, Manifest, RunRecord, TargetRecord, unequal};
use crate::search::ladder::cpu_points;
use crate::search::zones;

/// Newest folders of a results folder that are looked at.
const FOLDERS_MAX: usize = 200;
/// Recovery runs among them that are read.
const RUNS_MAX: usize = 10;
/// Word of the command line that makes a run one of recovery.
const COMMAND: &str = "recovery";

/// The newest recovery runs in a results folder, newest first. What cannot be read is passed over: it is not asked for.
#[must_use]
pub(crate) fn recoveries(results: &Path) -> Vec<StoredRun> {
    let Ok(entries) = fs::read_dir(results) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        // `latest` names one of the others.
        .filter(|path| !path.is_symlink() && path.join("results.json").is_file())
        .collect();
    // Folders are called by the time at which their run started.
    folders.sort();
    folders
        .into_iter()
        .rev()
        .take(FOLDERS_MAX)
        .filter(|folder| is_recovery(folder))
        .take(RUNS_MAX)
        .filter_map(|folder| read_runs(&[folder]).ok()?.pop())
        .collect()
}

/// Whether the small file beside the record says so; records are large.
fn is_recovery(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("manifest.json")).unwrap_or_default();
    let manifest: Option<Manifest> = serde_json::from_str(&text).ok();
    manifest.is_some_and(|found| found.command_line.iter().any(|word| word == COMMAND))
}

/// Takes into the zones of every searched cell what the newest of `stored` that measured the same thing found about its
/// healing. A system that was seen not to heal has a lower safe load, or none that can be relied on; one that healed is
/// said to have.
pub(crate) fn heed(record: &mut RunRecord, stored: &[StoredRun]) {
    let (machine, targets) = (record.manifest.machine.clone(), record.targets.clone());
    for cell in &mut record.cells {
        let Some(target) = targets.iter().find(|target| target.name == cell.target) else {
            continue;
        };
        // What this run has found by itself is newer.
        if cell.recovery.is_some() {
            continue;
        }
        let known = stored
            .iter()
            .filter(|run| same_machine(&run.record.manifest.machine, &machine))
            .find_map(|run| Some((run, recovery_of(&run.record, cell, target)?)));
        if let Some((run, recovery)) = known {
            let source = format!("recovery run of {}", run.record.manifest.started_at);
            bound(cell, target, recovery, &source);
        }
    }
}

/// The recovery in `run` of what `cell` measured: the same program in the same version and setup, asked the same for the
/// same keys over as many connections. One that is invalid by its own rules says nothing about others.
fn recovery_of<'a>(
    run: &'a RunRecord,
    cell: &Cell,
    target: &TargetRecord,
) -> Option<&'a RecoveryRecord> {
    let same_target = |other: &&TargetRecord| {
        other.server_name == target.server_name
            && other.server_version == target.server_version
            && unequal(other, target).is_empty()
    };
    let same_cell = |other: &&Cell| {
        let of = run
            .targets
            .iter()
            .find(|target| target.name == other.target);
        of.is_some_and(|of| same_target(&of))
            && other.scenario.keys == cell.scenario.keys
            && other.scenario.distribution == cell.scenario.distribution
            && other.operation.name == cell.operation.name
            && other.load.connections == cell.load.connections
            && other.load.pipeline_depth == cell.load.pipeline_depth
    };
    let found = run.cells.iter().filter(same_cell);
    let mut recoveries = found.filter_map(|other| other.recovery.as_ref());
    recoveries.find(|recovery| {
        let hardest = recovery.hardest().map(|at| &recovery.variants[at]);
        hardest.is_none_or(|variant| variant.validity.grade != Grade::Invalid)
    })
}

fn bound(cell: &mut Cell, target: &TargetRecord, recovery: &RecoveryRecord, source: &str) {
    let (Some(mut healing), Some(hardest)) = (recovery.healing.clone(), recovery.hardest()) else {
        return;
    };
    let verdict = recovery.variants[hardest].verdict;
    let stayed_down = verdict.stayed_down()
        || healing
            .tries
            .iter()
            .any(|tried| tried.verdict.stayed_down());
    if verdict != RecoveryVerdict::Metastable && healing.hidden_rps.is_none() {
        return;
    }
    healing.sentence = format!("{} ({source})", healing.sentence);
    let used = cpu_points(&cell.by_load(), target.serving_threads());
    let Some(capacity) = cell
        .capacity
        .as_mut()
        .filter(|found| found.refused.is_none())
    else {
        return;
    };
    if stayed_down {
        zones::put_with_healing(capacity, &healing, verdict, &used);
    } else if let Some(zones) = &mut capacity.zones {
        // It healed from every load that was tried there, the knee of which was another: no bound follows.
        zones.healing = Some(healing.sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::capacity::{CapacityRecord, GoalResult, ZoneBound};
    use crate::record::recovery::{Healing, HealingTry, RecoveryVariant};
    use crate::record::{SearchGoal, Setting};

    const SUSTAINED: f64 = 1_000.0;

    fn target() -> TargetRecord {
        TargetRecord {
            name: "store".into(),
            server_name: "redis".into(),
            server_version: "7.0.15".into(),
            ..TargetRecord::default()
        }
    }

    fn run(cell: Cell) -> RunRecord {
        let mut record = RunRecord {
            targets: vec![target()],
            cells: vec![Cell {
                target: "store".into(),
                ..cell
            }],
            ..RunRecord::default()
        };
        record.manifest.started_at = "2026-01-01T00:00:00Z".into();
        record
    }

    fn searched() -> RunRecord {
        let mut capacity = CapacityRecord {
            goals: vec![GoalResult {
                goal: SearchGoal::default(),
                lower_rps: Some(SUSTAINED),
                upper_rps: Some(1_050.0),
                converged: true,
                ..GoalResult::default()
            }],
            ..CapacityRecord::default()
        };
        zones::put(&mut capacity, None, &[]);
        run(Cell {
            capacity: Some(capacity),
            ..Cell::default()
        })
    }

    /// A recovery run whose usual load came to `usual`, and which found this about healing.
    fn recovered(
        usual: RecoveryVerdict,
        hidden_rps: Option<f64>,
        tries: &[(f64, RecoveryVerdict)],
    ) -> StoredRun {
        let one = |(rate_rps, verdict): &(f64, RecoveryVerdict)| HealingTry {
            rate_rps: *rate_rps,
            verdict: *verdict,
            ..HealingTry::default()
        };
        let healing = Healing {
            hidden_rps,
            tries: tries.iter().map(one).collect(),
            sentence: "after 1500/s it was seen".into(),
            ..Healing::default()
        };
        let record = run(Cell {
            recovery: Some(RecoveryRecord {
                variants: vec![RecoveryVariant {
                    verdict: usual,
                    ..RecoveryVariant::default()
                }],
                healing: Some(healing),
                ..RecoveryRecord::default()
            }),
            ..Cell::default()
        });
        StoredRun {
            source: "elsewhere".into(),
            record,
        }
    }

    fn zones_with(stored: &StoredRun) -> crate::record::capacity::Zones {
        let mut record = searched();
        heed(&mut record, std::slice::from_ref(stored));
        record.cells.remove(0).capacity.unwrap().zones.unwrap()
    }

    #[test]
    fn a_safe_load_says_what_an_earlier_recovery_found() {
        use RecoveryVerdict::{Metastable, Recovered};
        let heals = zones_with(&recovered(Recovered, Some(700.0), &[(850.0, Recovered)]));
        // It healed from all that was tried: no bound, but it is said.
        assert_eq!(
            (heals.safe_rps, heals.decided_by),
            (850.0, ZoneBound::Margin)
        );
        let told = heals.healing.unwrap();
        assert_eq!(
            told,
            "after 1500/s it was seen (recovery run of 2026-01-01T00:00:00Z)"
        );

        let some = zones_with(&recovered(Metastable, Some(500.0), &[(500.0, Recovered)]));
        assert_eq!(
            (some.safe_rps, some.decided_by),
            (500.0, ZoneBound::Healing)
        );
        assert!(some.healing.is_some());

        let never = zones_with(&recovered(Metastable, None, &[(200.0, Metastable)]));
        assert_eq!(never.confidence, Grade::Invalid);
        assert!(
            never
                .doubts
                .iter()
                .any(|doubt| doubt.contains("recovery run of")),
            "{never:?}"
        );

        let nothing = zones_with(&recovered(RecoveryVerdict::NotHealthyBefore, None, &[]));
        assert_eq!((nothing.safe_rps, nothing.healing), (850.0, None));
    }

    #[test]
    fn a_recovery_of_something_else_says_nothing() {
        let never = || recovered(RecoveryVerdict::Metastable, None, &[]);
        type Change = fn(&mut RunRecord);
        let changes: [Change; 6] = [
            |run| {
                let recovery = run.cells[0].recovery.as_mut().unwrap();
                recovery.variants[0].validity.lower(Grade::Invalid, "late");
            },
            |run| run.targets[0].server_version = "8".into(),
            |run| run.manifest.machine.cpu_model = "another".into(),
            |run| run.cells[0].scenario.distribution = "hot:0.9:1".into(),
            |run| run.cells[0].operation.name = "rl.take".into(),
            |run| {
                run.targets[0].settings.push(Setting {
                    name: "appendonly".into(),
                    value: "yes".into(),
                });
            },
        ];
        for change in changes {
            let mut other = never();
            change(&mut other.record);
            assert_eq!(zones_with(&other).confidence, Grade::Valid);
        }
        assert_eq!(zones_with(&never()).confidence, Grade::Invalid);
    }

    #[test]
    fn recoveries_are_found_by_their_command() {
        let folder = std::env::temp_dir().join(format!("tollgate-healing-{}", std::process::id()));
        for (name, command) in [
            ("20260101_000000", "recovery"),
            ("20260102_000000", "capacity"),
        ] {
            let mut stored = recovered(RecoveryVerdict::Recovered, Some(1.0), &[]).record;
            stored.schema_version = crate::record::SCHEMA_VERSION;
            stored.manifest.command_line = vec!["tollgate".into(), "bench".into(), command.into()];
            let own = folder.join(name);
            fs::create_dir_all(&own).unwrap();
            let write = |file: &str, text: String| fs::write(own.join(file), text).unwrap();
            write("results.json", serde_json::to_string(&stored).unwrap());
            write(
                "manifest.json",
                serde_json::to_string(&stored.manifest).unwrap(),
            );
        }
        fs::create_dir_all(folder.join("20260103_000000")).unwrap();
        fs::write(folder.join("20260103_000000/results.json"), "{").unwrap();
        let found = recoveries(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].source.ends_with("20260101_000000"));
        assert!(recoveries(&folder).is_empty());
    }
}
