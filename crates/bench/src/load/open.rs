//! The open loop on real sockets: one thread, one poller, no channels.

mod renewed;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::address::Endpoint;
use super::clients::RetryPolicy;
use super::connection::{Broken, Connection, Flushed, READ_SIZE};
use super::grpc::{Calls, GrpcSpeaker};
use super::keys::{KeySampler, Spreading};
use super::live::{Glance, Live};
use super::open_loop::{Bounds, OpenLoop};
use super::pacer::Pacer;
use super::samples::Samples;
use super::schedule::{Arrivals, Schedule};
use super::speaker::{Heard, InOrder, Speaker};
use super::spin::wait_until;
use super::tally::{Tally, Verdict};
use super::workload::Workload;
use crate::os::clock::{Clock, MILLI};
use crate::os::poller::{Poller, nap};
use crate::os::proc;
use renewed::Renewed;

/// Longest sleep: how soon an interrupt is noticed.
const SLEEP_MAX_NS: u64 = 50 * MILLI;
/// Time from connecting to the first intended send.
const LEAD_NS: u64 = 2 * MILLI;

/// The load of one step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How gaps are drawn.
    pub arrivals: Arrivals,
    /// Requests per second.
    pub rate: f64,
    /// Length of the schedule.
    pub length_ns: u64,
    /// How requests spread over the keys.
    pub spreading: Spreading,
    /// Seed of the schedule and of the key choice.
    pub seed: u64,
    /// Connections, depth, deadline, backlog.
    pub bounds: Bounds,
    /// Parts that follow, each requests per second and a length in nanoseconds.
    pub later: Vec<(f64, u64)>,
    /// What clients do about failures; `None` takes them as they come.
    pub clients: Option<RetryPolicy>,
    /// How the generator itself works.
    pub own: Own,
}

/// How the generator itself works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Time before each due request for which it stays awake; 0 sleeps until then.
    pub spin_ns: u64,
    /// One request in so many is kept as a sample; `None` keeps none.
    pub sample_every: Option<u64>,
}

impl Plan {
    /// The state of a run over `keys` keys starting at `start`.
    #[must_use]
    pub fn begin(&self, keys: u32, start: u64) -> OpenLoop {
        let trace = match self.spreading {
            Spreading::Trace(trace) => Some(trace),
            _ => None,
        };
        let mut parts = vec![(self.rate, self.length_ns)];
        parts.extend(&self.later);
        let schedule = Schedule::in_parts(self.arrivals, trace, &parts, self.seed);
        let mut state = OpenLoop::new(
            self.bounds,
            schedule,
            KeySampler::new(self.spreading, keys, self.seed),
            keys,
            start,
        )
        .closed(self.arrivals == Arrivals::Closed);
        let samples = |every| Samples::new(every, self.seed, start);
        state.tally_mut().samples = self.own.sample_every.map(samples);
        match self.clients {
            Some(policy) => state.with_clients(policy),
            None => state,
        }
    }
}

/// What a step measured, with the generator's own use of the machine.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts and histograms.
    pub tally: Tally,
    /// First intended time to the end of the run, drain included.
    pub elapsed_ns: u64,
    /// First intended time to the last good answer in time.
    pub answered_ns: u64,
    /// First intended time to the last answer of any kind.
    pub completed_ns: u64,
    /// Processor time of the generator thread, without what it spent on staying awake because it was asked to.
    pub generator_cpu_ns: Option<u64>,
    /// Time the generator thread waited for a processor.
    pub run_queue_wait_ns: Option<u64>,
    /// Processor time of each watched process from when all connections were up to the last answer; `None` of one that
    /// cannot be read.
    pub watched_cpu_ns: Vec<(u32, Option<u64>)>,
    /// Why the step ended before its time; `None` if it did not.
    pub cut_short: Option<String>,
    /// Whether the tally holds the schedule up to its end, with what a lost target was not asked any more as failures:
    /// rates are then those of its whole length, however early the target was lost.
    pub schedule_counted: bool,
    /// Remarks on single connections.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Processor time of `pids` together; `None` without any, or where one was not watched or cannot be read.
    #[must_use]
    pub fn cpu_ns_of(&self, pids: &[u32]) -> Option<u64> {
        let of = |pid: &u32| self.watched_cpu_ns.iter().find(|(one, _)| one == pid)?.1;
        let sum = pids.iter().map(of).sum::<Option<u64>>();
        sum.filter(|_| !pids.is_empty())
    }
}

/// Remarks kept per step.
const NOTES_MAX: usize = 8;

/// Runs `plan` against the target at `endpoint`. Fails only if the connections cannot be opened.
pub fn run(
    plan: &Plan,
    workload: &Workload,
    endpoint: &Endpoint,
    stop: &AtomicBool,
    live: &Live,
) -> Result<Outcome, String> {
    let state = plan.begin(workload.keys(), LEAD_NS);
    speak(plan, state, InOrder::new(workload), endpoint, stop, live)
}

/// Runs `plan` against the service at `endpoint`, with `plan.bounds.depth` streams per connection.
pub(crate) fn run_grpc(
    plan: &Plan,
    calls: &Calls,
    endpoint: &Endpoint,
    stop: &AtomicBool,
    live: &Live,
) -> Result<Outcome, String> {
    let Bounds {
        connections, depth, ..
    } = plan.bounds;
    let lanes = Bounds {
        connections: connections * depth,
        depth: 1,
        ..plan.bounds
    };
    let state = Plan {
        bounds: lanes,
        ..plan.clone()
    }
    .begin(calls.keys(), LEAD_NS);
    let state = match calls.gives_up() {
        true => state.giving_up().taking_turns(depth),
        false => state,
    };
    let speaker = GrpcSpeaker::new(calls, connections, depth);
    speak(plan, state, speaker, endpoint, stop, live)
}

fn connect<S: Speaker>(
    plan: &Plan,
    speaker: &mut S,
    endpoint: &Endpoint,
    poller: &Poller,
) -> Result<Vec<Connection>, String> {
    let count = plan.bounds.connections;
    let open = |token: usize, speaker: &mut S| {
        let mut connection = Connection::open(endpoint, token, speaker.framing())?;
        connection.push(&speaker.open(token));
        connection.register(poller, token)?;
        Ok(connection)
    };
    let described = |token: usize, error: std::io::Error| {
        format!(
            "cannot open connection {} of {count} to {}: {error}",
            token + 1,
            endpoint.address_of(token)
        )
    };
    (0..count)
        .map(|token| open(token, speaker).map_err(|error| described(token, error)))
        .collect()
}

/// `state` was drawn before, because drawing a long schedule takes longer than the lead.
fn speak<S: Speaker>(
    plan: &Plan,
    state: OpenLoop,
    mut speaker: S,
    endpoint: &Endpoint,
    stop: &AtomicBool,
    live: &Live,
) -> Result<Outcome, String> {
    let mut poller =
        Poller::new().map_err(|error| format!("cannot create an event queue: {error}"))?;
    let connections = connect(plan, &mut speaker, endpoint, &poller)?;
    let clock = Clock::start();
    let cpu_before = proc::thread_cpu_ns();
    let wait_before = proc::thread_run_queue_wait_ns();
    let unix_at_zero = unix_at_zero(clock);
    let mut driver = Driver::new(plan, endpoint, state, connections, speaker, clock);
    if let Some(unix_ns) = unix_at_zero {
        driver.state.tally_mut().decisions.begins_at(unix_ns);
    }
    let watched = || -> Vec<Option<u64>> {
        let pids = live.watched().iter();
        pids.map(|pid| proc::cpu_ns(*pid)).collect()
    };
    if !live.watched().is_empty() {
        // What the server does about the new connections is not what is asked of it.
        nap((LEAD_NS / 2).saturating_sub(clock.now()));
    }
    let watched_before = watched();
    let cut_short = driver.drive(&mut poller, stop, live);
    driver.note_renewed();
    let watched_after = watched();
    let elapsed_ns = clock.now().saturating_sub(LEAD_NS);
    let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    let (generator_cpu_ns, run_queue_wait_ns) = (
        since(cpu_before, proc::thread_cpu_ns()),
        since(wait_before, proc::thread_run_queue_wait_ns()),
    );
    let generator_cpu_ns = generator_cpu_ns.map(|cpu| cpu.saturating_sub(driver.spun_ns));
    let tally = end(driver.state, cut_short.as_ref(), live);
    Ok(Outcome {
        elapsed_ns,
        answered_ns: tally.last_good_ns.saturating_sub(LEAD_NS),
        completed_ns: tally.last_answer_ns.saturating_sub(LEAD_NS),
        generator_cpu_ns,
        run_queue_wait_ns,
        watched_cpu_ns: live
            .watched()
            .iter()
            .zip(watched_before.into_iter().zip(watched_after))
            .map(|(pid, (before, after))| (*pid, since(before, after)))
            .collect(),
        tally,
        schedule_counted: counts_schedule(cut_short.as_ref(), plan),
        cut_short: cut_short.map(|cut| cut.text()),
        notes: driver.notes,
    })
}

/// Nanoseconds since 1970 at which `clock` stood at zero.
fn unix_at_zero(clock: Clock) -> Option<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(now.as_nanos())
        .ok()?
        .checked_sub_unsigned(clock.now())
}

fn counts_schedule(cut_short: Option<&Cut>, plan: &Plan) -> bool {
    match cut_short {
        None => true,
        Some(Cut::Interrupted) => false,
        // A closed loop plans as it is answered.
        Some(_) => plan.arrivals != Arrivals::Closed,
    }
}

/// What was counted up to the end; its last second is published.
fn end(state: OpenLoop, cut_short: Option<&Cut>, live: &Live) -> Tally {
    let tally = match cut_short {
        Some(Cut::Interrupted) => state.interrupt(),
        _ => state.finish(),
    };
    if let Some(last) = tally.seconds.last() {
        live.pass(last);
    }
    tally
}

enum Cut {
    Interrupted,
    Lost(String),
    Poller(String),
}

impl Cut {
    fn text(self) -> String {
        match self {
            Cut::Interrupted => "interrupted".into(),
            Cut::Lost(why) => format!("all connections were lost: {why}"),
            Cut::Poller(why) => format!("waiting for sockets failed: {why}"),
        }
    }
}

struct Driver<'a, S> {
    endpoint: &'a Endpoint,
    state: OpenLoop,
    connections: Vec<Connection>,
    /// Which of them take no more bytes for the moment.
    blocked: Vec<bool>,
    speaker: S,
    clock: Clock,
    scratch: Vec<u8>,
    notes: Vec<String>,
    spin_ns: u64,
    /// Time spent awake for nothing else.
    spun_ns: u64,
    renewed: Renewed,
}

impl<'a, S: Speaker> Driver<'a, S> {
    fn new(
        plan: &Plan,
        endpoint: &'a Endpoint,
        state: OpenLoop,
        connections: Vec<Connection>,
        speaker: S,
        clock: Clock,
    ) -> Driver<'a, S> {
        let count = connections.len();
        Driver {
            endpoint,
            state,
            blocked: vec![false; count],
            connections,
            speaker,
            clock,
            scratch: vec![0; READ_SIZE],
            notes: Vec::new(),
            spin_ns: plan.own.spin_ns,
            spun_ns: 0,
            renewed: Renewed::new(count),
        }
    }

    fn drive(&mut self, poller: &mut Poller, stop: &AtomicBool, live: &Live) -> Option<Cut> {
        let mut pacer = Pacer::new(self.clock.now(), proc::thread_cpu_ns());
        let mut hold = 0;
        let mut woken = self.clock.now();
        loop {
            self.send(self.clock.now());
            self.renew(poller);
            let now = self.clock.now();
            live.publish(self.glance());
            if let Some(second) = self.state.take_second() {
                live.pass(second);
            }
            if self.state.finished(now) {
                return None;
            }
            if self.state.all_lost() {
                return Some(Cut::Lost(self.notes.first().cloned().unwrap_or_default()));
            }
            if stop.load(Ordering::Relaxed) {
                return Some(Cut::Interrupted);
            }
            let rest = (woken + hold).saturating_sub(now);
            if rest > 0 {
                nap(rest);
            }
            let due = self
                .state
                .next_due()
                .unwrap_or(u64::MAX)
                .min(self.state.last_call() + 1);
            let (clock, mut ready) = (self.clock, Vec::new());
            let waited = wait_until(
                due,
                SLEEP_MAX_NS,
                self.spin_ns,
                || clock.now(),
                |timeout| {
                    ready = poller.wait(timeout)?.to_vec();
                    Ok(!ready.is_empty())
                },
            );
            match waited {
                Ok(spun) => self.spun_ns += spun,
                Err(error) => return Some(Cut::Poller(error.to_string())),
            }
            woken = self.clock.now();
            // Who is to stay awake takes no pause for using its core.
            if self.spin_ns == 0 {
                hold = pacer.woke(woken, proc::thread_cpu_ns);
            }
            for event in ready {
                if event.writable {
                    self.unblock(event.token);
                }
                if event.readable {
                    self.receive(event.token, event.hangup);
                }
            }
            self.renew(poller);
        }
    }

    fn glance(&self) -> Glance {
        let tally = self.state.tally();
        Glance {
            planned: tally.planned,
            answered: tally.completed,
            failed: tally.timeout
                + tally.refused
                + tally.protocol
                + tally.store_error
                + tally.unsent,
            in_flight: (self.state.in_flight() + self.state.waiting()) as u64,
        }
    }

    fn send(&mut self, now: u64) {
        let (connections, speaker) = (&mut self.connections, &mut self.speaker);
        let mut cancelled = Vec::new();
        self.state.give_up(now, |lane, due| {
            let connection = speaker.connection_of(lane);
            speaker.give_up(lane, due, &mut connections[connection]);
            cancelled.push(connection);
        });
        let touched = self
            .state
            .dispatch(now, |lane, key| {
                let connection = speaker.connection_of(lane);
                speaker.ask(lane, key, &mut connections[connection]);
            })
            .to_vec();
        let mut rest = touched.as_slice();
        while let Some(&first) = rest.first() {
            let connection = self.speaker.connection_of(first);
            let here = |lane: &&usize| self.speaker.connection_of(**lane) == connection;
            let (lanes, later) = rest.split_at(rest.iter().take_while(here).count());
            let now = self.clock.now();
            for &lane in lanes {
                self.state.stamp(lane, now);
            }
            self.flush(connection);
            rest = later;
        }
        for connection in cancelled {
            self.unblock(connection);
        }
    }

    fn flush(&mut self, connection: usize) {
        match self.connections[connection].flush() {
            Ok(flushed) => {
                let blocked = flushed == Flushed::Blocked || self.renewed.is_leaving(connection);
                // A connection may have many lanes, and hardly ever blocks.
                if std::mem::replace(&mut self.blocked[connection], blocked) != blocked {
                    for lane in self.speaker.lanes(connection) {
                        self.state.set_blocked(lane, blocked);
                    }
                }
            }
            Err(broken) => {
                // What was answered before may still lie there.
                self.receive(connection, true);
                if self.is_open(connection) {
                    self.ended(connection, broken);
                }
            }
        }
    }

    fn unblock(&mut self, connection: usize) {
        if self.connections[connection].has_pending() {
            self.flush(connection);
        }
    }

    /// Whether `connection` neither is lost nor has ended.
    fn is_open(&self, connection: usize) -> bool {
        let lane = self.speaker.lanes(connection).start;
        self.state.is_alive(lane) && !self.renewed.is_due(connection)
    }

    fn receive(&mut self, connection: usize, hangup: bool) {
        if !self.is_open(connection) {
            return;
        }
        let (state, speaker) = (&mut self.state, &mut self.speaker);
        let (mut wrong, mut answered, mut leaves) = (None, false, None);
        let each = |frame: &[u8], now: u64| match speaker.hear(connection, frame) {
            Ok(Heard::Nothing) => {}
            Ok(Heard::Late(due)) => {
                let response = now.saturating_sub(due);
                let tally = state.tally_mut();
                tally.late.saturating_record(response);
                tally.late_decided.saturating_record(response);
            }
            Ok(Heard::Answer {
                lane,
                verdict,
                complaint,
            }) => {
                if let Some(text) = complaint {
                    state.tally_mut().complain(text.as_bytes());
                } else if matches!(verdict, Verdict::Error | Verdict::Unexpected) {
                    state.tally_mut().complain(frame);
                }
                let promise = if verdict == Verdict::Denied && state.follows(lane) {
                    speaker.promise_ms(frame)
                } else {
                    None
                };
                answered = true;
                if !state.answer_promising(lane, now, verdict, promise) {
                    wrong = Some("a reply to nothing that was asked".to_owned());
                }
            }
            Ok(Heard::Leaves { untaken, why }) => {
                for lane in untaken {
                    state.take_back(lane, true);
                }
                leaves = Some(why);
            }
            Err(text) => wrong = wrong.take().or(Some(text)),
        };
        let read = self.connections[connection].read(&mut self.scratch, self.clock, hangup, each);
        let owed = self.speaker.owed(connection);
        if answered {
            self.renewed.answered(connection);
        }
        match (wrong, read) {
            (Some(text), _) => self.ended(connection, Broken::Garbage(text)),
            (None, Err(broken)) => self.ended(connection, broken),
            (None, Ok(())) => {
                if let Some(why) = leaves {
                    self.renewed.leaves(connection, why);
                    self.blocked[connection] = true;
                    for lane in self.speaker.lanes(connection) {
                        self.state.set_blocked(lane, true);
                    }
                }
                if !owed.is_empty() {
                    self.connections[connection].push(&owed);
                    self.flush(connection);
                }
            }
        }
    }

    fn lose(&mut self, connection: usize, broken: Broken) {
        let garbage = matches!(broken, Broken::Garbage(_));
        let text = broken.text();
        self.state.tally_mut().complain(text.as_bytes());
        for lane in self.speaker.lanes(connection) {
            self.state.lose(lane, garbage);
        }
        if self.notes.len() < NOTES_MAX {
            self.notes
                .push(format!("connection {}: {text}", connection + 1));
        }
    }
}
