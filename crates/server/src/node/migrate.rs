//! MIGRATE: sends keys to another server and removes those that it has taken.

use crate::shared::Shared;
use crate::tls;
use std::time::Duration;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, Parcel};
use tollgate_limiter::Timestamp;
use tollgate_net::Clock;
use tollgate_net::outbound::{Outbound, Route};
use tollgate_wire::resp::write_command;

/// Milliseconds when none, or less, are given.
const USUAL_TIMEOUT: i64 = 1_000;
/// Longest line of the target that is looked at, in bytes.
const LINE_MAX: usize = 1_024;

/// What the words ask for.
struct Request<'a> {
    host: &'a [u8],
    port: &'a [u8],
    keys: &'a [&'a [u8]],
    db: i64,
    timeout: Duration,
    copy: bool,
    replace: bool,
    user: Option<&'a [u8]>,
    password: Option<&'a [u8]>,
    route: Route,
}

impl<'a> Request<'a> {
    fn parse(words: &'a [&'a [u8]]) -> Result<Request<'a>, CmdError> {
        let [_, host, port, _, db, timeout, ref options @ ..] = *words else {
            return Err(CmdError::Syntax);
        };
        let mut request = Request {
            host,
            port,
            keys: &words[3..4],
            db: 0,
            timeout: Duration::ZERO,
            copy: false,
            replace: false,
            user: None,
            password: None,
            route: Route::default(),
        };
        let mut options = options;
        while let [option, rest @ ..] = options {
            options = rest;
            match (&option.to_ascii_uppercase()[..], rest) {
                (b"COPY", _) => request.copy = true,
                (b"REPLACE", _) => request.replace = true,
                (b"AUTH", [password, rest @ ..]) => {
                    request.password = Some(password);
                    options = rest;
                }
                (b"AUTH2", [user, password, rest @ ..]) => {
                    (request.user, request.password) = (Some(*user), Some(*password));
                    options = rest;
                }
                (b"KEYS", _) if !words[3].is_empty() => {
                    return Err(CmdError::err(
                        "When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                (b"KEYS", keys) => {
                    request.keys = keys;
                    break;
                }
                _ => return Err(CmdError::Syntax),
            }
        }
        let millis = number::parse_i64(timeout).ok_or(CmdError::NotAnInteger)?;
        request.db = number::parse_i64(db).ok_or(CmdError::NotAnInteger)?;
        let millis = if millis <= 0 { USUAL_TIMEOUT } else { millis };
        request.timeout = Duration::from_millis(millis.unsigned_abs());
        Ok(request)
    }

    /// The commands that make the target take the keys.
    fn commands(&self, parcels: &[Parcel<'_>], now: Timestamp) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(password) = self.password {
            let mut words: Vec<&[u8]> = vec![b"AUTH"];
            words.extend(self.user);
            words.push(password);
            write_command(&mut out, &words);
        }
        write_command(&mut out, &[b"SELECT", self.db.to_string().as_bytes()]);
        for parcel in parcels {
            let left = |at: i64| at.saturating_sub(now.millis()).max(1);
            let ttl = parcel.expires_at_ms.map_or(0, left).to_string();
            let mut words: Vec<&[u8]> =
                vec![b"RESTORE", parcel.key, ttl.as_bytes(), &parcel.payload];
            if self.replace {
                words.push(b"REPLACE");
            }
            write_command(&mut out, &words);
        }
        out
    }

    /// Sends the keys; those that the target has taken go to `taken`.
    fn send(&self, parcels: &[Parcel<'_>], taken: &mut Vec<usize>) -> Result<Reply, CmdError> {
        let mut target = self.connect()?;
        let now = Timestamp::from_nanos(Clock::now());
        target
            .send(&self.commands(parcels, now))
            .map_err(|_| CmdError::MigrateWrite)?;
        // What is neither a status nor an error does not come from a store, and has taken nothing.
        let mut line = || match target.line(LINE_MAX) {
            Ok(answer) if matches!(answer.first(), Some(b'+' | b'-')) => Ok(answer),
            _ => Err(CmdError::MigrateRead),
        };
        let mut refused: Option<Vec<u8>> = None;
        // The answers to AUTH and SELECT: when one is an error, no key counts as taken.
        let mut opening = None;
        for _ in 0..1 + usize::from(self.password.is_some()) {
            let answer = line()?;
            if answer.first() == Some(&b'-') {
                opening.get_or_insert(answer);
            }
        }
        for at in 0..parcels.len() {
            let answer = match line() {
                Ok(answer) => answer,
                Err(error) if refused.is_none() => return Err(error),
                Err(_) => break,
            };
            match opening
                .as_ref()
                .or((answer.first() == Some(&b'-')).then_some(&answer))
            {
                Some(error) => {
                    refused.get_or_insert_with(|| error.clone());
                }
                None if self.copy => {}
                None => taken.push(at),
            }
        }
        match refused {
            None => Ok(Reply::Ok),
            Some(error) => Err(CmdError::err(
                [b"Target instance replied with error: ", &error[1..]].concat(),
            )),
        }
    }

    fn connect(&self) -> Result<Outbound, CmdError> {
        let text = |word| std::str::from_utf8(word).map_err(|_| CmdError::MigrateConnect);
        let port = text(self.port)?.parse();
        let port = port.map_err(|_| CmdError::MigrateConnect)?;
        Outbound::connect(text(self.host)?, port, self.timeout, &self.route).map_err(|error| {
            match error.kind() {
                // Redis learns of it when it writes.
                std::io::ErrorKind::ConnectionRefused => CmdError::MigrateWrite,
                _ => CmdError::MigrateConnect,
            }
        })
    }
}

pub(super) fn migrate(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let mut request = Request::parse(cx.args.all())?;
    request.route.tls = tls::connector(shared).map_err(|reason| {
        shared.log.warning(format_args!("MIGRATE: {reason}"));
        CmdError::MigrateConnect
    })?;
    let send = |parcels: &[Parcel<'_>], taken: &mut Vec<usize>| request.send(parcels, taken);
    cx.engine
        .hand_over(cx.session, request.keys, cx.now, send)
        .unwrap_or(Ok(Reply::Simple("NOKEY")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(usize, bool, bool), Vec<u8>> {
        let words: Vec<&[u8]> = line
            .split(' ')
            .map(|word| if word == "_" { b"" } else { word.as_bytes() })
            .collect();
        Request::parse(&words)
            .map(|request| (request.keys.len(), request.copy, request.replace))
            .map_err(|error| error.to_line().into_owned())
    }

    #[test]
    fn options_are_read_as_redis_reads_them() {
        assert_eq!(parse("MIGRATE h 1 k 0 10"), Ok((1, false, false)));
        assert_eq!(
            parse("MIGRATE h 1 _ 0 10 copy KEYS a b c"),
            Ok((3, true, false))
        );
        assert_eq!(
            parse("MIGRATE h 1 _ 0 10 AUTH2 u keys REPLACE"),
            Ok((1, false, true))
        );
        let syntax = Err(b"ERR syntax error".to_vec());
        assert_eq!(parse("MIGRATE h 1 k 0 10 AUTH"), syntax);
        assert_eq!(parse("MIGRATE h 1 k 0 10 AUTH2 u"), syntax);
        assert_eq!(parse("MIGRATE h 1 k x y nonsense"), syntax);
        let integer = Err(b"ERR value is not an integer or out of range".to_vec());
        assert_eq!(parse("MIGRATE h 1 k 0 x"), integer);
        assert!(parse("MIGRATE h 1 k 0 10 KEYS a").is_err());
    }
}
