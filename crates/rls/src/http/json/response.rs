//! Responses as JSON. Written piece by piece: every decision over HTTP pays for this, and most of it is fixed text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use tollgate_wire::rls::rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit};
use tollgate_wire::rls::value::Kind;
use tollgate_wire::rls::{Duration, RateLimitResponse, Struct, Value};

/// Bytes of a response without statuses, and of one status with a short name, roughly.
const RESPONSE_ROOM: usize = 64;
const STATUS_ROOM: usize = 160;

/// Writes a `RateLimitResponse`; what has its default value is left out.
pub(in crate::http) fn write_response(response: &RateLimitResponse) -> Vec<u8> {
    let mut out = Vec::with_capacity(RESPONSE_ROOM + STATUS_ROOM * response.statuses.len());
    put(&mut out, r#"{"overallCode":""#);
    put(&mut out, code_name(response.overall_code));
    put(&mut out, r#"""#);
    let statuses = &response.statuses;
    put_list(&mut out, r#","statuses":"#, statuses, put_status);
    for (name, headers) in [
        (
            r#","responseHeadersToAdd":"#,
            &response.response_headers_to_add,
        ),
        (
            r#","requestHeadersToAdd":"#,
            &response.request_headers_to_add,
        ),
    ] {
        put_list(&mut out, name, headers, |out, header| {
            put(out, r#"{"key":"#);
            put_value(out, &*header.key);
            put(out, r#","value":"#);
            put_value(out, &*header.value);
            put(out, "}");
        });
    }
    if !response.raw_body.is_empty() {
        put(&mut out, r#","rawBody":""#);
        put(&mut out, &STANDARD.encode(&response.raw_body));
        put(&mut out, r#"""#);
    }
    if let Some(metadata) = &response.dynamic_metadata {
        put(&mut out, r#","dynamicMetadata":"#);
        put_value(&mut out, &plain_object(metadata));
    }
    put(&mut out, "}");
    out
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// A text in quotes, a number, a structure.
fn put_value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("the keys are text, and memory takes every byte");
}

/// A list behind its name, unless it is empty.
fn put_list<T>(out: &mut Vec<u8>, name: &str, all: &[T], each: impl Fn(&mut Vec<u8>, &T)) {
    for (index, one) in all.iter().enumerate() {
        match index {
            0 => {
                put(out, name);
                put(out, "[");
            }
            _ => put(out, ","),
        }
        each(out, one);
    }
    if !all.is_empty() {
        put(out, "]");
    }
}

fn put_status(out: &mut Vec<u8>, status: &DescriptorStatus) {
    put(out, r#"{"code":""#);
    put(out, code_name(status.code));
    put(out, r#"""#);
    if let Some(limit) = &status.current_limit {
        put(out, r#","currentLimit":"#);
        put_limit(out, limit);
    }
    if status.limit_remaining != 0 {
        put(out, r#","limitRemaining":"#);
        put_value(out, &status.limit_remaining);
    }
    if let Some(span) = &status.duration_until_reset {
        put(out, r#","durationUntilReset":""#);
        put_span(out, span);
        put(out, r#"""#);
    }
    put(out, "}");
}

fn put_limit(out: &mut Vec<u8>, limit: &RateLimit) {
    put(out, "{");
    if !limit.name.is_empty() {
        put(out, r#""name":"#);
        put_value(out, &*limit.name);
        put(out, ",");
    }
    if limit.requests_per_unit != 0 {
        put(out, r#""requestsPerUnit":"#);
        put_value(out, &limit.requests_per_unit);
        put(out, ",");
    }
    put(out, r#""unit":""#);
    put(out, unit_name(limit.unit));
    put(out, r#""}"#);
}

/// Seconds, with nine digits behind the point where there is a fraction.
fn put_span(out: &mut Vec<u8>, span: &Duration) {
    put_value(out, &span.seconds);
    if span.nanos != 0 {
        put(out, &format!(".{:09}", span.nanos));
    }
    put(out, "s");
}

/// A structure as the JSON object it stands for; its depth is that of a rule file at most.
fn plain_object(object: &Struct) -> serde_json::Value {
    let members = object.fields.iter();
    serde_json::Value::Object(
        members
            .map(|(key, value)| (key.clone(), plain(value)))
            .collect(),
    )
}

fn plain(value: &Value) -> serde_json::Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        // Whole numbers without a fraction, as protobuf's JSON has them.
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() < 1e15 => {
            serde_json::Value::from(*number as i64)
        }
        Some(Kind::NumberValue(number)) => serde_json::Value::from(*number),
        Some(Kind::StringValue(text)) => serde_json::Value::from(&**text),
        Some(Kind::BoolValue(truth)) => serde_json::Value::from(*truth),
        Some(Kind::StructValue(object)) => plain_object(object),
        Some(Kind::ListValue(list)) => list.values.iter().map(plain).collect(),
    }
}

fn code_name(code: i32) -> &'static str {
    match Code::try_from(code) {
        Ok(Code::Ok) => "OK",
        Ok(Code::OverLimit) => "OVER_LIMIT",
        Ok(Code::Unknown) | Err(_) => "UNKNOWN",
    }
}

fn unit_name(unit: i32) -> &'static str {
    match rate_limit::Unit::try_from(unit) {
        Ok(rate_limit::Unit::Second) => "SECOND",
        Ok(rate_limit::Unit::Minute) => "MINUTE",
        Ok(rate_limit::Unit::Hour) => "HOUR",
        Ok(rate_limit::Unit::Day) => "DAY",
        Ok(rate_limit::Unit::Week) => "WEEK",
        Ok(rate_limit::Unit::Month) => "MONTH",
        Ok(rate_limit::Unit::Year) => "YEAR",
        Ok(rate_limit::Unit::Unknown) | Err(_) => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::rls::HeaderValue;

    #[test]
    fn a_response_leaves_out_defaults() {
        let response = RateLimitResponse {
            overall_code: Code::OverLimit as i32,
            statuses: vec![
                DescriptorStatus {
                    code: Code::Ok as i32,
                    ..DescriptorStatus::default()
                },
                DescriptorStatus {
                    code: Code::OverLimit as i32,
                    current_limit: Some(RateLimit {
                        name: "a \"b\"".to_owned(),
                        requests_per_unit: 5,
                        unit: rate_limit::Unit::Week as i32,
                    }),
                    limit_remaining: 2,
                    duration_until_reset: Some(Duration {
                        seconds: 60,
                        nanos: 0,
                    }),
                    quota: None,
                },
            ],
            ..RateLimitResponse::default()
        };
        let text = String::from_utf8(write_response(&response)).expect("JSON is text");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["statuses"][1]["currentLimit"]["unit"], "WEEK");
        assert_eq!(
            text,
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OK"},{"code":"OVER_LIMIT","currentLimit":{"name":"a \"b\"","requestsPerUnit":5,"unit":"WEEK"},"limitRemaining":2,"durationUntilReset":"60s"}]}"#
        );
    }

    #[test]
    fn headers_and_metadata_follow_the_statuses() {
        let header = |key: &str, value: &str| HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            raw_value: Vec::new(),
        };
        let text = Value {
            kind: Some(Kind::StringValue("b\n".to_owned())),
        };
        let response = RateLimitResponse {
            overall_code: Code::Ok as i32,
            statuses: vec![DescriptorStatus {
                code: Code::Ok as i32,
                current_limit: Some(RateLimit {
                    unit: rate_limit::Unit::Second as i32,
                    ..RateLimit::default()
                }),
                duration_until_reset: Some(Duration {
                    seconds: 1,
                    nanos: 5_000_000,
                }),
                ..DescriptorStatus::default()
            }],
            response_headers_to_add: vec![header("x", "1"), header("y", "\"")],
            request_headers_to_add: vec![header("z", "2")],
            raw_body: b"over".to_vec(),
            dynamic_metadata: Some(Struct {
                fields: [("a".to_owned(), text)].into(),
            }),
            ..RateLimitResponse::default()
        };
        let text = String::from_utf8(write_response(&response)).expect("JSON is text");
        assert_eq!(
            text,
            r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"unit":"SECOND"},"durationUntilReset":"1.005000000s"}],"responseHeadersToAdd":[{"key":"x","value":"1"},{"key":"y","value":"\""}],"requestHeadersToAdd":[{"key":"z","value":"2"}],"rawBody":"b3Zlcg==","dynamicMetadata":{"a":"b\n"}}"#
        );
        let bare = write_response(&RateLimitResponse::default());
        assert_eq!(bare, br#"{"overallCode":"UNKNOWN"}"#);
    }
}
