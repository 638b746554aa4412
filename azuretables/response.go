package azuretables

import (
	"strconv"
	"strings"
	"time"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// field is a header of a response; its name is canonical.
type field struct{ name, value string }

// response is the response to a request. reset prepares it for reuse and keeps its buffers.
type response struct {
	status      int    // HTTP status
	text        string // reason phrase; empty means the standard one
	contentType string
	fields      []field // in the order in which they were added
	body        []byte
	server      string // of the header Server
	frontEnd    bool   // refused before the service: contains no version
}

const (
	serverName   = "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0"
	frontEndName = "Microsoft-HTTPAPI/2.0" // server name in responses to unauthenticated requests
)

// reset empties the response. Its buffers keep their capacity, within bounds.
func (r *response) reset() {
	body := r.body[:0]
	// A large buffer is left to the garbage collector, as it would stay with a connection that rarely needs it.
	if cap(body) > responseKeep {
		body = nil
	}
	// The strings belong to the previous request.
	clear(r.fields)
	*r = response{fields: r.fields[:0], body: body, server: serverName}
}

// add adds a header, whose name must be canonical. A second one with the same name replaces it when written.
func (r *response) add(name, value string) { r.fields = append(r.fields, field{name, value}) }

// addInt adds a header with a decimal value.
func (r *response) addInt(name string, value int) { r.add(name, strconv.Itoa(value)) }

// data marks the response as one of the data service, as opposed to responses about the account. Caches must not store
// these responses. Both headers are in every recorded response of the data service.
func (r *response) data() {
	r.add("Cache-Control", "no-cache")
	r.add("X-Content-Type-Options", "nosniff")
}

// failed discards the headers and the body added so far. The error response begins as if nothing had been added.
// Status and server are set by the caller.
func (r *response) failed() {
	r.fields, r.body, r.contentType, r.text = r.fields[:0], r.body[:0], "", ""
}

// noContent responds that a change has been made. The body stays empty. It is the response to changes other than
// inserts.
func (r *response) noContent() {
	r.status = 204
	r.data()
}

// found responds with data in the body, which the caller appends. level is the client's.
func (r *response) found(level odata.Metadata) {
	r.status, r.contentType = 200, level.ContentType()
	r.data()
}

// created responds that a resource was created at a URL; content reports whether the client wants it in the body.
// Without a preference, the service returns the created resource. It chooses between 201 and 204.
func (r *response) created(location, prefer string, level odata.Metadata) (content bool) {
	r.add("Location", location)
	// The response states which preference it follows.
	if prefer != "" {
		r.add("Preference-Applied", prefer)
	}
	// The location is then also in DataServiceId.
	if prefer == "return-no-content" {
		r.status = 204
		r.add("DataServiceId", location)
		return false
	}
	r.status, r.contentType = 201, level.ContentType()
	return true
}

// document responds with an XML document. Documents about the account may be stored by caches, and have no data
// headers. It replaces the body.
func (r *response) document(body []byte) {
	r.status, r.contentType, r.body = 200, "application/xml", body
}

// page adds the headers of a page: its continuation, and its cost in rows read. Azure has neither the cost nor the
// plan. rows are rows read, not returned.
func (r *response) page(p *entity.Page, rows int) {
	r.proceed(p.Next)
	r.addInt(rowsHeader, rows)
	r.add(planHeader, planName(p.Plan))
	r.add("x-ms-request-charge", charge(rows))
}

// proceed adds the continuation headers, unless next is nil. An empty row key yields an empty token's encoding, which
// position reads as the beginning of the partition. The same headers continue a delete by filter.
func (r *response) proceed(next *entity.Position) {
	if next != nil {
		r.add("x-ms-continuation-NextPartitionKey", continuation(next.PartitionKey))
		r.add("x-ms-continuation-NextRowKey", continuation(next.RowKey))
	}
}

// unauthenticated responds to a client that could not be authenticated, like Azure's front end: with fewer headers. The
// reason phrase is the message, as in the recordings. It has no x-ms-version.
func (r *response) unauthenticated(e *odata.Error, accept, id string, now time.Time) {
	r.frontEnd, r.server, r.text = true, frontEndName, e.Message
	r.add("x-ms-error-code", string(e.Code))
	// The format is JSON only if the client mentions it; Azure's front end knows no levels of metadata.
	if strings.Contains(strings.ToLower(accept), "json") {
		r.contentType = "application/json"
		r.body = e.AppendJSON(r.body, id, now)
		return
	}
	r.contentType = "application/xml"
	r.body = e.AppendXML(r.body, id, now)
}
