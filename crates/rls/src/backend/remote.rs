//! A store behind RESP: Redis, Valkey, Dragonfly, Tollgate.
//!
//! All checks of a request are one call, so all take or none does: commands of the store's own where it has them, a
//! script with the same arithmetic elsewhere. The time is the store's, so several services agree on it. A store that does
//! not answer is an error at once and not a queue.

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Act, Decision, Method, Timestamp};
use tollgate_policy::{LimitCheck, Predecessor};

use super::carried::Carried;
use super::draws::Draws;
use super::link::{Connection, Link};
use super::parts::{self, Part};
use super::scripts::{Call, Scripts};
use super::waiting::Waiting;
use super::{BackendError, Checks, Decide, Decisions, cluster, native, scripts};

/// The store as one service thread sees it.
pub(crate) struct Remote {
    clock: fn() -> Timestamp,
    scripts: Scripts,
    link: Link,
    waiting: Waiting,
    carried: Carried,
    draws: Draws,
    /// Leaves the store's own commands alone.
    #[cfg(test)]
    scripts_only: bool,
}

impl Remote {
    /// `clock` chooses the windows of calendars; all else is decided by the store's own time.
    pub(super) fn new(link: Link, clock: fn() -> Timestamp) -> Self {
        Self {
            clock,
            scripts: Scripts::new(),
            link,
            waiting: Waiting::default(),
            carried: Carried::default(),
            draws: Draws::new(),
            #[cfg(test)]
            scripts_only: false,
        }
    }

    /// The same, which leaves the store's own commands alone.
    #[cfg(test)]
    pub(super) fn by_scripts(self) -> Self {
        Self {
            scripts_only: true,
            ..self
        }
    }

    async fn connection(&self) -> Result<Connection, BackendError> {
        #[allow(unused_mut, reason = "tests change it")]
        let mut connection = self.link.connection().await?;
        #[cfg(test)]
        {
            connection.native &= !self.scripts_only;
        }
        Ok(connection)
    }

    /// Runs a script by its name, or by its text where the store has forgotten it.
    async fn run(&self, connection: &Connection, call: &Call<'_>) -> Result<Value, RedisError> {
        if let Some(outage) = self.link.outage(connection, call.key()) {
            return Err(outage);
        }
        let reply = match self.link.ask(connection, &call.by_name()).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.link.ask(connection, &call.by_text()).await
            }
            reply => reply,
        };
        self.link.judge_node(connection, call.key(), &reply);
        reply
    }

    /// Counters of changed limits go on from those before.
    async fn carry_over(
        &self,
        connection: &Connection,
        checks: &[LimitCheck<'_>],
    ) -> Result<(), BackendError> {
        for check in checks {
            let Some(from) = self.carried.wanting(check) else {
                continue;
            };
            let now = (self.clock)();
            let call = self.scripts.inherit(check, &from, connection.native, now);
            match self.run(connection, &call).await {
                Ok(_) => {}
                // The key before holds something else: there is nothing to carry over.
                Err(error) if error.code() == Some("WRONGTYPE") => {}
                Err(error) => return Err(BackendError::new(error.to_string())),
            }
            self.carried.done(check, &from);
        }
        Ok(())
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

impl Decide for Remote {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        checks.iter().try_for_each(known)?;
        let _counted = self.waiting.enter()?;
        let connection = self.connection().await?;
        if connection.is_cluster() {
            let keys = Keys::of(checks);
            return self.decide_by_slot(&connection, &keys.checks(checks)).await;
        }
        self.decide_together(&connection, checks).await
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        let _counted = self.waiting.enter()?;
        let connection = self.connection().await?;
        let keys = Keys::on(&connection, check);
        self.give_back(&connection, &keys.check(check)).await
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        let _counted = self.waiting.enter()?;
        let connection = self.connection().await?;
        let keys = Keys::on(&connection, check);
        self.end_on(&connection, &keys.check(check), id, actual)
            .await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        let _counted = self.waiting.enter()?;
        let connection = self.connection().await?;
        let keys = Keys::on(&connection, check);
        self.release_on(&connection, &keys.check(check), id).await
    }
}

/// The same on a connection, with keys as the store knows them.
impl Remote {
    /// Decides checks whose keys are all in one place.
    async fn decide_together(
        &self,
        connection: &Connection,
        checks: &[LimitCheck<'_>],
    ) -> Result<Decisions, BackendError> {
        self.carry_over(connection, checks).await?;
        let decisions = if connection.native {
            let reply = self.link.ask(connection, &native::decide(checks)).await;
            read(reply, |reply| native::decisions(reply, checks.len()))
        } else {
            let reply = self.decide_by_script(connection, checks).await;
            read(reply, |reply| scripts::decisions(reply, checks.len()))
        }?;
        let mut both = checks.iter().zip(&decisions);
        // What takes nothing cannot be lost.
        if both.any(|(check, decision)| decision.allowed && check.act != Act::Peek) {
            self.link.replicated(connection).await.map_err(told)?;
        }
        Ok(decisions)
    }

    /// Decides slot by slot.
    async fn decide_by_slot(
        &self,
        connection: &Connection,
        checks: &[LimitCheck<'_>],
    ) -> Result<Decisions, BackendError> {
        let groups = cluster::by_slot(checks.iter().map(|check| check.key));
        if groups.len() <= 1 {
            return self.decide_together(connection, checks).await;
        }
        let backend = OnConnection {
            remote: self,
            connection,
        };
        let slots = groups.into_iter();
        let slots: Vec<_> = slots.map(|at| Part { backend, at }).collect();
        // Boxed: it is seldom, and would make the future of every decision larger.
        Box::pin(parts::decide(checks, &slots)).await
    }

    async fn give_back(
        &self,
        connection: &Connection,
        check: &LimitCheck<'_>,
    ) -> Result<Decision, BackendError> {
        self.carry_over(connection, std::slice::from_ref(check))
            .await?;
        let made = if connection.native {
            let reply = self.link.ask(connection, &native::refund(check)).await;
            read(reply, |reply| native::decisions(reply, 1))
        } else {
            let once = connection
                .is_cluster()
                .then(|| cluster::beside(check.key, &self.draws.once()));
            let call = self.scripts.refund(check, once, (self.clock)());
            let reply = self.run(connection, &call).await;
            read(reply, |reply| scripts::decisions(reply, 1))
        };
        made?.first().copied().ok_or_else(BackendError::bad_reply)
    }

    async fn end_on(
        &self,
        connection: &Connection,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        let reply = if connection.native {
            let command = native::end(check, id, actual);
            self.link.ask(connection, &command).await
        } else {
            let call = self.scripts.end(check, id, actual);
            self.run(connection, &call).await
        };
        let ended = read(reply, native::ended)?;
        self.link.replicated(connection).await.map_err(told)?;
        Ok(ended)
    }

    async fn release_on(
        &self,
        connection: &Connection,
        check: &LimitCheck<'_>,
        id: &[u8],
    ) -> Result<u64, BackendError> {
        let reply = if connection.native {
            self.link.ask(connection, &native::release(check, id)).await
        } else {
            self.run(connection, &self.scripts.release(check, id)).await
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

/// A store as one slot of a cluster knows it: whatever it is asked at once has keys of one slot, which are the cluster's.
#[derive(Clone, Copy)]
struct OnConnection<'a> {
    remote: &'a Remote,
    connection: &'a Connection,
}

impl Decide for OnConnection<'_> {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        self.remote.decide_together(self.connection, checks).await
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        self.remote.give_back(self.connection, check).await
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        self.remote.end_on(self.connection, check, id, actual).await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.remote.release_on(self.connection, check, id).await
    }
}

/// The keys of checks as a store knows them, where those differ from the checks' own.
struct Keys(Vec<Option<ClusterKeys>>);

/// The key of a check, and the one that it goes on from.
struct ClusterKeys(Vec<u8>, Option<Vec<u8>>);

impl ClusterKeys {
    fn of(check: &LimitCheck<'_>) -> Self {
        let before = check.predecessor.map(|from| cluster::tagged(from.key));
        Self(cluster::tagged(check.key), before)
    }

    fn check<'a>(&'a self, check: &LimitCheck<'a>) -> LimitCheck<'a> {
        let predecessor = check.predecessor.zip(self.1.as_deref());
        LimitCheck {
            key: &self.0,
            predecessor: predecessor.map(|(from, key)| Predecessor { key, ..from }),
            ..*check
        }
    }
}

impl Keys {
    fn of(checks: &[LimitCheck<'_>]) -> Self {
        let keys = checks.iter().map(ClusterKeys::of);
        Self(keys.map(Some).collect())
    }

    /// Those of one check on this connection.
    fn on(connection: &Connection, check: &LimitCheck<'_>) -> Self {
        let keys = connection.is_cluster().then(|| ClusterKeys::of(check));
        Self(vec![keys])
    }

    fn check<'a>(&'a self, check: &LimitCheck<'a>) -> LimitCheck<'a> {
        match &self.0[..] {
            [Some(keys)] => keys.check(check),
            _ => *check,
        }
    }

    fn checks<'a>(&'a self, checks: &[LimitCheck<'a>]) -> Checks<'a> {
        let both = checks.iter().zip(&self.0);
        let with = both.map(|(check, keys)| match keys {
            Some(keys) => keys.check(check),
            None => *check,
        });
        with.collect()
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
    let reply = reply.map_err(told)?;
    read(&reply).ok_or_else(BackendError::bad_reply)
}

fn told(error: RedisError) -> BackendError {
    BackendError::new(error.to_string())
}
