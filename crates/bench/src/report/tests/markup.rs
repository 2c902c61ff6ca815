//! A small checker for the HTML the reports make: tags balance, nothing is fetched, no number is broken.

/// Elements without an end tag.
const VOID: [&str; 4] = ["meta", "br", "!doctype", "link"];

/// Panics with the reason if the page is not well-formed or needs the network.
pub(super) fn check(html: &str) {
    balanced(html);
    for needle in ["http://", "https://", "//cdn", "@import", " src=", "url(//"] {
        let body = html.split("id=\"tollgate-record\"").next().unwrap();
        assert!(!body.contains(needle), "the page refers to {needle}");
    }
    let scripts = html.matches("<script").count();
    assert_eq!(scripts, 2, "the data element and our own script");
    for word in ["NaN", "inf ", "inf<", ">inf", "\"inf", "-inf", "Infinity"] {
        // Histograms in the data are base64, which may spell anything.
        let body = html.split("id=\"tollgate-record\"").next().unwrap();
        assert!(!body.contains(word), "the page contains {word:?}");
    }
}

/// Every start tag has its end tag, in order; `<x/>` closes itself.
fn balanced(html: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = tag_end(rest).unwrap_or_else(|| panic!("tag without end: {:.80}", rest));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let expected = open.pop();
            assert_eq!(
                expected.as_deref(),
                Some(name.trim()),
                "before: {:.120}",
                rest
            );
            continue;
        }
        let name: String = tag
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '/')
            .collect::<String>()
            .to_lowercase();
        if tag.ends_with('/') || VOID.contains(&name.as_str()) {
            continue;
        }
        if name == "script" || name == "style" {
            let end = format!("</{name}>");
            let at = rest
                .find(&end)
                .unwrap_or_else(|| panic!("{name} without end"));
            rest = &rest[at + end.len()..];
            continue;
        }
        open.push(name);
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

/// Position of the `>` that ends a tag; one inside a quoted attribute does not.
fn tag_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The numbers of all coordinates in the page's drawings.
pub(super) fn coordinates(html: &str) -> Vec<f64> {
    let mut out = Vec::new();
    for attribute in [
        " x=\"",
        " y=\"",
        " width=\"",
        " height=\"",
        " cx=\"",
        " cy=\"",
        " d=\"",
    ] {
        for part in html.split(attribute).skip(1) {
            let value = part.split('"').next().unwrap();
            let numbers = value.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
            out.extend(
                numbers
                    .filter(|n| !n.is_empty())
                    .map(|n| n.parse::<f64>().unwrap()),
            );
        }
    }
    out
}

/// Position and text of the labels of a class, in the order of the drawing.
pub(super) fn labels(drawing: &str, class: &str) -> Vec<(f64, String)> {
    let start = format!("<text class=\"{class}\" x=\"");
    let parts = drawing.split(&start).skip(1);
    parts
        .map(|part| {
            let x = part.split('"').next().unwrap().parse().unwrap();
            let text = part.split('>').nth(1).unwrap().split('<').next().unwrap();
            (x, text.to_owned())
        })
        .collect()
}
