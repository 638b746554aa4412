package azuretables

import (
	"net/netip"

	"cqld/internal/memory"
)

// httpRequest is one HTTP request, independent of its transport (http.go, or a test). Its strings and body may refer to
// the transport's buffers and are valid until the response is written, unless body is kept. The server modifies body.
type httpRequest struct {
	method string // as sent; X-HTTP-Method is in header
	path   string // as sent, percent-encoded
	query  string // as sent, without the question mark
	host   string // with its port, if it has one
	header header
	body   []byte
	kept   bool           // an operation with an unknown outcome may still read body
	role   string         // of a client that was authorized before its body was read; else empty
	remote netip.AddrPort // the client's address; invalid if the transport has none
	tls    bool
	conn   *connection     // the connection of the request; nil in tests
	memory *memory.Account // what the request's memory is counted in; may be nil in tests
}

// header contains the headers that the server reads. A missing header is empty.
type header struct {
	authorization, date, msDate, contentType, contentMD5 string
	accept, prefer, ifMatch, version, clientRequestID    string
	method                                               string // X-HTTP-Method
	origin, corsMethod, corsHeaders                      string
	ttl                                                  string // x-cqld-ttl
	cost                                                 string // x-cqld-cost
	twice                                                bool   // X-HTTP-Method occurred more than once
}

// set stores a header by its canonical name. Other headers are ignored. A repeated header has its last value. Header
// lines that the server does not read cost a comparison of strings.
func (h *header) set(name, value string) {
	switch name {
	case "Authorization":
		h.authorization = value
	case "Date":
		h.date = value
	case "X-Ms-Date":
		h.msDate = value
	case "Content-Type":
		h.contentType = value
	case "Content-Md5":
		h.contentMD5 = value
	case "Accept":
		h.accept = value
	case "Prefer":
		h.prefer = value
	case "If-Match":
		h.ifMatch = value
	case "X-Ms-Version":
		h.version = value
	case "X-Ms-Client-Request-Id":
		h.clientRequestID = value
	// The service refuses a repeated X-HTTP-Method.
	case "X-Http-Method":
		h.twice = h.method != ""
		h.method = value
	case "Origin":
		h.origin = value
	case "Access-Control-Request-Method":
		h.corsMethod = value
	case "Access-Control-Request-Headers":
		h.corsHeaders = value
	case "X-Cqld-Ttl":
		h.ttl = value
	case "X-Cqld-Cost":
		h.cost = value
	}
}
