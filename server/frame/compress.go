package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/golang/snappy"
	"github.com/pierrec/lz4/v4"
)

// Compression is the algorithm a connection negotiated in STARTUP. In v3 and v4 it applies to the body of each
// envelope, in v5 to each segment. The zero value is no compression, so a connection has it until STARTUP.
type Compression uint8

// The algorithms. Snappy exists in v3 and v4 only.
const (
	NoCompression Compression = iota
	LZ4
	Snappy
)

// String returns the name in SUPPORTED and STARTUP.
func (c Compression) String() string {
	switch c {
	case LZ4:
		return "lz4"
	case Snappy:
		return "snappy"
	default:
		return ""
	}
}

// ParseCompression parses the COMPRESSION option of STARTUP for version v. The name is compared without regard to case.
// Errors are *ProtocolError. An empty name is the absence of the option.
func ParseCompression(name string, v Version) (Compression, error) {
	switch strings.ToLower(name) {
	case "":
		return NoCompression, nil
	case "lz4":
		return LZ4, nil
	case "snappy":
		// The segments of v5 are defined for LZ4 only.
		if v >= V5 {
			return 0, protocolError("Snappy compression is not supported in protocol V5")
		}
		return Snappy, nil
	default:
		return 0, protocolError("Unknown compression algorithm: " + name)
	}
}

// ErrDecompress is the error for a body that cannot be decompressed. The server answers it like other malformed input
// and keeps the connection, because the next header can be found.
var ErrDecompress = errors.New("frame: body cannot be decompressed")

// Smaller bodies are sent uncompressed: the flag is per envelope, and a row of 200 bytes shrinks by a sixth at ten
// times the cost of copying it.
const bodyCompressMin = 512

// The maximum expansion of a compressed byte: LZ4 adds 255 to a length per byte, and snappy's densest element encodes
// 64 bytes in 3. Larger declared sizes are refused before a buffer of that size is allocated.
const (
	lz4RatioMax    = 255
	snappyRatioMax = 64
)

// Compressor shares the work memory of compression (128 KiB for LZ4) among many connections. It is safe for concurrent
// use. Work memory that is not in use is left to the garbage collector (sync.Pool). Snappy needs none.
type Compressor struct {
	lz4 sync.Pool // of *lz4.Compressor
}

// NewCompressor returns a Compressor without any work memory yet.
func NewCompressor() *Compressor {
	return &Compressor{lz4: sync.Pool{New: func() any { return new(lz4.Compressor) }}}
}

// CompressBody compresses the body of the finished v3 or v4 envelope that begins at offset start of dst, if that makes
// it smaller, and returns dst. It must not be called for STARTUP, which the specification never compresses. The length
// in the header is set again, and the flag only if the compressed form is used, so a receiver must look at the flag.
func (c *Compressor) CompressBody(dst []byte, start int, algorithm Compression) []byte {
	body := start + HeaderSize
	size := len(dst) - body
	if algorithm == NoCompression || size < bodyCompressMin {
		return dst
	}
	// The compressed form is written after the body, in the same buffer, and moved over it if it is smaller. So nothing
	// else is allocated.
	end := len(dst)
	switch algorithm {
	case LZ4:
		// An LZ4 block does not contain its size, so v3 and v4 put it before the block, big-endian. Snappy has its own.
		dst = binary.BigEndian.AppendUint32(dst, uint32(size))
		var ok bool
		if dst, ok = c.appendLZ4Block(dst, dst[body:end]); !ok {
			return dst[:end]
		}
	case Snappy:
		// snappy.Encode allocates unless its destination has room for the worst case.
		dst = slices.Grow(dst, snappy.MaxEncodedLen(size))
		n := len(snappy.Encode(dst[end:cap(dst)], dst[body:end]))
		dst = dst[:end+n]
	}
	// It is not smaller; the body stays.
	if len(dst)-end >= size {
		return dst[:end]
	}
	dst = dst[:body+copy(dst[body:], dst[end:])]
	AddFlags(dst, start, FlagCompressed)
	FinishEnvelope(dst, start)
	return dst
}

// appendLZ4Block appends src as an LZ4 block that is smaller than src, or returns false if that is impossible. src may
// be a part of dst. The block has no size before it.
func (c *Compressor) appendLZ4Block(dst, src []byte) ([]byte, bool) {
	start := len(dst)
	dst = slices.Grow(dst, lz4.CompressBlockBound(len(src)))
	// Each goroutine takes a compressor of its own for the call.
	z := c.lz4.Get().(*lz4.Compressor)
	n, err := z.CompressBlock(src, dst[start:start+lz4.CompressBlockBound(len(src))])
	c.lz4.Put(z)
	// n is zero for data that does not compress.
	if err != nil || n == 0 || n >= len(src) {
		return dst[:start], false
	}
	return dst[:start+n], true
}

// DecompressedSize returns the declared size of the body of a v3 or v4 envelope with FlagCompressed. It fails if the
// size is above sizeMax, or impossible for the number of bytes. The caller reserves memory by it before it
// decompresses.
//
//	LZ4       size 4 B, big-endian | block
//	Snappy    block, which begins with its size as a varint
//
// A negative or huge size is an error of the protocol like any size above sizeMax.
func DecompressedSize(body []byte, algorithm Compression, sizeMax int) (size int, err error) {
	switch algorithm {
	case LZ4:
		if len(body) < 4 {
			return 0, ErrDecompress
		}
		// Big-endian, as Cassandra writes it; the LZ4 block itself has no size.
		size = int(binary.BigEndian.Uint32(body))
		return size, checkDeclared(size, len(body), lz4RatioMax, sizeMax)
	case Snappy:
		if size, err = snappy.DecodedLen(body); err != nil {
			return 0, ErrDecompress
		}
		return size, checkDeclared(size, len(body), snappyRatioMax, sizeMax)
	default:
		return 0, protocolError("Received a compressed message, but no compression was negotiated")
	}
}

// DecompressBody returns the decompressed body of a v3 or v4 envelope with FlagCompressed. A size above sizeMax fails
// before the allocation. The result is newly allocated, and belongs to the caller. body is not changed.
func DecompressBody(body []byte, algorithm Compression, sizeMax int) ([]byte, error) {
	size, err := DecompressedSize(body, algorithm, sizeMax)
	if err != nil {
		return nil, err
	}
	switch algorithm {
	case LZ4:
		return appendLZ4Decompressed(make([]byte, 0, size), body[4:], size)
	default:
		out, err := snappy.Decode(make([]byte, size), body)
		if err != nil {
			return nil, ErrDecompress
		}
		return out, nil
	}
}

// checkDeclared refuses a declared size that is too large or impossible. Only the former is an error of the protocol.
func checkDeclared(size, compressed, ratioMax, sizeMax int) error {
	if size > sizeMax {
		return protocolError(fmt.Sprintf("Decompressed body of %d bytes is larger than the maximum of %d", size,
			sizeMax))
	}
	// No input of this length can have that output, so the size is wrong or the input is corrupt.
	if size > compressed*ratioMax {
		return ErrDecompress
	}
	return nil
}

// appendLZ4Decompressed decompresses an LZ4 block of size bytes and appends the result. The error is ErrSegmentLZ4,
// also for bodies of v3 and v4.
func appendLZ4Decompressed(dst, block []byte, size int) ([]byte, error) {
	// lz4 refuses an empty block.
	if size == 0 {
		return dst, nil
	}
	start := len(dst)
	if size > len(block)*lz4RatioMax {
		return dst, ErrSegmentLZ4
	}
	dst = slices.Grow(dst, size)
	n, err := lz4.UncompressBlock(block, dst[start:start+size])
	// A block that is shorter than declared is corrupt as well.
	if err != nil || n != size {
		return dst[:start], ErrSegmentLZ4
	}
	return dst[:start+size], nil
}
