// Package azuretables is the HTTP server of the Azure Tables protocol. It parses requests, authenticates and authorizes
// them, and writes the headers and bodies of the responses. Package odata parses entities, $filter and batches. Package
// entity maps tables and entities to the database; this package calls it through entity.Service.
//
//	HTTP ─▶ request ─▶ account and resource ─▶ authentication: SharedKey, SAS ─▶ authorization
//	                                                                                 │
//	HTTP ◀─ response ◀─ ETag, Location, continuation, CORS ◀─ entity.Service ◀───────┘ throttle
//
// Only http.go imports the HTTP library. Sources: the REST reference of the Table service, and recorded responses.
package azuretables
