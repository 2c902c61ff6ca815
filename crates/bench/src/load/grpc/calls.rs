//! What a service is asked and what it answers: messages of Envoy's rate limit service and of throttlecrab, encoded once
//! for each key.

use std::time::Duration;

use prost::Message;
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::{
    RateLimitDescriptor, RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT,
};

use crate::load::tally::Verdict;
use crate::load::workload::Rule;

/// `RateLimitResponse.Code.OVER_LIMIT`.
const OVER_LIMIT: i32 = 2;

/// Requests of all keys, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) authority: String,
    pub(super) method: &'static str,
    pub(super) reading: Reading,
    /// `grpc-timeout`, as it is written.
    pub(super) timeout: Option<String>,
}

/// How an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// `RateLimitResponse`: field 1 is a code.
    Code,
    /// throttlecrab's `ThrottleResponse`: field 1 is true for allowed, and absent otherwise.
    Allowed,
}

/// throttlecrab's only call.
const THROTTLE: &str = "/throttlecrab.RateLimiter/Throttle";

/// What throttlecrab is asked (`throttlecrab.proto`).
#[derive(Clone, PartialEq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// The part of throttlecrab's answer that is needed.
#[derive(Clone, PartialEq, Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

impl Calls {
    /// One descriptor `entry = prefix0`, `entry = prefix1`, ... per key, asked of the service at `authority`.
    #[must_use]
    pub(crate) fn new(
        domain: &str,
        entry: &str,
        prefix: &str,
        keys: u32,
        authority: String,
    ) -> Calls {
        Calls::of_several(domain, entry, prefix, (keys, 1), authority)
    }

    /// The same with `descriptors` descriptors in each call: `entry = prefix0`, `entry = prefix0.1`, ...
    #[must_use]
    pub(crate) fn of_several(
        domain: &str,
        entry: &str,
        prefix: &str,
        (keys, descriptors): (u32, u32),
        authority: String,
    ) -> Calls {
        let descriptor = |value: String| RateLimitDescriptor {
            entries: vec![Entry {
                key: entry.into(),
                value,
            }],
            limit: None,
            hits_addend: None,
            is_negative_hits: false,
        };
        let message = |index: u32| {
            let first = format!("{prefix}{index}");
            let others = (1..descriptors).map(|other| format!("{prefix}{index}.{other}"));
            let values = std::iter::once(first).chain(others);
            prefixed(&RateLimitRequest {
                domain: domain.into(),
                descriptors: values.map(descriptor).collect(),
                hits_addend: 1,
            })
        };
        Calls {
            messages: (0..keys).map(message).collect(),
            authority,
            method: SHOULD_RATE_LIMIT,
            reading: Reading::Code,
            timeout: None,
        }
    }

    /// The same keys asked of throttlecrab: `limit` requests per `window_s` seconds, with a burst of all of them. What does
    /// not fit into its 32 bits is cut off there.
    #[must_use]
    pub(crate) fn throttlecrab(rule: Rule, prefix: &str, keys: u32, authority: String) -> Calls {
        let fit = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        let message = |index: u32| {
            prefixed(&ThrottleRequest {
                key: format!("{prefix}{index}"),
                max_burst: fit(rule.limit),
                count_per_period: fit(rule.limit),
                period: fit(rule.window_s),
                // Left out it would be 0, which takes nothing.
                quantity: 1,
            })
        };
        Calls {
            messages: (0..keys).map(message).collect(),
            authority,
            method: THROTTLE,
            reading: Reading::Allowed,
            timeout: None,
        }
    }

    /// The same by callers that wait for `wait`, as Envoy does: they say so with every call, and reset a call that has no
    /// answer by then. Who waits for longer than the protocol has words for (a day and some hours) does not give up.
    #[must_use]
    pub(crate) fn waiting(mut self, wait: Duration) -> Calls {
        self.timeout = spoken(wait);
        self
    }

    /// Whether callers give up.
    #[must_use]
    pub(crate) fn gives_up(&self) -> bool {
        self.timeout.is_some()
    }

    /// Number of keys.
    #[must_use]
    pub(crate) fn keys(&self) -> u32 {
        self.messages.len() as u32
    }
}

/// A message as it goes into DATA frames: not compressed, then the length.
fn prefixed(request: &impl Message) -> Vec<u8> {
    let body = request.encode_to_vec();
    let mut message = vec![0];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(&body);
    message
}

/// A time as `grpc-timeout` has it: eight digits at most and a unit. Whole milliseconds where it is some.
fn spoken(wait: Duration) -> Option<String> {
    const MOST: u128 = 99_999_999;
    let (whole, micros) = (wait.as_millis(), wait.as_micros());
    let whole_ms = micros == whole * 1_000;
    match (whole_ms, micros <= MOST, whole <= MOST) {
        (false, true, _) => Some(format!("{}u", micros.max(1))),
        (_, _, true) => Some(format!("{}m", whole.max(1))),
        _ => None,
    }
}

/// The verdict of a message, which is without its prefix.
pub(super) fn code_of(message: &[u8], reading: Reading) -> Verdict {
    if reading == Reading::Allowed {
        return match ThrottleResponse::decode(message) {
            Ok(ThrottleResponse { allowed: true }) => Verdict::Allowed,
            Ok(_) => Verdict::Denied,
            Err(_) => Verdict::Unexpected,
        };
    }
    let code = match message {
        // Field 1 as a varint, where every encoder writes it: first.
        [0x08, code @ 0..=0x7f, ..] => i32::from(*code),
        _ => RateLimitResponse::decode(message).map_or(-1, |response| response.overall_code),
    };
    match code {
        1 => Verdict::Allowed,
        2 => Verdict::Denied,
        _ => Verdict::Unexpected,
    }
}

/// The longest time until a limit that said no counts anew.
pub(super) fn promise_of(message: &[u8]) -> Option<u64> {
    let response = RateLimitResponse::decode(message).ok()?;
    let over = response
        .statuses
        .iter()
        .filter(|status| status.code == OVER_LIMIT);
    over.filter_map(|status| {
        let wait = status.duration_until_reset?;
        let seconds_ms = u64::try_from(wait.seconds).ok()?.checked_mul(1_000)?;
        let rest_ms = u64::try_from(wait.nanos).ok()?.div_ceil(1_000_000);
        seconds_ms.checked_add(rest_ms)
    })
    .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_the_words_of_the_protocol() {
        let said = |wait| spoken(wait);
        assert_eq!(said(Duration::from_secs(1)).as_deref(), Some("1000m"));
        assert_eq!(said(Duration::from_micros(1_500)).as_deref(), Some("1500u"));
        assert_eq!(said(Duration::from_nanos(1)).as_deref(), Some("1m"));
        assert_eq!(
            said(Duration::from_secs(90_000)).as_deref(),
            Some("90000000m")
        );
        assert_eq!(said(Duration::from_secs(365 * 86_400)), None);
    }

    #[test]
    fn throttlecrab_leaves_a_false_out() {
        let rule = Rule {
            limit: 10,
            window_s: 60,
        };
        let calls = Calls::throttlecrab(rule, "k", 2, "127.0.0.1:8070".into());
        let body = ThrottleRequest::decode(&calls.messages[1][5..]).unwrap();
        assert_eq!((body.key.as_str(), body.max_burst), ("k1", 10));
        assert_eq!((body.period, body.quantity), (60, 1));
        for (message, verdict) in [
            (&[0_u8, 0, 0, 0, 4, 8, 1, 16, 10][..], Verdict::Allowed),
            (&[0, 0, 0, 0, 2, 16, 10], Verdict::Denied),
            (&[0, 0, 0, 0, 0], Verdict::Denied),
            (&[0, 0, 0, 0, 1, 8], Verdict::Unexpected),
        ] {
            let read = code_of(&message[5..], Reading::Allowed);
            assert_eq!(read, verdict, "{message:?}");
        }
        assert_eq!(calls.method, THROTTLE);
    }
}
