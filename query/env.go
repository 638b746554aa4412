package query

import "cqld/request"

// environment provides clocks, UUIDs and warnings to the functions of one statement.
type environment struct {
	*request.Request // for warnings
	p                *Processor
	millis           int64
}

// NowMillis returns the time at which the statement began.
func (e *environment) NowMillis() int64 { return e.millis }

// TimeUUID returns a new time-based UUID.
func (e *environment) TimeUUID() [16]byte { return e.p.ids.TimeUUID(e.millis) }

// RandomUUID returns a new random UUID.
func (e *environment) RandomUUID() [16]byte { return e.p.ids.RandomUUID() }

// nowSeconds returns the time that determines what has expired: the request's, or the clock's.
func (p *Processor) nowSeconds(params *Params) int64 {
	if params.HasNow {
		return params.NowInSeconds
	}
	return p.o.Clock.Now().Unix()
}
