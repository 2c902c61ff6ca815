//! The connection of one service thread to its store, made anew in the background when it is lost.
//!
//! Only the first connection is waited for. From the first sign that the store is away every request is told so at once, until
//! a task beside the requests has connected again, which tries after pauses that grow.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};

use super::BackendError;
use super::held::Held;
use super::outages::Outages;
use super::peer::{At, Peer};
use super::pool::Pool;
use super::replicated::Replicated;
use super::url::{Address, Place};
use crate::config::StoreConfig;

/// Pause before the first attempt to connect again.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// For how long Sentinels may name a master that has been left for a replica which they promoted.
const NAMED_LATE: Duration = Duration::from_secs(30);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The connection, shared by all requests of a thread, which the client library pipelines.
pub(super) struct Link(Rc<Shared>);

struct Shared {
    address: Address,
    store: StoreConfig,
    pool: Pool,
    state: RefCell<State>,
    /// Held by the one that connects for the first time.
    connecting: tokio::sync::Mutex<()>,
    /// Connections made so far; tells a new one from the one that failed.
    generation: Cell<u64>,
    /// Requests so far; tells which connection is next.
    turn: Cell<usize>,
    /// Of a cluster, what is known to be away.
    outages: Outages,
    /// Of a master that Sentinels watch, where it was found.
    at: RefCell<Option<At>>,
    /// A task listens to them.
    listens: Cell<bool>,
    /// The master before, which they may still name, and when it was left.
    left: RefCell<Option<(At, Instant)>>,
    /// Requests wait while another takes its place.
    held: Held,
}

enum State {
    Untried,
    /// A task is connecting again.
    Down(String),
    Up(Connection),
}

/// A connection and what the store behind it understands.
#[derive(Clone)]
pub(super) struct Connection {
    streams: Streams,
    /// It has commands of its own for limiters.
    pub(super) native: bool,
    generation: u64,
    /// Which of several it is for this request.
    turn: usize,
}

#[derive(Clone)]
enum Streams {
    /// Connections to one store, each pipelined, taken in turn by the requests.
    One(Rc<[Stream]>),
    /// Connections to all masters, which the client library finds and makes anew by itself.
    Cluster(ClusterConnection),
}

/// A connection, and the requests on it that wait for replicas.
struct Stream {
    connection: MultiplexedConnection,
    replicated: Replicated,
}

impl Streams {
    /// Connections, as far as they are made here.
    fn count(&self) -> u64 {
        match self {
            Self::One(streams) => streams.len() as u64,
            Self::Cluster(_) => 1,
        }
    }
}

impl Connection {
    /// Keys live on several stores.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.streams, Streams::Cluster(_))
    }

    /// The stream of this request.
    fn stream<'a>(&self, streams: &'a [Stream]) -> &'a Stream {
        &streams[self.turn % streams.len()]
    }
}

impl Link {
    pub(super) fn new(address: Address, store: &StoreConfig, pool: Pool) -> Self {
        Self(Rc::new(Shared {
            address,
            store: store.clone(),
            pool,
            state: RefCell::new(State::Untried),
            connecting: tokio::sync::Mutex::new(()),
            generation: Cell::new(0),
            turn: Cell::new(0),
            outages: Outages::default(),
            at: RefCell::default(),
            listens: Cell::default(),
            left: RefCell::default(),
            held: Held::default(),
        }))
    }

    /// The connection for one request; it is made and waited for only if none was ever tried.
    pub(super) async fn connection(&self) -> Result<Connection, BackendError> {
        let connection = self.made().await?;
        let turn = self.0.turn.get().wrapping_add(1);
        self.0.turn.set(turn);
        Ok(Connection { turn, ..connection })
    }

    async fn made(&self) -> Result<Connection, BackendError> {
        self.0.held.wait().await;
        if let Some(known) = self.0.known() {
            return known;
        }
        let _one_at_a_time = self.0.connecting.lock().await;
        // Whoever held the lock may have connected, or failed just now.
        if let Some(known) = self.0.known() {
            return known;
        }
        match self.0.connect().await {
            Ok(connection) => Ok(connection),
            Err(error) => {
                let reason = no_connection(&error, self.0.address.is_cluster());
                self.lost(reason.clone());
                Err(BackendError::new(reason))
            }
        }
    }

    /// Asks the store, and gives the connection up when it is in doubt.
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        command: &Cmd,
    ) -> Result<Value, RedisError> {
        match &connection.streams {
            // One node that is away says nothing about the others.
            Streams::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
            Streams::One(streams) => {
                let mut stream = connection.stream(streams).connection.clone();
                let reply = command.query_async(&mut stream).await;
                self.judged(connection, reply)
            }
        }
    }

    /// Asks the store several things at once, without a promise that nothing comes between them; on a cluster their keys
    /// must share a slot. Replies to those that are not ignored, in their order; the first error is that of all.
    pub(super) async fn ask_all(
        &self,
        connection: &Connection,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        match &connection.streams {
            Streams::Cluster(cluster) => commands.query_async(&mut cluster.clone()).await,
            Streams::One(streams) => {
                let mut stream = connection.stream(streams).connection.clone();
                let replies = commands.query_async(&mut stream).await;
                self.judged(connection, replies)
            }
        }
    }

    /// Why a key cannot be asked for, if it is known that its node of the cluster is away.
    pub(super) fn outage(&self, connection: &Connection, key: &[u8]) -> Option<RedisError> {
        let is_cluster = connection.is_cluster();
        let reason = is_cluster.then(|| self.0.outages.reason(key)).flatten()?;
        let kind = ErrorKind::Io;
        Some(RedisError::from((kind, "the node is away", reason)))
    }

    /// Keeps in mind what a reply about a key says of its node of the cluster: while that is away, a task beside the requests
    /// tries until it answers.
    pub(super) fn judge_node<T>(
        &self,
        connection: &Connection,
        key: &[u8],
        reply: &Result<T, RedisError>,
    ) {
        let (Streams::Cluster(cluster), Err(error)) = (&connection.streams, reply) else {
            return;
        };
        if is_away(error) && self.0.outages.add(key, error.to_string()) {
            tokio::task::spawn_local(try_again(Rc::downgrade(&self.0), cluster.clone()));
        }
    }

    /// Waits until as many replicas as are asked for have what this request wrote, so that a failover to one of them keeps it.
    ///
    /// # Errors
    /// Fewer have it in half the time of a decision: what waits behind on the connection has the other half.
    pub(super) async fn replicated(&self, connection: &Connection) -> Result<(), RedisError> {
        let replicas = self.0.store.wait_replicas;
        let Streams::One(streams) = &connection.streams else {
            return Ok(());
        };
        if replicas == 0 {
            return Ok(());
        }
        let stream = connection.stream(streams);
        let within = (self.0.store.timeout / 2).as_millis().max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas)
            .arg(u64::try_from(within).unwrap_or(u64::MAX));
        let ask = async || {
            let reply = wait.query_async(&mut stream.connection.clone()).await;
            self.judged(connection, reply)
        };
        // Boxed: it is seldom, and would make the future of every decision larger.
        Box::pin(stream.replicated.wait(replicas, ask)).await
    }

    fn judged<T>(
        &self,
        connection: &Connection,
        reply: Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        if let Err(error) = &reply
            && is_in_doubt(error)
            && self.0.generation.get() == connection.generation
            && matches!(*self.0.state.borrow(), State::Up(_))
        {
            self.lost(format!("the connection is lost: {error}"));
        }
        reply
    }

    /// From now on requests are told the reason, until a new connection is made.
    fn lost(&self, reason: String) {
        let before = self.0.state.replace(State::Down(reason));
        if let State::Up(connection) = before {
            self.0.pool.closed(connection.streams.count());
        }
        self.0.held.end();
        tokio::task::spawn_local(connect_again(Rc::downgrade(&self.0)));
    }
}

/// Why there is no connection, in words.
fn no_connection(error: &RedisError, is_cluster: bool) -> String {
    let reason = format!("cannot connect: {error}");
    if !reason.contains("CaUsedAsEndEntity") {
        return reason;
    }
    let advice = match is_cluster {
        // The client library connects to its nodes, and takes none.
        true => {
            "the nodes of a cluster need one that such a certificate has signed (CA:FALSE), and backend-tls-ca-cert-file the one that signed it"
        }
        false => "backend-tls-ca-cert-file has to be that very certificate",
    };
    format!(
        "{reason}: the server shows the certificate of an authority, as openssl req -x509 makes it; {advice}"
    )
}

/// Whatever is not the store's own word leaves the connection in doubt, a timeout included: a peer that vanished without a
/// word would hold every later request as long as this one. A store that is no longer the master says so.
fn is_in_doubt(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => true,
        ErrorKind::Server(_) | ErrorKind::Extension => false,
        _ => true,
    }
}

/// Whether the node of a cluster that was asked, or the cluster, cannot answer for the moment. Redirections are followed, so that
/// one that is left in the end leads to a node that cannot be reached.
fn is_away(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::ClusterDown | ServerErrorKind::Moved | ServerErrorKind::Ask,
        ) => true,
        _ => is_in_doubt(error),
    }
}

/// Asks for keys that could not be asked for, after pauses that grow, until one can.
async fn try_again(shared: Weak<Shared>, mut cluster: ClusterConnection) {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        for key in shared.outages.to_try() {
            let mut command = redis::cmd("PTTL");
            let reply: Result<Value, RedisError> =
                command.arg(&*key).query_async(&mut cluster).await;
            if !reply.is_err_and(|error| is_away(&error)) {
                return shared.outages.clear();
            }
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Connects after pauses that grow, for as long as somebody wants the connection.
async fn connect_again(shared: Weak<Shared>) {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match shared.connect().await {
            Ok(_) => return,
            Err(error) => {
                let reason = no_connection(&error, shared.address.is_cluster());
                *shared.state.borrow_mut() = State::Down(reason);
            }
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Goes with the master as soon as Sentinels name another one, for as long as somebody wants the connection.
async fn follow(shared: Weak<Shared>) {
    loop {
        let Some(link) = shared.upgrade() else {
            return;
        };
        let (address, at) = (link.address.clone(), link.at.borrow().clone());
        let left = link.left.borrow().clone();
        let left = left.filter(|(_, since)| since.elapsed() < NAMED_LATE);
        let generation = link.generation.get();
        drop(link);
        let (Some(watched), Some(at)) = (address.watched(), at) else {
            return;
        };
        let left = left.as_ref().map(|(at, _)| at);
        // One that is lost is made anew by a task of its own, which asks where the master is.
        let is_same = |link: &Shared| {
            link.generation.get() == generation && matches!(*link.state.borrow(), State::Up(_))
        };
        let begins = || {
            if let Some(link) = shared.upgrade().filter(|link| is_same(link)) {
                link.held.begin();
            }
        };
        let (moved, promoted) = tokio::select! {
            moved = watched.moved(&at, left) => (moved, None),
            promoted = watched.promoted(begins) => (Ok(true), Some(promoted)),
        };
        let Some(link) = shared.upgrade() else {
            return;
        };
        if matches!(moved, Ok(true)) && is_same(&link) {
            let early = promoted.is_some();
            let made = link.connect_to(promoted).await;
            if early && made.is_ok() {
                *link.left.borrow_mut() = Some((at.clone(), Instant::now()));
            }
            if let Err(error) = made
                && is_same(&link)
            {
                Link(link.clone()).lost(no_connection(&error, false));
            }
        }
        link.held.end();
        // Sentinels that contradict each other must not keep it busy.
        let is_settled = matches!(moved, Ok(false)) || link.at.borrow().as_ref() != Some(&at);
        drop(link);
        if !is_settled {
            tokio::time::sleep(PAUSE_MAX).await;
        }
    }
}

impl Shared {
    /// The connection, or why there is none for the moment; `None` when none was tried.
    fn known(&self) -> Option<Result<Connection, BackendError>> {
        match &*self.state.borrow() {
            State::Up(connection) => Some(Ok(connection.clone())),
            State::Down(reason) => Some(Err(BackendError::new(reason.clone()))),
            State::Untried => None,
        }
    }

    async fn connect(self: &Rc<Self>) -> Result<Connection, RedisError> {
        self.connect_to(None).await
    }

    /// To this server, or to where the address leads.
    async fn connect_to(self: &Rc<Self>, peer: Option<Peer>) -> Result<Connection, RedisError> {
        let longest = self.address.steps() * self.store.connect_timeout();
        let made = tokio::time::timeout(longest, self.open(peer)).await;
        let (streams, native) = match made {
            Ok(made) => made?,
            Err(_) => return Err(RedisError::from((ErrorKind::Io, "no answer in time"))),
        };
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        let connection = Connection {
            streams,
            native,
            generation,
            turn: 0,
        };
        self.pool.made(connection.streams.count());
        if let State::Up(before) = self.state.replace(State::Up(connection.clone())) {
            self.pool.closed(before.streams.count());
        }
        if self.address.watched().is_some() && !self.listens.replace(true) {
            tokio::task::spawn_local(follow(Rc::downgrade(self)));
        }
        Ok(connection)
    }

    async fn open(&self, peer: Option<Peer>) -> Result<(Streams, bool), RedisError> {
        let place = match peer {
            Some(peer) => Place::One(Box::new(peer)),
            None => self.address.place().await?,
        };
        let peer = match place {
            Place::One(peer) => peer,
            Place::Cluster(client) => {
                let cluster = client.get_async_connection().await?;
                // Its nodes may differ in what they know, and a script tells by its keys where it is to run.
                return Ok((Streams::Cluster(cluster), false));
            }
        };
        *self.at.borrow_mut() = peer.at();
        let mut streams = Vec::new();
        for _ in 0..self.store.connections.max(1) {
            let made = peer.connect(self.store.connect_timeout(), self.store.timeout);
            streams.push(Stream {
                connection: made.await?,
                replicated: Replicated::default(),
            });
        }
        let native = has_native(&mut streams[0].connection).await?;
        Ok((Streams::One(streams.into()), native))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_an_authority_is_told_of_with_what_helps() {
        let told = |text: &'static str, is_cluster| {
            let error =
                RedisError::from((ErrorKind::Io, "invalid peer certificate", text.to_owned()));
            no_connection(&error, is_cluster)
        };
        let own = "Other(OtherError(CaUsedAsEndEntity))";
        assert!(told(own, false).contains("has to be that very certificate"));
        let cluster = told(own, true);
        assert!(
            cluster.contains("CA:FALSE") && !cluster.contains("very"),
            "{cluster}"
        );
        assert!(!told("UnknownIssuer", true).contains("CA:FALSE"));
    }
}
