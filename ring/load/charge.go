package load

// The charge of a request is the work that it causes on one replica, in units of a point read of a row of 1 KiB. It is
// linear in the number of requests and in their bytes, so it follows from the counters of a range without a counter of
// its own. The ratios are the processor times of the storage engine (docs/adr/0055): a read costs chargeOfRead plus its
// bytes, and a write costs more, because each of its bytes is written to the log and again by flushes and compactions.
const (
	chargeOfRead      = 0.9
	chargeOfReadByte  = 0.1 / 1024
	chargeOfWrite     = 1.2
	chargeOfWriteByte = 0.8 / 1024
)

// Charge returns the charge of requests on one replica, in units of a point read of 1 KiB. The arguments are numbers,
// or all of them numbers per second. bytesOut are the bytes that reads return, bytesIn the bytes of mutations.
func Charge(reads, writes, bytesOut, bytesIn float64) float64 {
	return chargeOfRead*reads + chargeOfReadByte*bytesOut + chargeOfWrite*writes + chargeOfWriteByte*bytesIn
}
