//! One loop in virtual time.

use super::*;

const PATIENCE: Duration = Duration::from_millis(20);

const TURN: Turn = Turn {
    reads_early: true,
    hears: 1_024,
};
/// The same on epoll.
const READS_LATE: Turn = Turn {
    reads_early: false,
    ..TURN
};

/// What one loop costs: decisions of several descriptors, over HTTP.
const VISIT: Duration = Duration::from_nanos(1_500);
const DECIDE: Duration = Duration::from_micros(22);
const REFUSE: Duration = Duration::from_nanos(1_300);
const SEND: Duration = Duration::from_micros(4);
/// The ways there and back.
const WAYS: Duration = Duration::from_micros(500);
const LENGTH: Duration = Duration::from_millis(800);
const PAUSE_EVERY: Duration = Duration::from_millis(100);

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

    /// Callers over gRPC give up calls that nobody waits for any more.
    fn give_up(&mut self, now: Duration) {
        let waits = |came: &Duration| now - *came <= PATIENCE;
        self.sent.retain(waits);
        self.read.retain(waits);
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

/// A loop that reads all before it serves the first, and whose answers leave when it has served the last; or one that reads
/// and answers connection by connection. The machine has something else to do for `pause` in every tenth of a second.
fn simulate(
    &Shape {
        goes,
        connections,
        depth,
        gives_up,
    }: &Shape,
    rate: f64,
    sheds: bool,
    pause: Duration,
) -> Run {
    let mut shed = LoopShed::new(PATIENCE, goes).expect("it sheds");
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
    let mut pauses = PAUSE_EVERY;
    while now < LENGTH {
        if now >= pauses {
            now += pause;
            pauses += PAUSE_EVERY;
        }
        callers.send(&mut all, now);
        if gives_up {
            for connection in &mut all {
                connection.give_up(now);
            }
        }
        let mut ready = heard_from(&all);
        if goes.reads_early {
            for connection in &mut all {
                connection.read.append(&mut connection.sent);
            }
        }
        ready.retain(|at| !all[*at].is_aside);
        let mut answers = Vec::new();
        let mut judged = |came: &[Duration], now| {
            let (met, missed) = judge(came, now + WAYS);
            good += met;
            late += missed;
        };
        let mut serve =
            |shed: &mut LoopShed<usize>, all: &mut [Connection], at: usize, now: &mut Duration| {
                *now += VISIT;
                if !goes.reads_early {
                    callers.send(all, *now);
                    let connection = &mut all[at];
                    connection.read.append(&mut connection.sent);
                }
                let connection = &mut all[at];
                if gives_up {
                    connection.give_up(*now);
                }
                let count = connection.read.len();
                let counted = || count.min(MANY);
                let brought =
                    shed.arrive(&mut connection.seen, (count, false), *now, counted, || *now);
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
                if !goes.reads_early {
                    judged(&answers, *now);
                    answers.clear();
                }
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
        judged(&answers, now);
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

/// What is simulated.
#[derive(Clone, Copy, Debug)]
struct Shape {
    goes: Turn,
    connections: usize,
    /// Requests that each may have unanswered.
    depth: usize,
    /// Callers give up what they wait for no more; otherwise it keeps its place until it is answered.
    gives_up: bool,
}

const fn shape(goes: Turn, connections: usize, depth: usize, gives_up: bool) -> Shape {
    Shape {
        goes,
        connections,
        depth,
        gives_up,
    }
}

const SHAPES: [Shape; 5] = [
    shape(TURN, 50, 60, false),
    shape(TURN, 800, 8, false),
    shape(READS_LATE, 50, 25, true),
    shape(READS_LATE, 800, 2, true),
    shape(READS_LATE, 800, 8, false),
];

#[test]
fn goodput_stays_past_saturation() {
    let none = Duration::ZERO;
    for shape in &SHAPES {
        let capacity = [30e3, 34e3, 38e3, 42e3]
            .map(|rate| simulate(shape, rate, true, none).goodput)
            .into_iter()
            .fold(0.0, f64::max);
        for load in [1.5, 2.0] {
            let run = simulate(shape, load * capacity, true, none);
            let kept = run.goodput / capacity;
            assert!(kept >= 0.95, "{shape:?}, {load}x: {kept}");
            assert!(run.late <= 0.01, "{shape:?}, {load}x: {} late", run.late);
        }
        if !shape.gives_up {
            let without = simulate(shape, 1.5 * capacity, false, none).goodput;
            assert!(without < 0.5 * capacity, "{shape:?}: {without} without");
        }
    }
}

#[test]
fn who_is_not_loaded_never_refuses() {
    let alone = [TURN, READS_LATE].map(|goes| shape(goes, 1, 1, false));
    for shape in SHAPES.into_iter().chain(alone) {
        let run = simulate(&shape, 15e3, true, Duration::ZERO);
        assert_eq!((run.refused, run.late), (0, 0.0), "{shape:?}");
    }
}

#[test]
fn who_is_interrupted_refuses_little() {
    let (shape, pause) = (shape(READS_LATE, 50, 25, true), Duration::from_millis(4));
    let rate = 0.9 * 41e3;
    let run = simulate(&shape, rate, true, pause);
    let share = run.refused as f64 / (rate * LENGTH.as_secs_f64());
    assert!(share <= 0.005 && run.late == 0.0, "{share}");
}

#[test]
fn a_loop_that_slept_finds_what_came_just_now() {
    let at = Duration::from_millis;
    let mut shed = LoopShed::<usize>::new(PATIENCE, TURN).expect("it sheds");
    let mut seen = Seen::default();
    let mut serve = |shed: &mut LoopShed<usize>, now, cpu| {
        let brought = shed.arrive(&mut seen, (1, false), now, || 1, || cpu);
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

/// A turn that finds so many connections of one request each, and takes 5 ms for each; those that were put aside.
fn slow_turn(shed: &mut LoopShed<usize>, seen: &mut [Seen]) -> Vec<usize> {
    let mut aside = Vec::new();
    for (connection, seen) in seen.iter_mut().enumerate() {
        let now = Duration::from_millis(1_000 + 5 * connection as u64);
        let brought = shed.arrive(seen, (1, false), now, || 1, || now);
        match shed.puts_aside(connection, seen, &brought, now) {
            true => aside.push(connection),
            false => shed.served(seen, 1, false),
        }
    }
    aside
}

#[test]
fn who_is_aside_is_taken_up_again() {
    let at = Duration::from_millis;
    let mut shed = LoopShed::new(PATIENCE, TURN).expect("it sheds");
    let mut seen = [Seen::default(); 12];
    let aside = slow_turn(&mut shed, &mut seen);
    assert_eq!(aside, (2..12).collect::<Vec<_>>());
    assert!(shed.has_aside() && seen[2].is_aside());
    assert_eq!(shed.take(at(1_060)), None);
    shed.turn_done(at(1_060), || at(1_060));
    // Nobody else comes: the newest first.
    for connection in (4..12).rev() {
        assert_eq!(shed.take(at(1_060)), Some(connection));
    }
    assert_eq!(shed.take(at(1_060)), None);
    assert!(shed.resume(&mut seen[11]) && !shed.resume(&mut seen[11]));
    // What it brought is refused now, and it is not put aside again.
    let brought = shed.arrive(&mut seen[11], (1, false), at(1_061), || 1, || at(1_061));
    assert!(!shed.puts_aside(11, &mut seen[11], &brought, at(1_061)));
    assert_eq!(brought.refuse(None, 0), Some(Refused::Deadline));
    // One that has gone is not taken up.
    let mut shed = LoopShed::new(PATIENCE, TURN).expect("it sheds");
    let mut seen = [Seen::default(); 3];
    assert_eq!(slow_turn(&mut shed, &mut seen), [2]);
    shed.forget(&seen[2]);
    assert!(!shed.has_aside());
}

/// One turn that takes long finds a few connections: they are answered as long as somebody waits for that.
#[test]
fn few_that_are_late_once_are_answered() {
    let at = Duration::from_millis;
    for goes in [TURN, READS_LATE] {
        let mut shed = LoopShed::new(PATIENCE, goes).expect("it sheds");
        let mut seen = [Seen::default(); 2];
        // The thread stands still while it serves the first, and the second comes meanwhile.
        let brought = shed.arrive(&mut seen[0], (1, false), at(1_000), || 1, || at(1));
        assert!(!shed.puts_aside(0, &mut seen[0], &brought, at(1_000)));
        shed.served(&mut seen[0], 1, false);
        shed.turn_done(at(1_025), || at(1));
        let now = at(1_025);
        let brought = shed.arrive(&mut seen[1], (1, false), now, || 1, || at(1));
        assert!(shed.puts_aside(1, &mut seen[1], &brought, now));
        shed.turn_done(now, || at(1));
        assert_eq!(shed.take(now), Some(1));
        assert!(shed.resume(&mut seen[1]));
        let brought = shed.arrive(&mut seen[1], (1, false), now, || 1, || at(1));
        assert!(!shed.puts_aside(1, &mut seen[1], &brought, now));
        assert_eq!(brought.refuse(None, 0), None);
        // Callers that say how long they wait are believed.
        assert_eq!(brought.refuse(Some(at(12)), 0), Some(Refused::Deadline));
    }
}

/// While the queue stands, connections that brought few are put aside before they are read.
#[test]
fn who_brings_few_is_left_unread_while_the_queue_stands() {
    let at = Duration::from_millis;
    let mut shed = LoopShed::new(PATIENCE, READS_LATE).expect("it sheds");
    let [mut one, mut many, mut new] = [Seen::default(); 3];
    let mut now = at(1_000);
    // A turn that serves both.
    let turn = |shed: &mut LoopShed<usize>, both: [&mut Seen; 2], now: &mut Duration, length| {
        for (seen, count) in both.into_iter().zip([1, MANY]) {
            let brought = shed.arrive(seen, (count, false), *now, || count, || at(1));
            assert!(!shed.puts_aside(0, seen, &brought, *now));
            shed.served(seen, count, false);
        }
        *now += at(length);
        shed.turn_done(*now, || at(1));
    };
    turn(&mut shed, [&mut one, &mut many], &mut now, 12);
    assert!(!shed.is_pressed());
    for _ in 0..20 {
        turn(&mut shed, [&mut one, &mut many], &mut now, 12);
    }
    assert!(shed.is_pressed());
    // Its newest request has waited for six milliseconds on average.
    assert!(!shed.leaves_unread(0, &mut one, now, || at(1)));
    turn(&mut shed, [&mut one, &mut many], &mut now, 16);
    assert!(!shed.leaves_unread(1, &mut many, now, || at(1)));
    assert!(!shed.leaves_unread(2, &mut new, now, || at(1)));
    assert!(shed.leaves_unread(0, &mut one, now, || at(1)));
    assert!(one.is_aside() && shed.has_aside());
    // It is read when it is taken up, and is as late as it was.
    shed.turn_done(now + at(1), || at(1));
    assert_eq!(shed.take(now + at(1)), Some(0));
    assert!(shed.resume(&mut one));
    assert!(!shed.leaves_unread(0, &mut one, now + at(1), || at(1)));
    let later = now + at(30);
    let brought = shed.arrive(&mut one, (1, false), later, || 1, || at(1));
    assert!(!shed.puts_aside(0, &mut one, &brought, later));
    assert_eq!(brought.refuse(None, 0), Some(Refused::Deadline));
}
