//! A store behind RESP: Redis, Valkey, Dragonfly, Tollgate. One connection for each service thread, shared by
//! all its requests, which the client library pipelines.
//!
//! All checks of a request are one call, so all take or none does: `RL.TAKE` or a script on it where the store
//! has that command, a script with the same arithmetic elsewhere. The time is the store's, so several services
//! agree on it. A store that does not answer is an error at once and not a queue: after a failed
//! attempt to connect, requests fail with its reason until [`RECONNECT_INTERVAL`] has passed.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, Script, ServerErrorKind, Value,
};
use tokio::time::Instant;
use tollgate_limiter::lua::{self, Arguments};
use tollgate_limiter::{AlgorithmKind, Decision, Timestamp};
use tollgate_policy::LimitCheck;

use super::{BackendError, Decide, Decisions};
use crate::config::StartError;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for a decision. Envoy's own default is 20 ms; a later answer helps nobody.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Least time between two attempts to connect.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// Most requests of one thread that wait for the store at the same time; more fail at once.
const MAX_IN_FLIGHT: usize = 4_096;

/// The store as one service thread sees it.
pub(crate) struct Remote {
    client: Client,
    clock: fn() -> Timestamp,
    window: Source,
    gcra: Source,
    sliding: Source,
    batch: Source,
    native_batch: Source,
    refund: Source,
    link: RefCell<Link>,
    /// Held by the one that connects.
    connecting: tokio::sync::Mutex<()>,
    /// Connections made so far; tells a new one from the one that failed.
    generation: Cell<u64>,
    in_flight: Cell<usize>,
}

/// A script and its name in the store's cache.
struct Source {
    text: &'static str,
    sha1: String,
}

/// The connection, or what came of the last attempt to make one.
enum Link {
    Untried,
    Down { since: Instant, reason: String },
    Up(Connection),
}

/// A connection and what the store behind it understands.
#[derive(Clone)]
struct Connection {
    stream: MultiplexedConnection,
    native: bool,
}

/// Counts a request while it waits.
struct InFlight<'a>(&'a Cell<usize>);

impl<'a> InFlight<'a> {
    fn enter(count: &'a Cell<usize>) -> Result<Self, BackendError> {
        if count.get() >= MAX_IN_FLIGHT {
            return Err(BackendError::new(format!(
                "{MAX_IN_FLIGHT} requests already wait for the store"
            )));
        }
        count.set(count.get() + 1);
        Ok(Self(count))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Checks a URL without connecting.
pub(crate) fn parse_url(url: &str) -> Result<Client, StartError> {
    let bad = |reason: String| StartError::BackendUrl {
        url: without_password(url),
        reason,
    };
    let known = ["redis://", "unix://", "redis+unix://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    if !known {
        return Err(bad(
            "a backend is given as redis://host:port or unix:///path".to_owned(),
        ));
    }
    Client::open(url).map_err(|error| bad(error.to_string()))
}

/// The URL as it may be shown.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://...{}", &url[..scheme], &url[at..])
        }
        _ => url.to_owned(),
    }
}

impl Source {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            sha1: Script::new(text).get_hash().to_owned(),
        }
    }
}

impl Remote {
    /// `clock` chooses the windows of calendars; all else is decided by the store's own time.
    pub(crate) fn new(client: Client, clock: fn() -> Timestamp) -> Self {
        Self {
            client,
            clock,
            window: Source::new(lua::FIXED_WINDOW),
            gcra: Source::new(lua::GCRA),
            sliding: Source::new(lua::SLIDING_WINDOW),
            batch: Source::new(lua::BATCH),
            native_batch: Source::new(lua::NATIVE_BATCH),
            refund: Source::new(lua::REFUND),
            link: RefCell::new(Link::Untried),
            connecting: tokio::sync::Mutex::new(()),
            generation: Cell::new(0),
            in_flight: Cell::new(0),
        }
    }

    /// The shared connection, made when there is none.
    async fn connection(&self) -> Result<Connection, BackendError> {
        if let Some(known) = self.known() {
            return known;
        }
        let _one_at_a_time = self.connecting.lock().await;
        // Whoever held the lock may have connected, or failed just now.
        if let Some(known) = self.known() {
            return known;
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connected = match self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
        {
            Ok(mut stream) => has_native(&mut stream)
                .await
                .map(|native| Connection { stream, native }),
            Err(error) => Err(error),
        };
        match connected {
            Ok(connection) => {
                self.generation.set(self.generation.get() + 1);
                *self.link.borrow_mut() = Link::Up(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                let reason = format!("cannot connect: {error}");
                *self.link.borrow_mut() = Link::Down {
                    since: Instant::now(),
                    reason: reason.clone(),
                };
                Err(BackendError::new(reason))
            }
        }
    }

    /// The connection, or why there is none for the moment; `None` when it is time to try.
    fn known(&self) -> Option<Result<Connection, BackendError>> {
        match &*self.link.borrow() {
            Link::Up(connection) => Some(Ok(connection.clone())),
            Link::Down { since, reason } if since.elapsed() < RECONNECT_INTERVAL => {
                Some(Err(BackendError::new(reason.clone())))
            }
            Link::Down { .. } | Link::Untried => None,
        }
    }

    async fn ask(&self, connection: &Connection, command: &Cmd) -> Result<Vec<i64>, RedisError> {
        let generation = self.generation.get();
        let mut stream = connection.stream.clone();
        let reply = command.query_async::<Vec<i64>>(&mut stream).await;
        // Whatever is not the store's own word leaves the connection in doubt, a timeout included: a peer
        // that vanished without a word would hold every later request as long as this one.
        let in_doubt =
            matches!(&reply, Err(error) if !matches!(error.kind(), ErrorKind::Server(_)));
        if in_doubt && self.generation.get() == generation {
            *self.link.borrow_mut() = Link::Untried;
        }
        reply
    }

    /// Runs a script by its name, or by its text where the store has forgotten it.
    async fn run(
        &self,
        connection: &Connection,
        script: &Source,
        checks: &[LimitCheck<'_>],
        arguments: fn(&mut Cmd, &[LimitCheck<'_>], Timestamp),
    ) -> Result<Vec<i64>, RedisError> {
        let now = (self.clock)();
        let by_name = self
            .ask(
                connection,
                &command("EVALSHA", &script.sha1, checks, arguments, now),
            )
            .await;
        match by_name {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // EVAL fills the store's cache as well.
                self.ask(
                    connection,
                    &command("EVAL", script.text, checks, arguments, now),
                )
                .await
            }
            reply => reply,
        }
    }

    /// The numbers of all decisions, five for each.
    async fn numbers(&self, checks: &[LimitCheck<'_>]) -> Result<Vec<i64>, BackendError> {
        let connection = self.connection().await?;
        let aligned = checks
            .iter()
            .all(|check| check.kind == AlgorithmKind::FixedWindowEpoch);
        let reply = match checks {
            // One that looks has a word for it; several are never looked at together.
            [check] if connection.native && aligned => self
                .ask(&connection, &native("RL.TAKE", check, (self.clock)()))
                .await
                .map(spans_in_micros),
            _ if connection.native && aligned => {
                self.run(&connection, &self.native_batch, checks, native_arguments)
                    .await
            }
            _ => {
                self.run(&connection, self.script(checks), checks, script_arguments)
                    .await
            }
        };
        reply.map_err(|error| BackendError::new(error.to_string()))
    }

    fn script(&self, checks: &[LimitCheck<'_>]) -> &Source {
        match checks {
            [check] => match check.kind {
                AlgorithmKind::FixedWindow
                | AlgorithmKind::FixedWindowEpoch
                | AlgorithmKind::Calendar(_) => &self.window,
                AlgorithmKind::SlidingWindow => &self.sliding,
                AlgorithmKind::Gcra | AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
                    &self.gcra
                }
            },
            _ => &self.batch,
        }
    }
}

/// Whether the store has `RL.TAKE`. Where it will not say, it is asked in Lua.
async fn has_native(stream: &mut MultiplexedConnection) -> Result<bool, RedisError> {
    match redis::cmd("COMMAND")
        .arg("INFO")
        .arg("RL.TAKE")
        .query_async::<Value>(stream)
        .await
    {
        Ok(Value::Array(rows)) => Ok(matches!(rows.first(), Some(Value::Array(_)))),
        Ok(_) => Ok(false),
        Err(error) if matches!(error.kind(), ErrorKind::Server(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// `RL.TAKE` or `RL.REFUND` for one check of an aligned window.
fn native(name: &str, check: &LimitCheck<'_>, now: Timestamp) -> Cmd {
    let arguments = Arguments::new(check.kind, &check.quota, check.cost, check.peek, now);
    let mut command = redis::cmd(name);
    command
        .arg(check.key)
        .arg("ALIGNED")
        .arg(arguments.a)
        .arg(arguments.b)
        .arg("COST")
        .arg(arguments.cost);
    if check.peek {
        command.arg("PEEK");
    }
    command
}

/// `RL.TAKE` gives spans in milliseconds; the scripts give microseconds.
fn spans_in_micros(mut numbers: Vec<i64>) -> Vec<i64> {
    for span in numbers.iter_mut().skip(3).filter(|span| **span >= 0) {
        *span = span.saturating_mul(1_000);
    }
    numbers
}

/// `EVALSHA` or `EVAL` of a script on the checks.
fn command(
    name: &str,
    script: &str,
    checks: &[LimitCheck<'_>],
    arguments: fn(&mut Cmd, &[LimitCheck<'_>], Timestamp),
    now: Timestamp,
) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(checks.len());
    for check in checks {
        command.arg(check.key);
    }
    arguments(&mut command, checks, now);
    command
}

/// What [`lua::FIXED_WINDOW`], [`lua::GCRA`] and [`lua::BATCH`] want.
fn script_arguments(command: &mut Cmd, checks: &[LimitCheck<'_>], now: Timestamp) {
    // No time: the store's own counts.
    command.arg("");
    for check in checks {
        let arguments = Arguments::new(check.kind, &check.quota, check.cost, check.peek, now);
        if checks.len() > 1 {
            command.arg(arguments.tag);
        }
        for number in [
            arguments.a,
            arguments.b,
            arguments.c,
            arguments.cost,
            arguments.peek,
        ] {
            command.arg(number);
        }
    }
}

/// What [`lua::NATIVE_BATCH`] wants.
fn native_arguments(command: &mut Cmd, checks: &[LimitCheck<'_>], now: Timestamp) {
    for check in checks {
        let arguments = Arguments::new(check.kind, &check.quota, check.cost, check.peek, now);
        command
            .arg(arguments.a)
            .arg(arguments.b)
            .arg(arguments.cost);
    }
}

impl Decide for Remote {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        let _counted = InFlight::enter(&self.in_flight)?;
        let numbers = self.numbers(checks).await?;
        let decisions: Option<Decisions> = match numbers.len() == checks.len() * lua::REPLY_LEN {
            true => numbers
                .chunks_exact(lua::REPLY_LEN)
                .map(lua::decision)
                .collect(),
            false => None,
        };
        decisions.ok_or_else(bad_reply)
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        let _counted = InFlight::enter(&self.in_flight)?;
        let connection = self.connection().await?;
        let numbers = if connection.native && check.kind == AlgorithmKind::FixedWindowEpoch {
            self.ask(&connection, &native("RL.REFUND", check, (self.clock)()))
                .await
                .map(spans_in_micros)
        } else {
            let check = std::slice::from_ref(check);
            self.run(&connection, &self.refund, check, refund_arguments)
                .await
        };
        let numbers = numbers.map_err(|error| BackendError::new(error.to_string()))?;
        lua::decision(&numbers).ok_or_else(bad_reply)
    }
}

fn bad_reply() -> BackendError {
    BackendError::new("the store's reply is not that of a decision")
}

/// What [`lua::REFUND`] wants.
fn refund_arguments(command: &mut Cmd, checks: &[LimitCheck<'_>], now: Timestamp) {
    command.arg("");
    for check in checks {
        let arguments = Arguments::new(check.kind, &check.quota, check.cost, false, now);
        command.arg(arguments.tag);
        for number in [arguments.a, arguments.b, arguments.c, arguments.cost] {
            command.arg(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_shown_without_their_password() {
        for good in [
            "redis://127.0.0.1",
            "redis://:secret@localhost:7000/3",
            "unix:///run/redis.sock",
        ] {
            parse_url(good).expect(good);
        }
        for bad in [
            "localhost:6379",
            "http://x",
            "redis://",
            "redis://h:port",
            "redis://h/db",
            "",
        ] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
        let error = parse_url("redis://user:secret@h:port")
            .expect_err("no port")
            .to_string();
        assert!(
            error.starts_with("backend redis://...@h:port: ") && !error.contains("secret"),
            "{error}"
        );
    }
}
