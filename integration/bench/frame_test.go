package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/iotest"
)

func answer(stream byte, body []byte) []byte {
	b := []byte{0x84, 0, 0, stream, opResult, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[5:], uint32(len(body)))
	return append(b, body...)
}

func TestFrameReaderOverAnyChunks(t *testing.T) {
	var all []byte
	for i := range byte(50) {
		all = append(all, answer(i, bytes.Repeat([]byte{i}, int(i)*37))...)
	}
	for _, src := range []io.Reader{bytes.NewReader(all), iotest.OneByteReader(bytes.NewReader(all)),
		iotest.HalfReader(bytes.NewReader(all))} {
		r := &frameReader{src: src, buf: make([]byte, 64)}
		for i := range byte(50) {
			h, body, err := r.next()
			if err != nil || h[3] != i || len(body) != int(i)*37 || (i > 0 && body[len(body)-1] != i) {
				t.Fatalf("answer %d: %x, %d bytes, %v", i, h, len(body), err)
			}
		}
		if _, _, err := r.next(); err != io.EOF {
			t.Fatalf("after the last answer: %v", err)
		}
	}
}

func TestCheckAnswer(t *testing.T) {
	rows := func(flags, n uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, kindRows)
		b = binary.BigEndian.AppendUint32(b, flags)
		b = binary.BigEndian.AppendUint32(b, 2)
		return binary.BigEndian.AppendUint32(b, n)
	}
	h := answer(0, nil)
	for _, c := range []struct {
		body []byte
		rows int
		ok   bool
	}{
		{[]byte{0, 0, 0, 1}, 0, true}, {[]byte{0, 0, 0, 1}, 1, false}, {rows(4, 100), 100, true},
		{rows(4, 99), 100, false},
		{rows(6, 100), 100, false}, {rows(4, 1), 0, false},
	} {
		if err := checkAnswer(h, c.body, c.rows); (err == nil) != c.ok {
			t.Errorf("%x for %d rows: %v", c.body, c.rows, err)
		}
	}
	h[4] = 0
	if checkAnswer(h, append([]byte{0, 0, 0x22, 0, 0, 1}, 'x'), 0) == nil {
		t.Error("an ERROR was accepted")
	}
}
