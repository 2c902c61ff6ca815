//! What the kernel says of processes and of the machine at one moment.

use std::fs;
use std::path::{Path, PathBuf};

use crate::os::proc;
use crate::os::proc_text::{self, Ticks};
use crate::record::attribution::Role;

/// Threads of one process that are read; more are left out of the busiest-thread search.
const THREADS_MAX: usize = 512;
/// Processes that one target may consist of.
const FAMILY_MAX: usize = 64;
/// Processor packages asked for their energy.
const PACKAGES_MAX: usize = 16;

/// A process to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Its part in the measured path.
    pub role: Role,
    /// Name in tables.
    pub name: String,
    /// Process id.
    pub pid: u32,
}

/// One thread at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadReading {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) ran_ns: u64,
    pub(super) waited_ns: u64,
    pub(super) voluntary: Option<u64>,
    pub(super) involuntary: Option<u64>,
}

/// One process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessReading {
    pub(super) cpu_ns: Option<u64>,
    pub(super) user_ticks: Option<u64>,
    pub(super) system_ticks: Option<u64>,
    pub(super) rss_bytes: Option<u64>,
    pub(super) cores_allowed: Option<u32>,
    pub(super) threads: Vec<ThreadReading>,
}

/// The machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineReading {
    pub(super) ticks: Option<Ticks>,
    pub(super) cpu_waited_us: Option<u64>,
    pub(super) io_waited_us: Option<u64>,
    pub(super) memory_waited_us: Option<u64>,
    /// Counter and range of every processor package, in microjoules.
    pub(super) energy_uj: Vec<(u64, u64)>,
}

/// Time for which tasks have waited so far, in microseconds; `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitedReading {
    pub(super) cpu_us: Option<u64>,
    pub(super) io_us: Option<u64>,
    pub(super) memory_us: Option<u64>,
}

/// Everything at one moment, `at_ns` after the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) at_ns: u64,
    /// In the order of the watched processes; `None` for one that has ended.
    pub(super) processes: Vec<Option<ProcessReading>>,
    /// Read once a second; `None` in the samples between.
    pub(super) waited: Option<WaitedReading>,
}

/// How much is read: context switches cost a file per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Without context switches, for the samples in between.
    Light,
    /// Everything.
    Full,
}

/// Reads process `pid`; `None` if there is none, or the system has no `/proc`.
pub(super) fn process(pid: u32, depth: Depth) -> Option<ProcessReading> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let stat = proc_text::stat(&fs::read_to_string(folder.join("stat")).ok()?)?;
    let status = fs::read_to_string(folder.join("status"))
        .map(|text| proc_text::status(&text))
        .unwrap_or_default();
    let tasks = fs::read_dir(folder.join("task")).ok();
    let threads = tasks
        .into_iter()
        .flatten()
        .flatten()
        .take(THREADS_MAX)
        .filter_map(|task| thread(&task.path(), depth))
        .collect();
    Some(ProcessReading {
        cpu_ns: proc::cpu_ns(pid),
        user_ticks: Some(stat.user_ticks),
        system_ticks: Some(stat.system_ticks),
        rss_bytes: status.rss_bytes,
        cores_allowed: status.cores_allowed,
        threads,
    })
}

fn thread(folder: &Path, depth: Depth) -> Option<ThreadReading> {
    let tid = folder.file_name()?.to_str()?.parse().ok()?;
    let schedule = proc_text::schedule(&fs::read_to_string(folder.join("schedstat")).ok()?)?;
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let status = match depth {
        // A thread that ends in between is left out as a whole: the last sample has seen it.
        Depth::Full => proc_text::status(&fs::read_to_string(folder.join("status")).ok()?),
        Depth::Light => proc_text::Status::default(),
    };
    Some(ThreadReading {
        tid,
        name: name.trim_end().to_owned(),
        ran_ns: schedule.ran_ns,
        waited_ns: schedule.waited_ns,
        voluntary: status.voluntary_switches,
        involuntary: status.involuntary_switches,
    })
}

/// Reads for how long the machine's tasks have waited.
pub(super) fn waited() -> WaitedReading {
    let pressure = |of: &str| {
        let text = fs::read_to_string(format!("/proc/pressure/{of}")).ok()?;
        proc_text::pressure_some_us(&text)
    };
    WaitedReading {
        cpu_us: pressure("cpu"),
        io_us: pressure("io"),
        memory_us: pressure("memory"),
    }
}

/// Reads the machine's counters.
pub(super) fn machine() -> MachineReading {
    let waited = waited();
    MachineReading {
        ticks: proc::machine_ticks(),
        cpu_waited_us: waited.cpu_us,
        io_waited_us: waited.io_us,
        memory_waited_us: waited.memory_us,
        energy_uj: energy(),
    }
}

/// Energy counters of the processor packages; none unless all of them may be read.
fn energy() -> Vec<(u64, u64)> {
    let number = |path: PathBuf| -> Option<u64> {
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    let mut packages = Vec::new();
    for index in 0..PACKAGES_MAX {
        let folder = PathBuf::from(format!("/sys/class/powercap/intel-rapl:{index}"));
        if !folder.exists() {
            break;
        }
        let counter = number(folder.join("energy_uj"));
        match counter.zip(number(folder.join("max_energy_range_uj"))) {
            Some(package) => packages.push(package),
            None => return Vec::new(),
        }
    }
    packages
}

/// `roots` and all their descendants, each with the role of its root. A child that is itself watched stays what it is.
pub(super) fn families(roots: &[Watched]) -> Vec<Watched> {
    let all = parents();
    let mut found: Vec<Watched> = roots.to_vec();
    for root in roots {
        let mut family = vec![root.pid];
        let mut next = 0;
        while let Some(&parent) = family.get(next) {
            next += 1;
            for (pid, _, name) in all.iter().filter(|(_, of, _)| *of == parent) {
                let known = found.iter().any(|watched| watched.pid == *pid);
                // The generator's children are the targets it started, or none of the measured path.
                if known || family.len() >= FAMILY_MAX || root.role == Role::Generator {
                    continue;
                }
                family.push(*pid);
                found.push(Watched {
                    role: root.role,
                    name: name.clone(),
                    pid: *pid,
                });
            }
        }
    }
    found
}

/// Every process with its parent and name.
fn parents() -> Vec<(u32, u32, String)> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = proc_text::stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
            Some((pid, stat.parent, stat.name))
        })
        .collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_read_and_a_missing_one_is_not() {
        let own = process(std::process::id(), Depth::Full).unwrap();
        assert!(own.cpu_ns.is_some() && own.rss_bytes.is_some() && own.cores_allowed.is_some());
        assert!(own.threads.iter().all(|thread| thread.voluntary.is_some()));
        assert!(process(u32::MAX, Depth::Full).is_none());
        assert!(machine().ticks.is_some());
    }

    #[test]
    fn a_child_belongs_to_its_parent() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let root = |role| Watched {
            role,
            name: "root".into(),
            pid: std::process::id(),
        };
        let of_store = families(&[root(Role::Store)]);
        let of_generator = families(&[root(Role::Generator)]);
        let pid = child.id();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = of_store.iter().find(|watched| watched.pid == pid).unwrap();
        assert_eq!(found.role, Role::Store);
        assert_eq!(of_generator.len(), 1, "targets are watched by themselves");
    }
}
