package server

import (
	"strings"
	"testing"

	"cqld/server/frame"
)

// TestTheLargestRequest checks the limit, to the byte, and the messages against Cassandra 5.0.9: before protocol v5,
// the limit applies to the frame with its header, and from then on to the body.
func TestTheLargestRequest(t *testing.T) {
	const bound = 1 << 18
	_, addr := start(t, Options{Limits: Limits{FrameBytesMax: bound}})
	for _, test := range []struct {
		v     frame.Version
		frame int // with its header
		want  string
	}{
		{3, bound, ""},
		{3, bound + 1, "Request is too big: length 262145 exceeds maximum allowed length 262144."},
		{4, bound, ""},
		{4, bound + 1, "Request is too big: length 262145 exceeds maximum allowed length 262144."},
		{5, bound + frame.HeaderSize, ""},
		{5, bound + frame.HeaderSize + 1, "CQL Message of size 262145 bytes exceeds allowed maximum of 262144 bytes"},
	} {
		c := connect(t, addr, test.v)
		rest := len(envelope(test.v, frame.OpQuery, 1, 0, queryBody(test.v, "")))
		go c.send(1, strings.Repeat("x", test.frame-rest))
		if test.want == "" {
			if h, body := c.read(); h.Opcode != frame.OpResult {
				t.Errorf("v%d, %d bytes: %v %.100q", test.v, test.frame, h.Opcode, body)
			}
		} else if _, e := c.readError(); e.Code != frame.CodeInvalid || e.Message != test.want {
			t.Errorf("v%d, %d bytes: %+v", test.v, test.frame, e)
		}
		c.works()
	}
}
