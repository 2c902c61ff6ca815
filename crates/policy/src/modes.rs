//! What holds for all rules alike.

use crate::headers::HeaderForm;

/// Names of the headers that tell a client about the limit it is closest to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// The limit.
    pub limit: Box<str>,
    /// What is left of it.
    pub remaining: Box<str>,
    /// Seconds until it starts anew.
    pub reset: Box<str>,
}

impl Default for HeaderNames {
    /// The names of envoyproxy/ratelimit.
    fn default() -> Self {
        Self {
            limit: "RateLimit-Limit".into(),
            remaining: "RateLimit-Remaining".into(),
            reset: "RateLimit-Reset".into(),
        }
    }
}

/// Modes of all rules; the default is that of envoyproxy/ratelimit, where all are off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Every limit is evaluated and counted, and no request is denied. Statuses still say which limit is over.
    pub shadow_mode: bool,
    /// Every limit is a quota that only tells: nothing is denied, and metadata names the descriptors that are over.
    pub quota_mode: bool,
    /// The headers that a response gives, if any.
    pub headers: Option<HeaderForm>,
    /// Names of the headers that the request is to have when it goes on, if any.
    pub request_headers: Option<HeaderNames>,
    /// Names of the first two headers that a response gives for each unit of its statuses, if any: `-Seconds` and so on is appended.
    pub per_unit_headers: Option<HeaderNames>,
    /// `unit: month`, counted as envoyproxy/ratelimit counts, is a month of the calendar (UTC) and not 30 days.
    pub calendar_months: bool,
    /// Responses describe the request, and what rules say about descriptors that pass.
    pub dynamic_metadata: bool,
    /// Counters are called as those of envoyproxy/ratelimit, with this in front (its `CACHE_KEY_PREFIX`), instead of by
    /// keys of our own. The rules must have been loaded with [`LoadOptions::envoy_counters`](crate::LoadOptions).
    pub envoy_keys: Option<Box<str>>,
}

impl Modes {
    /// Reads the settings that envoyproxy/ratelimit takes from its environment: `SHADOW_MODE`, `QUOTA_MODE`,
    /// `LIMIT_RESPONSE_HEADERS_ENABLED`, `LIMIT_LIMIT_HEADER`, `LIMIT_REMAINING_HEADER`, `LIMIT_RESET_HEADER`, the same four for
    /// requests, `LIMIT_PER_UNIT_HEADERS_ENABLED`, `USE_CALENDAR_MONTH_RATE_LIMIT` and `RESPONSE_DYNAMIC_METADATA`. What is not there, or
    /// empty, has its default.
    ///
    /// # Errors
    /// A value is no truth value, or no header name; the text names the variable.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let given = |name: &str| lookup(name).filter(|text| !text.is_empty());
        let truth = |name: &str| match given(name) {
            None => Ok(false),
            Some(text) => truth(&text).ok_or_else(|| {
                format!(
                    "{name}: '{}' is neither true nor false",
                    text.escape_debug()
                )
            }),
        };
        let header = |name: &str, default: Box<str>| match given(name) {
            None => Ok(default),
            Some(text) if is_token(&text) => Ok(text.into()),
            Some(text) => Err(format!(
                "{name}: '{}' is not a header name",
                text.escape_debug()
            )),
        };
        let names = |of: &str| {
            let default = HeaderNames::default();
            Ok::<_, String>(HeaderNames {
                limit: header(&format!("LIMIT_{of}LIMIT_HEADER"), default.limit)?,
                remaining: header(&format!("LIMIT_{of}REMAINING_HEADER"), default.remaining)?,
                reset: header(&format!("LIMIT_{of}RESET_HEADER"), default.reset)?,
            })
        };
        let (response, request) = (names("")?, names("REQUEST_")?);
        Ok(Self {
            shadow_mode: truth("SHADOW_MODE")?,
            quota_mode: truth("QUOTA_MODE")?,
            per_unit_headers: truth("LIMIT_PER_UNIT_HEADERS_ENABLED")?.then(|| response.clone()),
            calendar_months: truth("USE_CALENDAR_MONTH_RATE_LIMIT")?,
            headers: truth("LIMIT_RESPONSE_HEADERS_ENABLED")?
                .then_some(HeaderForm::Named(response)),
            request_headers: truth("LIMIT_REQUEST_HEADERS_ENABLED")?.then_some(request),
            dynamic_metadata: truth("RESPONSE_DYNAMIC_METADATA")?,
            envoy_keys: None,
        })
    }
}

/// A truth value as Go reads it from the environment.
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        _ => None,
    }
}

/// Whether a text is a token of RFC 9110, as header names are.
fn is_token(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
