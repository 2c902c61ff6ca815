//! HOTKEYS of Redis 8.6: which keys cost most. Checks and their order are its.

use super::info::Text;
use crate::shared::Shared;
use tollgate_commands::{Args, CmdError, HotKeysCommand, Reply};
use tollgate_containers::number;
use tollgate_engine::{Cluster, HotKeyOptions, HotKeyReport, NodeCx};
use tollgate_keyspace::SLOTS;
use tollgate_limiter::Timestamp;
use tollgate_net::process::{self, CpuTime};

/// Keys shown, unless asked for others.
const SHOWN: usize = 10;

pub(super) fn run(command: HotKeysCommand, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    match command {
        HotKeysCommand::Get => Ok(get(cx)),
        HotKeysCommand::Reset => reset(cx),
        HotKeysCommand::Start => start(cx),
        HotKeysCommand::Stop => Ok(stop(cx)),
    }
}

fn start(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let in_progress = CmdError::err("hotkey tracking session already in progress");
    let observer = cx.engine.observer();
    if observer
        .hot_keys(cx.now)
        .is_some_and(|report| report.active)
    {
        return Err(in_progress);
    }
    let options = parse(&mut cx.args, cx.engine.cluster())?;
    match observer.track_hot_keys(options, cx.now) {
        true => Ok(Reply::Ok),
        false => Err(in_progress),
    }
}

fn stop(cx: &mut NodeCx<'_>) -> Reply {
    match cx.engine.observer().stop_hot_keys(cx.now) {
        true => Reply::Ok,
        false => Reply::Null,
    }
}

fn reset(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    match cx.engine.observer().forget_hot_keys(cx.now) {
        true => Ok(Reply::Ok),
        false => Err(CmdError::err(
            "hotkey tracking session in progress, stop tracking first",
        )),
    }
}

fn parse(args: &mut Args<'_>, cluster: &Cluster) -> Result<HotKeyOptions, CmdError> {
    if !args.keyword("METRICS") || args.is_empty() {
        return Err(CmdError::err("METRICS parameter is required"));
    }
    let (cpu, net) = parse_metrics(args)?;
    let mut options = HotKeyOptions {
        cpu,
        net,
        count: SHOWN,
        duration_ms: None,
        sample: 1,
        slots: None,
    };
    while !args.is_empty() {
        if args.len() < 2 {
            return Err(CmdError::Syntax);
        }
        if args.keyword("COUNT") {
            let count = within(args, 1..=64, "COUNT must be between 1 and 64")?;
            options.count = count as usize;
        } else if args.keyword("DURATION") {
            let wrong = "DURATION must be between 1 and 1000000";
            options.duration_ms = Some(within(args, 1..=1_000_000, wrong)? * 1_000);
        } else if args.keyword("SAMPLE") {
            let most = i64::from(i32::MAX);
            let ratio = within(args, 1..=most, "SAMPLE ratio must be positive")?;
            options.sample = ratio as u32;
        } else if args.keyword("SLOTS") {
            let again = options.slots.is_some();
            options.slots = Some(parse_slots(args, cluster, again)?);
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok(options)
}

/// The next word as a number of these, or the error that says what it should be.
fn within(
    args: &mut Args<'_>,
    range: std::ops::RangeInclusive<i64>,
    wrong: &'static str,
) -> Result<i64, CmdError> {
    number::parse_i64(args.next()?)
        .filter(|number| range.contains(number))
        .ok_or(CmdError::err(wrong))
}

/// Whether time and bytes are wanted. Words that are no metrics count, and are passed over beside one that is.
fn parse_metrics(args: &mut Args<'_>) -> Result<(bool, bool), CmdError> {
    let count = within(args, 1..=2, "METRICS count must be > 0 and <= 2")? as usize;
    if args.len() < count {
        return Err(CmdError::err(
            "METRICS count does not match number of metric types provided",
        ));
    }
    let (mut cpu, mut net) = (false, false);
    for _ in 0..count {
        if args.keyword("CPU") {
            if std::mem::replace(&mut cpu, true) {
                return Err(CmdError::err("METRICS CPU defined more than once!"));
            }
        } else if args.keyword("NET") {
            if std::mem::replace(&mut net, true) {
                return Err(CmdError::err("METRICS NET defined more than once!"));
            }
        } else {
            args.next()?;
        }
    }
    if !cpu && !net {
        return Err(CmdError::err(
            "METRICS no valid metrics passed. Supported: CPU|NET",
        ));
    }
    Ok((cpu, net))
}

/// The slots behind SLOTS, in order; `again` if there have been some.
fn parse_slots(args: &mut Args<'_>, cluster: &Cluster, again: bool) -> Result<Vec<u16>, CmdError> {
    if !cluster.is_on() {
        return Err(CmdError::err(
            "SLOTS parameter cannot be used in non-cluster mode",
        ));
    }
    if again {
        return Err(CmdError::err("SLOTS parameter already specified"));
    }
    let wrong = "SLOTS count must be between 1 and 16384";
    let count = within(args, 1..=i64::from(SLOTS), wrong)? as usize;
    if args.len() < count {
        return Err(CmdError::err("not enough slot numbers provided"));
    }
    let mut seen = vec![false; usize::from(SLOTS)];
    for _ in 0..count {
        let slot = super::cluster::slot(args.next()?)?;
        if !cluster.serves(slot) {
            let text = format!("slot {slot} not handled by this node");
            return Err(CmdError::err(text));
        }
        if std::mem::replace(&mut seen[usize::from(slot)], true) {
            return Err(CmdError::err("duplicate slot number"));
        }
    }
    Ok((0..SLOTS).filter(|&slot| seen[usize::from(slot)]).collect())
}

fn get(cx: &mut NodeCx<'_>) -> Reply {
    let Some(report) = cx.engine.observer().hot_keys(cx.now) else {
        return Reply::Null;
    };
    let numbers = numbers(&report);
    let (cpu, net) = (report.options.cpu, report.options.net);
    let out = &mut *cx.out;
    out.array(1);
    out.map(3 + numbers.len() + usize::from(cpu) + usize::from(net));
    out.bulk(b"tracking-active");
    out.int(i64::from(report.active));
    out.bulk(b"sample-ratio");
    out.int(i64::from(report.options.sample));
    out.bulk(b"selected-slots");
    let ranges = ranges(&report.options, cx.engine.cluster());
    out.array(ranges.len());
    for (first, last) in ranges {
        out.array(1 + usize::from(first != last));
        out.int(i64::from(first));
        if first != last {
            out.int(i64::from(last));
        }
    }
    for (name, number) in numbers {
        out.bulk(name.as_bytes());
        out.int(number as i64);
    }
    for (wanted, name, keys) in [
        (cpu, "by-cpu-time-us", &report.by_micros),
        (net, "by-net-bytes", &report.by_bytes),
    ] {
        if wanted {
            out.bulk(name.as_bytes());
            out.array(2 * keys.len());
            for (key, spent) in keys {
                out.bulk(key);
                out.int(*spent as i64);
            }
        }
    }
    Reply::Written
}

/// The slots that are tracked, as ranges; those of this node where all are.
fn ranges(options: &HotKeyOptions, cluster: &Cluster) -> Vec<(u16, u16)> {
    let is_tracked = |slot: &u16| match &options.slots {
        Some(slots) => slots.binary_search(slot).is_ok(),
        None => !cluster.is_on() || cluster.serves(*slot),
    };
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in (0..SLOTS).filter(is_tracked) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Everything that a name and a number say.
fn numbers(report: &HotKeyReport<CpuTime>) -> Vec<(&'static str, u64)> {
    let options = &report.options;
    let selects = options.slots.is_some();
    let samples = selects && options.sample > 1;
    let micros = |nanos: u64| nanos.div_ceil(1_000);
    let (all, selected, sampled) = (report.all, report.selected, report.sampled);
    let now = process::cpu_time();
    let millis = |now: u64, then: u64| now.saturating_sub(then) / 1_000;
    let all = [
        (
            samples,
            "sampled-commands-selected-slots-us",
            micros(sampled.nanos),
        ),
        (
            selects,
            "all-commands-selected-slots-us",
            micros(selected.nanos),
        ),
        (true, "all-commands-all-slots-us", micros(all.nanos)),
        (
            samples,
            "net-bytes-sampled-commands-selected-slots",
            sampled.bytes,
        ),
        (
            selects,
            "net-bytes-all-commands-selected-slots",
            selected.bytes,
        ),
        (true, "net-bytes-all-commands-all-slots", all.bytes),
        (
            true,
            "collection-start-time-unix-ms",
            report.started_ms as u64,
        ),
        (true, "collection-duration-ms", report.duration_ms as u64),
        (
            options.cpu,
            "total-cpu-time-user-ms",
            millis(now.user_us, report.from.user_us),
        ),
        (
            options.cpu,
            "total-cpu-time-sys-ms",
            millis(now.system_us, report.from.system_us),
        ),
        (options.net, "total-net-bytes", sampled.bytes),
    ];
    let wanted = all.into_iter().filter(|(wanted, ..)| *wanted);
    wanted.map(|(_, name, number)| (name, number)).collect()
}

/// The section of INFO: nothing where nothing has been tracked.
pub(super) fn info(text: &mut Text, shared: &Shared, now: i64) {
    let observer = shared.engine.observer();
    if let Some(report) = observer.hot_keys(Timestamp::from_nanos(now)) {
        text.line("hotkeys-tracking-active", u8::from(report.active));
        let micros = report.all.nanos.div_ceil(1_000);
        text.line("hotkeys-cmd-cpu-time", micros);
    }
}
