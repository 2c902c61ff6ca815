//! One loop in virtual time.

use std::collections::VecDeque;

use super::*;

const PATIENCE: Duration = Duration::from_millis(20);
const LENGTH: Duration = Duration::from_secs(1);

/// What one loop costs.
#[derive(Clone, Copy)]
struct Costs {
    /// To be told of a connection, and to read it.
    visit: Duration,
    decide: Duration,
    refuse: Duration,
    /// To send the answers of one connection.
    send: Duration,
}

/// Most of the cost is that of sockets. All of it is ten times what it is, so that little has to be simulated.
const NARROW: Costs = Costs {
    visit: Duration::from_micros(15),
    decide: Duration::from_micros(15),
    refuse: Duration::from_micros(4),
    send: Duration::from_micros(30),
};
/// The same where many requests come together.
const WIDE: Costs = Costs {
    visit: Duration::from_micros(30),
    send: Duration::from_micros(60),
    ..NARROW
};

struct Run {
    goodput: f64,
    /// Share of the answers that came too late.
    late: f64,
    refused: usize,
}

#[derive(Default)]
struct Connection {
    asked: VecDeque<Duration>,
    seen: Seen,
    /// The loop was told, and keeps what came.
    is_aside: bool,
}

/// Asked `rate` times a second over so many connections, each of which holds `depth` requests at most; the others are not
/// asked. Who has waited for [`PATIENCE`] on a connection of one request goes.
fn simulate(costs: Costs, connections: usize, depth: usize, rate: f64, sheds: bool) -> Run {
    let mut shed = LoopShed::new(PATIENCE).expect("it sheds");
    let mut all: Vec<Connection> = (0..connections).map(|_| Connection::default()).collect();
    let (mut now, mut next, mut seed) = (Duration::ZERO, Duration::ZERO, 7_u64);
    let (mut busy, mut good, mut late, mut refused) = (Duration::ZERO, 0, 0, 0);
    let mut ready = VecDeque::new();
    let mut resumed = VecDeque::new();
    while now < LENGTH {
        while next <= now {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let connection = &mut all[(seed >> 33) as usize % connections];
            if connection.asked.len() < depth {
                connection.asked.push_back(next);
            }
            let uniform = ((seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            next += Duration::from_secs_f64(-uniform.ln() / rate);
        }
        let Some(at) = ready.pop_front().or_else(|| resumed.pop_front()) else {
            shed.turn_done(now, || busy);
            // What is ready is named in the order in which it came.
            let mut found: Vec<_> = (0..connections)
                .filter(|at| !all[*at].is_aside && !all[*at].asked.is_empty())
                .collect();
            found.sort_by_key(|at| all[*at].asked[0]);
            ready.extend(found);
            while let Some(at) = shed.take(now) {
                let connection: &mut Connection = &mut all[at];
                if shed.resume(&mut connection.seen) {
                    connection.is_aside = false;
                    resumed.push_back(at);
                }
            }
            if ready.is_empty() && resumed.is_empty() {
                now = shed.next().map_or(next, |due| due.max(now).min(next));
                now += Duration::from_nanos(1);
            }
            continue;
        };
        let began = now;
        now += costs.visit;
        let connection = &mut all[at];
        let count = connection.asked.len();
        let mut brought = shed.arrive(&mut connection.seen, (count, false), now, || busy);
        let several = || count > 1;
        if sheds && shed.puts_aside(at, &mut connection.seen, &mut brought, now, several) {
            connection.is_aside = true;
            busy += now - began;
            continue;
        }
        let mut answered = Vec::new();
        for (place, came) in connection.asked.drain(..).enumerate() {
            if depth == 1 && now - came > PATIENCE {
                // Nobody is there any more.
                late += 1;
            } else if sheds && brought.refuse(None, place).is_some() {
                now += costs.refuse;
                refused += 1;
            } else {
                now += costs.decide;
                answered.push(came);
            }
        }
        now += costs.send;
        shed.served(&mut connection.seen, count, count as u64, false);
        for came in answered {
            match now - came <= PATIENCE {
                true => good += 1,
                false => late += 1,
            }
        }
        busy += now - began;
    }
    Run {
        goodput: f64::from(good) / LENGTH.as_secs_f64(),
        late: f64::from(late) / f64::from(good + late).max(1.0),
        refused,
    }
}

#[test]
fn goodput_stays_where_many_requests_come_together() {
    let capacity = (WIDE.decide + (WIDE.visit + WIDE.send) / 16)
        .as_secs_f64()
        .recip();
    for connections in [8, 80] {
        let peak = [0.7, 0.9, 1.0]
            .map(|load| simulate(WIDE, connections, 1_000, load * capacity, true).goodput)
            .into_iter()
            .fold(0.0, f64::max);
        for load in [1.5, 2.0] {
            let run = simulate(WIDE, connections, 1_000, load * capacity, true);
            let kept = run.goodput / peak;
            assert!(kept >= 0.95, "{connections}, {load}x: {kept}");
            assert!(
                run.late <= 0.01,
                "{connections}, {load}x: {} late",
                run.late
            );
            let without = simulate(WIDE, connections, 1_000, load * capacity, false).goodput;
            assert!(
                without < 0.5 * peak,
                "{connections}, {load}x: {without} without"
            );
        }
    }
}

#[test]
fn goodput_stays_where_requests_come_one_by_one() {
    const CONNECTIONS: usize = 2_000;
    let capacity = (NARROW.visit + NARROW.decide + NARROW.send)
        .as_secs_f64()
        .recip();
    let run = |load: f64, sheds| simulate(NARROW, CONNECTIONS, 1, load * capacity, sheds);
    let peak = [0.7, 0.9, 1.0]
        .map(|load| run(load, true).goodput)
        .into_iter()
        .fold(0.0, f64::max);
    for load in [1.5, 2.0] {
        let kept = run(load, true).goodput / peak;
        let without = run(load, false).goodput / peak;
        assert!(kept >= 0.7, "{load}x: {kept}, {without} without");
        assert!(without < 0.5, "{load}x: {without} without");
    }
}

#[test]
fn who_is_not_loaded_never_refuses() {
    for (costs, connections, depth) in [(WIDE, 8, 1_000), (NARROW, 2_000, 1), (NARROW, 1, 1)] {
        let run = simulate(costs, connections, depth, 6_000.0, true);
        assert_eq!((run.refused, run.late), (0, 0.0), "{connections}");
    }
}

#[test]
fn a_loop_that_slept_finds_what_came_just_now() {
    let at = Duration::from_millis;
    let mut shed = LoopShed::<usize>::new(PATIENCE).expect("it sheds");
    let mut seen = Seen::default();
    let mut serve = |shed: &mut LoopShed<usize>, now, cpu| {
        let brought = shed.arrive(&mut seen, (1, false), now, || cpu);
        shed.served(&mut seen, 1, 1, false);
        brought.gulp.span
    };
    assert_eq!(serve(&mut shed, at(1_000), at(1)), Duration::ZERO);
    // A long turn, behind which the loop sends for 5 ms.
    shed.turn_done(at(1_003), || at(4));
    assert_eq!(serve(&mut shed, at(1_008), at(9)), at(8));
    // The same, and it slept for nearly all of the time.
    shed.turn_done(at(1_010), || at(11));
    assert_eq!(serve(&mut shed, at(2_000), at(12)), Duration::ZERO);
    // Short ones: slept, or not.
    shed.turn_done(at(2_000), || unreachable!("a short turn"));
    assert_eq!(serve(&mut shed, at(2_001), at(12)), at(1));
    shed.turn_done(at(2_001), || unreachable!("a short turn"));
    // A turn that found nothing.
    shed.turn_done(at(2_500), || unreachable!("a short turn"));
    assert_eq!(serve(&mut shed, at(2_501), at(12)), at(1));
}

#[test]
fn who_is_aside_is_taken_up_again() {
    let at = Duration::from_millis;
    let mut shed = LoopShed::new(PATIENCE).expect("it sheds");
    let mut seen = [Seen::default(); 3];
    // Turns of 15 ms, for longer than an interval: the queue stands.
    let mut now = at(0);
    let mut aside = Vec::new();
    for _ in 0..20 {
        for (connection, seen) in seen.iter_mut().enumerate() {
            now += at(5);
            if seen.is_aside() {
                continue;
            }
            let mut brought = shed.arrive(seen, (1, false), now, || now);
            if shed.puts_aside(connection, seen, &mut brought, now, || false) {
                aside.push(connection);
            } else {
                shed.served(seen, 1, 1, false);
            }
        }
        shed.turn_done(now, || now);
    }
    assert!(aside.len() > 1, "{aside:?}");
    // One goes; the others are taken up.
    let gone = aside.swap_remove(0);
    shed.forget(&seen[gone]);
    let mut order = Vec::new();
    while let Some(due) = shed.next() {
        now = now.max(due);
        let connection = shed.take(now).expect("it is due");
        assert!(shed.resume(&mut seen[connection]));
        order.push(connection);
    }
    order.sort_unstable();
    aside.sort_unstable();
    assert_eq!(order, aside);
}
