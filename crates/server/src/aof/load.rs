//! Reading the append-only file at the start.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::Path;

use smallvec::SmallVec;
use tollgate_commands::{CmdError, NodeCommand, Origin, Reply};
use tollgate_engine::{Applied, Applier, ApplyError, Node, NodeCx, unwrap_for_replica};
use tollgate_limiter::Timestamp;
use tollgate_net::Clock;
use tollgate_persist::aof::{Manifest, NamedFile, Records, RecordsError};
use tollgate_wire::resp::{Limits, Progress, RequestParser};

use super::files::Place;
use crate::config::Key;
use crate::shared::Shared;

/// Commands that failed of which the log tells.
const TOLD: usize = 10;

/// Why the file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The server starts; without `appendonly yes` only the manifest is of interest.
    Start,
    /// DEBUG LOADAOF.
    Again,
}

/// Answers the commands of the server that files hold.
struct Loading;

impl Node for Loading {
    fn run(&mut self, command: NodeCommand, mut cx: NodeCx<'_>) -> Result<Reply, CmdError> {
        match command {
            NodeCommand::Select => cx.session.db = cx.args.any_database()?,
            _ => return Err(CmdError::err("not allowed in an append-only file")),
        }
        Ok(Reply::Ok)
    }
}

/// Reads what the manifest names into the store.
///
/// # Errors
///
/// A line that names the file and the place, and says what is wrong there.
pub(super) fn load(shared: &Shared, place: &Place, why: Purpose) -> Result<Manifest, String> {
    let mut manifest = place.read_manifest()?;
    if why == Purpose::Start && !shared.settings.is_set(Key::AppendOnly) {
        return Ok(manifest);
    }
    take_over_old_file(shared, place, &mut manifest)?;
    if why == Purpose::Start
        && !manifest.history.is_empty()
        && !shared.settings.is_set(Key::AofDisableAutoGc)
    {
        place
            .delete_history(&mut manifest)
            .map_err(|error| format!("deleting old files of the AOF: {error}"))?;
    }
    let files: Vec<&NamedFile> = manifest.files().map(|(_, file)| file).collect();
    if files.is_empty() && why == Purpose::Again {
        return Err(format!(
            "there is no append-only file in {}",
            place.folder()
        ));
    }
    for file in &files {
        let path = place.file(&file.name);
        if let Err(error) = fs::metadata(&path) {
            return Err(format!(
                "the AOF file {} is named in the manifest: {error}",
                path.display()
            ));
        }
    }
    let changes = shared.engine.changes();
    let began = Clock::monotone();
    for (at, file) in files.iter().enumerate() {
        let is_last = at + 1 == files.len();
        let path = place.file(&file.name);
        let mut reading = Reading {
            shared,
            path: &path,
            failed: 0,
        };
        let began = Clock::monotone();
        reading.read(is_last)?;
        let kind = match (&manifest.base, at) {
            (Some(_), 0) => "base",
            _ => "incr",
        };
        shared.log.notice(format_args!(
            "DB loaded from {kind} file {}: {:.3} seconds",
            file.name,
            seconds_since(began)
        ));
    }
    if !files.is_empty() {
        shared.log.notice(format_args!(
            "DB loaded from append only file: {:.3} seconds",
            seconds_since(began)
        ));
    }
    if !files.is_empty() && why == Purpose::Start {
        // Nobody has run these.
        shared.engine.reset_stats();
    }
    shared.snapshot.loaded_changes(match why {
        Purpose::Start => shared.engine.changes(),
        Purpose::Again => changes,
    });
    Ok(manifest)
}

/// Seconds since a moment of the monotone clock.
fn seconds_since(began: i64) -> f64 {
    (Clock::monotone() - began) as f64 / 1e9
}

/// Servers before Redis 7 had one file, beside where the folder is now: it becomes the base.
fn take_over_old_file(
    shared: &Shared,
    place: &Place,
    manifest: &mut Manifest,
) -> Result<(), String> {
    let old = place.old_file();
    // A crash may have come between the manifest and the move.
    let is_named = manifest.incr.is_empty()
        && (manifest.base.as_ref()).is_some_and(|base| base.name == place.stem());
    let is_missing = is_named && !place.file(place.stem()).exists();
    if !(manifest.is_empty() || is_missing) || !old.is_file() {
        return Ok(());
    }
    let moved = place.make_folder().and_then(|()| {
        manifest.base = Some(NamedFile {
            name: place.stem().to_owned(),
            seq: 1,
        });
        place.write_manifest(manifest)?;
        fs::rename(&old, place.file(place.stem()))?;
        super::sync_folder(place)
    });
    moved.map_err(|error| {
        format!(
            "cannot take over the old AOF file {}: {error}",
            old.display()
        )
    })?;
    shared.log.warning(format_args!(
        "the old AOF file {} was moved to {}",
        old.display(),
        place.folder()
    ));
    Ok(())
}

/// One file that is read.
struct Reading<'a> {
    shared: &'a Shared,
    path: &'a Path,
    failed: usize,
}

/// The first bytes of RDB data, of Redis and of Valkey, which has one letter more.
const RDB_BEGINS: [&[u8]; 2] = [b"REDIS", b"VALKE"];

impl Reading<'_> {
    fn read(&mut self, is_last: bool) -> Result<(), String> {
        let shown = self.path.display();
        let open = File::open(self.path);
        let file = open.map_err(|error| format!("cannot open the AOF file {shown}: {error}"))?;
        let mut file = self.shared.loading.count(file);
        let mut start = Vec::new();
        let mut magic = (&mut file).take(5);
        magic
            .read_to_end(&mut start)
            .map_err(|error| format!("cannot read the AOF file {shown}: {error}"))?;
        let now = self.shared.now();
        let (before, offset) = if RDB_BEGINS.contains(&&start[..]) {
            let mut source = start.as_slice().chain(&mut file);
            let base = self.shared.engine.load_base(&mut source, now);
            let base = base.map_err(|error| {
                format!("error reading the RDB data of the AOF file {shown}, AOF loading aborted: {error}")
            })?;
            self.shared.log.notice(format_args!(
                "Done loading RDB, keys loaded: {}, keys expired: {}.",
                base.loaded.keys, base.loaded.expired
            ));
            (base.rest, base.end)
        } else {
            (start, 0)
        };
        let mut records = Records::new(file, before, offset);
        let mut applier = Applier::new(Origin::Replay, 0);
        // Where the transaction began that is open.
        let mut began = offset;
        let torn = loop {
            match records.next() {
                Ok(Some(record)) => {
                    let offset = record.offset;
                    let words: SmallVec<[&[u8]; 8]> = record.words().collect();
                    let was_open = applier.in_transaction();
                    let applied = match unwrap_for_replica(&words) {
                        Some(wrapped) => self.apply_wrapped(&mut applier, wrapped, now),
                        None => applier.apply(&self.shared.engine, &words, now, &mut Loading),
                    };
                    if !was_open && applied == Ok(Applied::Open) {
                        began = offset;
                    }
                    if let Err(error) = applied {
                        self.judge(&error.command, &error.reply, offset)?;
                    }
                }
                Ok(None) if applier.in_transaction() => break began,
                Ok(None) => return Ok(()),
                Err(RecordsError::Torn { offset }) => {
                    break if applier.in_transaction() {
                        began
                    } else {
                        offset
                    };
                }
                Err(error @ RecordsError::Malformed { .. }) => {
                    return Err(format!(
                        "Bad file format reading the append only file {shown}: {error}. Make a backup of your AOF file, \
                         then use redis-check-aof --fix on the manifest"
                    ));
                }
                Err(RecordsError::Io(error)) => {
                    return Err(format!(
                        "Unrecoverable error reading the append only file {shown}: {error}"
                    ));
                }
            }
        };
        self.cut(torn, is_last)
    }

    /// Applies a command that only servers of this kind know.
    fn apply_wrapped(
        &self,
        applier: &mut Applier,
        wrapped: &[u8],
        now: Timestamp,
    ) -> Result<Applied, ApplyError> {
        let mut parser = RequestParser::default();
        match parser.parse(wrapped, &Limits::trusted()) {
            Ok(Progress::Ready { consumed }) if consumed == wrapped.len() => {
                let words = parser.args(wrapped);
                applier.apply(&self.shared.engine, &words, now, &mut Loading)
            }
            _ => Ok(applier.pass(&self.shared.engine)),
        }
    }

    /// A command could not be applied. One that does not exist says that the file is another program's.
    fn judge(&mut self, command: &str, reply: &str, offset: u64) -> Result<(), String> {
        let shown = self.path.display();
        if reply.starts_with("ERR unknown command") {
            return Err(format!(
                "Unknown command '{command}' reading the append only file {shown}, at offset {offset}"
            ));
        }
        self.failed += 1;
        if self.failed <= TOLD {
            self.shared.log.warning(format_args!(
                "the append only file {shown}: '{command}' at offset {offset} was answered by '{reply}'"
            ));
        }
        Ok(())
    }

    /// The file ends in the middle of a unit, which begins at `offset`: it is cut off there, if that is wanted.
    fn cut(&self, offset: u64, may_cut: bool) -> Result<(), String> {
        let shown = self.path.display();
        if !may_cut {
            return Err(format!(
                "Unexpected end of file reading the append only file {shown} at offset {offset}, and it is not the last file"
            ));
        }
        if !self.shared.settings.is_set(Key::AofLoadTruncated) {
            return Err(format!(
                "Unexpected end of file reading the append only file {shown} at offset {offset}. You can: 1) Make a backup \
                 of your AOF file, then use redis-check-aof --fix on the manifest. 2) Alternatively you can set the \
                 'aof-load-truncated' configuration option to yes and restart the server"
            ));
        }
        let cut = OpenOptions::new()
            .write(true)
            .open(self.path)
            .and_then(|file| {
                file.set_len(offset)?;
                file.sync_all()
            });
        cut.map_err(|error| format!("error truncating the AOF file {shown}: {error}"))?;
        self.shared.log.warning(format_args!(
            "the AOF file {shown} ended in the middle of a unit and was truncated at offset {offset}, because \
             aof-load-truncated is enabled"
        ));
        Ok(())
    }
}
