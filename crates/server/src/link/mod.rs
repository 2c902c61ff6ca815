//! The link to a master: one thread that connects, takes over the master's data, applies what it sends, and comes back when
//! the connection breaks.
//!
//! Commands say whom to follow ([`Link::follow`]) and go on at once; the thread sees to it. Whatever it has begun for an
//! earlier master comes to nothing: its connection is closed, and the engine refuses what it still wants to apply.

mod handshake;
mod stream;
mod transfer;

use crate::client::Client;
use crate::config::Key;
use crate::failover;
use crate::shared::Shared;
use crate::tls;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tollgate_commands::gate::Restrictions;
use tollgate_engine::{Following, HistoryPlace};
use tollgate_net::outbound::{Closer, Outbound, Route};
use tollgate_net::{Clock, ConnRef, process, threads};

/// Pause before another attempt to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of an error that INFO repeats.
const ERROR_MAX: usize = 200;

/// Whom this server follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How far the link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// There is no master.
    #[default]
    None,
    /// It is to be connected.
    Connect,
    Connecting,
    Handshake,
    /// Its data are on their way, or are loaded.
    Sync,
    Connected,
}

impl Stage {
    /// As ROLE has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::None => "none",
            Stage::Connect => "connect",
            Stage::Connecting => "connecting",
            Stage::Handshake => "handshake",
            Stage::Sync => "sync",
            Stage::Connected => "connected",
        }
    }
}

/// What has come of the master's data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes that were announced, if they were.
    pub(crate) total: Option<u64>,
    pub(crate) read: u64,
    /// Clock nanoseconds.
    pub(crate) at: i64,
}

/// What INFO and ROLE tell of the link.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkFacts {
    pub(crate) master: Option<Master>,
    pub(crate) stage: Stage,
    pub(crate) progress: Progress,
    /// Since when the link is up, in clock nanoseconds.
    up_since: i64,
    /// When the master was last heard, in clock nanoseconds; of a link that is up.
    pub(crate) heard_at: i64,
    /// Since when the link is down, in clock nanoseconds; 0 = it has never been up.
    pub(crate) down_since: i64,
    /// Bytes of the history that have come, applied or not.
    pub(crate) read: u64,
    /// Why the last attempt has failed; empty after one that has not.
    pub(crate) error: String,
}

#[derive(Debug, Default)]
struct State {
    facts: LinkFacts,
    /// The right to apply what the master says.
    following: Following,
    /// Counts the orders to follow.
    number: u64,
    /// Ends the connection of the link.
    closer: Option<Closer>,
    client: Option<Arc<Client>>,
    thread: Option<JoinHandle<()>>,
    /// No pause before the next attempt.
    hurry: bool,
    /// No attempt before the data of the start are loaded.
    held: bool,
    stopping: bool,
}

/// An order to follow a master.
#[derive(Debug, Clone, Copy)]
struct Order {
    number: u64,
    /// The right to apply what the master says.
    following: Following,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

/// Why a link has broken.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection.
    Io(io::Error),
    /// What the master says.
    Master(String),
    /// What the master says to the wish to follow it.
    Refused(String),
    /// Another one is to be followed, or none.
    Over,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Io(error)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Io(error) => error.fmt(f),
            Broken::Master(reason) | Broken::Refused(reason) => f.write_str(reason),
            Broken::Over => f.write_str("another master is followed"),
        }
    }
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn facts(&self) -> LinkFacts {
        self.lock().facts.clone()
    }

    /// Follows a master from now on, or none, as the engine has said by `following`. Of several orders at the same time the
    /// engine's last one holds.
    pub(crate) fn follow(
        shared: &Arc<Shared>,
        master: Option<Master>,
        following: Following,
    ) -> io::Result<()> {
        let link = &shared.link;
        let mut state = link.lock();
        if following <= state.following {
            return Ok(());
        }
        state.following = following;
        state.number += 1;
        state.hurry = true;
        let has_master = master.is_some();
        shared.log.set_replica(has_master);
        let was_connected = state.facts.stage == Stage::Connected;
        state.facts = LinkFacts {
            stage: match master {
                Some(_) => Stage::Connect,
                None => Stage::None,
            },
            down_since: match (has_master, was_connected) {
                (false, _) => 0,
                (true, true) => Clock::now(),
                (true, false) => state.facts.down_since,
            },
            master,
            ..LinkFacts::default()
        };
        state.disconnect();
        if has_master && state.thread.is_none() && !state.stopping {
            let shared = Arc::clone(shared);
            let run = move || run(&shared);
            state.thread = Some(threads::spawn("tollgate-link".to_owned(), None, run)?);
        }
        drop(state);
        link.changed.notify_all();
        judge(shared);
        Ok(())
    }

    /// Ends the link's connection if it is that of the client `id`; it is made anew.
    pub(crate) fn kill(&self, id: u64) {
        let mut state = self.lock();
        if state.client.as_ref().is_some_and(|client| client.id == id) {
            state.hurry = true;
            state.disconnect();
        }
    }

    /// Whether nobody is connected to yet.
    pub(crate) fn hold(&self, held: bool) {
        self.lock().held = held;
        self.changed.notify_all();
    }

    /// Ends the link for good.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut state = self.lock();
            state.stopping = true;
            state.number += 1;
            state.disconnect();
            // One that is just connecting, which cannot be hastened, ends by itself.
            let connecting = state.facts.stage == Stage::Connecting;
            state.thread.take().filter(|_| !connecting)
        };
        self.changed.notify_all();
        if let Some(thread) = thread {
            // A thread that panicked has nothing left to do.
            drop(thread.join());
        }
    }

    /// Whether what was begun under that number is still wanted.
    fn is_wanted(&self, number: u64) -> bool {
        self.lock().number == number
    }

    /// Changes what is told of the link, unless it is one of the past.
    fn note(&self, number: u64, change: impl FnOnce(&mut LinkFacts)) -> Result<(), Broken> {
        let mut state = self.lock();
        if state.number != number {
            return Err(Broken::Over);
        }
        change(&mut state.facts);
        Ok(())
    }

    /// The next master to connect to, and the order; `None` at the end.
    fn next(&self) -> Option<(Master, Order)> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            let master = state.facts.master.clone().filter(|_| !state.held);
            if let Some(master) = master {
                if std::mem::take(&mut state.hurry) {
                    let order = Order {
                        number: state.number,
                        following: state.following,
                    };
                    return Some((master, order));
                }
                let waited = self.changed.wait_timeout(state, PAUSE);
                let (waited, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = waited;
                state.hurry |= timeout.timed_out();
                continue;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn disconnect(&mut self) {
        if let Some(closer) = self.closer.take() {
            closer.close();
        }
    }
}

/// What clients may do depends on the role, the link and the settings.
pub(crate) fn judge(shared: &Shared) {
    let judging = shared.hold_judging();
    let is_on = |key| &*shared.settings.get(key) == "yes";
    let mut wanted = Restrictions::NONE;
    if is_on(Key::ReplicaReadOnly) {
        wanted = wanted.or(Restrictions::READ_ONLY);
    }
    if is_on(Key::ReplicaIgnoreMaxmemory) {
        wanted = wanted.or(Restrictions::KEEPS_ALL);
    }
    let serves_stale = is_on(Key::ReplicaServeStaleData);
    {
        let state = shared.link.lock();
        if state.facts.stage != Stage::Connected && !serves_stale {
            wanted = wanted.or(Restrictions::STALE);
        }
        if state.facts.master.is_none() {
            wanted = Restrictions::NONE;
        }
    }
    shared.engine.restrict(wanted);
    drop(judging);
    // It may have to wait for shards.
    shared.engine.follow_restrictions();
}

fn run(shared: &Arc<Shared>) {
    let link = &shared.link;
    while let Some((master, order)) = link.next() {
        let ended = attempt(shared, &master, order);
        if matches!(ended, Err(Broken::Refused(_)))
            && shared.failover.stage() == failover::Stage::InProgress
        {
            failover::abort(shared, "Failover target rejected psync request");
        }
        let mut state = link.lock();
        state.closer = None;
        let client = state.client.take();
        if state.number == order.number {
            let facts = &mut state.facts;
            let was_connected = facts.stage == Stage::Connected;
            let lasted = was_connected && Clock::now() - facts.up_since >= PAUSE.as_nanos() as i64;
            facts.stage = Stage::Connect;
            facts.progress = Progress::default();
            if was_connected {
                facts.down_since = Clock::now();
            }
            if let Err(reason) = ended {
                tell_end(shared, &reason, was_connected);
                facts.error = reason.to_string().chars().take(ERROR_MAX).collect();
            }
            // One that breaks as soon as it is there is not made anew in a loop.
            state.hurry |= lasted;
        }
        drop(state);
        if let Some(client) = client {
            shared.clients.close(client.id);
        }
        judge(shared);
    }
}

/// Says why a link has ended.
fn tell_end(shared: &Shared, reason: &Broken, was_connected: bool) {
    let log = &shared.log;
    match was_connected {
        true => log.warning(format_args!("Connection with master lost: {reason}")),
        false => log.warning(format_args!("MASTER <-> REPLICA sync failed: {reason}")),
    }
}

/// One connection, from its beginning to its end.
fn attempt(shared: &Arc<Shared>, master: &Master, order: Order) -> Result<(), Broken> {
    let link = &shared.link;
    let number = order.number;
    link.note(number, |facts| facts.stage = Stage::Connecting)?;
    shared.log.notice(format_args!(
        "Connecting to MASTER {}:{}",
        master.host, master.port
    ));
    let silence = silence(shared);
    let route = route(shared).map_err(Broken::Master)?;
    // A master that is not there must not keep this server from the next one.
    let goes_on = || link.is_wanted(number);
    let connected = Outbound::connect_while(&master.host, master.port, silence, &route, &goes_on);
    let mut out = connected.map_err(|error| {
        Broken::Master(format!(
            "connecting to {}:{}: {error}",
            master.host, master.port
        ))
    })?;
    let closer = out.closer()?;
    let client = shared
        .clients
        .open(out.peer()?, ConnRef::nowhere(), usize::MAX, Clock::now());
    {
        let mut state = link.lock();
        state.client.clone_from(&client);
        if state.number != number {
            return Err(Broken::Over);
        }
        state.closer = Some(closer);
        state.facts.stage = Stage::Handshake;
    }
    let Some(client) = client else {
        return Err(Broken::Over);
    };
    client.be_master();
    shared
        .log
        .notice(format_args!("MASTER <-> REPLICA sync started"));
    let (place, hearing) = catch_up(shared, order, &mut out)?;
    let read = place.map_or(0, |place| place.offset);
    let now = Clock::now();
    link.note(number, |facts| {
        facts.stage = Stage::Connected;
        facts.progress = Progress::default();
        facts.up_since = now;
        facts.heard_at = now;
        facts.read = read;
        facts.error.clear();
    })?;
    judge(shared);
    stream::follow(shared, out, order, &client, hearing)
}

/// Whether a master hears how far its replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hearing {
    Acknowledged,
    /// It is older than Redis 2.8, and would answer an error.
    Deaf,
}

fn tell_synced(shared: &Shared) {
    shared.log.notice(format_args!(
        "MASTER <-> REPLICA sync: Finished with success"
    ));
}

/// Comes to where the master is: from what this server has, or by taking over all data. Returns the place in the history.
fn catch_up(
    shared: &Arc<Shared>,
    order: Order,
    out: &mut Outbound,
) -> Result<(Option<HistoryPlace>, Hearing), Broken> {
    let before = shared.engine.place();
    match handshake::shake(shared, out)? {
        handshake::Begun::Continued(id) => {
            let taken = shared
                .engine
                .continue_history(order.following, id.as_deref());
            taken.map_err(|_| Broken::Over)?;
            shared.log.notice(format_args!(
                "Successful partial resynchronization with master."
            ));
            if let Some(id) = id.filter(|id| before.is_none_or(|before| before.id != *id)) {
                shared
                    .log
                    .notice(format_args!("Master replication ID changed to {id}"));
            }
            Ok((shared.engine.place(), Hearing::Acknowledged))
        }
        handshake::Begun::Old => {
            shared
                .link
                .note(order.number, |facts| facts.stage = Stage::Sync)?;
            // Its history has no name of its own.
            let place = HistoryPlace {
                id: process::random_id()?,
                offset: 0,
            };
            transfer::take_over(shared, order, out, &place)?;
            tell_synced(shared);
            Ok((Some(place), Hearing::Deaf))
        }
        handshake::Begun::Full(place) => {
            shared.log.notice(format_args!(
                "Full resync from master: {}:{}",
                place.id, place.offset
            ));
            shared
                .link
                .note(order.number, |facts| facts.stage = Stage::Sync)?;
            transfer::take_over(shared, order, out, &place)?;
            tell_synced(shared);
            Ok((Some(place), Hearing::Acknowledged))
        }
    }
}

/// How a master is connected to.
fn route(shared: &Shared) -> Result<Route, String> {
    let source = shared.settings.get(Key::BindSourceAddr);
    let from = match &*source {
        "" => None,
        text => Some(
            text.parse()
                .map_err(|_| format!("bind-source-addr: '{text}' is not an IP address"))?,
        ),
    };
    Ok(Route {
        from,
        tls: tls::connector(shared)?,
    })
}

/// `repl-timeout`.
fn silence(shared: &Shared) -> Duration {
    let secs = shared.settings.get(Key::ReplTimeout).parse().unwrap_or(60);
    Duration::from_secs(secs)
}

/// Whether a read has failed since nothing came in time.
fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
