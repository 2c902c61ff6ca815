//! Connections that speak the binary protocol: frames in place of lines, the same requests behind them.

use super::Count;
use super::{MEMCACHED_VERSION, Ran, State, WRITE_AT, step, words};
use crate::conn::{Conn, RespDriver};
use tollgate_commands::memcached::row;
use tollgate_engine::Outcome;
use tollgate_net::{Flow, Step};
use tollgate_wire::memcached::binary::{Answer, Ask, Call, Head, Read, Shows, Status, told};
use tollgate_wire::memcached::{Detail, Limits, Operation, Stats, Target, parse_u64};

/// How clients may log in.
const MECHANISMS: &[u8] = b"PLAIN";

/// What is said to one who has.
const LOGGED_IN: &[u8] = b"Authenticated";

impl RespDriver {
    /// Runs the complete frames of `input`.
    pub(super) fn run_frames(
        &mut self,
        conn: &mut Conn,
        state: &mut State,
        input: &[u8],
        limits: &Limits,
    ) -> Step {
        let mut at = 0;
        loop {
            let mut reader = state.frames;
            let (call, end) = match reader.read(&input[at..], limits) {
                Read::Call(call, taken) => (call, at + taken),
                Read::Incomplete { consumed, needed } => {
                    state.frames = reader;
                    return Step {
                        consumed: at + consumed,
                        needed,
                        flow: Flow::Continue,
                    };
                }
                Read::Broken => return step(input.len(), Flow::Close),
            };
            self.follow_clock(1);
            let ran = self.run_call(conn, state, &call);
            if self.out.len() >= conn.client.most_replies() {
                conn.client.drop_for_output();
                return step(end, Flow::Drop);
            }
            if matches!(ran, Ran::PutOff) {
                conn.send_away(!self.shared.engine.pause().is_active());
                return step(at, conn.wait());
            }
            (at, state.frames) = (end, reader);
            match ran {
                Ran::Away => return step(at, conn.wait()),
                Ran::Close => return step(at, Flow::Close),
                _ if self.out.len() >= WRITE_AT => return step(at, Flow::Yield),
                _ => {}
            }
        }
    }

    fn run_call(&mut self, conn: &mut Conn, state: &mut State, call: &Call<'_>) -> Ran {
        let logs_in = matches!(call.ask, Ask::Mechanisms | Ask::LogIn(_));
        let is_open = self.shared.engine.access().is_open();
        if logs_in && is_open {
            return self.frame(call.head, Answer::of(Status::UnknownCommand));
        }
        let is_known = conn.session.authenticated || is_open;
        if !is_known && !logs_in && call.ask != Ask::Version {
            self.frame(call.head, Answer::of(Status::Denied));
            return Ran::Close;
        }
        match &call.ask {
            Ask::Item { target, shows } => self.run_item(conn, call, target, *shows),
            Ask::TooLarge { key, removes } => self.refuse_value(conn, call, key, *removes),
            Ask::Refused(status, closes) => {
                self.frame(call.head, Answer::of(*status));
                if *closes { Ran::Close } else { Ran::Done }
            }
            Ask::FlushAll(delay) => {
                state.away = super::Told::Frame(call.head, call.quiet);
                self.flush_all(conn, state, *delay)
            }
            Ask::Version => self.frame(call.head, Answer::value(MEMCACHED_VERSION.as_bytes())),
            Ask::Noop => self.frame(call.head, Answer::default()),
            Ask::Stats(Some(wanted)) => self.tell_stats(conn, call.head, *wanted),
            Ask::Stats(None) => self.frame(call.head, Answer::of(Status::NotFound)),
            Ask::Mechanisms => self.frame(call.head, Answer::value(MECHANISMS)),
            Ask::LogIn(given) => {
                let known = given.is_some_and(|(user, password)| self.knows(conn, user, password));
                match known {
                    true => self.frame(call.head, Answer::value(LOGGED_IN)),
                    false => self.frame(call.head, Answer::of(Status::Denied)),
                }
            }
            Ask::Quit => {
                if !call.quiet {
                    self.frame(call.head, Answer::default());
                }
                Ran::Close
            }
        }
    }

    fn frame(&mut self, head: Head, answer: Answer<'_>) -> Ran {
        answer.write(head, &mut self.out);
        Ran::Done
    }

    fn run_item(
        &mut self,
        conn: &mut Conn,
        call: &Call<'_>,
        target: &Target<'_>,
        shows: Shows,
    ) -> Ran {
        let options = &target.options;
        let row = row(target.operation, options);
        let bytes = options.to_bytes();
        let words = words(target, row.name, &bytes);
        let plan = self.shared.engine.plan_item(row, &target.key);
        let mark = self.out.len();
        if self.execute(conn, &plan, &words) == Outcome::TryAgain {
            return Ran::PutOff;
        }
        if self.refuse_frame(mark, call.head) {
            return Ran::Done;
        }
        self.note(target, mark);
        let text = self.out.bytes()[mark..].to_vec();
        self.out.truncate(mark);
        let mut answer = told(target, shows, &text);
        let is_read = target.operation == Operation::Get;
        let is_silent = match answer.status {
            Status::Done => !is_read,
            Status::NotFound => is_read,
            _ => false,
        };
        if call.quiet && is_silent {
            return Ran::Done;
        }
        let number;
        if target.operation == Operation::Arithmetic && answer.status == Status::Done {
            number = parse_u64(answer.value).unwrap_or_default().to_be_bytes();
            answer.value = &number;
        }
        self.frame(call.head, answer)
    }

    fn refuse_value(&mut self, conn: &mut Conn, call: &Call<'_>, key: &[u8], removes: bool) -> Ran {
        if !self.turn_away(conn, key, removes) {
            return Ran::PutOff;
        }
        self.frame(call.head, Answer::of(Status::TooLarge))
    }

    /// Each statistic is a frame, and one without a name ends them.
    fn tell_stats(&mut self, conn: &mut Conn, head: Head, wanted: Stats) -> Ran {
        let mark = self.out.len();
        if let Ran::PutOff = self.tell(conn, wanted) {
            return Ran::PutOff;
        }
        let text = self.out.bytes()[mark..].to_vec();
        self.out.truncate(mark);
        if text.starts_with(b"SERVER_ERROR ") {
            return self.frame(head, Answer::of(Status::Denied));
        }
        if wanted == Stats::Detail(Detail::Dump) {
            let answer = Answer {
                key: b"detailed",
                value: &text,
                ..Answer::default()
            };
            answer.write(head, &mut self.out);
        }
        for line in text.split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let mut words = line.splitn(3, |&b| b == b' ');
            if let (Some(b"STAT" | b"ITEM"), Some(key)) = (words.next(), words.next()) {
                let answer = Answer {
                    key,
                    value: words.next().unwrap_or_default(),
                    ..Answer::default()
                };
                answer.write(head, &mut self.out);
            }
        }
        self.frame(head, Answer::default())
    }

    /// Words a refusal that was written since `mark` as this protocol does; false when there is none.
    pub(super) fn refuse_frame(&mut self, mark: usize, head: Head) -> bool {
        let Some(error) = self.out.bytes()[mark..].strip_prefix(b"-") else {
            return false;
        };
        let is = |code: &[u8]| error.starts_with(code);
        let error = error.strip_suffix(b"\r\n").unwrap_or(error);
        let status = match () {
            () if is(b"OOM ") => Status::OutOfMemory,
            () if is(b"NOPERM ") || is(b"NOAUTH ") => Status::Denied,
            () => Status::Refused,
        };
        self.shared.metrics.error_reply(error);
        if status == Status::OutOfMemory {
            self.counts().add(Count::StoreNoMemory);
        }
        let text = error.to_vec();
        self.out.truncate(mark);
        let mut answer = Answer::of(status);
        if status == Status::Refused {
            answer.value = &text;
        }
        self.frame(head, answer);
        true
    }
}
