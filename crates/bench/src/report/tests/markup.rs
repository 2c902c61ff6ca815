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

/// What an open element ends at, where it has no end tag of its own: the start of one of these, or the end of what it
/// stands in.
fn ends_at(open: &str, start: &str) -> bool {
    match open {
        "td" | "th" => ["td", "th", "tr"].contains(&start),
        "tr" => start == "tr",
        "li" => start == "li",
        _ => false,
    }
}

/// Whether HTML lets the element go without an end tag.
fn may_stay_open(name: &str) -> bool {
    ["td", "th", "tr", "li"].contains(&name)
}

/// Every start tag has its end tag, in order, but for those that HTML leaves out; `<x/>` closes itself.
fn balanced(html: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = tag_end(rest).unwrap_or_else(|| panic!("tag without end: {:.80}", rest));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            while open
                .last()
                .is_some_and(|last| may_stay_open(last) && last != name.trim())
            {
                open.pop();
            }
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
        while open.last().is_some_and(|last| ends_at(last, &name)) {
            open.pop();
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

/// The numbers of all coordinates in the page's drawings; those of paths as places, not as steps.
pub(super) fn coordinates(html: &str) -> Vec<f64> {
    let mut out = Vec::new();
    for attribute in [
        " x=\"",
        " y=\"",
        " width=\"",
        " height=\"",
        " cx=\"",
        " cy=\"",
    ] {
        for part in html.split(attribute).skip(1) {
            out.push(part.split('"').next().unwrap().parse().unwrap());
        }
    }
    for part in html.split(" d=\"").skip(1) {
        places(part.split('"').next().unwrap(), &mut out);
    }
    out
}

/// Walks the data of a path and notes every place it comes to.
fn places(data: &str, out: &mut Vec<f64>) {
    let (mut x, mut y) = (0.0, 0.0);
    let mut rest = data;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..]
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(rest.len(), |at| at + 1);
        let numbers = numbers(&rest[1..end]);
        rest = &rest[end..];
        match command {
            'M' | 'L' => {
                for pair in numbers.chunks(2) {
                    (x, y) = (pair[0], pair[1]);
                    out.extend([x, y]);
                }
            }
            'm' | 'l' => {
                for pair in numbers.chunks(2) {
                    (x, y) = (x + pair[0], y + pair[1]);
                    out.extend([x, y]);
                }
            }
            'H' => x = numbers[0],
            'V' => y = numbers[0],
            'h' => x += numbers[0],
            'v' => y += numbers[0],
            'z' | 'Z' => assert!(numbers.is_empty(), "{data}"),
            other => panic!("{other} in the path {data}"),
        }
        out.extend([x, y]);
    }
}

/// Numbers as paths write them: a sign begins a new one.
fn numbers(text: &str) -> Vec<f64> {
    text.replace('-', " -")
        .split_ascii_whitespace()
        .map(|number| number.parse().unwrap())
        .collect()
}

/// Position and text of the labels of a class, in the order of the drawing.
pub(super) fn labels(drawing: &str, class: &str) -> Vec<(f64, String)> {
    let group = format!("<g class=\"{class}\">");
    let groups = drawing.split(&group).skip(1);
    groups
        .flat_map(|group| {
            let group = group.split("</g>").next().unwrap();
            group.split("<text x=\"").skip(1)
        })
        .map(|part| {
            let x = part.split('"').next().unwrap().parse().unwrap();
            let text = part.split('>').nth(1).unwrap().split('<').next().unwrap();
            (x, text.to_owned())
        })
        .collect()
}
