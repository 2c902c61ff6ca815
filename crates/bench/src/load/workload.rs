//! Requests rendered before the run, and how their replies are judged.

use tollgate_wire::resp;

use super::connection::Framing;
use super::http::{self, HttpAsk};
use super::memcache::MemcacheAsk;
use super::operation::Decision;
use super::plain::Plain;
use super::tally::Verdict;

/// Bytes of the values that SET writes where nothing else is asked for.
pub(crate) const VALUE_LENGTH: usize = 16;

/// The fixed window most applications use: INCR, EXPIRE on the first hit. Answers 1 for allowed, 0 for denied.
///
/// `KEYS[1]` the counter, `ARGV[1]` the limit, `ARGV[2]` the window in seconds.
pub(crate) const FIXED_WINDOW_SCRIPT: &str = "local current = redis.call('INCR', KEYS[1]) \
if current == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end \
if current > tonumber(ARGV[1]) then return 0 end \
return 1";

/// A limit of `limit` requests per window of `window_s` seconds, per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Requests allowed per window.
    pub limit: u64,
    /// Length of the window in seconds.
    pub window_s: u64,
}

/// What every request of a workload asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `RL.TAKE key FIXED limit window-ms`.
    RlTake(Rule),
    /// `CL.THROTTLE key limit-1 limit window-s`: GCRA with a burst of the whole limit.
    ClThrottle(Rule),
    /// `EVALSHA` of [`FIXED_WINDOW_SCRIPT`].
    Evalsha {
        /// The script's SHA-1 as the server gave it.
        sha: String,
        /// The limit.
        rule: Rule,
    },
    /// `GET key`.
    Get,
    /// `SET key value`, with a value of this many bytes.
    Set(usize),
    /// `INCR key`.
    Incr,
    /// Another command that decides nothing.
    Plain(&'static Plain),
    /// A decision of the table of operations.
    Decision(Box<Decision>),
    /// A request of memcached's text protocol.
    Memcache(MemcacheAsk),
    /// An HTTP request, under the limit that it may state.
    Http(Box<HttpAsk>, Rule),
}

/// Line of a decision's array that holds the wait: after the array's head, the verdict, the limit and what remains.
const PROMISE_LINE: usize = 4;

/// How a reply is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The first integer of an array is 1 for allowed.
    ArrayOneAllows,
    /// The first integer of an array is 0 for allowed.
    ArrayZeroAllows,
    /// An integer, 1 for allowed.
    IntOneAllows,
    /// The same from a script, whose waits are microseconds.
    ScriptOneAllows,
    /// The same from throttlecrab, whose reset comes before the wait.
    CrabOneAllows,
    /// The second integer of an array is 1 for allowed: what INCREX added.
    ArraySecondOneAllows,
    /// Anything but an error is good.
    Anything,
    /// An error that begins with this is good, and nothing else.
    Refused(&'static str),
    /// An answer of memcached to this.
    Memcache(MemcacheAsk),
    /// The status of an HTTP answer.
    Http,
}

/// The requests of all keys, ready to be written.
#[derive(Clone, Debug)]
pub struct Workload {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    reading: Reading,
}

impl Workload {
    /// Renders `ask` for the keys `prefix0`, `prefix1`, ... (`keys` of them).
    #[must_use]
    pub fn render(ask: &Ask, prefix: &str, keys: u32) -> Workload {
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(keys as usize);
        for index in 0..keys {
            ask.write(&mut bytes, format!("{prefix}{index}").as_bytes());
            ends.push(bytes.len());
        }
        Workload {
            bytes,
            ends,
            reading: ask.reading(),
        }
    }

    /// The requests that fill what `plain` reads, each to be sent once; none where nothing must be there.
    #[must_use]
    pub(crate) fn filling(plain: &'static Plain, prefix: &str, keys: u32) -> Workload {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for index in 0..plain.keys_max.map_or(0, |most| most.min(keys)) {
            for request in plain.fill(format!("{prefix}{index}").as_bytes()) {
                bytes.extend_from_slice(&request);
                ends.push(bytes.len());
            }
        }
        Workload {
            bytes,
            ends,
            reading: Reading::Anything,
        }
    }

    /// The requests that must be sent once so that `ask` finds what it reads; `None` where nothing must be there.
    #[must_use]
    pub(crate) fn filling_for(ask: &Ask, prefix: &str, keys: u32) -> Option<Workload> {
        match ask {
            Ask::Get => Some(Workload::render(&Ask::Set(VALUE_LENGTH), prefix, keys)),
            Ask::Plain(plain) => {
                Some(Workload::filling(plain, prefix, keys)).filter(|filling| filling.keys() > 0)
            }
            Ask::Memcache(asked) => {
                let (mut bytes, mut ends) = (Vec::new(), Vec::new());
                for index in 0..keys {
                    bytes.extend(asked.fill(&format!("{prefix}{index}"), VALUE_LENGTH)?);
                    ends.push(bytes.len());
                }
                let reading = Reading::Memcache(MemcacheAsk::Set(VALUE_LENGTH));
                Some(Workload {
                    bytes,
                    ends,
                    reading,
                })
            }
            _ => None,
        }
    }

    /// How the answers are cut.
    #[must_use]
    pub(crate) fn framing(&self) -> Framing {
        match self.reading {
            Reading::Memcache(_) => Framing::Memcache,
            Reading::Http => Framing::Http1,
            _ => Framing::Resp,
        }
    }

    /// The request of key `key`.
    #[inline]
    #[must_use]
    pub fn request(&self, key: u32) -> &[u8] {
        let key = key as usize;
        let from = if key == 0 { 0 } else { self.ends[key - 1] };
        &self.bytes[from..self.ends[key]]
    }

    /// Number of keys.
    #[must_use]
    pub(crate) fn keys(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Judges a whole reply frame.
    #[inline]
    #[must_use]
    pub fn verdict(&self, frame: &[u8]) -> Verdict {
        match self.reading {
            Reading::Http => return http::verdict(frame),
            Reading::Memcache(asked) => return asked.verdict(frame),
            _ => {}
        }
        if let ([b'-', error @ ..], Reading::Refused(code)) = (frame, self.reading)
            && error.starts_with(code.as_bytes())
        {
            return Verdict::Allowed;
        }
        let (first, number) = match frame.first() {
            Some(b'-' | b'!') => return Verdict::Error,
            Some(_) if self.reading == Reading::Anything => return Verdict::Allowed,
            Some(b':') => (b':', int_at(frame, 0)),
            // An array whose first element is an integer: "*5\r\n:1\r\n...".
            Some(b'*') => match frame.iter().position(|&b| b == b'\n') {
                Some(at) if self.reading == Reading::ArraySecondOneAllows => {
                    (b'*', second_int(frame, at + 1))
                }
                Some(at) => (b'*', int_at(frame, at + 1)),
                None => return Verdict::Unexpected,
            },
            _ => return Verdict::Unexpected,
        };
        match (self.reading, first, number) {
            (
                Reading::ArrayOneAllows
                | Reading::ScriptOneAllows
                | Reading::CrabOneAllows
                | Reading::ArraySecondOneAllows,
                b'*',
                Some(1),
            )
            | (Reading::ArrayZeroAllows, b'*', Some(0)) => Verdict::Allowed,
            (
                Reading::ArrayOneAllows
                | Reading::ScriptOneAllows
                | Reading::CrabOneAllows
                | Reading::ArraySecondOneAllows,
                b'*',
                Some(0),
            )
            | (Reading::ArrayZeroAllows, b'*', Some(1)) => Verdict::Denied,
            (Reading::IntOneAllows, b':', Some(1)) => Verdict::Allowed,
            (Reading::IntOneAllows, b':', Some(0)) => Verdict::Denied,
            _ => Verdict::Unexpected,
        }
    }

    /// The wait that a denial promises, in milliseconds; `None` where the reply tells none.
    #[must_use]
    pub(crate) fn promise_ms(&self, frame: &[u8]) -> Option<u64> {
        let (line, unit_us) = match self.reading {
            Reading::ArrayOneAllows => (PROMISE_LINE, 1_000),
            Reading::ArrayZeroAllows => (PROMISE_LINE, 1_000_000),
            Reading::ScriptOneAllows => (PROMISE_LINE, 1),
            // throttlecrab tells the reset before the wait.
            Reading::CrabOneAllows => (PROMISE_LINE + 1, 1_000_000),
            Reading::Http => return http::retry_after_ms(frame),
            Reading::IntOneAllows
            | Reading::ArraySecondOneAllows
            | Reading::Memcache(_)
            | Reading::Refused(_)
            | Reading::Anything => return None,
        };
        // "*5\r\n:0\r\n:limit\r\n:remaining\r\n:wait\r\n:reset\r\n"; -1 is "never".
        let mut lines = frame.split(|&byte| byte == b'\n');
        let line = lines.nth(line)?;
        let digits = line.strip_prefix(b":")?.strip_suffix(b"\r")?;
        let wait: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(wait.checked_mul(unit_us)?.div_ceil(1_000))
    }
}

impl Ask {
    /// Appends the request for `key`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, key: &[u8]) {
        let text = |number: u64| number.to_string().into_bytes();
        match self {
            Ask::RlTake(rule) => {
                let window_ms = text(rule.window_s.saturating_mul(1000));
                resp::write_command(
                    out,
                    &[b"RL.TAKE", key, b"FIXED", &text(rule.limit), &window_ms],
                );
            }
            Ask::ClThrottle(rule) => {
                let (burst, limit) = (text(rule.limit.saturating_sub(1)), text(rule.limit));
                resp::write_command(
                    out,
                    &[b"CL.THROTTLE", key, &burst, &limit, &text(rule.window_s)],
                );
            }
            Ask::Evalsha { sha, rule } => {
                let (limit, window) = (text(rule.limit), text(rule.window_s));
                resp::write_command(
                    out,
                    &[b"EVALSHA", sha.as_bytes(), b"1", key, &limit, &window],
                );
            }
            Ask::Get => resp::write_command(out, &[b"GET", key]),
            Ask::Set(length) => resp::write_command(out, &[b"SET", key, &vec![b'x'; *length]]),
            Ask::Incr => resp::write_command(out, &[b"INCR", key]),
            Ask::Plain(plain) => plain.write(out, key),
            Ask::Decision(decision) => decision.write(out, key),
            Ask::Memcache(asked) => asked.write(out, &String::from_utf8_lossy(key)),
            Ask::Http(asked, rule) => asked.write(out, &String::from_utf8_lossy(key), *rule),
        }
    }

    fn reading(&self) -> Reading {
        match self {
            Ask::RlTake(_) => Reading::ArrayOneAllows,
            Ask::ClThrottle(_) => Reading::ArrayZeroAllows,
            Ask::Evalsha { .. } => Reading::IntOneAllows,
            Ask::Plain(plain) => plain.refused_as.map_or(Reading::Anything, Reading::Refused),
            Ask::Get | Ask::Set(_) | Ask::Incr => Reading::Anything,
            Ask::Decision(decision) => decision.row.reading(),
            Ask::Memcache(asked) => Reading::Memcache(*asked),
            Ask::Http(..) => Reading::Http,
        }
    }

    /// Short name for records.
    #[must_use]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Ask::RlTake(_) => "rl.take",
            Ask::ClThrottle(_) => "cl.throttle",
            Ask::Evalsha { .. } => "evalsha",
            Ask::Get => "get",
            Ask::Set(_) => "set",
            Ask::Incr => "incr",
            Ask::Plain(plain) => plain.name,
            Ask::Decision(decision) => decision.row.name,
            Ask::Memcache(asked) => asked.name(),
            Ask::Http(..) => "http",
        }
    }

    /// Title for tables.
    #[must_use]
    pub(crate) fn title(&self) -> &str {
        match self {
            Ask::RlTake(_) => "RL.TAKE (native)",
            Ask::ClThrottle(_) => "CL.THROTTLE (native)",
            Ask::Evalsha { .. } => "EVALSHA INCR+EXPIRE",
            Ask::Get => "GET",
            Ask::Set(_) => "SET",
            Ask::Incr => "INCR",
            Ask::Plain(plain) => plain.title,
            Ask::Decision(decision) => decision.row.title,
            Ask::Memcache(asked) => asked.title(),
            Ask::Http(asked, _) => &asked.title,
        }
    }

    /// The limit, where the operation decides something.
    #[must_use]
    pub(crate) fn rule(&self) -> Option<Rule> {
        match self {
            Ask::RlTake(rule) | Ask::ClThrottle(rule) | Ask::Evalsha { rule, .. } => Some(*rule),
            Ask::Decision(decision) => Some(decision.rule),
            Ask::Memcache(MemcacheAsk::Counter(rule)) => Some(*rule),
            Ask::Http(asked, rule) => asked.states_limit().then_some(*rule),
            Ask::Get | Ask::Set(_) | Ask::Incr | Ask::Plain(_) | Ask::Memcache(_) => None,
        }
    }

    /// Algorithm behind the decision; empty if nothing is decided.
    #[must_use]
    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Ask::RlTake(_) | Ask::Evalsha { .. } => "fixed-window",
            Ask::ClThrottle(_) => "gcra",
            Ask::Decision(decision) => decision.row.algorithm,
            Ask::Memcache(MemcacheAsk::Counter(_)) => "fixed-window",
            // What a service decides by is its own affair; the rules of the bench are fixed windows.
            Ask::Http(asked, _) if asked.states_limit() => "fixed-window",
            Ask::Get
            | Ask::Set(_)
            | Ask::Incr
            | Ask::Plain(_)
            | Ask::Memcache(_)
            | Ask::Http(..) => "",
        }
    }
}

/// The integer behind the integer at `at`.
fn second_int(frame: &[u8], at: usize) -> Option<i64> {
    int_at(frame, at)?;
    let end = frame[at..].iter().position(|&b| b == b'\n')?;
    int_at(frame, at + end + 1)
}

/// The integer frame `:n\r\n` at `at`.
#[inline]
fn int_at(frame: &[u8], at: usize) -> Option<i64> {
    let digits = frame.get(at..)?.strip_prefix(b":")?;
    let end = digits.iter().position(|&b| b == b'\r')?;
    match &digits[..end] {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        more => std::str::from_utf8(more).ok()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        limit: 5,
        window_s: 60,
    };

    #[test]
    fn requests_are_rendered_per_key() {
        let workload = Workload::render(&Ask::RlTake(RULE), "k:", 2);
        assert_eq!(workload.keys(), 2);
        let text = String::from_utf8(workload.request(1).to_vec()).unwrap();
        assert_eq!(
            text,
            "*5\r\n$7\r\nRL.TAKE\r\n$3\r\nk:1\r\n$5\r\nFIXED\r\n$1\r\n5\r\n$5\r\n60000\r\n"
        );
        assert!(workload.request(0).windows(3).any(|w| w == b"k:0"));
    }

    #[test]
    fn replies_are_judged_by_the_operation() {
        let verdict = |ask: Ask, frame: &[u8]| Workload::render(&ask, "k", 1).verdict(frame);
        let eval = || Ask::Evalsha {
            sha: "0".repeat(40),
            rule: RULE,
        };
        assert_eq!(
            verdict(Ask::RlTake(RULE), b"*5\r\n:1\r\n:5\r\n:4\r\n:0\r\n:9\r\n"),
            Verdict::Allowed
        );
        assert_eq!(
            verdict(Ask::RlTake(RULE), b"*5\r\n:0\r\n:5\r\n:0\r\n:9\r\n:9\r\n"),
            Verdict::Denied
        );
        assert_eq!(
            verdict(
                Ask::ClThrottle(RULE),
                b"*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:9\r\n"
            ),
            Verdict::Allowed
        );
        assert_eq!(
            verdict(
                Ask::ClThrottle(RULE),
                b"*5\r\n:1\r\n:5\r\n:0\r\n:9\r\n:9\r\n"
            ),
            Verdict::Denied
        );
        let promise = |ask: Ask, frame: &[u8]| Workload::render(&ask, "k", 1).promise_ms(frame);
        let denied = b"*5\r\n:1\r\n:5\r\n:0\r\n:9\r\n:12\r\n";
        assert_eq!(promise(Ask::RlTake(RULE), denied), Some(9));
        assert_eq!(promise(Ask::ClThrottle(RULE), denied), Some(9_000));
        assert_eq!(promise(eval(), b":0\r\n"), None);
        let never = b"*5\r\n:1\r\n:5\r\n:0\r\n:-1\r\n:12\r\n";
        assert_eq!(promise(Ask::ClThrottle(RULE), never), None);
        assert_eq!(promise(Ask::RlTake(RULE), b"*5\r\n:1\r\n"), None);
        assert_eq!(verdict(eval(), b":1\r\n"), Verdict::Allowed);
        assert_eq!(verdict(eval(), b":0\r\n"), Verdict::Denied);
        assert_eq!(verdict(eval(), b":17\r\n"), Verdict::Unexpected);
        assert_eq!(verdict(eval(), b"+OK\r\n"), Verdict::Unexpected);
        assert_eq!(
            verdict(eval(), b"-NOSCRIPT No matching script.\r\n"),
            Verdict::Error
        );
        assert_eq!(verdict(Ask::RlTake(RULE), b":1\r\n"), Verdict::Unexpected);
        assert_eq!(verdict(Ask::Get, b"$-1\r\n"), Verdict::Allowed);
        assert_eq!(verdict(Ask::Incr, b"-WRONGTYPE\r\n"), Verdict::Error);
        let crossing = || Ask::Plain(Plain::by_name("cluster-crossslot").unwrap());
        let refused = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";
        assert_eq!(verdict(crossing(), refused), Verdict::Allowed);
        assert_eq!(verdict(crossing(), b"-CLUSTERDOWN\r\n"), Verdict::Error);
        assert_eq!(
            verdict(crossing(), b"*2\r\n$-1\r\n$-1\r\n"),
            Verdict::Unexpected
        );
    }
}
