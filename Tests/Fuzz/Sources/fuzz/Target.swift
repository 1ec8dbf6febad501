/// What can be fuzzed; each has a folder of seeds in Corpus/.
enum Target: String, CaseIterable {
    case sse, responses, json, claims, frames, upgrade, deflate, schema, mcp, markdown, manifest
}
