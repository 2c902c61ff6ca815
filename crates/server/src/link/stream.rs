//! What a master sends once this server has its data: commands, applied as they come.

use super::{Broken, Hearing, Order, is_timeout, silence};
use crate::client::Client;
use crate::shared::Shared;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Applied, Applier, Node, NodeCx, unwrap_for_replica};
use tollgate_limiter::Timestamp;
use tollgate_net::outbound::Outbound;
use tollgate_net::{Clock, threads};
use tollgate_wire::resp::{Limits, Progress, RequestParser, write_command};

/// Bytes read at a time.
const PART: usize = 64 * 1024;
/// Room that is kept for commands that come in parts.
const KEPT: usize = 1 << 20;
/// Time between two words about how far this server is.
const ACK: i64 = 1_000_000_000;
/// How long a read waits.
const LOOK: Duration = Duration::from_secs(1);
/// The same while a pause of the clients puts off what has come.
const PAUSED_LOOK: Duration = Duration::from_millis(10);
/// Bytes that are read ahead of a pause; the rest is left to the master to keep.
const PAUSED_MOST: usize = 64 << 20;

/// What the log says, in Redis' words, which operators look for.
const SILENT: &str = "MASTER timeout: no data nor PING received...";

/// The link while it is up.
struct Stream<'a> {
    shared: &'a Arc<Shared>,
    out: Outbound,
    number: u64,
    client: &'a Client,
    hearing: Hearing,
    applier: Applier,
    parser: RequestParser,
    /// A pause of the clients puts off what has come.
    paused: bool,
    /// Monotone nanoseconds.
    acked_at: i64,
}

/// Applies what the master sends until the connection breaks or is not wanted any more.
pub(super) fn follow(
    shared: &Arc<Shared>,
    out: Outbound,
    order: Order,
    client: &Arc<Client>,
    hearing: Hearing,
) -> Result<(), Broken> {
    out.set_timeout(LOOK)?;
    let db = shared.engine.master_db();
    let mut stream = Stream {
        shared,
        out,
        number: order.number,
        client,
        hearing,
        applier: Applier::of_master(order.following, client.id, db),
        parser: RequestParser::default(),
        paused: false,
        acked_at: Clock::monotone(),
    };
    // A master that has sent data without a length goes on when it hears that they are there.
    stream.acknowledge()?;
    stream.run()
}

impl Stream<'_> {
    fn run(&mut self) -> Result<(), Broken> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut heard_at = Clock::monotone();
        loop {
            let len = match self.paused && bytes.len() >= PAUSED_MOST {
                true => {
                    threads::stand_still(PAUSED_LOOK);
                    heard_at = Clock::monotone();
                    0
                }
                false => self.read(&mut bytes)?,
            };
            if len > 0 {
                heard_at = Clock::monotone();
            }
            let now = Clock::now();
            let came = &self.shared.metrics.from_master;
            came.fetch_add(len as u64, Ordering::Relaxed);
            self.shared.link.note(self.number, |facts| {
                facts.read += len as u64;
                if len > 0 {
                    facts.heard_at = now;
                }
            })?;
            if len > 0 || self.paused {
                let paused = self.paused;
                let done = self.apply_all(&bytes);
                // Those who serve connections do so in each of their turns, of which there may be none for a while.
                self.shared.engine.tracking().flush_broadcasts();
                let done = done?;
                if self.paused != paused {
                    let look = if self.paused { PAUSED_LOOK } else { LOOK };
                    self.out.set_timeout(look)?;
                }
                bytes.drain(..done);
                if bytes.capacity() > KEPT && bytes.len() < PART {
                    bytes.shrink_to(PART);
                }
                self.client.publish(self.applier.session(), now);
            }
            if Clock::monotone() - heard_at > silence(self.shared).as_nanos() as i64 {
                return Err(Broken::Master(SILENT.to_owned()));
            }
            if Clock::monotone() - self.acked_at >= ACK {
                self.acknowledge()?;
            }
        }
    }

    /// Appends what has come to `bytes`; returns its length, 0 when nothing came in time.
    fn read(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Broken> {
        let start = bytes.len();
        bytes.resize(start + PART, 0);
        let read = self.out.read(&mut bytes[start..]);
        bytes.truncate(start + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Err(Broken::Master(
                "the master has closed the connection".to_owned(),
            )),
            Ok(len) => Ok(len),
            Err(error) if is_timeout(&error) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies the whole commands at the beginning of `bytes`, up to one that a pause of the clients puts off; returns their
    /// length.
    fn apply_all(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let limits = Limits::trusted();
        // It lends the words; after an error nothing more is read.
        let mut parser = std::mem::take(&mut self.parser);
        let mut at = 0;
        self.paused = false;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let progress = parser.parse(rest, &limits).map_err(|error| {
                Broken::Master(format!("the master sends no commands: {error}"))
            })?;
            let Progress::Ready { consumed } = progress else {
                break;
            };
            let words = parser.args(rest);
            let wrapped = unwrap_for_replica(&words);
            let writes = wrapped.is_some() || !is_for_replicas(&words);
            self.paused = self.shared.engine.pause().concerns(writes);
            if self.paused {
                break;
            }
            if !self.applier.came_as(&rest[..consumed]) {
                let reason = "a transaction of the master is too large";
                return Err(Broken::Master(reason.to_owned()));
            }
            let applied = if let Some(wrapped) = wrapped {
                self.apply_wrapped(wrapped, &limits)
            } else if !writes {
                if asks(&words) {
                    self.acknowledge()?;
                }
                self.applier.pass(&self.shared.engine)
            } else {
                self.apply(&words)
            };
            if applied == Applied::Over {
                return Err(Broken::Over);
            }
            at += consumed;
        }
        self.parser = parser;
        Ok(at)
    }

    fn apply(&mut self, words: &[&[u8]]) -> Applied {
        let now = Timestamp::from_nanos(Clock::now());
        let engine = &self.shared.engine;
        let mut node = LinkNode {
            client: self.client,
        };
        match self.applier.apply(engine, words, now, &mut node) {
            Ok(applied) => applied,
            Err(error) => {
                // As in Redis the stream goes on: stopping would not make the data equal.
                let metrics = &self.shared.metrics;
                metrics.error_reply(error.reply.as_bytes());
                metrics.unexpected_errors.fetch_add(1, Ordering::Relaxed);
                let told = format!("a command of the master could not be applied: {error}");
                self.shared
                    .log
                    .warning(format_args!("== CRITICAL == {told}"));
                let noted = self
                    .shared
                    .link
                    .note(self.number, |facts| facts.error = told);
                match noted {
                    Ok(()) => Applied::Whole,
                    Err(_) => Applied::Over,
                }
            }
        }
    }

    /// Applies what a server of this kind sends to its like.
    fn apply_wrapped(&mut self, wrapped: &[u8], limits: &Limits) -> Applied {
        let mut parser = RequestParser::default();
        match parser.parse(wrapped, limits) {
            Ok(Progress::Ready { consumed }) if consumed == wrapped.len() => {
                self.apply(&parser.args(wrapped))
            }
            // Whatever it is, it was not meant for this server.
            _ => self.applier.pass(&self.shared.engine),
        }
    }

    /// Says how far this server is.
    fn acknowledge(&mut self) -> Result<(), Broken> {
        self.acked_at = Clock::monotone();
        if self.hearing == Hearing::Deaf {
            return Ok(());
        }
        let offset = self.shared.engine.journal_facts().offset.to_string();
        let mut bytes = Vec::new();
        write_command(&mut bytes, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
        Ok(self.out.send(&bytes)?)
    }
}

/// Whether the words have no effect on data: an empty line, PING, or REPLCONF.
fn is_for_replicas(words: &[&[u8]]) -> bool {
    match words {
        [] => true,
        [name, ..] => name.eq_ignore_ascii_case(b"PING") || name.eq_ignore_ascii_case(b"REPLCONF"),
    }
}

/// Whether the master asks how far this server is.
fn asks(words: &[&[u8]]) -> bool {
    matches!(words, [name, what, ..]
        if name.eq_ignore_ascii_case(b"REPLCONF") && what.eq_ignore_ascii_case(b"GETACK"))
}

/// Answers the only command of the server that a master sends.
struct LinkNode<'a> {
    client: &'a Client,
}

impl Node for LinkNode<'_> {
    fn run(&mut self, command: NodeCommand, mut cx: NodeCx<'_>) -> Result<Reply, CmdError> {
        match command {
            NodeCommand::Select => {
                cx.session.db = cx.args.any_database()?;
                Ok(Reply::Ok)
            }
            _ => Err(CmdError::err("a master does not send this command")),
        }
    }

    fn source(&self) -> Vec<u8> {
        self.client.source()
    }
}
