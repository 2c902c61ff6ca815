//! Servers that fail in a known way, in virtual time: the search must find their knee, and every way of failing must
//! get its name. No clock, no sockets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_bench::load::clients::RetryPolicy;
use tollgate_bench::load::keys::Spreading;
use tollgate_bench::load::open::{Own, Plan};
use tollgate_bench::load::open_loop::Bounds;
use tollgate_bench::load::schedule::Arrivals;
use tollgate_bench::load::tally::{Tally, Verdict};
use tollgate_bench::record::capacity::RetentionClass;
use tollgate_bench::record::recovery::{Phase, RecoveryVerdict};
use tollgate_bench::record::{Measure, Profile, SearchGoal};
use tollgate_bench::run::fill;
use tollgate_bench::search::recovery::judge;
use tollgate_bench::search::retention::{FACTORS, knee, retention};
use tollgate_bench::search::{Attempt, Next, Search, SearchPlan};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A server with one worker, told when a request arrives and how many wait: when it is done, and with what.
trait Server {
    fn serve(&mut self, now: u64, waiting: usize) -> (u64, Verdict);
}

/// 1 ms per request; turns away what would wait behind more than 20 others.
#[derive(Default)]
struct Shedding {
    free_at: u64,
}

impl Server for Shedding {
    fn serve(&mut self, now: u64, _: usize) -> (u64, Verdict) {
        if self.free_at > now + 20 * MS {
            return (now + MS / 10, Verdict::Error);
        }
        self.free_at = self.free_at.max(now) + MS;
        (self.free_at, Verdict::Allowed)
    }
}

/// 1 ms per request when idle, and the more wait, the longer for each.
#[derive(Default)]
struct Thrashing {
    free_at: u64,
}

impl Server for Thrashing {
    fn serve(&mut self, now: u64, waiting: usize) -> (u64, Verdict) {
        let work = MS + MS * (waiting as u64) / 10;
        self.free_at = self.free_at.max(now) + work;
        (self.free_at, Verdict::Allowed)
    }
}

/// 1 ms per request. Once more than 100 wait, 4 ms, until nothing has been asked for 200 ms.
#[derive(Default)]
struct Sticky {
    free_at: u64,
    asked_at: u64,
    stuck: bool,
}

impl Server for Sticky {
    fn serve(&mut self, now: u64, waiting: usize) -> (u64, Verdict) {
        if now.saturating_sub(self.free_at.max(self.asked_at)) > 200 * MS {
            self.stuck = false;
        }
        self.asked_at = now;
        self.stuck |= waiting > 100;
        self.free_at = self.free_at.max(now) + if self.stuck { 4 * MS } else { MS };
        (self.free_at, Verdict::Allowed)
    }
}

/// 1 ms per request, in order, whatever waits.
#[derive(Default)]
struct Patient {
    free_at: u64,
}

impl Server for Patient {
    fn serve(&mut self, now: u64, _: usize) -> (u64, Verdict) {
        self.free_at = self.free_at.max(now) + MS;
        (self.free_at, Verdict::Allowed)
    }
}

fn plan(rate: f64, length_ns: u64, deadline_ns: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Poisson,
        rate,
        length_ns,
        spreading: Spreading::Single,
        seed: 11,
        bounds: Bounds {
            connections: 400,
            depth: 1,
            deadline_ns,
            backlog_limit: 1 << 16,
        },
        later: Vec::new(),
        clients: None,
        own: Own::default(),
    }
}

fn simulate(plan: &Plan, server: &mut impl Server) -> Tally {
    let mut state = plan.begin(1, 0);
    let mut open: BinaryHeap<Reverse<(u64, usize, bool)>> = BinaryHeap::new();
    let mut now = 0;
    while !state.finished(now) {
        while let Some(&Reverse((done, connection, good))) = open.peek()
            && done <= now
        {
            open.pop();
            let verdict = if good {
                Verdict::Allowed
            } else {
                Verdict::Error
            };
            assert!(state.answer(connection, now, verdict));
        }
        let mut given = Vec::new();
        let touched = state
            .dispatch(now, |connection, _| given.push(connection))
            .to_vec();
        for connection in touched {
            state.stamp(connection, now);
        }
        for connection in given {
            let (done, verdict) = server.serve(now, open.len());
            open.push(Reverse((done, connection, verdict == Verdict::Allowed)));
        }
        let next = state
            .next_due()
            .into_iter()
            .chain(open.peek().map(|Reverse((done, ..))| *done))
            .min();
        now = next
            .unwrap_or(now + 1)
            .max(now + 1)
            .min(state.last_call() + 1);
    }
    state.finish()
}

fn failed(tally: &Tally) -> u64 {
    tally.timeout + tally.unsent + tally.store_error + tally.refused + tally.protocol
}

fn measure(rate: f64, tally: &Tally, seconds: f64) -> Measure {
    let response = tally.response();
    let ms = |quantile: f64| Some(response.value_at_quantile(quantile) as f64 / 1e6);
    Measure {
        target_rps: rate,
        goodput_rps: (tally.allowed + tally.denied) as f64 / seconds,
        fail_percent: failed(tally) as f64 * 100.0 / tally.planned.max(1) as f64,
        mean_ms: Some(response.mean() / 1e6),
        p95_ms: ms(0.95),
        p99_ms: ms(0.99),
    }
}

/// One trial on a fresh server.
fn trial<S: Server + Default>(rate: f64, seconds: u64) -> Measure {
    let tally = simulate(&plan(rate, seconds * SECOND, SECOND), &mut S::default());
    measure(rate, &tally, seconds as f64)
}

/// The load that the search says is sustained, and the loads past it.
fn search<S: Server + Default>() -> (f64, f64, Option<RetentionClass>) {
    let profile = Profile::bench();
    let goal = SearchGoal {
        exceed_ratio: 0.5,
        final_trial_s: 4.0,
        duration_sum_s: 8.0,
        width: 0.05,
        ..SearchGoal::named("slo", &profile).unwrap()
    };
    let mut search = Search::new(SearchPlan {
        goals: vec![goal],
        first_rps: 300.0,
        min_rps: 10.0,
        max_rps: 4_000.0,
        rough_trial_s: 2.0,
        trials_max: 60,
        budget_s: 240.0,
    });
    while let Next::Trial(wanted) = search.next_trial() {
        search.record(&Attempt {
            load_rps: wanted.load_rps,
            duration_s: wanted.duration_s,
            measure: trial::<S>(wanted.load_rps, wanted.duration_s as u64),
            believable: true,
        });
    }
    let result = &search.results()[0];
    let (lower, upper) = (result.lower_rps.unwrap(), result.upper_rps.unwrap());
    let loads = [0.5, 0.75, 1.0].iter().chain(&FACTORS);
    let rows: Vec<Measure> = loads.map(|share| trial::<S>(share * lower, 6)).collect();
    let past = retention(&profile, &rows, knee(&profile, &rows).unwrap()).unwrap();
    (lower, upper, past.class)
}

#[test]
fn a_server_that_sheds_load_fails_gracefully() {
    let (lower, upper, class) = search::<Shedding>();
    assert!(lower > 850.0 && upper < 1_100.0, "[{lower}, {upper}]");
    assert_eq!(class, Some(RetentionClass::Graceful));
}

#[test]
fn a_server_that_thrashes_collapses() {
    let (lower, upper, class) = search::<Thrashing>();
    assert!(lower > 300.0 && upper < 1_000.0, "[{lower}, {upper}]");
    assert_eq!(class, Some(RetentionClass::Collapse));
}

/// 0.7 → 1.5 → 0.7 of 1,000 per second for 4, 4 and 20 s.
fn recovery(
    server: &mut impl Server,
    deadline_ns: u64,
    policy: RetryPolicy,
) -> (RecoveryVerdict, Tally) {
    let phase = |name: &str, rate_rps: f64, start_s: f64, length_s: f64| Phase {
        name: name.into(),
        of_knee: rate_rps / 1_000.0,
        rate_rps,
        start_s,
        length_s,
    };
    let phases = [
        phase("before", 700.0, 0.0, 4.0),
        phase("overload", 1_500.0, 4.0, 4.0),
        phase("after", 700.0, 8.0, 20.0),
    ];
    let plan = Plan {
        later: vec![(1_500.0, 4 * SECOND), (700.0, 20 * SECOND)],
        clients: Some(policy),
        ..plan(700.0, 4 * SECOND, deadline_ns)
    };
    let tally = simulate(&plan, server);
    let seconds = fill::seconds(&tally.seconds).unwrap();
    let found = judge(&Profile::bench(), &phases, &seconds, true);
    let good = tally.allowed + tally.denied;
    assert_eq!(
        good + failed(&tally),
        tally.planned,
        "every request is counted once"
    );
    (found.verdict, tally)
}

fn clients(retries: u32) -> RetryPolicy {
    RetryPolicy {
        retries,
        backoff_ns: 50 * MS,
        drain_ns: SECOND,
        seed: 5,
    }
}

#[test]
fn a_server_that_stays_broken_until_idle_is_metastable() {
    let (verdict, tally) = recovery(&mut Sticky::default(), SECOND, clients(0));
    assert_eq!(verdict, RecoveryVerdict::Metastable);
    assert_eq!(tally.repeated, 0);
}

#[test]
fn a_server_that_sheds_load_recovers_with_and_without_retries() {
    for retries in [0, 3] {
        let (verdict, tally) = recovery(&mut Shedding::default(), SECOND, clients(retries));
        assert_eq!(verdict, RecoveryVerdict::Recovered, "{retries} retries");
        assert_eq!(tally.repeated > 0, retries > 0);
    }
}

#[test]
fn retries_alone_keep_an_overload_alive() {
    // The server does the work of requests whose clients have given up: without retries the queue drains, with three
    // retries each failed request brings three more.
    let (alone, _) = recovery(&mut Patient::default(), 300 * MS, clients(0));
    assert_eq!(alone, RecoveryVerdict::Recovered);
    let (kept, tally) = recovery(&mut Patient::default(), 300 * MS, clients(3));
    assert_eq!(
        kept,
        RecoveryVerdict::Metastable,
        "{} repeated",
        tally.repeated
    );
    assert!(tally.sent + tally.unsent > tally.planned);
}

#[test]
fn clients_without_a_deadline_wait_for_everything() {
    let (verdict, tally) = recovery(&mut Patient::default(), u64::MAX / 2, clients(3));
    assert_eq!(verdict, RecoveryVerdict::Recovered);
    assert_eq!((failed(&tally), tally.repeated), (0, 0));
}

#[test]
fn a_request_is_repeated_as_often_as_allowed_and_counted_once() {
    struct Refusing;
    impl Server for Refusing {
        fn serve(&mut self, now: u64, _: usize) -> (u64, Verdict) {
            (now + MS / 10, Verdict::Error)
        }
    }
    for retries in [0_u64, 1, 3] {
        let plan = Plan {
            clients: Some(clients(retries as u32)),
            ..plan(500.0, 2 * SECOND, SECOND)
        };
        let tally = simulate(&plan, &mut Refusing);
        assert_eq!(tally.planned, 1_000);
        assert_eq!(failed(&tally), 1_000);
        assert_eq!(
            (tally.sent, tally.repeated),
            (1_000 * (1 + retries), 1_000 * retries)
        );
    }
}

#[test]
fn a_denial_is_an_answer_and_not_repeated() {
    let plan = Plan {
        clients: Some(clients(3)),
        ..plan(500.0, SECOND, SECOND)
    };
    let mut state = plan.begin(1, 0);
    let mut now = 0;
    while !state.finished(now) {
        let mut given = Vec::new();
        let touched = state.dispatch(now, |at, _| given.push(at)).to_vec();
        for at in touched {
            state.stamp(at, now);
            assert!(state.answer(at, now, Verdict::Denied));
        }
        now = state
            .next_due()
            .unwrap_or(state.last_call() + 1)
            .max(now + 1);
    }
    let tally = state.finish();
    assert_eq!((tally.denied, tally.repeated, failed(&tally)), (500, 0, 0));
}
