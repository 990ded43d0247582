//! Cases: right bytes, changed a little.

/// Numbers from a seed, the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed; any will do.
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6a09_e667_f3bc_c909);
        random.next();
        random
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }
}

/// Numbers at which arithmetic goes wrong.
const ODD: [u64; 14] =
    [0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x7fff_ffff_ffff_ffff];

/// A case is never longer than this.
const MOST_BYTES: usize = 1 << 20;

/// One of the corpus, changed in one to eight places.
pub fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(8) {
        let other = &corpus[random.below(corpus.len())];
        change(&mut bytes, other, random);
        bytes.truncate(MOST_BYTES);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    let most = [4, 32, 512, 8192][random.below(4)];
    let length = 1 + random.below(most);
    let end = (at + length).min(bytes.len());
    match random.below(10) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        3 | 4 => {
            let number = ODD[random.below(ODD.len())].wrapping_add(random.below(3) as u64).wrapping_sub(1);
            let width = [2, 4, 8][random.below(3)];
            let number = if random.below(2) == 0 { number.to_le_bytes() } else { (number << (64 - 8 * width)).to_be_bytes() };
            for (to, from) in bytes[at..].iter_mut().zip(&number[..width]) {
                *to = *from;
            }
        }
        5 => drop(bytes.drain(at..end)),
        6 => {
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        7 => {
            let from = random.below(other.len());
            let piece = other[from..(from + length).min(other.len())].to_vec();
            bytes.splice(at..end, piece);
        }
        8 => bytes.truncate(at),
        _ => {
            let fill = random.next() as u8;
            bytes[at..end].fill(fill);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_can_be_made_again_and_none_is_too_long() {
        let corpus = vec![(0..=255).collect::<Vec<u8>>(), vec![], vec![7; 5]];
        for seed in 0..2000 {
            let case = mutated(&corpus, &mut Random::new(seed));
            assert_eq!(case, mutated(&corpus, &mut Random::new(seed)));
            assert!(case.len() <= MOST_BYTES);
        }
    }
}
