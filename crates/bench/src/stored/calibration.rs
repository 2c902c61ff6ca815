//! The generator's calibration, kept between runs: valid for the same program on the same machine, for a while.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::read::{cache_path, read_kept, write_kept};
use crate::record::{Calibration, Machine, Reused, SCHEMA_VERSION, rfc3339_utc};

/// Under which circumstances a calibration was measured. It holds under the same ones only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Circumstances {
    /// The machine; its load does not count.
    pub machine: Machine,
    /// The program: version, size and time of its file.
    pub binary: String,
    /// Connections to the null server.
    pub connections: u32,
    /// Requests of each that may be unanswered.
    pub depth: u32,
    /// Processors of generator and null server.
    pub cores: (Option<usize>, Option<usize>),
}

impl Circumstances {
    /// Without what changes from minute to minute.
    #[must_use]
    pub(crate) fn settled(mut self) -> Circumstances {
        self.machine.load_average_1m = None;
        self
    }
}

/// A calibration as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    schema_version: u32,
    measured_unix_s: i64,
    circumstances: Circumstances,
    calibration: Calibration,
}

/// The program whose file is `exe`, so that another build is told from it; `None` if it cannot be looked at.
#[must_use]
pub(crate) fn binary(exe: &Path) -> Option<String> {
    let found = std::fs::metadata(exe).ok()?;
    let changed = found.modified().ok()?;
    let changed = changed.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(format!(
        "tollgate {}, {} bytes of {}",
        env!("CARGO_PKG_VERSION"),
        found.len(),
        rfc3339_utc(i64::try_from(changed.as_secs()).ok()?)
    ))
}

/// Where the calibration of `machine` is kept; `None` without a home.
#[must_use]
pub(crate) fn calibration_path(
    machine: &Machine,
    env: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    cache_path("calib", machine, env)
}

/// The calibration kept at `path`, if it was measured under `now` at most `age_max_s` before `unix_s`.
#[must_use]
pub(crate) fn reuse(
    path: &Path,
    now: &Circumstances,
    unix_s: i64,
    age_max_s: f64,
) -> Option<Calibration> {
    let kept: Kept = read_kept(path, "a calibration").ok()?;
    let age_s = unix_s.checked_sub(kept.measured_unix_s)? as f64;
    // A clock that was set back makes it come from the future: its age is not known.
    if kept.circumstances != *now || age_s < 0.0 || age_s > age_max_s {
        return None;
    }
    Some(Calibration {
        reused: Some(Reused {
            measured_at: rfc3339_utc(kept.measured_unix_s),
            age_s,
            binary: kept.circumstances.binary,
        }),
        ..kept.calibration
    })
}

/// Keeps a calibration measured under `now`.
///
/// # Errors
/// If a folder or file cannot be written.
pub(crate) fn keep(
    path: &Path,
    now: &Circumstances,
    unix_s: i64,
    calibration: &Calibration,
) -> Result<(), String> {
    let kept = Kept {
        schema_version: SCHEMA_VERSION,
        measured_unix_s: unix_s,
        circumstances: now.clone(),
        calibration: calibration.clone(),
    };
    write_kept(path, &kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_is_valid_for_the_same_program_machine_and_shape_for_a_while() {
        let folder = std::env::temp_dir().join(format!("tollgate-calib-{}", std::process::id()));
        let path = folder.join("deep/calib.json");
        let now = Circumstances {
            machine: Machine {
                cpu_model: "x".into(),
                cores: 2,
                load_average_1m: Some(3.0),
                ..Machine::default()
            },
            binary: "tollgate 1".into(),
            connections: 50,
            depth: 16,
            cores: (Some(0), Some(1)),
        }
        .settled();
        let measured = Calibration {
            ceiling_rps: 400_000.0,
            ..Calibration::default()
        };
        assert_eq!(reuse(&path, &now, 1_000, 60.0), None, "nothing is kept");
        keep(&path, &now, 1_000, &measured).unwrap();
        let found = reuse(&path, &now, 1_030, 60.0).unwrap();
        assert_eq!(found.ceiling_rps, 400_000.0);
        let reused = found.reused.unwrap();
        assert_eq!((reused.age_s, reused.binary.as_str()), (30.0, "tollgate 1"));
        assert_eq!(reuse(&path, &now, 1_061, 60.0), None, "too old");
        assert_eq!(reuse(&path, &now, 999, 60.0), None, "from the future");
        let other = |change: fn(&mut Circumstances)| {
            let mut other = now.clone();
            change(&mut other);
            reuse(&path, &other, 1_030, 60.0)
        };
        assert_eq!(other(|c| c.binary = "tollgate 2".into()), None);
        assert_eq!(other(|c| c.machine.kernel = "next".into()), None);
        assert_eq!(other(|c| c.connections = 100), None);
        assert_eq!(other(|c| c.cores = (None, None)), None);
        std::fs::write(&path, "{\"schema_version\": 1").unwrap();
        assert_eq!(reuse(&path, &now, 1_030, 60.0), None, "damaged");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
