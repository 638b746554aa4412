package restriction

import (
	"math"
)

const (
	// keysMax bounds the product of the keys or rows in lists of IN: each takes some 100 bytes.
	keysMax = 1 << 17
	// keyBytesMax is the maximum size of partition keys and written clusterings.
	keyBytesMax = math.MaxUint16
)
