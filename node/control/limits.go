package control

import "time"

const (
	// requestBytesMax bounds the arguments of an operation: names and a key, which is at most 64 KiB.
	requestBytesMax = 1 << 20
	// answerBytesMax bounds one line of an answer: the ring of 1,000 nodes with 256 tokens of 60 bytes
	// each is 15 MiB.
	answerBytesMax = 64 << 20
	// headerTimeout and headerBytesMax bound what a client can hold before it has said what it wants.
	headerTimeout  = 5 * time.Second
	headerBytesMax = 16 << 10
	// operationsMax is how many operations run at once; one waits in a connection of 64 KiB or so.
	operationsMax = 64
	// progressEvery is how often a client hears of progress: what a person can see.
	progressEvery = 100 * time.Millisecond
	// socketPathMax is how long the path of a socket may be: sun_path has 108 bytes on Linux and 104
	// on the BSDs, the last of them zero.
	socketPathMax = 103
)
