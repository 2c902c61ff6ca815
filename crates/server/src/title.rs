//! `proc-title-template`: what lists of processes call the server.

use crate::config::{Key, Values};
use std::borrow::Cow;
use std::sync::OnceLock;
use tollgate_net::title;

/// Settings that are in the title.
pub(crate) const SETTINGS: [Key; 5] = [
    Key::ProcTitleTemplate,
    Key::Bind,
    Key::Port,
    Key::TlsPort,
    Key::UnixSocket,
];

/// The word by which the program was started.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Lets the server change what lists of processes call it; see [`title::claim`] for when. `program`: the word by which it was
/// started.
pub fn claim_title(program: &str) {
    title::claim();
    PROGRAM.get_or_init(|| program.to_owned());
}

/// Sets the title by the settings, if it is the server's to set. `file`: that of the configuration.
pub(crate) fn follow(values: &Values<'_>, file: Option<&str>) {
    if let Some(program) = PROGRAM.get()
        && values.get(Key::SetProcTitle) == "yes"
        && let Ok(text) = expand(values.get(Key::ProcTitleTemplate), &|name| {
            variable(name, program, values, file)
        })
    {
        title::set(&text);
    }
}

/// Whether a template has only variables that there are, and something else than those that may be empty.
pub(crate) fn is_valid(template: &str) -> bool {
    let text = expand(template, &|name| match name {
        "title" | "server-mode" | "unixsocket" => Some(Cow::Borrowed("")),
        "listen-addr" | "config-file" | "port" | "tls-port" => Some(Cow::Borrowed("-")),
        _ => None,
    });
    text.is_ok_and(|text| !text.is_empty())
}

fn variable<'a>(
    name: &str,
    program: &'a str,
    values: &'a Values<'_>,
    file: Option<&'a str>,
) -> Option<Cow<'a, str>> {
    let text = |key| Cow::Borrowed(values.get(key));
    Some(match name {
        "title" => Cow::Borrowed(program),
        "listen-addr" => match [Key::Port, Key::TlsPort].map(|key| values.get(key)) {
            ["0", "0"] => format!("unixsocket:{}", values.get(Key::UnixSocket)).into(),
            [port, tls] => {
                let first = values.get(Key::Bind).split(' ').next().unwrap_or("*");
                let port = if port == "0" { tls } else { port };
                format!("{first}:{port}").into()
            }
        },
        "server-mode" => Cow::Borrowed(match values.get(Key::ClusterEnabled) {
            "no" => "",
            _ => "[cluster]",
        }),
        "config-file" => Cow::Borrowed(file.unwrap_or("-")),
        "port" => text(Key::Port),
        "tls-port" => text(Key::TlsPort),
        "unixsocket" => text(Key::UnixSocket),
        _ => return None,
    })
}

/// The text of a template: `{name}` stands for a variable, `{{` for a brace. An error is an unknown name, or a brace that is
/// not closed.
fn expand<'v>(
    template: &str,
    variable: &dyn Fn(&str) -> Option<Cow<'v, str>>,
) -> Result<String, ()> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        text.push_str(before);
        if let Some(behind) = behind.strip_prefix('{') {
            text.push('{');
            rest = behind;
            continue;
        }
        let (name, behind) = behind.split_once('}').ok_or(())?;
        text.push_str(&variable(name).ok_or(())?);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text.trim_matches(' ').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Live};

    #[test]
    fn a_template_becomes_the_title() {
        let title = |template: &str, settings: &[(Key, &str)]| {
            let mut config = Config::default();
            config.set(Key::Bind, "127.0.0.1 ::1").unwrap();
            for (key, value) in settings {
                config.set(*key, value).unwrap();
            }
            Live::new(config)
                .with_values(|values| expand(template, &|name| variable(name, "a/b", values, None)))
        };
        let usual = Key::ProcTitleTemplate.setting().default;
        let shown = |text: &str| Ok(text.to_owned());
        assert_eq!(title(usual, &[]), shown("a/b 127.0.0.1:6379"));
        let cluster = title(usual, &[(Key::ClusterEnabled, "yes"), (Key::Port, "7")]);
        assert_eq!(cluster, shown("a/b 127.0.0.1:7 [cluster]"));
        let local = [(Key::Port, "0"), (Key::UnixSocket, "/s")];
        assert_eq!(title("{listen-addr}", &local), shown("unixsocket:/s"));
        let all = "X {{{title}} {port} {tls-port} {unixsocket} {config-file} ";
        assert_eq!(title(all, &local), shown("X {a/b} 0 0 /s -"));
        for bad in ["{nosuch}", "{title", "{}", "{"] {
            assert_eq!(title(bad, &[]), Err(()), "{bad}");
            assert!(!is_valid(bad), "{bad}");
        }
        assert!(is_valid(usual) && is_valid("x") && !is_valid("") && !is_valid("{title}"));
    }
}
