//! Settings of a running server.

use super::kind::absolute;
use super::save_points::{self, SavePoint};
use super::{BindAddress, Change, Config, Key, Setting, TABLE, bind, find, output_limits};
use crate::outbox::OutputLimits;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_commands::{CmdError, IncrexForm, Policy, StoreLimits};
use tollgate_containers::glob;
use tollgate_engine::Notify;

/// Least and most rounds of the active expiry per second.
const HZ: (u64, u64) = (1, 500);

/// Least bytes of the backlog for replicas.
const BACKLOG_MIN: u64 = 16 << 10;

/// A setting that the system, or this machine, has given another value than was asked for.
#[derive(Debug)]
struct Granted {
    key: Key,
    asked: Box<str>,
    granted: Box<str>,
}

/// The settings and, mirrored, what is read per connection or per wake-up.
#[derive(Debug)]
pub struct Live {
    values: Mutex<Vec<Box<str>>>,
    granted: Mutex<Vec<Granted>>,
    /// The configuration file, if one was read.
    pub file: Option<PathBuf>,
    /// Persistence was asked for: the snapshot is loaded at the start.
    pub load_snapshot: bool,
    max_clients: AtomicUsize,
    timeout_secs: AtomicU64,
    keepalive_secs: AtomicU64,
    output_limit: AtomicUsize,
    query_limit: AtomicUsize,
    hz: AtomicU64,
    output_limits: Arc<OutputLimits>,
}

impl Live {
    /// Takes over the settings of the start.
    pub fn new(config: Config) -> Live {
        let live = Live {
            load_snapshot: config.given(Key::Dir)
                || config.given(Key::DbFilename)
                || !config.get(Key::Save).is_empty()
                || config.get(Key::AppendOnly) == "yes",
            file: config.file().map(ToOwned::to_owned),
            values: Mutex::new(config.into_values()),
            granted: Mutex::default(),
            max_clients: AtomicUsize::new(0),
            timeout_secs: AtomicU64::new(0),
            keepalive_secs: AtomicU64::new(0),
            output_limit: AtomicUsize::new(0),
            query_limit: AtomicUsize::new(0),
            hz: AtomicU64::new(0),
            output_limits: Arc::default(),
        };
        // The default is where the server was started.
        let dir = absolute(&live.get(Key::Dir));
        live.correct(Key::Dir, &dir);
        live
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<str>>> {
        // Values are replaced whole, so they are valid wherever a holder panicked.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mirror(&self, values: &[Box<str>]) {
        let number = |key: Key| values[key as usize].parse::<u64>().unwrap_or_default();
        let size = |key: Key| usize::try_from(number(key)).unwrap_or(usize::MAX);
        self.max_clients
            .store(size(Key::MaxClients), Ordering::Relaxed);
        self.timeout_secs
            .store(number(Key::Timeout), Ordering::Relaxed);
        self.keepalive_secs
            .store(number(Key::TcpKeepalive), Ordering::Relaxed);
        self.output_limit
            .store(size(Key::ClientOutputLimit), Ordering::Relaxed);
        self.query_limit
            .store(size(Key::ClientQueryBufferLimit), Ordering::Relaxed);
        self.output_limits.set(
            &output_limits::parse(&values[Key::ClientOutputBufferLimit as usize]),
            number(Key::ClientOutputLimit),
        );
        self.hz.store(number(Key::Hz), Ordering::Relaxed);
    }

    /// Hands the engine the settings that it follows.
    pub fn configure(&self, engine: &tollgate_engine::Engine) {
        let values = self.lock();
        let millis = |key: Key| values[key as usize].parse::<i64>().unwrap_or_default();
        engine.set_busy_reply_threshold(millis(Key::BusyReplyThreshold));
        engine.set_script_time_limit(millis(Key::ScriptTimeLimit));
        for name in StoreLimits::NAMES {
            let Some(setting) = find(name) else { continue };
            engine.set_limit(name, Values(&values).limit(setting.key));
        }
        engine.follow_memory_limits();
        let events = &values[Key::NotifyKeyspaceEvents as usize];
        engine.set_notify(Notify::parse(events.as_bytes()).unwrap_or_default());
    }

    /// The value as CONFIG GET prints it.
    pub fn get(&self, key: Key) -> Box<str> {
        self.lock()[key as usize].clone()
    }

    /// Corrects a value to what the system granted, such as the port that it chose; a file goes on saying what was asked for.
    pub(crate) fn grant(&self, key: Key, granted: &str) {
        let asked = self.get(key);
        if *asked != *granted {
            let granted = granted.into();
            self.lock_granted().push(Granted {
                key,
                asked,
                granted,
            });
        }
        self.correct(key, granted);
    }

    fn lock_granted(&self) -> MutexGuard<'_, Vec<Granted>> {
        // One is whole before it is added.
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Corrects a value to what is true.
    pub fn correct(&self, key: Key, value: &str) {
        let mut values = self.lock();
        values[key as usize] = value.into();
        self.mirror(&values);
    }

    /// Whether a flag is `yes`.
    pub(crate) fn is_set(&self, key: Key) -> bool {
        *self.lock()[key as usize] == *"yes"
    }

    /// Most clients at a time.
    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    /// When a snapshot is due.
    pub(crate) fn save_points(&self) -> Vec<SavePoint> {
        save_points::parse(&self.lock()[Key::Save as usize]).unwrap_or_default()
    }

    /// Whether the end of the server writes a snapshot unless it is told otherwise.
    pub(crate) fn saves_at_end(&self) -> bool {
        !self.lock()[Key::Save as usize].is_empty()
    }

    /// Seconds of silence after which a client is disconnected; 0 = never.
    pub(crate) fn timeout_secs(&self) -> u64 {
        self.timeout_secs.load(Ordering::Relaxed)
    }

    /// Seconds of silence before TCP probes; 0 = never.
    pub(crate) fn keepalive_secs(&self) -> u64 {
        self.keepalive_secs.load(Ordering::Relaxed)
    }

    /// Unsent bytes of a client above which its commands wait.
    pub fn output_limit(&self) -> usize {
        self.output_limit.load(Ordering::Relaxed)
    }

    /// Longest whole command, in bytes.
    pub(crate) fn query_limit(&self) -> usize {
        self.query_limit.load(Ordering::Relaxed)
    }

    /// Unread output above which clients are dropped.
    pub(crate) fn output_limits(&self) -> &Arc<OutputLimits> {
        &self.output_limits
    }

    /// Rounds of the active expiry per second.
    pub fn hz(&self) -> u64 {
        self.hz.load(Ordering::Relaxed).clamp(HZ.0, HZ.1)
    }

    /// CONFIG GET: names and values that any of the patterns matches, each name once. A pattern that is just a name answers
    /// in the letters it was given in, as in Redis.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(Box<[u8]>, Box<str>)> {
        let values = self.lock();
        let names = TABLE
            .iter()
            .flat_map(|setting| setting.names().map(move |name| (name, setting)));
        let shown = |name: &str, hidden: bool| {
            let exact = patterns
                .iter()
                .find(|p| p.eq_ignore_ascii_case(name.as_bytes()));
            let any = || {
                patterns
                    .iter()
                    .any(|p| is_pattern(p) && glob::matches(p, name.as_bytes(), true))
            };
            match exact {
                Some(given) => Some((*given).into()),
                None => (!hidden && any()).then(|| name.as_bytes().into()),
            }
        };
        names
            .filter_map(|(name, setting)| {
                Some((
                    shown(name, setting.hidden)?,
                    values[setting.key as usize].clone(),
                ))
            })
            .collect()
    }

    /// CONFIG SET: all pairs or none; `protected` settings only when that is allowed. `apply` is told which settings
    /// changed, and hands the new values to the parts that use them; it may refuse one with a reason.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        protected: bool,
        apply: impl FnOnce(&[Key], &Values<'_>) -> Result<(), (Key, String)>,
    ) -> Result<(), CmdError> {
        let mut changes: Vec<(&'static Setting, &[u8], &[u8])> = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let Some(setting) = known(name) else {
                return Err(unknown(name));
            };
            match setting.change {
                // The value is looked at below.
                Change::Live | Change::Restart => {}
                Change::Protected if protected => {}
                Change::Start => return Err(failed(name, "can't set immutable config")),
                Change::Protected => return Err(failed(name, "can't set protected config")),
            }
            if changes
                .iter()
                .any(|(earlier, ..)| earlier.key == setting.key)
            {
                return Err(failed(name, "duplicate parameter"));
            }
            changes.push((setting, setting.known_as(name), value));
        }
        let mut values = self.lock();
        let mut next = values.clone();
        let mut keys = Vec::with_capacity(changes.len());
        for &(setting, name, value) in &changes {
            let text =
                std::str::from_utf8(value).map_err(|_| failed(name, "argument is not UTF-8"))?;
            let normal = setting.normalise_over(&values[setting.key as usize], text);
            let normal = normal.map_err(|reason| {
                // Redis finds a wrong address when it listens.
                let reason = match setting.key {
                    Key::Bind => "Failed to bind to specified addresses.",
                    _ => &*reason,
                };
                failed(name, reason)
            })?;
            let normal = within(setting.key, normal);
            if setting.change == Change::Restart && *normal != *values[setting.key as usize] {
                let reason = "it takes a restart to change it";
                return Err(failed(name, reason));
            }
            next[setting.key as usize] = normal.into();
            keys.push(setting.key);
        }
        apply(&keys, &Values(&next)).map_err(|(key, reason)| {
            let named = changes.iter().find(|(setting, ..)| setting.key == key);
            let name = named.map_or(key.setting().name.as_bytes(), |(_, name, _)| *name);
            failed(name, &reason)
        })?;
        *values = next;
        self.mirror(&values);
        Ok(())
    }

    /// Every value as a file is to say it, in the order of the table: on another machine the system may grant more.
    pub(crate) fn asked(&self) -> Vec<Box<str>> {
        let mut values = self.lock().clone();
        for granted in self.lock_granted().iter() {
            let value = &mut values[granted.key as usize];
            if *value == granted.granted {
                value.clone_from(&granted.asked);
            }
        }
        values
    }

    /// Hands the values to `f`; nobody changes them meanwhile.
    pub(crate) fn with_values<T>(&self, f: impl FnOnce(&Values<'_>) -> T) -> T {
        f(&Values(&self.lock()))
    }
}

/// Values that are about to be those of the server.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a>(&'a [Box<str>]);

impl Values<'_> {
    /// As CONFIG GET prints it.
    pub fn get(&self, key: Key) -> &str {
        &self.0[key as usize]
    }

    /// The value of a numeric setting.
    pub fn number(&self, key: Key) -> i64 {
        // Numeric settings hold what `Kind::normalise` printed; one beyond the range is as good as the largest.
        self.get(key).parse().unwrap_or(i64::MAX)
    }

    /// Where to listen.
    pub(crate) fn bind(&self) -> Vec<BindAddress> {
        bind::parse(self.get(Key::Bind)).collect()
    }

    /// The value of a setting among [`StoreLimits`], where words have numbers.
    pub(crate) fn limit(&self, key: Key) -> i64 {
        let value = self.get(key);
        let number = match key {
            Key::MaxMemoryPolicy => Policy::by_name(value).map(|policy| policy as i64),
            Key::IncrexForm => IncrexForm::number(value),
            Key::LimiterTop | Key::Rdbcompression | Key::Rdbchecksum => {
                Some(i64::from(value == "yes"))
            }
            Key::ClusterEnabled => Some(i64::from(value != "no")),
            _ => return self.number(key),
        };
        number.unwrap_or_default()
    }
}

/// A value that was set while the server runs, as Redis takes it: some numbers are a wish, and are brought to what can be.
fn within(key: Key, normal: String) -> String {
    match (key, normal.parse::<u64>()) {
        (Key::Hz, Ok(hz)) => hz.clamp(HZ.0, HZ.1).to_string(),
        (Key::ReplBacklogSize, Ok(bytes)) => bytes.max(BACKLOG_MIN).to_string(),
        _ => normal,
    }
}

fn known(name: &[u8]) -> Option<&'static Setting> {
    std::str::from_utf8(name).ok().and_then(find)
}

/// True when the name of a setting has letters that match others.
fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| b"[*?".contains(b))
}

fn unknown(name: &[u8]) -> CmdError {
    CmdError::err(
        [
            b"Unknown option or number of arguments for CONFIG SET - '",
            name,
            b"'",
        ]
        .concat(),
    )
}

/// A value that was refused.
pub(crate) fn failed(name: &[u8], reason: &str) -> CmdError {
    let head = b"CONFIG SET failed (possibly related to argument '";
    CmdError::err([head, name, b"') - ", reason.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_shown_by_its_whole_path() {
        let here = std::env::current_dir().unwrap();
        let live = Live::new(Config::default());
        assert_eq!(*live.get(Key::Dir), *here.to_str().unwrap());
        let mut config = Config::default();
        config.set(Key::Dir, "src").unwrap();
        let there = here.join("src");
        assert_eq!(*Live::new(config).get(Key::Dir), *there.to_str().unwrap());
        // Nobody has set it: the file is not to name it.
        let file = super::super::rewrite::rewrite(b"", &live.lock(), None);
        assert_eq!(file, b"\n");
    }

    #[test]
    fn a_file_says_what_was_asked_for() {
        let live = Live::new(Config::default());
        live.grant(Key::Threads, "2");
        live.grant(Key::MaxClients, "100");
        let pair = (&b"maxclients"[..], &b"50"[..]);
        live.set(&[pair], false, |_, _| Ok(())).unwrap();
        assert_eq!(*live.get(Key::Threads), *"2");
        let file = super::super::rewrite::rewrite(b"threads 0\n", &live.asked(), None);
        let file = String::from_utf8(file).unwrap();
        assert_eq!(
            file,
            "threads 0\n# Generated by CONFIG REWRITE\nmaxclients 50\n"
        );
    }

    #[test]
    fn what_cannot_be_is_brought_to_what_can() {
        let live = Live::new(Config::default());
        for (name, given, taken) in [
            ("hz", "0", "1"),
            ("hz", "1000", "500"),
            ("hz", "100", "100"),
            ("repl-backlog-size", "1", "16384"),
            ("maxmemory", "99999999999999999999", "18446744073709551615"),
        ] {
            let pair = (name.as_bytes(), given.as_bytes());
            live.set(&[pair], false, |_, _| Ok(())).unwrap();
            assert_eq!(*live.matching(&[name.as_bytes()])[0].1, *taken, "{name}");
        }
    }

    #[test]
    fn sets_all_or_none() {
        let live = Live::new(Config::default());
        live.set(
            &[(b"maxclients", b"5"), (b"timeout", b"7")],
            false,
            |_, _| Ok(()),
        )
        .unwrap();
        assert_eq!((live.max_clients(), live.timeout_secs()), (5, 7));
        let error = live
            .set(
                &[(b"maxclients", b"6"), (b"timeout", b"x")],
                false,
                |_, _| Ok(()),
            )
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer"
        );
        assert_eq!((live.max_clients(), live.timeout_secs()), (5, 7));
    }

    #[test]
    fn refuses_in_redis_words() {
        let live = Live::new(Config::default());
        for (pairs, text) in [
            (
                vec![("foo", "1")],
                "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
            ),
            (
                vec![("hz", "10"), ("foo", "bar")],
                "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
            ),
            (
                vec![("databases", "5")],
                "ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
            ),
            (
                vec![("dir", "/tmp")],
                "ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config",
            ),
            (
                vec![("maxclients", "10"), ("MAXCLIENTS", "20")],
                "ERR CONFIG SET failed (possibly related to argument 'MAXCLIENTS') - duplicate parameter",
            ),
        ] {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(a, b)| (a.as_bytes(), b.as_bytes()))
                .collect();
            assert_eq!(
                live.set(&pairs, false, |_, _| Ok(()))
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
    }

    #[test]
    fn patterns_match_names_and_aliases_once() {
        let live = Live::new(Config::default());
        let names = |patterns: &[&[u8]]| {
            live.matching(patterns)
                .iter()
                .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[b"io-threads"]), ["io-threads"]);
        assert_eq!(names(&[b"IO-Threads"]), ["IO-Threads"]);
        assert_eq!(
            names(&[b"MAXMEM*", b"maxmemory"]),
            [
                "maxmemory",
                "maxmemory-policy",
                "maxmemory-samples",
                "maxmemory-eviction-tenacity",
                "maxmemory-clients"
            ]
        );
        assert!(names(&[b"nosuch"]).is_empty());
        assert!(names(&[b"*"]).len() > TABLE.len());
    }
}
