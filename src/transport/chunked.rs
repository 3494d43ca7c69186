//! The chunked coding (RFC 9112 §7.1), read as far as we need it: where its data is and where it ends.

/// Bytes of chunk extensions and trailers that are read over before the message is given up.
const EXTRA_LIMIT: usize = 8 * 1024;

/// What [`Chunked::feed`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A run of data of this many bytes begins the rest of the input.
    Data(usize),
    /// All input is used up.
    More,
    /// The message ends before the rest of the input.
    End,
    /// Not the chunked coding.
    Broken,
}

/// Where in the coding we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a chunk's size, of which this many digits have been read.
    Size {
        digits: u8,
    },
    /// In the white space or extensions after the size.
    Extension,
    /// At the LF that ends the size line.
    SizeLf,
    /// In the data, or just behind it (`left` = 0).
    Data,
    /// At the LF behind the data.
    DataLf,
    /// At the start of a trailer line or of the final empty line.
    TrailerStart,
    /// In a trailer line.
    Trailer,
    /// At the LF of a trailer line.
    TrailerLf,
    /// At the very last LF.
    LastLf,
    End,
}

/// A decoder of one chunked body; feed it bytes in whatever pieces they come.
#[derive(Clone, Debug)]
pub struct Chunked {
    at: At,
    /// The size being read, then how much of the chunk is still to come.
    left: u64,
    extra: usize,
}

impl Chunked {
    pub fn new() -> Self {
        Chunked { at: At::Size { digits: 0 }, left: 0, extra: 0 }
    }

    /// Reads on from the start of `input`. Returns how many bytes were coding and are to be skipped, and what comes
    /// then. After [`Step::Data`] the data counts as read.
    pub fn feed(&mut self, input: &[u8]) -> (usize, Step) {
        for (index, &byte) in input.iter().enumerate() {
            if self.at == At::Data && self.left > 0 {
                let run = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - index);
                self.left -= run as u64;
                return (index, Step::Data(run));
            }
            if self.at == At::End {
                return (index, Step::End);
            }
            match self.next(byte) {
                Some(at) => self.at = at,
                None => return (index, Step::Broken),
            }
        }
        (input.len(), if self.at == At::End { Step::End } else { Step::More })
    }

    /// Where one byte of coding leads.
    fn next(&mut self, byte: u8) -> Option<At> {
        Some(match (self.at, byte) {
            // 15 digits: the sum of all chunks cannot overflow, and no honest chunk is larger.
            (At::Size { digits: 0..15 }, b) if b.is_ascii_hexdigit() => {
                let At::Size { digits } = self.at else { return None };
                self.left = self.left << 4 | u64::from((b as char).to_digit(16)?);
                At::Size { digits: digits + 1 }
            }
            (At::Size { digits: 1.. }, b'\r') | (At::Extension, b'\r') => At::SizeLf,
            (At::Size { digits: 1.. }, b' ' | b'\t' | b';') => At::Extension,
            (At::Extension, b) if b != b'\n' => self.extra(At::Extension)?,
            (At::SizeLf, b'\n') if self.left > 0 => At::Data,
            (At::SizeLf, b'\n') => At::TrailerStart,
            (At::Data, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Size { digits: 0 },
            (At::TrailerStart, b'\r') => At::LastLf,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::TrailerStart | At::Trailer, b) if b != b'\n' => self.extra(At::Trailer)?,
            (At::TrailerLf, b'\n') => At::TrailerStart,
            (At::LastLf, b'\n') => At::End,
            _ => return None,
        })
    }

    /// Counts a byte that means nothing to us.
    fn extra(&mut self, at: At) -> Option<At> {
        self.extra += 1;
        (self.extra <= EXTRA_LIMIT).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data, number of bytes left over and the last step, with the input cut into pieces of `piece` bytes.
    fn decode(input: &[u8], piece: usize) -> (Vec<u8>, usize, Step) {
        let (mut decoder, mut data, mut last) = (Chunked::new(), Vec::new(), Step::More);
        let mut used = 0;
        for part in input.chunks(piece) {
            let mut part = part;
            loop {
                let (skip, step) = decoder.feed(part);
                (used, part, last) = (used + skip, &part[skip..], step);
                match step {
                    Step::Data(run) => {
                        data.extend_from_slice(&part[..run]);
                        (used, part) = (used + run, &part[run..]);
                    }
                    Step::More => break,
                    Step::End | Step::Broken => return (data, input.len() - used, last),
                }
            }
        }
        (data, input.len() - used, last)
    }

    #[test]
    fn reads_the_coding_however_it_is_cut() {
        let table: &[(&[u8], &[u8], usize, Step)] = &[
            (b"5\r\nhello\r\n0\r\n\r\n", b"hello", 0, Step::End),
            (b"5\r\nhello\r\n0\r\n\r\nHTTP", b"hello", 4, Step::End),
            (b"2\r\nab\r\n1;x=\"y\"\r\nc\r\n0 \r\nA: b\r\nC: d\r\n\r\n", b"abc", 0, Step::End),
            (b"00A\r\n0123456789\r\n000\r\n\r\n", b"0123456789", 0, Step::End),
            (b"0\r\n\r\n", b"", 0, Step::End),
            (b"5\r\nhel", b"hel", 0, Step::More),
            (b"5\r\nhello0\r\n\r\n", b"hello", 5, Step::Broken),
            (b"\r\n", b"", 2, Step::Broken),
            (b"xyz", b"", 3, Step::Broken),
            (b"-1\r\n", b"", 4, Step::Broken),
            (b"1\nx\r\n", b"", 4, Step::Broken),
        ];
        for (input, data, left, step) in table {
            for piece in 1..=input.len() {
                assert_eq!(decode(input, piece), (data.to_vec(), *left, *step), "{input:?} in {piece}s");
            }
        }
        assert_eq!(decode(b"FFFFFFFFFFFFFFFF\r\n", 99).2, Step::Broken);
        assert_eq!(decode(&[b"1;".as_slice(), &[b'x'; 9000]].concat(), 100).2, Step::Broken);
    }
}
