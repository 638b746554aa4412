package bench

import (
	"math"
	"time"
)

// backoff is how long to wait before trying again what a server was too busy for. Exponential, so that the
// load goes down; with chance in it, so that those who were refused together do not come back together.
// (Azure's guide to partitioning, "Retry strategy".)
type backoff struct {
	base time.Duration // z: what the first wait is about, besides least
	min  time.Duration // zmin
	max  time.Duration // zmax
	rand func() float64
}

// wait is y = Rand(0.8z, 1.2z)(2^x − 1), and with it min(zmin + y, zmax), before the x-th retry, from 1 on.
func (b *backoff) wait(x int) time.Duration {
	z := float64(b.base)
	y := (0.8*z + b.rand()*0.4*z) * (math.Exp2(float64(x)) - 1)
	return time.Duration(min(float64(b.min)+y, float64(b.max)))
}

// again says whether the request may be tried again: the server was busy, failed or was late. Other
// refusals will not change.
func again(status int) bool { return status == 503 || status == 500 || status == 504 }
