//! One loop in virtual time.

use super::*;

const PATIENCE: Duration = Duration::from_millis(20);

const TURN: Turn = Turn {
    reads_early: true,
    hears: 1_024,
};

/// What one loop costs: decisions of several descriptors, over HTTP.
const VISIT: Duration = Duration::from_nanos(1_500);
const DECIDE: Duration = Duration::from_micros(22);
const REFUSE: Duration = Duration::from_nanos(1_300);
const SEND: Duration = Duration::from_micros(4);
/// The ways there and back.
const WAYS: Duration = Duration::from_micros(500);
const LENGTH: Duration = Duration::from_millis(800);

struct Run {
    /// Answers in time per second.
    goodput: f64,
    /// Share of the answers that came too late.
    late: f64,
    refused: usize,
}

#[derive(Default)]
struct Connection {
    /// On its way, and read.
    sent: VecDeque<Duration>,
    read: VecDeque<Duration>,
    seen: Seen,
    is_aside: bool,
}

impl Connection {
    fn unanswered(&self) -> usize {
        self.sent.len() + self.read.len()
    }
}

/// Requests that come at `rate` a second and go to connections without any, or with fewer than `depth`; those that find no
/// room within the patience are not sent.
struct Callers {
    depth: usize,
    rate: f64,
    next: Duration,
    seed: u64,
    waiting: VecDeque<Duration>,
    cursor: usize,
}

impl Callers {
    fn send(&mut self, all: &mut [Connection], now: Duration) {
        while self.next <= now {
            self.waiting.push_back(self.next);
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let uniform = ((self.seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            self.next += Duration::from_secs_f64(-uniform.ln() / self.rate);
        }
        while self
            .waiting
            .pop_front_if(|due| now - *due > PATIENCE)
            .is_some()
        {}
        for depth in [1, self.depth] {
            for _ in 0..all.len() {
                self.cursor = (self.cursor + 1) % all.len();
                let connection = &mut all[self.cursor];
                while connection.unanswered() < depth
                    && let Some(due) = self.waiting.pop_front()
                {
                    connection.sent.push_back(due);
                }
            }
        }
    }
}

/// The connections that have sent something, in the order in which they did.
fn heard_from(all: &[Connection]) -> Vec<usize> {
    let mut ready: Vec<usize> = (0..all.len())
        .filter(|at| !all[*at].sent.is_empty())
        .collect();
    ready.sort_by_key(|at| all[*at].sent[0]);
    ready
}

/// How many of those that came then are answered in time at `now`, and how many are not.
fn judge(came: &[Duration], now: Duration) -> (u32, u32) {
    let in_time = |came: &&Duration| now - **came <= PATIENCE;
    let met = came.iter().filter(in_time).count();
    (met as u32, (came.len() - met) as u32)
}

/// A loop that reads all before it serves the first, and whose answers leave when it has served the last.
fn simulate(connections: usize, depth: usize, rate: f64, sheds: bool) -> Run {
    let mut shed = LoopShed::new(PATIENCE, TURN).expect("it sheds");
    let mut all: Vec<Connection> = (0..connections).map(|_| Connection::default()).collect();
    let mut callers = Callers {
        depth,
        rate,
        next: Duration::ZERO,
        seed: 7,
        waiting: VecDeque::new(),
        cursor: 0,
    };
    let (mut now, mut good, mut late, mut refused) = (Duration::ZERO, 0, 0, 0);
    while now < LENGTH {
        callers.send(&mut all, now);
        let mut ready = heard_from(&all);
        for connection in &mut all {
            connection.read.append(&mut connection.sent);
        }
        ready.retain(|at| !all[*at].is_aside);
        let mut answers = Vec::new();
        let mut serve =
            |shed: &mut LoopShed<usize>, all: &mut [Connection], at: usize, now: &mut Duration| {
                *now += VISIT;
                let connection = &mut all[at];
                let count = connection.read.len();
                let several = || count > 1;
                let brought =
                    shed.arrive(&mut connection.seen, (count, false), *now, several, || *now);
                if sheds && shed.puts_aside(at, &mut connection.seen, &brought, *now) {
                    connection.is_aside = true;
                    return;
                }
                for (place, came) in connection.read.drain(..).enumerate() {
                    if sheds && brought.refuse(None, place).is_some() {
                        *now += REFUSE;
                        refused += 1;
                    } else {
                        *now += DECIDE;
                        answers.push(came);
                    }
                }
                shed.served(&mut connection.seen, count, false);
                *now += SEND;
            };
        let found = ready.len();
        for at in ready {
            serve(&mut shed, &mut all, at, &mut now);
        }
        let mut resumed = 0;
        while let Some(at) = shed.take(now) {
            if shed.resume(&mut all[at].seen) {
                all[at].is_aside = false;
                serve(&mut shed, &mut all, at, &mut now);
                resumed += 1;
            }
        }
        shed.turn_done(now, || now);
        let (met, missed) = judge(&answers, now + WAYS);
        good += met;
        late += missed;
        if found + resumed == 0 {
            now = callers.next.max(now + Duration::from_nanos(1));
        }
    }
    Run {
        goodput: f64::from(good) / LENGTH.as_secs_f64(),
        late: f64::from(late) / f64::from(good + late).max(1.0),
        refused,
    }
}

/// Shapes: connections, and requests that each may have unanswered.
const SHAPES: [(usize, usize); 2] = [(50, 60), (800, 8)];

#[test]
fn goodput_stays_past_saturation() {
    for (connections, depth) in SHAPES {
        let capacity = [30e3, 34e3, 38e3, 42e3]
            .map(|rate| simulate(connections, depth, rate, true).goodput)
            .into_iter()
            .fold(0.0, f64::max);
        for load in [1.5, 2.0] {
            let run = simulate(connections, depth, load * capacity, true);
            let kept = run.goodput / capacity;
            assert!(kept >= 0.95, "{connections}, {load}x: {kept}");
            assert!(
                run.late <= 0.01,
                "{connections}, {load}x: {} late",
                run.late
            );
            let without = simulate(connections, depth, load * capacity, false).goodput;
            assert!(
                without < 0.5 * capacity,
                "{connections}, {load}x: {without} without"
            );
        }
    }
}

#[test]
fn who_is_not_loaded_never_refuses() {
    for (connections, depth) in SHAPES.into_iter().chain([(1, 1)]) {
        let run = simulate(connections, depth, 15e3, true);
        assert_eq!((run.refused, run.late), (0, 0.0), "{connections}");
    }
}

#[test]
fn a_loop_that_slept_finds_what_came_just_now() {
    let at = Duration::from_millis;
    let mut shed = LoopShed::<usize>::new(PATIENCE, TURN).expect("it sheds");
    let mut seen = Seen::default();
    let mut serve = |shed: &mut LoopShed<usize>, now, cpu| {
        let brought = shed.arrive(&mut seen, (1, false), now, || false, || cpu);
        shed.served(&mut seen, 1, false);
        brought.span
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
    let mut shed = LoopShed::new(PATIENCE, TURN).expect("it sheds");
    let mut seen = [Seen::default(); 4];
    // A turn that finds four connections, and takes too long.
    let mut aside = Vec::new();
    for (connection, seen) in seen.iter_mut().enumerate() {
        let now = at(1_000 + 5 * connection as u64);
        let brought = shed.arrive(seen, (1, false), now, || false, || now);
        match shed.puts_aside(connection, seen, &brought, now) {
            true => aside.push(connection),
            false => shed.served(seen, 1, false),
        }
    }
    assert_eq!(aside, [2, 3]);
    assert!(shed.has_aside() && seen[2].is_aside());
    assert_eq!(shed.take(at(1_020)), None);
    shed.turn_done(at(1_020), || at(1_020));
    // Nobody else comes: the newest first.
    assert_eq!(shed.take(at(1_020)), Some(3));
    assert_eq!(shed.take(at(1_020)), Some(2));
    assert_eq!(shed.take(at(1_020)), None);
    assert!(shed.resume(&mut seen[3]) && !shed.resume(&mut seen[3]));
    assert!(!shed.has_aside());
    // What it brought is refused now, and it is not put aside again.
    let brought = shed.arrive(&mut seen[3], (1, false), at(1_021), || false, || at(1_021));
    assert!(!shed.puts_aside(3, &mut seen[3], &brought, at(1_021)));
    assert_eq!(brought.refuse(None, 0), Some(Refused::Overload));
    shed.served(&mut seen[3], 1, false);
    // One that has gone is not taken up.
    shed.turn_done(at(1_021), || at(1_021));
    let mut gone = Seen::default();
    let brought = shed.arrive(&mut seen[0], (1, false), at(1_030), || false, || at(1_030));
    assert!(!brought.was_aside);
    let brought = shed.arrive(&mut gone, (1, false), at(1_050), || false, || at(1_050));
    assert!(shed.puts_aside(9, &mut gone, &brought, at(1_050)));
    shed.forget(&gone);
    assert!(!shed.has_aside());
}
