// Package azuretables is the door of Azure Tables: requests over HTTP, who may do what, and the headers and
// bodies of the answers. What an entity, a $filter and a batch look like is odata's; what tables and
// entities are in the database is entity's, which this package asks through entity.Service.
//
//	HTTP ─▶ request ─▶ which account, which resource ─▶ who is it: SharedKey, SAS ─▶ may they
//	                                                                              │
//	HTTP ◀─ response ◀─ ETag, Location, continuation, CORS ◀─ entity.Service ◀────┘ throttle
//
// http.go alone knows the HTTP library. Sources: the REST reference of the Table service; the recorded
// answers in facts/azure-tables.md.
package azuretables
