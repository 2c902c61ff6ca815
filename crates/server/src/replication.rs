//! Sending a replica all data: written to a file that has no name, then sent in parts as fast as the replica reads.

use crate::client::Client;
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
    let (mut file, greeting) = write_all(shared, client, greets)?;
    let engine = &shared.engine;
    // Whoever leaves from now on is forgotten when the connection ends.
    if client.is_killed() {
        engine.unfollow(client.id, Timestamp::from_nanos(Clock::now()));
        return Ok(());
    }
    engine.greet(client.id);
    client.send(&greeting.into());
    let mut part = vec![0; PART];
    loop {
        let len = file.read(&mut part)?;
        if len == 0 {
            break;
        }
        wait_for_room(shared, client)?;
        client.send(&Arc::from(&part[..len]));
    }
    engine.go_online(client.id);
    Ok(())
}

/// The data in a file, and what goes before them.
fn write_all(shared: &Shared, client: &Arc<Client>, greets: bool) -> io::Result<(File, Vec<u8>)> {
    let dir = shared.settings.get(Key::Dir);
    let name = format!("temp-{}-sync-{}.rdb", std::process::id(), client.id);
    let mut out = BufWriter::with_capacity(1 << 20, files::nameless(Path::new(&*dir), &name)?);
    let most = shared.settings.output_limits().hard(Class::Replica);
    let goes_on = || !client.is_killed();
    let (id, offset) = shared.engine.sync_fully(
        Arc::clone(client) as Arc<dyn Replica>,
        (greets, most.unwrap_or(0)),
        &mut out,
        Timestamp::from_nanos(Clock::now()),
        &mut pace(shared, &goes_on),
    )?;
    out.flush()?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let len = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut greeting = Vec::new();
    if greets {
        write!(greeting, "+FULLRESYNC {id} {offset}\r\n")?;
    }
    write!(greeting, "${len}\r\n")?;
    Ok((file, greeting))
}

/// Waits until little is left to be sent; an error when the replica reads nothing for `repl-timeout`.
fn wait_for_room(shared: &Shared, client: &Client) -> io::Result<()> {
    let silence = seconds(shared, Key::ReplTimeout) * 1_000_000_000;
    let mut before = client.unsent();
    let mut since = Clock::monotone();
    while before >= AHEAD {
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
    let times = (
        millis(Key::ReplPingReplicaPeriod),
        millis(Key::ReplTimeout),
        millis(Key::ReplBacklogTtl),
    );
    let engine = &shared.engine;
    engine.tend_replicas(now, times, || process::random_id().ok());
    let (wanted, lag) = (
        seconds(shared, Key::MinReplicasToWrite),
        seconds(shared, Key::MinReplicasMaxLag),
    );
    judge_replicas(engine, wanted, lag);
}

/// Whether there are enough replicas for writes.
pub(crate) fn judge_replicas(engine: &Engine, wanted: i64, lag: i64) {
    let now = Timestamp::from_nanos(Clock::now());
    let lacking = !engine.is_replica()
        && wanted > 0
        && lag > 0
        && (engine.good_replicas(lag, now) as i64) < wanted;
    engine.refuse_writes_without_replicas(lacking);
}
