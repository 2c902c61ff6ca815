//! Manifest, calibration and targets in words.

use crate::record::{Calibration, Gauge};
use crate::record::{Drift, Machine, Manifest, Pinning, RunRecord, Setting, TargetRecord, Tool};

use super::format::{bytes, latency, printable, rate, seconds, significant};
use super::lang::{Lang, Text, page as t};
use crate::target::further::variable;

/// Manifest, calibration and gauges of a run as name and value, without what is unknown.
pub(crate) fn run_rows(record: &RunRecord, lang: Lang) -> Vec<(&'static str, String)> {
    manifest_rows(
        &record.manifest,
        record.calibration.as_ref(),
        &record.gauges,
        lang,
    )
}

/// The same of what is no run.
pub(crate) fn manifest_rows(
    manifest: &Manifest,
    calibration: Option<&Calibration>,
    gauges: &[Gauge],
    lang: Lang,
) -> Vec<(&'static str, String)> {
    let mut rows = machine_rows(&manifest.machine, lang);
    rows.extend([
        (t::M_PINNING, pinning(&manifest.pinning, lang)),
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
            calibration
                .map(|found| generator(found, lang))
                .unwrap_or_default(),
        ),
        (
            t::M_DRIFT,
            Drift::of(gauges)
                .map(|drift| drifted(&drift, lang))
                .unwrap_or_default(),
        ),
    ]);
    rows.into_iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(name, value)| (name.of(lang), value))
        .collect()
}

fn machine_rows(machine: &Machine, lang: Lang) -> Vec<(Text, String)> {
    let known = |value: &Option<String>| value.clone().unwrap_or_default();
    vec![
        (
            t::M_CPU,
            t::M_CPU_IS.with(
                lang,
                &[
                    ("model", &machine.cpu_model),
                    ("cores", &machine.cores.to_string()),
                    ("arch", &machine.arch),
                ],
            ),
        ),
        (
            t::M_MEMORY,
            machine.memory_bytes.map(bytes).unwrap_or_default(),
        ),
        (t::M_SYSTEM, format!("{} {}", machine.os, machine.kernel)),
        (t::M_CLOCK, known(&machine.clocksource)),
        (t::M_GOVERNOR, known(&machine.governor)),
        (t::M_IDLE_GOVERNOR, known(&machine.idle_governor)),
        (t::M_HYPERVISOR, known(&machine.hypervisor)),
        (
            t::M_LOAD_BEFORE,
            machine.load_average_1m.map(significant).unwrap_or_default(),
        ),
    ]
}

fn pinning(pinning: &Pinning, lang: Lang) -> String {
    let cpus = |list: &[u32]| {
        let numbers: Vec<String> = list.iter().map(u32::to_string).collect();
        match numbers.len() {
            0 => t::M_NOT_PINNED.of(lang).to_owned(),
            1 => t::M_CORE.with(lang, &[("core", &numbers[0])]),
            _ => t::M_CORES.with(lang, &[("cores", &numbers.join(", "))]),
        }
    };
    let (generator, targets) = (cpus(&pinning.generator_cpus), cpus(&pinning.target_cpus));
    let text = match pinning.co_located {
        true => t::M_PINNED_TOGETHER,
        false => t::M_PINNED,
    };
    text.with(lang, &[("generator", &generator), ("targets", &targets)])
}

fn tool(tool: &Tool) -> String {
    let commit = tool
        .commit
        .as_deref()
        .map(|commit| format!(" {commit}"))
        .unwrap_or_default();
    format!("{}{commit} ({})", tool.version, tool.profile)
}

fn generator(found: &Calibration, lang: Lang) -> String {
    let cpu = found
        .generator_cpu_us_per_op
        .map(|us| t::M_GENERATOR_CPU.with(lang, &[("us", &significant(us))]))
        .unwrap_or_default();
    let reused = found
        .reused
        .as_ref()
        .map(|from| {
            t::M_REUSED.with(
                lang,
                &[
                    ("when", &from.measured_at),
                    ("age", &seconds(from.age_s, lang)),
                    ("binary", &from.binary),
                ],
            )
        })
        .unwrap_or_default();
    t::M_CALIBRATED.with(
        lang,
        &[
            ("ceiling", &rate(found.ceiling_rps)),
            ("connections", &found.connections.to_string()),
            ("cpu", &cpu),
            ("p50", &latency(found.floor_p50_us)),
            ("p99", &latency(found.floor_p99_us)),
            ("clock", &significant(found.clock_read_ns)),
            ("reused", &reused),
        ],
    )
}

/// How the machine stayed the same, or did not.
fn drifted(drift: &Drift, lang: Lang) -> String {
    let ([low, high], [best, worst]) = (drift.ceiling_rps, drift.floor_p99_us);
    t::M_DRIFTED.with(
        lang,
        &[
            ("n", &drift.n.to_string()),
            ("low", &rate(low)),
            ("high", &rate(high)),
            ("ratio", &significant(drift.ratio())),
            ("best", &latency(best)),
            ("worst", &latency(worst)),
        ],
    )
}

/// One line about a target: what it is, where, and how it was started.
pub(crate) fn target_line(target: &TargetRecord, lang: Lang) -> String {
    let what = format!("{} {}", target.server_name, target.server_version);
    let mut parts = vec![t::M_TARGET_AT.with(lang, &[("what", &what), ("url", &target.url)])];
    parts.extend(target.threads.map(|threads| match threads {
        1 => t::M_ONE_THREAD.of(lang).to_owned(),
        more => t::M_THREADS.with(lang, &[("n", &more.to_string())]),
    }));
    parts.extend(
        target
            .start_to_first_reply_ms
            .map(|ms| t::M_FIRST_REPLY.with(lang, &[("ms", &significant(ms))])),
    );
    parts.extend(
        target
            .idle_rss_bytes
            .map(|rss| t::M_IDLE.with(lang, &[("memory", &bytes(rss))])),
    );
    parts.extend(
        target
            .settings
            .iter()
            .map(|s| format!("{}={}", s.name, s.value)),
    );
    if !target.command_line.is_empty() {
        let started = command(&target.command_line);
        parts.push(t::M_STARTED_AS.with(lang, &[("command", &started)]));
    }
    parts.join(", ")
}

/// What a store says of itself in `INFO server`, field by field; empty where nothing was kept.
pub(crate) fn info_lines(target: &TargetRecord) -> Vec<String> {
    let fields = target.info_server.iter();
    let line = |field: &Setting| printable(&format!("{}:{}", field.name, field.value));
    fields.map(line).collect()
}

/// Arguments as one would type them.
pub(crate) fn command(arguments: &[String]) -> String {
    let program = arguments.iter().position(|word| variable(word).is_none());
    let quoted: Vec<String> = arguments
        .iter()
        .enumerate()
        .map(|(at, argument)| {
            // Where the program lay says nothing to a reader on another machine.
            let argument = match argument.rsplit('/').next() {
                Some(name) if Some(at) == program && !name.is_empty() => name,
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
        let arguments = ["THREADS=1", "/opt/bin/tollgate"].map(str::to_owned);
        assert_eq!(command(&arguments), "THREADS=1 tollgate");
    }

    #[test]
    fn unknown_circumstances_are_left_out() {
        let names: Vec<&str> = manifest_rows(&Manifest::default(), None, &[], Lang::En)
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, ["CPU", "Pinning", "Tollgate", "Seed"]);
    }
}
