//! The receivers' script language: `503*2,200` is twice 503, then 200 for ever. Beside the cues of `simulate` the test
//! receiver knows `hang`.

use crate::domain::simulate::Cue;

/// The most times that one cue may be repeated.
const MAX_REPEAT: usize = 10_000;

/// What a test receiver does with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Cue(Cue),
    /// Never answers.
    Hang,
}

/// Reads a script for `simulate`.
pub fn cues(texts: &[String]) -> Result<Vec<Cue>, String> {
    repeated(texts, Cue::parse)
}

/// Reads a script for `receive`.
pub fn acts(texts: &[String]) -> Result<Vec<Act>, String> {
    repeated(texts, |text| match text {
        "hang" | "timeout" => Ok(Act::Hang),
        text => match Cue::parse(text)? {
            cue @ Cue::Answer { .. } => Ok(Act::Cue(cue)),
            Cue::Fail(kind) => Err(format!("`{kind}`: a test receiver can answer with a status or hang")),
        },
    })
}

fn repeated<T: Clone>(texts: &[String], parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut script = Vec::new();
    for entry in texts.iter().flat_map(|text| text.split(',')) {
        let entry = entry.trim();
        let (cue, count) = match entry.rsplit_once('*') {
            Some((cue, count)) => {
                let count = count.trim().parse().ok().filter(|count| (1..=MAX_REPEAT).contains(count));
                (cue.trim(), count.ok_or_else(|| format!("`{entry}`: repeat 1 to {MAX_REPEAT} times"))?)
            }
            None => (entry, 1),
        };
        script.extend(std::iter::repeat_n(parse(cue)?, count));
    }
    match script.is_empty() {
        true => Err("a script needs at least one entry".into()),
        false => Ok(script),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<String, String> {
        cues(&[text.to_owned()]).map(|cues| cues.iter().map(|cue| cue.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn entries_repeat_and_follow_each_other() {
        assert_eq!(written("503*2, 200").unwrap(), "503 503 200");
        assert_eq!(written("429;retry-after=60,timeout").unwrap(), "429;retry-after=60 timeout");
        for bad in ["", "503*0", "503*x", "503,,200", "soon", "200*99999"] {
            assert!(written(bad).is_err(), "{bad}");
        }
        assert_eq!(acts(&["hang".into()]).unwrap(), [Act::Hang]);
        assert!(acts(&["dns".into()]).is_err());
    }
}
