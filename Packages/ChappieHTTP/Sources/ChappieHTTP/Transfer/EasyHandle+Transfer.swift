import CCurl
import ChappieCore
import ChappieCurl

extension EasyHandle {
    /// Sets every option of an exchange; `context` comes back in the callbacks.
    func configure(for plan: RequestPlan, context: UnsafeMutableRawPointer) {
        setTarget(plan)
        follow(plan.route, connectDeadline: plan.deadlines.connect)
        setCallbacks(hasBody: plan.body?.isEmpty == false, context: context)
    }

    private func setTarget(_ plan: RequestPlan) {
        set(CURLOPT_URL, plan.url)
        set(CURLOPT_PATH_AS_IS, true)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // The method comes last: the options for bodies each bring one of their own.
        if let body = plan.body {
            set(CURLOPT_POST, true)
            set(CURLOPT_POSTFIELDSIZE_LARGE, offset: body.count)
            // Without data of its own and with a size, curl asks the read callback; for nothing it needs no callback.
            if body.isEmpty { set(CURLOPT_COPYPOSTFIELDS, "") }
        } else if plan.method == "HEAD" {
            set(CURLOPT_NOBODY, true)
        } else {
            set(CURLOPT_HTTPGET, true)
        }
        set(CURLOPT_CUSTOMREQUEST, plan.method)
        setHeaderLines(plan.headerLines)

        // Redirects are ours to judge.
        set(CURLOPT_FOLLOWLOCATION, false)
        // As large as the curl program's: one system call for many small events.
        set(CURLOPT_BUFFERSIZE, 102_400)
    }

    private func setCallbacks(hasBody: Bool, context: UnsafeMutableRawPointer) {
        set(CURLOPT_HEADERFUNCTION, callback: receiveHeaderLine)
        set(CURLOPT_HEADERDATA, pointer: context)
        set(CURLOPT_WRITEFUNCTION, callback: receiveBody)
        set(CURLOPT_WRITEDATA, pointer: context)
        ccurl_easy_set_prereq_callback(raw, confirmConnection)
        set(CURLOPT_PREREQDATA, pointer: context)
        guard hasBody else { return }
        set(CURLOPT_READFUNCTION, callback: provideBody)
        set(CURLOPT_READDATA, pointer: context)
        ccurl_easy_set_seek_callback(raw, rewindBody)
        set(CURLOPT_SEEKDATA, pointer: context)
    }
}

// The functions that curl calls, on the loop's thread: each finds its transfer and passes on.

private func transfer(_ context: UnsafeMutableRawPointer) -> CurlTransfer {
    Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
}

private func receiveHeaderLine(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return 0 }
    let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
    return transfer(context).receivedHeaderLine(line) ? line.count : stop
}

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return 0 }
    let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
    return transfer(context).receivedBody(piece) ? piece.count : Int(CURL_WRITEFUNC_PAUSE)
}

private func provideBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return Int(CURL_READFUNC_ABORT) }
    return transfer(context).provideBody(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
}

private func rewindBody(_ context: UnsafeMutableRawPointer?, _ offset: curl_off_t, _ origin: CInt) -> CInt {
    guard let context, origin == SEEK_SET else { return CInt(CURL_SEEKFUNC_CANTSEEK) }
    return CInt(transfer(context).rewindBody(to: Int(offset)) ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL)
}

private func confirmConnection(
    _ context: UnsafeMutableRawPointer?, _ remoteAddress: UnsafeMutablePointer<CChar>?,
    _ localAddress: UnsafeMutablePointer<CChar>?, _ remotePort: CInt, _ localPort: CInt
) -> CInt {
    guard let context else { return CInt(CURL_PREREQFUNC_ABORT) }
    return CInt(transfer(context).connected() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT)
}

/// What no header line is long: tells curl to end the transfer.
private let stop = -1
