import ChappieClient
import ChappieCore

/// Never traps; a manifest that was read is written as one that reads the same, and what is no manifest is told from what is
/// not JSON.
func readManifest(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let bytes = Array(input)
    do throws(ChappieManifestError) {
        let manifest = try ChappiePluginManifest(json: bytes)
        _ = manifest.resolvedHarness.allTools
        // Encoders keep no order of members: what was read once has the decoder's.
        let written = writtenAndRead(manifest)
        precondition(written?.tools.map(\.name) == manifest.tools.map(\.name), "what was written can't be read")
        precondition(written.flatMap(writtenAndRead) == written, "what was written reads otherwise")
    } catch {
        precondition(!error.reason.isEmpty, "nothing is said")
        let isObject = (try? ChappieJSON(parsing: bytes))?.object != nil
        precondition(!isObject || error.reason != "It is not JSON.", "an object is called no JSON")
    }
    return 0
}

private func writtenAndRead(_ manifest: ChappiePluginManifest) -> ChappiePluginManifest? {
    guard let bytes = try? JSONEncoder().encode(manifest) else { return nil }
    return try? ChappiePluginManifest(json: Array(bytes))
}
