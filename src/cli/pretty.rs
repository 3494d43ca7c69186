//! JSON for people: the text that came, with line ends and indents. A value read from it and written again would lose the
//! order of members, repeated ones, and digits that no `f64` holds.

use std::fmt::Write;

use crate::domain::excerpt::escape_for_terminal;

/// The same JSON, indented as usual. What a terminal would obey or not show is written as JSON's own escapes (C91).
pub fn indented(json: &str) -> String {
    let mut text = String::with_capacity(2 * json.len());
    let mut depth = 0_usize;
    let mut rest = json.chars();
    while let Some(character) = rest.next() {
        // A string ends with its quote, so what ends with a bracket is a list or an object just begun.
        let begun = text.ends_with(['{', '[']);
        match character {
            ' ' | '\t' | '\r' | '\n' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !begun {
                    new_line(&mut text, depth);
                }
            }
            _ if begun => new_line(&mut text, depth),
            _ => {}
        }
        match character {
            '"' => string(&mut text, &mut rest),
            ':' => text.push_str(": "),
            ',' => {
                text.push(',');
                new_line(&mut text, depth);
            }
            '{' | '[' => {
                text.push(character);
                depth += 1;
            }
            other => text.push(other),
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

/// Copies a string whose first quote has been read.
fn string(text: &mut String, rest: &mut std::str::Chars) {
    text.push('"');
    let mut escaped = false;
    for character in rest {
        match character {
            ' '..='~' => text.push(character),
            other if escape_for_terminal(other.encode_utf8(&mut [0; 4]).as_bytes()).starts_with('\\') => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    write!(text, "\\u{unit:04x}").expect("a String takes everything");
                }
            }
            other => text.push(other),
        }
        match character {
            '"' if !escaped => return,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_usual_and_keeps_order_and_digits() {
        let json = r#"{"z":1.50,"a":[ ] , "m":{},"n":[{"b":"}]\\","b":"a\",:[{"}, 1E-400,null]}"#;
        let wanted = r#"{
  "z": 1.50,
  "a": [],
  "m": {},
  "n": [
    {
      "b": "}]\\",
      "b": "a\",:[{"
    },
    1E-400,
    null
  ]
}"#;
        assert_eq!(indented(json), wanted);
        assert_eq!(indented(wanted), wanted);
        for text in ["{}", "[]", "\"a b\"", "-1", r#"{"a":[[],{"b":{"c":[1,"é"]}}],"d":true}"#] {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(indented(text), serde_json::to_string_pretty(&value).unwrap());
        }
    }

    /// C91, for answers.
    #[test]
    fn c91_what_a_terminal_would_obey_is_escaped() {
        let text = indented("[\"\u{9b}2J\u{202e}\u{e0041}é\u{1f600}\"]");
        assert_eq!(text, "[\n  \"\\u009b2J\\u202e\\udb40\\udc41é\u{1f600}\"\n]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), ["\u{9b}2J\u{202e}\u{e0041}é\u{1f600}"]);
    }
}
