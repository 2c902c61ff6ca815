//! Taking over all data of a master: received into a file without a name, looked through, and only then loaded, so that what
//! is cut off, damaged or not understood leaves this server with the data it had.

use super::{Broken, Order, Progress, is_timeout, silence};
use crate::aof;
use crate::config::Key;
use crate::shared::Shared;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tollgate_engine::{AdoptError, Engine, HistoryPlace};
use tollgate_limiter::Timestamp;
use tollgate_net::outbound::Outbound;
use tollgate_net::{Clock, files};

/// Bytes read at a time.
const PART: usize = 256 * 1024;
/// Longest line before the data, in bytes.
const HEADER_MAX: usize = 1_024;
/// Length of the mark that ends data of unknown length.
const MARK_LEN: usize = 40;
/// Time between two signs of life while the data are read from the file.
const SIGN: i64 = 1_000_000_000;
/// How long a read waits before it is looked whether the link is still wanted.
const LOOK: Duration = Duration::from_secs(1);

/// What the log says, in Redis' words, which operators look for.
const STOPPED: &str = "Timeout receiving bulk data from MASTER... If the problem persists try to set the \
                       'repl-timeout' parameter in redis.conf to a larger value.";

/// Where the data end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// After so many bytes.
    Length(u64),
    /// Before this mark, behind which nothing is sent until the master has been told that all is there.
    Mark([u8; MARK_LEN]),
}

/// Takes over the data that `place` names.
pub(super) fn take_over(
    shared: &Arc<Shared>,
    order: Order,
    out: &mut Outbound,
    place: &HistoryPlace,
) -> Result<(), Broken> {
    let mut file = receive(shared, order, out)?;
    let engine = &shared.engine;
    let checked = Engine::check(&mut Signs::new(shared, order, out, &mut file));
    checked.map_err(|error| {
        Broken::Master(format!("the data of the master cannot be used: {error}"))
    })?;
    file.rewind()?;
    let now = Timestamp::from_nanos(Clock::now());
    let mut source = Signs::new(shared, order, out, &mut file);
    shared.log.notice(format_args!(
        "MASTER <-> REPLICA sync: Loading DB in memory"
    ));
    // The file of the old data says nothing of the new ones: it begins anew with them.
    aof::pause(shared);
    let adopted = engine.adopt(order.following, place, &mut source, now);
    // Where they could not be loaded there is nothing, and the file of the old data is the last that is left of them.
    if !matches!(adopted, Err(AdoptError::Broken(_))) {
        aof::resume(shared);
    }
    match adopted {
        Ok(loaded) => {
            shared.log.notice(format_args!(
                "Done loading RDB, keys loaded: {}, keys expired: {}.",
                loaded.keys, loaded.expired
            ));
            Ok(())
        }
        Err(AdoptError::Over) => Err(Broken::Over),
        Err(AdoptError::Broken(error)) => Err(Broken::Master(format!(
            "the data of the master could not be loaded: {error}"
        ))),
    }
}

/// The data in a file, read from its beginning.
fn receive(shared: &Shared, order: Order, out: &mut Outbound) -> Result<File, Broken> {
    let end = loop {
        let line = out.line(HEADER_MAX)?;
        // Signs of life.
        if line.is_empty() {
            continue;
        }
        break read_header(&line).ok_or_else(|| {
            let line = String::from_utf8_lossy(&line).into_owned();
            Broken::Master(format!("the master sends '{line}' instead of its data"))
        })?;
    };
    match &end {
        End::Length(total) => shared.log.notice(format_args!(
            "MASTER <-> REPLICA sync: receiving {total} bytes from master to disk"
        )),
        End::Mark(_) => shared.log.notice(format_args!(
            "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to disk"
        )),
    }
    let name = format!("temp-{}-link-{}.rdb", std::process::id(), order.number);
    let dir = shared.settings.get(Key::Dir);
    let file = files::nameless(Path::new(&*dir), &name)?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let total = match &end {
        End::Length(total) => Some(*total),
        End::Mark(_) => None,
    };
    let mut progress = Progress {
        total,
        read: 0,
        at: Clock::now(),
    };
    let mut receipt = Receipt::new(end);
    let mut part = vec![0; PART];
    out.set_timeout(LOOK)?;
    while !receipt.is_whole() {
        shared
            .link
            .note(order.number, |facts| facts.progress = progress)?;
        let most = receipt.wanted().min(PART as u64) as usize;
        let len = match out.read(&mut part[..most]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(len) => len,
            Err(error) if is_timeout(&error) => {
                let silent = Clock::now() - progress.at;
                if silent > silence(shared).as_nanos() as i64 {
                    return Err(Broken::Master(STOPPED.to_owned()));
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        progress.read += len as u64;
        let came = &shared.metrics.from_master;
        came.fetch_add(len as u64, Ordering::Relaxed);
        progress.at = Clock::now();
        receipt.take(&part[..len], &mut file)?;
    }
    file.flush()?;
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

/// What the line before the data says; `None` when it is none.
fn read_header(line: &[u8]) -> Option<End> {
    let rest = line.strip_prefix(b"$")?;
    if let Some(mark) = rest.strip_prefix(b"EOF:") {
        return mark.try_into().ok().map(End::Mark);
    }
    let digits = std::str::from_utf8(rest).ok()?;
    digits.parse().ok().map(End::Length)
}

/// How much of the data has come.
struct Receipt {
    end: End,
    taken: u64,
    /// The last bytes, which may be the mark: they are written when more come.
    tail: Vec<u8>,
}

impl Receipt {
    fn new(end: End) -> Receipt {
        Receipt {
            end,
            taken: 0,
            tail: Vec::new(),
        }
    }

    fn is_whole(&self) -> bool {
        match &self.end {
            End::Length(total) => self.taken == *total,
            End::Mark(mark) => self.tail == mark,
        }
    }

    /// Bytes that may be read: none of what is behind the data.
    fn wanted(&self) -> u64 {
        match &self.end {
            End::Length(total) => total - self.taken,
            End::Mark(_) => u64::MAX,
        }
    }

    fn take(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        self.taken += bytes.len() as u64;
        if let End::Length(_) = self.end {
            return out.write_all(bytes);
        }
        self.tail.extend_from_slice(bytes);
        let done = self.tail.len().saturating_sub(MARK_LEN);
        out.write_all(&self.tail[..done])?;
        self.tail.drain(..done);
        Ok(())
    }
}

/// A file that is read while the master is told now and then that this server is alive, until the link is not wanted any
/// more.
struct Signs<'a> {
    shared: &'a Shared,
    order: Order,
    out: &'a mut Outbound,
    file: &'a mut File,
    /// Monotone nanoseconds.
    signed_at: i64,
}

impl<'a> Signs<'a> {
    fn new(
        shared: &'a Shared,
        order: Order,
        out: &'a mut Outbound,
        file: &'a mut File,
    ) -> Signs<'a> {
        Signs {
            shared,
            order,
            out,
            file,
            signed_at: Clock::monotone(),
        }
    }
}

impl Read for Signs<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let now = Clock::monotone();
        if now - self.signed_at >= SIGN {
            self.signed_at = now;
            if !self.shared.link.is_wanted(self.order.number) {
                return Err(io::Error::other("another master is followed"));
            }
            // Once the data are here, loading them is worth it also when the master has gone.
            drop(self.out.send(b"\n"));
        }
        self.file.read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_lengths_or_marks() {
        assert_eq!(read_header(b"$17"), Some(End::Length(17)));
        let mark = [b'x'; MARK_LEN];
        let header = [b"$EOF:", &mark[..]].concat();
        assert_eq!(read_header(&header), Some(End::Mark(mark)));
        for wrong in [
            &b"17"[..],
            b"$",
            b"$-1",
            b"$99999999999999999999",
            b"$EOF:short",
            b"-ERR no",
            b"\xff$1",
        ] {
            assert_eq!(read_header(wrong), None);
        }
    }

    #[test]
    fn the_mark_is_found_however_it_comes() {
        let mark: [u8; MARK_LEN] = std::array::from_fn(|at| at as u8);
        let data: Vec<u8> = (0..200).map(|at| (at % 7) as u8).collect();
        let all = [&data[..], &mark].concat();
        for size in 1..all.len() {
            let mut receipt = Receipt::new(End::Mark(mark));
            let mut written = Vec::new();
            for part in all.chunks(size) {
                assert!(!receipt.is_whole());
                receipt.take(part, &mut written).expect("it is taken");
            }
            assert!(receipt.is_whole(), "parts of {size}");
            assert_eq!(written, data);
        }
    }

    #[test]
    fn a_length_is_never_overrun() {
        let mut receipt = Receipt::new(End::Length(5));
        let mut written = Vec::new();
        assert_eq!(receipt.wanted(), 5);
        receipt.take(b"abc", &mut written).expect("it is taken");
        assert_eq!(receipt.wanted(), 2);
        receipt.take(b"de", &mut written).expect("it is taken");
        assert!(receipt.is_whole());
        assert_eq!(written, b"abcde");
        assert!(Receipt::new(End::Length(0)).is_whole());
    }
}
