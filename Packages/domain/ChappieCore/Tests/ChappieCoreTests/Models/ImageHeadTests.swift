@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

/// Images as small as their formats allow, of any size in pixels.
enum TinyImage {
    private static func big(_ number: Int, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }

    private static func little(_ number: Int, _ count: Int) -> [UInt8] { big(number, count).reversed() }

    /// - Parameter padding: bytes in a chunk that readers skip.
    static func png(_ width: Int, _ height: Int, padding: Int = 0) -> [UInt8] {
        func chunk(_ name: String, _ data: [UInt8]) -> [UInt8] {
            big(data.count, 4) + Array(name.utf8) + data + big(0, 4)
        }
        var image: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        image += chunk("IHDR", big(width, 4) + big(height, 4) + big(1 << 32, 5))
        image += chunk("tEXt", [UInt8](repeating: 65, count: padding))
        return image + chunk("IDAT", [0]) + chunk("IEND", [])
    }

    /// - Parameter frame: the marker of the frame header.
    static func jpeg(_ width: Int, _ height: Int, frame: UInt8 = 0xC0) -> [UInt8] {
        var image: [UInt8] = [0xFF, 0xD8]
        // An end marker in the data of an application, which is not the image's end.
        image += [0xFF, 0xE1, 0, 6, 0xFF, 0xD9, 0, 0]
        image += [0xFF, 0xC4, 0, 2]
        image += [0xFF, 0xFF, frame, 0, 11, 8] + big(height, 2) + big(width, 2)
        image += [1, 1, 0x11, 0]
        image += [0xFF, 0xDA, 0, 3, 1, 0x55, 0xFF, 0]
        return image + [0xFF, 0xD9]
    }

    static func gif(_ width: Int, _ height: Int) -> [UInt8] {
        Array("GIF89a".utf8) + little(width, 2) + little(height, 2) + [0, 0, 0, 0x3B]
    }

    static func webp(_ kind: String, _ width: Int, _ height: Int) -> [UInt8] {
        let data: [UInt8] =
            switch kind {
            case "VP8 ": [0, 0, 0, 0x9D, 1, 0x2A] + little(width | 0x4000, 2) + little(height, 2)
            case "VP8L": [0x2F] + little((width - 1) | (height - 1) << 14, 4)
            default: [0, 0, 0, 0] + little(width - 1, 3) + little(height - 1, 3)
            }
        let chunk = Array(kind.utf8) + little(data.count, 4) + data
        return Array("RIFF".utf8) + little(chunk.count + 4, 4) + Array("WEBP".utf8) + chunk
    }

    /// One of each kind.
    static func all(_ width: Int, _ height: Int) -> [[UInt8]] {
        [png(width, height), jpeg(width, height), jpeg(width, height, frame: 0xC2), gif(width, height)]
            + ["VP8 ", "VP8L", "VP8X"].map { webp($0, width, height) }
    }
}

@Suite struct ImageHeadTests {
    private func head(_ bytes: [UInt8]) throws -> ImageHead {
        ImageHead(bytes, try #require(ChappieImage.Format(sniffing: bytes)))
    }

    private func failure(_ bytes: [UInt8], name: String? = "photo.jpg") -> ChappieAttachmentError? {
        do throws(ChappieAttachmentError) {
            _ = try ChappieImage(bytes: bytes, name: name)
            return nil
        } catch {
            return error
        }
    }

    @Test func `the size is read in each format`() throws {
        for bytes in TinyImage.all(8064, 6048) {
            let head = try head(bytes)
            #expect(head.size?.width == 8064 && head.size?.height == 6048 && !head.isCutOff, "\(bytes)")
            #expect(head.size?.patches == 252 * 189)
        }
    }

    @Test func `an image that the service can't take is refused with its size and a remedy`() throws {
        for bytes in TinyImage.all(8064, 6048) {
            let error = try #require(failure(bytes))
            #expect(error == .tooManyPixels("photo.jpg", width: 8064, height: 6048))
            #expect(
                error.errorDescription == "photo.jpg has 8064x6048 pixels; the service takes about 5500x5500.")
            #expect(
                error.recoverySuggestion == "Make it smaller: magick photo.jpg -resize 2048x2048 small.jpg")
        }
        #expect(
            failure(TinyImage.png(8064, 6048), name: "my photo.png")?.recoverySuggestion
                == "Make it smaller: magick IMAGE -resize 2048x2048 small.jpg")
        for (width, height) in [(5500, 5500), (1, 1), (16383, 1000), (6000, 5000)] {
            for bytes in TinyImage.all(width, height) { #expect(failure(bytes) == nil) }
        }
        #expect(failure(TinyImage.png(Int(UInt32.max), Int(UInt32.max))) != nil)
    }

    @Test func `an image with too many bytes is refused with its size and a remedy`() throws {
        let error = try #require(failure(TinyImage.png(100, 100, padding: 8_240_000)))
        #expect(error.errorDescription == "photo.jpg has 8.3 MB; the service takes about 8 MB.")
        #expect(error.recoverySuggestion == "Make it smaller: magick photo.jpg -resize 2048x2048 small.jpg")
        #expect(failure(TinyImage.png(100, 100, padding: 7_900_000)) == nil)
    }

    @Test func `an image whose end is missing is refused`() throws {
        let images =
            [TinyImage.png(10, 10), TinyImage.jpeg(10, 10)]
            + ["VP8 ", "VP8L", "VP8X"].map { TinyImage.webp($0, 10, 10) }
        for whole in images {
            #expect(failure(whole) == nil && failure(whole + [1, 2, 3]) == nil)
            for count in 12..<whole.count {
                let cut = Array(whole[..<count])
                #expect(failure(cut) == .cutOffImage("photo.jpg"), "\(cut)")
            }
        }
    }

    @Test func `hostile bytes give no size and take no time`() throws {
        let start: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        #expect(try head(start + [0xFF, 0xFF, 0xFF, 0xFF] + Array("IHDR".utf8)).isCutOff)
        // Empty chunks up to the end, markers without an end, and segments of no length.
        for filler in [
            [UInt8](repeating: 0, count: 12), [0xFF], [0xFF, 0xD0], [0xFF, 0xE0, 0, 0], [0xFF, 0xE0, 0, 2],
        ] {
            let filling = [[UInt8]](repeating: filler, count: 1_000_000 / filler.count).flatMap(\.self)
            for beginning in [start, [0xFF, 0xD8, 0xFF], Array("GIF89a".utf8), Array("RIFF....WEBPVP8X".utf8)] {
                _ = try head(beginning + filling)
            }
        }
        #expect(try head(Array("GIF89a".utf8)).size == nil)
        #expect(try head(TinyImage.gif(0, 5)).size == nil)
    }
}
