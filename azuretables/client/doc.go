// Package client asks the Azure Tables server over HTTP, with SharedKey signatures: enough for a stress test
// and for tests that want to see status and headers. It is no SDK: it retries nothing and knows no types;
// bodies are JSON that the caller makes and reads.
//
//	Request ─▶ signed ─▶ net/http ─▶ Response: status, headers, body
package client
