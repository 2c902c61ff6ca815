//! The generator's calibration: that of an earlier run as long as it holds, else measured and kept.

use std::time::Duration;

use crate::os::interrupt;
use crate::record::Calibration;
use crate::run::calibrate::calibrate;
use crate::run::console::Console;
use crate::run::machine;
use crate::stored::{Circumstances, binary, calibration_path, keep, reuse};

/// How the null server is asked.
pub(super) struct Shape {
    pub(super) connections: u32,
    pub(super) depth: u32,
    /// Processors of generator and null server.
    pub(super) cores: (Option<usize>, Option<usize>),
}

/// The calibration kept for this machine and program if it is at most `age_max` old, else one that is measured now.
pub(super) fn calibrated(
    shape: &Shape,
    age_max: Duration,
    console: &mut Console,
) -> Result<Calibration, String> {
    let now = std::env::current_exe()
        .ok()
        .and_then(|exe| binary(&exe))
        .map(|binary| {
            let (connections, depth, cores) = (shape.connections, shape.depth, shape.cores);
            let machine = machine::machine();
            Circumstances {
                machine,
                binary,
                connections,
                depth,
                cores,
            }
            .settled()
        });
    let path = now
        .as_ref()
        .and_then(|now| calibration_path(&now.machine, |name| std::env::var(name).ok()));
    let kept = now.as_ref().zip(path.as_ref());
    let unix_s = machine::unix_seconds();
    let found = kept
        .filter(|_| !age_max.is_zero())
        .and_then(|(now, path)| reuse(path, now, unix_s, age_max.as_secs_f64()));
    if let Some(found) = found {
        return Ok(found);
    }
    let flag = interrupt::flag();
    let found = calibrate(shape.connections, shape.depth, shape.cores, console, flag)?;
    if let Some((now, path)) = kept.filter(|_| !interrupt::asked()) {
        // A cache that cannot be written is no fault of the run: the next one measures again.
        drop(keep(path, now, unix_s, &found));
    }
    Ok(found)
}
