package bench

import (
	"math"
	"time"
)

// backoff calculates how long a client waits before it retries a request that a busy server refused. The wait is
// exponential, which reduces the load, and random, so that clients refused at the same time do not retry together
// (Azure's guide to partitioning, "Retry strategy"). It has no state, so all workers share one.
type backoff struct {
	base time.Duration // z: about the first wait, without the minimum
	min  time.Duration // zmin
	max  time.Duration // zmax
	// rand returns a number in [0, 1); tests replace it.
	rand func() float64
}

// wait returns the time to wait before the x-th retry, counted from 1: min(zmin + y, zmax), where y = Rand(0.8z,
// 1.2z)(2^x − 1). With the defaults of the command (30 s, 3 s, 90 s), the waits are 27 to 39 s, 75 to 90 s, and then 90
// s.
func (b *backoff) wait(x int) time.Duration {
	z := float64(b.base)
	// The range [0.8z, 1.2z) becomes 0.8z plus a random part of 0.4z. Large x exceed the range of Duration, so the
	// minimum is taken in floating point.
	y := (0.8*z + b.rand()*0.4*z) * (math.Exp2(float64(x)) - 1)
	return time.Duration(min(float64(b.min)+y, float64(b.max)))
}

// again reports whether the client should retry: the server was busy, failed or timed out. Other refusals are
// permanent. 503 is ServerBusy, 500 is InternalError or OperationTimedOut, and proxies return 504.
func again(status int) bool { return status == 503 || status == 500 || status == 504 }
