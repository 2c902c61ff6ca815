//! Sending replicas all data: written to a file that has no name, once for all who wait for them, then sent to each in parts as
//! fast as it reads.

use crate::client::{Client, Part};
use crate::config::Key;
use crate::outbox::Class;
use crate::pace::pace;
use crate::shared::Shared;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tollgate_engine::{Parting, Replica, SyncRequest};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, files, process, threads};

/// Bytes sent at a time.
const PART: usize = 256 * 1024;
/// Bytes that may wait to be sent.
const AHEAD: usize = 4 << 20;
/// Time between two looks at what the replica has read.
const LOOK: Duration = Duration::from_millis(1);

/// Has the replica sent all data, by workers. `greets`: it came by PSYNC, so it is told what it gets.
pub(crate) fn begin(shared: &Arc<Shared>, client: &Arc<Client>, greets: bool) {
    let (_, part) = client.wanted_data();
    if part != Part::All {
        let client = Arc::clone(client);
        return run(shared, move |shared| {
            let written = write_part(shared, &client, greets, part);
            send_or_drop(shared, &client, written.map(Arc::new));
        });
    }
    let request = request(shared, client, greets);
    let to = Arc::clone(client) as Arc<dyn Replica>;
    if shared.engine.ask_for_data(to, request, now()) {
        return shared
            .log
            .notice(format_args!("Waiting for end of BGSAVE for SYNC"));
    }
    if request.is_patient {
        shared
            .log
            .notice(format_args!("Delay next BGSAVE for diskless SYNC"));
    }
    write_due(shared);
}

fn request(shared: &Shared, client: &Client, greets: bool) -> SyncRequest {
    let most = shared.settings.output_limits().hard(Class::Replica);
    SyncRequest {
        acks: greets,
        most: most.unwrap_or(0),
        is_patient: delay_ms(shared) > 0 && client.takes_stream(),
    }
}

/// How long replicas wait for others.
fn delay_ms(shared: &Shared) -> i64 {
    match shared.settings.is_set(Key::ReplDisklessSync) {
        true => seconds(shared, Key::ReplDisklessSyncDelay).saturating_mul(1_000),
        false => 0,
    }
}

fn now() -> Timestamp {
    Timestamp::from_nanos(Clock::now())
}

/// Has workers write the data that replicas wait for, if it is time: to be asked when one has come, and once a second.
fn write_due(shared: &Arc<Shared>) {
    let enough = seconds(shared, Key::ReplDisklessSyncMaxReplicas);
    let enough = usize::try_from(enough).unwrap_or(usize::MAX);
    while let Some(sync) = shared.engine.next_sync(now(), delay_ms(shared), enough) {
        shared
            .log
            .notice(format_args!("Starting BGSAVE for SYNC with target: disk"));
        run(shared, move |shared| write_and_send(shared, sync));
    }
}

/// Has a worker do that, or this thread if there is none.
fn run(shared: &Arc<Shared>, work: impl FnOnce(&Arc<Shared>) + Send + 'static) {
    let job = Arc::clone(shared);
    if let Err(work) = shared.workers.run(move || work(&job)) {
        work();
    }
}

/// Writes the data once for all replicas that share them, and has each sent them at its own speed.
fn write_and_send(shared: &Arc<Shared>, sync: u64) {
    let written = write_all(shared, sync).map(Arc::new);
    let ids = shared.engine.end_sync(sync);
    // Those who have come too late.
    write_due(shared);
    let mut clients: Vec<_> = (ids.into_iter())
        .filter_map(|id| shared.clients.get(id))
        .collect();
    let last = clients.pop();
    for client in clients {
        let written = copy_of(&written);
        run(shared, move |shared| send_or_drop(shared, &client, written));
    }
    if let Some(client) = last {
        send_or_drop(shared, &client, written);
    }
}

/// The same data, or the same error, for another replica.
fn copy_of(written: &io::Result<Arc<Data>>) -> io::Result<Arc<Data>> {
    match written {
        Ok(data) => Ok(Arc::clone(data)),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

/// Sends a replica the data, or drops it if there are none.
fn send_or_drop(shared: &Shared, client: &Arc<Client>, written: io::Result<Arc<Data>>) {
    let (host, port) = client.replica_address();
    match written.and_then(|data| send(shared, client, &data)) {
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
}

/// The data of one moment, in a file without a name.
struct Data {
    file: File,
    len: u64,
}

fn send(shared: &Shared, client: &Client, data: &Data) -> io::Result<()> {
    let (ends, _) = client.wanted_data();
    let engine = &shared.engine;
    engine.greet(client.id);
    client.send(&format!("${}\r\n", data.len).into_bytes().into());
    let mut part = vec![0; PART];
    let mut at = 0;
    while at < data.len {
        let len = data.file.read_at(&mut part, at)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        wait_for_room(shared, client, AHEAD)?;
        client.send(&Arc::from(&part[..len]));
        at += len as u64;
    }
    if ends {
        engine.unfollow(client.id, now());
        wait_for_room(shared, client, 1)?;
        client.end_of_data();
        return Ok(());
    }
    engine.go_online(client.id);
    judge(shared);
    Ok(())
}

/// The data as they are at one moment, from which on the replicas that share them follow.
fn write_all(shared: &Shared, sync: u64) -> io::Result<Data> {
    let mut out = scratch(shared, &format!("{sync}"))?;
    let mut pace = pace(shared, &|| true);
    shared.engine.write_sync(sync, &mut out, now(), &mut pace)?;
    out_of(out)
}

/// As [`write_all`] for one replica, without keys; it does not follow if it wants the data alone.
fn write_part(shared: &Shared, client: &Arc<Client>, greets: bool, part: Part) -> io::Result<Data> {
    let mut out = scratch(shared, &format!("part-{}", client.id))?;
    let engine = &shared.engine;
    match client.wanted_data().0 {
        true if greets => {
            let facts = engine.journal_facts();
            let greeting = format!("+FULLRESYNC {} {}\r\n", facts.id, facts.offset);
            client.send(&greeting.into_bytes().into());
        }
        true => {}
        // As `redis-cli --replica` follows, which wants the changes alone.
        false => {
            let to = Arc::clone(client) as Arc<dyn Replica>;
            let request = request(shared, client, greets);
            let mut pace = pace(shared, &|| true);
            engine.sync_alone(to, request, &mut io::sink(), now(), &mut pace)?;
        }
    }
    engine.write_without_keys(&mut out, part == Part::Functions, now())?;
    out_of(out)
}

/// A file without a name for the data of a replica.
fn scratch(shared: &Shared, of: &str) -> io::Result<BufWriter<File>> {
    let dir = shared.settings.get(Key::Dir);
    let name = format!("temp-{}-sync-{of}.rdb", std::process::id());
    let file = files::nameless(Path::new(&*dir), &name)?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn out_of(mut out: BufWriter<File>) -> io::Result<Data> {
    out.flush()?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let len = file.seek(SeekFrom::End(0))?;
    Ok(Data { file, len })
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

/// What is due once a second: data that are waited for, signs of life, silent replicas, `min-replicas-to-write`, the end of the journal.
pub(crate) fn tend(shared: &Arc<Shared>, now: Timestamp) {
    write_due(shared);
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

/// Whether there are enough replicas for writes: to be asked once a second, when one has come or gone, and when the settings
/// have changed.
pub(crate) fn judge(shared: &Shared) {
    let _judging = shared.hold_judging();
    let (wanted, lag) = (
        seconds(shared, Key::MinReplicasToWrite),
        seconds(shared, Key::MinReplicasMaxLag),
    );
    let engine = &shared.engine;
    let lacking = !engine.is_replica()
        && wanted > 0
        && lag > 0
        && (engine.good_replicas(lag, now()) as i64) < wanted;
    engine.refuse_writes_without_replicas(lacking);
}
