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
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::Instant;
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Act, Decision, Method, Timestamp};
use tollgate_policy::LimitCheck;

use super::scripts::{Call, Scripts};
use super::{BackendError, Decide, Decisions, native, scripts};
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
    scripts: Scripts,
    link: RefCell<Link>,
    /// Held by the one that connects.
    connecting: tokio::sync::Mutex<()>,
    /// Connections made so far; tells a new one from the one that failed.
    generation: Cell<u64>,
    in_flight: Cell<usize>,
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

impl Remote {
    /// `clock` chooses the windows of calendars; all else is decided by the store's own time.
    pub(crate) fn new(client: Client, clock: fn() -> Timestamp) -> Self {
        Self {
            client,
            clock,
            scripts: Scripts::new(),
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

    async fn ask(&self, connection: &Connection, command: &Cmd) -> Result<Value, RedisError> {
        let generation = self.generation.get();
        let mut stream = connection.stream.clone();
        let reply = command.query_async::<Value>(&mut stream).await;
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
    async fn run(&self, connection: &Connection, call: &Call<'_>) -> Result<Value, RedisError> {
        match self.ask(connection, &call.by_name()).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.ask(connection, &call.by_text()).await
            }
            reply => reply,
        }
    }

    /// Decides by a script. The short ones do not know keys with reservations on them; the general one does.
    async fn decide_by_script(
        &self,
        connection: &Connection,
        checks: &[LimitCheck<'_>],
    ) -> Result<Value, RedisError> {
        let now = (self.clock)();
        let reply = self
            .run(connection, &self.scripts.decide(checks, now))
            .await;
        match reply {
            Err(error) if error.code() == Some("WRONGTYPE") => {
                let general = self.scripts.decide_general(checks, now);
                self.run(connection, &general).await
            }
            reply => reply,
        }
    }
}

/// Whether the store has commands of its own for limiters. Where it will not say, it is asked in Lua.
async fn has_native(stream: &mut MultiplexedConnection) -> Result<bool, RedisError> {
    match redis::cmd("COMMAND")
        .arg("INFO")
        .arg("RL.MTAKE")
        .query_async::<Value>(stream)
        .await
    {
        Ok(Value::Array(rows)) => Ok(matches!(rows.first(), Some(Value::Array(_)))),
        Ok(_) => Ok(false),
        Err(error) if matches!(error.kind(), ErrorKind::Server(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Decide for Remote {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        checks.iter().try_for_each(known)?;
        let _counted = InFlight::enter(&self.in_flight)?;
        let connection = self.connection().await?;
        if connection.native {
            let reply = self.ask(&connection, &native::decide(checks)).await;
            read(reply, |reply| native::decisions(reply, checks.len()))
        } else {
            let reply = self.decide_by_script(&connection, checks).await;
            read(reply, |reply| scripts::decisions(reply, checks.len()))
        }
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        let _counted = InFlight::enter(&self.in_flight)?;
        let connection = self.connection().await?;
        let made = if connection.native {
            let reply = self.ask(&connection, &native::refund(check)).await;
            read(reply, |reply| native::decisions(reply, 1))
        } else {
            let call = self.scripts.refund(check, (self.clock)());
            let reply = self.run(&connection, &call).await;
            read(reply, |reply| scripts::decisions(reply, 1))
        };
        made?.first().copied().ok_or_else(bad_reply)
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        let _counted = InFlight::enter(&self.in_flight)?;
        let connection = self.connection().await?;
        let reply = if connection.native {
            let command = native::end(check, id, actual);
            self.ask(&connection, &command).await
        } else {
            let call = self.scripts.end(check, id, actual);
            self.run(&connection, &call).await
        };
        read(reply, native::ended)
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        let _counted = InFlight::enter(&self.in_flight)?;
        let connection = self.connection().await?;
        let reply = if connection.native {
            self.ask(&connection, &native::release(check, id)).await
        } else {
            self.run(&connection, &self.scripts.release(check, id))
                .await
        };
        read(reply, |reply| match reply {
            Value::Int(units) => u64::try_from(*units).ok(),
            Value::Array(items) => match items[..] {
                [Value::Int(units)] => u64::try_from(units).ok(),
                _ => None,
            },
            _ => None,
        })
    }
}

/// What no backend knows how to do is an error before anything is asked.
fn known(check: &LimitCheck<'_>) -> Result<(), BackendError> {
    match (check.method, check.act) {
        (Method::Log, Act::Hold { .. }) => {
            Err(BackendError::new("a sliding log takes no reservations"))
        }
        _ => Ok(()),
    }
}

fn read<T>(
    reply: Result<Value, RedisError>,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, BackendError> {
    let reply = reply.map_err(|error| BackendError::new(error.to_string()))?;
    read(&reply).ok_or_else(bad_reply)
}

fn bad_reply() -> BackendError {
    BackendError::new("the store's reply is not that of a decision")
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
