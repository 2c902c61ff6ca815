//! What a RESP store can be asked for by name: a row for each operation, of `--op` and of records.

use tollgate_limiter::lua::Arguments;
use tollgate_limiter::{ALGORITHMS, Algorithm, Cost, Quota, Timestamp};
use tollgate_wire::resp;

use super::plain::Plain;
use super::workload::{Ask, FIXED_WINDOW_SCRIPT, Reading, Rule, VALUE_LENGTH};

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
    /// `EVALSHA` of [`FIXED_WINDOW_SCRIPT`].
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
pub static DECISIONS: &[Operation] = &[
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
    pub fn name(self) -> &'static str {
        match self {
            Op::Decide(row) => row.name,
            Op::Command(name) => name,
            Op::Native => "native",
            Op::Script => "script",
        }
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
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

/// A command with its words before and after the key, and how its answer is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What it is.
    pub row: &'static Operation,
    /// The limit.
    pub rule: Rule,
    /// The script's SHA-1, where it has one.
    sha: String,
}

impl Operation {
    /// What must be said to a server before the operation: nothing, SCRIPT LOAD or FUNCTION LOAD.
    #[must_use]
    pub fn preparation(&self) -> Option<Vec<Vec<u8>>> {
        let words = |words: &[&str]| Some(words.iter().map(|w| w.as_bytes().to_vec()).collect());
        match self.call {
            Call::PlainScript => words(&["SCRIPT", "LOAD", FIXED_WINDOW_SCRIPT]),
            Call::Script => words(&["SCRIPT", "LOAD", self.limiter().lua]),
            Call::PlainFunction => words(&[
                "FUNCTION",
                "LOAD",
                "REPLACE",
                &self.as_functions(FIXED_WINDOW_SCRIPT),
            ]),
            Call::Function => words(&[
                "FUNCTION",
                "LOAD",
                "REPLACE",
                &self.as_functions(self.limiter().lua),
            ]),
            Call::Take(_) | Call::Cell { .. } | Call::IncrEx => None,
        }
    }

    /// The operation under `rule`; `sha` is what SCRIPT LOAD answered.
    #[must_use]
    pub fn ask(&'static self, rule: Rule, sha: Option<&str>) -> Ask {
        Ask::Decision(Box::new(Decision {
            row: self,
            rule,
            sha: sha.unwrap_or_default().into(),
        }))
    }

    fn limiter(&self) -> &'static Algorithm {
        ALGORITHMS
            .iter()
            .find(|row| row.name == self.algorithm)
            .expect("every row names an algorithm of the limiter, which a test checks")
    }

    /// Name of the function and, with a prefix, of its library.
    fn function(&self) -> String {
        self.name.replace([':', '-'], "_")
    }

    /// A library whose one function is `script`: what a script finds in globals, a function gets as parameters.
    fn as_functions(&self, script: &str) -> String {
        let name = self.function();
        format!(
            "#!lua name=tollgate_bench_{name}\nlocal function decide(KEYS, ARGV)\n{script}\nend\nredis.register_function('{name}', decide)\n"
        )
    }

    pub(super) fn reading(&self) -> Reading {
        match self.call {
            Call::Take(_) => Reading::ArrayOneAllows,
            Call::Script | Call::Function => Reading::ScriptOneAllows,
            Call::Cell { reading, .. } => reading,
            Call::IncrEx => Reading::ArraySecondOneAllows,
            Call::PlainScript | Call::PlainFunction => Reading::IntOneAllows,
        }
    }
}

impl Decision {
    /// Appends the request for `key`.
    pub(super) fn write(&self, out: &mut Vec<u8>, key: &[u8]) {
        let (before, after) = self.words();
        let mut words: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        words.push(key);
        words.extend(after.iter().map(Vec::as_slice));
        resp::write_command(out, &words);
    }

    /// The words before and after the key.
    fn words(&self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let Rule { limit, window_s } = self.rule;
        let list = |words: &[&str]| {
            words
                .iter()
                .map(|w| w.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        let (count, window) = (limit.to_string(), window_s.to_string());
        let window_ms = window_s.saturating_mul(1000).to_string();
        match self.row.call {
            Call::Take(word) => {
                let word = if word.is_empty() {
                    self.row.limiter().word
                } else {
                    word
                };
                (list(&["RL.TAKE"]), list(&[word, &count, &window_ms]))
            }
            Call::Cell {
                command,
                whole_burst,
                ..
            } => {
                let burst = limit.saturating_sub(u64::from(!whole_burst)).to_string();
                (list(&[command]), list(&[&burst, &count, &window]))
            }
            Call::IncrEx => (
                list(&["INCREX"]),
                list(&["UBOUND", &count, "EX", &window, "ENX"]),
            ),
            Call::PlainScript => (list(&["EVALSHA", &self.sha, "1"]), list(&[&count, &window])),
            Call::PlainFunction => (
                list(&["FCALL", &self.row.function(), "1"]),
                list(&[&count, &window]),
            ),
            Call::Script => (list(&["EVALSHA", &self.sha, "1"]), self.arguments()),
            Call::Function => (
                list(&["FCALL", &self.row.function(), "1"]),
                self.arguments(),
            ),
        }
    }

    /// Arguments of the limiter's scripts: the store's own time, then the numbers of the check.
    fn arguments(&self) -> Vec<Vec<u8>> {
        let quota = Quota::new(
            self.rule.limit,
            self.rule.window_s.saturating_mul(1_000_000_000),
        );
        // The time chooses windows of the calendar only, which no row here has.
        let now = Timestamp::from_millis(0);
        let numbers = Arguments::new(self.row.limiter().kind, &quota, Cost(1), false, now);
        let Arguments {
            a,
            b,
            c,
            cost,
            peek,
            ..
        } = numbers;
        let mut words = vec![Vec::new()];
        words.extend([a, b, c, cost, peek].map(|number| number.to_string().into_bytes()));
        words
    }
}

/// The request of a command that decides nothing.
#[must_use]
pub fn command(name: &str) -> Option<Ask> {
    match name {
        "get" => Some(Ask::Get),
        "set" => Some(Ask::Set(VALUE_LENGTH)),
        "incr" => Some(Ask::Incr),
        other => Plain::by_name(other).map(Ask::Plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        limit: 5,
        window_s: 60,
    };

    fn request(name: &str) -> String {
        let Ok(Op::Decide(row)) = name.parse::<Op>() else {
            panic!("{name} is a decision")
        };
        let mut out = Vec::new();
        row.ask(RULE, Some("5ha")).write(&mut out, b"k");
        let text = String::from_utf8(out).unwrap();
        text.split("\r\n")
            .filter(|line| !line.starts_with(['*', '$']))
            .collect::<Vec<_>>()
            .join(" ")
            .trim()
            .to_owned()
    }

    #[test]
    fn every_name_is_read_back_and_every_row_has_its_algorithm() {
        for name in Op::names() {
            assert_eq!(name.parse::<Op>().unwrap().name(), name);
        }
        assert!("nothing".parse::<Op>().unwrap_err().contains("cl.throttle"));
        for row in DECISIONS {
            assert!(!request(row.name).is_empty());
            assert!(
                DECISIONS
                    .iter()
                    .filter(|other| other.name == row.name)
                    .count()
                    == 1
            );
            if let Some(words) = row.preparation() {
                assert!(words.last().is_some_and(|script| script.len() > 40));
            }
        }
    }

    #[test]
    fn limits_and_windows_stand_where_each_command_wants_them() {
        for (name, wanted) in [
            ("rl.take", "RL.TAKE k FIXED 5 60000"),
            ("rl.take:sliding-log", "RL.TAKE k LOG 5 60000"),
            ("cl.throttle", "CL.THROTTLE k 4 5 60"),
            ("throttle", "THROTTLE k 5 5 60"),
            ("gcra", "GCRA k 4 5 60"),
            ("increx", "INCREX k UBOUND 5 EX 60 ENX"),
            ("evalsha", "EVALSHA 5ha 1 k 5 60"),
            ("fcall", "FCALL fcall 1 k 5 60"),
            ("evalsha:fixed-window", "EVALSHA 5ha 1 k  5 60000 0 1 0"),
            (
                "fcall:gcra",
                "FCALL fcall_gcra 1 k  5 12000000 60000000 1 0",
            ),
        ] {
            assert_eq!(request(name), wanted, "{name}");
        }
    }
}
