//! The log of the server, in Redis' form or that of envoyproxy/ratelimit.
//!
//! Whoever has something to say puts a line into a queue of bounded length and goes on; a thread writes them. When lines come
//! faster than they are written, or the disk is full, lines are lost, and the next one that is written says how many.

mod line;
mod sink;
mod syslog;

use crate::config::{Config, Key};
use sink::{Sink, Target};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use syslog::Syslog;
use tollgate_net::{Clock, threads};

use line::{Entry, NOTHING};
pub use line::{Level, LogForm};

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 1_024;
/// Longest text of a line, in bytes; what is beyond is left out.
const LINE_MAX: usize = 4_096;
/// How long the end of the program waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Queue {
    entries: Vec<Entry>,
    /// Lines that came when the queue was full.
    left_out: u64,
    /// The thread is writing what it has taken.
    writing: bool,
    ending: bool,
}

/// What the threads that speak and the one that writes have in common.
#[derive(Debug, Default)]
struct Lines {
    queue: Mutex<Queue>,
    /// There is something to write, or the end has come.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Entries are put in and taken out whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, entry: Entry) {
        let mut queue = self.lock();
        if queue.entries.len() >= QUEUE_LINES {
            queue.left_out += 1;
            return;
        }
        queue.entries.push(entry);
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits for lines; `None` at the end.
    fn take(&self) -> Option<(Vec<Entry>, u64)> {
        let mut queue = self.lock();
        queue.writing = false;
        while queue.entries.is_empty() {
            self.emptied.notify_all();
            if queue.ending {
                return None;
            }
            let filled = self.filled.wait(queue);
            queue = filled.unwrap_or_else(PoisonError::into_inner);
        }
        queue.writing = true;
        let left_out = std::mem::take(&mut queue.left_out);
        Some((std::mem::take(&mut queue.entries), left_out))
    }
}

/// The log. Dropping it writes what is left.
#[derive(Debug)]
pub struct Log {
    /// The least level that is written.
    threshold: AtomicU8,
    /// The server is a replica.
    replica: AtomicBool,
    /// Its lines go to standard error.
    on_stderr: bool,
    /// Its lines go to the end of this file.
    file: Option<PathBuf>,
    lines: Arc<Lines>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// A log that takes no line, for a server inside another program.
    #[must_use]
    pub fn silent() -> Log {
        Log {
            threshold: AtomicU8::new(NOTHING),
            replica: AtomicBool::new(false),
            on_stderr: false,
            file: None,
            lines: Arc::default(),
            thread: Mutex::default(),
        }
    }

    /// The log that the settings want: to standard error or a file, and to the system's log.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or the system refuses a thread or socket.
    pub fn start(config: &Config) -> Result<Log, String> {
        Log::start_in(config, LogForm::Redis)
    }

    /// The same with lines of another form; those for the system's log have that log's form.
    ///
    /// # Errors
    ///
    /// As [`Log::start`].
    pub fn start_in(config: &Config, form: LogForm) -> Result<Log, String> {
        let target = match log_file(config) {
            None => Target::Stderr,
            Some(path) => {
                sink::open(&path).map_err(|error| {
                    format!(
                        "logfile: Can't open the log file {}: {error}",
                        path.display()
                    )
                })?;
                Target::File(path)
            }
        };
        let syslog = match config.get(Key::SyslogEnabled) {
            "yes" => Some(
                Syslog::new(
                    Path::new(syslog::SOCKET),
                    config.get(Key::SyslogIdent),
                    config.get(Key::SyslogFacility),
                )
                .map_err(|error| format!("syslog-enabled: {error}"))?,
            ),
            _ => None,
        };
        let sink = Sink::new(target, syslog).in_form(form);
        Log::to(sink, config.get(Key::Loglevel))
    }

    fn to(mut sink: Sink, level: &str) -> Result<Log, String> {
        let mut log = Log::silent();
        log.on_stderr = sink.is_stderr();
        log.file = sink.file().map(Path::to_path_buf);
        log.threshold
            .store(line::threshold(level), Ordering::Relaxed);
        let lines = Arc::clone(&log.lines);
        let run = move || {
            while let Some((entries, left_out)) = lines.take() {
                sink.write(&entries, left_out);
            }
        };
        let thread = threads::spawn("tollgate-log".to_owned(), None, run)
            .map_err(|error| format!("no thread for the log: {error}"))?;
        *log.lock_thread() = Some(thread);
        Ok(log)
    }

    fn lock_thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on only what has failed is said, which `loglevel` has no word for.
    pub fn set_errors_only(&self) {
        self.threshold.store(Level::Error as u8, Ordering::Relaxed);
    }

    /// Takes over `loglevel`.
    pub(crate) fn set_level(&self, word: &str) {
        // A silent log has nobody who writes.
        if self.lock_thread().is_some() {
            self.threshold
                .store(line::threshold(word), Ordering::Relaxed);
        }
    }

    /// Whether its lines go to standard error.
    pub fn is_on_stderr(&self) -> bool {
        self.on_stderr
    }

    /// The file that its lines go to.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The lines to come are a replica's, or a master's.
    pub(crate) fn set_replica(&self, replica: bool) {
        self.replica.store(replica, Ordering::Relaxed);
    }

    /// Whether lines of that level are written.
    #[inline]
    pub(crate) fn takes(&self, level: Level) -> bool {
        level as u8 >= self.threshold.load(Ordering::Relaxed)
    }

    /// Says a line, if the level is one that is written.
    pub fn line(&self, level: Level, text: fmt::Arguments<'_>) {
        if self.takes(level) {
            self.put(level, &text.to_string());
        }
    }

    /// Says what is seldom of use.
    pub(crate) fn verbose(&self, text: fmt::Arguments<'_>) {
        self.line(Level::Verbose, text);
    }

    /// Says what an operator wants to know.
    pub fn notice(&self, text: fmt::Arguments<'_>) {
        self.line(Level::Notice, text);
    }

    /// Says what must not be overlooked.
    pub fn warning(&self, text: fmt::Arguments<'_>) {
        self.line(Level::Warning, text);
    }

    /// Says what has failed.
    pub fn error(&self, text: fmt::Arguments<'_>) {
        self.line(Level::Error, text);
    }

    /// A line of a script, whatever bytes it gave; `number` as scripts count the levels.
    pub(crate) fn script_line(&self, number: u8, text: &[u8]) {
        let level = Level::of_script(number);
        if self.takes(level) {
            // What is beyond the longest line is left out anyway.
            let most = text.len().min(LINE_MAX);
            self.put(level, &String::from_utf8_lossy(&text[..most]));
        }
    }

    /// Appends a notice of this moment to `out` as a line of Redis' form, whatever the form and the threshold of the log.
    pub(crate) fn append_notice(&self, text: &str, out: &mut String) {
        let entry = self.entry(Level::Notice, text);
        line::write_as_redis(&entry, std::process::id(), out);
    }

    #[cold]
    fn put(&self, level: Level, text: &str) {
        self.lines.put(self.entry(level, text));
    }

    fn entry(&self, level: Level, text: &str) -> Entry {
        Entry {
            level,
            at: Clock::now(),
            replica: self.replica.load(Ordering::Relaxed),
            text: line::one_line(text, LINE_MAX),
        }
    }

    /// Waits until all lines so far are written, two seconds at most: a disk that hangs must not keep a program from ending.
    pub fn flush(&self) {
        if self.lock_thread().is_none() {
            return;
        }
        let queue = self.lines.lock();
        let unwritten = |queue: &mut Queue| queue.writing || !queue.entries.is_empty();
        // Whether they are written or it took too long makes no difference here.
        drop(
            self.lines
                .emptied
                .wait_timeout_while(queue, LAST_LINES, unwritten),
        );
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
        self.lines.lock().ending = true;
        self.lines.filled.notify_one();
        // The thread ends by itself; one that hangs in the system is left to it.
        drop(self.lock_thread().take());
    }
}

/// The file of `logfile`: a relative name counts from `dir`, as in Redis.
fn log_file(config: &Config) -> Option<PathBuf> {
    match config.get(Key::Logfile) {
        "" => None,
        file => Some(Path::new(config.get(Key::Dir)).join(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_testkit::process::temp_dir;

    #[test]
    fn lines_below_the_level_are_left_out_and_the_level_may_change() {
        let dir = temp_dir().unwrap();
        let mut config = Config::default();
        for (key, value) in [
            (Key::Dir, dir.to_str().unwrap()),
            (Key::Logfile, "a.log"),
            (Key::Loglevel, "warning"),
        ] {
            config.set(key, value).unwrap();
        }
        let log = Log::start(&config).unwrap();
        log.line(Level::Notice, format_args!("one"));
        log.line(Level::Warning, format_args!("two"));
        log.set_level("debug");
        log.set_replica(true);
        log.script_line(0, b"three\nand \xff");
        log.set_level("nothing");
        log.line(Level::Warning, format_args!("four"));
        log.flush();
        let text = std::fs::read_to_string(dir.join("a.log")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].ends_with(" # two") && lines[0].contains(":M "),
            "{text}"
        );
        assert!(
            lines[1].ends_with(" . three\\nand \u{fffd}") && lines[1].contains(":S "),
            "{text}"
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_queue_that_is_full_counts_what_it_leaves_out() {
        let lines = Lines::default();
        for at in 0..QUEUE_LINES + 7 {
            lines.put(Entry {
                level: Level::Notice,
                at: at as i64,
                replica: false,
                text: String::new(),
            });
        }
        let (entries, left_out) = lines.take().unwrap();
        assert_eq!((entries.len(), left_out), (QUEUE_LINES, 7));
        assert_eq!(entries[0].at, 0, "the oldest ones say what came first");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let mut config = Config::default();
        config.set(Key::Logfile, "/nonexistent/a.log").unwrap();
        let error = Log::start(&config).unwrap_err();
        assert!(
            error.starts_with("logfile: Can't open the log file /nonexistent/a.log: "),
            "{error}"
        );
    }
}
