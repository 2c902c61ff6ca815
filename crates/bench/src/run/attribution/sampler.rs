//! Looks at the watched processes ten times a second, from a thread of its own with low priority: the generator's loop
//! is not touched.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::reading::{self, Depth, MachineReading, Snapshot, Watched};
use super::recorder::{self, Recorder};
use crate::os::cpu;
use crate::record::attribution::{MachineAttribution, Pressure, ProcessAttribution};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// Samples taken while a load runs.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Recorded>,
    watched: Vec<Watched>,
    machine_before: MachineReading,
    started: Instant,
}

#[derive(Debug)]
struct Recorded {
    recorder: Recorder,
    machine: MachineReading,
}

/// What the samples say.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampled {
    pub(super) processes: Vec<ProcessAttribution>,
    /// Time between the two readings of the machine's counters.
    pub(super) elapsed_ns: u64,
    pub(super) machine: MachineAttribution,
    pub(super) pressure: Vec<Pressure>,
}

impl Sampler {
    /// Starts to watch. Shares are taken over the first `length`; a drain after it does not dilute them.
    pub(super) fn start(watched: Vec<Watched>, length: Duration) -> Sampler {
        let mut recorder = Recorder::new(watched.clone());
        let started = Instant::now();
        let machine_before = reading::machine();
        recorder.take(snapshot(&recorder, started, Depth::Full));
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            cpu::step_back();
            loop {
                let left = length.saturating_sub(started.elapsed());
                match stopped.recv_timeout(INTERVAL.min(left)) {
                    Err(RecvTimeoutError::Timeout) if !left.is_zero() => {
                        let depth = if started.elapsed() >= length {
                            Depth::Full
                        } else {
                            Depth::Light
                        };
                        recorder.take(snapshot(&recorder, started, depth));
                        if depth == Depth::Full {
                            break;
                        }
                    }
                    _ => {
                        recorder.take(snapshot(&recorder, started, Depth::Full));
                        break;
                    }
                }
            }
            Recorded {
                machine: reading::machine(),
                recorder,
            }
        });
        Sampler {
            stop,
            thread,
            watched,
            machine_before,
            started,
        }
    }

    /// The processes that are watched.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.watched.iter().map(|watched| watched.pid).collect()
    }

    /// Ends the watch when the load has ended. `None` if the watching thread broke.
    pub(super) fn stop(self) -> Option<Sampled> {
        // A thread that has ended by itself does not listen any more.
        let _ended = self.stop.send(());
        let recorded = self.thread.join().ok()?;
        let elapsed_ns = recorded
            .recorder
            .elapsed_ns()
            .min(self.started.elapsed().as_nanos() as u64);
        Some(Sampled {
            processes: recorded.recorder.processes(ticks_per_second()),
            pressure: recorded.recorder.pressure(),
            elapsed_ns,
            machine: recorder::machine(
                cpu::count() as u32,
                &self.machine_before,
                &recorded.machine,
                elapsed_ns,
            ),
        })
    }
}

fn snapshot(recorder: &Recorder, started: Instant, depth: Depth) -> Snapshot {
    let processes = recorder
        .watched()
        .iter()
        .map(|watched| reading::process(watched.pid, depth))
        .collect();
    let at_ns = started.elapsed().as_nanos() as u64;
    Snapshot {
        at_ns,
        processes,
        waited: recorder.second_is_over(at_ns).then(reading::waited),
    }
}

/// Ticks in which the kernel counts user and system time.
fn ticks_per_second() -> f64 {
    // SAFETY: asks for a constant of the system.
    match unsafe { libc::sysconf(libc::_SC_CLK_TCK) } {
        ticks if ticks > 0 => ticks as f64,
        _ => 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::proc;
    use crate::record::attribution::Role;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_busy_process_shows_its_time_and_a_missing_one_nothing() {
        let own = Watched {
            role: Role::Generator,
            name: "own".into(),
            pid: std::process::id(),
        };
        let gone = Watched {
            pid: u32::MAX,
            ..own.clone()
        };
        let sampler = Sampler::start(vec![own, gone], Duration::from_secs(600));
        let before = proc::thread_cpu_ns().unwrap();
        let mut x = 0_u64;
        while proc::thread_cpu_ns().unwrap() < before + 20_000_000 {
            x = std::hint::black_box(x.wrapping_add(1));
        }
        let sampled = sampler.stop().unwrap();
        assert!(sampled.elapsed_ns >= 20_000_000);
        let busiest = sampled.processes[0].busiest_thread.as_ref().unwrap();
        assert!(busiest.cpu_percent > 0.0);
        assert_eq!(sampled.processes[1].cpu_percent, None);
    }
}
