package audit

import "time"

const (
	// queueEntriesMax bounds the entries in the queue: 65,536 entries of 300 bytes are 20 MiB.
	queueEntriesMax = 65536
	// queueBytesDefault is the default of max_queue_weight. Cassandra's default is 256 MiB, which here is the bound
	// for all requests of CQL clients.
	queueBytesDefault = 16 << 20
	// operationBytesMax bounds the text of an operation. Longer texts are cut.
	operationBytesMax = 64 << 10
	// errorBytesMax bounds the text of an error, and namesBytesMax names, such as those of a role that cannot log in.
	errorBytesMax = 8 << 10
	namesBytesMax = 512
	// bufferKeep is the maximum size of pooled buffers, in bytes.
	bufferKeep = 64 << 10
	// batchKeep is the maximum size of the writer's two buffers that is kept for reuse, in bytes.
	batchKeep = 1 << 20

	// logBytesDefault is Cassandra's default of max_log_size. A file has one filesIn-th of it, within the other
	// bounds: the last one removed is then a small part of the history.
	logBytesDefault = 16 << 30
	// logBytesMin is the least max_log_size: four files of the least size.
	logBytesMin  = 4 << 20
	filesIn      = 16
	fileBytesMin = 1 << 20
	fileBytesMax = 256 << 20

	// writeBytesMax bounds one write, so that rotation by size is accurate.
	writeBytesMax = 256 << 10

	// retryWait is the pause after a failed write.
	retryWait = time.Second
)
