//! The receivers' script language: `503*2,200` is twice 503, then 200 for ever. `hang` is a receiver that never answers,
//! which its sender takes for a `timeout`: both words mean it, in `simulate` and in `receive`. Entries are separated by
//! commas, so a `Retry-After` in one is a number of seconds: a date has a comma in it.

use crate::domain::attempt::ErrorKind;
use crate::domain::simulate::{Cue, MAX_SCRIPT};

/// What a test receiver does with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Cue(Cue),
    /// Never answers.
    Hang,
    /// Closes the connection without an answer.
    Reset,
}

/// Reads a script for `simulate`.
pub fn cues(texts: &[String]) -> Result<Vec<Cue>, String> {
    repeated(texts, |text| match text {
        "hang" => Ok(Cue::Fail(ErrorKind::Timeout)),
        text => Cue::parse(text),
    })
}

/// Reads a script for `receive`.
pub fn acts(texts: &[String]) -> Result<Vec<Act>, String> {
    repeated(texts, |text| match text {
        "hang" => Ok(Act::Hang),
        text => match Cue::parse(text) {
            Ok(Cue::Fail(ErrorKind::Timeout)) => Ok(Act::Hang),
            Ok(Cue::Fail(ErrorKind::Reset)) => Ok(Act::Reset),
            Ok(Cue::Answer { retry_after: Some(value), .. })
                if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) =>
            {
                Err(format!("`{text}`: Retry-After cannot be sent so"))
            }
            Ok(Cue::Fail(_)) | Err(_) => Err(format!(
                "`{text}`: a test receiver can answer with a status from 200 to 599, also with ;retry-after=SECONDS, hang \
                 or reset"
            )),
            Ok(cue) => Ok(Act::Cue(cue)),
        },
    })
}

fn repeated<T: Clone>(texts: &[String], parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut script = Vec::new();
    for entry in texts.iter().flat_map(|text| text.split(',')) {
        let entry = entry.trim();
        let (cue, count) = match entry.rsplit_once('*') {
            Some((cue, count)) => (cue.trim(), times(count.trim()).ok_or_else(|| not_times(entry))?),
            None => (entry, 1),
        };
        let cue = parse(cue)?;
        if script.len() + count > MAX_SCRIPT {
            return Err(format!("a script has at most {MAX_SCRIPT} entries; the last one repeats anyway"));
        }
        script.extend(std::iter::repeat_n(cue, count));
    }
    match script.is_empty() {
        true => Err("a script needs at least one entry".into()),
        false => Ok(script),
    }
}

fn times(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| digits && (1..=MAX_SCRIPT).contains(count))
}

fn not_times(entry: &str) -> String {
    format!("`{entry}`: after the * stands how many times, 1 to {MAX_SCRIPT}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(texts: &[&str]) -> Result<String, String> {
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        cues(&texts).map(|cues| cues.iter().map(|cue| cue.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn entries_repeat_and_follow_each_other() {
        let check = |texts: &[&str], script: &str| assert_eq!(written(texts).unwrap(), script);
        check(&["503*2, 200"], "503 503 200");
        check(&[" 503 * 2 ", "timeout,200*1"], "503 503 timeout 200");
        check(&["429;retry-after=60,timeout"], "429;retry-after=60 timeout");
        check(&["hang*2,200"], "timeout timeout 200");
        check(&["429;retry-after=60*2"], "429;retry-after=60 429;retry-after=60");
        assert_eq!(cues(&["200*1000".into()]).unwrap().len(), MAX_SCRIPT);
        for bad in ["", "503,", "503*", "503*0", "503*x", "503*+2", "*2", "503,,200", "soon", "200*1001", "200*999,5*2"]
        {
            assert!(written(&[bad]).is_err(), "{bad}");
        }
        assert!(written(&[]).is_err());
        assert!(written(&["200*600", "503*600"]).is_err());
    }

    #[test]
    fn a_receiver_can_do_what_happens_at_its_end() {
        let check = |text: &str, act: Option<Act>| assert_eq!(acts(&[text.into()]).ok(), act.map(|act| vec![act]));
        check("hang", Some(Act::Hang));
        check("timeout", Some(Act::Hang));
        check("reset", Some(Act::Reset));
        check("204", Some(Act::Cue(Cue::parse("204").unwrap())));
        check("429;retry-after=60", Some(Act::Cue(Cue::parse("429;retry-after=60").unwrap())));
        for bad in
            ["dns", "connect", "tls", "protocol", "blocked_address", "429;retry-after=é", "429;retry-after=\r\nx"]
        {
            check(bad, None);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9a-z;=]{0,4}\\*?[0-9]{0,5},?){0,5}|.*") {
            for length in [cues(std::slice::from_ref(&text)).map(|it| it.len()), acts(&[text]).map(|it| it.len())] {
                prop_assert!(length.is_err() || length.is_ok_and(|length| (1..=MAX_SCRIPT).contains(&length)));
            }
        }
    }
}
