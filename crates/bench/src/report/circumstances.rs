//! Manifest, calibration and targets in words.

use crate::record::{Calibration, Machine, Manifest, Pinning, TargetRecord, Tool};

use super::format::{bytes, latency, rate, seconds, significant};
use super::lang::{Lang, Text, page as t};

/// The manifest and the calibration as name and value, without what is unknown.
pub(crate) fn manifest_rows(
    manifest: &Manifest,
    calibration: Option<&Calibration>,
    lang: Lang,
) -> Vec<(&'static str, String)> {
    let mut rows = machine_rows(&manifest.machine);
    rows.extend([
        (t::M_PINNING, pinning(&manifest.pinning)),
        (t::M_TOOL, tool(&manifest.tool)),
        (
            t::M_COMPILER,
            manifest.tool.rustc.clone().unwrap_or_default(),
        ),
        (t::M_SEED, manifest.seed.to_string()),
        (t::M_STARTED, manifest.started_at.clone()),
        (t::M_COMMAND, command(&manifest.command_line)),
        (
            t::M_GENERATOR,
            calibration.map(generator).unwrap_or_default(),
        ),
    ]);
    rows.into_iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(name, value)| (name.of(lang), value))
        .collect()
}

fn machine_rows(machine: &Machine) -> Vec<(Text, String)> {
    let known = |value: &Option<String>| value.clone().unwrap_or_default();
    vec![
        (
            t::M_CPU,
            format!(
                "{} ({} cores, {})",
                machine.cpu_model, machine.cores, machine.arch
            ),
        ),
        (
            t::M_MEMORY,
            machine.memory_bytes.map(bytes).unwrap_or_default(),
        ),
        (t::M_SYSTEM, format!("{} {}", machine.os, machine.kernel)),
        (t::M_CLOCK, known(&machine.clocksource)),
        (t::M_GOVERNOR, known(&machine.governor)),
        (t::M_HYPERVISOR, known(&machine.hypervisor)),
        (
            t::M_LOAD_BEFORE,
            machine.load_average_1m.map(significant).unwrap_or_default(),
        ),
    ]
}

fn pinning(pinning: &Pinning) -> String {
    let cpus = |list: &[u32]| {
        let numbers: Vec<String> = list.iter().map(u32::to_string).collect();
        match numbers.len() {
            0 => "not pinned".to_owned(),
            1 => format!("core {}", numbers[0]),
            _ => format!("cores {}", numbers.join(", ")),
        }
    };
    let shared = if pinning.co_located {
        ", on one machine"
    } else {
        ""
    };
    let (generator, targets) = (cpus(&pinning.generator_cpus), cpus(&pinning.target_cpus));
    format!("generator {generator}, targets {targets}{shared}")
}

fn tool(tool: &Tool) -> String {
    let commit = tool
        .commit
        .as_deref()
        .map(|commit| format!(" {commit}"))
        .unwrap_or_default();
    format!("{}{commit} ({})", tool.version, tool.profile)
}

fn generator(found: &Calibration) -> String {
    let cpu = found
        .generator_cpu_us_per_op
        .map(|us| format!(", {} µs of CPU a request", significant(us)))
        .unwrap_or_default();
    let reused = found
        .reused
        .as_ref()
        .map(|from| {
            format!(
                "; measured at {}, {} before this run, on the same machine by the same program ({})",
                from.measured_at,
                seconds(from.age_s),
                from.binary
            )
        })
        .unwrap_or_default();
    format!(
        "ceiling {}/s over {} connections{cpu}; floor P50 {}, P99 {}; one clock read {} ns{reused}",
        rate(found.ceiling_rps),
        found.connections,
        latency(found.floor_p50_us),
        latency(found.floor_p99_us),
        significant(found.clock_read_ns)
    )
}

/// One line about a target: what it is, where, and how it was started.
pub(crate) fn target_line(target: &TargetRecord) -> String {
    let mut parts = vec![format!(
        "{} {} at {}",
        target.server_name, target.server_version, target.url
    )];
    parts.extend(target.threads.map(|threads| match threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    }));
    parts.extend(
        target
            .start_to_first_reply_ms
            .map(|ms| format!("first reply after {} ms", significant(ms))),
    );
    parts.extend(
        target
            .idle_rss_bytes
            .map(|rss| format!("{} idle", bytes(rss))),
    );
    parts.extend(
        target
            .settings
            .iter()
            .map(|s| format!("{}={}", s.name, s.value)),
    );
    if !target.command_line.is_empty() {
        parts.push(format!("started as {}", command(&target.command_line)));
    }
    parts.join(", ")
}

/// Arguments as one would type them.
pub(crate) fn command(arguments: &[String]) -> String {
    let quoted: Vec<String> = arguments
        .iter()
        .enumerate()
        .map(|(at, argument)| {
            // Where the program lay says nothing to a reader on another machine.
            let argument = match argument.rsplit('/').next() {
                Some(name) if at == 0 && !name.is_empty() => name,
                _ => argument,
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
            if !argument.is_empty() && argument.chars().all(plain) {
                argument.to_owned()
            } else {
                format!("'{}'", argument.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let arguments = ["tollgate", "bench", "--keys", "it's one", ""].map(str::to_owned);
        assert_eq!(
            command(&arguments),
            "tollgate bench --keys 'it'\\''s one' ''"
        );
        let arguments = ["/opt/bin/tollgate", "--out", "/tmp/x"].map(str::to_owned);
        assert_eq!(command(&arguments), "tollgate --out /tmp/x");
    }

    #[test]
    fn unknown_circumstances_are_left_out() {
        let names: Vec<&str> = manifest_rows(&Manifest::default(), None, Lang::En)
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, ["CPU", "Pinning", "Tollgate", "Seed"]);
    }
}
