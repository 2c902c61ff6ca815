//! From readings to what each process used: pure arithmetic over snapshots.

use std::collections::HashMap;

use super::reading::{
    MachineReading, ProcessReading, Snapshot, ThreadReading, WaitedReading, Watched,
};
use crate::record::attribution::{MachineAttribution, Pressure, ProcessAttribution, ThreadUse};

/// Seconds of CPU use that are kept, one figure each.
const SECONDS_MAX: usize = 7_200;
const SECOND_NS: u64 = 1_000_000_000;

/// What is known of one process so far.
#[derive(Debug)]
struct Track {
    first: Option<ProcessReading>,
    last: Option<ProcessReading>,
    rss_max: Option<u64>,
    /// By thread id: the counters at the first sight and at the last.
    threads: HashMap<u32, (ThreadReading, ThreadReading)>,
    second_began: Option<(u64, u64)>,
    by_second: Vec<f64>,
}

/// Collects snapshots of a window of time.
#[derive(Debug)]
pub(super) struct Recorder {
    watched: Vec<Watched>,
    tracks: Vec<Track>,
    elapsed_ns: u64,
    first_taken: bool,
    /// When the open second began, and for how long tasks had waited then.
    waiting_since: Option<(u64, WaitedReading)>,
    pressure: Vec<Pressure>,
}

impl Recorder {
    pub(super) fn new(watched: Vec<Watched>) -> Recorder {
        let tracks = watched
            .iter()
            .map(|_| Track {
                first: None,
                last: None,
                rss_max: None,
                threads: HashMap::new(),
                second_began: None,
                by_second: Vec::new(),
            })
            .collect();
        Recorder {
            watched,
            tracks,
            elapsed_ns: 0,
            first_taken: false,
            waiting_since: None,
            pressure: Vec::new(),
        }
    }

    pub(super) fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// Takes the next snapshot. The first one begins the window.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.elapsed_ns = snapshot.at_ns;
        let born_inside = self.first_taken;
        for (track, reading) in self.tracks.iter_mut().zip(snapshot.processes) {
            if let Some(reading) = reading {
                track.take(reading, snapshot.at_ns, born_inside);
            }
        }
        self.first_taken = true;
        if let Some(waited) = snapshot.waited {
            self.count_pressure(snapshot.at_ns, waited);
        }
    }

    /// Whether a second has passed since the pressure was last read, or it never was.
    pub(super) fn second_is_over(&self, at_ns: u64) -> bool {
        self.waiting_since
            .is_none_or(|(since, _)| at_ns.saturating_sub(since) >= SECOND_NS)
            && self.pressure.len() < SECONDS_MAX
    }

    fn count_pressure(&mut self, at_ns: u64, now: WaitedReading) {
        if let Some((since, before)) = self.waiting_since.replace((at_ns, now)) {
            let length = at_ns.saturating_sub(since);
            let part = |from: Option<u64>, to: Option<u64>| {
                grown(from, to).map(|us| share(us.saturating_mul(1_000), length).min(100.0))
            };
            let found = Pressure {
                at_s: (since as f64 + length as f64 / 2.0) / SECOND_NS as f64,
                cpu_percent: part(before.cpu_us, now.cpu_us),
                io_percent: part(before.io_us, now.io_us),
                memory_percent: part(before.memory_us, now.memory_us),
            };
            let known = [found.cpu_percent, found.io_percent, found.memory_percent];
            if length > 0 && known.iter().any(Option::is_some) {
                self.pressure.push(found);
            }
        }
    }

    /// What tasks waited for, second by second.
    pub(super) fn pressure(&self) -> Vec<Pressure> {
        self.pressure.clone()
    }

    /// Length of the window so far.
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// What each process used, in the order of the watched. `ticks_per_s` are the kernel's clock ticks.
    pub(super) fn processes(&self, ticks_per_s: f64) -> Vec<ProcessAttribution> {
        self.watched
            .iter()
            .zip(&self.tracks)
            .map(|(watched, track)| track.used(watched, self.elapsed_ns, ticks_per_s))
            .collect()
    }
}

impl Track {
    fn take(&mut self, reading: ProcessReading, at_ns: u64, born_inside: bool) {
        self.rss_max = self.rss_max.max(reading.rss_bytes);
        for thread in &reading.threads {
            let entry = self.threads.entry(thread.tid).or_insert_with(|| {
                // A thread that was not there at the first look has done all its work inside the window.
                let base = if born_inside {
                    ThreadReading {
                        tid: thread.tid,
                        voluntary: Some(0),
                        involuntary: Some(0),
                        ..ThreadReading::default()
                    }
                } else {
                    thread.clone()
                };
                (base, thread.clone())
            });
            let seen = (entry.1.voluntary, entry.1.involuntary);
            entry.1 = thread.clone();
            // A light sample does not read the switches: the last known ones stay.
            entry.1.voluntary = thread.voluntary.or(seen.0);
            entry.1.involuntary = thread.involuntary.or(seen.1);
        }
        self.count_second(&reading, at_ns);
        if self.first.is_none() {
            self.first = Some(reading.clone());
        }
        self.last = Some(reading);
    }

    fn count_second(&mut self, reading: &ProcessReading, at_ns: u64) {
        let Some(cpu_ns) = reading.cpu_ns else { return };
        let (began_at, began_cpu) = *self.second_began.get_or_insert((at_ns, cpu_ns));
        let length = at_ns.saturating_sub(began_at);
        if length >= SECOND_NS && self.by_second.len() < SECONDS_MAX {
            self.by_second
                .push(share(cpu_ns.saturating_sub(began_cpu), length));
            self.second_began = Some((at_ns, cpu_ns));
        }
    }

    fn used(&self, watched: &Watched, elapsed_ns: u64, ticks_per_s: f64) -> ProcessAttribution {
        let mut used = ProcessAttribution {
            role: watched.role,
            name: watched.name.clone(),
            pid: watched.pid,
            ..ProcessAttribution::default()
        };
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            return used;
        };
        if elapsed_ns == 0 {
            return used;
        }
        let seconds = elapsed_ns as f64 / SECOND_NS as f64;
        let ticks = |from: Option<u64>, to: Option<u64>| {
            grown(from, to).map(|ticks| 100.0 * ticks as f64 / ticks_per_s / seconds)
        };
        used.cpu_percent = grown(first.cpu_ns, last.cpu_ns).map(|ns| share(ns, elapsed_ns));
        used.cpu_user_percent = ticks(first.user_ticks, last.user_ticks);
        used.cpu_system_percent = ticks(first.system_ticks, last.system_ticks);
        used.rss_bytes = last.rss_bytes;
        used.rss_max_bytes = self.rss_max;
        used.cores_allowed = last.cores_allowed;
        used.threads = (!self.threads.is_empty()).then_some(self.threads.len() as u32);
        used.busiest_thread = self.busiest(elapsed_ns);
        let sum = |field: fn(&ThreadReading) -> Option<u64>| {
            let mut total = 0_u64;
            for (from, to) in self.threads.values() {
                total = total.saturating_add(grown(field(from), field(to))?);
            }
            (!self.threads.is_empty()).then_some(total)
        };
        used.voluntary_switches_per_s = sum(|t| t.voluntary).map(|count| count as f64 / seconds);
        used.involuntary_switches_per_s =
            sum(|t| t.involuntary).map(|count| count as f64 / seconds);
        used.run_queue_wait_percent = sum(|t| Some(t.waited_ns)).map(|ns| share(ns, elapsed_ns));
        used.cpu_percent_by_second = self.by_second.clone();
        used
    }

    fn busiest(&self, elapsed_ns: u64) -> Option<ThreadUse> {
        let ran =
            |(from, to): &(ThreadReading, ThreadReading)| to.ran_ns.saturating_sub(from.ran_ns);
        // Of equals the lowest id, so that the answer does not depend on the map's order.
        let pair = self
            .threads
            .values()
            .max_by_key(|pair| (ran(pair), std::cmp::Reverse(pair.1.tid)))?;
        let (from, to) = pair;
        Some(ThreadUse {
            name: to.name.clone(),
            tid: to.tid,
            cpu_percent: share(ran(pair), elapsed_ns),
            run_queue_wait_percent: Some(share(
                to.waited_ns.saturating_sub(from.waited_ns),
                elapsed_ns,
            )),
        })
    }
}

/// What the machine did between two readings, `elapsed_ns` apart.
pub(super) fn machine(
    cores: u32,
    before: &MachineReading,
    after: &MachineReading,
    elapsed_ns: u64,
) -> MachineAttribution {
    let ticks = before.ticks.zip(after.ticks);
    let of_ticks = |pick: fn(&crate::os::proc_text::Ticks) -> u64| {
        let (from, to) = ticks?;
        let total = to.total.saturating_sub(from.total);
        (total > 0).then(|| 100.0 * pick(&to).saturating_sub(pick(&from)) as f64 / total as f64)
    };
    let waited = |from: Option<u64>, to: Option<u64>| {
        let us = grown(from, to)?;
        (elapsed_ns > 0).then(|| share(us.saturating_mul(1_000), elapsed_ns).min(100.0))
    };
    MachineAttribution {
        cores,
        busy_percent: of_ticks(|ticks| ticks.idle).map(|idle| (100.0 - idle).max(0.0)),
        steal_percent: of_ticks(|ticks| ticks.steal),
        softirq_percent: of_ticks(|ticks| ticks.softirq),
        pressure_cpu_percent: waited(before.cpu_waited_us, after.cpu_waited_us),
        pressure_io_percent: waited(before.io_waited_us, after.io_waited_us),
        pressure_memory_percent: waited(before.memory_waited_us, after.memory_waited_us),
        energy_joules: energy(&before.energy_uj, &after.energy_uj),
    }
}

/// Joules between two readings of the packages' counters, which start again at 0 past their range.
fn energy(before: &[(u64, u64)], after: &[(u64, u64)]) -> Option<f64> {
    if before.is_empty() || before.len() != after.len() {
        return None;
    }
    let used = before.iter().zip(after).map(|((from, range), (to, _))| {
        to.checked_sub(*from)
            .unwrap_or_else(|| range.saturating_sub(*from).saturating_add(*to))
    });
    Some(used.map(|uj| uj as f64 / 1e6).sum())
}

fn grown(from: Option<u64>, to: Option<u64>) -> Option<u64> {
    Some(to?.saturating_sub(from?))
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    100.0 * part_ns as f64 / whole_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::proc_text::Ticks;
    use crate::record::attribution::Role;

    fn thread(tid: u32, ran_ms: u64, waited_ms: u64, switches: Option<u64>) -> ThreadReading {
        ThreadReading {
            tid,
            name: format!("t{tid}"),
            ran_ns: ran_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
            voluntary: switches,
            involuntary: switches.map(|count| count / 2),
        }
    }

    fn snapshot(at_ms: u64, rss: u64, threads: Vec<ThreadReading>) -> Snapshot {
        let cpu_ns = threads.iter().map(|thread| thread.ran_ns).sum();
        Snapshot {
            at_ns: at_ms * 1_000_000,
            processes: vec![Some(ProcessReading {
                cpu_ns: Some(cpu_ns),
                user_ticks: Some(cpu_ns / 40_000_000),
                system_ticks: Some(cpu_ns * 3 / 40_000_000),
                rss_bytes: Some(rss),
                cores_allowed: Some(1),
                threads,
            })],
            waited: None,
        }
    }

    fn recorder() -> Recorder {
        Recorder::new(vec![Watched {
            role: Role::Store,
            name: "redis-server".into(),
            pid: 7,
        }])
    }

    #[test]
    fn a_window_gives_shares_of_its_length() {
        let mut recorder = recorder();
        recorder.take(snapshot(
            0,
            10,
            vec![thread(7, 1_000, 50, Some(100)), thread(8, 5, 0, Some(4))],
        ));
        recorder.take(snapshot(
            1_000,
            90,
            vec![thread(7, 1_900, 60, None), thread(8, 5, 0, None)],
        ));
        recorder.take(snapshot(
            2_000,
            30,
            vec![
                thread(7, 2_800, 70, Some(300)),
                thread(8, 5, 0, Some(4)),
                thread(9, 100, 0, Some(8)),
            ],
        ));
        let used = &recorder.processes(100.0)[0];
        assert_eq!(used.cpu_percent, Some(95.0));
        assert_eq!((used.rss_bytes, used.rss_max_bytes), (Some(30), Some(90)));
        let busiest = used.busiest_thread.as_ref().unwrap();
        assert_eq!((busiest.tid, busiest.cpu_percent), (7, 90.0));
        assert_eq!(busiest.run_queue_wait_percent, Some(1.0));
        assert_eq!(
            used.voluntary_switches_per_s,
            Some(104.0),
            "208 in two seconds"
        );
        assert_eq!(used.involuntary_switches_per_s, Some(52.0));
        assert_eq!(used.run_queue_wait_percent, Some(1.0));
        assert_eq!(used.cpu_percent_by_second, [90.0, 100.0]);
        let (user, system) = (
            used.cpu_user_percent.unwrap(),
            used.cpu_system_percent.unwrap(),
        );
        assert!((user + system - 95.0).abs() < 2.0 && system > user);
    }

    #[test]
    fn a_thread_that_ended_on_the_way_is_not_forgotten() {
        let mut recorder = recorder();
        recorder.take(snapshot(0, 1, vec![thread(7, 0, 0, Some(0))]));
        recorder.take(snapshot(
            500,
            1,
            vec![thread(7, 10, 0, None), thread(9, 400, 0, None)],
        ));
        recorder.take(snapshot(1_000, 1, vec![thread(7, 20, 0, Some(1))]));
        let used = &recorder.processes(100.0)[0];
        assert_eq!(used.busiest_thread.as_ref().unwrap().tid, 9);
        assert_eq!(used.threads, Some(2));
    }

    #[test]
    fn pressure_is_shares_of_its_own_second() {
        let mut recorder = recorder();
        let mut at = |at_ms: u64, cpu_us: Option<u64>| {
            let over = recorder.second_is_over(at_ms * 1_000_000);
            recorder.take(Snapshot {
                at_ns: at_ms * 1_000_000,
                processes: vec![None],
                waited: over.then_some(WaitedReading {
                    cpu_us,
                    ..WaitedReading::default()
                }),
            });
            over
        };
        let read = [
            at(0, Some(5_000)),
            at(500, Some(1)),
            at(1_000, Some(255_000)),
            at(2_500, Some(1_005_000)),
            at(3_600, None),
        ];
        assert_eq!(read, [true, false, true, true, true]);
        let found: Vec<(f64, Option<f64>, Option<f64>)> = recorder
            .pressure()
            .iter()
            .map(|p| (p.at_s, p.cpu_percent, p.io_percent))
            .collect();
        assert_eq!(
            found,
            [(0.5, Some(25.0), None), (1.75, Some(50.0), None)],
            "what the kernel does not tell is left out"
        );
    }

    #[test]
    fn what_was_never_read_is_nothing() {
        let mut recorder = recorder();
        for at_ns in [0, 5] {
            recorder.take(Snapshot {
                at_ns,
                processes: vec![None],
                waited: None,
            });
        }
        let used = &recorder.processes(100.0)[0];
        assert_eq!(used.name, "redis-server");
        assert_eq!(
            (
                used.cpu_percent,
                used.rss_bytes,
                used.run_queue_wait_percent
            ),
            (None, None, None)
        );
        assert!(used.busiest_thread.is_none() && used.threads.is_none());
    }

    #[test]
    fn the_machine_is_shares_of_all_cores() {
        let at = |total, idle, softirq, steal| MachineReading {
            ticks: Some(Ticks {
                processors: 2,
                total,
                idle,
                softirq,
                steal,
            }),
            cpu_waited_us: Some(total * 1_000),
            ..MachineReading::default()
        };
        let found = machine(2, &at(0, 0, 0, 0), &at(200, 50, 10, 4), 1_000_000_000);
        assert_eq!(found.busy_percent, Some(75.0));
        assert_eq!(
            (found.softirq_percent, found.steal_percent),
            (Some(5.0), Some(2.0))
        );
        assert_eq!(found.pressure_cpu_percent, Some(20.0));
        assert_eq!(
            (found.pressure_io_percent, found.energy_joules),
            (None, None)
        );
        let nothing = machine(2, &MachineReading::default(), &at(1, 1, 0, 0), 0);
        assert_eq!(
            (nothing.busy_percent, nothing.pressure_cpu_percent),
            (None, None)
        );
    }

    #[test]
    fn energy_counters_may_start_again() {
        let joules = energy(&[(900, 1_000), (0, 1_000)], &[(100, 1_000), (300, 1_000)]).unwrap();
        assert!((joules - 500e-6).abs() < 1e-12);
        assert_eq!(energy(&[], &[]), None);
        assert_eq!(energy(&[(1, 2)], &[]), None);
    }
}
