package azuretables

import (
	"net/netip"
	"strconv"

	"cqld/internal/memory"
)

// httpRequest is one HTTP request, independent of its transport (http.go, or a test). Its strings and body may refer to
// the transport's buffers and are valid until the response is written, unless body is kept. The server modifies body.
type httpRequest struct {
	method string
	path   string // as sent, percent-encoded
	query  string // as sent, without the question mark
	host   string
	header header
	body   []byte
	kept   bool // an operation with an unknown outcome may still read body
	remote netip.AddrPort
	tls    bool
	conn   *connection // the connection of the request; nil in tests
	memory *memory.Account
}

// header contains the headers that the server reads.
type header struct {
	authorization, date, msDate, contentType, contentMD5 string
	accept, prefer, ifMatch, version, clientRequestID    string
	method                                               string // X-HTTP-Method
	origin, corsMethod, corsHeaders                      string
	ttl                                                  string // x-cqld-ttl
	cost                                                 string // x-cqld-cost
	twice                                                bool   // X-HTTP-Method occurred more than once
}

// set stores a header by its canonical name.
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

// field is a header of a response; its name is canonical.
type field struct{ name, value string }

// response is the response to a request. reset prepares it for reuse and keeps its buffers.
type response struct {
	status      int
	text        string // reason phrase; empty means the standard one
	contentType string
	fields      []field
	body        []byte
	server      string
	frontEnd    bool // refused before the service: contains no version
}

const (
	serverName   = "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0"
	frontEndName = "Microsoft-HTTPAPI/2.0" // server name in responses to unauthenticated requests
)

func (r *response) reset() {
	body := r.body[:0]
	if cap(body) > responseKeep {
		body = nil
	}
	clear(r.fields)
	*r = response{fields: r.fields[:0], body: body, server: serverName}
}

func (r *response) add(name, value string) { r.fields = append(r.fields, field{name, value}) }

func (r *response) addInt(name string, value int) { r.add(name, strconv.Itoa(value)) }

// data marks the response as one of the data service, as opposed to responses about the account.
func (r *response) data() {
	r.add("Cache-Control", "no-cache")
	r.add("X-Content-Type-Options", "nosniff")
}

// failed discards the headers and the body added so far.
func (r *response) failed() {
	r.fields, r.body, r.contentType, r.text = r.fields[:0], r.body[:0], "", ""
}
