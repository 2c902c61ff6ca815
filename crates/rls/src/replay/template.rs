//! Descriptors made of what the lines of a recording say.

use std::fmt;
use std::str::FromStr;

use tollgate_wire::rls::RateLimitDescriptor;
use tollgate_wire::rls::rate_limit_descriptor::Entry;

use super::line::Line;

/// One descriptor of every request: `user={remote_user},path={path}`. What stands in braces is the name of a field, `{{` and
/// `}}` are braces. A line that does not say all of it has no such descriptor, as with Envoy's actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorTemplate {
    entries: Vec<(String, Vec<Piece>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(String),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError(String);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TemplateError {}

impl FromStr for DescriptorTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let entries = text.split(',').map(|entry| {
            let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
            if key.is_empty() || value.is_empty() {
                return Err(TemplateError(format!(
                    "'{entry}' is not KEY=VALUE, such as user={{remote_user}}"
                )));
            }
            Ok((key.to_owned(), pieces(value)?))
        });
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }
}

impl DescriptorTemplate {
    /// The descriptor of a line; `None` where the line does not say all of it.
    pub(super) fn fill(&self, line: &Line<'_>) -> Option<RateLimitDescriptor> {
        let entries = self.entries.iter().map(|(key, pieces)| {
            let mut value = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => value.push_str(text),
                    Piece::Field(name) => value.push_str(&line.field(name)?),
                }
            }
            let key = key.clone();
            Some(Entry { key, value })
        });
        Some(RateLimitDescriptor {
            entries: entries.collect::<Option<_>>()?,
            ..RateLimitDescriptor::default()
        })
    }
}

fn pieces(value: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if from.starts_with("{{") || from.starts_with("}}") {
            text.push_str(&from[..1]);
            rest = &from[2..];
            continue;
        }
        let name = from.strip_prefix('{').and_then(|from| from.split_once('}'));
        let Some((name, after)) = name.filter(|(name, _)| !name.is_empty()) else {
            return Err(TemplateError(format!("'{value}' has an unmatched brace")));
        };
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Field(name.to_owned()));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, line: &str) -> Option<Vec<(String, String)>> {
        let template: DescriptorTemplate = template.parse().unwrap();
        let descriptor = template.fill(&Line::parse(line).unwrap())?;
        let entries = descriptor.entries.into_iter();
        Some(entries.map(|entry| (entry.key, entry.value)).collect())
    }

    #[test]
    fn fields_take_the_place_of_their_names() {
        let line = r#"{"time": 1, "user": "ann", "status": 200}"#;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            filled("who={user},what=a-{status}{{}}", line),
            Some(vec![pair("who", "ann"), pair("what", "a-200{}")])
        );
        assert_eq!(filled("who={user},path={path}", line), None);
        assert_eq!(filled("all=yes", line), Some(vec![pair("all", "yes")]));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in [
            "", "user", "user=", "=x", "a=b,", "a={", "a=}", "a={}", "a={b",
        ] {
            assert!(text.parse::<DescriptorTemplate>().is_err(), "{text}");
        }
    }
}
