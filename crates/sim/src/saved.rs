//! Converts words to bytes and back, with a checksum at the end. Drives are saved in this form between runs.

use std::fmt;

/// Why bytes can't be loaded as a drive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StateError {
    /// The bytes are not the state of a drive, or another version wrote them.
    Foreign,
    /// There are fewer or more bytes than the drive's own figures require.
    Length,
    /// The bytes changed since they were written.
    Checksum,
    /// The bytes are unchanged but describe an impossible state. The text says what is impossible.
    Impossible(String),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(
                f,
                "these bytes are not the state of a drive, or another version wrote them: format the drive instead"
            ),
            Self::Length => write!(
                f,
                "the state of the drive is cut short or too long: format the drive instead"
            ),
            Self::Checksum => write!(f, "the state of the drive is damaged: format the drive instead"),
            Self::Impossible(what) => write!(f, "the state of the drive can't be: {what}; format the drive instead"),
        }
    }
}

impl std::error::Error for StateError {}

/// Returns the FNV-1a hash (G. Fowler, L. C. Noll, K.-P. Vo) over words of 8 bytes. The last word is padded with zeros.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Converts words to bytes, and appends a checksum at the end.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub fn short(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub fn shorts(&mut self, words: impl IntoIterator<Item = u32>) {
        for word in words {
            self.short(word);
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn finish(mut self) -> Vec<u8> {
        let sum = checksum(&self.bytes);
        self.word(sum);
        self.bytes
    }
}

/// Reads such words. It can be made only if the checksum matches.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], magic: u64) -> Result<Self, StateError> {
        if bytes.first_chunk() != Some(&magic.to_le_bytes()) {
            return Err(StateError::Foreign);
        }
        let (body, sum) = bytes.split_last_chunk().ok_or(StateError::Length)?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err(StateError::Checksum);
        }
        let rest = body.get(8..).ok_or(StateError::Length)?;
        Ok(Self { rest })
    }

    pub fn word(&mut self) -> Result<u64, StateError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(StateError::Length)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub fn short(&mut self) -> Result<u32, StateError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(StateError::Length)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    /// Reads `count` words if there are as many. A damaged count must not allocate all memory.
    pub fn shorts(&mut self, count: u32) -> Result<Vec<u32>, StateError> {
        let (words, rest) = self
            .rest
            .split_at_checked(count as usize * 4)
            .ok_or(StateError::Length)?;
        self.rest = rest;
        let words = words.chunks_exact(4);
        Ok(words
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    /// Returns all bytes that are left.
    pub fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn finish(self) -> Result<(), StateError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(StateError::Length)
        }
    }
}
