//! The first words with a master: who asks, and from where it wants to go on.

use super::{Broken, is_timeout, silence};
use crate::config::Key;
use crate::failover;
use crate::node::replication::ABILITY;
use crate::shared::Shared;
use std::io;
use std::time::Duration;
use tollgate_engine::HistoryPlace;
use tollgate_net::outbound::Outbound;
use tollgate_wire::resp::write_command;

/// How long the master may take for one answer (Redis: `CONFIG_REPL_SYNCIO_TIMEOUT`).
const ANSWER: Duration = Duration::from_secs(5);
/// Longest answer, in bytes; what is beyond is left out.
const ANSWER_MAX: usize = 1_024;
/// Length of the name of a history.
const ID_LEN: usize = 40;
/// What this server understands: data without a length, new names for old histories, rate limiters; and at the end, since
/// Redis knows no such word, data as Valkey 9 writes them, who sends hashes whose fields expire to nobody else.
const ABILITIES: [&[u8]; 9] = [
    b"REPLCONF",
    b"capa",
    b"eof",
    b"capa",
    b"psync2",
    b"capa",
    ABILITY,
    b"version",
    b"9.0.0",
];

/// How the master goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// From where this server is; it may have a new name for the history.
    Continued(Option<String>),
    /// From the data that it sends.
    Full(HistoryPlace),
    /// From the data that it sends; it is older than Redis 2.8, does not count what it sends, and hears no acknowledgements.
    Old,
}

/// Says hello and asks for what is missing.
pub(super) fn shake(shared: &Shared, out: &mut Outbound) -> Result<Begun, Broken> {
    out.set_timeout(ANSWER)?;
    let pong = ask(out, &[b"PING"])?;
    // Whoever wants a password first is content with what comes next.
    let fine = ["+", "-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
    if !fine.iter().any(|start| pong.starts_with(start)) {
        return Err(Broken::Master(format!(
            "Error reply to PING from master: '{pong}'"
        )));
    }
    shared.log.notice(format_args!(
        "Master replied to PING, replication can continue..."
    ));
    introduce(shared, out)?;
    let silence = silence(shared);
    let place = shared.engine.place();
    match &place {
        Some(place) => shared.log.notice(format_args!(
            "Trying a partial resynchronization (request {}:{}).",
            place.id,
            place.offset + 1
        )),
        None => shared.log.notice(format_args!(
            "Partial resynchronization not possible (no cached master)"
        )),
    }
    let takes_over = shared.failover.stage() == failover::Stage::InProgress;
    let begun = match psync(out, place.as_ref(), takes_over, silence)? {
        Said::Begun(begun) => begun,
        Said::Unknown(answer) if takes_over => return Err(refused(&answer)),
        Said::Unknown(answer) => {
            shared.log.notice(format_args!(
                "Master does not support PSYNC or is in error state (reply: {answer})"
            ));
            shared.log.notice(format_args!("Retrying with SYNC..."));
            send(out, &[b"SYNC"])?;
            Begun::Old
        }
    };
    shared.failover.succeeded(shared);
    if let Begun::Continued(_) = begun
        && shared.engine.place() != place
    {
        // Something has changed the data since: they are of no history any more.
        return Err(Broken::Master("the data were changed meanwhile".to_owned()));
    }
    out.set_timeout(silence)?;
    Ok(begun)
}

fn introduce(shared: &Shared, out: &mut Outbound) -> Result<(), Broken> {
    let get = |key| shared.settings.get(key);
    let (user, password) = (get(Key::Masteruser), get(Key::Masterauth));
    if !password.is_empty() {
        let mut words: Vec<&[u8]> = vec![b"AUTH"];
        if !user.is_empty() {
            words.push(user.as_bytes());
        }
        words.push(password.as_bytes());
        let answer = ask(out, &words)?;
        if answer.starts_with('-') {
            let reason = format!("Unable to AUTH to MASTER: {answer}");
            return Err(Broken::Master(reason));
        }
    }
    let announced = get(Key::ReplicaAnnouncePort);
    let by_tls =
        shared.settings.is_set(Key::TlsReplication) && &*shared.settings.get(Key::TlsPort) != "0";
    let port = match &*announced {
        "0" if by_tls => get(Key::TlsPort),
        "0" => get(Key::Port),
        _ => announced,
    };
    // Masters that do not know these go on without them.
    ask(out, &[b"REPLCONF", b"listening-port", port.as_bytes()])?;
    let address = get(Key::ReplicaAnnounceIp);
    if !address.is_empty() {
        ask(out, &[b"REPLCONF", b"ip-address", address.as_bytes()])?;
    }
    ask(out, &ABILITIES)?;
    Ok(())
}

/// What a master says to PSYNC.
enum Said {
    Begun(Begun),
    /// It does not know it, or has another reason; this is its answer.
    Unknown(String),
}

fn refused(answer: &str) -> Broken {
    Broken::Refused(format!("the master answers PSYNC with '{answer}'"))
}

fn psync(
    out: &mut Outbound,
    place: Option<&HistoryPlace>,
    takes_over: bool,
    silence: Duration,
) -> Result<Said, Broken> {
    let next = place.map_or("-1".to_owned(), |place| (place.offset + 1).to_string());
    let id = place.map_or("?", |place| &place.id);
    let mut words: Vec<&[u8]> = vec![b"PSYNC", id.as_bytes(), next.as_bytes()];
    // A replica that has everything is to be the master.
    words.extend(takes_over.then_some(&b"FAILOVER"[..]));
    send(out, &words)?;
    out.set_timeout(silence)?;
    let answer = loop {
        let line = line(out)?;
        // Signs of life, while the master prepares its data.
        if !line.is_empty() {
            break line;
        }
    };
    match read_answer(&answer) {
        Some(Begun::Continued(_)) if place.is_none() => Err(Broken::Master(
            "the master wants to go on from where this server is not".to_owned(),
        )),
        Some(begun) => Ok(Said::Begun(begun)),
        None if answer.starts_with("-ERR") => Ok(Said::Unknown(answer)),
        // `-NOMASTERLINK`, `-LOADING`, or no master at all: later.
        None => Err(refused(&answer)),
    }
}

/// What an answer to PSYNC means; `None` when it is none.
fn read_answer(answer: &str) -> Option<Begun> {
    let mut words = answer.split(' ').filter(|word| !word.is_empty());
    match words.next()? {
        "+CONTINUE" => {
            let id = words.next().filter(|id| id.len() == ID_LEN);
            Some(Begun::Continued(id.map(ToOwned::to_owned)))
        }
        "+FULLRESYNC" => {
            let id = words.next().filter(|id| id.len() == ID_LEN)?;
            // A number with a sign, as everywhere: what is added to it later must fit as well.
            let offset: i64 = words.next()?.parse().ok()?;
            Some(Begun::Full(HistoryPlace {
                id: id.to_owned(),
                offset: offset.try_into().ok()?,
            }))
        }
        _ => None,
    }
}

fn send(out: &mut Outbound, words: &[&[u8]]) -> io::Result<()> {
    let mut bytes = Vec::new();
    write_command(&mut bytes, words);
    out.send(&bytes)
}

fn ask(out: &mut Outbound, words: &[&[u8]]) -> Result<String, Broken> {
    send(out, words)?;
    line(out)
}

fn line(out: &mut Outbound) -> Result<String, Broken> {
    match out.line(ANSWER_MAX) {
        Ok(line) => Ok(String::from_utf8_lossy(&line).into_owned()),
        Err(error) if is_timeout(&error) => Err(Broken::Master(
            "Timeout connecting to the MASTER...".to_owned(),
        )),
        Err(error) => Err(Broken::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_psync_are_understood() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let full = |offset| {
            Some(Begun::Full(HistoryPlace {
                id: id.to_owned(),
                offset,
            }))
        };
        for (answer, means) in [
            ("+CONTINUE".to_owned(), Some(Begun::Continued(None))),
            (
                format!("+CONTINUE {id}"),
                Some(Begun::Continued(Some(id.to_owned()))),
            ),
            (format!("+FULLRESYNC {id} 17"), full(17)),
            (format!("+FULLRESYNC {id} -1"), None),
            (format!("+FULLRESYNC {id} {}", u64::MAX), None),
            (format!("+FULLRESYNC {id}"), None),
            ("+FULLRESYNC abc 1".to_owned(), None),
            ("-NOMASTERLINK Can't SYNC".to_owned(), None),
            ("HTTP/1.1 400 Bad Request".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(read_answer(&answer), means, "{answer}");
        }
    }
}
