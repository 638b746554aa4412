package server

import (
	"bytes"
	"strings"
	"testing"

	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// TestRepliesAreNotOverwritten pipelines requests whose replies have sizes around those of buffers, and checks that no reply
// contains bytes of another one: the memory of a reply that is being written must not be used for the next.
func TestRepliesAreNotOverwritten(t *testing.T) {
	sizes := []int{100, readBufferLarge - 100, readBufferLarge, readBufferLarge + 100, 40 << 10, outputBufferKeep - 100, outputBufferKeep,
		outputBufferKeep + 100, 3 * outputBufferKeep}
	for _, version := range []frame.Version{4, 5} {
		_, addr := start(t, Options{Limits: Limits{WorkersMax: 2}, Processor: &fake{
			query: func(_ *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
				return rowsOf(1, strings.Repeat(text, sizes[int(text[0])%len(sizes)])), nil
			},
		}})
		c := connect(t, addr, version)
		const requests = 60
		for range 5 {
			for stream := range int16(requests) {
				c.send(stream+1, string(rune('A'+stream)))
			}
			for range requests {
				h, body := c.read()
				text := string(rune('A' + h.Stream - 1))
				want := strings.Repeat(text, sizes[int(text[0])%len(sizes)])
				if h.Opcode != frame.OpResult || !bytes.HasSuffix(body, []byte(want)) {
					t.Fatalf("v%d: the reply on stream %d is not its own", version, h.Stream)
				}
			}
		}
	}
}
