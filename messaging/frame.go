package messaging

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"cqld/internal/intake"
)

// A frame carries envelopes. A receiver processes the envelopes of a frame after it has checked the frame's checksum.
//
//	frame := checksum(4) length(4) stamp(8) envelope*
//
// checksum is the CRC-32C of all bytes that follow it. length counts the bytes that follow it. stamp is the time of the
// sender's hybrid logical clock when it wrote the frame.
const (
	frameChecksum = 4
	frameLength   = 4
	frameStamp    = 8
	frameHeader   = frameChecksum + frameLength + frameStamp
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errChecksum means that the bytes of a frame were corrupted in transit, or that the sender does not speak the
// protocol.
var errChecksum = errors.New("messaging: the checksum of a frame is wrong")

// errFrameLength means that a frame is longer than the receiver allows, or too short to be one.
var errFrameLength = errors.New("messaging: the length of a frame is out of bounds")

// beginFrame appends the header of an empty frame. Its length includes the stamp, so an empty frame is valid.
func beginFrame(dst []byte) []byte {
	return append(dst, 0, 0, 0, 0, 0, 0, 0, frameStamp, 0, 0, 0, 0, 0, 0, 0, 0)
}

// setFrameLength sets the length of a frame that ends the buffer.
func setFrameLength(frame []byte) {
	binary.BigEndian.PutUint32(frame[frameChecksum:], uint32(len(frame)-frameChecksum-frameLength))
}

// sealFrames sets stamps and checksums of consecutive frames, whose lengths are set. The stamp is drawn when the
// frames are written, not when their messages were queued, so that the receiver's clock does not lag by the time in
// the queue.
func sealFrames(frames []byte, stamp int64) {
	for len(frames) > 0 {
		// The next frame begins where the length of this one ends.
		n := frameChecksum + frameLength + int(binary.BigEndian.Uint32(frames[frameChecksum:]))
		binary.BigEndian.PutUint64(frames[frameChecksum+frameLength:], uint64(stamp))
		binary.BigEndian.PutUint32(frames, crc32.Checksum(frames[frameChecksum:n], castagnoli))
		frames = frames[n:]
	}
}

// frameReader reads frames from a connection. Frames of at most receiveBufferMax bytes are checked and processed in a
// buffer that is reused; one read of the connection may return many of them. The memory of a larger frame is reserved
// before its body is read. A frameReader is not safe for concurrent use.
type frameReader struct {
	src io.Reader
	// lengthMax returns the greatest length of the next frame.
	lengthMax func() int
	// memory holds the large frames of all connections. abort ends the connection when its large frame arrives too
	// slowly and others need the memory. They wait for it until stop is closed.
	memory *intake.Intake
	abort  func()
	stop   <-chan struct{}

	buf        []byte // buf[start:end] is received and not processed
	start, end int
	large      *intake.Body // reserves the memory of the latest frame; nil unless that is large
}

// next returns stamp and envelopes of the next frame. They are valid until the next call. The error is io.EOF when the
// connection ended between two frames.
func (r *frameReader) next() ([]byte, error) {
	r.release()
	// The header is checked before the body is read.
	if err := r.fill(frameHeader); err != nil {
		return nil, err
	}
	header := r.buf[r.start:r.end]
	length := int64(binary.BigEndian.Uint32(header[frameChecksum:]))
	if limit := r.lengthMax(); length < frameStamp || length > int64(limit) {
		return nil, fmt.Errorf("%w: %d is not within [%d, %d]", errFrameLength, length, frameStamp, limit)
	}
	frame, err := r.frame(frameChecksum + frameLength + int(length))
	if err != nil {
		return nil, err
	}
	// After a wrong checksum, the connection cannot be used, because the length itself may be wrong.
	if crc32.Checksum(frame[frameChecksum:], castagnoli) != binary.BigEndian.Uint32(frame) {
		return nil, errChecksum
	}
	return frame[frameChecksum+frameLength:], nil
}

// release returns the memory of a large frame.
func (r *frameReader) release() {
	r.large.End()
	r.large = nil
}

// frame returns the next n bytes.
func (r *frameReader) frame(n int) ([]byte, error) {
	// Large frames are rare. Each gets separate memory, which is released after the frame.
	if n > receiveBufferMax {
		return r.largeFrame(n)
	}
	if err := r.fill(n); err != nil {
		return nil, err
	}
	frame := r.buf[r.start : r.start+n]
	r.start += n
	return frame, nil
}

// fill reads until the buffer holds n bytes that are not processed. n is at most receiveBufferMax.
func (r *frameReader) fill(n int) error {
	have := r.end - r.start
	if have >= n {
		return nil
	}
	// The last read filled the buffer, so the next one gets a larger buffer.
	if full := r.end == len(r.buf); full && len(r.buf) < receiveBufferMax || n > len(r.buf) {
		grown := make([]byte, min(max(2*len(r.buf), n, receiveBufferMin), receiveBufferMax))
		copy(grown, r.buf[r.start:r.end])
		r.buf = grown
	} else {
		copy(r.buf, r.buf[r.start:r.end])
	}
	r.start, r.end = 0, have
	k, err := io.ReadAtLeast(r.src, r.buf[have:], n-have)
	r.end += k
	// The connection may end only between two frames.
	if err == io.EOF && have > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// largeFrame reads a frame of n bytes, whose header is in the buffer, into memory of its own.
func (r *frameReader) largeFrame(n int) ([]byte, error) {
	// Admit may wait. Meanwhile the connection is not read, which slows its sender down.
	body, err := r.memory.Admit(int64(n), true, r.abort, r.stop)
	if err != nil {
		return nil, fmt.Errorf("messaging: receive a frame of %d bytes: %w", n, err)
	}
	r.large = body
	frame := make([]byte, n)
	have := copy(frame, r.buf[r.start:r.end])
	r.start += have
	body.Received(have)
	for have < n {
		// The body is read in steps, so that the intake sees the progress.
		k, err := io.ReadAtLeast(r.src, frame[have:], min(n-have, receiveBufferMin))
		have += k
		body.Received(k)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	body.Complete()
	return frame, nil
}
