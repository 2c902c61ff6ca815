//! Headers that tell a client what is left, in the forms that clients know.

use std::borrow::Cow;
use std::fmt::Write as _;

use tollgate_limiter::{Nanos, Timestamp};

use crate::modes::HeaderNames;

/// Largest Integer of RFC 9651.
const MAX_INTEGER: u64 = 999_999_999_999_999;
/// Longest name of a policy in a header, in bytes; longer ones are cut.
const MAX_NAME: usize = 128;
const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Tells of a request that never passes, however often it is sent.
const CODE: (&str, &str) = ("X-RateLimit-Code", "never_possible");

/// How limits are written into headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderForm {
    /// None.
    Silent,
    /// Three numbers of the tightest limit, under the names given, as envoyproxy/ratelimit writes them.
    Named(HeaderNames),
    /// `RateLimit-Policy` and `RateLimit`, structured fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.
    Draft11,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` and `-Policy` as drafts up to 06 had them, and `Retry-After`.
    Draft06,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` of draft-polli-ratelimit-headers-03, as Envoy and limitador write them,
    /// and `Retry-After`.
    XRateLimit,
    /// Three numbers of the tightest limit under the same names, as GitHub and others write them: `X-RateLimit-Reset` is the
    /// second since the Unix epoch. And `Retry-After`.
    XRateLimitEpoch,
}

/// What who asked is told of asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The request passed.
    Passed,
    /// It would pass after this time.
    After(Nanos),
    /// It never would.
    Never,
}

/// One limit as a header tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The policy's name, if it has one.
    pub name: Cow<'a, str>,
    /// Units per window.
    pub quota: u64,
    /// Length of the window in seconds, rounded up.
    pub window_secs: u64,
    /// Units that are left.
    pub remaining: u64,
    /// Time until all are there again, or until the request passes that this limit denies.
    pub reset: Nanos,
    /// The limit denies the request.
    pub over: bool,
    /// It is a quota, which denies only together with all others.
    pub is_quota: bool,
    /// It counts what is in use at the same time, and has no window: its time is that of a lease.
    pub is_concurrency: bool,
}

impl Standing<'_> {
    /// Rounded up.
    fn reset_secs(&self) -> u64 {
        self.reset.div_ceil(NANOS_PER_SEC)
    }

    /// The second of the Unix epoch at which the time is up, asked at this moment; rounded up.
    fn reset_at(&self, asked: Timestamp) -> u64 {
        let at = i128::from(asked.nanos()) + i128::from(self.reset);
        let nanos = u128::try_from(at).unwrap_or(0);
        // At most 2^65 nanoseconds.
        nanos.div_ceil(u128::from(NANOS_PER_SEC)) as u64
    }

    fn is_boundless(&self) -> bool {
        self.remaining >= u64::from(u32::MAX)
    }
}

/// Name and value.
pub type Header = (Cow<'static, str>, String);

impl HeaderForm {
    /// The names by which the form is chosen, from the newest to none.
    pub const NAMES: [&'static str; 5] = [
        "draft-11",
        "draft-06",
        "x-ratelimit",
        "x-ratelimit-epoch",
        "none",
    ];

    /// Reads one of [`NAMES`](Self::NAMES).
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "draft-11" => Some(Self::Draft11),
            "draft-06" => Some(Self::Draft06),
            "x-ratelimit" => Some(Self::XRateLimit),
            "x-ratelimit-epoch" => Some(Self::XRateLimitEpoch),
            "none" => Some(Self::Silent),
            _ => None,
        }
    }

    /// Whether times are told as those of a clock.
    pub fn tells_dates(&self) -> bool {
        *self == Self::XRateLimitEpoch
    }

    /// The headers of the limits that applied to a request which was made at the moment `asked`, in their order; none where there
    /// was no limit.
    pub fn headers(
        &self,
        standings: &[Standing<'_>],
        retry: Retry,
        asked: Timestamp,
    ) -> Vec<Header> {
        // Of what has the most left that responses can tell the peer says nothing.
        if matches!(self, Self::Named(_)) && standings.iter().all(Standing::is_boundless) {
            return Vec::new();
        }
        let Some(tightest) = tightest(standings) else {
            return Vec::new();
        };
        let mut headers = match self {
            Self::Silent => return Vec::new(),
            Self::Named(names) => {
                return vec![
                    (names.limit.to_string().into(), tightest.quota.to_string()),
                    (
                        names.remaining.to_string().into(),
                        tightest.remaining.to_string(),
                    ),
                    (
                        names.reset.to_string().into(),
                        tightest.reset_secs().to_string(),
                    ),
                ];
            }
            Self::Draft11 => draft_11(standings),
            Self::Draft06 => draft_06(tightest, standings),
            Self::XRateLimit => x_ratelimit(tightest, standings),
            Self::XRateLimitEpoch => x_ratelimit_epoch(tightest, asked),
        };
        match retry {
            Retry::Passed => {}
            // Never 0: a client that comes back at once is denied again.
            Retry::After(wait) => {
                let secs = wait.div_ceil(NANOS_PER_SEC).max(1);
                headers.push(("Retry-After".into(), secs.to_string()));
            }
            Retry::Never => headers.push((CODE.0.into(), CODE.1.to_owned())),
        }
        headers
    }
}

/// One that is over counts before all, the last of them; else the first with the least left.
fn tightest<'s, 'a>(standings: &'s [Standing<'a>]) -> Option<&'s Standing<'a>> {
    standings
        .iter()
        .rfind(|standing| standing.over && !standing.is_quota)
        .or_else(|| standings.iter().min_by_key(|standing| standing.remaining))
}

fn draft_11(standings: &[Standing<'_>]) -> Vec<Header> {
    let (mut policies, mut states) = (String::new(), String::new());
    for standing in standings {
        let separator = if policies.is_empty() { "" } else { ", " };
        let name = name_of(standing);
        let (quota, left) = (integer(standing.quota), integer(standing.remaining));
        // Writing into a String cannot fail.
        match standing.is_concurrency {
            true => write!(
                policies,
                "{separator}{name};q={quota};qu=\"concurrent-requests\""
            ),
            false => write!(
                policies,
                "{separator}{name};q={quota};w={}",
                integer(standing.window_secs.max(1))
            ),
        }
        .ok();
        write!(
            states,
            "{separator}{name};r={left};t={}",
            integer(standing.reset_secs())
        )
        .ok();
    }
    vec![
        ("RateLimit-Policy".into(), policies),
        ("RateLimit".into(), states),
    ]
}

fn draft_06(tightest: &Standing<'_>, standings: &[Standing<'_>]) -> Vec<Header> {
    let policies: Vec<String> = standings
        .iter()
        .map(|standing| format!("{};w={}", standing.quota, standing.window_secs.max(1)))
        .collect();
    vec![
        ("RateLimit-Limit".into(), tightest.quota.to_string()),
        ("RateLimit-Remaining".into(), tightest.remaining.to_string()),
        ("RateLimit-Reset".into(), tightest.reset_secs().to_string()),
        ("RateLimit-Policy".into(), policies.join(", ")),
    ]
}

fn x_ratelimit(tightest: &Standing<'_>, standings: &[Standing<'_>]) -> Vec<Header> {
    let mut limit = tightest.quota.to_string();
    let others = standings
        .iter()
        .filter(|standing| !std::ptr::eq(*standing, tightest));
    for standing in std::iter::once(tightest).chain(others) {
        // Writing into a String cannot fail.
        write!(
            limit,
            ", {};w={}",
            standing.quota,
            standing.window_secs.max(1)
        )
        .ok();
        if !standing.name.is_empty() {
            write!(limit, ";name={}", quoted(&standing.name)).ok();
        }
    }
    vec![
        ("X-RateLimit-Limit".into(), limit),
        (
            "X-RateLimit-Remaining".into(),
            tightest.remaining.to_string(),
        ),
        (
            "X-RateLimit-Reset".into(),
            tightest.reset_secs().to_string(),
        ),
    ]
}

fn x_ratelimit_epoch(tightest: &Standing<'_>, asked: Timestamp) -> Vec<Header> {
    let numbers = [
        ("X-RateLimit-Limit", tightest.quota),
        ("X-RateLimit-Remaining", tightest.remaining),
        ("X-RateLimit-Reset", tightest.reset_at(asked)),
    ];
    numbers
        .map(|(name, number)| (name.into(), number.to_string()))
        .to_vec()
}

fn name_of(standing: &Standing<'_>) -> String {
    match &*standing.name {
        "" => quoted("default"),
        name => quoted(name),
    }
}

/// A String of RFC 9651: printable ASCII; `"` and `\` escaped. Anything else becomes `?`.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars().take(MAX_NAME) {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='~' => quoted.push(letter),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

fn integer(number: u64) -> u64 {
    number.min(MAX_INTEGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(name: &str, quota: u64, window_secs: u64, remaining: u64) -> Standing<'_> {
        Standing {
            name: name.into(),
            quota,
            window_secs,
            remaining,
            reset: (window_secs / 2).saturating_mul(NANOS_PER_SEC),
            over: false,
            is_quota: false,
            is_concurrency: false,
        }
    }

    fn written(form: &HeaderForm, standings: &[Standing<'_>]) -> String {
        let asked = Timestamp::from_nanos(1_795_338_001_250_000_000);
        let headers = form.headers(standings, Retry::Passed, asked);
        let lines = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The examples of the draft.
    #[test]
    fn draft_11_is_written_as_the_draft_shows_it() {
        let standings = [
            Standing {
                reset: 30 * NANOS_PER_SEC,
                ..standing("burst", 100, 60, 50)
            },
            Standing {
                reset: 40_211 * NANOS_PER_SEC,
                ..standing("daily", 1_000, 86_400, 712)
            },
            Standing {
                is_concurrency: true,
                ..standing("at-once", 4, 30, 1)
            },
        ];
        assert_eq!(
            written(&HeaderForm::Draft11, &standings),
            "RateLimit-Policy: \"burst\";q=100;w=60, \"daily\";q=1000;w=86400, \"at-once\";q=4;qu=\"concurrent-requests\"\n\
             RateLimit: \"burst\";r=50;t=30, \"daily\";r=712;t=40211, \"at-once\";r=1;t=15"
        );
    }

    #[test]
    fn older_forms_tell_of_the_tightest_limit_first() {
        let standings = [
            standing("", 1_000, 3_600, 900),
            standing("per-ip", 10, 1, 3),
        ];
        assert_eq!(
            written(&HeaderForm::XRateLimit, &standings),
            "X-RateLimit-Limit: 10, 10;w=1;name=\"per-ip\", 1000;w=3600\n\
             X-RateLimit-Remaining: 3\nX-RateLimit-Reset: 0"
        );
        assert_eq!(
            written(&HeaderForm::Draft06, &standings),
            "RateLimit-Limit: 10\nRateLimit-Remaining: 3\nRateLimit-Reset: 0\n\
             RateLimit-Policy: 1000;w=3600, 10;w=1"
        );
        let names = HeaderNames::default();
        assert_eq!(
            written(&HeaderForm::Named(names), &standings),
            "RateLimit-Limit: 10\nRateLimit-Remaining: 3\nRateLimit-Reset: 0"
        );
        assert_eq!(written(&HeaderForm::Silent, &standings), "");
        assert_eq!(written(&HeaderForm::Draft11, &[]), "");
    }

    /// As GitHub has it: three numbers, the last of them a date.
    #[test]
    fn a_reset_may_be_a_date() {
        let standings = [
            standing("", 1_000, 3_600, 900),
            Standing {
                reset: 58_750_000_000,
                ..standing("per-ip", 60, 60, 3)
            },
        ];
        assert_eq!(
            written(&HeaderForm::XRateLimitEpoch, &standings),
            "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 1795338060"
        );
        // Never before the time is up, and whatever the clock says a number.
        let at = |asked, reset| {
            let standing = Standing {
                reset,
                ..standing("", 1, 1, 1)
            };
            standing.reset_at(Timestamp::from_nanos(asked))
        };
        assert_eq!(at(1_795_338_001_250_000_000, 1), 1_795_338_002);
        assert_eq!(at(i64::MIN, 0), 0);
        assert_eq!(at(i64::MAX, u64::MAX), 27_670_116_111);
    }

    #[test]
    fn retry_after_is_in_whole_seconds_and_never_zero() {
        let forms = HeaderForm::NAMES
            .iter()
            .filter_map(|name| HeaderForm::parse(name));
        for form in forms.filter(|form| *form != HeaderForm::Silent) {
            let of = |retry, wanted| {
                let headers = form.headers(&[standing("a", 1, 60, 0)], retry, Timestamp::default());
                let found = headers.into_iter().find(|(name, _)| name == wanted);
                found.map(|(_, value)| value)
            };
            let after = |retry| of(retry, "Retry-After");
            assert_eq!(after(Retry::After(0)), Some("1".to_owned()));
            assert_eq!(after(Retry::After(6_000_000_001)), Some("7".to_owned()));
            assert_eq!([Retry::Passed, Retry::Never].map(after), [None, None]);
            // Who can never pass is told so, and not when to come back.
            let code = |retry| of(retry, "X-RateLimit-Code");
            assert_eq!(code(Retry::Never), Some("never_possible".to_owned()));
            assert_eq!([Retry::Passed, Retry::After(1)].map(code), [None, None]);
        }
    }

    #[test]
    fn names_are_strings_of_structured_fields() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(quoted("é\r\n"), "\"???\"");
        assert_eq!(quoted(&"x".repeat(1_000)).len(), MAX_NAME + 2);
        let huge = standing("", u64::MAX, u64::MAX, u64::MAX);
        let written = written(&HeaderForm::Draft11, &[huge]);
        assert!(
            written.starts_with("RateLimit-Policy: \"default\";q=999999999999999;w="),
            "{written}"
        );
    }

    #[test]
    fn forms_are_chosen_by_name() {
        for name in HeaderForm::NAMES {
            assert!(HeaderForm::parse(name).is_some(), "{name}");
        }
        assert_eq!(HeaderForm::parse("draft-12"), None);
    }
}
