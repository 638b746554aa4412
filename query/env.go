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

// moment is the time of a statement.
type moment struct {
	millis  int64
	seconds int64 // determines what has expired
}

// moment returns the clock's time, with the seconds of the request if it has some.
func (p *Processor) moment(params *Params) moment {
	now := p.o.Clock.Now()
	m := moment{millis: now.UnixMilli(), seconds: now.Unix()}
	if params.HasNow {
		m.seconds = params.NowInSeconds
	}
	return m
}
