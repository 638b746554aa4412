package azuretables

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol's checksum, not a signature
	"crypto/subtle"
	"encoding/base64"

	"github.com/valyala/fasthttp"

	"cqld/azuretables/odata"
)

// checkFraming refuses a request whose header can be understood in two ways. A proxy that understands it in the other
// way sees other boundaries between requests, or another host, than this server (RFC 9112 §3.2, §5.1, §6.1): names that
// end in white space, lines that continue another one, more than one Host, and Transfer-Encoding that is repeated or
// beside Content-Length. fasthttp accepts all of these.
//
// Refusing both readings protects proxies in front of this server from request smuggling.
func checkFraming(h *fasthttp.RequestHeader) error {
	var hosts, lengths, encodings int
	// The raw header is scanned, because the parsed one no longer shows repeated and malformed lines.
	for rest := h.RawHeaders(); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		// fasthttp accepts lines that end in a bare line feed.
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			break
		}
		// An empty name is a line that begins with a colon. White space at the beginning of a line continues the line
		// before.
		name, _, _ := bytes.Cut(line, []byte(":"))
		if len(name) == 0 || bytes.ContainsAny(name, " \t") {
			return odata.Of(odata.InvalidHeaderValue)
		}
		switch {
		case bytes.EqualFold(name, []byte("Host")):
			hosts++
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			encodings++
		}
	}
	// RFC 9112 lets a server refuse or normalize these; refusing is safe in both readings.
	if hosts > 1 || lengths > 1 || encodings > 1 || encodings > 0 && lengths > 0 {
		return odata.Of(odata.InvalidHeaderValue)
	}
	return nil
}

// checkMD5 compares the body with Content-MD5, unless that is empty. The error differs for a header that is no MD5 at
// all. The header is optional, and part of the text that a signature covers.
func checkMD5(given string, body []byte) error {
	if given == "" {
		return nil
	}
	want, err := base64.StdEncoding.DecodeString(given)
	if err != nil || len(want) != md5.Size {
		return odata.Of(odata.InvalidMD5)
	}
	if sum := md5.Sum(body); subtle.ConstantTimeCompare(sum[:], want) != 1 { //nolint:gosec // see above
		return odata.Of(odata.MD5Mismatch)
	}
	return nil
}
