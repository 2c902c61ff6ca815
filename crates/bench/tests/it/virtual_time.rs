//! The accounting of the open loop against simulated servers whose percentiles are known on paper. No clock, no
//! sockets: time is a number.

use std::collections::VecDeque;

use tollgate_bench::load::clients::RetryPolicy;
use tollgate_bench::load::keys::Spreading;
use tollgate_bench::load::open::{Own, Plan};
use tollgate_bench::load::open_loop::Bounds;
use tollgate_bench::load::schedule::Arrivals;
use tollgate_bench::load::tally::{Tally, Verdict};
use tollgate_bench::record::SplitLatency;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn plan(rate: f64, seconds: u64, connections: usize, depth: usize, deadline_ns: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Poisson,
        rate,
        length_ns: seconds * SECOND,
        spreading: Spreading::Single,
        seed: 7,
        bounds: Bounds {
            connections,
            depth,
            deadline_ns,
            backlog_limit: 1 << 20,
        },
        later: Vec::new(),
        clients: None,
        own: Own::default(),
    }
}

/// Runs `plan` against a server with one queue; `finish(start)` says when a request begun at `start` is done.
fn simulate(plan: &Plan, finish: impl Fn(u64) -> u64) -> Tally {
    let mut state = plan.begin(1, 0);
    let mut queue: VecDeque<(u64, usize)> = VecDeque::new();
    let mut free_at = 0;
    let mut now = 0;
    while !state.finished(now) {
        while queue.front().is_some_and(|(done, _)| *done <= now) {
            let (_, connection) = queue.pop_front().unwrap();
            assert!(state.answer(connection, now, Verdict::Allowed));
        }
        let mut given = Vec::new();
        let touched = state
            .dispatch(now, |connection, _| given.push(connection))
            .to_vec();
        for connection in touched {
            state.stamp(connection, now);
        }
        for connection in given {
            free_at = finish(free_at.max(now));
            queue.push_back((free_at, connection));
        }
        let next = state
            .next_due()
            .into_iter()
            .chain(queue.front().map(|(done, _)| *done))
            .min();
        now = next
            .unwrap_or(now + 1)
            .max(now + 1)
            .min(state.last_call() + 1);
    }
    state.finish()
}

/// A generator that was away for the second half of its schedule has not sent that half, and says so.
#[test]
fn what_the_generator_never_looked_at_counts_as_unsent() {
    let plan = plan(1_000.0, 2, 10, 1, SECOND);
    let mut state = plan.begin(1, 0);
    let mut now = 0;
    while let Some(due) = state.next_due().filter(|due| *due < SECOND) {
        now = now.max(due);
        let touched = state.dispatch(now, |_, _| {}).to_vec();
        for lane in touched {
            state.stamp(lane, now);
            assert!(state.answer_promising(lane, now + 1, Verdict::Allowed, None));
        }
        now += 1;
    }
    assert!(state.finished(state.last_call() + 1));
    let tally = state.finish();
    assert_eq!(tally.planned, 2_000);
    assert_eq!(tally.allowed + tally.unsent, 2_000);
    assert!((900..=1_100).contains(&tally.unsent), "{}", tally.unsent);
}

/// Clients that give up free their places at the deadline, and every request is counted once.
#[test]
fn what_is_given_up_makes_room() {
    let plan = Plan {
        arrivals: Arrivals::Constant,
        ..plan(1_000.0, 1, 10, 1, 5 * MS)
    };
    let mut state = plan.begin(1, 0).giving_up();
    let (mut now, mut given_up) = (0, Vec::new());
    while !state.finished(now) {
        state.give_up(now, |lane, due| given_up.push((lane, now - due)));
        // Nobody answers but the first lane, at once.
        let mut first = false;
        let touched = state.dispatch(now, |lane, _| first |= lane == 0).to_vec();
        for lane in touched {
            state.stamp(lane, now);
        }
        if first {
            assert!(state.answer(0, now, Verdict::Allowed));
        }
        assert!(state.in_flight() <= 6, "one each millisecond, for five");
        now = state.next_due().unwrap_or(now + 1).max(now + 1);
        now = now.min(state.last_call() + 1);
    }
    let tally = state.finish();
    assert_eq!(tally.unsent, 0);
    assert!(tally.allowed > 0);
    assert_eq!(tally.allowed + tally.timeout, tally.planned);
    assert!(given_up.len() as u64 <= tally.timeout);
    assert!(
        given_up
            .iter()
            .all(|(lane, age)| *lane != 0 && *age > 5 * MS && *age <= 6 * MS)
    );
}

/// Lanes of one connection lie together, and each connection fills one in its turn until all are taken.
#[test]
fn connections_are_filled_in_turn() {
    let plan = Plan {
        arrivals: Arrivals::Constant,
        ..plan(1_000.0, 1, 12, 1, 100 * MS)
    };
    let mut state = plan.begin(1, 0).taking_turns(4);
    let (mut now, mut given) = (0, Vec::new());
    while now < 50 * MS {
        let touched = state.dispatch(now, |lane, _| given.push(lane)).to_vec();
        for lane in touched {
            state.stamp(lane, now);
        }
        now += MS;
    }
    assert_eq!(given, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
}

/// The same with clients that ask again: each attempt is taken back, and each request is counted once.
#[test]
fn what_is_given_up_is_asked_again_by_who_retries() {
    let plan = Plan {
        arrivals: Arrivals::Constant,
        clients: Some(RetryPolicy {
            retries: 2,
            backoff_ns: MS,
            drain_ns: 100 * MS,
            seed: 3,
        }),
        ..plan(100.0, 1, 10, 1, 5 * MS)
    };
    let mut state = plan.begin(1, 0).giving_up();
    let (mut now, mut taken_back) = (0, 0);
    while !state.finished(now) {
        state.give_up(now, |_, _| taken_back += 1);
        let touched = state.dispatch(now, |_, _| {}).to_vec();
        for lane in touched {
            state.stamp(lane, now);
        }
        now = state.next_due().unwrap_or(now + 1).max(now + 1);
        now = now.min(state.last_call() + 1);
    }
    let tally = state.finish();
    assert_eq!((tally.planned, tally.timeout), (100, 100));
    assert_eq!((tally.repeated, taken_back), (200, 300));
    assert_eq!(tally.overdue.len(), 100, "a request once, not each attempt");
    assert!(
        tally.overdue.min() > 14 * MS,
        "three times 5 ms from the first"
    );
}

/// 0.1 ms of work, and no work at all during the first second of every ten.
fn stalling(start: u64) -> u64 {
    let work = MS / 10;
    if start % (10 * SECOND) < SECOND {
        start - start % (10 * SECOND) + SECOND + work
    } else {
        start + work
    }
}

#[test]
fn a_stall_is_seen_by_every_request_that_fell_into_it() {
    let plan = plan(1_000.0, 40, 50, 16, 5 * SECOND);
    let tally = simulate(&plan, stalling);
    assert_eq!(
        (tally.planned, tally.allowed, tally.timeout),
        (40_000, 40_000, 0)
    );
    let at = |quantile| tally.response().value_at_quantile(quantile) as f64 / 1e9;
    // A tenth of the requests waits uniformly between 0 and 1 s, plus the queue that the stall left behind.
    assert!((0.88..1.02).contains(&at(0.99)), "p99 {}", at(0.99));
    assert!((0.40..0.72).contains(&at(0.95)), "p95 {}", at(0.95));
    assert!(at(0.80) < 0.01, "p80 {}", at(0.80));
}

#[test]
fn time_from_the_send_hides_the_stall_and_time_from_the_intention_does_not() {
    // Two connections with one request each: in a stall two requests are on the wire, the others wait here.
    let plan = plan(1_000.0, 40, 2, 1, 5 * SECOND);
    let tally = simulate(&plan, stalling);
    let response = tally.response().value_at_quantile(0.99) as f64 / 1e9;
    let service = tally.service().value_at_quantile(0.99) as f64 / 1e9;
    assert!(response > 0.85, "from the intended time {response}");
    assert!(service < 0.01, "from the send {service}");
    assert!(tally.target_pushed_back());
}

#[test]
fn a_closed_loop_hides_the_stall() {
    // One client that waits for every answer, at 1 ms of work: of the 9,000 requests between two stalls one is slow.
    let one_at_a_time = Plan {
        arrivals: Arrivals::Closed,
        ..plan(0.0, 40, 1, 1, 5 * SECOND)
    };
    let stalling = |start: u64| stalling(start) + MS - MS / 10;
    let closed = simulate(&one_at_a_time, stalling);
    let at = |tally: &Tally, quantile| tally.response().value_at_quantile(quantile) as f64 / 1e6;
    assert!(
        (35_900..=36_010).contains(&closed.planned),
        "{}",
        closed.planned
    );
    assert_eq!((closed.allowed, closed.timeout), (closed.planned, 0));
    assert!(
        (0.99..1.01).contains(&at(&closed, 0.99)),
        "p99 {} ms",
        at(&closed, 0.99)
    );
    assert!(
        at(&closed, 1.0) > 1_000.0,
        "the few that were slow are there"
    );
    // The same server asked a tenth as often as it could answer, by clients who do not wait for each other.
    let open = simulate(&plan(100.0, 40, 50, 16, 5 * SECOND), stalling);
    assert!(
        (850.0..960.0).contains(&at(&open, 0.99)),
        "p99 {} ms",
        at(&open, 0.99)
    );
}

#[test]
fn the_backlog_keeps_its_bound_and_what_it_refuses_is_a_failure() {
    const LIMIT: usize = 100;
    let mut plan = plan(1_000.0, 4, 1, 2, 10 * SECOND);
    plan.bounds.backlog_limit = LIMIT;
    let mut state = plan.begin(1, 0);
    // Nothing is answered: two requests are on the wire, a hundred wait, and the rest never leaves.
    let mut longest = 0;
    for now in (0..4 * SECOND).step_by(MS as usize) {
        for connection in state.dispatch(now, |_, _| {}).to_vec() {
            state.stamp(connection, now);
        }
        longest = longest.max(state.waiting());
    }
    assert_eq!((longest, state.in_flight()), (LIMIT, 2));
    let refused = state.tally().unsent;
    let planned = state.tally().planned;
    assert_eq!(refused, planned - LIMIT as u64 - 2);
    // The schedule went on meanwhile: the load is the one that was asked for.
    assert!((3_700..4_300).contains(&planned), "{planned}");
    // What waits at the end failed as well.
    let tally = state.finish();
    assert_eq!((tally.unsent, tally.timeout), (tally.planned - 2, 2));
}

#[test]
fn what_waits_longer_than_the_deadline_is_given_up_and_makes_room() {
    let mut plan = plan(1_000.0, 4, 1, 1, 50 * MS);
    plan.bounds.backlog_limit = 1 << 20;
    let mut state = plan.begin(1, 0);
    for now in (0..4 * SECOND).step_by(MS as usize) {
        for connection in state.dispatch(now, |_, _| {}).to_vec() {
            state.stamp(connection, now);
        }
        // 50 are due within the deadline on average; more than twice as many would be a queue that does not drain.
        assert!(state.waiting() < 110, "{} at {now}", state.waiting());
    }
    assert!(state.tally().unsent > 3_500);
}

#[test]
fn an_idle_server_answers_in_its_service_time() {
    let tally = simulate(&plan(100.0, 20, 50, 16, SECOND), |start| start + MS);
    let p50 = tally.response().value_at_quantile(0.5) as f64 / 1e6;
    assert!((0.99..1.15).contains(&p50), "p50 {p50} ms");
    // M/D/1 at a utilisation of 0.1: mean = S * (1 + 0.1 / 1.8).
    let mean = tally.response().mean() / 1e6;
    assert!((mean - 1.0556).abs() < 0.03, "mean {mean} ms");
}

#[test]
fn queueing_follows_the_formula_for_one_server() {
    // Utilisation 0.8: mean = S * (1 + 0.8 / 0.4) = 3 S.
    let tally = simulate(&plan(800.0, 200, 50, 64, 60 * SECOND), |start| start + MS);
    let mean = tally.response().mean() / 1e6;
    assert!((2.7..3.3).contains(&mean), "mean {mean} ms");
    assert_eq!(tally.lag.max(), 0, "the simulated generator is never late");
}

#[test]
fn beyond_capacity_the_rest_times_out_or_is_never_sent() {
    // 1,000 per second can be served, 2,000 are offered, for 10 s with a deadline of 1 s.
    let tally = simulate(&plan(2_000.0, 10, 4, 4, SECOND), |start| start + MS);
    assert_eq!(tally.planned, 20_000);
    let counted = tally.allowed + tally.timeout + tally.unsent;
    assert_eq!(counted, tally.planned, "every request is counted once");
    assert!(
        (10_000..11_100).contains(&(tally.sent)),
        "sent {}",
        tally.sent
    );
    assert!(tally.unsent > 8_000, "unsent {}", tally.unsent);
    assert!(
        tally.response().max() <= SECOND + SECOND / 500,
        "no answer in time is later than the deadline"
    );
    assert_eq!(tally.overdue.len(), tally.timeout + tally.unsent);
    assert!(tally.overdue.min() >= SECOND - SECOND / 500);
    assert_eq!(tally.service_overdue.len(), tally.timeout);
}

/// The stall of a second in every ten, asked by clients who wait for 0.1 s: most of who fell into it timed out.
#[test]
fn a_deadline_does_not_hide_a_stall_from_the_percentiles() {
    let tally = simulate(&plan(1_000.0, 40, 50, 32, 100 * MS), stalling);
    assert!(
        tally.timeout > 3_000 && tally.unsent == 0,
        "{}",
        tally.timeout
    );
    let in_time = tally.response().value_at_quantile(0.999);
    assert!(in_time <= 101 * MS, "answers in time know nothing of it");
    let [allow, deny, overdue] = [&tally.response_allow, &tally.response_deny, &tally.overdue];
    let all = SplitLatency::from_histograms(allow, deny, overdue).unwrap();
    let all = all.all.unwrap();
    assert_eq!(all.count, tally.planned);
    assert!((0.88e6..1.02e6).contains(&all.p99_us), "p99 {}", all.p99_us);
    // Nothing is answered while it stands still, and all that waited in the second behind, half of what comes then.
    assert_eq!(tally.seconds[10].histogram().len(), 0);
    let behind = tally.seconds[11].histogram().value_at_quantile(0.9);
    assert!(behind > 400 * MS, "{behind} ns");
}

#[test]
fn late_answers_are_timeouts_with_a_histogram_of_their_own() {
    let tally = simulate(&plan(100.0, 5, 50, 16, 10 * MS), |start| {
        if start % SECOND < 100 * MS {
            start + 20 * MS
        } else {
            start + MS
        }
    });
    assert!(tally.timeout > 0 && tally.late.len() == tally.timeout);
    assert_eq!(
        tally.overdue, tally.late,
        "and in the percentiles with what they took"
    );
    assert!(tally.late.min() >= 10 * MS);
    assert_eq!(tally.allowed + tally.timeout, tally.planned);
    let key = tally.keys[0];
    assert_eq!(
        u64::from(key.admitted),
        tally.planned,
        "a late verdict is still a verdict for the oracle"
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let tally = simulate(&plan(500.0, 5, 8, 4, SECOND), |start| start + MS);
        (
            tally.planned,
            tally.response().max(),
            tally.response().mean(),
        )
    };
    assert_eq!(run(), run());
}
