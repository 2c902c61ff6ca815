//! Interleaved slices of the same load on two servers.

use std::time::Duration;

use super::{BESIDE, LIMIT, Pair, WINDOW_S, budget, operation};
use crate::cli::CompareArgs;
use crate::load::closed::{Drawn, InTurn, Pool};
use crate::load::keys::{KeySampler, Spreading};
use crate::load::live::Live;
use crate::load::plain::Plain;
use crate::load::workload::{Ask, Rule, Workload};
use crate::os::{interrupt, proc};
use crate::record::validity::{Evidence, RUN_QUEUE_WAIT_PERCENT_MAX, judge};
use crate::record::{CompareRow, Grade, SlicePair, SliceSample};
use crate::run::console::Console;
use crate::run::thread::generate;
use crate::target::Store;

/// Length of values written by SET.
const VALUE_LENGTH: usize = 16;
/// Server CPU below which the generator, not the server, set the pace, percent of a core.
const SERVER_BUSY_PERCENT: f64 = 70.0;

struct Load {
    row: CompareRow,
    alone: bool,
    work_a: Workload,
    work_b: Workload,
    steal: f64,
    waited: f64,
}

struct Side {
    full: Pool,
    single: Pool,
    pid: Option<u32>,
}

/// Processor time of server and generator thread, and the generator's wait for a core.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) server_ns: Option<u64>,
    pub(super) generator_ns: Option<u64>,
    pub(super) waited_ns: Option<u64>,
}

impl Used {
    pub(super) fn read(pid: Option<u32>) -> Used {
        Used {
            server_ns: pid.and_then(proc::cpu_ns),
            generator_ns: proc::thread_cpu_ns(),
            waited_ns: proc::thread_run_queue_wait_ns(),
        }
    }

    pub(super) fn since(self, before: Used) -> Used {
        let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        Used {
            server_ns: grown(before.server_ns, self.server_ns),
            generator_ns: grown(before.generator_ns, self.generator_ns),
            waited_ns: grown(before.waited_ns, self.waited_ns),
        }
    }
}

/// All loads and the connections to both servers.
pub(super) struct Bench<'a> {
    args: &'a CompareArgs,
    core: Option<usize>,
    loads: Vec<Load>,
    a: Side,
    b: Side,
}

impl<'a> Bench<'a> {
    /// Renders the loads, connects, and fills in the values that GET will find.
    pub(super) fn new(
        args: &'a CompareArgs,
        core: Option<usize>,
        chosen: &[&str],
        pair: &Pair,
    ) -> Result<Bench<'a>, String> {
        let mut loads = Vec::new();
        for &name in chosen {
            match name {
                "memory" | BESIDE => {}
                "latency" => {
                    for inner in ["limiter", "get"] {
                        loads.push(load(args, inner, 1, true, pair)?);
                    }
                }
                _ => {
                    for &depth in &args.depth {
                        loads.push(load(args, name, depth, false, pair)?);
                    }
                }
            }
        }
        let side = |store: &Store| -> Result<Side, String> {
            let open = |count| {
                Pool::open(&store.endpoint, count)
                    .map_err(|e| format!("{}: cannot connect: {e}", store.record.name))
            };
            let mut side = Side {
                full: open(args.connections as usize)?,
                single: open(1)?,
                pid: store.pid,
            };
            let values = Workload::render(&Ask::Set(VALUE_LENGTH), "cmp:s:", args.keys);
            let filled = chosen
                .iter()
                .filter_map(|name| Plain::by_name(name))
                .map(|plain| Workload::filling(plain, plain.prefix(), args.keys));
            for workload in std::iter::once(values).chain(filled) {
                side.single.run(
                    &mut InTurn::new(&workload),
                    16,
                    u64::MAX / 2,
                    interrupt::flag(),
                )?;
            }
            Ok(side)
        };
        Ok(Bench {
            args,
            core,
            loads,
            a: side(&pair.a)?,
            b: side(&pair.b)?,
        })
    }

    /// Runs all slices. On an error the pairs so far stay.
    pub(super) fn run(&mut self, pair: &mut Pair, console: &mut Console) -> Result<(), String> {
        let names = [pair.a.record.name.clone(), pair.b.record.name.clone()];
        for index in 0..self.loads.len() {
            for b_side in [false, true] {
                if interrupt::asked() {
                    return Ok(());
                }
                let warm = Duration::from_millis(self.args.slice_ms.min(50));
                self.slice(index, b_side, 0, warm, console)
                    .map_err(|why| format!("{}: {why}", names[usize::from(b_side)]))?;
            }
        }
        for round in 0..self.args.slices {
            for index in 0..self.loads.len() {
                if interrupt::asked() {
                    return Ok(());
                }
                console.phase(format!(
                    "round {}/{} · {}",
                    round + 1,
                    self.args.slices,
                    self.loads[index].row.title
                ));
                self.pair(index, round, console, &names)?;
            }
        }
        Ok(())
    }

    fn pair(
        &mut self,
        index: usize,
        round: u32,
        console: &mut Console,
        names: &[String; 2],
    ) -> Result<(), String> {
        let a_first = round.is_multiple_of(2);
        let length = Duration::from_millis(self.args.slice_ms);
        let ticks = proc::machine_ticks();
        let mut samples = [SliceSample::default(), SliceSample::default()];
        for b_side in [!a_first, a_first] {
            let sample = self.slice(index, b_side, round + 1, length, console);
            samples[usize::from(b_side)] =
                sample.map_err(|why| format!("{}: {why}", names[usize::from(b_side)]))?;
        }
        if interrupt::asked() {
            return Ok(());
        }
        let load = &mut self.loads[index];
        if let Some((before, after)) = ticks.zip(proc::machine_ticks()) {
            load.steal += proc::steal_percent(before, after);
        }
        let [a, b] = samples;
        load.row.pairs.push(SlicePair { a_first, a, b });
        Ok(())
    }

    fn slice(
        &mut self,
        index: usize,
        b_side: bool,
        round: u32,
        length: Duration,
        console: &mut Console,
    ) -> Result<SliceSample, String> {
        let load = &mut self.loads[index];
        let (side, workload) = if b_side {
            (&mut self.b, &load.work_b)
        } else {
            (&mut self.a, &load.work_a)
        };
        let pool = if load.alone {
            &mut side.single
        } else {
            &mut side.full
        };
        let (pid, depth) = (side.pid, load.row.pipeline_depth as usize);
        // Both servers of a pair are asked for the same keys in the same order.
        let seed = self
            .args
            .seed
            .wrapping_add(u64::from(round))
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(index as u64);
        let mut feed = Drawn {
            workload,
            sampler: KeySampler::new(Spreading::Uniform, workload.keys(), seed),
        };
        let length_ns = length.as_nanos() as u64;
        let (slice, used) = generate(self.core, &Live::default(), length, console, || {
            let before = Used::read(pid);
            let slice = pool.run(&mut feed, depth, length_ns, interrupt::flag());
            slice.map(|slice| (slice, Used::read(pid).since(before)))
        })?;
        if let Some(text) = &slice.first_error {
            return Err(format!("{}: the server answered: {text}", load.row.title));
        }
        let elapsed = slice.elapsed_ns.max(1) as f64;
        // Two slices make a pair.
        load.waited += used.waited_ns.unwrap_or(0) as f64 * 100.0 / elapsed / 2.0;
        let at = |quantile: f64| {
            (!slice.latency.is_empty())
                .then(|| slice.latency.value_at_quantile(quantile) as f64 / 1e3)
        };
        Ok(SliceSample {
            throughput_rps: slice.rate(),
            latency_p50_us: at(0.5),
            latency_p99_us: at(0.99),
            server_cpu_us_per_op: used
                .server_ns
                .map(|ns| ns as f64 / 1e3 / slice.answers.max(1) as f64),
            server_cpu_percent: used.server_ns.map(|ns| 100.0 * ns as f64 / elapsed),
            generator_cpu_percent: used.generator_ns.map(|ns| 100.0 * ns as f64 / elapsed),
            failures: slice.failures,
        })
    }

    /// The rows, judged.
    pub(super) fn into_rows(self) -> Vec<CompareRow> {
        self.loads.into_iter().map(Load::close).collect()
    }
}

impl Load {
    fn close(self) -> CompareRow {
        close(self.row, self.alone, self.steal, self.waited)
    }
}

/// Names of the keys that the loads write and that do not go by themselves.
pub(super) fn lasting_keys(loads: &[&str], keys: u32) -> Vec<String> {
    let mut prefixes = vec![("cmp:s:", keys)];
    if loads.contains(&"incr") {
        prefixes.push(("cmp:i:", keys));
    }
    let plain = loads.iter().filter_map(|name| Plain::by_name(name));
    prefixes.extend(plain.map(|plain| {
        let most = plain.keys_max.map_or(keys, |most| keys.min(most));
        (plain.prefix(), most)
    }));
    let numbered = |(prefix, most): (&'static str, u32)| {
        (0..most).flat_map(move |index| {
            let key = format!("{prefix}{index}");
            match prefix {
                // MSET names ten.
                "cmp:mset:" => (0..10).map(|part| format!("{key}:{part}")).collect(),
                _ => vec![key],
            }
        })
    };
    prefixes.into_iter().flat_map(numbered).collect()
}

/// Judges a row. `steal` and `waited` are sums over its pairs, in percent; with `alone` one connection set the pace.
pub(super) fn close(mut row: CompareRow, alone: bool, steal: f64, waited: f64) -> CompareRow {
    let pairs = row.pairs.len().max(1) as f64;
    row.validity = judge(&Evidence {
        steal_percent: Some(steal / pairs),
        ..Evidence::default()
    });
    // A paired ratio of CPU survives a busy machine; throughput and latency do not.
    let waited = waited / pairs;
    if waited > RUN_QUEUE_WAIT_PERCENT_MAX {
        let mut why = format!("the generator waited {waited:.0} % of the time for a core");
        let measured = |pair: &SlicePair| pair.a.server_cpu_us_per_op.is_some();
        if row.pairs.iter().any(measured) {
            why.push_str(": rely on the CPU ratio only");
        }
        row.validity.lower(Grade::Indicative, why);
    }
    if row.pairs.is_empty() {
        row.validity
            .lower(Grade::Invalid, "no pair of slices was measured");
    }
    for (side, pick) in [
        ("A", (|pair| &pair.a) as fn(&SlicePair) -> &SliceSample),
        ("B", |pair| &pair.b),
    ] {
        let busy: Vec<f64> = row
            .pairs
            .iter()
            .filter_map(|pair| pick(pair).server_cpu_percent)
            .collect();
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        if !alone && !busy.is_empty() && mean < SERVER_BUSY_PERCENT {
            row.notes.push(format!(
                "{side} used {mean:.0} % of a core: the generator set the pace, so compare CPU and not throughput"
            ));
        }
    }
    row
}

fn load(
    args: &CompareArgs,
    name: &str,
    depth: u32,
    alone: bool,
    pair: &Pair,
) -> Result<Load, String> {
    let rule = Rule {
        limit: LIMIT,
        window_s: WINDOW_S,
    };
    let ask = |store: &Store| -> Result<Ask, String> {
        let missing = || format!("{} cannot run the limiter script", store.record.name);
        match name {
            "limiter" => store.native(rule).ok_or_else(missing),
            "script" => store.scripted(rule).ok_or_else(missing),
            "get" => Ok(Ask::Get),
            "set" => Ok(Ask::Set(VALUE_LENGTH)),
            other => Ok(Plain::by_name(other).map_or(Ask::Incr, Ask::Plain)),
        }
    };
    let (ask_a, ask_b) = (ask(&pair.a)?, ask(&pair.b)?);
    let same = ask_a.name() == ask_b.name();
    let connections = if alone { 1 } else { args.connections };
    let what = match name {
        "limiter" => format!("limiter {} | {}", ask_a.name(), ask_b.name()),
        "script" => "same EVALSHA".into(),
        _ => ask_a.title().to_owned(),
    };
    let title = if alone {
        format!("{what}, 1 connection")
    } else {
        format!("{what}, depth {depth}")
    };
    // One key space per kind of value: a counter made by a script is not a native record.
    let prefix = match name {
        "get" | "set" => "cmp:s:",
        "incr" => "cmp:i:",
        "script" => "cmp:e:",
        other => Plain::by_name(other).map_or("cmp:l:", Plain::prefix),
    };
    let keys_max = Plain::by_name(name).and_then(|plain| plain.keys_max);
    let keys = keys_max.map_or(args.keys, |most| args.keys.min(most));
    let row = CompareRow {
        title,
        operation_a: operation(&ask_a, same),
        operation_b: operation(&ask_b, same),
        connections,
        pipeline_depth: depth,
        target_rps: None,
        slice_ms: args.slice_ms,
        budget_server_cpu_b_over_a: if alone {
            None
        } else {
            budget(name, depth, pair)
        },
        ..CompareRow::default()
    };
    Ok(Load {
        row,
        alone,
        work_a: Workload::render(&ask_a, prefix, keys),
        work_b: Workload::render(&ask_b, prefix, keys),
        steal: 0.0,
        waited: 0.0,
    })
}
