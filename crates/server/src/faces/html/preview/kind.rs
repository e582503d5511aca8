//! What a file is, as far as it can be shown: by its first bytes, which no program means otherwise; by the media type that
//! its service tells; by its name.

use fishplate_formats::archive;
use fishplate_formats::array_file::npy::{HEADER_SIZE, MAGIC, NpyHeader};

/// What can be shown of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A picture that browsers show, of this media type.
    Image(&'static str),
    /// An array of NumPy's.
    Npy(NpyHeader),
    /// Rows of values, with this between two of them.
    Table(u8),
    /// A mesh, in this format of those that the page's script reads.
    Mesh(&'static str),
    /// A tar archive.
    Archive,
    /// Anything that can be read.
    Text,
    /// Anything else.
    Other,
}

/// Pictures by what they begin with.
const IMAGES: [(&[u8], &str); 6] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"\0\0\x01\0", "image/x-icon"),
];

/// The media type of pictures in XML, which are shown as pictures only, where their scripts do not run.
const SVG: &str = "image/svg+xml";

impl FileKind {
    /// That of a file of this name that begins so.
    pub(super) fn of(media_type: &str, name: &str, head: &[u8]) -> Self {
        let told = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let extension = match name.rsplit_once('.') {
            Some((_, extension)) => extension.to_ascii_lowercase(),
            None => String::new(),
        };
        if let Some(image) = image(head) {
            // `BM` may begin a text too.
            if image != "image/bmp" || told == image || extension == "bmp" {
                return Self::Image(image);
            }
        }
        if head.starts_with(MAGIC) {
            let header = NpyHeader::parse(&head[..head.len().min(HEADER_SIZE)]);
            return header.map_or(Self::Other, Self::Npy);
        }
        if archive::is_archive(head) {
            return Self::Archive;
        }
        if let Some(mesh) = mesh(&told, &extension, head) {
            return Self::Mesh(mesh);
        }
        if super::text::beginning(head).is_none() {
            return Self::Other;
        }
        if told == SVG || is_svg(head) {
            return Self::Image(SVG);
        }
        match (told.as_str(), extension.as_str()) {
            ("text/tab-separated-values", _) | (_, "tsv") => Self::Table(b'\t'),
            ("text/csv", _) | (_, "csv") => Self::Table(delimiter(head)),
            _ => Self::Text,
        }
    }

    /// The media type with which such a file is sent: that which is told of it, unless its bytes say more.
    pub(super) fn media_type<'t>(&self, told: &'t str) -> &'t str {
        match self {
            Self::Image(media_type) => media_type,
            _ => told,
        }
    }
}

fn image(head: &[u8]) -> Option<&'static str> {
    if let Some((_, media_type)) = IMAGES.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(media_type);
    }
    match (head.get(..4), head.get(4..8), head.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => Some("image/webp"),
        (_, Some(b"ftyp"), Some(b"avif" | b"avis")) => Some("image/avif"),
        _ => None,
    }
}

/// Whether the first element of a text is that of a picture.
fn is_svg(head: &[u8]) -> bool {
    let mut rest = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    while let Some(inside) = rest.strip_prefix(b"<?").or_else(|| rest.strip_prefix(b"<!")) {
        let end = match inside.strip_prefix(b"--") {
            Some(comment) => {
                comment.windows(3).position(|it| it == b"-->").map(|at| &comment[at + 3..])
            }
            None => inside.iter().position(|byte| *byte == b'>').map(|at| &inside[at + 1..]),
        };
        let Some(after) = end else { return false };
        rest = after.trim_ascii_start();
    }
    let name = rest.strip_prefix(b"<svg");
    name.is_some_and(|after| after.first().is_some_and(|byte| b" \t\r\n>".contains(byte)))
}

fn mesh(told: &str, extension: &str, head: &[u8]) -> Option<&'static str> {
    let has =
        |words: &[u8]| head[..head.len().min(1024)].windows(words.len()).any(|it| it == words);
    if head.starts_with(b"# vtk DataFile") {
        // Grids of pixels have no surface that is worth drawing.
        let head = &head[..head.len().min(1024)];
        let names = [&b"UNSTRUCTURED_GRID"[..], b"POLYDATA"];
        return names
            .iter()
            .any(|name| head.windows(name.len()).any(|it| it == *name))
            .then_some("vtk");
    }
    if head.trim_ascii_start().starts_with(b"MeshVersionFormatted") {
        return (!head.contains(&0)).then_some("medit");
    }
    if has(b"<VTKFile") {
        return (has(b"UnstructuredGrid") || has(b"PolyData")).then_some("vtu");
    }
    let is_stl = extension == "stl"
        || ["model/stl", "model/x.stl-binary", "model/x.stl-ascii"].contains(&told);
    (is_stl && head.len() > 80).then_some("stl")
}

/// What stands between values: the sign of which there are most in the first line.
fn delimiter(head: &[u8]) -> u8 {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |sign: u8| line.iter().filter(|byte| **byte == sign).count();
    // Of several that are as many, the last is taken.
    [b'\t', b';', b','].into_iter().max_by_key(|sign| count(*sign)).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_bytes_then_by_what_is_told_then_by_its_name() {
        let vtk = b"# vtk DataFile Version 5.1\nx\nASCII\nDATASET UNSTRUCTURED_GRID\n";
        let vtu = b"<?xml version=\"1.0\"?>\n<VTKFile type=\"UnstructuredGrid\">";
        for (media_type, name, head, kind) in [
            ("", "a", &b"\x89PNG\r\n\x1a\nrest"[..], FileKind::Image("image/png")),
            ("text/plain", "a.txt", b"\xff\xd8\xff\xe0", FileKind::Image("image/jpeg")),
            ("", "a", b"RIFF1234WEBPVP8 ", FileKind::Image("image/webp")),
            ("", "a.txt", b"BMW is a name", FileKind::Text),
            (
                "",
                "a.svg",
                b"<?xml version='1.0'?>\n<!-- > -->\n<svg width='1'>",
                FileKind::Image(SVG),
            ),
            ("", "a.html", b"<html><svg>", FileKind::Text),
            ("image/png", "a.png", b"<html><script>", FileKind::Text),
            ("", "a.csv", b"a;b;c,d\n1;2;3\n", FileKind::Table(b';')),
            ("text/csv; charset=utf-8", "a", b"a,b\n", FileKind::Table(b',')),
            ("", "a.TSV", b"a\tb\n", FileKind::Table(b'\t')),
            ("", "a", vtk, FileKind::Mesh("vtk")),
            ("", "a.xml", vtu, FileKind::Mesh("vtu")),
            (
                "text/plain",
                "a.mesh",
                b" MeshVersionFormatted 2\n\nDimension 3\n",
                FileKind::Mesh("medit"),
            ),
            ("", "a.mesh", b"MeshVersionFormatted\0", FileKind::Other),
            ("model/stl", "a", &[b'x'; 84], FileKind::Mesh("stl")),
            ("", "a.csv", b"\0\x01\x02", FileKind::Other),
            ("", "a", b"", FileKind::Text),
        ] {
            assert_eq!(FileKind::of(media_type, name, head), kind, "{name}");
        }
        let npy = NpyHeader::print(fishplate_contract::ElementType::Double, &[2, 3]);
        assert!(
            matches!(FileKind::of("", "x", &npy), FileKind::Npy(header) if header.shape == [2, 3])
        );
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(FileKind::of("", "x", &tar), FileKind::Archive);
    }

    #[test]
    fn only_a_picture_is_sent_as_one() {
        assert_eq!(FileKind::Image("image/png").media_type("text/html"), "image/png");
        assert_eq!(FileKind::Text.media_type("text/html"), "text/html");
    }
}
