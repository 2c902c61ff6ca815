//! The system's log: one datagram a line, in the form that RFC 3164 describes and local sockets take.

use super::line::{Entry, Level, MONTHS};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use tollgate_net::calendar::LocalTime;

/// Where the system's log listens.
pub(super) const SOCKET: &str = "/dev/log";

/// The system's log.
#[derive(Debug)]
pub(super) struct Syslog {
    socket: UnixDatagram,
    path: PathBuf,
    ident: String,
    facility: u8,
}

impl Syslog {
    /// `facility`: a word of `syslog-facility`.
    ///
    /// # Errors
    ///
    /// The system gives no socket. Whether anybody listens shows when a line is sent.
    pub(super) fn new(path: &Path, ident: &str, facility: &str) -> io::Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        // A system whose log is full must not hold up the rest of ours.
        socket.set_nonblocking(true)?;
        Ok(Syslog {
            socket,
            path: path.to_owned(),
            ident: ident.to_owned(),
            facility: facility_number(facility),
        })
    }

    /// Sends a line; whether it was taken.
    pub(super) fn send(&self, entry: &Entry, pid: u32, time: LocalTime) -> bool {
        let datagram = render(entry, &self.ident, self.facility, pid, time);
        let sent = self.socket.send_to(datagram.as_bytes(), &self.path);
        sent.is_ok()
    }
}

/// By RFC 3164, section 4.1.1.
fn facility_number(word: &str) -> u8 {
    match word.strip_prefix("local").map(str::parse::<u8>) {
        Some(Ok(number)) => 16 + number.min(7),
        _ => 1,
    }
}

fn severity(level: Level) -> u8 {
    match level {
        Level::Debug => 7,
        Level::Verbose => 6,
        Level::Notice => 5,
        Level::Warning => 4,
        Level::Error => 3,
    }
}

fn render(entry: &Entry, ident: &str, facility: u8, pid: u32, time: LocalTime) -> String {
    let priority = facility * 8 + severity(entry.level);
    let month = MONTHS
        .get(usize::from(time.month.saturating_sub(1)))
        .unwrap_or(&"");
    let LocalTime {
        day,
        hour,
        minute,
        second,
        ..
    } = time;
    format!(
        "<{priority}>{month} {day:2} {hour:02}:{minute:02}:{second:02} {ident}[{pid}]: {}",
        entry.text
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_testkit::process::temp_dir;

    #[test]
    fn a_line_reaches_whoever_listens() {
        let dir = temp_dir().unwrap();
        let path = dir.join("log");
        let listener = UnixDatagram::bind(&path).unwrap();
        let syslog = Syslog::new(&path, "tollgate", "local3").unwrap();
        let entry = Entry {
            level: Level::Warning,
            at: 0,
            replica: false,
            text: "out of paper".to_owned(),
        };
        let time = LocalTime {
            year: 2026,
            month: 3,
            day: 7,
            hour: 1,
            minute: 2,
            second: 3,
        };
        assert!(syslog.send(&entry, 42, time));
        let mut bytes = [0; 200];
        let len = listener.recv(&mut bytes).unwrap();
        assert_eq!(
            std::str::from_utf8(&bytes[..len]).unwrap(),
            "<156>Mar  7 01:02:03 tollgate[42]: out of paper"
        );
        drop(listener);
        assert!(!syslog.send(&entry, 42, time), "nobody listens any more");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn facilities_have_their_numbers() {
        assert_eq!(
            ["user", "local0", "local7"].map(facility_number),
            [1, 16, 23]
        );
    }
}
