package bucket

import "time"

const (
	// attemptsMax is how often a request is sent. With the delays, a service may fail for 12 seconds.
	attemptsMax = 7
	// delayMin is the pause before the first repetition. It doubles up to delayMax.
	delayMin = 200 * time.Millisecond
	delayMax = 5 * time.Second
	// stallMax is how long a request waits for the service, without a byte in either direction.
	stallMax = 30 * time.Second
	// connectMax bounds the connection and its TLS handshake, each.
	connectMax = 10 * time.Second
	// idleMax is how long a connection is kept for the next request. Stores are opened for one step of a backup.
	idleMax = 30 * time.Second
)

// ObjectBytesMax bounds objects. It is what Azure Blob Storage, which has the lowest limit, accepts in one request.
// Files of the storage engine are far smaller.
const ObjectBytesMax = 5000 << 20
