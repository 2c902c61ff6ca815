//! From what the generator counted to a step of the record.

use std::time::Duration;

use crate::load::open::Outcome;
use crate::load::seconds::Bucket;
use crate::load::tally::Tally;
use crate::os::proc::{self, MachineTicks};
use crate::record::validity::{Evidence, judge};
use crate::record::{
    Accuracy, ExactPart, Failures, LatencySummary, ProcessUse, RetryAfter, Second, SplitLatency,
    Step,
};

/// What the note of a step begins with that quotes the first wrong answer.
pub(super) const FIRST_COMPLAINT: &str = "first complaint: ";

/// Counters of target and machine at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    server_wait_ns: Option<u64>,
    ticks: Option<MachineTicks>,
}

impl Counters {
    /// Reads them for the target's processes, if they are known.
    #[must_use]
    pub(crate) fn read(pids: &[u32]) -> Counters {
        Counters {
            server_wait_ns: of_all(pids, proc::run_queue_wait_ns),
            ticks: proc::machine_ticks(),
        }
    }
}

/// The sum over processes; `None` without any, or where one cannot be read.
fn of_all(pids: &[u32], read: fn(u32) -> Option<u64>) -> Option<u64> {
    let sum = pids.iter().map(|pid| read(*pid)).sum::<Option<u64>>();
    sum.filter(|_| !pids.is_empty())
}

/// What belongs to a step besides its outcome.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// Offered load.
    pub rate: f64,
    /// Seconds from the start of the run to the start of the step.
    pub offset_s: f64,
    /// Length of the schedule.
    pub length: Duration,
    /// Counters before the load.
    pub before: Counters,
    /// Counters after it.
    pub after: Counters,
    /// The target's processes.
    pub pids: &'a [u32],
    /// Calibrated ceiling of the generator.
    pub ceiling_rps: Option<f64>,
    /// The oracle's verdict.
    pub accuracy: Option<Accuracy>,
    /// The outcome itself.
    pub outcome: &'a Outcome,
}

/// The step. Statuses are computed later, over the whole ladder.
pub(crate) fn step(frame: Frame<'_>) -> Result<Step, String> {
    let (outcome, tally) = (frame.outcome, &frame.outcome.tally);
    let scheduled = frame.length.as_secs_f64();
    let measured_s = if outcome.schedule_counted {
        scheduled
    } else {
        (outcome.elapsed_ns as f64 / 1e9).clamp(1e-3, scheduled)
    };
    // Answers of an overloaded target keep coming after the schedule's end; they must not raise its rate.
    let answered_s = measured_s.max(outcome.answered_ns as f64 / 1e9);
    // Late ones come even later than the good ones.
    let completed_s = measured_s.max(outcome.completed_ns as f64 / 1e9);
    let good = tally.allowed + tally.denied;
    let split = |allow, deny, overdue| {
        SplitLatency::from_histograms(allow, deny, overdue).map_err(|error| error.to_string())
    };
    let ticks = frame.before.ticks.zip(frame.after.ticks);
    let mut step = Step {
        target_rps: frame.rate,
        offset_s: frame.offset_s,
        duration_s: measured_s,
        planned: tally.planned,
        sent: tally.sent,
        completed: tally.completed,
        allowed: tally.allowed,
        denied: tally.denied,
        failures: failures(tally),
        sent_rps: tally.sent as f64 / measured_s,
        completed_rps: tally.completed as f64 / completed_s,
        goodput_rps: good as f64 / answered_s,
        response: split(&tally.response_allow, &tally.response_deny, &tally.overdue)?,
        service: split(
            &tally.service_allow,
            &tally.service_deny,
            &tally.service_overdue,
        )?,
        late: LatencySummary::without_histogram(&tally.late),
        send_lag: LatencySummary::without_histogram(&tally.lag),
        generator: generator_use(outcome),
        server: server_use(&frame),
        steal_percent: ticks.map(|(a, b)| proc::steal_percent(a, b)),
        accuracy: frame.accuracy.clone(),
        notes: outcome.notes.clone(),
        seconds: seconds(&tally.seconds)?,
        ..Step::default()
    };
    step.validity = judge(&Evidence {
        planned: step.planned,
        sent: step.sent,
        refused: tally.refused,
        answers: good,
        target_saturated: tally.target_pushed_back(),
        lag_p99_us: step.send_lag.as_ref().map(|lag| lag.p99_us),
        own_lag_p99_us: LatencySummary::without_histogram(&tally.own_lag).map(|lag| lag.p99_us),
        response_p99_us: step.response.all.as_ref().map(|all| all.p99_us),
        generator_cpu_percent: step.generator.map(|used| used.cpu_percent),
        run_queue_wait_percent: step.generator.and_then(|used| used.run_queue_wait_percent),
        steal_percent: ticks.map(|(a, b)| proc::certain_steal_percent(a, b)),
        headroom: frame.ceiling_rps.map(|ceiling| ceiling / frame.rate),
        over_admission_percent: step.accuracy.as_ref().map(told_over),
        under_admission_percent: step.accuracy.as_ref().map(told_under),
    });
    if let Some(text) = &tally.first_error {
        step.notes.push(format!("{FIRST_COMPLAINT}{text}"));
    }
    Ok(step)
}

fn failures(tally: &Tally) -> Failures {
    Failures {
        timeout: tally.timeout,
        refused: tally.refused,
        protocol: tally.protocol,
        store_error: tally.store_error,
        limiter_error: 0,
        unsent: tally.unsent,
    }
}

/// Over-admission; none within the error that the limiter states.
fn told_over(accuracy: &Accuracy) -> f64 {
    match accuracy.never_over() {
        true => 0.0,
        false => accuracy.over_admission_percent,
    }
}

/// Under-admission; none within the error that the limiter states.
fn told_under(accuracy: &Accuracy) -> f64 {
    match accuracy.never_under() {
        true => 0.0,
        false => accuracy.under_admission_percent,
    }
}

/// The step over time.
pub fn seconds(buckets: &[Bucket]) -> Result<Vec<Second>, String> {
    buckets.iter().map(second).collect()
}

/// One bucket of it.
pub(super) fn second(bucket: &Bucket) -> Result<Second, String> {
    let mut second = Second {
        at_s: bucket.at_ns as f64 / 1e9,
        length_s: bucket.length_ns as f64 / 1e9,
        planned: bucket.counts.planned,
        sent: bucket.counts.sent,
        good: bucket.counts.good,
        failed: bucket.counts.failed,
        in_flight: bucket.in_flight,
        generator_lag_mean_us: bucket.own_lag.map(|lag| lag.mean_ns() / 1e3),
        generator_lag_max_us: bucket.own_lag.map(|lag| lag.max_ns as f64 / 1e3),
        ..Second::default()
    };
    second
        .set_latencies(&bucket.histogram())
        .map_err(|error| error.to_string())?;
    Ok(second)
}

fn generator_use(outcome: &Outcome) -> Option<ProcessUse> {
    let elapsed = outcome.elapsed_ns.max(1) as f64;
    let cpu_ns = outcome.generator_cpu_ns? as f64;
    Some(ProcessUse {
        cpu_percent: 100.0 * cpu_ns / elapsed,
        busiest_thread_percent: Some(100.0 * cpu_ns / elapsed),
        cpu_us_per_op: per_operation(cpu_ns, outcome.tally.completed),
        run_queue_wait_percent: outcome
            .run_queue_wait_ns
            .map(|wait| 100.0 * wait as f64 / elapsed),
        rss_bytes: proc::rss_bytes(std::process::id()),
    })
}

fn server_use(frame: &Frame<'_>) -> Option<ProcessUse> {
    let elapsed = frame.outcome.elapsed_ns.max(1) as f64;
    // Without what it spent on taking the connections: a short step at a low rate would be charged for little else.
    let cpu_ns = frame.outcome.cpu_ns_of(frame.pids)? as f64;
    let wait = frame.before.server_wait_ns.zip(frame.after.server_wait_ns);
    Some(ProcessUse {
        cpu_percent: 100.0 * cpu_ns / elapsed,
        busiest_thread_percent: None,
        cpu_us_per_op: per_operation(cpu_ns, frame.outcome.tally.completed),
        run_queue_wait_percent: wait
            .map(|(before, after)| 100.0 * after.saturating_sub(before) as f64 / elapsed),
        rss_bytes: of_all(frame.pids, proc::rss_bytes),
    })
}

/// Takes the busiest thread of the processes `pids` over from the attribution.
pub(crate) fn busiest_thread(step: &mut Step, pids: &[u32]) {
    let processes = step.attribution.iter().flat_map(|found| &found.processes);
    let busiest = processes
        .filter(|process| pids.contains(&process.pid))
        .filter_map(|process| process.busiest_thread.as_ref())
        .map(|thread| thread.cpu_percent)
        .max_by(f64::total_cmp);
    if let Some(server) = &mut step.server {
        server.busiest_thread_percent = busiest.or(server.busiest_thread_percent);
    }
}

fn per_operation(cpu_ns: f64, operations: u64) -> Option<f64> {
    (operations > 0).then(|| cpu_ns / 1e3 / operations as f64)
}

/// Judgement over all steps of a cell: sums, and the worst stretch. The limit is 0 where it differs between steps.
#[must_use]
pub(crate) fn whole_cell(steps: &[Step]) -> Option<Accuracy> {
    let judged: Vec<&Accuracy> = steps
        .iter()
        .filter_map(|step| step.accuracy.as_ref())
        .collect();
    let first = *judged.first()?;
    let sum =
        |field: fn(&Accuracy) -> u64| judged.iter().map(|accuracy| field(accuracy)).sum::<u64>();
    let same_limit = judged.iter().all(|accuracy| accuracy.limit == first.limit);
    let (allowed_min, allowed_max) = (sum(|a| a.allowed_min), sum(|a| a.allowed_max));
    let share = |percent: fn(&Accuracy) -> f64, of: fn(&Accuracy) -> u64, whole: u64| {
        let counted: f64 = judged.iter().map(|a| percent(a) * of(a) as f64).sum();
        counted / whole.max(1) as f64
    };
    Some(Accuracy {
        algorithm: first.algorithm.clone(),
        limit: if same_limit { first.limit } else { 0 },
        window_ms: first.window_ms,
        keys: sum(|a| a.keys),
        offered: sum(|a| a.offered),
        admitted: sum(|a| a.admitted),
        unknown: sum(|a| a.unknown),
        allowed_min,
        allowed_max,
        over_admission_percent: share(|a| a.over_admission_percent, |a| a.allowed_max, allowed_max),
        under_admission_percent: share(
            |a| a.under_admission_percent,
            |a| a.allowed_min,
            allowed_min,
        ),
        worst_window_admitted: None,
        worst_window_key: None,
        fairness_jain: judged
            .iter()
            .filter_map(|a| a.fairness_jain)
            .min_by(f64::total_cmp),
        fairness_min_of_mean: judged
            .iter()
            .filter_map(|a| a.fairness_min_of_mean)
            .min_by(f64::total_cmp),
        fairness_max_of_mean: judged
            .iter()
            .filter_map(|a| a.fairness_max_of_mean)
            .max_by(f64::total_cmp),
        over_admitted: sum(|a| a.over_admitted),
        under_admitted: sum(|a| a.under_admitted),
        exact: judged
            .iter()
            .filter_map(|a| a.exact)
            .reduce(ExactPart::plus),
        retry_after: judged
            .iter()
            .filter_map(|a| a.retry_after)
            .reduce(RetryAfter::plus),
        stated: judged
            .iter()
            .filter_map(|a| a.stated)
            .reduce(|(over, under), (o, u)| (over + o, under + u)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::{Answer, Tally, Verdict};

    const MILLI: u64 = 1_000_000;

    /// A target that answers one request a millisecond, asked for two a millisecond over two seconds with a deadline of one.
    fn overloaded() -> Outcome {
        let mut tally = Tally::new(1);
        let mut answer = |due_ms: u64, now_ms: u64, verdict| {
            tally.planned += 1;
            let (due, now) = (due_ms * MILLI, now_ms * MILLI);
            tally.record_sent(0, due, due);
            let answer = Answer {
                key: 0,
                first: due,
                intended: due,
                sent: due,
                now,
                verdict,
                promise_ms: None,
                given_up: false,
            };
            tally.record_answer(&answer, 1_000 * MILLI);
        };
        for number in 0..3_000 {
            answer(number / 2, number + 1, Verdict::Allowed);
        }
        // An error at the very end is no good answer.
        answer(2_000, 3_000, Verdict::Error);
        Outcome {
            elapsed_ns: 3_001 * MILLI,
            answered_ns: tally.last_good_ns,
            completed_ns: tally.last_answer_ns,
            generator_cpu_ns: None,
            run_queue_wait_ns: None,
            watched_cpu_ns: vec![(7, Some(30_010_000)), (8, Some(0)), (9, None)],
            tally,
            cut_short: None,
            schedule_counted: true,
            notes: Vec::new(),
        }
    }

    fn step_of(outcome: &Outcome, pids: &[u32]) -> Step {
        step(Frame {
            rate: 2_000.0,
            offset_s: 0.0,
            length: Duration::from_secs(2),
            before: Counters::default(),
            after: Counters::default(),
            pids,
            ceiling_rps: None,
            accuracy: None,
            outcome,
        })
        .unwrap()
    }

    #[test]
    fn a_server_is_charged_what_its_processes_used_once_connected() {
        let outcome = overloaded();
        let used = |pids: &[u32]| step_of(&outcome, pids).server;
        let both = used(&[7, 8]).unwrap();
        assert!((both.cpu_us_per_op.unwrap() - 10.0).abs() < 1e-9);
        assert!((both.cpu_percent - 1.0).abs() < 1e-9);
        // What cannot be read leaves no figure rather than a smaller one.
        assert!(used(&[7, 9]).is_none() && used(&[6]).is_none() && used(&[]).is_none());
    }

    #[test]
    fn a_target_that_was_lost_early_has_no_rate_as_if_it_were_still_there() {
        // The same answers, of a target that was lost after a tenth of the schedule: the rest is among the failures.
        let mut outcome = overloaded();
        outcome.elapsed_ns = 200 * MILLI;
        outcome.answered_ns = 200 * MILLI;
        outcome.completed_ns = 200 * MILLI;
        outcome.cut_short = Some("all connections were lost".into());
        let step = step_of(&outcome, &[]);
        let good = (step.allowed + step.denied) as f64;
        assert_eq!((step.duration_s, step.goodput_rps), (2.0, good / 2.0));
        assert_eq!(step.sent_rps, step.sent as f64 / 2.0);
        // What was not asked because the run was interrupted is in no count, so the time counts as far as it went.
        outcome.schedule_counted = false;
        let step = step_of(&outcome, &[]);
        assert_eq!((step.duration_s, step.goodput_rps), (0.2, good / 0.2));
    }

    #[test]
    fn answers_after_the_schedule_raise_no_rate() {
        let outcome = overloaded();
        let step = step_of(&outcome, &[]);
        assert_eq!((step.completed, step.failures.timeout), (3_001, 1_001));
        assert_eq!(outcome.answered_ns, 1_999 * MILLI, "the last that was good");
        let rate = step.completed_rps;
        assert!(
            (rate - 1_000.0).abs() < 1.0,
            "{rate} completed, of 1000 possible"
        );
    }
}
