package rebalance

import (
	"bytes"
	"testing"

	"cqld/ring"
)

func TestStreamRequestsAreEncoded(t *testing.T) {
	pull := streamRequest{first: true, epoch: 3, table: 8, tokens: ring.Range{Start: 3, End: -3}, bytesMax: 1000,
		after: []byte{}}
	if got, err := decodeStreamRequest(appendStreamRequest(nil, &pull)); err != nil || got.epoch != 3 ||
		got.tokens != pull.tokens || !got.first {
		t.Errorf("%+v, %v", got, err)
	}
	pull.bytesMax = 1 << 40
	if got, err := decodeStreamRequest(appendStreamRequest(nil, &pull)); err != nil || got.bytesMax != streamBlockMax {
		t.Errorf("a block of %d bytes, %v", got.bytesMax, err)
	}
}

// FuzzStreamMessages decodes arbitrary messages from another node.
func FuzzStreamMessages(f *testing.F) {
	f.Add(appendStreamRequest(nil, &streamRequest{epoch: 1, bytesMax: 5}))
	sealed := append(appendStreamReply(nil, 5, []byte("next")), "block"...)
	sealStreamReply(sealed)
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeStreamRequest(b); err == nil && r.bytesMax > streamBlockMax {
			t.Errorf("a block of %d bytes", r.bytesMax)
		}
		if r, err := decodeStreamReply(b); err == nil && !bytes.HasSuffix(b, r.block) {
			t.Error("a block that was not sent")
		}
	})
}
