//! Which part of the measured path is at its limit: stated rules over what was sampled, first match wins.
//!
//! 1. The generator, if its thread used [`SATURATED_PERCENT`] of a core or more: nothing else can be concluded then.
//! 2. The target's process (store, service, proxy, another) that is nearest to its limit, if one of its threads used that
//!    much of a core, or all of them that much of the cores it may run on.
//! 3. The machine, if a watched thread was hardly ever idle but waited for a core ([`STARVED_WAIT_PERCENT`]), the hypervisor
//!    took more than [`STEAL_PERCENT_MAX`], software interrupts filled a core, all cores were busy, or tasks waited for
//!    memory or disks.
//! 4. Nothing that was watched.

use crate::record::attribution::{Bottleneck, Limit, MachineAttribution, ProcessAttribution, Role};
use crate::record::validity::STEAL_PERCENT_MAX;

/// CPU of a thread from which on it counts as full, percent of one core.
pub(crate) const SATURATED_PERCENT: f64 = 90.0;
/// Time run and waited together from which on a thread was hardly ever idle, percent.
pub(crate) const NEVER_IDLE_PERCENT: f64 = 95.0;
/// Time of it spent waiting from which on cores were missing, percent.
pub(crate) const STARVED_WAIT_PERCENT: f64 = 10.0;
/// Use of all cores together from which on the machine is full, percent.
pub(crate) const MACHINE_BUSY_PERCENT: f64 = 97.0;
/// Time in which tasks waited for memory or disks from which on these are the limit, percent.
pub(crate) const PRESSURE_PERCENT: f64 = 20.0;

/// Names the bottleneck of a step. `target_known` is false where the target's process runs elsewhere or is hidden.
#[must_use]
pub(crate) fn name(
    processes: &[ProcessAttribution],
    machine: &MachineAttribution,
    target_known: bool,
) -> Bottleneck {
    let generator = processes
        .iter()
        .find(|process| process.role == Role::Generator);
    if let Some((process, load)) = generator.and_then(|process| Some((process, fullest(process)?)))
        && load.percent >= SATURATED_PERCENT
    {
        return limited(Limit::Generator, "the generator", &load.of(process));
    }
    let nearest = nearest(processes);
    if let Some((process, load)) = &nearest
        && load.percent >= SATURATED_PERCENT
    {
        return limited(limit_of(process.role), &title(process), &load.of(process));
    }
    if let Some(why) = machine_limit(processes, machine) {
        return limited(Limit::Machine, "the machine", &why);
    }
    let mut sentence = "nothing that was watched is at its limit".to_owned();
    match nearest {
        Some((process, load)) => {
            sentence.push_str(&format!(
                "; nearest is {}: {}",
                title(process),
                load.of(process)
            ));
        }
        None if target_known => {}
        None => sentence.push_str("; the target's process is not known"),
    }
    Bottleneck {
        limit: Limit::NoneFound,
        sentence,
    }
}

fn limited(limit: Limit, what: &str, why: &str) -> Bottleneck {
    Bottleneck {
        limit,
        sentence: format!("limited by {what}: {why}"),
    }
}

fn limit_of(role: Role) -> Limit {
    match role {
        Role::Generator => Limit::Generator,
        Role::Service => Limit::Service,
        Role::Proxy => Limit::Proxy,
        Role::Store => Limit::Store,
        Role::Other => Limit::Other,
    }
}

fn title(process: &ProcessAttribution) -> String {
    match process.role {
        Role::Other => process.name.clone(),
        role => format!("the {} ({})", role.word(), process.name),
    }
}

/// How full the fullest part of a process is.
struct Fullness {
    /// Percent of what the part can use.
    percent: f64,
    /// The cores of the whole process, where they and not one thread are the part.
    cores: Option<u32>,
}

impl Fullness {
    fn of(&self, process: &ProcessAttribution) -> String {
        match (self.cores, &process.busiest_thread) {
            (Some(cores), _) => format!("{:.0} % of the {cores} cores it may use", self.percent),
            (None, Some(thread)) => format!(
                "its thread {} used {:.0} % of a core",
                thread.name, self.percent
            ),
            (None, None) => format!("it used {:.0} % of a core", self.percent),
        }
    }
}

fn fullest(process: &ProcessAttribution) -> Option<Fullness> {
    let thread = process
        .busiest_thread
        .as_ref()
        .map(|thread| thread.cpu_percent);
    let one = thread.map(|percent| Fullness {
        percent,
        cores: None,
    });
    let all = process
        .cpu_percent
        .zip(process.cores_allowed)
        .filter(|(_, cores)| *cores > 0);
    let all = all.map(|(percent, cores)| Fullness {
        percent: percent / f64::from(cores),
        cores: (cores > 1).then_some(cores),
    });
    match (one, all) {
        (Some(one), Some(all)) if all.percent > one.percent => Some(all),
        (Some(one), _) => Some(one),
        (None, all) => all,
    }
}

fn nearest(processes: &[ProcessAttribution]) -> Option<(&ProcessAttribution, Fullness)> {
    processes
        .iter()
        .filter(|process| process.role != Role::Generator)
        .filter_map(|process| Some((process, fullest(process)?)))
        .max_by(|a, b| a.1.percent.total_cmp(&b.1.percent))
}

fn machine_limit(processes: &[ProcessAttribution], machine: &MachineAttribution) -> Option<String> {
    let starved = processes.iter().find_map(|process| {
        let thread = process.busiest_thread.as_ref()?;
        let wait = thread.run_queue_wait_percent?;
        let never_idle = thread.cpu_percent + wait >= NEVER_IDLE_PERCENT;
        (never_idle && wait >= STARVED_WAIT_PERCENT).then(|| {
            format!(
                "thread {} of {} ran {:.0} % of the time and waited {wait:.0} % for a core",
                thread.name,
                title(process),
                thread.cpu_percent
            )
        })
    });
    if starved.is_some() {
        return starved;
    }
    let above = |value: Option<f64>, bound: f64| value.filter(|value| *value > bound);
    if let Some(steal) = above(machine.steal_percent, STEAL_PERCENT_MAX) {
        return Some(format!(
            "the hypervisor took {steal:.1} % of the processor time"
        ));
    }
    let one_core = SATURATED_PERCENT / f64::from(machine.cores.max(1));
    if let Some(softirq) = above(machine.softirq_percent, one_core) {
        return Some(format!(
            "software interrupts (network) took {softirq:.0} % of all cores"
        ));
    }
    if let Some(busy) = above(machine.busy_percent, MACHINE_BUSY_PERCENT) {
        let watched: Option<f64> = processes.iter().map(|process| process.cpu_percent).sum();
        let theirs = watched.map_or_else(String::new, |percent| {
            let share = percent / f64::from(machine.cores.max(1));
            format!("; the watched processes used {share:.0} % of them")
        });
        return Some(format!("all cores were busy ({busy:.0} %){theirs}"));
    }
    let stalled = [
        ("memory", machine.pressure_memory_percent),
        ("disks", machine.pressure_io_percent),
    ];
    stalled.into_iter().find_map(|(what, percent)| {
        let percent = above(percent, PRESSURE_PERCENT)?;
        Some(format!(
            "tasks waited for {what} {percent:.0} % of the time"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::attribution::ThreadUse;

    fn process(role: Role, name: &str, cpu: f64, wait: f64) -> ProcessAttribution {
        ProcessAttribution {
            role,
            name: name.into(),
            cpu_percent: Some(cpu),
            busiest_thread: Some(ThreadUse {
                name: "main".into(),
                tid: 1,
                cpu_percent: cpu,
                run_queue_wait_percent: Some(wait),
            }),
            cores_allowed: Some(2),
            ..ProcessAttribution::default()
        }
    }

    fn path(generator: f64, service: f64, proxy: f64, store: f64) -> Vec<ProcessAttribution> {
        vec![
            process(Role::Generator, "bench", generator, 0.0),
            process(Role::Service, "rls", service, 0.0),
            process(Role::Proxy, "envoy", proxy, 0.0),
            process(Role::Store, "redis-server", store, 0.0),
        ]
    }

    fn calm() -> MachineAttribution {
        MachineAttribution {
            cores: 2,
            busy_percent: Some(60.0),
            steal_percent: Some(0.1),
            softirq_percent: Some(3.0),
            ..MachineAttribution::default()
        }
    }

    fn of(processes: &[ProcessAttribution]) -> Bottleneck {
        name(processes, &calm(), true)
    }

    #[test]
    fn a_full_store_thread_is_named() {
        let found = of(&path(40.0, 30.0, 20.0, 98.6));
        assert_eq!(found.limit, Limit::Store);
        assert_eq!(
            found.sentence,
            "limited by the store (redis-server): its thread main used 99 % of a core"
        );
    }

    #[test]
    fn service_and_proxy_are_named() {
        assert_eq!(of(&path(40.0, 97.0, 20.0, 50.0)).limit, Limit::Service);
        assert_eq!(of(&path(40.0, 30.0, 95.0, 50.0)).limit, Limit::Proxy);
        let both = of(&path(40.0, 97.0, 95.0, 50.0));
        assert_eq!(both.limit, Limit::Service, "the fuller of two");
        let other = [process(Role::Other, "sidecar", 99.0, 0.0)];
        assert_eq!(of(&other).limit, Limit::Other);
    }

    #[test]
    fn a_full_generator_leaves_nothing_to_conclude() {
        assert_eq!(of(&path(93.0, 30.0, 20.0, 99.0)).limit, Limit::Generator);
    }

    #[test]
    fn all_cores_of_a_process_may_be_full_without_a_full_thread() {
        let mut store = process(Role::Store, "dragonfly", 85.0, 0.0);
        store.cpu_percent = Some(190.0);
        let found = of(&[store]);
        assert_eq!(found.limit, Limit::Store);
        assert!(
            found.sentence.ends_with("95 % of the 2 cores it may use"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn threads_that_share_a_core_are_the_machines_fault() {
        let mut processes = path(30.0, 48.0, 0.0, 50.0);
        processes[3] = process(Role::Store, "redis-server", 50.0, 48.0);
        let found = of(&processes);
        assert_eq!(found.limit, Limit::Machine);
        assert!(found.sentence.contains("waited 48 % for a core"));
    }

    #[test]
    fn each_rule_of_the_machine_is_seen() {
        let limit = |change: fn(&mut MachineAttribution)| {
            let mut machine = calm();
            change(&mut machine);
            name(&path(40.0, 30.0, 20.0, 60.0), &machine, true).limit
        };
        assert_eq!(limit(|_| {}), Limit::NoneFound);
        assert_eq!(limit(|m| m.steal_percent = Some(2.5)), Limit::Machine);
        assert_eq!(limit(|m| m.softirq_percent = Some(46.0)), Limit::Machine);
        assert_eq!(limit(|m| m.busy_percent = Some(99.0)), Limit::Machine);
        assert_eq!(
            limit(|m| m.pressure_memory_percent = Some(30.0)),
            Limit::Machine
        );
        assert_eq!(
            limit(|m| m.pressure_io_percent = Some(30.0)),
            Limit::Machine
        );
    }

    #[test]
    fn an_idle_path_says_what_is_nearest() {
        let found = of(&path(10.0, 12.0, 8.0, 42.0));
        assert_eq!(found.limit, Limit::NoneFound);
        assert!(
            found
                .sentence
                .contains("nearest is the store (redis-server): its thread main used 42 %"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn nothing_measured_is_nothing_claimed() {
        let found = name(&[], &MachineAttribution::default(), false);
        assert_eq!(found.limit, Limit::NoneFound);
        assert!(found.sentence.contains("process is not known"));
        let blind = ProcessAttribution::default();
        assert_eq!(of(&[blind]).limit, Limit::NoneFound);
    }
}
