//! Checks as arguments of the scripts for stores without commands of their own, and the scripts' replies.

use redis::{Cmd, Script, Value};
use tollgate_limiter::lua::{self, Arguments, Word};
use tollgate_limiter::{Act, AlgorithmKind, Cost, Method, Timestamp};
use tollgate_policy::{LimitCheck, Predecessor};

use super::Decisions;

/// A script and its name in the store's cache.
pub(super) struct Source {
    text: &'static str,
    sha1: String,
}

/// All scripts.
pub(super) struct Scripts {
    window: Source,
    gcra: Source,
    sliding: Source,
    batch: Source,
    general: Source,
    inherit_native: Source,
}

/// A call of a script.
pub(super) struct Call<'s> {
    script: &'s Source,
    keys: Vec<Box<[u8]>>,
    /// What comes before the words: an empty time, for the store's own counts.
    timed: bool,
    words: Vec<Word>,
}

impl Source {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            sha1: Script::new(text).get_hash().to_owned(),
        }
    }
}

impl Call<'_> {
    /// By the script's name in the store's cache.
    pub(super) fn by_name(&self) -> Cmd {
        self.command("EVALSHA", &self.script.sha1)
    }

    /// By its text, which fills the cache.
    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text)
    }

    /// The first of its keys, which are all of one slot.
    pub(super) fn key(&self) -> &[u8] {
        self.keys.first().map_or(b"", |key| key)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len());
        for key in &self.keys {
            command.arg(&**key);
        }
        if self.timed {
            command.arg("");
        }
        for word in &self.words {
            command.arg(&**word);
        }
        command
    }
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            window: Source::new(lua::FIXED_WINDOW),
            gcra: Source::new(lua::GCRA),
            sliding: Source::new(lua::SLIDING_WINDOW),
            batch: Source::new(lua::BATCH),
            general: Source::new(lua::GENERAL),
            inherit_native: Source::new(lua::INHERIT_NATIVE),
        }
    }

    /// Decides the checks; small states that nothing is reserved on have a short script.
    pub(super) fn decide(&self, checks: &[LimitCheck<'_>], now: Timestamp) -> Call<'_> {
        let Some(script) = self.short(checks) else {
            return self.decide_general(checks, now);
        };
        let mut words: Vec<Word> = Vec::with_capacity(6 * checks.len());
        for check in checks {
            let Some(arguments) = arguments(check, now) else {
                return self.decide_general(checks, now);
            };
            let Arguments {
                tag,
                a,
                b,
                c,
                cost,
                peek,
            } = arguments;
            if checks.len() > 1 {
                words.push(tag.as_bytes().into());
            }
            words.extend([a, b, c, cost, peek].map(|n| n.to_string().into_bytes().into()));
        }
        Call {
            script,
            keys: keys(checks),
            timed: true,
            words,
        }
    }

    /// Decides the checks, whatever their keys hold.
    pub(super) fn decide_general(&self, checks: &[LimitCheck<'_>], now: Timestamp) -> Call<'_> {
        let mut words: Vec<Word> = vec![lua::DECIDE.as_bytes().into()];
        for check in checks {
            words.extend(check_words(check, now));
        }
        self.general(checks, words)
    }

    /// Gives units back; `once` is a key that names a request which may be sent twice.
    pub(super) fn refund(
        &self,
        check: &LimitCheck<'_>,
        once: Option<Vec<u8>>,
        now: Timestamp,
    ) -> Call<'_> {
        let mut words: Vec<Word> = vec![lua::REFUND.as_bytes().into()];
        words.extend(check_words(check, now));
        let mut call = self.general(std::slice::from_ref(check), words);
        call.keys.extend(once.map(Vec::into_boxed_slice));
        call
    }

    pub(super) fn end(&self, check: &LimitCheck<'_>, id: &[u8], actual: u64) -> Call<'_> {
        self.general(
            std::slice::from_ref(check),
            lua::end_words(id, actual).into(),
        )
    }

    pub(super) fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Call<'_> {
        self.general(std::slice::from_ref(check), lua::release_words(id).into())
    }

    /// Lets the check's counter go on from another.
    pub(super) fn inherit(
        &self,
        check: &LimitCheck<'_>,
        from: &Predecessor<'_>,
        native: bool,
        now: Timestamp,
    ) -> Call<'_> {
        let keys = vec![check.key.into(), from.key.into()];
        if native {
            return Call {
                script: &self.inherit_native,
                keys,
                timed: false,
                words: super::native::inherit_words(check, from),
            };
        }
        let old = (from.method, &from.quota);
        let mut words: Vec<Word> = vec![lua::INHERIT.as_bytes().into()];
        for (method, quota) in [(check.method, &check.quota), old] {
            words.extend(lua::check_words(method, quota, Cost(0), Act::Peek, now));
        }
        words.push(from.way.name().as_bytes().into());
        Call {
            script: &self.general,
            keys,
            timed: true,
            words,
        }
    }

    fn general(&self, checks: &[LimitCheck<'_>], words: Vec<Word>) -> Call<'_> {
        Call {
            script: &self.general,
            keys: keys(checks),
            timed: true,
            words,
        }
    }

    fn short(&self, checks: &[LimitCheck<'_>]) -> Option<&Source> {
        let [check] = checks else {
            return Some(&self.batch);
        };
        let Method::Small(kind) = check.method else {
            return None;
        };
        Some(match kind {
            AlgorithmKind::FixedWindow
            | AlgorithmKind::FixedWindowEpoch
            | AlgorithmKind::Calendar(_) => &self.window,
            AlgorithmKind::SlidingWindow => &self.sliding,
            AlgorithmKind::Gcra | AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
                &self.gcra
            }
        })
    }
}

/// The numbers of the short scripts; `None` when they do not know such a check.
fn arguments(check: &LimitCheck<'_>, now: Timestamp) -> Option<Arguments> {
    let Method::Small(kind) = check.method else {
        return None;
    };
    let peek = match check.act {
        Act::Take => false,
        Act::Peek => true,
        Act::Hold { .. } => return None,
    };
    Some(Arguments::new(kind, &check.quota, check.cost, peek, now))
}

fn check_words(check: &LimitCheck<'_>, now: Timestamp) -> [Word; 9] {
    lua::check_words(check.method, &check.quota, check.cost, check.act, now)
}

fn keys(checks: &[LimitCheck<'_>]) -> Vec<Box<[u8]>> {
    checks.iter().map(|check| check.key.into()).collect()
}

/// The decisions of a reply on so many checks; `None` when it is none.
pub(super) fn decisions(reply: &Value, checks: usize) -> Option<Decisions> {
    let Value::Array(items) = reply else {
        return None;
    };
    let numbers: Option<Vec<i64>> = items
        .iter()
        .map(|item| match item {
            Value::Int(number) => Some(*number),
            _ => None,
        })
        .collect();
    let numbers = numbers.filter(|numbers| numbers.len() == checks * lua::REPLY_LEN)?;
    numbers
        .chunks_exact(lua::REPLY_LEN)
        .map(lua::decision)
        .collect()
}
