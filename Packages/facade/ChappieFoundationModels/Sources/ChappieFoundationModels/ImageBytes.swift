import ChappieCore
import ChappieSDK

#if canImport(ImageIO)
    import CoreGraphics
    import CoreImage
    import ImageIO
    import UniformTypeIdentifiers
#endif
#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension ChappieImage {
        /// Creates an image of an attachment. A file is read.
        init(_ attachment: Transcript.ImageAttachment) throws(ChappieAttachmentError) {
            if let url = attachment.url, url.isFileURL {
                try self.init(contentsOf: url)
            } else if let url = attachment.url, url.scheme == "data" {
                self.init(source: .url(url.absoluteString))
            } else {
                #if canImport(ImageIO)
                    guard attachment.url == nil, let bytes = JPEG.bytes(of: attachment) else {
                        throw .unsupportedImage("the image")
                    }
                    try self.init(bytes: bytes)
                #else
                    throw .unsupportedURL("address that is not a file's")
                #endif
            }
        }
    }
    #if canImport(ImageIO)
        /// The pixels of an attachment as a file.
        @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
        @available(tvOS, unavailable)
        private enum JPEG {
            /// The longest side of an image that is sent.
            private static let longestSide = 2048

            /// Returns the upright image, or `nil` if there are no pixels.
            static func bytes(of attachment: Transcript.ImageAttachment) -> [UInt8]? {
                let given: CGImage? = attachment.cgImage
                let orientation: CGImagePropertyOrientation? = attachment.orientation
                guard let given else { return nil }
                let image = CIImage(cgImage: given).oriented(orientation ?? .up)
                let scale = min(1, Double(longestSide) / max(image.extent.width, image.extent.height))
                let scaled = image.transformed(by: CGAffineTransform(scaleX: scale, y: scale))
                guard let upright = CIContext().createCGImage(scaled, from: scaled.extent) else { return nil }
                let data = NSMutableData()
                let type = UTType.jpeg.identifier as CFString
                guard let destination = CGImageDestinationCreateWithData(data, type, 1, nil) else { return nil }
                CGImageDestinationAddImage(destination, upright, nil)
                return CGImageDestinationFinalize(destination) ? Array(data as Data) : nil
            }
        }
    #endif
#endif
