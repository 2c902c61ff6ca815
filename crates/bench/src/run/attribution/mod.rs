//! Attribution of a step: samples of the processes and the machine while the load runs, and what follows from them.

pub(crate) mod bottleneck;
mod reading;
mod recorder;
mod sampler;
mod store;

use std::time::Duration;

pub(crate) use reading::Watched;

use crate::load::open::Outcome;
use crate::os::proc;
use crate::record::attribution::{
    Attribution, Bottleneck, ProcessAttribution, Role, RoleCost, ThreadUse, cost_per_million,
};
use crate::record::{Step, TargetKind};
use crate::target::Target;

use sampler::{Sampled, Sampler};
use store::Account;

/// Processes that may be named with `--watch`.
pub(crate) const WATCH_MAX: usize = 32;
/// Name of this program among the processes.
const GENERATOR_NAME: &str = "bench";

/// What is watched besides generator and target, and what the machine costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watching {
    /// Further processes.
    pub also: Vec<Watched>,
    /// Price of the machine, in the user's currency.
    pub price_per_hour: Option<f64>,
}

impl Watched {
    /// Whether its counters can be read.
    #[must_use]
    pub(crate) fn is_there(&self) -> bool {
        proc::cpu_ns(self.pid).is_some()
    }
}

impl std::str::FromStr for Watched {
    type Err = String;

    /// `NAME=PID`, `ROLE=PID` or `ROLE:NAME=PID`, with the roles service, proxy and store.
    fn from_str(text: &str) -> Result<Watched, String> {
        let wrong = || {
            format!(
                "'{text}' is not a process: give NAME=PID, or ROLE:NAME=PID with service, proxy or store as the role"
            )
        };
        let (name, pid) = text.rsplit_once('=').ok_or_else(wrong)?;
        let pid = pid.parse().ok().filter(|pid| *pid > 0).ok_or_else(wrong)?;
        let role_of = |word: &str| match word {
            "service" => Some(Role::Service),
            "proxy" => Some(Role::Proxy),
            "store" => Some(Role::Store),
            _ => None,
        };
        let (role, name) = match name.split_once(':') {
            Some((word, name)) => (role_of(word).ok_or_else(wrong)?, name),
            None => (role_of(name).unwrap_or_default(), name),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Watched {
            role,
            name: name.into(),
            pid,
        })
    }
}

/// Watches one load.
pub(super) struct Observer {
    sampler: Sampler,
    before: Option<Account>,
}

impl Observer {
    /// Starts just before the load of `length` begins.
    pub(super) fn start(target: &Target, watching: &Watching, length: Duration) -> Observer {
        let before = account(target);
        let mut roots = vec![Watched {
            role: Role::Generator,
            name: GENERATOR_NAME.into(),
            pid: std::process::id(),
        }];
        let own = std::process::id();
        let others = target.pids().into_iter().filter(|pid| *pid != own);
        roots.extend(others.map(|pid| Watched {
            role: role(target),
            name: target.record().name.clone(),
            pid,
        }));
        roots.extend(target.fleet().and_then(|fleet| {
            Some(Watched {
                role: Role::Store,
                name: fleet.store.record.name.clone(),
                pid: fleet.store.pid?,
            })
        }));
        for watched in &watching.also {
            if roots.iter().all(|root| root.pid != watched.pid) {
                roots.push(watched.clone());
            }
        }
        Observer {
            before,
            sampler: Sampler::start(reading::families(&roots), length),
        }
    }

    /// The processes whose processor time is wanted, once the connections are up.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.sampler.pids()
    }

    /// Ends when the load has ended; `outcome` and `step` are what it brought. `None` if nothing could be sampled.
    pub(super) fn finish(
        self,
        target: &Target,
        watching: &Watching,
        step: &Step,
        outcome: &Outcome,
    ) -> Option<Attribution> {
        let cpu_ns = self
            .pids()
            .iter()
            .map(|pid| outcome.cpu_ns_of(&[*pid]))
            .collect();
        let sampled = self.sampler.stop()?;
        let mut found = assemble(
            sampled,
            cpu_ns,
            step,
            watching.price_per_hour,
            !target.pids().is_empty(),
        );
        found.store = self
            .before
            .zip(account(target))
            .map(|(before, after)| store::between(&before, &after));
        Some(found)
    }
}

/// Watches processes under a load that is not a step of a ladder, for its bottleneck alone.
#[derive(Debug)]
pub(crate) struct Look {
    sampler: Sampler,
    target_known: bool,
}

impl Look {
    /// Starts to watch `roots` and their children for at most `length`.
    #[must_use]
    pub(crate) fn start(roots: &[Watched], length: Duration) -> Look {
        Look {
            sampler: Sampler::start(reading::families(roots), length),
            target_known: roots.iter().any(|root| root.role != Role::Generator),
        }
    }

    /// Ends with the load; `None` if nothing could be sampled.
    #[must_use]
    pub(crate) fn end(self) -> Option<Bottleneck> {
        let sampled = self.sampler.stop()?;
        Some(bottleneck::name(
            &sampled.processes,
            &sampled.machine,
            self.target_known,
        ))
    }
}

fn role(target: &Target) -> Role {
    match target.record().kind {
        TargetKind::Store => Role::Store,
        TargetKind::Service => Role::Service,
        TargetKind::Null => Role::Other,
    }
}

fn account(target: &Target) -> Option<Account> {
    match (target, target.fleet()) {
        (Target::Store(store), _) => store::ask(&store.endpoint),
        (_, Some(fleet)) => store::ask(&fleet.store.endpoint),
        _ => None,
    }
}

/// `cpu_ns` is what each sampled process used for the answers.
fn assemble(
    sampled: Sampled,
    cpu_ns: Vec<Option<u64>>,
    step: &Step,
    price_per_hour: Option<f64>,
    target_known: bool,
) -> Attribution {
    let Sampled {
        mut processes,
        elapsed_ns,
        machine,
        pressure,
    } = sampled;
    for (process, cpu_ns) in processes.iter_mut().zip(&cpu_ns) {
        process.cpu_us_per_decision = cpu_ns
            .filter(|_| step.completed > 0)
            .map(|ns| ns as f64 / 1e3 / step.completed as f64);
        if process.role == Role::Generator {
            generator_thread(process, step);
        }
    }
    // Power by rate: the counters were read for the length of the schedule, and answers come after it too.
    let seconds = elapsed_ns as f64 / 1e9;
    let joules_per_million = machine
        .energy_joules
        .filter(|_| step.completed > 0 && step.completed_rps > 0.0 && seconds > 0.0)
        .map(|joules| joules / seconds / step.completed_rps * 1e6);
    Attribution {
        bottleneck: bottleneck::name(&processes, &machine, target_known),
        cost: costs(&processes),
        processes,
        machine,
        pressure_by_second: pressure,
        store: None,
        joules_per_million,
        price_per_hour,
        cost_per_million: price_per_hour
            .and_then(|price| cost_per_million(price, step.goodput_rps)),
    }
}

/// The generator measures its own thread exactly, over the time of its load alone.
fn generator_thread(process: &mut ProcessAttribution, step: &Step) {
    let Some(used) = step.generator else { return };
    process.busiest_thread = Some(ThreadUse {
        name: "generator".into(),
        tid: process
            .busiest_thread
            .as_ref()
            .map_or(0, |thread| thread.tid),
        cpu_percent: used.cpu_percent,
        run_queue_wait_percent: used.run_queue_wait_percent,
    });
}

/// CPU time per decision of all processes of a role; `None` if that of one of them is not known.
fn costs(processes: &[ProcessAttribution]) -> Vec<RoleCost> {
    let mut roles: Vec<Role> = processes.iter().map(|process| process.role).collect();
    roles.sort_unstable();
    roles.dedup();
    roles
        .into_iter()
        .map(|role| RoleCost {
            role,
            cpu_us_per_decision: processes
                .iter()
                .filter(|process| process.role == role)
                .map(|process| process.cpu_us_per_decision)
                .sum(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ProcessUse;
    use crate::record::attribution::{Limit, MachineAttribution};

    #[test]
    fn processes_to_watch_are_read() {
        let read = |text: &str| text.parse::<Watched>();
        let envoy = read("proxy:envoy=4711").unwrap();
        assert_eq!(
            (envoy.role, envoy.name.as_str(), envoy.pid),
            (Role::Proxy, "envoy", 4711)
        );
        assert_eq!(read("store=9").unwrap().role, Role::Store);
        assert_eq!(read("sidecar=9").unwrap().role, Role::Other);
        for bad in [
            "",
            "x",
            "x=",
            "x=0",
            "x=-1",
            "=5",
            "proxy:=5",
            "king:x=5",
            "x=5000000000",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    fn sampled() -> Sampled {
        let process = |role, cpu| ProcessAttribution {
            role,
            cpu_percent: Some(cpu),
            cores_allowed: Some(2),
            ..ProcessAttribution::default()
        };
        Sampled {
            processes: vec![
                process(Role::Generator, 30.0),
                process(Role::Store, 80.0),
                process(Role::Store, 10.0),
                process(Role::Proxy, 5.0),
            ],
            elapsed_ns: 2_000_000_000,
            machine: MachineAttribution {
                energy_joules: Some(0.5),
                ..MachineAttribution::default()
            },
            pressure: Vec::new(),
        }
    }

    #[test]
    fn costs_are_per_answer_and_role() {
        // 40 of the answers came after the two seconds for which the energy was read.
        let step = Step {
            completed: 140,
            completed_rps: 50.0,
            goodput_rps: 1_000.0,
            generator: Some(ProcessUse {
                cpu_percent: 28.0,
                ..ProcessUse::default()
            }),
            ..Step::default()
        };
        let cpu_ns = [300_000, 800_000, 320_000]
            .map(Some)
            .into_iter()
            .chain([None]);
        let found = assemble(sampled(), cpu_ns.collect(), &step, Some(0.36), true);
        let cost = |role| {
            let row = found.cost.iter().find(|cost| cost.role == role).unwrap();
            row.cpu_us_per_decision
        };
        assert_eq!(cost(Role::Generator), Some(300.0 / 140.0));
        assert_eq!(cost(Role::Store), Some(8.0), "a process and its child");
        assert_eq!(cost(Role::Proxy), None, "not known is not zero");
        assert!((found.cost_per_million.unwrap() - 0.1).abs() < 1e-12);
        assert!((found.joules_per_million.unwrap() - 5_000.0).abs() < 1e-9);
        assert_eq!(found.bottleneck.limit, Limit::NoneFound);
        let generator = found.processes[0].busiest_thread.as_ref().unwrap();
        assert_eq!(
            (generator.name.as_str(), generator.cpu_percent),
            ("generator", 28.0)
        );
    }

    #[test]
    fn without_answers_nothing_has_a_price() {
        let found = assemble(
            sampled(),
            vec![Some(1); 4],
            &Step::default(),
            Some(1.0),
            true,
        );
        assert!(
            found
                .processes
                .iter()
                .all(|p| p.cpu_us_per_decision.is_none())
        );
        assert_eq!(
            (found.cost_per_million, found.joules_per_million),
            (None, None)
        );
    }
}
