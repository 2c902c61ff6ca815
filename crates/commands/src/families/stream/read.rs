//! XREAD, and what it shares with XREADGROUP.

use tollgate_containers::number;
use tollgate_containers::stream::{Stream, StreamId};
use tollgate_keyspace::{Key, Seed};
use tollgate_wire::resp::{Protocol, ReplyBuf};

use super::{ids, write_entries};
use crate::{Again, Args, CmdError, Cx, Origin, Reply};

/// Most entries of one stream for a client that has waited and said no number.
const COUNT_AFTER_WAITING: &[u8] = b"1000";

/// The words of XREAD and XREADGROUP.
pub(super) struct Request<'a> {
    words: &'a [&'a [u8]],
    /// Most entries of each stream; 0 = all.
    pub(super) count: usize,
    /// Whether it waits when there is nothing, and until when (Unix milliseconds; `None` = for ever).
    block: Option<Option<i64>>,
    /// Group and consumer.
    pub(super) group: Option<(&'a [u8], &'a [u8])>,
    pub(super) no_ack: bool,
    /// Milliseconds after which what was delivered to anybody and not acknowledged is taken over.
    pub(super) claim: Option<i64>,
    /// The first key among the words.
    first_key: usize,
    /// Number of streams.
    pub(super) streams: usize,
}

impl<'a> Request<'a> {
    pub(super) fn parse(
        cx: &Cx<'_>,
        mut args: Args<'a>,
        for_group: bool,
    ) -> Result<Request<'a>, CmdError> {
        let mut request = Request {
            words: args.all(),
            count: 0,
            block: None,
            group: None,
            no_ack: false,
            claim: None,
            first_key: 0,
            streams: 0,
        };
        let only = |option: &str| {
            let tail = "option is only supported by XREADGROUP. You called XREAD instead.";
            CmdError::err(format!("The {option} {tail}"))
        };
        while !args.is_empty() {
            let more = args.len() > 1;
            if more && args.keyword("BLOCK") {
                if cx.origin == Origin::Script {
                    return Err(not_from_script(request.words[0]));
                }
                request.block = Some(args.timeout_ms(cx.now_ms())?);
            } else if more && args.keyword("COUNT") {
                request.count = args.int()?.max(0) as usize;
            } else if more && args.keyword("STREAMS") {
                request.first_key = request.words.len() - args.len();
                if !args.len().is_multiple_of(2) {
                    return Err(CmdError::err(
                        "Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    ));
                }
                request.streams = args.len() / 2;
                break;
            } else if args.len() > 2 && args.keyword("GROUP") {
                if !for_group {
                    return Err(only("GROUP"));
                }
                request.group = Some((args.next()?, args.next()?));
            } else if more && args.keyword("CLAIM") {
                if !for_group {
                    return Err(only("CLAIM"));
                }
                request.claim = Some(idle_ms(args.next()?)?);
            } else if args.keyword("NOACK") {
                if !for_group {
                    return Err(only("NOACK"));
                }
                request.no_ack = true;
            } else {
                return Err(CmdError::Syntax);
            }
        }
        match request.streams {
            0 => Err(CmdError::Syntax),
            _ if for_group && request.group.is_none() => {
                Err(CmdError::err("Missing GROUP option for XREADGROUP"))
            }
            _ => Ok(request),
        }
    }

    pub(super) fn key(&self, seed: &Seed, at: usize) -> Key<'a> {
        seed.key(self.words[self.first_key + at])
    }

    pub(super) fn id_word(&self, at: usize) -> &'a [u8] {
        self.words[self.first_key + self.streams + at]
    }

    /// Counts the second look that Redis takes at every stream: once for the ID, and once for what is behind it.
    pub(super) fn look_again(&self, cx: &mut Cx<'_>) {
        for at in 0..self.streams {
            cx.look(self.key(cx.seed, at), |_| ());
        }
    }

    /// Most entries of each stream.
    pub(super) fn most(&self) -> usize {
        if self.count == 0 {
            usize::MAX
        } else {
            self.count
        }
    }

    /// The answer when there is nothing to give. A command that waits is run again with these IDs in place of its own
    /// and with a bound on what it returns: an ID too low must not let a push return the whole stream. At `look_at_ms` it is
    /// run again in any case.
    pub(super) fn wait(
        &self,
        cx: &mut Cx<'_>,
        ids: Option<&[StreamId]>,
        look_at_ms: Option<i64>,
    ) -> Reply {
        let Some(deadline_ms) = self.block else {
            return Reply::NullArray;
        };
        if cx.may_block {
            let mut words: Vec<Box<[u8]>> = self.words.iter().map(|&word| word.into()).collect();
            for (at, id) in ids.unwrap_or_default().iter().enumerate() {
                let text = id.write(&mut [0; StreamId::TEXT_LEN]).into();
                words[self.first_key + self.streams + at] = text;
            }
            if self.count == 0 {
                let bound = [b"COUNT".as_slice(), COUNT_AFTER_WAITING].map(Box::from);
                let streams = self.first_key - 1;
                words.splice(streams..streams, bound);
            }
            cx.retry_as = Some(Again { words, look_at_ms });
        }
        cx.wait_or(deadline_ms, Reply::NullArray)
    }
}

fn idle_ms(word: &[u8]) -> Result<i64, CmdError> {
    match number::parse_i64(word).ok_or(CmdError::IdleNotAnInteger)? {
        idle_ms @ 0.. => Ok(idle_ms),
        _ => Err(CmdError::NegativeIdle),
    }
}

#[cold]
fn not_from_script(name: &[u8]) -> CmdError {
    CmdError::err(
        [
            name,
            b" command is not allowed with BLOCK option from scripts",
        ]
        .concat(),
    )
}

/// Begins the answer: streams with their entries.
pub(super) fn write_head(out: &mut ReplyBuf, streams: usize) {
    match out.protocol() {
        Protocol::Resp2 => out.array(streams),
        Protocol::Resp3 => out.map(streams),
    }
}

/// Begins the entries of one stream.
pub(super) fn write_key(out: &mut ReplyBuf, key: &[u8]) {
    if out.protocol() == Protocol::Resp2 {
        out.array(2);
    }
    out.bulk(key);
}

pub(super) fn xread(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let request = Request::parse(cx, args, false)?;
    let mut after = Vec::with_capacity(request.streams);
    let mut ready = Vec::new();
    for at in 0..request.streams {
        let key = request.key(cx.seed, at);
        let seen = cx.read_as::<Stream>(key)?;
        let log = seen.map(|seen| seen.value.log());
        let last = log.and_then(|log| log.last());
        let id = match request.id_word(at) {
            b"$" => log.map_or(StreamId::MIN, |log| log.last_id()),
            b"+" => match last {
                // The entry before the last, if there is one: what is behind it is the last.
                Some(entry) => entry.id().previous().unwrap_or(StreamId::MIN),
                None => log.map_or(StreamId::MIN, |log| log.last_id()),
            },
            b">" => {
                return Err(CmdError::err(
                    "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            word => ids::id(word)?,
        };
        if last.is_some_and(|last| last.id() > id) {
            ready.push(at);
        }
        after.push(id);
    }
    if ready.is_empty() {
        request.look_again(cx);
        return Ok(request.wait(cx, Some(&after), None));
    }
    write_head(cx.out, ready.len());
    let mut ready = ready.into_iter().peekable();
    for (at, after) in after.into_iter().enumerate() {
        let key = request.key(cx.seed, at);
        if ready.next_if_eq(&at).is_none() {
            cx.look(key, |_| ());
            continue;
        }
        let Some(seen) = cx.read_as::<Stream>(key)? else {
            continue;
        };
        write_key(seen.out, key.bytes());
        let start = after.next().unwrap_or(StreamId::MAX);
        let entries = seen.value.log().range(start, StreamId::MAX);
        write_entries(seen.out, entries, request.count);
    }
    Ok(Reply::Written)
}
