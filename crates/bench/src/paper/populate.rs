//! Study 003's memory test: many keys with values of one length, then a snapshot. The study fills by DEBUG POPULATE; here
//! every store gets the same writes, because not every store has that command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_wire::resp;

use super::memtier::Setting;
use crate::load::closed::{Feed, Pool};
use crate::load::connection::Connection;
use crate::load::live::Live;
use crate::load::tally::Verdict;
use crate::os::proc;
use crate::record::paper::PaperTable;
use crate::report::format::{bytes, count, significant};
use crate::run::console::Console;
use crate::run::thread::generate;
use crate::target::Store;
use crate::target::client::Client;

/// Keys written; the study has five million, which need more memory than a test should take.
const KEYS: u32 = 100_000;
/// Length of a value, as in the study.
const VALUE_BYTES: usize = 1_024;
/// Connections used for filling.
const CONNECTIONS: usize = 8;
/// Requests written at once.
const DEPTH: usize = 32;
/// Longest wait for the snapshot.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(60);
/// Time between two looks at the memory while the snapshot is written.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One SET for each key.
struct Filling {
    next: u32,
    value: Vec<u8>,
    request: Vec<u8>,
}

impl Feed for Filling {
    fn push(&mut self, connection: &mut Connection) -> bool {
        if self.next == KEYS {
            return false;
        }
        self.request.clear();
        let key = key(self.next);
        resp::write_command(&mut self.request, &[b"SET", key.as_bytes(), &self.value]);
        connection.push(&self.request);
        self.next += 1;
        true
    }

    fn verdict(&self, frame: &[u8]) -> Verdict {
        match frame.first() {
            Some(b'+') => Verdict::Allowed,
            _ => Verdict::Error,
        }
    }
}

fn key(number: u32) -> String {
    format!("populate:{number}")
}

/// Memory as the machine and as the store count it; `None` where one does not tell.
#[derive(Clone, Copy)]
struct Memory {
    resident: Option<u64>,
    used: Option<u64>,
}

impl Memory {
    fn of(store: &Store, client: &mut Client) -> Memory {
        Memory {
            resident: store.pid.and_then(proc::rss_bytes),
            used: number(client, "memory", "used_memory"),
        }
    }
}

fn number(client: &mut Client, section: &str, name: &str) -> Option<u64> {
    let facts = client.info(section).ok()?;
    facts.iter().find(|(fact, _)| fact == name)?.1.parse().ok()
}

/// Runs the test on every store; a table without rows each, because the study printed no figures. Second, what went wrong.
pub(crate) fn run(setting: &Setting<'_>, console: &mut Console) -> (Vec<PaperTable>, Vec<String>) {
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    for store in setting.stores {
        if setting.stop.load(Ordering::Relaxed) {
            break;
        }
        let name = &store.record.name;
        console.phase(format!("{name} · memory of {KEYS} keys"));
        match measure(setting, store, console) {
            Ok(found) => tables.push(PaperTable {
                id: "memory".into(),
                paper:
                    "DEBUG POPULATE of 5 million keys of 1 KiB and BGSAVE; no figures were printed"
                        .into(),
                ours: Some(name.clone()),
                rows: Vec::new(),
                not_comparable: found,
            }),
            Err(why) => {
                console.note(&format!("error: {name} · memory: {why}"));
                wrong.push(format!("{name}: memory: {why}"));
            }
        }
    }
    (tables, wrong)
}

fn measure(
    setting: &Setting<'_>,
    store: &Store,
    console: &mut Console,
) -> Result<Vec<String>, String> {
    let mut client = Client::connect(&store.endpoint)?;
    let before = Memory::of(store, &mut client);
    let mut pool = Pool::open(&store.endpoint, CONNECTIONS)
        .map_err(|error| format!("cannot connect: {error}"))?;
    let mut feed = Filling {
        next: 0,
        value: vec![b'x'; VALUE_BYTES],
        request: Vec::new(),
    };
    let stop = setting.stop;
    let slice = generate(
        setting.core,
        &Live::default(),
        setting.length,
        console,
        || pool.run(&mut feed, DEPTH, u64::MAX / 2, stop),
    )?;
    if let Some(text) = slice.first_error {
        return Err(format!("the server answered: {text}"));
    }
    let filled = Memory::of(store, &mut client);
    let mut found = vec![growth(before, filled)];
    found.push(match snapshot(store, &mut client, stop) {
        Ok(Some(most)) => format!(
            "While the snapshot was written, the store's process had at most {} of resident memory.",
            bytes(most)
        ),
        Ok(None) => "The process is not known, so its memory during the snapshot was not seen.".into(),
        Err(why) => format!("No snapshot: {why}."),
    });
    remove(&mut client)?;
    Ok(found)
}

fn growth(before: Memory, after: Memory) -> String {
    let per_key = |before: Option<u64>, after: Option<u64>| {
        let grown = after?.checked_sub(before?)?;
        Some(significant(grown as f64 / f64::from(KEYS)))
    };
    let shown = |value: Option<String>| value.unwrap_or_else(|| "n/a".into());
    format!(
        "{} keys with values of {VALUE_BYTES} bytes: {} bytes a key by the store's own count, {} of resident memory.",
        count(u64::from(KEYS)),
        shown(per_key(before.used, after.used)),
        shown(per_key(before.resident, after.resident))
    )
}

/// Writes a snapshot. Returns the most resident memory seen meanwhile, of the process itself.
fn snapshot(store: &Store, client: &mut Client, stop: &AtomicBool) -> Result<Option<u64>, String> {
    client.ask(&[b"BGSAVE"])?;
    let asked = Instant::now();
    let mut most: Option<u64> = None;
    loop {
        most = most.max(store.pid.and_then(proc::rss_bytes));
        match number(client, "persistence", "rdb_bgsave_in_progress") {
            Some(0) => return Ok(most),
            None => return Err("the store does not say when it is written".into()),
            Some(_) if asked.elapsed() > SNAPSHOT_WAIT => {
                return Err(format!("not written within {} s", SNAPSHOT_WAIT.as_secs()));
            }
            Some(_) if stop.load(Ordering::Relaxed) => return Err("interrupted".into()),
            Some(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Takes the keys away again, so that the tests after this one find the store as it was.
fn remove(client: &mut Client) -> Result<(), String> {
    const AT_ONCE: u32 = 1_000;
    for first in (0..KEYS).step_by(AT_ONCE as usize) {
        let keys: Vec<String> = (first..(first + AT_ONCE).min(KEYS)).map(key).collect();
        let mut words: Vec<&[u8]> = vec![b"DEL"];
        words.extend(keys.iter().map(String::as_bytes));
        client.ask(&words)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_per_key_and_what_is_not_known_is_said() {
        let memory = |resident, used| Memory { resident, used };
        let text = growth(memory(None, Some(0)), memory(None, Some(118_000_000)));
        assert!(text.contains("1,180 bytes a key"), "{text}");
        assert!(text.contains("n/a of resident"), "{text}");
    }
}
