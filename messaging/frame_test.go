package messaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"cqld/internal/intake"
	"cqld/internal/wire"
)

// framesOf returns a sealed frame for each payload, with one envelope.
func framesOf(payloads ...[]byte) (all []byte) {
	for i, p := range payloads {
		start := len(all)
		all = appendEnvelope(beginFrame(all), &envelope{kind: request, verb: VerbRead, id: uint64(i), payload: p})
		setFrameLength(all[start:])
	}
	sealFrames(all, 42)
	return all
}

func readerOf(src io.Reader, limit int) *frameReader {
	return &frameReader{src: src, lengthMax: func() int { return limit },
		memory: intake.New(intake.DefaultLimits(1 << 20)), abort: func() {}}
}

// readAll returns the bodies of all frames.
func readAll(r *frameReader) (bodies [][]byte, err error) {
	defer r.release()
	for {
		b, err := r.next()
		if err != nil {
			return bodies, err
		}
		bodies = append(bodies, bytes.Clone(b))
	}
}

// A reader returns the frames that were sent, however the network cuts the bytes.
func TestFramesDoNotDependOnReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	var payloads [][]byte
	for range 60 {
		n := r.IntN(200)
		switch r.IntN(10) {
		case 0:
			n = r.IntN(2 * receiveBufferMax)
		case 1:
			n = receiveBufferMax - frameHeader - envelopeHeader + r.IntN(3) - 1
		}
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		payloads = append(payloads, p)
	}
	sent := framesOf(payloads...)
	sources := map[string]io.Reader{
		"at once": bytes.NewReader(sent),
		"halves":  iotest.HalfReader(bytes.NewReader(sent)),
		"random":  &randomReader{bytes.NewReader(sent), r},
		"bytes":   iotest.OneByteReader(bytes.NewReader(sent)),
	}
	for name, src := range sources {
		bodies, err := readAll(readerOf(src, 1<<20))
		if err != io.EOF || len(bodies) != len(payloads) {
			t.Fatalf("%s: %d frames, %v", name, len(bodies), err)
		}
		for i, b := range bodies {
			if binary.BigEndian.Uint64(b) != 42 || !bytes.Equal(b[frameStamp+envelopeHeader:], payloads[i]) {
				t.Fatalf("%s: frame %d differs", name, i)
			}
		}
	}
}

// randomReader returns random numbers of bytes.
type randomReader struct {
	io.Reader
	r *rand.Rand
}

func (r *randomReader) Read(b []byte) (int, error) {
	return r.Reader.Read(b[:min(len(b), 1+r.r.IntN(1+r.r.IntN(100_000)))])
}

// No change of one bit and no truncation delivers a frame that was not sent.
func TestDamagedFramesAreRefused(t *testing.T) {
	payloads := [][]byte{[]byte("first"), nil, []byte("the third payload")}
	sent := framesOf(payloads...)
	whole, _ := readAll(readerOf(bytes.NewReader(sent), 1000))
	check := func(what string, at int, damaged []byte) error {
		bodies, err := readAll(readerOf(bytes.NewReader(damaged), 1000))
		if len(bodies) >= len(whole) {
			t.Fatalf("%s %d: all frames are accepted", what, at)
		}
		for i, b := range bodies {
			if !bytes.Equal(b, whole[i]) {
				t.Fatalf("%s %d: frame %d differs", what, at, i)
			}
		}
		return err
	}
	for bit := range 8 * len(sent) {
		damaged := bytes.Clone(sent)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := check("bit", bit, damaged); !errors.Is(err, errChecksum) && !errors.Is(err, errFrameLength) &&
			err != io.ErrUnexpectedEOF {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	boundaries := map[int]bool{}
	for i := range payloads {
		boundaries[len(framesOf(payloads[:i]...))] = true
	}
	for n := range sent {
		if err := check("length", n, sent[:n]); (err == io.EOF) != boundaries[n] {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// The length of a frame is checked before memory is allocated for it.
func TestLengthsAreCheckedBeforeAllocation(t *testing.T) {
	for _, length := range []uint32{0, frameStamp - 1, 1001, 1 << 31, 1<<32 - 1} {
		b := beginFrame(nil)
		binary.BigEndian.PutUint32(b[frameChecksum:], length)
		r := readerOf(bytes.NewReader(b), 1000)
		if _, err := r.next(); !errors.Is(err, errFrameLength) || len(r.buf) > receiveBufferMin {
			t.Errorf("length %d: %v, buffer of %d bytes", length, err, len(r.buf))
		}
	}
}

// A connection that stops in the middle of a large frame ends when another one needs the memory.
func TestStalledLargeFrameReleasesMemory(t *testing.T) {
	memory := intake.New(intake.Limits{Bytes: 1 << 20, WaitMax: 10 * time.Second, Grace: 20 * time.Millisecond,
		RateMin: 1})
	big := framesOf(make([]byte, 700<<10))
	stalled, w := io.Pipe()
	first := readerOf(stalled, 1<<20)
	first.memory, first.abort = memory, func() { stalled.CloseWithError(errSilent) }
	ended := make(chan error, 1)
	go func() {
		_, err := first.next()
		first.release()
		ended <- err
	}()
	if _, err := w.Write(big[:len(big)/2]); err != nil {
		t.Fatal(err)
	}
	second := readerOf(bytes.NewReader(big), 1<<20)
	second.memory = memory
	if _, err := second.next(); err != nil {
		t.Errorf("the second frame: %v", err)
	}
	if err := <-ended; !errors.Is(err, errSilent) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the stalled frame: %v", err)
	}
	second.release()
	if used, aborted := memory.Used(); used != 0 || aborted != 1 {
		t.Errorf("%d bytes are reserved, %d frames were aborted", used, aborted)
	}
}

// FuzzFrames reads arbitrary bytes as frames. The frames that it accepts equal the input when they are encoded again.
func FuzzFrames(f *testing.F) {
	f.Add(framesOf([]byte("hello"), nil))
	f.Add(framesOf(make([]byte, 3000)))
	f.Add(beginFrame(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		bodies, err := readAll(readerOf(bytes.NewReader(b), 1<<16))
		if err == nil {
			t.Fatal("no error at the end")
		}
		rest := b
		for _, body := range bodies {
			n := frameChecksum + frameLength + len(body)
			frame := bytes.Clone(rest[:n])
			sealFrames(frame, int64(binary.BigEndian.Uint64(body)))
			if !bytes.Equal(frame, rest[:n]) || !bytes.Equal(body, rest[frameChecksum+frameLength:n]) {
				t.Fatalf("%x was read from %x", body, rest[:n])
			}
			rest = rest[n:]
		}
	})
}

// FuzzHandshake reads arbitrary bytes as the hello or the answer of a peer.
func FuzzHandshake(f *testing.F) {
	n := NewStreamTransport(Options{Cluster: "c", Limits: DefaultLimits()})
	n.SetSelf(7)
	f.Add(appendHandshake(nil, ProtocolVersion, appendHello(nil, n.identities.Load().present, n.self(),
		OldestProtocol)))
	f.Add(appendHandshake(nil, ProtocolVersion+1, nil))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Add([]byte("cqld\x00\x06\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		version, body, err := readHandshake(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := appendHandshake(nil, version, body); !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %x", b, again)
		}
		c := wire.NewCursor(body)
		cluster, node, err := consumeIdentity(&c)
		if err == nil && (len(body) < len(cluster)+8 || !bytes.HasPrefix(body, cluster[:]) ||
			binary.BigEndian.Uint64(body[len(cluster):]) != uint64(node)) {
			t.Fatalf("%x is node %d", body, node)
		}
	})
}
