// Package client is an HTTP client of the Azure Tables server with SharedKey signatures, sufficient for a stress test
// and for tests that check status and headers. It is not an SDK: it does not retry and has no types; the caller encodes
// and decodes the JSON bodies.
//
//	Request ─▶ signed ─▶ net/http ─▶ Response: status, headers, body
package client
