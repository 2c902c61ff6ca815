//! Headers that tell a client what is left, in the forms that clients know.

use std::borrow::Cow;
use std::fmt::Write as _;

use tollgate_limiter::Nanos;

use crate::modes::HeaderNames;

/// Largest Integer of RFC 9651.
const MAX_INTEGER: u64 = 999_999_999_999_999;
/// Longest name of a policy in a header, in bytes; longer ones are cut.
const MAX_NAME: usize = 128;

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
    /// Seconds until all are there again, or until the request passes that this limit denies; rounded up.
    pub reset_secs: u64,
    /// The limit denies the request.
    pub over: bool,
    /// It is a quota, which denies only together with all others.
    pub is_quota: bool,
    /// It counts what is in use at the same time, and has no window: its time is that of a lease.
    pub is_concurrency: bool,
}

impl Standing<'_> {
    fn is_boundless(&self) -> bool {
        self.remaining >= u64::from(u32::MAX)
    }
}

/// Name and value.
pub type Header = (Cow<'static, str>, String);

impl HeaderForm {
    /// The names by which the form is chosen, from the newest to none.
    pub const NAMES: [&'static str; 4] = ["draft-11", "draft-06", "x-ratelimit", "none"];

    /// Reads one of [`NAMES`](Self::NAMES).
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "draft-11" => Some(Self::Draft11),
            "draft-06" => Some(Self::Draft06),
            "x-ratelimit" => Some(Self::XRateLimit),
            "none" => Some(Self::Silent),
            _ => None,
        }
    }

    /// The headers of the limits that applied to a request, in their order; none where there was no limit. `wait` is how long a
    /// request that is denied waits until it passes, where it ever does.
    pub fn headers(&self, standings: &[Standing<'_>], wait: Option<Nanos>) -> Vec<Header> {
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
                        tightest.reset_secs.to_string(),
                    ),
                ];
            }
            Self::Draft11 => draft_11(standings),
            Self::Draft06 => draft_06(tightest, standings),
            Self::XRateLimit => x_ratelimit(tightest, standings),
        };
        // Never 0: a client that comes back at once is denied again.
        headers.extend(wait.map(|wait| {
            let secs = wait.div_ceil(1_000_000_000).max(1);
            ("Retry-After".into(), secs.to_string())
        }));
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
            integer(standing.reset_secs)
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
        ("RateLimit-Reset".into(), tightest.reset_secs.to_string()),
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
        ("X-RateLimit-Reset".into(), tightest.reset_secs.to_string()),
    ]
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
            reset_secs: window_secs / 2,
            over: false,
            is_quota: false,
            is_concurrency: false,
        }
    }

    fn written(form: &HeaderForm, standings: &[Standing<'_>]) -> String {
        let headers = form.headers(standings, None);
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
                reset_secs: 30,
                ..standing("burst", 100, 60, 50)
            },
            Standing {
                reset_secs: 40_211,
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

    #[test]
    fn retry_after_is_in_whole_seconds_and_never_zero() {
        let of = |wait| {
            let headers = HeaderForm::Draft11.headers(&[standing("a", 1, 60, 0)], wait);
            let found = headers.into_iter().find(|(name, _)| name == "Retry-After");
            found.map(|(_, value)| value)
        };
        assert_eq!(of(Some(0)), Some("1".to_owned()));
        assert_eq!(of(Some(6_000_000_001)), Some("7".to_owned()));
        assert_eq!(of(None), None);
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
