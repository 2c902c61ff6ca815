//! What a response says about its request, for Envoy's access logs and filters.

use tollgate_wire::rls::rate_limit_descriptor::RateLimitOverride;
use tollgate_wire::rls::rate_limit_response::{Code, DescriptorStatus};
use tollgate_wire::rls::value::Kind;
use tollgate_wire::rls::{
    ListValue, RateLimitDescriptor, RateLimitRequest, RateLimitUnit, Struct, Value,
};

use crate::metadata;
use crate::resolve::Item;
use crate::ruleset::Quota;

/// The `dynamic_metadata` of a response: the request, the `metadata` of the rules whose descriptors pass, whether some rule is a
/// quota, and the indices of the descriptors (`violations`) that are over one which denies nothing.
pub(crate) fn metadata(
    request: &RateLimitRequest,
    items: &[Item<'_>],
    statuses: &[DescriptorStatus],
    violations: &[usize],
) -> Struct {
    let mut all = Struct::default();
    let mut put = |name: &str, kind| put(&mut all, name, kind);
    put("domain", Kind::StringValue(request.domain.clone()));
    let descriptors = request.descriptors.iter().map(descriptor).collect();
    put(
        "descriptors",
        Kind::ListValue(ListValue {
            values: descriptors,
        }),
    );
    if request.hits_addend != 0 {
        put(
            "hitsAddend",
            Kind::NumberValue(f64::from(request.hits_addend)),
        );
    }
    if !violations.is_empty() {
        let index = |&index: &usize| value(Kind::NumberValue(index as f64));
        let values = violations.iter().map(index).collect();
        put("quotaModeViolations", Kind::ListValue(ListValue { values }));
    }
    let is_quota = |item: &Item<'_>| match item {
        Item::Limited(applied) => applied.limit.is_some_and(|limit| limit.quota != Quota::No),
        Item::Free | Item::Unlimited(_) => false,
    };
    let any = items.iter().any(is_quota);
    put("quotaModeEnabled", Kind::BoolValue(any));
    let mut merged = Struct::default();
    for (item, status) in items.iter().zip(statuses) {
        if let Item::Limited(applied) = item
            && status.code == Code::Ok as i32
            && let Some(said) = applied.limit.and_then(|limit| limit.metadata.as_ref())
        {
            metadata::merge(&mut merged, said);
        }
    }
    if !merged.fields.is_empty() {
        put("metadata", Kind::StructValue(merged));
    }
    all
}

fn descriptor(descriptor: &RateLimitDescriptor) -> Value {
    let mut all = Struct::default();
    let entries = descriptor
        .entries
        .iter()
        .map(|entry| value(Kind::StringValue(format!("{}={}", entry.key, entry.value))));
    put(
        &mut all,
        "entries",
        Kind::ListValue(ListValue {
            values: entries.collect(),
        }),
    );
    if let Some(limit) = &descriptor.limit {
        put(&mut all, "limit", Kind::StringValue(limit_text(limit)));
    }
    if let Some(hits) = &descriptor.hits_addend {
        // A double holds whole numbers up to 2^53; above, Envoy's own JSON is no more exact.
        put(&mut all, "hitsAddend", Kind::NumberValue(hits.value as f64));
    }
    value(Kind::StructValue(all))
}

/// An override in protobuf's text form, which leaves out what is 0 and writes numbers that have no name.
fn limit_text(limit: &RateLimitOverride) -> String {
    let unit = match RateLimitUnit::try_from(limit.unit) {
        Ok(unit) => format!("{unit:?}").to_ascii_uppercase(),
        Err(_) => limit.unit.to_string(),
    };
    match limit.requests_per_unit {
        0 => format!("unit:{unit}"),
        requests => format!("requests_per_unit:{requests} unit:{unit}"),
    }
}

fn put(all: &mut Struct, name: &str, kind: Kind) {
    all.fields.insert(name.to_owned(), value(kind));
}

const fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_written_as_protobuf_writes_them() {
        for (requests_per_unit, unit, want) in [
            (10, 2, "requests_per_unit:10 unit:MINUTE"),
            (0, 6, "unit:YEAR"),
            (3, 7, "requests_per_unit:3 unit:7"),
        ] {
            let limit = RateLimitOverride {
                requests_per_unit,
                unit,
            };
            assert_eq!(limit_text(&limit), want);
        }
    }
}
