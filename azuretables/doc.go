// Package azuretables is the HTTP server of the Azure Tables protocol. It parses requests, authenticates and authorizes
// them, and writes the headers and bodies of the responses. Package odata parses entities, $filter and batches. Package
// entity maps tables and entities to the database; this package calls it through entity.Service.
//
//	HTTP ─▶ request ─▶ account and resource ─▶ authentication: SharedKey, SAS ─▶ authorization
//	                                                                                 │
//	HTTP ◀─ response ◀─ ETag, Location, continuation, CORS ◀─ entity.Service ◀───────┘ throttle
//
// A request is a call (call.go): its parameters (params), its change (changeParser), what its signature allows (grant),
// and a response, with URLs in the client's form (links). A batch, a changeset and a delete by filter are types that
// hold the state between their steps. rates refuses requests of accounts and partitions beyond their targets.
//
// Only http.go and framing.go import the HTTP library. Sources: the REST reference of the Table service, and recorded
// responses.
package azuretables
