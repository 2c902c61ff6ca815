//! COMMANDLOG, SLOWLOG, LATENCY and MEMORY.

use crate::shared::Shared;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use tollgate_commands::{CmdError, Reply, Row, by_full_name_of};
use tollgate_containers::number;
use tollgate_engine::{CommandStats, LatencySeries, LogKind, NodeCx, TIMES};

/// Entries that SLOWLOG GET shows when it is not asked for a number.
const SHOWN: usize = 10;

/// The log that the next argument names; SLOWLOG has none.
fn log_kind(cx: &mut NodeCx<'_>) -> Result<LogKind, CmdError> {
    if cx.args.is_empty() {
        return Ok(LogKind::Slow);
    }
    let word = cx.args.next()?;
    let kinds = [
        ("slow", LogKind::Slow),
        ("large-request", LogKind::LargeRequest),
        ("large-reply", LogKind::LargeReply),
    ];
    let kind = kinds
        .into_iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    kind.map(|(_, kind)| kind).ok_or_else(|| {
        CmdError::err("type should be one of the following: slow, large-request, large-reply")
    })
}

pub(super) fn log_len(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let kind = log_kind(cx)?;
    Ok(Reply::count(cx.engine.observer().log(kind).count()))
}

pub(super) fn log_reset(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let kind = log_kind(cx)?;
    cx.engine.observer().log(kind).reset();
    Ok(Reply::Ok)
}

pub(super) fn slowlog_get(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let most = match *cx.args.rest() {
        [] => SHOWN,
        [word] => most_shown(word)?,
        _ => return Err(CmdError::subcommand_syntax(cx.args.all())),
    };
    Ok(show_log(cx, LogKind::Slow, most))
}

pub(super) fn commandlog_get(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let most = most_shown(cx.args.next()?)?;
    let kind = log_kind(cx)?;
    Ok(show_log(cx, kind, most))
}

/// Entries asked for by a number; -1 is all of them.
fn most_shown(word: &[u8]) -> Result<usize, CmdError> {
    let count = number::parse_i64(word).filter(|count| *count >= -1);
    let count =
        count.ok_or_else(|| CmdError::err("count should be greater than or equal to -1"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn show_log(cx: &mut NodeCx<'_>, kind: LogKind, most: usize) -> Reply {
    let entries = cx.engine.observer().log(kind).newest(most);
    cx.out.array(entries.len());
    for entry in &entries {
        cx.out.array(6);
        cx.out.int(entry.id as i64);
        cx.out.int(entry.at_secs);
        cx.out.int(entry.value);
        cx.out.array(entry.words.len());
        entry.words.iter().for_each(|word| cx.out.bulk(word));
        cx.out.bulk(&entry.address);
        cx.out.bulk(&entry.name);
    }
    Reply::Written
}

pub(super) fn latency_latest(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let events = cx.engine.observer().latency();
    cx.out.array(events.len());
    for (name, series) in &events {
        let last = series.samples.back();
        cx.out.array(4);
        cx.out.bulk(name.as_bytes());
        cx.out.int(last.map_or(0, |sample| sample.at_secs));
        cx.out.int(last.map_or(0, |sample| sample.millis));
        cx.out.int(series.max);
    }
    Ok(Reply::Written)
}

fn series(cx: &NodeCx<'_>, event: &[u8]) -> Option<(&'static str, LatencySeries)> {
    let events = cx.engine.observer().latency();
    events
        .into_iter()
        .find(|(name, _)| name.as_bytes() == event)
}

pub(super) fn latency_history(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let event = cx.args.next()?;
    let series = series(cx, event).map(|(_, series)| series);
    let series = series.unwrap_or_default();
    cx.out.array(series.samples.len());
    for sample in &series.samples {
        cx.out.array(2);
        cx.out.int(sample.at_secs);
        cx.out.int(sample.millis);
    }
    Ok(Reply::Written)
}

pub(super) fn latency_reset(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let observer = cx.engine.observer();
    let events = cx.args.rest();
    if events.is_empty() {
        return Ok(Reply::count(observer.reset_latency(None)));
    }
    let reset = events.iter().map(|it| observer.reset_latency(Some(it)));
    Ok(Reply::count(reset.sum()))
}

pub(super) fn latency_graph(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let event = cx.args.next()?;
    let Some((name, series)) = series(cx, event) else {
        let text = [b"No samples available for event '", event, b"'"].concat();
        return Err(CmdError::err(text));
    };
    let text = graph(name, &series, cx.now.secs());
    cx.out.verbatim("txt", text.as_bytes());
    Ok(Reply::Written)
}

/// One column for each sample, as high as its time, above how long ago it was.
fn graph(name: &str, series: &LatencySeries, now_secs: i64) -> String {
    const ROWS: i64 = 4;
    let times = series.samples.iter().map(|sample| sample.millis);
    let high = times.clone().max().unwrap_or_default();
    let low = times.clone().min().unwrap_or_default();
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.max,
        "-".repeat(80)
    );
    let span = (high - low).max(1);
    for row in (0..ROWS).rev() {
        let columns = times.clone().map(|millis| {
            // Three marks to a row, so twelve heights in all.
            let height = 1 + (millis - low) * (3 * ROWS - 1) / span - 3 * row;
            match height {
                ..=0 => ' ',
                1 => '_',
                2 => 'o',
                3 => '#',
                _ => '|',
            }
        });
        text.extend(columns);
        text.push('\n');
    }
    let ages: Vec<String> = series
        .samples
        .iter()
        .map(|sample| age(now_secs - sample.at_secs))
        .collect();
    for row in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        let letters = ages.iter().map(|age| age.as_bytes().get(row).copied());
        text.extend(letters.map(|letter| char::from(letter.unwrap_or(b' '))));
        text.push('\n');
    }
    text
}

fn age(secs: i64) -> String {
    match secs {
        ..60 => format!("{secs}s"),
        60..3_600 => format!("{}m", secs / 60),
        3_600..86_400 => format!("{}h", secs / 3_600),
        _ => format!("{}d", secs / 86_400),
    }
}

pub(super) fn latency_doctor(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let mut text = String::new();
    let off = &*shared
        .settings
        .get(crate::config::Key::LatencyMonitorThreshold)
        == "0";
    let events = cx.engine.observer().latency();
    if off && events.is_empty() {
        text.push_str(
            "Latency monitoring is disabled. Use \"CONFIG SET latency-monitor-threshold <milliseconds>\" to enable \
             it.\n",
        );
    } else if events.is_empty() {
        text.push_str("No event has taken longer than the threshold: nothing to report.\n");
    }
    for (number, (name, series)) in events.iter().enumerate() {
        let count = series.samples.len().max(1) as i64;
        let sum: i64 = series.samples.iter().map(|sample| sample.millis).sum();
        writeln!(
            text,
            "{}. {name}: {count} latency spikes (average {} ms, worst all time event {} ms).",
            number + 1,
            sum / count,
            series.max
        )
        .expect("writing to a String cannot fail");
    }
    if !events.is_empty() {
        text.push_str(
            "\nSLOWLOG GET shows which commands took long. Commands whose cost grows with the data hold up those that \
             need the same keys; large ones are best cut into pieces (SCAN for KEYS, UNLINK for DEL).\n",
        );
    }
    cx.out.verbatim("txt", text.as_bytes());
    Ok(Reply::Written)
}

/// Calls with a time up to the end of each class, in microseconds; classes without a call of their own are left out. Only
/// some calls of short commands are timed: they stand for all.
pub(super) fn distribution(stats: &CommandStats) -> Vec<(i64, u64)> {
    let timed: u64 = stats.times.iter().sum();
    let mut seen = 0;
    let mut classes = Vec::new();
    for (class, count) in stats
        .times
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        seen += count;
        let calls = u128::from(seen) * u128::from(stats.calls) / u128::from(timed);
        classes.push((((1i64 << (10 + class)) / 1_000).max(1), calls as u64));
    }
    classes
}

/// The time in microseconds below which so many percent of the calls stayed.
pub(super) fn percentile(stats: &CommandStats, percent: f64) -> f64 {
    let timed: u64 = stats.times.iter().sum();
    let wanted = timed as f64 * percent / 100.0;
    let mut seen = 0;
    for (class, count) in stats.times.iter().enumerate() {
        seen += count;
        if *count > 0 && seen as f64 >= wanted {
            return (1u64 << (10 + class.min(TIMES - 1))) as f64 / 1_000.0;
        }
    }
    0.0
}

pub(super) fn latency_histogram(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    let names = cx.engine.limits().names();
    let called = words.iter().map(|word| by_full_name_of(names, word));
    let wanted: Vec<&Row> = called.flatten().collect();
    let chosen = |row: &Row| {
        words.is_empty()
            || wanted.iter().any(|it| {
                std::ptr::eq(*it, row) || it.subs.iter().any(|sub| std::ptr::eq(sub, row))
            })
    };
    let stats = cx.engine.stats().by_command;
    let called = |it: &&CommandStats| it.calls > 0 && it.times.iter().any(|&count| count > 0);
    let stats: Vec<&CommandStats> = stats
        .iter()
        .filter(|it| chosen(it.row))
        .filter(called)
        .collect();
    cx.out.map(stats.len());
    for command in stats {
        cx.out
            .bulk(command.row.name.to_ascii_lowercase().as_bytes());
        cx.out.map(2);
        cx.out.bulk(b"calls");
        cx.out.int(command.calls as i64);
        cx.out.bulk(b"histogram_usec");
        let classes = distribution(command);
        cx.out.map(classes.len());
        for (micros, calls) in classes {
            cx.out.int(micros);
            cx.out.int(calls as i64);
        }
    }
    Ok(Reply::Written)
}

pub(super) fn memory_stats(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let engine = cx.engine;
    let resident = shared.resident();
    let dataset = engine.memory();
    let clients = shared.client_memory();
    let (_, scripts) = engine.script_cache();
    let journal = engine.journal_facts();
    let backlog = journal.memory_bytes as usize;
    let replicas = shared.replica_memory(&journal) as usize;
    let overhead = clients + scripts + backlog + replicas;
    let total = dataset + overhead;
    let keys: usize = engine.database_sizes().iter().map(|size| size.keys).sum();
    let percentage = |part: usize| part as f64 * 100.0 / total.max(1) as f64;
    let peak = shared.memory_peak.load(Ordering::Relaxed);
    let numbers = [
        ("peak.allocated", peak as i64),
        ("total.allocated", total as i64),
        ("startup.allocated", 0),
        ("replication.backlog", backlog as i64),
        ("clients.slaves", replicas as i64),
        ("clients.normal", clients as i64),
        ("cluster.links", 0),
        ("aof.buffer", shared.aof.buffered(shared) as i64),
        ("lua.caches", scripts as i64),
        ("functions.caches", 0),
        ("overhead.total", overhead as i64),
        ("keys.count", keys as i64),
        ("keys.bytes-per-key", (dataset / keys.max(1)) as i64),
        ("dataset.bytes", dataset as i64),
    ];
    let ratio = resident as f64 / total.max(1) as f64;
    let shares = [
        ("dataset.percentage", percentage(dataset)),
        ("peak.percentage", total as f64 * 100.0 / peak.max(1) as f64),
        ("rss-overhead.ratio", 1.0),
        ("fragmentation", ratio),
    ];
    cx.out.map(numbers.len() + shares.len() + 1);
    for (name, value) in numbers {
        cx.out.bulk(name.as_bytes());
        cx.out.int(value);
    }
    for (name, value) in shares {
        cx.out.bulk(name.as_bytes());
        cx.out.double(value);
    }
    cx.out.bulk(b"fragmentation.bytes");
    cx.out.int(resident as i64 - total as i64);
    Ok(Reply::Written)
}

/// Each thread gives back what it has, also what others have freed for it.
pub(super) fn memory_purge(shared: &Shared) -> Reply {
    // A thread with a million messages waiting has other needs.
    shared.mailboxes.shrink_all().ok();
    Reply::Ok
}

pub(super) fn memory_doctor(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    const SMALL: usize = 5 << 20;
    let dataset = cx.engine.memory();
    let resident = shared.resident() as usize;
    let text = if dataset < SMALL {
        "The data are too small for the use of memory to tell anything.\n".to_owned()
    } else if resident > 2 * dataset {
        format!(
            "The process holds {resident} bytes of memory for {dataset} bytes of data. It may have been larger before: \
             memory that was freed is used again, and returned to the system as far as it lies together, at the latest by \
             MEMORY PURGE.\n"
        )
    } else {
        "Nothing is unusual about the use of memory.\n".to_owned()
    };
    cx.out.verbatim("txt", text.as_bytes());
    Ok(Reply::Written)
}

pub(super) fn malloc_stats(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let text = format!(
        "resident:{}\npeak_resident:{}\ndata:{}\n",
        shared.resident(),
        shared.memory_peak.load(Ordering::Relaxed),
        cx.engine.memory()
    );
    cx.out.verbatim("txt", text.as_bytes());
    Ok(Reply::Written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::lookup;
    use tollgate_engine::LatencySample;

    #[test]
    fn a_graph_shows_the_extremes_and_the_ages() {
        let samples = [(100, 10), (130, 20), (160, 5)];
        let series = LatencySeries {
            samples: samples
                .map(|(at_secs, millis)| LatencySample { at_secs, millis })
                .into(),
            max: 30,
        };
        let text = graph("command", &series, 165);
        assert!(text.starts_with("command - high 20 ms, low 5 ms (all time high 30 ms)\n---"));
        assert!(text.contains("\n||_\n"), "{text}");
        assert!(text.ends_with("135\nm5s\n s \n"), "{text}");
    }

    #[test]
    fn timed_calls_stand_for_all() {
        let mut times = [0; TIMES];
        times[0] = 1;
        times[3] = 1;
        let stats = CommandStats {
            row: lookup(b"get").expect("GET is in the table"),
            calls: 100,
            usec: 0,
            rejected: 0,
            failed: 0,
            times,
        };
        assert_eq!(distribution(&stats), [(1, 50), (8, 100)]);
        assert_eq!(percentile(&stats, 50.0), 1.024);
        assert_eq!(percentile(&stats, 99.9), 8.192);
    }
}
