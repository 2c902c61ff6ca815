//! JSON by columns: what stands at one place of many alike objects stands together, and the names only once. A record of
//! many rows deflates to two thirds of what it does row by row.
//!
//! A column holds values in order. It is an array of them, or an object that says how they are put together:
//! `{"k": {NAME: COLUMN, ...}, "?": {NAME: [0, 1, ...], ...}}` for objects (`?` says which of them have a name that not all
//! have), `{"n": [LENGTH, ...], "of": COLUMN}` for arrays, `{"some": [0, 1, ...], "of": COLUMN}` where some are null.

use serde_json::{Map, Value, json};

/// Most values that are put together again: a hundred times what a long record has. A column may announce many in few
/// characters.
const VALUES_MAX: usize = 5_000_000;

/// `value` by columns.
pub(super) fn taken_apart(value: &Value) -> Value {
    column(&[value])
}

/// The value that [`taken_apart`] took apart; `None` if `columns` was not made by it.
pub(super) fn put_together(columns: Value) -> Option<Value> {
    let mut left = VALUES_MAX;
    values(columns, 1, &mut left)?.pop()
}

fn column(values: &[&Value]) -> Value {
    let all = |is: fn(&Value) -> bool| !values.is_empty() && values.iter().all(|value| is(value));
    if all(Value::is_object) {
        return objects(values);
    }
    if all(Value::is_array) {
        let arrays = || values.iter().filter_map(|value| value.as_array());
        let lengths: Vec<usize> = arrays().map(Vec::len).collect();
        let inner: Vec<&Value> = arrays().flatten().collect();
        return json!({"n": lengths, "of": column(&inner)});
    }
    let some: Vec<&Value> = values.iter().copied().filter(|v| !v.is_null()).collect();
    let structured = |is: fn(&Value) -> bool| !some.is_empty() && some.iter().all(|v| is(v));
    if some.len() < values.len() && (structured(Value::is_object) || structured(Value::is_array)) {
        return json!({"some": flags(values.iter().map(|v| !v.is_null())), "of": column(&some)});
    }
    Value::Array(values.iter().copied().cloned().collect())
}

fn objects(values: &[&Value]) -> Value {
    let objects: Vec<&Map<String, Value>> = values.iter().filter_map(|v| v.as_object()).collect();
    let mut names: Vec<&String> = objects.iter().flat_map(|object| object.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let (mut columns, mut partly) = (Map::new(), Map::new());
    for name in names {
        let found: Vec<&Value> = objects
            .iter()
            .filter_map(|object| object.get(name))
            .collect();
        if found.len() < objects.len() {
            let has = flags(objects.iter().map(|object| object.contains_key(name)));
            partly.insert(name.clone(), has);
        }
        columns.insert(name.clone(), column(&found));
    }
    if partly.is_empty() {
        json!({"k": columns})
    } else {
        json!({"k": columns, "?": partly})
    }
}

fn flags(values: impl Iterator<Item = bool>) -> Value {
    Value::Array(values.map(|value| Value::from(u8::from(value))).collect())
}

/// The `count` values of a column.
fn values(column: Value, count: usize, left: &mut usize) -> Option<Vec<Value>> {
    *left = left.checked_sub(count)?;
    let mut parts = match column {
        Value::Array(values) => return (values.len() == count).then_some(values),
        Value::Object(parts) => parts,
        _ => return None,
    };
    if let Some(columns) = parts.remove("k") {
        return objects_of(columns, parts.remove("?"), count, left);
    }
    let of = parts.remove("of")?;
    if let Some(lengths) = parts.remove("n") {
        let lengths: Vec<usize> = numbers(&lengths)?;
        let total = lengths
            .iter()
            .try_fold(0_usize, |sum, n| sum.checked_add(*n))?;
        let mut inner = values(of, total, left)?.into_iter();
        let arrays = lengths
            .iter()
            .map(|length| inner.by_ref().take(*length).collect());
        return (lengths.len() == count).then(|| arrays.collect());
    }
    let some = marks(&parts.remove("some")?)?;
    let mut inner = values(of, some.iter().sum(), left)?.into_iter();
    let each = some.iter().map(|has| match has {
        0 => Some(Value::Null),
        _ => inner.next(),
    });
    (some.len() == count).then(|| each.collect())?
}

fn objects_of(
    columns: Value,
    partly: Option<Value>,
    count: usize,
    left: &mut usize,
) -> Option<Vec<Value>> {
    let Value::Object(columns) = columns else {
        return None;
    };
    let mut objects = vec![Map::new(); count];
    for (name, column) in columns {
        let has = match partly.as_ref().and_then(|partly| partly.get(&name)) {
            Some(flags) => marks(flags).filter(|has| has.len() == count)?,
            None => vec![1; count],
        };
        let mut found = values(column, has.iter().sum(), left)?.into_iter();
        for (object, _) in objects.iter_mut().zip(&has).filter(|(_, has)| **has == 1) {
            object.insert(name.clone(), found.next()?);
        }
    }
    Some(objects.into_iter().map(Value::Object).collect())
}

/// Flags: 0 and 1.
fn marks(value: &Value) -> Option<Vec<usize>> {
    numbers(value).filter(|marks| marks.iter().all(|mark| *mark <= 1))
}

fn numbers(value: &Value) -> Option<Vec<usize>> {
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    value.as_array()?.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_put_together_as_it_was() {
        let values = [
            json!(null),
            json!(7),
            json!([]),
            json!({}),
            json!([[], [1, null, "a"], [{}]]),
            json!([{"a": 1, "b": [1, 2]}, {"a": 2.5, "b": []}, {"a": null, "b": [3]}]),
            json!([{"a": {"x": 1}}, {"b": true}, {"a": null, "b": false}, {}]),
            json!([{"a": {"x": 1}}, {"a": 5}, {"a": [1]}, {"a": "t"}]),
            json!({"k": {"n": [1], "of": []}, "some": [{"?": 1}, null, {"?": 2, "k": 3}]}),
        ];
        for value in values {
            let apart = taken_apart(&value);
            assert_eq!(put_together(apart.clone()), Some(value), "{apart}");
        }
    }

    #[test]
    fn names_stand_there_once() {
        let rows: Vec<Value> = (0..100).map(|at| json!({"latency": at})).collect();
        let text = taken_apart(&Value::Array(rows)).to_string();
        assert_eq!(text.matches("latency").count(), 1, "{text}");
    }

    #[test]
    fn what_was_not_taken_apart_is_not_put_together() {
        let wrong = [
            json!(null),
            json!("x"),
            json!([]),
            json!([1, 2]),
            json!({"of": [1]}),
            json!({"n": [2], "of": [1]}),
            json!({"n": [1, 0], "of": [1]}),
            json!({"n": [-1], "of": []}),
            json!({"n": [u64::MAX, 1], "of": [1]}),
            // Announced in few characters, and never made.
            json!({"n": [1_000_000_000_000_u64], "of": {"k": {}}}),
            json!({"some": [1], "of": []}),
            json!({"some": [2], "of": [1, 2]}),
            json!({"k": {"a": []}}),
            json!({"k": {"a": [1]}, "?": {"a": [0]}}),
            json!({"k": {"a": [1]}, "?": {"a": [1, 1]}}),
            json!({"k": [1]}),
        ];
        for columns in wrong {
            assert_eq!(put_together(columns.clone()), None, "{columns}");
        }
    }
}
