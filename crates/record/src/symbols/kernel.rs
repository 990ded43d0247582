//! Kernel functions by address, from the kernel's own list. (blazesym reads the same list, but does not return a
//! function's module.)

use super::Named;

const LIST: &str = "/proc/kallsyms";

/// The list, sorted by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    text: String,
    /// Address, and the text position of the name (and the module).
    all: Vec<(u64, u32, u32)>,
}

impl KernelSymbols {
    /// Reads the running kernel's list. Empty if the kernel hides addresses.
    pub(crate) fn here() -> KernelSymbols {
        KernelSymbols::parse(std::fs::read_to_string(LIST).unwrap_or_default())
    }

    /// Builds a list of these addresses only, each with its function's name.
    #[cfg(feature = "bpf")]
    pub(crate) fn known<'a>(addresses: impl IntoIterator<Item = (u64, &'a str)>) -> KernelSymbols {
        KernelSymbols::parse(addresses.into_iter().map(|(address, name)| format!("{address:x} t {name}\n")).collect())
    }

    fn parse(text: String) -> KernelSymbols {
        let mut all = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let end = at + line.trim_end().len();
            let mut fields = line.splitn(3, ' ');
            let (address, kind) = (fields.next().and_then(|a| u64::from_str_radix(a, 16).ok()), fields.next());
            if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) = (address, kind, fields.next())
                && address != 0
                && let (Ok(from), Ok(to)) = (u32::try_from(at + line.len() - name.len()), u32::try_from(end))
            {
                all.push((address, from, to));
            }
            at += line.len();
        }
        // Of aliases, the first in the list.
        all.sort_by_key(|(address, from, _)| (*address, *from));
        all.dedup_by_key(|(address, _, _)| *address);
        KernelSymbols { text, all }
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the function at an address, and its module; empty for the kernel itself.
    pub(crate) fn find(&self, address: u64) -> Option<(Named, &str)> {
        let at = self.all.partition_point(|(start, _, _)| *start <= address).checked_sub(1)?;
        let (start, from, to) = self.all[at];
        let text = self.text.get(from as usize..to as usize)?;
        let (name, module) = text.split_once('\t').unwrap_or((text, ""));
        Some((Named { symbol: name.to_owned(), offset: address - start }, module.trim_matches(['[', ']'])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_modules_and_data_is_none() {
        let list = "ffffffff81000000 T _text\nffffffff81000000 T startup_64\nffffffff81000100 D data\nffffffff81000200 t tcp_sendmsg\n\
                    ffffffffa0000000 t virtnet_poll\t[virtio_net]\n";
        let symbols = KernelSymbols::parse(list.to_owned());
        let found = |address| symbols.find(address).map(|(named, module)| (named.symbol, named.offset, module.to_owned()));
        assert_eq!(found(0xffff_ffff_8100_0105), Some(("_text".into(), 0x105, String::new())));
        assert_eq!(found(0xffff_ffff_8100_0227), Some(("tcp_sendmsg".into(), 0x27, String::new())));
        assert_eq!(found(0xffff_ffff_a000_0003), Some(("virtnet_poll".into(), 3, "virtio_net".into())));
        assert_eq!(found(5), None);
    }

    #[test]
    fn a_list_without_addresses_names_nothing() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t tcp_sendmsg\n";
        assert!(KernelSymbols::parse(hidden.to_owned()).is_empty());
        assert!(KernelSymbols::parse("garbage\n\n1 2".to_owned()).is_empty());
    }
}
