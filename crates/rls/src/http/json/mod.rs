//! The messages in protobuf's JSON form: both spellings of field names, 64-bit numbers as text, enumerations
//! by name or number, `null` for what is absent. Unknown fields are an error, as in envoyproxy/ratelimit.

mod response;

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate_wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit, UInt64Value};

pub(super) use response::write_response;

/// Reads a `RateLimitRequest`.
pub(super) fn read_request(body: &[u8]) -> Result<RateLimitRequest, serde_json::Error> {
    serde_json::from_slice::<Object<RequestJson>>(body).map(|request| request.0.into_message())
}

/// The same of a value that was read already.
pub(crate) fn json_request(body: serde_json::Value) -> Result<RateLimitRequest, serde_json::Error> {
    serde_json::from_value::<Object<RequestJson>>(body).map(|request| request.0.into_message())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RequestJson {
    pub(super) domain: Option<String>,
    pub(super) descriptors: Option<Vec<Object<DescriptorJson>>>,
    #[serde(alias = "hits_addend")]
    pub(super) hits_addend: Option<Number<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DescriptorJson {
    entries: Option<Vec<Object<EntryJson>>>,
    limit: Option<Object<OverrideJson>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EntryJson {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct OverrideJson {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number<u32>>,
    unit: Option<UnitJson>,
}

/// A JSON object. Without this a list would do as well, its elements taken for the fields in turn.
pub(super) struct Object<T>(pub(super) T);

/// A whole number, written as a number or as text.
pub(super) struct Number<T>(T);

/// A unit, written by name or number.
struct UnitJson(i32);

impl<T> Number<T> {
    pub(super) fn get(self) -> T {
        self.0
    }
}

impl RequestJson {
    pub(super) fn into_message(self) -> RateLimitRequest {
        let descriptors = self.descriptors.unwrap_or_default();
        RateLimitRequest {
            domain: self.domain.unwrap_or_default(),
            descriptors: descriptors
                .into_iter()
                .map(|descriptor| descriptor.0.into_message())
                .collect(),
            hits_addend: self.hits_addend.map_or(0, |number| number.0),
        }
    }
}

impl DescriptorJson {
    fn into_message(self) -> RateLimitDescriptor {
        let entries = self
            .entries
            .unwrap_or_default()
            .into_iter()
            .map(|entry| Entry {
                key: entry.0.key.unwrap_or_default(),
                value: entry.0.value.unwrap_or_default(),
            });
        RateLimitDescriptor {
            entries: entries.collect(),
            limit: self.limit.map(|Object(limit)| RateLimitOverride {
                requests_per_unit: limit.requests_per_unit.map_or(0, |number| number.0),
                unit: limit.unit.map_or(0, |unit| unit.0),
            }),
            hits_addend: self
                .hits_addend
                .map(|number| UInt64Value { value: number.0 }),
            is_negative_hits: self.is_negative_hits.unwrap_or_default(),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor(PhantomData))
    }
}

struct NumberVisitor<T>(PhantomData<T>);

impl<T> Clone for NumberVisitor<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NumberVisitor<T> {}

impl<T: TryFrom<u64>> Visitor<'_> for NumberVisitor<T> {
    type Value = Number<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of {} bits", size_of::<T>() * 8)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        T::try_from(value)
            .map(Number)
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        // Doubles up to 2^53 are exact, and whole ones are numbers in protobuf's JSON.
        if value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value) {
            self.visit_u64(value as u64)
        } else {
            Err(E::invalid_value(Unexpected::Float(value), &self))
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        // A number as JSON writes it, without a space around it.
        let number = serde_json::from_str::<serde_json::Number>(text).ok();
        let number = number.filter(|_| text.trim_ascii() == text);
        let value = number.and_then(|number| match number.as_u64() {
            None => self.visit_f64::<E>(number.as_f64()?).ok(),
            Some(value) => self.visit_u64::<E>(value).ok(),
        });
        value.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for UnitJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NameOrNumber {
            Name(String),
            Number(i32),
        }
        match NameOrNumber::deserialize(deserializer) {
            Ok(NameOrNumber::Number(number)) => Ok(Self(number)),
            Ok(NameOrNumber::Name(name)) => unit_number(&name)
                .map(Self)
                .ok_or_else(|| D::Error::custom(format!("unknown rate limit unit '{name}'"))),
            Err(_) => Err(D::Error::custom(
                "a rate limit unit is given by name or number",
            )),
        }
    }
}

fn unit_number(name: &str) -> Option<i32> {
    [
        ("UNKNOWN", RateLimitUnit::Unknown),
        ("SECOND", RateLimitUnit::Second),
        ("MINUTE", RateLimitUnit::Minute),
        ("HOUR", RateLimitUnit::Hour),
        ("DAY", RateLimitUnit::Day),
        ("MONTH", RateLimitUnit::Month),
        ("YEAR", RateLimitUnit::Year),
    ]
    .into_iter()
    .find(|(known, _)| *known == name)
    .map(|(_, unit)| unit as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RateLimitRequest {
        read_request(text.as_bytes()).expect(text)
    }

    #[test]
    fn both_spellings_and_all_forms_of_numbers_are_read() {
        let want = read(
            r#"{"domain":"d","hitsAddend":3,"descriptors":[{"entries":[{"key":"a","value":"b"}],
                "limit":{"requestsPerUnit":7,"unit":"MONTH"},"hitsAddend":"9","isNegativeHits":false}]}"#,
        );
        let other = read(
            r#"{"domain":"d","hits_addend":"3","descriptors":[{"entries":[{"key":"a","value":"b"}],
                "limit":{"requests_per_unit":7.0,"unit":5},"hits_addend":9,"is_negative_hits":null}]}"#,
        );
        assert_eq!(want, other);
        assert_eq!(want.hits_addend, 3);
        let descriptor = &want.descriptors[0];
        assert_eq!(descriptor.hits_addend, Some(UInt64Value { value: 9 }));
        assert_eq!(
            descriptor.limit.as_ref().map(|limit| limit.unit),
            Some(RateLimitUnit::Month as i32)
        );
        // Texts hold numbers as JSON writes them.
        for text in ["9", "9.0", "0.9e1", "90E-1"] {
            let text = format!(r#"{{"descriptors":[{{"hitsAddend":"{text}"}}]}}"#);
            let hits = read(&text).descriptors[0].hits_addend;
            assert_eq!(hits, Some(UInt64Value { value: 9 }), "{text}");
        }
        assert_eq!(read("{}"), RateLimitRequest::default());
        assert_eq!(
            read(r#"{"domain":null,"descriptors":null,"hitsAddend":null}"#),
            RateLimitRequest::default()
        );
        let largest = read(r#"{"descriptors":[{"hitsAddend":"18446744073709551615"}]}"#);
        assert_eq!(
            largest.descriptors[0].hits_addend,
            Some(UInt64Value { value: u64::MAX })
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bad in [
            "",
            "{",
            "[]",
            "null",
            r#"{"domian":"d"}"#,
            r#"{"domain":1}"#,
            r#"{"hitsAddend":-1}"#,
            r#"{"hitsAddend":1.5}"#,
            r#"{"hitsAddend":4294967296}"#,
            r#"{"hitsAddend":1,"hits_addend":1}"#,
            r#"{"descriptors":[{"hitsAddend":"-1"}]}"#,
            r#"{"descriptors":[{"hitsAddend":"02"}]}"#,
            r#"{"descriptors":[{"hitsAddend":"+2"}]}"#,
            r#"{"descriptors":[{"hitsAddend":" 2"}]}"#,
            r#"{"descriptors":[{"hitsAddend":"2.5"}]}"#,
            r#"{"descriptors":[{"hitsAddend":""}]}"#,
            r#"{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#,
            r#"{"descriptors":[{"limit":{"unit":"WEEK"}}]}"#,
            r#"{"descriptors":{}}"#,
            r#"{"descriptors":[[]]}"#,
            r#"{"descriptors":[{"entries":[["k","v"]]}]}"#,
            r#"{"domain":"d"} x"#,
        ] {
            assert!(read_request(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
