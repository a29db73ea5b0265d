//! Which file systems do not keep what they acknowledge.
//!
//! Sources: `linux/magic.h`; overlayfs documentation, "Volatile mount"; crash rules, R25. In memory (tmpfs, ramfs)
//! nothing survives; a volatile overlay skips every sync; on network and user-space file systems locks can be lost
//! without notice and rename may be carried out twice.

use std::path::Path;

/// `f_type` of `statfs`, and what it means.
const VOLATILE: &[(u64, &str)] = &[
    (0x0102_1994, "tmpfs (memory)"),
    (0x8584_58f6, "ramfs (memory)"),
    (0x9584_58f6, "hugetlbfs (memory)"),
    (0x0000_6969, "NFS (network)"),
    (0x0102_1997, "9p (network)"),
    (0x6573_5546, "FUSE (user space)"),
    (0x0000_517b, "SMB (network)"),
    (0xff53_4d42, "CIFS (network)"),
    (0xfe53_4d42, "SMB2 (network)"),
    (0x00c3_6400, "Ceph (network)"),
    (0x5346_414f, "AFS (network)"),
    (0x7375_7245, "Coda (network)"),
    (0x0bd0_0bd0, "Lustre (network)"),
    (0x0116_1970, "GFS2 (network)"),
    (0x7461_636f, "OCFS2 (network)"),
];

/// The name of a file system that does not keep its word, by the low 32 bits of its `f_type`.
pub(crate) fn volatile_kind(magic: u64) -> Option<&'static str> {
    VOLATILE.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// Whether a path (absolute, without links) lies on an overlay that is mounted `volatile`, by the text of
/// `/proc/self/mountinfo`. Of several mounts on one point the last one counts.
pub(crate) fn volatile_overlay(mountinfo: &str, path: &Path) -> bool {
    let mut best: Option<(usize, bool)> = None;
    for line in mountinfo.lines() {
        let Some((mount, fs)) = line.split_once(" - ") else { continue };
        let Some(point) = mount.split(' ').nth(4).map(unescape) else { continue };
        if !path.starts_with(&point) || best.is_some_and(|(len, _)| len > point.len()) {
            continue;
        }
        let mut fields = fs.split(' ');
        let overlay = fields.next() == Some("overlay");
        let volatile = fields.nth(1).is_some_and(|options| {
            options.split(',').any(|option| option == "volatile" || option == "fsync=volatile")
        });
        best = Some((point.len(), overlay && volatile));
    }
    best.is_some_and(|(_, volatile)| volatile)
}

/// Undoes the kernel's octal escapes of blank, tab, line feed and backslash.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:30 / /mnt/a\\040b rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,volatile
31 30 0:31 / /mnt/a\\040b/in rw - ext4 /dev/vdb rw
32 22 0:32 / /mnt/new rw shared:5 - overlay overlay rw,lowerdir=/l,fsync=volatile
33 22 0:33 / /mnt/plain rw - overlay overlay rw,lowerdir=/l,upperdir=/volatile,workdir=/w
";

    #[test]
    fn only_a_volatile_overlay_is_volatile() {
        for (path, volatile) in [
            ("/home/x", false),
            ("/mnt/a b/x", true),
            ("/mnt/a b/in/x", false),
            ("/mnt/new", true),
            ("/mnt/newer", false),
            ("/mnt/plain/x", false),
        ] {
            assert_eq!(volatile_overlay(TABLE, Path::new(path)), volatile, "{path}");
        }
    }
}
