//! Sending a replica all data: written to a file that has no name, then sent in parts as fast as the replica reads.

use crate::client::{Client, Part};
use crate::config::Key;
use crate::outbox::Class;
use crate::pace::pace;
use crate::shared::Shared;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tollgate_engine::{Engine, Parting, Replica};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, files, process, threads};

/// Bytes sent at a time.
const PART: usize = 256 * 1024;
/// Bytes that may wait to be sent.
const AHEAD: usize = 4 << 20;
/// Time between two looks at what the replica has read.
const LOOK: Duration = Duration::from_millis(1);

/// Has a worker send the replica all data. `greets`: it came by PSYNC, so it is told what it gets.
pub(crate) fn begin(shared: &Arc<Shared>, client: &Arc<Client>, greets: bool) {
    let job = (Arc::clone(shared), Arc::clone(client));
    let work = move || {
        let (shared, client) = job;
        let (host, port) = client.replica_address();
        match send_all(&shared, &client, greets) {
            Ok(()) if client.is_killed() => {}
            Ok(()) => shared.log.notice(format_args!(
                "Synchronization with replica {host}:{port} succeeded"
            )),
            Err(error) => {
                shared.log.warning(format_args!(
                    "Synchronization with replica {host}:{port} failed: {error}"
                ));
                client.disconnect(Parting::Failed);
            }
        }
    };
    if let Err(work) = shared.workers.run(work) {
        work();
    }
}

fn send_all(shared: &Shared, client: &Arc<Client>, greets: bool) -> io::Result<()> {
    let (ends, part) = client.wanted_data();
    let (mut file, len) = match part {
        Part::All => write_all(shared, client, greets)?,
        Part::Functions | Part::Nothing => write_part(shared, client, greets, part, ends)?,
    };
    let engine = &shared.engine;
    // Whoever leaves from now on is forgotten when the connection ends.
    if client.is_killed() {
        engine.unfollow(client.id, Timestamp::from_nanos(Clock::now()));
        return Ok(());
    }
    engine.greet(client.id);
    client.send(&format!("${len}\r\n").into_bytes().into());
    let mut part = vec![0; PART];
    loop {
        let len = file.read(&mut part)?;
        if len == 0 {
            break;
        }
        wait_for_room(shared, client, AHEAD)?;
        client.send(&Arc::from(&part[..len]));
    }
    if ends {
        engine.unfollow(client.id, Timestamp::from_nanos(Clock::now()));
        wait_for_room(shared, client, 1)?;
        client.end_of_data();
        return Ok(());
    }
    engine.go_online(client.id);
    judge(shared);
    Ok(())
}

/// The data in a file, and its length.
fn write_all(shared: &Shared, client: &Arc<Client>, greets: bool) -> io::Result<(File, u64)> {
    let mut out = scratch(shared, client)?;
    follow(shared, client, greets, &mut out)?;
    out_of(out)
}

/// Sends a replica what changes from now on, and writes what the data are now.
fn follow(
    shared: &Shared,
    client: &Arc<Client>,
    greets: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let most = shared.settings.output_limits().hard(Class::Replica);
    let goes_on = || !client.is_killed();
    shared.engine.sync_fully(
        Arc::clone(client) as Arc<dyn Replica>,
        (greets, most.unwrap_or(0)),
        out,
        Timestamp::from_nanos(Clock::now()),
        &mut pace(shared, &goes_on),
    )?;
    Ok(())
}

/// As [`write_all`], without keys; the replica does not follow if that `ends` it.
fn write_part(
    shared: &Shared,
    client: &Arc<Client>,
    greets: bool,
    part: Part,
    ends: bool,
) -> io::Result<(File, u64)> {
    let mut out = scratch(shared, client)?;
    let now = Timestamp::from_nanos(Clock::now());
    let engine = &shared.engine;
    match ends {
        true if greets => {
            let facts = engine.journal_facts();
            let greeting = format!("+FULLRESYNC {} {}\r\n", facts.id, facts.offset);
            client.send(&greeting.into_bytes().into());
        }
        true => {}
        // As `redis-cli --replica` follows, which wants the changes alone.
        false => follow(shared, client, greets, &mut io::sink())?,
    }
    engine.write_without_keys(&mut out, part == Part::Functions, now)?;
    out_of(out)
}

/// A file without a name for the data of a replica.
fn scratch(shared: &Shared, client: &Client) -> io::Result<BufWriter<File>> {
    let dir = shared.settings.get(Key::Dir);
    let name = format!("temp-{}-sync-{}.rdb", std::process::id(), client.id);
    let file = files::nameless(Path::new(&*dir), &name)?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// The file from its beginning, and its length.
fn out_of(mut out: BufWriter<File>) -> io::Result<(File, u64)> {
    out.flush()?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let len = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    Ok((file, len))
}

/// Waits until less than `most` bytes are left to be sent; an error when the replica reads nothing for `repl-timeout`.
fn wait_for_room(shared: &Shared, client: &Client, most: usize) -> io::Result<()> {
    let silence = seconds(shared, Key::ReplTimeout) * 1_000_000_000;
    let mut before = client.unsent();
    let mut since = Clock::monotone();
    while before >= most {
        threads::stand_still(LOOK);
        let now = client.unsent();
        if now < before {
            since = Clock::monotone();
        }
        before = now;
        if client.is_killed() || Clock::monotone() - since > silence {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn seconds(shared: &Shared, key: Key) -> i64 {
    shared.settings.get(key).parse().unwrap_or(0)
}

/// What is due once a second: signs of life, silent replicas, `min-replicas-to-write`, the end of the journal.
pub(crate) fn tend(shared: &Shared, now: Timestamp) {
    let millis = |key| seconds(shared, key).saturating_mul(1_000);
    let period = match shared.ending.is_quiet() {
        true => i64::MAX,
        false => millis(Key::ReplPingReplicaPeriod),
    };
    let times = (
        period,
        millis(Key::ReplTimeout),
        millis(Key::ReplBacklogTtl),
    );
    let engine = &shared.engine;
    engine.tend_replicas(now, times, || process::random_id().ok());
    judge(shared);
}

/// Whether there are enough replicas for writes: to be asked once a second, and when one has come or gone.
pub(crate) fn judge(shared: &Shared) {
    let (wanted, lag) = (
        seconds(shared, Key::MinReplicasToWrite),
        seconds(shared, Key::MinReplicasMaxLag),
    );
    judge_replicas(&shared.engine, wanted, lag);
}

/// The same by settings that are about to be in force.
pub(crate) fn judge_replicas(engine: &Engine, wanted: i64, lag: i64) {
    let now = Timestamp::from_nanos(Clock::now());
    let lacking = !engine.is_replica()
        && wanted > 0
        && lag > 0
        && (engine.good_replicas(lag, now) as i64) < wanted;
    engine.refuse_writes_without_replicas(lacking);
}
