package server

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/server/frame"
)

// The memory of a compressed body is reserved by the size that it declares, before it is decompressed: small requests
// that stand for large ones cannot take more than the bound.
func TestCompressedBodiesStayWithinTheBound(t *testing.T) {
	const bound, size = 8 << 20, 1 << 20
	compressor := frame.NewCompressor()
	for _, algorithm := range []frame.Compression{frame.LZ4, frame.Snappy} {
		processor, running, open := gate()
		s, addr := start(t, Options{Processor: processor,
			Limits: Limits{InFlightBytesMax: bound, ConnectionBytesMax: bound}})
		body := compressor.CompressBody(envelope(4, frame.OpQuery, 1, 0, queryBody(4, strings.Repeat("x", size))), 0,
			algorithm)
		if len(body) > size/10 {
			t.Fatalf("%v: a body of %d bytes is no bomb", algorithm, len(body))
		}
		var heap runtime.MemStats
		var clients sync.WaitGroup
		for range 40 {
			c := connect(t, addr, 4, frame.StringPair{Key: "COMPRESSION", Value: algorithm.String()},
				frame.StringPair{Key: "THROW_ON_OVERLOAD", Value: "1"})
			c.writeRaw(body)
			clients.Go(func() { c.tryRead() })
		}
		eventually(t, "some run", func() bool { return running.Load() >= 4 })
		for range 20 {
			if n := s.InFlightBytes(); n > bound+1<<20 {
				t.Errorf("%v: %d bytes are in flight with a bound of %d", algorithm, n, bound)
			}
			time.Sleep(5 * time.Millisecond)
		}
		runtime.GC()
		runtime.ReadMemStats(&heap)
		if heap.HeapAlloc > 4*bound {
			t.Errorf("%v: %d bytes are allocated with a bound of %d", algorithm, heap.HeapAlloc, bound)
		}
		open()
		clients.Wait()
		if n := running.Load(); n > 8 {
			t.Errorf("%v: %d were executed concurrently", algorithm, n)
		}
		eventually(t, "all is free", func() bool { return s.InFlightBytes() == 0 })
	}
}

// Clients that send all but the end of large requests and wait take no memory that others need: small requests continue
// as if these clients did not exist, and large requests get their turn when the slow clients have been disconnected.
func TestSlowBodiesHoldNoNeededMemory(t *testing.T) {
	for _, v := range []frame.Version{4, 5} {
		s, addr := start(t, Options{Limits: Limits{FrameBytesMax: 1 << 20, InFlightBytesMax: 8 << 20,
			ReceivingBytesMax: 4 << 20, ReceiveTimeout: time.Hour}})
		large := envelope(v, frame.OpQuery, 1, 0, queryBody(v, strings.Repeat("x", 900<<10)))
		if v >= 5 {
			large = frame.AppendSegments(nil, large, nil)
		}
		steady := connect(t, addr, v)
		steady.works()
		for range 24 {
			c := connect(t, addr, v)
			go c.net.Write(large[:len(large)-100<<10])
		}
		eventually(t, "the slow ones have what there is", func() bool { return s.InFlightBytes() > 2<<20 })
		for range 20 { // to wait for the slow ones would take an hour
			steady.works()
			connect(t, addr, v).works()
		}
		begun := time.Now()
		steady.writeRaw(large)
		if h, _ := steady.read(); h.Opcode != frame.OpResult {
			t.Errorf("v%d: a large request is answered by %v", v, h.Opcode)
		}
		t.Logf("v%d: a large request took %v", v, time.Since(begun))
		if n := s.InFlightBytes(); n > 12<<20 {
			t.Errorf("v%d: %d bytes are in flight", v, n)
		}
	}
}

// A request whose first part has arrived and that waits for memory is not slow: clients that need the memory of first
// parts do not end its connection.
func TestWaitingForMemoryIsNotSlow(t *testing.T) {
	for _, v := range []frame.Version{4, 5} {
		s, addr := start(t, Options{Limits: Limits{FrameBytesMax: 1 << 20, InFlightBytesMax: 8 << 20,
			ReceivingBytesMax: 1 << 20}})
		large := envelope(v, frame.OpQuery, 1, 0, queryBody(v, strings.Repeat("x", 700<<10)))
		if v >= 5 {
			large = frame.AppendSegments(nil, large, nil)
		}
		steady := connect(t, addr, v)
		steady.works()
		c := connect(t, addr, v)
		c.writeRaw(large[:len(large)-100<<10])
		eventually(t, "the slow one has the memory", func() bool { return s.Receiving() > 512<<10 })
		steady.writeRaw(large)
		for range 8 { // more than there are first parts
			c := connect(t, addr, v)
			go c.net.Write(large[:len(large)-100<<10])
		}
		if h, _ := steady.read(); h.Opcode != frame.OpResult {
			t.Errorf("v%d: the request is answered by %v", v, h.Opcode)
		}
		steady.works()
	}
}

// A client that sends steadily is served, however slowly, while no other request needs its memory.
func TestSingleSlowClientIsServed(t *testing.T) {
	_, addr := start(t, Options{})
	c := connect(t, addr, 4)
	e := envelope(4, frame.OpQuery, 1, 0, queryBody(4, strings.Repeat("x", 100<<10)))
	for len(e) > 0 {
		n := min(len(e), 8<<10)
		c.writeRaw(e[:n])
		e = e[n:]
		time.Sleep(20 * time.Millisecond)
	}
	if h, _ := c.read(); h.Opcode != frame.OpResult {
		t.Errorf("answered by %v", h.Opcode)
	}
}
