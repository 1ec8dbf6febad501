import ChappieCore
import ChappieJSONSchema

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    /// Schemas of the framework as JSON Schema.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    enum SchemaJSON {
        /// Returns the schema of an answer.
        ///
        /// - Throws: `LanguageModelError.unsupportedGenerationGuide` if it has a part that the service can't enforce.
        static func outputSchema(_ schema: GenerationSchema) throws -> ChappieJSONSchema {
            let converted = ChappieJSONSchema(of(schema))
            do throws(ChappieJSONSchemaError) {
                _ = try ChappieStrictSchema(converted)
            } catch {
                throw LanguageModelError.unsupportedGenerationGuide(
                    .init(schemaName: schema.name, debugDescription: error.explanation))
            }
            return converted
        }

        /// Returns a schema with its properties in the declared order and without the framework's own members. The same
        /// schema always has the same bytes.
        static func of(_ schema: GenerationSchema) -> ChappieJSON {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            let bytes = (try? encoder.encode(schema)).map { Array($0) } ?? []
            return plain((try? ChappieJSON(parsing: bytes)) ?? [:])
        }

        private static func plain(_ schema: ChappieJSON) -> ChappieJSON {
            guard let object = schema.object else { return schema }
            let order = (object["x-order"]?.array ?? []).compactMap(\.string)
            var plain = ChappieJSONObject()
            for member in object.members where member.name != "title" && member.name != "x-order" {
                plain[member.name] =
                    switch member.name {
                    case "properties": named(member.value, in: order)
                    case "$defs": named(member.value, in: [])
                    case "anyOf", "allOf", "oneOf": .array((member.value.array ?? []).map(Self.plain))
                    case "items", "additionalProperties": Self.plain(member.value)
                    default: member.value
                    }
            }
            return .object(plain)
        }

        /// Returns named schemas, first those in the given order.
        private static func named(_ schemas: ChappieJSON, in order: [String]) -> ChappieJSON {
            guard let object = schemas.object else { return schemas }
            let names = order.filter { object[$0] != nil } + object.names.filter { !order.contains($0) }
            return .object(ChappieJSONObject(names.map { ($0, plain(object[$0] ?? [:])) }))
        }
    }

    /// The removal of an object around a value from text that arrives in pieces. The object has one member.
    struct WrappedValue {
        private var isInside = false
        private var held = ""

        /// Returns the part of the value that is known to belong to it.
        mutating func take(_ piece: String) -> String {
            held += piece
            if !isInside {
                guard let colon = held.firstIndex(of: ":") else { return "" }
                held = String(held[held.index(after: colon)...])
                isInside = true
            }
            // The last brace may be the one of the object.
            let last = held.lastIndex { !$0.isWhitespace }
            let end = last.flatMap { held[$0] == "}" ? $0 : nil } ?? held.endIndex
            defer { held = String(held[end...]) }
            return String(held[..<end])
        }
    }
#endif
