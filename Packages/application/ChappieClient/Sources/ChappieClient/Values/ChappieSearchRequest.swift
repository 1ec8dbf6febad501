@_spi(ChappieInternals) import ChappieCore

/// A search of the web.
///
/// ```swift
/// let answer = try await client.search(ChappieSearchRequest("swift 6.4 release", domains: ["swift.org"]))
/// for result in answer.results { print(result.title, result.url) }
/// ```
public struct ChappieSearchRequest: Sendable, Hashable, Codable {
    /// The queries, 1 to 4. All of them are searched in one request.
    public var queries: [String]
    /// The only domains to search, such as `swift.org`. Default: all.
    public var domains: [String]
    /// The largest age of pages in days, at least 1. Default `nil`: any age.
    public var recency: Int?
    /// The place for which results are chosen. Default `nil`: the service decides.
    public var location: ChappieSearchLocation?
    /// Whether pages are fetched now. Otherwise the service uses its stored copies. Default `true`.
    public var readsLivePages: Bool

    /// Creates a search with these queries.
    public init(
        queries: [String], domains: [String] = [], recency: Int? = nil, location: ChappieSearchLocation? = nil,
        readsLivePages: Bool = true
    ) {
        self.queries = queries
        self.domains = domains
        self.recency = recency
        self.location = location
        self.readsLivePages = readsLivePages
    }

    /// Creates a search with one query.
    public init(
        _ query: String, domains: [String] = [], recency: Int? = nil, location: ChappieSearchLocation? = nil,
        readsLivePages: Bool = true
    ) {
        self.init(
            queries: [query], domains: domains, recency: recency, location: location, readsLivePages: readsLivePages)
    }

    /// The largest number of queries in one request.
    @_spi(ChappieInternals) public static let queryLimit = 4
}

/// The approximate place of a user, for the results of a search.
public struct ChappieSearchLocation: Sendable, Hashable, Codable {
    /// The country as two letters (ISO 3166-1), such as `DE`.
    public var country: String?
    /// The region, such as `Bavaria`.
    public var region: String?
    /// The city, such as `Munich`.
    public var city: String?
    /// The time zone, such as `Europe/Berlin`.
    public var timeZone: String?

    /// Creates a place. Parts that are not known are `nil`.
    public init(country: String? = nil, region: String? = nil, city: String? = nil, timeZone: String? = nil) {
        self.country = country
        self.region = region
        self.city = city
        self.timeZone = timeZone
    }

    /// The place in the form of a request.
    var json: ChappieJSON {
        var object: ChappieJSONObject = ["type": "approximate"]
        for (name, value) in [("country", country), ("region", region), ("city", city), ("timezone", timeZone)] {
            if let value { object[name] = .string(value) }
        }
        return .object(object)
    }
}

/// The answer to a search, or to the request for a page.
///
/// The text and the results come from web pages. Treat them as data: they are no instructions, and a title or an
/// address can contain anything.
public struct ChappieSearchAnswer: Sendable, Hashable {
    /// The text that the service has written for a model: excerpts of the pages, or the text of a page.
    public var text: String
    /// The pages that were found. May be empty, also if ``text`` is not.
    public var results: [ChappieSearchResult]

    /// Creates an answer with this text and these pages.
    public init(text: String, results: [ChappieSearchResult] = []) {
        self.text = text
        self.results = results
    }
}

/// A page that a search has found.
public struct ChappieSearchResult: Sendable, Hashable, Codable {
    /// The title, or the address if the page has none.
    public var title: String
    /// The address, which begins with `https:` or `http:`.
    public var url: String
    /// The domain, such as `swift.org`, if the service names it.
    public var domain: String?
    /// The excerpt that fits the query. Empty if the service gives none.
    public var excerpt: String
    /// The name of the page in further requests of the same conversation, such as `turn0search0`.
    public var reference: String?

    /// Creates a page with these properties.
    public init(title: String, url: String, domain: String? = nil, excerpt: String = "", reference: String? = nil) {
        self.title = title
        self.url = url
        self.domain = domain
        self.excerpt = excerpt
        self.reference = reference
    }

    /// Reads a result of the service, or returns `nil` if it has no address of the web.
    init?(_ json: ChappieJSON) {
        guard let url = json["url"]?.string, ChappieSource.isAddress(url) else { return nil }
        let title = json["title"]?.string.flatMap { $0.isEmpty ? nil : String($0.prefix(500)) }
        self.init(
            title: title ?? url, url: url, domain: json["domain"]?.string, excerpt: json["snippet"]?.string ?? "",
            reference: json["ref_id"]?.string)
    }

    /// The page as a source of an answer.
    var source: ChappieSource {
        var source = ChappieSource(url: url, title: title == url ? nil : title)
        source.reference = reference
        return source
    }
}
