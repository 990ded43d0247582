//! A distribution by name with parameters as text, as in flags, hints and attributes, and its conversion to a layout.
//!
//! The text form is `name,parameter=value,...`, as in `simple_stripe,strip_size=65536` or `varstrip_dist,strips=0:2K;1:1K`. Sizes
//! are plain decimal bytes; user interfaces expand suffixes such as `64Ki`. The varstrip grammar has its own suffixes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::shortened;
use crate::limits::MAX_DATAFILES;
use crate::{LayoutError, MAX_OFFSET};

/// A distribution's name and its parameters, in the order given. Omitted parameters have their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// A registered distribution's name.
    pub name: String,
    /// Parameter names and values.
    pub parameters: Vec<(String, String)>,
}

impl Spec {
    /// Makes a spec of the distribution `name` with default parameters.
    pub fn new(name: impl Into<String>) -> Spec {
        Spec { name: name.into(), parameters: Vec::new() }
    }

    /// Returns the spec with one parameter set.
    #[must_use]
    pub fn with(mut self, parameter: &str, value: impl fmt::Display) -> Spec {
        self.set(parameter, value);
        self
    }

    /// Sets a parameter, replacing an earlier value. [`crate::Layout::new`] checks that the parameter exists.
    pub fn set(&mut self, parameter: &str, value: impl fmt::Display) {
        let value = value.to_string();
        match self.parameters.iter_mut().find(|(name, _)| name == parameter) {
            Some((_, old)) => *old = value,
            None => self.parameters.push((parameter.to_owned(), value)),
        }
    }

    /// Returns the value given for a parameter, if any.
    pub fn get(&self, parameter: &str) -> Option<&str> {
        self.parameters.iter().find(|(name, _)| name == parameter).map(|(_, value)| value.as_str())
    }
}

impl Default for Spec {
    /// Returns `simple_stripe` with its default strip size.
    fn default() -> Spec {
        Spec::new("simple_stripe")
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.parameters.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

impl FromStr for Spec {
    type Err = LayoutError;

    /// Parses `name,parameter=value,...`. [`crate::Layout::new`] checks the names, not this.
    fn from_str(text: &str) -> Result<Spec, LayoutError> {
        let error = |expected: String| LayoutError::Text { text: shortened(text), expected };
        let mut items = text.split(',');
        let name = items.next().unwrap_or_default();
        if name.is_empty() || name.contains('=') {
            return Err(error("no name: expected name,parameter=value,...".into()));
        }
        let mut spec = Spec::new(name);
        for item in items {
            let (parameter, value) = item
                .split_once('=')
                .filter(|(parameter, _)| !parameter.is_empty())
                .ok_or_else(|| error(format!("`{}` is not a parameter: expected parameter=value", shortened(item))))?;
            if spec.get(parameter).is_some() {
                return Err(error(format!("parameter `{parameter}` is given more than once")));
            }
            spec.parameters.push((parameter.to_owned(), value.to_owned()));
        }
        Ok(spec)
    }
}

/// The type of a parameter, in the terms of the MPI hints that carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// `int64`.
    Int64,
    /// `unsigned int`.
    UnsignedInt,
    /// `string`.
    String,
}

/// The description of a parameter.
#[derive(Debug, Clone, Copy)]
pub struct ParameterInfo {
    /// The parameter's name.
    pub name: &'static str,
    /// The parameter's type.
    pub kind: ParameterType,
    /// Default value; `None`: the parameter is required.
    pub default: Option<&'static str>,
    /// One-line summary, with the unit.
    pub summary: &'static str,
}

/// The description of a distribution.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The distribution's name.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// The distribution's parameters.
    pub parameters: &'static [ParameterInfo],
}

impl Kind {
    fn check_names(&self, spec: &Spec) -> Result<(), LayoutError> {
        for (index, (name, _)) in spec.parameters.iter().enumerate() {
            if !self.parameters.iter().any(|parameter| parameter.name == name) {
                let known = match self.parameters {
                    [] => "none".to_owned(),
                    parameters => parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", "),
                };
                return Err(LayoutError::UnknownParameter { distribution: self.name, parameter: shortened(name), known });
            }
            if spec.parameters[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(LayoutError::DuplicateParameter { distribution: self.name, parameter: name.clone() });
            }
        }
        Ok(())
    }
}

/// The arguments for making a distribution, with the checks common to all.
pub(crate) struct Arguments<'a> {
    kind: &'static Kind,
    spec: &'a Spec,
    requested: Option<u32>,
    available: u32,
}

impl<'a> Arguments<'a> {
    /// Checks the parameter names and the requested number of datafiles.
    pub(crate) fn new(kind: &'static Kind, spec: &'a Spec, requested: Option<u32>, available: u32) -> Result<Arguments<'a>, LayoutError> {
        kind.check_names(spec)?;
        let arguments = Arguments { kind, spec, requested, available };
        match requested {
            Some(0) => Err(arguments.datafiles("0 datafiles requested: expected at least 1".into())),
            _ if available == 0 => Err(arguments.datafiles("there is no target to put datafiles on".into())),
            Some(count) if count > available => {
                Err(arguments.datafiles(format!("{count} datafiles requested, but there are only {available} targets")))
            }
            Some(count) if count > MAX_DATAFILES => {
                Err(arguments.datafiles(format!("{count} datafiles requested: expected at most {MAX_DATAFILES}")))
            }
            _ => Ok(arguments),
        }
    }

    /// Returns a parameter's text: as given, or its default.
    pub(crate) fn text(&self, parameter: &'static str) -> Result<&'a str, LayoutError> {
        let default = || self.kind.parameters.iter().find(|known| known.name == parameter).and_then(|known| known.default);
        self.spec.get(parameter).or_else(default).ok_or_else(|| self.bad(parameter, "", "it must be given".into()))
    }

    /// Returns a size parameter in bytes, 1 to [`MAX_OFFSET`].
    pub(crate) fn size(&self, parameter: &'static str) -> Result<u64, LayoutError> {
        self.positive(parameter, MAX_OFFSET, "bytes")
    }

    /// Returns a count parameter, 1 to `u32::MAX`.
    pub(crate) fn count(&self, parameter: &'static str) -> Result<u32, LayoutError> {
        self.positive(parameter, u32::MAX.into(), "").map(|count| count as u32)
    }

    fn positive(&self, parameter: &'static str, most: u64, unit: &str) -> Result<u64, LayoutError> {
        let text = self.text(parameter)?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|value| digits && (1..=most).contains(value));
        value.ok_or_else(|| {
            let expected = format!("expected a decimal number from 1 to {most} {unit}");
            self.bad(parameter, text, expected.trim_end().to_owned())
        })
    }

    /// Returns the product of parameters if it fits into 63 bits.
    pub(crate) fn product(&self, what: &str, factors: &[u64]) -> Result<u64, LayoutError> {
        let product = factors.iter().try_fold(1u64, |product, &factor| product.checked_mul(factor));
        product.filter(|&product| product <= MAX_OFFSET).ok_or_else(|| {
            let factors: Vec<String> = factors.iter().map(u64::to_string).collect();
            self.overflow(format!("{what} = {}", factors.join(" × ")))
        })
    }

    /// Returns the number of datafiles requested, or one per available target.
    pub(crate) fn datafiles_requested(&self) -> Result<u32, LayoutError> {
        Ok(self.requested.unwrap_or(self.available.min(MAX_DATAFILES)))
    }

    /// Returns the distribution's own number of datafiles; a request for another number is an error.
    pub(crate) fn datafiles_exactly(&self, own: u32) -> Result<u32, LayoutError> {
        match self.requested {
            Some(count) if count != own => {
                Err(self.datafiles(format!("{count} datafiles requested, but with these parameters it has exactly {own}")))
            }
            _ if own > self.available => {
                Err(self.datafiles(format!("it has {own} datafiles, but there are only {} targets", self.available)))
            }
            _ if own > MAX_DATAFILES => Err(self.datafiles(format!("it has {own} datafiles: expected at most {MAX_DATAFILES}"))),
            _ => Ok(own),
        }
    }

    pub(crate) fn bad(&self, parameter: &'static str, value: &str, expected: String) -> LayoutError {
        LayoutError::BadParameter { distribution: self.kind.name, parameter, value: shortened(value), expected }
    }

    pub(crate) fn overflow(&self, what: String) -> LayoutError {
        LayoutError::Overflow { distribution: self.kind.name, what }
    }

    fn datafiles(&self, expected: String) -> LayoutError {
        LayoutError::Datafiles { distribution: self.kind.name, expected }
    }
}
