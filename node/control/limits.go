package control

import "time"

const (
	// requestBytesMax bounds the arguments of an operation: names and a key, which is at most 64 KiB. All sizes are in
	// bytes.
	requestBytesMax = 1 << 20
	// answerBytesMax bounds one line of an answer: the ring of 1,000 nodes with 256 tokens of 60 bytes
	// each is 15 MiB.
	answerBytesMax = 64 << 20
	// headerTimeout and headerBytesMax bound the resources of a client before its request is complete.
	headerTimeout  = 5 * time.Second
	headerBytesMax = 16 << 10
	// operationsMax is the maximum number of concurrent operations. Each waits in a connection of about 64 KiB.
	operationsMax = 64
	// closeGrace is the time that running operations have to respond when the server closes.
	closeGrace = 500 * time.Millisecond
	// progressEvery is the minimum interval between two progress lines; people cannot follow faster updates.
	progressEvery = 100 * time.Millisecond
	// socketPathMax is the maximum length of the path of a socket: sun_path has 108 bytes on Linux and 104 on the BSDs,
	// including a zero at the end.
	socketPathMax = 103
)
