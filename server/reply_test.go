package server

import (
	"bytes"
	"strings"
	"testing"

	"cqld/query"
	"cqld/request"
	"cqld/server/buffer"
	"cqld/server/frame"
)

// TestRepliesAreNotOverwritten makes replies wait in the output, and checks that none contains bytes of a later one:
// the memory of a reply that waits must not be used for the next. Memory that has grown from 26 to 28 KiB has space for
// the replies after it.
func TestRepliesAreNotOverwritten(t *testing.T) {
	sizes := []int{26 << 10, 28 << 10, 33 << 10, 35 << 10, 34 << 10, buffer.Large, 100}
	for _, version := range []frame.Version{4, 5} {
		s, addr := start(t, Options{Limits: Limits{WorkersMax: 1}, Processor: &fake{
			query: func(_ *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
				return rowsOf(1, strings.Repeat(text, sizes[text[0]-'a'])), nil
			},
		}})
		c := connect(t, addr, version)
		conn := s.connections()[0]
		conn.out.Hold()
		for i := range sizes {
			c.send(int16(i+1), string(rune('a'+i)))
		}
		eventually(t, "all are executed", func() bool {
			return s.Load().Active == 0 && conn.executing.Load() == 0 && s.Load().Completed >= int64(len(sizes))
		})
		conn.out.Release(0)
		for range sizes {
			h, body := c.read()
			i := int(h.Stream - 1)
			if want := strings.Repeat(string(rune('a'+i)), sizes[i]); h.Opcode != frame.OpResult ||
				!bytes.HasSuffix(body, []byte(want)) {
				t.Errorf("v%d: the reply on stream %d is not its own", version, h.Stream)
			}
		}
	}
}
