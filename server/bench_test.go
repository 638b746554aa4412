package server

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"cqld/internal/cputime"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/ring"
	"cqld/server/frame"
)

// BenchmarkServer measures the server alone: EXECUTE of seven values answered by one
// row, with a client that keeps a window of requests in flight. cpu-µs/op is
// the CPU of this process, client included.
func BenchmarkServer(b *testing.B) {
	row := rowsOf(1, "a row of two hundred bytes or so "+strings.Repeat(".", 81))
	row.NoMetadata = true
	_, addr := start(b, Options{Processor: &fake{
		execute: func(*request.Request, *query.Session, []byte, *query.Params) (*query.Result, error) {
			copied := *row
			return &copied, nil
		},
	}})
	for _, v := range []frame.Version{4, 5} {
		for _, window := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("v%d/inflight=%d", v, window), func(b *testing.B) { benchmarkWindow(b, addr, v, window) })
		}
	}
}

// TestRequestsAllocateLittle bounds what a request that is alone on its connection allocates in the server: its body,
// and the Result of this Processor.
func TestRequestsAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	row := rowsOf(1, "a row")
	row.NoMetadata = true
	_, addr := start(t, Options{Processor: &fake{
		execute: func(*request.Request, *query.Session, []byte, *query.Params) (*query.Result, error) {
			copied := *row
			return &copied, nil
		},
	}})
	for _, v := range []frame.Version{4, 5} {
		c := connect(t, addr, v)
		e := frame.Execute{ID: make([]byte, 16), ResultMetadataID: make([]byte, 16),
			Params: frame.Params{Consistency: ring.Quorum}}
		one := envelope(v, frame.OpExecute, 1, 0, e.Append(nil, v))
		if v >= 5 {
			one = frame.AppendSegments(nil, one, nil)
		}
		in := &counter{conn: c.net, framed: v >= 5}
		ask := func() {
			if _, err := c.net.Write(one); err != nil {
				t.Fatal(err)
			}
			for n := 0; n == 0; {
				var err error
				if n, err = in.read(); err != nil {
					t.Fatal(err)
				}
			}
		}
		least := testing.AllocsPerRun(200, ask)
		for range 5 { // other goroutines of the process are counted, too
			least = min(least, testing.AllocsPerRun(200, ask))
		}
		const most = 2
		if least > most {
			t.Errorf("v%d: %v allocations, want at most %d", v, least, most)
		}
	}
}

func benchmarkWindow(b *testing.B, addr string, v frame.Version, window int) {
	c := connect(b, addr, v)
	c.net.SetDeadline(time.Time{})
	values := make([]wire.Value, 7)
	for i := range values {
		values[i] = wire.BytesValue([]byte("a value of thirty bytes, so ..."))
	}
	e := frame.Execute{ID: make([]byte, 16), ResultMetadataID: make([]byte, 16),
		Params: frame.Params{Consistency: ring.Quorum, Values: values}}
	one := envelope(v, frame.OpExecute, 1, 0, e.Append(nil, v))
	if v >= 5 {
		one = frame.AppendSegments(nil, one, nil)
	}
	var batch []byte
	for range window {
		batch = append(batch, one...)
	}
	before := cputime.Process()
	b.ReportAllocs()
	b.ResetTimer()
	in := &counter{conn: c.net, framed: v >= 5}
	sent, received := 0, 0
	for received < b.N {
		if n := min(window-(sent-received), b.N-sent); n > 0 && (n >= window/4 || n == b.N-sent) {
			if _, err := c.net.Write(batch[:n*len(one)]); err != nil {
				b.Fatal(err)
			}
			sent += n
		}
		n, err := in.read()
		if err != nil {
			b.Fatal(err)
		}
		received += n
	}
	b.ReportMetric(float64(cputime.Process()-before)/1000/float64(b.N), "cpu-µs/op")
}

// counter counts the envelopes that arrive without looking at them.
type counter struct {
	conn   net.Conn
	framed bool
	buf    []byte
}

func (r *counter) read() (envelopes int, err error) {
	if r.buf == nil {
		r.buf = make([]byte, 0, 1<<18)
	}
	n, err := r.conn.Read(r.buf[len(r.buf):cap(r.buf)])
	if err != nil {
		return 0, err
	}
	r.buf = r.buf[:len(r.buf)+n]
	rest := r.buf
	for {
		size, inside := 0, rest
		if r.framed {
			h, err := frame.DecodeSegmentHeader(rest, false)
			if err != nil {
				break
			}
			size = frame.SegmentHeaderSize(false) + h.PayloadLength + frame.SegmentTrailerSize
			if len(rest) < size {
				break
			}
			inside = rest[frame.SegmentHeaderSize(false) : size-frame.SegmentTrailerSize]
		}
		counted := 0
		for len(inside) >= frame.HeaderSize {
			n := frame.HeaderSize + int(binary.BigEndian.Uint32(inside[5:]))
			if len(inside) < n {
				break
			}
			inside = inside[n:]
			counted++
			if !r.framed {
				size += n
			}
		}
		if counted == 0 {
			break
		}
		envelopes += counted
		rest = rest[size:]
	}
	r.buf = r.buf[:copy(r.buf, rest)]
	return envelopes, nil
}
