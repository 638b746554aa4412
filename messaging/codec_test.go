package messaging

import (
	"bytes"
	"testing"

	"cqld/internal/wire"
)

// decodeTwice decodes b, encodes the result and decodes it again: nothing panics and nothing is lost.
func decodeTwice(t *testing.T, b []byte) {
	t.Helper()
	c := wire.NewCursor(b)
	var again []byte
	read := 0
	for c.Len() > 0 {
		e := consumeEnvelope(&c)
		if c.Err() != nil {
			break
		}
		read = len(b) - c.Len()
		again = appendEnvelope(again, &e)
	}
	if !bytes.Equal(again, b[:read]) {
		t.Errorf("%x became %x", b[:read], again)
	}
}

func TestFailuresKeepTheirForm(t *testing.T) {
	err := decodeFailure(appendFailure(nil, &RemoteError{Code: 9, Message: "why"}))
	if r, ok := err.(*RemoteError); !ok || r.Code != 9 || r.Message != "why" {
		t.Errorf("got %v", err)
	}
	if err := decodeFailure(nil); err == nil {
		t.Error("an empty failure is not a failure")
	}
}
