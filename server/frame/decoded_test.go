//go:build !race

// The race detector makes slices.Grow allocate twice as much.

package frame

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"cqld/internal/wire"
)

// randomParams returns parameters with up to n values, half of them with names.
func randomParams(rng *rand.Rand, n int) Params {
	p := Params{Consistency: 1, SerialConsistency: 9}
	named := rng.IntN(2) == 0
	for range rng.IntN(n) {
		p.Values = append(p.Values, wire.Value{})
		if named {
			p.Names = append(p.Names, strings.Repeat("n", rng.IntN(20)))
		}
	}
	return p
}

// randomBody returns a body with many small parts, and what decodes it.
func randomBody(rng *rand.Rand, v Version) (op Opcode, body []byte, decode func(c *wire.Cursor) error) {
	text := strings.Repeat("x", rng.IntN(1<<10))
	switch rng.IntN(4) {
	case 0:
		q := Query{Query: text, Params: randomParams(rng, 5000)}
		return OpQuery, q.Append(nil, v), func(c *wire.Cursor) error { return new(Query).Consume(c, v) }
	case 1:
		return OpPrepare, (&Prepare{Query: text}).Append(nil, v),
			func(c *wire.Cursor) error { return new(Prepare).Consume(c, v) }
	case 2:
		e := Execute{ID: []byte("id"), ResultMetadataID: []byte("m"), Params: randomParams(rng, 5000)}
		return OpExecute, e.Append(nil, v), func(c *wire.Cursor) error { return new(Execute).Consume(c, v) }
	default:
		b := Batch{Params: Params{Consistency: 1, SerialConsistency: 9}}
		for range rng.IntN(2000) {
			s := BatchStatement{ID: []byte{1}, Values: make([]wire.Value, rng.IntN(20))}
			if rng.IntN(3) == 0 {
				s.ID, s.Query = nil, text[:min(len(text), rng.IntN(50))]
			}
			b.Statements = append(b.Statements, s)
		}
		return OpBatch, b.Append(nil, v), func(c *wire.Cursor) error { return new(Batch).Consume(c, v) }
	}
}

// DecodedBytes is at least what decoding a request allocates, and not many times more. It allocates nothing.
func TestDecodedBytesIsWhatIsAllocated(t *testing.T) {
	const classes = 5 // an allocation of a size class is up to a fourth larger, and a page
	rng := rand.New(rand.NewPCG(23, 3))
	for range 300 {
		v := Version(3 + rng.IntN(3))
		op, body, decode := randomBody(rng, v)
		c := wire.NewCursor(body)
		n := DecodedBytes(op, c, v)
		if got := testing.AllocsPerRun(1, func() { DecodedBytes(op, c, v) }); got != 0 {
			t.Fatalf("%v of %d bytes: DecodedBytes allocates %v times", op, len(body), got)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode(&c)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if used := int(after.TotalAlloc - before.TotalAlloc); used > n+n/(classes-1)+16<<10 || n > 4*used+4<<10 {
			t.Errorf("%v of %d bytes, v%d: %d bytes were allocated, DecodedBytes returned %d", op, len(body), v, used,
				n)
		}
	}
}

// Damaged requests are counted without a panic, and with no more than their size allows.
func FuzzDecodedBytes(f *testing.F) {
	rng := rand.New(rand.NewPCG(23, 4))
	for range 20 {
		op, body, _ := randomBody(rng, V5)
		f.Add(uint8(op), body)
	}
	f.Fuzz(func(t *testing.T, op uint8, body []byte) {
		for v := V3; v <= V5; v++ {
			if n := DecodedBytes(Opcode(op), wire.NewCursor(body), v); n < 0 || n > 27*len(body) {
				t.Errorf("%d bytes for a body of %d", n, len(body))
			}
		}
	})
}
