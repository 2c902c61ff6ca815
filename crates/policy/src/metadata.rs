//! Free YAML as protobuf's JSON-like values.

use std::collections::BTreeMap;

use tollgate_wire::rls::value::Kind as ValueKind;
use tollgate_wire::rls::{ListValue, Struct, Value};

use crate::yaml::{Kind, Node, YamlError};

/// Reads the map of a rule's `metadata`.
pub(crate) fn read(node: &Node) -> Result<Struct, YamlError> {
    let Kind::Map(pairs) = &node.kind else {
        let found = node.describe();
        return Err(YamlError::new(
            node.line,
            format!("config error, metadata must be a map, found {found}"),
        ));
    };
    let mut fields = BTreeMap::new();
    for (key, value) in pairs {
        let Kind::Scalar { text, .. } = &key.kind else {
            let found = key.describe();
            return Err(YamlError::new(
                key.line,
                format!("config error, key is not of type string: {found}"),
            ));
        };
        if fields.insert(text.to_string(), value_of(value)?).is_some() {
            return Err(YamlError::new(
                key.line,
                format!("config error, key '{text}' is given twice"),
            ));
        }
    }
    Ok(Struct { fields })
}

fn value_of(node: &Node) -> Result<Value, YamlError> {
    let kind = match &node.kind {
        _ if node.is_null() => ValueKind::NullValue(0),
        Kind::Map(_) => ValueKind::StructValue(read(node)?),
        Kind::List(items) => ValueKind::ListValue(ListValue {
            values: items.iter().map(value_of).collect::<Result<_, _>>()?,
        }),
        Kind::Scalar { text, plain: true } => match (truth(text), number(text)) {
            (Some(truth), _) => ValueKind::BoolValue(truth),
            (None, Some(number)) => ValueKind::NumberValue(number),
            (None, None) => ValueKind::StringValue(text.to_string()),
        },
        Kind::Scalar { text, .. } => ValueKind::StringValue(text.to_string()),
    };
    Ok(Value { kind: Some(kind) })
}

/// A plain word as a truth value of YAML 1.1, which the peers' rule files are written in.
pub(crate) fn truth(text: &str) -> Option<bool> {
    match &*text.to_ascii_lowercase() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A plain word as a finite number; words like `nan` and `infinity` are none.
fn number(text: &str) -> Option<f64> {
    let first = text.trim_start_matches(['-', '+']).bytes().next()?;
    let digits = first.is_ascii_digit() || first == b'.';
    text.replace('_', "")
        .parse()
        .ok()
        .filter(|number: &f64| digits && number.is_finite())
}

/// A plain word that YAML takes for something else than text, as envoyproxy/ratelimit writes it in its messages.
pub(crate) fn other_than_text(node: &Node) -> Option<String> {
    match &node.kind {
        _ if node.is_null() => Some("<nil>".to_owned()),
        Kind::Scalar { text, plain: true } => match (truth(text), number(text)) {
            (Some(truth), _) => Some(truth.to_string()),
            (None, Some(_)) => Some(text.to_string()),
            (None, None) => None,
        },
        _ => None,
    }
}

/// Adds what `from` says beyond `into`: maps are merged, of anything else the first word counts.
pub(crate) fn merge(into: &mut Struct, from: &Struct) {
    for (key, value) in &from.fields {
        match into.fields.get_mut(key) {
            None => {
                into.fields.insert(key.clone(), value.clone());
            }
            Some(Value {
                kind: Some(ValueKind::StructValue(present)),
            }) => {
                if let Some(ValueKind::StructValue(more)) = &value.kind {
                    merge(present, more);
                }
            }
            Some(_) => {}
        }
    }
}
