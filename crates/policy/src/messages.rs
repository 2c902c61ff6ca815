//! Rules as a management server gives them: messages, which become the tree that a file of rules is.

use tollgate_wire::rls::value::Kind as ValueKind;
use tollgate_wire::rls::{Struct, Value};
use tollgate_wire::xds::{RateLimitConfig, RateLimitDescriptor, RateLimitPolicy};

use crate::load::{self, LoadOptions, RuleError};
use crate::ruleset::Ruleset;
use crate::unit::Unit;
use crate::yaml::{Kind, Node};

/// Messages have no lines.
const NO_LINE: usize = 0;

pub(crate) fn load(
    configs: &[RateLimitConfig],
    options: LoadOptions,
) -> Result<Ruleset, RuleError> {
    let roots = configs
        .iter()
        .map(|config| (&*config.name, Ok(root_of(config))));
    load::load_all(roots, options)
}

fn root_of(config: &RateLimitConfig) -> Node {
    map(vec![
        ("domain", text(&config.domain)),
        ("descriptors", descriptors_of(&config.descriptors)),
    ])
}

/// The nesting is bounded by that of messages.
fn descriptors_of(descriptors: &[RateLimitDescriptor]) -> Node {
    let descriptor = |given: &RateLimitDescriptor| {
        let mut pairs = vec![
            ("key", text(&given.key)),
            ("value", text(&given.value)),
            ("descriptors", descriptors_of(&given.descriptors)),
            ("shadow_mode", plain(given.shadow_mode)),
            ("quota_mode", plain(given.quota_mode)),
            ("detailed_metric", plain(given.detailed_metric)),
        ];
        if let Some(policy) = &given.rate_limit {
            pairs.push(("rate_limit", rate_limit_of(policy)));
        }
        if let Some(metadata) = &given.metadata {
            pairs.push(("metadata", struct_of(metadata)));
        }
        map(pairs)
    };
    list(descriptors.iter().map(descriptor).collect())
}

fn rate_limit_of(policy: &RateLimitPolicy) -> Node {
    let replaces = policy.replaces.iter();
    let replaces = replaces.map(|replaced| map(vec![("name", text(&replaced.name))]));
    let mut pairs = vec![
        ("unlimited", plain(policy.unlimited)),
        ("name", text(&policy.name)),
        ("replaces", list(replaces.collect())),
        ("requests_per_unit", plain(policy.requests_per_unit)),
    ];
    match (Unit::from_number(policy.unit), policy.unit) {
        (Some(unit), _) => pairs.push(("unit", text(unit.name()))),
        // As if it had not been given, which is what it means.
        (None, _) if policy.unlimited => {}
        (None, 0) => pairs.push(("unit", text("UNKNOWN"))),
        (None, number) => pairs.push(("unit", text(&number.to_string()))),
    }
    map(pairs)
}

fn struct_of(given: &Struct) -> Node {
    let fields = given.fields.iter();
    let pairs = fields.map(|(key, value)| (text(key), value_of(value)));
    node(Kind::Map(pairs.collect()))
}

fn value_of(value: &Value) -> Node {
    match &value.kind {
        None | Some(ValueKind::NullValue(_)) => plain("null"),
        Some(ValueKind::BoolValue(truth)) => plain(truth),
        Some(ValueKind::NumberValue(number)) => plain(number),
        Some(ValueKind::StringValue(said)) => text(said),
        Some(ValueKind::StructValue(inner)) => struct_of(inner),
        Some(ValueKind::ListValue(values)) => list(values.values.iter().map(value_of).collect()),
    }
}

fn node(kind: Kind) -> Node {
    Node {
        line: NO_LINE,
        kind,
    }
}

/// A text whose form says nothing of its type.
fn text(said: &str) -> Node {
    node(Kind::Scalar {
        text: said.into(),
        plain: false,
    })
}

fn plain(value: impl ToString) -> Node {
    node(Kind::Scalar {
        text: value.to_string().into(),
        plain: true,
    })
}

fn list(items: Vec<Node>) -> Node {
    node(Kind::List(items))
}

fn map(pairs: Vec<(&str, Node)>) -> Node {
    let pairs = pairs.into_iter().map(|(key, value)| (text(key), value));
    node(Kind::Map(pairs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::rls::ListValue;
    use tollgate_wire::rls::rate_limit_response::rate_limit;
    use tollgate_wire::xds::RateLimitReplace;

    fn limit(unit: i32, requests_per_unit: u32) -> Option<RateLimitPolicy> {
        Some(RateLimitPolicy {
            unit,
            requests_per_unit,
            ..RateLimitPolicy::default()
        })
    }

    fn descriptor(key: &str, rate_limit: Option<RateLimitPolicy>) -> RateLimitDescriptor {
        RateLimitDescriptor {
            key: key.to_owned(),
            rate_limit,
            ..RateLimitDescriptor::default()
        }
    }

    fn config(descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
        RateLimitConfig {
            name: "one".to_owned(),
            domain: "d".to_owned(),
            descriptors,
        }
    }

    fn load(configs: &[RateLimitConfig]) -> Result<Ruleset, String> {
        let loaded = Ruleset::load_messages(configs, LoadOptions::default());
        loaded.map_err(|error| error.to_string())
    }

    fn texts(rules: &Ruleset) -> Vec<String> {
        let described = rules.describe().into_iter();
        described.map(|line| line.text).collect()
    }

    /// Texts that a file would have to quote stay texts.
    #[test]
    fn messages_say_what_a_file_says() {
        let value = |kind| Value { kind: Some(kind) };
        let metadata = Struct {
            fields: [
                ("number", value(ValueKind::NumberValue(-1.5e300))),
                ("digits", value(ValueKind::StringValue("15".to_owned()))),
                ("word", value(ValueKind::StringValue("no".to_owned()))),
                ("truth", value(ValueKind::BoolValue(true))),
                ("nothing", value(ValueKind::NullValue(0))),
                (
                    "list",
                    value(ValueKind::ListValue(ListValue {
                        values: vec![value(ValueKind::StructValue(Struct::default()))],
                    })),
                ),
            ]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        };
        let given = config(vec![
            RateLimitDescriptor {
                value: "null".to_owned(),
                shadow_mode: true,
                quota_mode: true,
                detailed_metric: true,
                metadata: Some(metadata.clone()),
                descriptors: vec![descriptor("inner", limit(rate_limit::Unit::Year as i32, 7))],
                ..descriptor("~", limit(rate_limit::Unit::Week as i32, 0))
            },
            descriptor(
                "free",
                Some(RateLimitPolicy {
                    unlimited: true,
                    name: "n".to_owned(),
                    replaces: vec![RateLimitReplace {
                        name: "other".to_owned(),
                    }],
                    ..RateLimitPolicy::default()
                }),
            ),
            descriptor("path", None),
        ]);
        let there = load(&[given]).expect("valid");
        let file = "domain: d\ndescriptors: [\
            {key: '~', value: 'null', shadow_mode: true, quota_mode: true, detailed_metric: true,\
            metadata: {number: -1.5e300, digits: '15', word: 'no', truth: true, nothing: ~, list: [{}]},\
            rate_limit: {unit: week, requests_per_unit: 0},\
            descriptors: [{key: inner, rate_limit: {unit: year, requests_per_unit: 7}}]},\
            {key: free, rate_limit: {unlimited: true, name: n, replaces: [{name: other}]}}, {key: path}]\n";
        let here = Ruleset::load(&[("one", file)]).expect("valid");
        assert_eq!(texts(&there), texts(&here));
        assert_eq!(there.limit_count(), 3);
        let found = |rules: &Ruleset| {
            let rule = &rules.domains["d"].keys["~"].exact["null"];
            rule.limit.as_ref().expect("there").metadata.clone()
        };
        assert_eq!(found(&there), Some(metadata));
        assert_eq!(found(&there), found(&here));
    }

    /// The words are those of envoyproxy/ratelimit.
    #[test]
    fn what_is_wrong_is_told_with_the_name_of_the_message() {
        let day = || limit(rate_limit::Unit::Day as i32, 1);
        let unlimited = |unit| {
            Some(RateLimitPolicy {
                unit,
                unlimited: true,
                ..RateLimitPolicy::default()
            })
        };
        let replaces = |name: &str| {
            Some(RateLimitPolicy {
                name: "x".to_owned(),
                replaces: vec![RateLimitReplace {
                    name: name.to_owned(),
                }],
                ..day().expect("a limit")
            })
        };
        for (rate_limit, reason) in [
            (day(), None),
            (unlimited(0), None),
            (unlimited(99), None),
            (
                unlimited(4),
                Some("should not specify rate limit unit when unlimited"),
            ),
            (limit(0, 1), Some("invalid rate limit unit 'UNKNOWN'")),
            (limit(99, 1), Some("invalid rate limit unit '99'")),
            (limit(-3, 1), Some("invalid rate limit unit '-3'")),
            (
                replaces(""),
                Some("should not have an empty replaces entry"),
            ),
            (
                replaces("x"),
                Some("replaces should not contain name of same descriptor"),
            ),
        ] {
            let loaded = load(&[config(vec![descriptor("k", rate_limit.clone())])]);
            let told = loaded.err();
            let wanted = reason.map(|reason| format!("one: {reason}"));
            assert_eq!(told, wanted, "{rate_limit:?}");
        }
        for (configs, reason) in [
            (
                vec![RateLimitConfig::default()],
                ": config file cannot have empty domain",
            ),
            (
                vec![config(Vec::new()), config(Vec::new())],
                "one: duplicate domain 'd' in config file",
            ),
            (
                vec![config(vec![descriptor("", None)])],
                "one: descriptor has empty key",
            ),
            (
                vec![config(vec![descriptor("a", None), descriptor("a", None)])],
                "one: duplicate descriptor composite key 'd.a'",
            ),
        ] {
            assert_eq!(load(&configs).err().as_deref(), Some(reason));
        }
    }

    #[test]
    fn no_message_is_no_rules_and_not_nothing_loaded() {
        let none = load(&[]).expect("valid");
        assert!(none.is_loaded() && none.domain_count() == 0);
        assert!(!Ruleset::default().is_loaded());
    }
}
