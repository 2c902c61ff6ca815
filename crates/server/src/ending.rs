//! How the server ends: by SHUTDOWN, or by a signal as the settings say. Replicas are given time to get everything, then the
//! snapshot is written. When that fails, or somebody calls it off, the server goes on.

use crate::client::Signal;
use crate::config::Key;
use crate::log::Log;
use crate::shared::Shared;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tollgate_commands::CmdError;
use tollgate_engine::{FollowerFacts, Paused, PausedBy, Purpose};
use tollgate_limiter::Timestamp;
use tollgate_net::signal::Wake;
use tollgate_net::{Clock, ConnRef};

/// Time between two looks at how far the replicas are.
const LOOK: Duration = Duration::from_millis(10);
/// Time between two looks at whether the last snapshot is written.
const LOOK_AT_SAVE: Duration = Duration::from_millis(1);

const ABORTED: &str = "Shutdown manually aborted.";

/// What whoever ends the server has said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whether a snapshot is written; `None`: if there are save points.
    pub(crate) save: Option<bool>,
    /// Replicas are not waited for.
    pub(crate) now: bool,
    /// Errors do not keep the server from ending.
    pub(crate) force: bool,
}

impl Request {
    /// The words of `shutdown-on-sigint` and `shutdown-on-sigterm`.
    fn of_setting(words: &str) -> Request {
        let mut request = Request::default();
        for word in words.split(' ') {
            match word {
                "save" => request.save = Some(true),
                "nosave" => request.save = Some(false),
                "now" => request.now = true,
                "force" => request.force = true,
                _ => {}
            }
        }
        request
    }
}

#[derive(Debug, Default)]
struct State {
    /// What a command has asked for, until it is seen to.
    asked: Option<Request>,
    /// Notifications of commands that have not been heard.
    notified: usize,
    /// Connections that get an answer if the server does not end.
    waiting: Vec<ConnRef>,
    /// Until when replicas are waited for, in Unix milliseconds.
    until_ms: Option<i64>,
    /// A signal is being seen to.
    signalled: bool,
    /// Somebody has called it off.
    aborted: bool,
    /// Replicas are told nothing any more that nobody has asked for: they are to come back to where the snapshot is.
    quiet: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ending(Mutex<State>);

impl Ending {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the server end. The connection is answered only if it does not.
    ///
    /// # Errors
    ///
    /// The thread that would see to it cannot be told.
    pub(crate) fn ask(&self, shared: &Shared, request: Request, from: ConnRef) -> io::Result<()> {
        let mut state = self.lock();
        shared.signals.notify()?;
        state.asked = Some(request);
        state.notified += 1;
        state.waiting.push(from);
        Ok(())
    }

    /// Connections that wait for the end.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Calls it off; false when nothing is to be called off.
    pub(crate) fn abort(&self, log: &Log) -> bool {
        let mut state = self.lock();
        let begun = state.asked.is_some() || state.until_ms.is_some() || state.signalled;
        if begun && !state.aborted {
            state.aborted = true;
            log.notice(format_args!("{ABORTED}"));
        }
        begun
    }

    /// Fails when somebody has called it off.
    fn check(&self) -> Result<(), &'static str> {
        match self.lock().aborted {
            true => Err(ABORTED),
            false => Ok(()),
        }
    }

    /// Until when replicas are waited for, in Unix milliseconds.
    pub(crate) fn until_ms(&self) -> Option<i64> {
        self.lock().until_ms
    }

    /// Whether replicas are sent no signs of life any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.lock().quiet
    }

    /// What a command has asked for; `None` when the program itself is to end the server.
    fn heard(&self) -> Option<Option<Request>> {
        let mut state = self.lock();
        state.notified = state.notified.checked_sub(1)?;
        Some(state.asked.take())
    }
}

/// Waits until the server is to end, and is ready for it.
pub(crate) fn wait(shared: &Shared) -> io::Result<()> {
    loop {
        let wake = shared.signals.wait()?;
        let request = match wake {
            Wake::Notified => match shared.ending.heard() {
                None => return Ok(()),
                // It was seen to together with an earlier one.
                Some(None) => continue,
                Some(Some(request)) => request,
            },
            Wake::Interrupt | Wake::Terminate => on_signal(shared, wake),
        };
        match prepare(shared, wake, request) {
            Ok(()) => return Ok(()),
            Err(reason) => give_up(shared, reason),
        }
    }
}

/// What a signal means by the settings.
fn on_signal(shared: &Shared, wake: Wake) -> Request {
    let (name, key) = match wake {
        Wake::Interrupt => ("SIGINT", Key::ShutdownOnSigint),
        _ => ("SIGTERM", Key::ShutdownOnSigterm),
    };
    shared
        .log
        .warning(format_args!("Received {name} scheduling shutdown..."));
    shared.ending.lock().signalled = true;
    Request::of_setting(&shared.settings.get(key))
}

/// A signal is seen to in the course of the housekeeping, which DEBUG may have stopped.
fn wait_for_housekeeping(
    shared: &Shared,
    wake: Wake,
    request: &mut Request,
) -> Result<(), &'static str> {
    while wake != Wake::Notified && !shared.housekeeping.load(Ordering::Relaxed) {
        shared.ending.check()?;
        if hear(shared, wake, LOOK, request)? {
            break;
        }
    }
    shared.ending.check()
}

/// Hears what else is asked for meanwhile, for so long. True when the server is to end whatever anybody else wants.
fn hear(
    shared: &Shared,
    wake: Wake,
    time: Duration,
    request: &mut Request,
) -> Result<bool, &'static str> {
    match shared.signals.wait_for(time) {
        Ok(Some(Wake::Interrupt)) if wake != Wake::Notified => insist(shared),
        Ok(Some(Wake::Notified)) => match shared.ending.heard() {
            // The program itself does not wait.
            None => {
                (request.now, request.force) = (true, true);
                return Ok(true);
            }
            Some(None) => {}
            Some(Some(again)) => *request = again,
        },
        Ok(Some(Wake::Interrupt | Wake::Terminate) | None) => {}
        Err(_) => return Err("the signals cannot be waited for"),
    }
    Ok(false)
}

/// Writes the last snapshot. Signals are heard meanwhile; true when it is written.
fn save(shared: &Shared, wake: Wake, request: &mut Request) -> Result<bool, &'static str> {
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| shared.snapshot.save(shared, now()).is_ok());
        while !saving.is_finished() {
            let force = request.force;
            hear(shared, wake, LOOK_AT_SAVE, request)?;
            request.force |= force;
        }
        Ok(saving.join().unwrap_or(false))
    })
}

/// Does what comes before the end; an error says why the server goes on.
fn prepare(shared: &Shared, wake: Wake, mut request: Request) -> Result<(), &'static str> {
    let log = &shared.log;
    wait_for_housekeeping(shared, wake, &mut request)?;
    log.warning(format_args!("User requested shutdown..."));
    if !request.now {
        wait_for_replicas(shared, wake, &mut request)?;
    }
    let followers = shared.engine.followers(now());
    let offset = shared.engine.journal_facts().offset;
    for it in lagging(&followers, offset) {
        let (host, port) = match shared.clients.get(it.id) {
            Some(client) => client.replica_address(),
            None => continue,
        };
        log.notice(format_args!(
            "Lagging replica {host}:{port} reported offset {} behind master, lag={}, state={}.",
            offset.saturating_sub(it.acked),
            it.lag_secs,
            it.state
        ));
    }
    if !followers.is_empty() {
        log.notice(format_args!(
            "{} of {} replicas are in sync when shutting down.",
            followers.len() - lagging(&followers, offset).count(),
            followers.len()
        ));
    }
    if shared.aof.is_rewriting() && shared.aof.facts().starting {
        // What was there before it was switched on may be in no file.
        if !request.force {
            return Err("Writing initial AOF, can't exit.");
        }
        log.warning(format_args!("Writing initial AOF. Exit anyway."));
    }
    // One that is being taken is of no use any more; nobody waits for it.
    for purpose in [Purpose::Save, Purpose::Replica, Purpose::Base] {
        shared.engine.stop_snapshot(purpose);
    }
    shared.ending.lock().quiet = true;
    let saves = request
        .save
        .unwrap_or_else(|| shared.settings.saves_at_end());
    let is_whole = !shared.engine.has_lost_data() && shared.loading.facts().is_none();
    if saves && is_whole {
        log.notice(format_args!(
            "Saving the final RDB snapshot before exiting."
        ));
        if !save(shared, wake, &mut request)? {
            if !request.force {
                return Err("Error trying to save the DB, can't exit.");
            }
            log.warning(format_args!(
                "Error trying to save the DB, but FORCE was given: exiting anyway."
            ));
            shared.snapshot.save_at_end(false);
            return Ok(());
        }
    }
    // What is written from here until the loops have stopped goes into a second one.
    shared.snapshot.save_at_end(saves);
    Ok(())
}

/// Gives replicas `shutdown-timeout` seconds to get everything, and keeps clients from writing meanwhile.
fn wait_for_replicas(
    shared: &Shared,
    wake: Wake,
    request: &mut Request,
) -> Result<(), &'static str> {
    let secs = shared.settings.get(Key::ShutdownTimeout);
    let secs = secs.parse::<i64>().unwrap_or(0);
    if secs == 0 || are_in_sync(shared) {
        return Ok(());
    }
    let until_ms = now().millis().saturating_add(secs.saturating_mul(1_000));
    shared.ending.lock().until_ms = Some(until_ms);
    shared
        .engine
        .pause()
        .begin(PausedBy::Shutdown, Paused::Writes, i64::MAX);
    shared
        .log
        .notice(format_args!("Waiting for replicas before shutting down."));
    while !request.now && !are_in_sync(shared) && now().millis() < until_ms {
        shared.ending.check()?;
        hear(shared, wake, LOOK, request)?;
    }
    shared.ending.lock().until_ms = None;
    Ok(())
}

/// A second SIGINT: whoever sends it does not want to wait.
fn insist(shared: &Shared) -> ! {
    shared
        .log
        .warning(format_args!("You insist... exiting now."));
    shared.log.flush();
    shared.snapshot.remove_temporary();
    std::process::exit(1)
}

/// The server goes on, and whoever asked for its end is told.
fn give_up(shared: &Shared, reason: &str) {
    // Whoever has called it off has said so.
    if reason != ABORTED {
        shared.log.warning(format_args!("{reason}"));
        shared.log.warning(format_args!(
            "Errors trying to shut down the server. Check the logs for more information."
        ));
    }
    shared.engine.pause().end(PausedBy::Shutdown);
    let waiting = {
        let mut state = shared.ending.lock();
        state.until_ms = None;
        (state.signalled, state.aborted, state.quiet) = (false, false, false);
        std::mem::take(&mut state.waiting)
    };
    let error = CmdError::err("Errors trying to SHUTDOWN. Check logs.");
    for at in waiting {
        let reply = [b"-", &error.to_line()[..], b"\r\n"].concat();
        shared.mailboxes.answer(at, Signal::Answer(reply));
    }
}

fn now() -> Timestamp {
    Timestamp::from_nanos(Clock::now())
}

/// Replicas that follow the stream and have not said to have all of it.
fn lagging(followers: &[FollowerFacts], offset: u64) -> impl Iterator<Item = &FollowerFacts> {
    followers
        .iter()
        .filter(move |it| it.state == "online" && it.acked != offset)
}

fn are_in_sync(shared: &Shared) -> bool {
    let offset = shared.engine.journal_facts().offset;
    lagging(&shared.engine.followers(now()), offset)
        .next()
        .is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_what_a_signal_means() {
        let request = |save, now, force| Request { save, now, force };
        for (words, means) in [
            ("default", request(None, false, false)),
            ("save", request(Some(true), false, false)),
            ("nosave now", request(Some(false), true, false)),
            ("save now force", request(Some(true), true, true)),
        ] {
            assert_eq!(Request::of_setting(words), means, "{words}");
        }
    }

    #[test]
    fn replicas_that_take_over_the_data_are_not_waited_for() {
        let follower = |state, acked| FollowerFacts {
            id: 1,
            state,
            acked,
            lag_secs: 0,
        };
        let all = [
            follower("online", 10),
            follower("send_bulk", 0),
            follower("online", 9),
        ];
        let behind: Vec<u64> = lagging(&all, 10).map(|it| it.acked).collect();
        assert_eq!(behind, [9]);
    }
}
