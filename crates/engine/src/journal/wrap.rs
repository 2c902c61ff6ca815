//! What only replicas of this kind are to do, in the stream that all replicas get.
//!
//! State of rate limiters and flags of Memcached's clients have no form in Redis. They are the argument of a PING, which every server passes over that does not
//! know better: so the stream is the same for all, and an offset means the same to all.

use tollgate_keyspace::DbIndex;
use tollgate_wire::resp::write_command;

use super::record::restoring;
use super::unit::{self, Audience};

/// How such an argument begins; a command follows as it would be sent by itself.
const MARK: &[u8] = b"tollgate:";

/// Adds the state of a key, for replicas of this kind: that of a limiter, or that it is gone.
pub(super) fn add(db: DbIndex, key: &[u8], state: Option<&(Vec<u8>, String)>) {
    let mut wrapped = MARK.to_vec();
    match state {
        Some((payload, at)) => write_command(&mut wrapped, &restoring(key, at, payload)),
        None => write_command(&mut wrapped, &[b"DEL", key]),
    }
    unit::for_audience(Audience::REPLICAS, || unit::add(db, &[b"PING", &wrapped]));
}

/// Adds the flags that a Memcached client has given a string, for replicas of this kind and for the append-only file: the string
/// itself is sent in Redis' words, by which they are lost.
pub(super) fn add_flags(db: DbIndex, key: &[u8], flags: u32) {
    unit::add(db, &[b"PING", &wrapped_flags(key, flags)]);
}

/// The argument of the PING that has the flags of a string.
pub(crate) fn wrapped_flags(key: &[u8], flags: u32) -> Vec<u8> {
    let mut wrapped = MARK.to_vec();
    write_command(
        &mut wrapped,
        &[b"MC.FLAGS", key, flags.to_string().as_bytes()],
    );
    wrapped
}

/// The command that is wrapped in another one, if that is one of those.
pub fn unwrap<'a>(words: &[&'a [u8]]) -> Option<&'a [u8]> {
    match words {
        [name, wrapped] if name.eq_ignore_ascii_case(b"PING") => wrapped.strip_prefix(MARK),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_pings_hold_a_command() {
        assert_eq!(unwrap(&[b"PING", b"tollgate:*1"]), Some(&b"*1"[..]));
        for words in [
            &[b"PING" as &[u8]][..],
            &[b"PING", b"tollgate"],
            &[b"ECHO", b"tollgate:*1"],
            &[b"PING", b"tollgate:*1", b"x"],
            &[],
        ] {
            assert_eq!(unwrap(words), None);
        }
    }
}
