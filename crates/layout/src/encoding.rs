//! A layout as bytes, little endian, for records that outlive the program that wrote them.
//!
//! ```text
//!  0        1                  5            6
//! +--------+------------------+------------+----------------------------------------------+
//! | version| datafiles    u32 | parameters | name, then name and value of each parameter  |
//! |   1 u8 |                  |         u8 | each: length u32, then so many bytes of UTF-8 |
//! +--------+------------------+------------+----------------------------------------------+
//! ```
//!
//! Values stay text, so that a distribution with new parameters needs no new format.

use crate::{Distribution, Layout, LayoutError, MAX_TEXT_BYTES, Spec};

const VERSION: u8 = 1;

impl Layout {
    /// The layout as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let parameters = self.parameters();
        let mut bytes = vec![VERSION];
        bytes.extend(self.num_datafiles().to_le_bytes());
        bytes.push(u8::try_from(parameters.len()).expect("no distribution has 256 parameters"));
        let mut text = |text: &str| {
            bytes.extend(u32::try_from(text.len()).expect("bounded by the parser").to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        text(self.name());
        for (name, value) in &parameters {
            text(name);
            text(value);
        }
        bytes
    }

    /// Reads what [`Layout::encode`] wrote, all of `bytes`. Checks what [`Layout::new`] checks.
    pub fn decode(bytes: &[u8]) -> Result<Layout, LayoutError> {
        let mut reader = Reader { bytes, at: 0 };
        match reader.u8()? {
            VERSION => {}
            version => return Err(LayoutError::Encoded { at: 0, what: format!("version {version}: expected {VERSION}") }),
        }
        let datafiles = reader.u32()?;
        let parameters = reader.u8()?;
        let mut spec = Spec::new(reader.text()?);
        for _ in 0..parameters {
            spec.parameters.push((reader.text()?.to_owned(), reader.text()?.to_owned()));
        }
        if reader.at != bytes.len() {
            return Err(LayoutError::Encoded { at: reader.at, what: format!("{} bytes too many", bytes.len() - reader.at) });
        }
        Layout::new(&spec, Some(datafiles), datafiles)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], LayoutError> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..count)
            .ok_or_else(|| LayoutError::Encoded { at: self.at, what: format!("{} bytes left: expected {count}", rest.len()) })?;
        self.at += count;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, LayoutError> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, LayoutError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    fn text(&mut self) -> Result<&'a str, LayoutError> {
        let at = self.at;
        let length = self.u32()? as usize;
        if length > MAX_TEXT_BYTES {
            return Err(LayoutError::Encoded { at, what: format!("a text of {length} bytes: expected at most {MAX_TEXT_BYTES}") });
        }
        std::str::from_utf8(self.take(length)?).map_err(|_| LayoutError::Encoded { at, what: "a text that is not UTF-8".into() })
    }
}
