//! Abbreviations of time zones. Where several places use one, it is the offset of the first in timelib's list.

/// Returns the offset of an abbreviation in lower case, in seconds ahead of UTC.
pub fn offset(name: &str) -> Option<i64> {
    let found = ABBREVIATIONS
        .binary_search_by_key(&name, |row| row.0)
        .ok()?;
    Some(ABBREVIATIONS.get(found)?.1)
}

/// Sorted by name. A single letter is a zone of the military (and `j` is none).
#[rustfmt::skip]
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("a", 3600), ("acdt", 37_800), ("acst", 34_200), ("addt", -7200), ("adt", -10_800), ("aedt", 39_600), ("aest", 36_000),
    ("ahdt", -32_400), ("ahst", -36_000), ("akdt", -28_800), ("akst", -32_400), ("amt", -13_840), ("apt", -10_800),
    ("ast", -14_400), ("awdt", 32_400), ("awst", 28_800), ("awt", -10_800), ("b", 7200), ("bdst", 7200), ("bdt", -36_000),
    ("bmt", -14_309), ("bst", 3600), ("c", 10_800), ("cast", 34_200), ("cat", 7200), ("cddt", -14_400), ("cdt", -18_000),
    ("cemt", 10_800), ("cest", 7200), ("cet", 3600), ("chst", 36_000), ("cmt", -15_408), ("cpt", -18_000), ("cst", -21_600),
    ("cwt", -18_000), ("d", 14_400), ("dmt", -1521), ("e", 18_000), ("eat", 10_800), ("eddt", -10_800), ("edt", -14_400),
    ("eest", 10_800), ("eet", 7200), ("emt", -26_248), ("ept", -14_400), ("est", -18_000), ("ewt", -14_400), ("f", 21_600),
    ("ffmt", -14_660), ("fmt", -4056), ("g", 25_200), ("gdt", 39_600), ("gmt", 0), ("gst", 36_000), ("h", 28_800),
    ("hdt", -34_200), ("hkst", 32_400), ("hkt", 28_800), ("hmt", -19_776), ("hpt", -34_200), ("hst", -36_000), ("hwt", -34_200),
    ("i", 32_400), ("iddt", 14_400), ("idt", 10_800), ("imt", 25_025), ("ist", 7200), ("jdt", 36_000), ("jmt", 8440),
    ("jst", 32_400), ("k", 36_000), ("kdt", 36_000), ("kmt", 5736), ("kst", 30_600), ("l", 39_600), ("lst", 9394),
    ("m", 43_200), ("mddt", -18_000), ("mdst", 16_279), ("mdt", -21_600), ("mest", 7200), ("met", 3600), ("mmt", 9017),
    ("mpt", -21_600), ("msd", 14_400), ("msk", 10_800), ("mst", -25_200), ("mwt", -21_600), ("n", -3600), ("nddt", -5400),
    ("ndt", -9052), ("npt", -9000), ("nst", -12_600), ("nwt", -9000), ("nzdt", 46_800), ("nzmt", 41_400), ("nzst", 43_200),
    ("o", -7200), ("p", -10_800), ("pddt", -21_600), ("pdt", -25_200), ("pkst", 21_600), ("pkt", 18_000), ("plmt", 25_590),
    ("pmt", -13_236), ("ppmt", -17_340), ("ppt", -25_200), ("pst", -28_800), ("pwt", -25_200), ("q", -14_400), ("qmt", -18_840),
    ("r", -18_000), ("rmt", 5794), ("s", -21_600), ("sast", 7200), ("sdmt", -16_800), ("sjmt", -20_173), ("smt", -13_884),
    ("sst", -39_600), ("t", -25_200), ("tbmt", 10_751), ("tmt", 12_344), ("u", -28_800), ("uct", 0), ("utc", 0), ("v", -32_400),
    ("w", -36_000), ("wast", 7200), ("wat", 3600), ("wemt", 7200), ("west", 3600), ("wet", 0), ("wib", 25_200), ("wit", 32_400),
    ("wita", 28_800), ("wmt", 5040), ("x", -39_600), ("y", -43_200), ("yddt", -25_200), ("ydt", -28_800), ("ypt", -28_800),
    ("yst", -32_400), ("ywt", -28_800), ("z", 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted() {
        assert!(ABBREVIATIONS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(offset("cest"), Some(7200));
        assert_eq!(offset("z"), Some(0));
        assert_eq!(offset("j"), None);
    }
}
