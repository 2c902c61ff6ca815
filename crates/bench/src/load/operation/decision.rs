//! How a decision is asked: the words of the request, and what a server must have loaded for it.

use tollgate_limiter::lua::Arguments;
use tollgate_limiter::{ALGORITHMS, Algorithm, Cost, Quota, Timestamp};
use tollgate_wire::resp;

use super::{Call, Operation};
use crate::load::workload::{Ask, FIXED_WINDOW_SCRIPT, Reading, Rule};

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
    pub(crate) fn preparation(&self) -> Option<Vec<Vec<u8>>> {
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
    pub(crate) fn ask(&'static self, rule: Rule, sha: Option<&str>) -> Ask {
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

    pub(in crate::load) fn reading(&self) -> Reading {
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
    pub(in crate::load) fn write(&self, out: &mut Vec<u8>, key: &[u8]) {
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
