//! Memcached's protocols on connections of their own port, served by the loops that serve the others.
//!
//! Requests of a pipeline are read ahead and looked up together, each key of a line is one command of the engine, and the answers
//! go out with one write, as for RESP. What a client asks runs under the row of the command that does about the same (see
//! [`tollgate_commands::memcached`]); a refusal that is worded for RESP becomes a `SERVER_ERROR` here.

mod binary;
mod counts;
mod crawler;
mod detail;
mod dump;
mod flush;
mod stats;

use crate::client::Client;
use crate::conn::{Conn, RespDriver};
use crate::elsewhere;
use crate::node::NodeRunner;
use crate::pipeline::BATCH;
use counts::Counts;
pub(crate) use counts::{Count, Memcached};
use smallvec::SmallVec;
use std::sync::Arc;
use tollgate_commands::memcached::{WORDS, row};
use tollgate_engine::{Outcome, Plan};
use tollgate_limiter::Timestamp;
use tollgate_net::{Flow, Step};
use tollgate_wire::memcached::binary as binary_wire;
use tollgate_wire::memcached::binary::Answer;
use tollgate_wire::memcached::{
    Keys, Limits, Operation, Options, Read, Reader, Request, Retrieval, Stats, TOO_LARGE, Target,
};

/// The version of memcached whose protocol is spoken, which some clients ask for.
pub(crate) const MEMCACHED_VERSION: &str = "1.6.18";

/// Longest line of keys, in bytes.
const KEYS_MAX: usize = 1 << 20;

/// Answers are handed to the socket above this many bytes.
const WRITE_AT: usize = 60 * 1024;

/// What is said to a connection above the limit.
pub(crate) const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// What is said to a client of another machine while no password protects the server.
pub(crate) const DENIED: &[u8] = b"SERVER_ERROR the server is in protected mode: it has no password, and takes clients of its own machine only\r\n";

/// The state of a connection of this protocol.
#[derive(Debug, Default)]
pub(crate) struct State {
    reader: Reader,
    /// Keys of the line at hand that have been answered.
    answered: usize,
    /// Whether the client speaks the binary protocol; its first byte tells.
    is_binary: Option<bool>,
    frames: binary_wire::Reader,
    /// The dump that goes on.
    dump: Option<crawler::Dump>,
    /// How the answer of the command that is run elsewhere is told.
    away: Told,
}

/// How it is told that a request without an answer of its own is done.
#[derive(Debug, Clone, Copy, Default)]
enum Told {
    #[default]
    Line,
    Nothing,
    /// As a frame, or not at all when that is wanted; a refusal is told.
    Frame(binary_wire::Head, bool),
}

impl Told {
    fn line(quiet: bool) -> Told {
        match quiet {
            true => Told::Nothing,
            false => Told::Line,
        }
    }
}

/// How a request has ended.
enum Ran {
    Done,
    /// It has to go on later, from where it stands.
    Yield,
    PutOff,
    /// It is run elsewhere.
    Away,
    Close,
}

/// A request that was read ahead.
struct Ahead<'i> {
    request: Request<'i>,
    /// Where it ends in the input.
    end: usize,
    /// The reader behind it.
    reader: Reader,
}

/// The words of a request about one key.
fn words<'w>(target: &'w Target<'_>, row: &'static str, options: &'w [u8]) -> [&'w [u8]; WORDS] {
    [
        row.as_bytes(),
        &target.key,
        target.data,
        options,
        target.flags.0,
    ]
}

impl RespDriver {
    /// Runs the complete requests of `input`.
    pub(crate) fn run_memcached(&mut self, conn: &mut Conn, input: &[u8]) -> Step {
        let Some(mut state) = conn.memcached.take() else {
            return step(input.len(), Flow::Drop);
        };
        let result = self.run_requests(conn, &mut state, input);
        conn.memcached = Some(state);
        result
    }

    fn run_requests(&mut self, conn: &mut Conn, state: &mut State, input: &[u8]) -> Step {
        let limits = Limits {
            item_max: self.shared.memcached.item_max,
            keys_max: KEYS_MAX,
        };
        if let Some(first) = input.first()
            && *state.is_binary.get_or_insert(*first == binary_wire::MAGIC)
        {
            return self.run_frames(conn, state, input, &limits);
        }
        let mut at = 0;
        while at < input.len() {
            if !conn.session.authenticated && !self.shared.engine.access().is_open() {
                match self.log_in(conn, state, &input[at..]) {
                    Ok(consumed) => {
                        at += consumed;
                        continue;
                    }
                    Err(step) => {
                        return Step {
                            consumed: at + step.consumed,
                            ..step
                        };
                    }
                }
            }
            let mut batch: SmallVec<[Ahead<'_>; BATCH]> = SmallVec::new();
            let mut reader = state.reader;
            let (mut end, mut after) = (at, None);
            while batch.len() < BATCH && end < input.len() && after.is_none() {
                match reader.read(&input[end..], &limits) {
                    Read::Request(request, consumed) => {
                        end += consumed;
                        batch.push(Ahead {
                            request,
                            end,
                            reader,
                        });
                    }
                    Read::Incomplete { consumed, needed } => {
                        after = Some(Step {
                            consumed: end + consumed,
                            needed,
                            flow: Flow::Continue,
                        });
                    }
                    Read::Broken | Read::Credentials(..) => {
                        after = Some(step(input.len(), Flow::Close));
                    }
                }
            }
            if let Some((done, flow)) = self.run_batch_of_requests(conn, state, &batch, at) {
                return step(done, flow);
            }
            state.reader = reader;
            if let Some(step) = after {
                return step;
            }
            at = end;
        }
        step(at, Flow::Continue)
    }

    /// Runs requests that begin at `start`; how far it has come and what follows if not all are done.
    fn run_batch_of_requests(
        &mut self,
        conn: &mut Conn,
        state: &mut State,
        batch: &[Ahead<'_>],
        start: usize,
    ) -> Option<(usize, Flow)> {
        let mut plans = self.plan_requests(conn, batch).into_iter();
        let mut at = start;
        let mut most_replies = conn.client.most_replies();
        for ahead in batch {
            self.follow_clock(1);
            let ran = self.run_request(conn, state, &ahead.request, &mut plans);
            if self.out.len() >= most_replies {
                conn.client.drop_for_output();
                return Some((ahead.end, Flow::Drop));
            }
            match ran {
                Ran::Done => {}
                Ran::Yield => return Some((at, self.yield_turn())),
                Ran::PutOff => {
                    conn.send_away(!self.shared.engine.pause().is_active());
                    return Some((at, conn.wait()));
                }
                Ran::Away | Ran::Close => {
                    state.reader = ahead.reader;
                    let flow = match ran {
                        Ran::Close => Flow::Close,
                        _ => conn.wait(),
                    };
                    return Some((ahead.end, flow));
                }
            }
            (at, state.reader, state.answered) = (ahead.end, ahead.reader, 0);
            if self.out.len() >= WRITE_AT {
                return Some((at, self.yield_turn()));
            }
            most_replies = conn.client.most_replies();
        }
        None
    }

    /// Others come first; the client has more requests.
    fn yield_turn(&self) -> Flow {
        self.counts().add(Count::ConnYields);
        Flow::Yield
    }

    /// Looks up the keys of several requests together; the plans of the first of them, in their order.
    fn plan_requests<'b>(
        &self,
        conn: &Conn,
        batch: &'b [Ahead<'_>],
    ) -> SmallVec<[Plan<'b>; BATCH]> {
        let engine = &self.shared.engine;
        let mut plans = SmallVec::new();
        for ahead in batch {
            match &ahead.request {
                Request::Retrieve(Retrieval { keys, options }) => {
                    let room = BATCH - plans.len();
                    let row = row(Operation::Get, options);
                    plans.extend(keys.iter().take(room).map(|key| engine.plan_item(row, key)));
                }
                Request::Item(target) => {
                    let row = row(target.operation, &target.options);
                    plans.push(engine.plan_item(row, &target.key));
                }
                _ => {}
            }
            if plans.len() >= BATCH {
                break;
            }
        }
        if plans.len() > 1 {
            engine.look_ahead(conn.session.db, &mut plans);
        }
        plans
    }

    fn run_request<'b>(
        &mut self,
        conn: &mut Conn,
        state: &mut State,
        request: &'b Request<'_>,
        plans: &mut impl Iterator<Item = Plan<'b>>,
    ) -> Ran {
        match request {
            Request::Retrieve(asked) => self.retrieve(conn, state, asked, plans),
            Request::Item(target) => self.run_target(conn, target, plans.next()),
            Request::TooLarge {
                key,
                removes,
                quiet,
            } => self.refuse_large(conn, key, *removes, *quiet),
            Request::Refused { line } => self.say(line.unwrap_or_default(), line.is_none()),
            Request::FlushAll { delay, quiet } => {
                state.away = Told::line(*quiet);
                self.flush_all(conn, state, *delay)
            }
            Request::Version => {
                self.say("VERSION ", true);
                self.out.raw(b"VERSION ");
                self.say(MEMCACHED_VERSION, false)
            }
            Request::Verbosity { quiet } => self.say("OK", *quiet),
            Request::MemoryLimit { mebibytes, quiet } => {
                let bytes = (u64::from(*mebibytes) << 20).to_string();
                let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"maxmemory", bytes.as_bytes()];
                state.away = Told::line(*quiet);
                self.run_words(conn, state, &words)
            }
            Request::Stats(wanted) => self.tell(conn, *wanted),
            Request::Crawler(wanted) => self.crawl(conn, state, *wanted),
            Request::Noop => self.say("MN", false),
            Request::Quit => Ran::Close,
        }
    }

    /// What `stats` asks for, unless a long command holds some of what is looked at.
    fn tell(&mut self, conn: &mut Conn, wanted: Stats) -> Ran {
        let engine = Arc::clone(&self.shared.engine);
        let Some(_look) = engine.look(&conn.session) else {
            return Ran::PutOff;
        };
        match wanted {
            Stats::Dump { class, limit } => self.dump_items(conn, class, limit),
            wanted => stats::write(self, conn, wanted),
        }
        Ran::Done
    }

    /// Answers a line, unless none is wanted.
    fn say(&mut self, line: &str, quiet: bool) -> Ran {
        if !quiet {
            self.out.raw(line.as_bytes());
            self.out.raw(b"\r\n");
        }
        Ran::Done
    }

    /// The keys of one line, from the one at which it stopped.
    fn retrieve<'b>(
        &mut self,
        conn: &mut Conn,
        state: &mut State,
        asked: &'b Retrieval<'_>,
        plans: &mut impl Iterator<Item = Plan<'b>>,
    ) -> Ran {
        let Retrieval { keys, options } = asked;
        let row = row(Operation::Get, options);
        let bytes = options.to_bytes();
        let skipped = std::mem::take(&mut state.answered);
        for (number, key) in Keys::iter(keys).enumerate() {
            // Those that were planned are the first ones of the batch, answered or not.
            let planned = plans.next();
            if number < skipped {
                continue;
            }
            let words: [&[u8]; WORDS] = [row.name.as_bytes(), key, b"", &bytes, b""];
            let plan = planned.unwrap_or_else(|| self.shared.engine.plan_item(row, key));
            let mark = self.out.len();
            if self.out.len() >= WRITE_AT {
                state.answered = number;
                return Ran::Yield;
            }
            match self.execute(conn, &plan, &words) {
                Outcome::TryAgain => {
                    state.answered = number;
                    return Ran::PutOff;
                }
                _ if self.refuse(mark) => return Ran::Done,
                _ => self.count_fetch(options, key, self.out.len() > mark),
            }
        }
        self.say("END", false)
    }

    fn count_fetch(&mut self, options: &Options, key: &[u8], hit: bool) {
        let prefixes = &self.shared.memcached.prefixes;
        prefixes.note(Operation::Get, options, key, hit);
        let counts = self.counts();
        if options.exptime.is_some() {
            counts.add(Count::CmdTouch);
            counts.add(match hit {
                true => Count::TouchHits,
                false => Count::TouchMisses,
            });
        }
        counts.add(Count::CmdGet);
        counts.add(match hit {
            true => Count::GetHits,
            false => Count::GetMisses,
        });
    }

    /// Counts a request about one key that has been answered since `mark`.
    fn note(&self, target: &Target<'_>, mark: usize) {
        let hit = counts::note(self.counts(), target, &self.out.bytes()[mark..]);
        let prefixes = &self.shared.memcached.prefixes;
        prefixes.note(target.operation, &target.options, &target.key, hit);
    }

    fn counts(&self) -> &Counts {
        self.shared.memcached.counts(self.thread)
    }

    /// One request about one key.
    fn run_target(&mut self, conn: &mut Conn, target: &Target<'_>, plan: Option<Plan<'_>>) -> Ran {
        let options = &target.options;
        let row = row(target.operation, options);
        let bytes = options.to_bytes();
        let words = words(target, row.name, &bytes);
        let plan = plan.unwrap_or_else(|| self.shared.engine.plan_item(row, &target.key));
        let mark = self.out.len();
        if self.execute(conn, &plan, &words) == Outcome::TryAgain {
            return Ran::PutOff;
        }
        let refused = self.refuse(mark);
        let is_text = options.style != tollgate_wire::memcached::Style::Meta;
        if !is_text {
            self.counts().add(Count::CmdMeta);
        }
        self.note(target, mark);
        if is_text && options.quiet && !refused {
            self.out.truncate(mark);
        }
        Ran::Done
    }

    fn refuse_large(&mut self, conn: &mut Conn, key: &[u8], removes: bool, quiet: bool) -> Ran {
        if !self.turn_away(conn, key, removes) {
            return Ran::PutOff;
        }
        self.say(TOO_LARGE, quiet)
    }

    /// A value was announced that may not be stored: what the key holds is not to be taken for it. False where
    /// that has to be done later.
    fn turn_away(&mut self, conn: &mut Conn, key: &[u8], removes: bool) -> bool {
        let options = Options::default();
        if removes {
            let row = row(Operation::Delete, &options);
            let bytes = options.to_bytes();
            let words: [&[u8]; WORDS] = [row.name.as_bytes(), key, b"", &bytes, b""];
            let plan = self.shared.engine.plan_item(row, key);
            let mark = self.out.len();
            if self.execute(conn, &plan, &words) == Outcome::TryAgain {
                return false;
            }
            self.out.truncate(mark);
        }
        let prefixes = &self.shared.memcached.prefixes;
        prefixes.note(Operation::Store, &options, key, false);
        self.counts().add(Count::StoreTooLarge);
        true
    }

    fn execute(&mut self, conn: &mut Conn, plan: &Plan<'_>, words: &[&[u8]]) -> Outcome {
        self.traffic.commands += 1;
        let mut node = NodeRunner {
            shared: &self.shared,
            client: &conn.client,
        };
        let now = Timestamp::from_nanos(self.now);
        let engine = &self.shared.engine;
        let session = &mut conn.session;
        let outcome = engine.execute_planned(plan, session, words, now, &mut self.out, &mut node);
        if outcome == Outcome::TryAgain {
            self.traffic.commands -= 1;
        }
        outcome
    }

    /// Words a refusal that was written since `mark` as this protocol does; false when there is none.
    fn refuse(&mut self, mark: usize) -> bool {
        let Some(error) = self.out.bytes()[mark..].strip_prefix(b"-") else {
            return false;
        };
        let line = error_line(error);
        self.shared.metrics.error_reply(error);
        if line == OUT_OF_MEMORY {
            self.counts().add(Count::StoreNoMemory);
        }
        self.out.truncate(mark);
        self.out.raw(&line);
        true
    }

    /// Runs a command of Redis in place of a request, whose end is told as `state.away` says.
    fn run_words(&mut self, conn: &mut Conn, state: &mut State, words: &[&[u8]]) -> Ran {
        let mark = self.out.len();
        let plan = self.shared.engine.plan(words);
        match self.execute(conn, &plan, words) {
            Outcome::TryAgain => return Ran::PutOff,
            Outcome::Elsewhere => {
                conn.send_away(true);
                elsewhere::run(&self.shared, &conn.client, &mut conn.session, words);
                return Ran::Away;
            }
            _ => {}
        }
        self.acknowledge(mark, state.away);
        Ran::Done
    }

    /// Tells that what has answered since `mark` is done, or why not.
    fn acknowledge(&mut self, mark: usize, told: Told) {
        let refused = match told {
            Told::Frame(head, _) => self.refuse_frame(mark, head),
            Told::Line | Told::Nothing => self.refuse(mark),
        };
        if refused {
            return;
        }
        self.out.truncate(mark);
        match told {
            Told::Line => {
                self.say("OK", false);
            }
            Told::Frame(head, false) => Answer::default().write(head, &mut self.out),
            Told::Nothing | Told::Frame(_, true) => {}
        }
    }

    /// The answer of a command that was run elsewhere has come.
    pub(crate) fn answer_memcached(&mut self, conn: &Conn, reply: &[u8]) {
        let mark = self.out.len();
        self.out.raw(reply);
        let state = conn.memcached.as_ref();
        self.acknowledge(mark, state.map_or(Told::Line, |state| state.away));
    }

    /// Takes user and password of a client that has to give them first; how many bytes they took.
    fn log_in(&mut self, conn: &mut Conn, state: &mut State, input: &[u8]) -> Result<usize, Step> {
        match state.reader.read_credentials(input) {
            Read::Request(Request::Refused { line }, consumed) => {
                self.say(line.unwrap_or_default(), line.is_none());
                Ok(consumed)
            }
            Read::Credentials(None, consumed) => {
                self.say("CLIENT_ERROR bad authentication token format", false);
                Ok(consumed)
            }
            Read::Credentials(Some((user, password)), consumed) => {
                self.authenticate(conn, user, password);
                Ok(consumed)
            }
            Read::Incomplete { needed, .. } => Err(Step {
                consumed: 0,
                needed,
                flow: Flow::Continue,
            }),
            Read::Broken | Read::Request(..) => Err(step(input.len(), Flow::Close)),
        }
    }

    /// Whether user and password are right, and the client is this user from now on.
    fn knows(&mut self, conn: &mut Conn, user: &[u8], password: &[u8]) -> bool {
        let words: [&[u8]; 3] = [b"AUTH", user, password];
        let mark = self.out.len();
        let plan = self.shared.engine.plan(&words);
        self.execute(conn, &plan, &words);
        let done = self.out.bytes()[mark..].starts_with(b"+");
        self.out.truncate(mark);
        self.counts().add(Count::AuthCmds);
        if !done {
            self.counts().add(Count::AuthErrors);
        }
        done
    }

    fn authenticate(&mut self, conn: &mut Conn, user: &[u8], password: &[u8]) {
        let answer = match self.knows(conn, user, password) {
            true => "STORED",
            false => "CLIENT_ERROR authentication failure",
        };
        self.say(answer, false);
    }
}

const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// A refusal that is worded for RESP, as this protocol words it.
fn error_line(error: &[u8]) -> Vec<u8> {
    if error.starts_with(b"OOM ") {
        return OUT_OF_MEMORY.to_vec();
    }
    [b"SERVER_ERROR ", error].concat()
}

fn step(consumed: usize, flow: Flow) -> Step {
    Step {
        consumed,
        needed: 0,
        flow,
    }
}

/// A connection of this protocol has been accepted.
pub(crate) fn begin(client: &Arc<Client>) -> Box<State> {
    client.be_memcached();
    Box::default()
}
