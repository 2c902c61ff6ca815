//! The texts of `/proc` and `/sys`, read as values. Pure: whatever the kernel writes, or something that is not
//! the kernel, gives a value or `None`, never a panic.

/// One line of `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The kernel's name of the program or thread.
    pub name: String,
    /// Parent process.
    pub parent: u32,
    /// Ticks in user mode.
    pub user_ticks: u64,
    /// Ticks in system mode.
    pub system_ticks: u64,
}

/// Reads a `stat` line. The name stands in brackets and may itself hold brackets and spaces.
#[must_use]
pub(crate) fn stat(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let name = text.get(open + 1..close)?.to_owned();
    // After the name: state, parent, ..., and at 11 and 12 the ticks (proc_pid_stat(5), fields 14 and 15).
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    Some(Stat {
        name,
        parent: fields.get(1)?.parse().ok()?,
        user_ticks: fields.get(11)?.parse().ok()?,
        system_ticks: fields.get(12)?.parse().ok()?,
    })
}

/// What is read from `/proc/PID/status` or a thread's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Processors it may run on.
    pub cores_allowed: Option<u32>,
    /// Times that it gave up its processor. Of one thread only, also in a process's file.
    pub voluntary_switches: Option<u64>,
    /// Times that it was taken off its processor. Of one thread only.
    pub involuntary_switches: Option<u64>,
}

/// Reads a `status` file. Missing lines give `None` fields.
#[must_use]
pub(crate) fn status(text: &str) -> Status {
    let mut found = Status::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match name {
            "VmRSS" => {
                let kib: Option<u64> = value.split_ascii_whitespace().next().and_then(number);
                found.rss_bytes = kib.and_then(|kib| kib.checked_mul(1024));
            }
            "Cpus_allowed_list" => found.cores_allowed = cores(value),
            "voluntary_ctxt_switches" => found.voluntary_switches = number(value),
            "nonvoluntary_ctxt_switches" => found.involuntary_switches = number(value),
            _ => {}
        }
    }
    found
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Number of processors in a list such as `0-3,5`.
#[must_use]
pub(crate) fn cores(list: &str) -> Option<u32> {
    let mut total = 0_u32;
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        total = total.checked_add(to.checked_sub(from)?.checked_add(1)?)?;
    }
    Some(total)
}

/// One line of `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Time on a processor.
    pub ran_ns: u64,
    /// Time ready in a run queue.
    pub waited_ns: u64,
}

/// Reads a `schedstat` line: time run, time waited, time slices.
#[must_use]
pub(crate) fn schedule(text: &str) -> Option<Schedule> {
    let mut fields = text.split_ascii_whitespace();
    Some(Schedule {
        ran_ns: fields.next()?.parse().ok()?,
        waited_ns: fields.next()?.parse().ok()?,
    })
}

/// Microseconds since boot in which some task waited, from a file of `/proc/pressure`.
#[must_use]
pub(crate) fn pressure_some_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line
        .split_ascii_whitespace()
        .find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok()
}

/// Ticks of all processors since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Processors that are counted.
    pub processors: usize,
    /// All ticks, of every kind.
    pub total: u64,
    /// Ticks without work: idle, and waiting for a disk.
    pub idle: u64,
    /// Ticks in software interrupts.
    pub softirq: u64,
    /// Ticks in which a processor was wanted but not given.
    pub steal: u64,
}

impl Ticks {
    /// Processors that were busy on average from here until `after`; 0 if no time passed.
    #[must_use]
    pub(crate) fn busy_until(self, after: Ticks) -> f64 {
        let total = after.total.saturating_sub(self.total);
        let idle = after.idle.saturating_sub(self.idle).min(total);
        if total == 0 {
            return 0.0;
        }
        after.processors as f64 * (total - idle) as f64 / total as f64
    }
}

/// Reads the first line of `/proc/stat`: user nice system idle iowait irq softirq steal; guest time is contained in
/// user.
#[must_use]
pub(crate) fn ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .take(8)
        .map_while(number)
        .collect();
    let [_, _, _, idle, iowait, _, softirq, steal] = fields[..] else {
        return None;
    };
    Some(Ticks {
        // One line each, below that of all.
        processors: text.lines().filter(|line| line.starts_with("cpu")).count() - 1,
        total: fields
            .iter()
            .fold(0, |sum: u64, ticks| sum.saturating_add(*ticks)),
        idle: idle.saturating_add(iowait),
        softirq,
        steal,
    })
}

/// `INFO` as name and value pairs. Lines that are no pair are left out.
#[cfg(test)]
pub(crate) fn pairs(info: &str) -> impl Iterator<Item = (&str, &str)> {
    info.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.trim_end().split_once(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_spaces_do_not_shift_the_fields() {
        let line =
            "4711 (a) b (c) S 17 4711 4711 0 -1 4194560 900 0 0 0 123 45 0 0 20 0 4 0 99 1 2\n";
        let found = stat(line).unwrap();
        assert_eq!(found.name, "a) b (c");
        assert_eq!(
            (found.parent, found.user_ticks, found.system_ticks),
            (17, 123, 45)
        );
    }

    #[test]
    fn busy_processors_are_those_that_were_not_idle() {
        let before = ticks("cpu 100 0 0 300 0 0 0 0 0 0\ncpu0 1 2\ncpu1 1 2\nctxt 9\n").unwrap();
        let after = ticks("cpu 130 0 0 310 0 0 0 0 0 0\ncpu0 1 2\ncpu1 1 2\nctxt 9\n").unwrap();
        assert_eq!(before.busy_until(after), 1.5);
        assert_eq!(after.busy_until(after), 0.0);
    }

    #[test]
    fn bad_stat_lines_are_nothing() {
        for bad in [
            "",
            "1",
            "1 (x",
            "1 )x( S 1",
            "1 (x) S",
            "1 (x) S a b c d e f g h i j k l m",
            "1 (x) S 1 1 1 0 -1 0 0 0 0 0 99999999999999999999 0",
        ] {
            assert_eq!(stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_status_file_gives_what_it_has() {
        let text = "Name:\tcat\nVmRSS:\t    1748 kB\nCpus_allowed_list:\t0-1,4\n\
                    voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(
            status(text),
            Status {
                rss_bytes: Some(1748 * 1024),
                cores_allowed: Some(3),
                voluntary_switches: Some(12),
                involuntary_switches: Some(3),
            }
        );
        let odd =
            "VmRSS:\t many kB\nVmRSS\n:\nvoluntary_ctxt_switches:\t-1\nCpus_allowed_list:\t5-1\n";
        assert_eq!(status(odd), Status::default());
        assert_eq!(
            status("VmRSS: 18446744073709551615 kB").rss_bytes,
            None,
            "no overflow"
        );
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(cores("0"), Some(1));
        assert_eq!(cores("0-3,5,7-8"), Some(7));
        for bad in ["", "a", "3-1", "0-4294967295,0-4294967295", "1,,2"] {
            assert_eq!(cores(bad), None, "{bad}");
        }
    }

    #[test]
    fn schedstat_and_pressure_are_read() {
        assert_eq!(
            schedule("96474 4173448 2\n"),
            Some(Schedule {
                ran_ns: 96_474,
                waited_ns: 4_173_448
            })
        );
        assert_eq!(schedule("96474"), None);
        assert_eq!(schedule("a b c"), None);
        let text = "some avg10=4.04 avg60=2.49 avg300=3.15 total=6768527052\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure_some_us(text), Some(6_768_527_052));
        for bad in ["", "full total=7", "some avg10=1", "some total=x"] {
            assert_eq!(pressure_some_us(bad), None, "{bad}");
        }
    }

    #[test]
    fn machine_ticks_are_told_apart() {
        let found = ticks("cpu  10 1 5 100 2 0 3 4 50 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n").unwrap();
        assert_eq!(
            found,
            Ticks {
                processors: 1,
                total: 125,
                idle: 102,
                softirq: 3,
                steal: 4
            }
        );
        for bad in ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8"] {
            assert_eq!(ticks(bad), None, "{bad}");
        }
    }

    #[test]
    fn info_is_pairs_without_headings() {
        let text = "# Memory\r\nused_memory:12\r\n\r\nno pair\r\nurl:a:b\r\n";
        let found: Vec<_> = pairs(text).collect();
        assert_eq!(found, [("used_memory", "12"), ("url", "a:b")]);
    }
}
