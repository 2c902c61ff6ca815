//! The circumstances of a run, for its manifest.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::os::{clock, cpu, proc};
use crate::record::{Machine, Manifest, Pinning, Tool, rfc3339_utc};

/// How long the machine is looked at before anything is measured: servers of the run have started by then, and are idle.
const LOOK: Duration = Duration::from_millis(300);
/// Processors that generator and target want for themselves, less what a quiet machine uses now and then.
const WANTED_IDLE: f64 = 1.5;

/// Everything known before the first measurement.
#[must_use]
pub(crate) fn manifest(
    seed: u64,
    generator_core: Option<usize>,
    target_core: Option<usize>,
) -> Manifest {
    let started_unix_s = unix_seconds();
    let cores = |core: Option<usize>| core.map(|core| core as u32).into_iter().collect();
    Manifest {
        tool: tool(),
        machine: machine(),
        pinning: Pinning {
            generator_cpus: cores(generator_core),
            target_cpus: cores(target_core),
            co_located: true,
        },
        command_line: std::env::args().map(without_password).collect(),
        seed,
        started_at: rfc3339_utc(started_unix_s),
        started_unix_s,
        duration_s: 0.0,
    }
}

/// Headers whose values are secrets.
const SECRET_HEADERS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
];

/// An argument as it may be kept: the login of a URL hidden, and what a header tells about who asks.
fn without_password(argument: String) -> String {
    if let Some((before, _)) = argument.split_once(':') {
        let name = before.rsplit('=').next().unwrap_or_default().trim();
        if SECRET_HEADERS
            .iter()
            .any(|secret| name.eq_ignore_ascii_case(secret))
        {
            return format!("{before}: ***");
        }
    }
    let Some(start) = argument.find("://").map(|at| at + 3) else {
        return argument;
    };
    match argument[start..].rfind('@') {
        Some(end) => format!("{}***{}", &argument[..start], &argument[start + end..]),
        None => argument,
    }
}

/// Seconds since the Unix epoch.
#[must_use]
pub(crate) fn unix_seconds() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}

/// What to say of a machine on which other processes keep `busy` of `count` processors busy; nothing if enough are left.
#[must_use]
pub(crate) fn beside_others(busy: f64, count: usize) -> Option<String> {
    let all = count as f64;
    (all - busy < WANTED_IDLE.min(0.75 * all)).then(|| {
        format!(
            "CPU use of other processes: {busy:.1} of {count}; what is measured meanwhile may come out invalid"
        )
    })
}

/// Processors that were busy on average while this process slept for a moment, and how many there are; `None` where that
/// cannot be read.
#[must_use]
pub(crate) fn busy_processors() -> Option<(f64, usize)> {
    let before = proc::machine_ticks()?;
    std::thread::sleep(LOOK);
    let after = proc::machine_ticks()?;
    Some((before.busy_until(after), after.processors))
}

fn tool() -> Tool {
    let tree = source_tree();
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(tree.as_ref()?)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    Tool {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: said(
            "git",
            &[
                "describe",
                "--always",
                "--dirty",
                "--abbrev=12",
                "--exclude=*",
            ],
        ),
        rustc: said("rustc", &["--version"]),
        profile: if cfg!(debug_assertions) {
            "dev"
        } else {
            "release"
        }
        .into(),
    }
}

/// The repository that this program was built in, if it still lies in its target folder.
fn source_tree() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.ancestors()
        .find(|folder| folder.join(".git").exists())
        .map(Into::into)
}

/// The machine as it is now.
#[must_use]
pub(crate) fn machine() -> Machine {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let first_line = |path: &str| {
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let load = first_line("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
    let hypervisor = fs::read_to_string("/proc/cpuinfo").ok().map(|info| {
        let virtual_machine = info
            .lines()
            .any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
        if virtual_machine { "yes" } else { "none" }.to_owned()
    });
    Machine {
        os: name.map_or_else(
            || std::env::consts::OS.to_owned(),
            |name| name.trim_matches('"').to_owned(),
        ),
        kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
        arch: std::env::consts::ARCH.into(),
        cpu_model: proc::cpu_model().unwrap_or_default(),
        cores: cpu::count() as u32,
        memory_bytes: proc::memory_bytes(),
        clocksource: clock::source(),
        governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        idle_governor: first_line("/sys/devices/system/cpu/cpuidle/current_governor"),
        hypervisor,
        load_average_1m: load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_two_idle_processors_is_spoken_of() {
        assert_eq!(beside_others(0.2, 2), None);
        assert_eq!(beside_others(60.0, 64), None);
        assert_eq!(beside_others(0.1, 1), None);
        for (busy, count) in [(1.9, 2), (0.9, 1), (63.0, 64)] {
            assert!(beside_others(busy, count).is_some(), "{busy} of {count}");
        }
        assert_eq!(
            beside_others(1.94, 2).as_deref(),
            Some(
                "CPU use of other processes: 1.9 of 2; what is measured meanwhile may come out invalid"
            )
        );
    }

    #[test]
    fn logins_are_not_kept() {
        let kept = |text: &str| without_password(text.into());
        assert_eq!(kept("a=redis://bob:s3@cret@h:1/2"), "a=redis://***@h:1/2");
        assert_eq!(kept("redis://h:1"), "redis://h:1");
        assert_eq!(kept("--step"), "--step");
        assert_eq!(kept("a=unix://:s3cret@/r.sock"), "a=unix://***@/r.sock");
        for (given, said) in [
            ("Authorization: Bearer s3cret", "Authorization: ***"),
            (
                "--http-header=cookie: id=s3cret",
                "--http-header=cookie: ***",
            ),
            ("x-user: {key}", "x-user: {key}"),
        ] {
            assert_eq!(kept(given), said);
        }
    }
}
