//! Reads zstd frames, one after the other, and says whether they end early or are damaged.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::store::limits;

/// Why no more text comes; inside of the error that a read ends with.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The file ends inside a frame.
    #[error("the file ends inside a frame")]
    Cut,
    /// The decoder's words.
    #[error("{0}")]
    Damaged(String),
}

/// The text of all frames of `R`. After an error nothing more comes.
pub(super) struct Frames<R> {
    source: EndDetector<R>,
    decoder: FrameDecoder,
    /// Whether a frame has begun whose text was not all handed over.
    inside: bool,
    broken: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source: EndDetector { source, ended: false },
            decoder: {
                let mut decoder = FrameDecoder::new();
                decoder.set_max_window_size(limits::WINDOW);
                decoder
            },
            inside: false,
            broken: false,
        }
    }

    fn begin(&mut self) -> io::Result<bool> {
        if self.source.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.inside = true,
            // Other people's data between frames.
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                let passed = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                if passed < length {
                    return Err(self.broke(Broken::Cut));
                }
            }
            Err(error) => return Err(self.failed(&error)),
        }
        Ok(true)
    }

    /// The frame is over: its checksum, where it has one, is that of its text.
    fn end(&mut self) -> io::Result<()> {
        self.inside = false;
        let stated = self.decoder.get_checksum_from_data();
        if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
            return Err(self.broke(Broken::Damaged("a checksum does not match".to_owned())));
        }
        Ok(())
    }

    fn failed(&mut self, error: &FrameDecoderError) -> io::Error {
        self.broke(if self.source.ended { Broken::Cut } else { Broken::Damaged(error.to_string()) })
    }

    fn broke(&mut self, broken: Broken) -> io::Error {
        self.broken = true;
        io::Error::new(io::ErrorKind::InvalidData, broken)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.inside {
                if !self.begin()? {
                    return Ok(0);
                }
                continue;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if self.decoder.is_finished() {
                self.end()?;
                continue;
            }
            let wanted = BlockDecodingStrategy::UptoBlocks(1);
            if let Err(error) = self.decoder.decode_blocks(&mut self.source, wanted) {
                return Err(self.failed(&error));
            }
        }
    }
}

/// A source that remembers that it was asked for more than it had.
struct EndDetector<R> {
    source: R,
    ended: bool,
}

impl<R: Read> Read for EndDetector<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(out)?;
        self.ended |= length == 0 && !out.is_empty();
        Ok(length)
    }
}
