//! What a RESP store can be asked for by name: a row for each operation, of `--op` and of records.

mod decision;
#[cfg(test)]
mod tests;

pub(crate) use self::decision::Decision;
use super::plain::Plain;
use super::workload::{Ask, Reading, VALUE_LENGTH};

/// One operation. Rows are compared by their names.
#[derive(Debug)]
pub struct Operation {
    /// Name on the command line and in records.
    pub name: &'static str,
    /// Title for tables.
    pub title: &'static str,
    /// Algorithm behind the decision.
    pub algorithm: &'static str,
    call: Call,
}

impl PartialEq for Operation {
    fn eq(&self, other: &Operation) -> bool {
        self.name == other.name
    }
}

impl Eq for Operation {}

/// How an operation is asked.
#[derive(Debug)]
enum Call {
    /// `RL.TAKE key WORD limit window-ms`.
    Take(&'static str),
    /// A command with the arguments of redis-cell: burst, limit, window in seconds.
    Cell {
        command: &'static str,
        /// Whether the burst is the limit itself and not one less.
        whole_burst: bool,
        reading: Reading,
    },
    /// `INCREX key UBOUND limit EX window ENX`.
    IncrEx,
    /// `EVALSHA` of the limiter's script of the same arithmetic as the native algorithm.
    Script,
    /// `FCALL` of the same script as a function.
    Function,
    /// `EVALSHA` of [`FIXED_WINDOW_SCRIPT`](super::workload::FIXED_WINDOW_SCRIPT).
    PlainScript,
    /// `FCALL` of it.
    PlainFunction,
}

const fn take(
    name: &'static str,
    title: &'static str,
    algorithm: &'static str,
    word: &'static str,
) -> Operation {
    Operation {
        name,
        title,
        algorithm,
        call: Call::Take(word),
    }
}

const fn cell(
    name: &'static str,
    title: &'static str,
    whole_burst: bool,
    reading: Reading,
) -> Operation {
    Operation {
        name,
        title,
        algorithm: "gcra",
        call: Call::Cell {
            command: title,
            whole_burst,
            reading,
        },
    }
}

const fn scripted(
    name: &'static str,
    title: &'static str,
    algorithm: &'static str,
    call: Call,
) -> Operation {
    Operation {
        name,
        title,
        algorithm,
        call,
    }
}

/// Operations that decide.
pub(crate) static DECISIONS: &[Operation] = &[
    take(
        "rl.take:fixed-window",
        "RL.TAKE FIXED",
        "fixed-window",
        "FIXED",
    ),
    take(
        "rl.take:fixed-window-epoch",
        "RL.TAKE FIXED EPOCH",
        "fixed-window-epoch",
        "",
    ),
    take(
        "rl.take:sliding-window",
        "RL.TAKE SLIDING",
        "sliding-window",
        "",
    ),
    take("rl.take:sliding-log", "RL.TAKE LOG", "sliding-log", "LOG"),
    take(
        "rl.take:token-bucket",
        "RL.TAKE TOKEN BUCKET",
        "token-bucket",
        "",
    ),
    take(
        "rl.take:leaky-bucket",
        "RL.TAKE LEAKY BUCKET",
        "leaky-bucket",
        "",
    ),
    take("rl.take:gcra", "RL.TAKE GCRA", "gcra", ""),
    cell(
        "cl.throttle",
        "CL.THROTTLE",
        false,
        Reading::ArrayZeroAllows,
    ),
    cell(
        "rl.throttle",
        "RL.THROTTLE",
        false,
        Reading::ArrayZeroAllows,
    ),
    cell("throttle", "THROTTLE", true, Reading::CrabOneAllows),
    cell("gcra", "GCRA", false, Reading::ArrayZeroAllows),
    scripted("increx", "INCREX", "fixed-window", Call::IncrEx),
    scripted(
        "evalsha",
        "EVALSHA INCR+EXPIRE",
        "fixed-window",
        Call::PlainScript,
    ),
    scripted(
        "evalsha:fixed-window",
        "EVALSHA fixed window",
        "fixed-window",
        Call::Script,
    ),
    scripted(
        "evalsha:fixed-window-epoch",
        "EVALSHA fixed window, epoch",
        "fixed-window-epoch",
        Call::Script,
    ),
    scripted(
        "evalsha:sliding-window",
        "EVALSHA sliding window",
        "sliding-window",
        Call::Script,
    ),
    scripted(
        "evalsha:token-bucket",
        "EVALSHA token bucket",
        "token-bucket",
        Call::Script,
    ),
    scripted(
        "evalsha:leaky-bucket",
        "EVALSHA leaky bucket",
        "leaky-bucket",
        Call::Script,
    ),
    scripted("evalsha:gcra", "EVALSHA GCRA", "gcra", Call::Script),
    scripted(
        "fcall",
        "FCALL INCR+EXPIRE",
        "fixed-window",
        Call::PlainFunction,
    ),
    scripted(
        "fcall:fixed-window",
        "FCALL fixed window",
        "fixed-window",
        Call::Function,
    ),
    scripted(
        "fcall:fixed-window-epoch",
        "FCALL fixed window, epoch",
        "fixed-window-epoch",
        Call::Function,
    ),
    scripted(
        "fcall:sliding-window",
        "FCALL sliding window",
        "sliding-window",
        Call::Function,
    ),
    scripted(
        "fcall:token-bucket",
        "FCALL token bucket",
        "token-bucket",
        Call::Function,
    ),
    scripted(
        "fcall:leaky-bucket",
        "FCALL leaky bucket",
        "leaky-bucket",
        Call::Function,
    ),
    scripted("fcall:gcra", "FCALL GCRA", "gcra", Call::Function),
];

/// An operation as `--op` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A row of [`DECISIONS`].
    Decide(&'static Operation),
    /// A command that decides nothing.
    Command(&'static str),
    /// What the target offers as its own: the word `native`.
    Native,
    /// The script that all stores run alike: the word `script`.
    Script,
}

/// Commands that decide nothing, beside those of [`super::plain::PLAIN`]; `counter` and `touch` are memcached's.
const COMMANDS: [&str; 5] = ["get", "set", "incr", "counter", "touch"];

impl Op {
    /// The name on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Decide(row) => row.name,
            Op::Command(name) => name,
            Op::Native => "native",
            Op::Script => "script",
        }
    }

    /// Whether it says something only of a node of a cluster.
    #[must_use]
    pub(crate) fn of_cluster(self) -> bool {
        match self {
            Op::Command(name) => {
                super::plain::Plain::by_name(name).is_some_and(|row| row.of_cluster)
            }
            Op::Decide(_) | Op::Native | Op::Script => false,
        }
    }

    /// All names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ["native", "script"]
            .into_iter()
            .chain(DECISIONS.iter().map(|row| row.name))
            .chain(COMMANDS)
            .chain(super::plain::PLAIN.iter().map(|plain| plain.name))
    }
}

impl std::str::FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "native" => return Ok(Op::Native),
            "script" => return Ok(Op::Script),
            // The fixed window is what RL.TAKE is asked for most.
            "rl.take" => return Ok(Op::Decide(&DECISIONS[0])),
            _ => {}
        }
        if let Some(row) = DECISIONS.iter().find(|row| row.name == text) {
            return Ok(Op::Decide(row));
        }
        Op::names()
            .find(|name| *name == text)
            .map(Op::Command)
            .ok_or_else(|| {
                let names: Vec<&str> = Op::names().collect();
                format!("'{text}' is not an operation: give {}", names.join(", "))
            })
    }
}

/// The request of a command that decides nothing.
#[must_use]
pub(crate) fn command(name: &str) -> Option<Ask> {
    match name {
        "get" => Some(Ask::Get),
        "set" => Some(Ask::Set(VALUE_LENGTH)),
        "incr" => Some(Ask::Incr),
        other => Plain::by_name(other).map(Ask::Plain),
    }
}
